"""Co-evolution rounds: a schedule that starts one, off by default, and a sensor that closes it.

A round is one takeover run per shard, then one run that looks at all of them. Nothing here counts rounds: the
next one is the largest number so far plus one, so that a deleted or skipped round is never started again under
the same name.
"""

from collections.abc import Iterable

from dagster import (
    AssetKey,
    AssetRecordsFilter,
    DagsterInstance,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    MultiPartitionKey,
    RunRequest,
    RunsFilter,
    ScheduleEvaluationContext,
    SensorEvaluationContext,
    SkipReason,
    schedule,
    sensor,
)

from handoff.stages import round_name, round_number
from resources.project import DEMONSTRATIONS
from sensors.jobs import ACTIVE, EVIDENCE, ROUND, TAKEOVER
from sensors.new_corpus import decide


def next_round(rounds: Iterable[str]) -> str:
    """The largest round plus one; names that are not rounds are ignored."""
    numbers = [round_number(name) for name in rounds if name[:1] == "r" and name[1:].isdigit()]
    return round_name(max(numbers, default=-1) + 1)


def takeover_shards(instance: DagsterInstance) -> list[str]:
    """Shards that have been read completely and whose runs can be taken over."""
    return sorted(instance.get_materialized_partitions(AssetKey("view_renderings")) - DEMONSTRATIONS)


@schedule(
    job_name=TAKEOVER,
    cron_schedule="0 3 * * *",
    default_status=DefaultScheduleStatus.STOPPED,
    description="Starts the next co-evolution round: one takeover run per shard. Off until someone switches it on.",
)
def round_schedule(context: ScheduleEvaluationContext) -> list[RunRequest] | SkipReason:
    """One run per shard. While the last round still runs, none is started."""
    running = context.instance.get_runs(filters=RunsFilter(statuses=list(ACTIVE)))
    if any(run.job_name in (TAKEOVER, ROUND) for run in running):
        return SkipReason("the last round is still running")
    shards = takeover_shards(context.instance)
    if not shards:
        return SkipReason("no shard has been read yet: drop recordings into the inbox first")
    new = next_round(context.instance.get_dynamic_partitions("round"))
    context.instance.add_dynamic_partitions("round", [new])
    return [
        RunRequest(run_key=f"{new}:{shard}", partition_key=MultiPartitionKey({"round": new, "shard": shard}))
        for shard in shards
    ]


@sensor(
    job_name=ROUND,
    minimum_interval_seconds=30,
    default_status=DefaultSensorStatus.STOPPED,
    description="Closes the newest round once every shard's takeovers are diagnosed. Goes with the round schedule.",
)
def close_round_sensor(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """One run per state of the diagnoses: a round whose takeovers were run again is closed again."""
    instance = context.instance
    known = sorted((name for name in instance.get_dynamic_partitions("round") if name[1:].isdigit()), key=round_number)
    if not known:
        return SkipReason("no round has been started")
    newest = known[-1]
    active = instance.get_runs(filters=RunsFilter(statuses=list(ACTIVE)))
    if any(run.job_name in (TAKEOVER, ROUND) for run in active):
        return SkipReason(f"{newest} is still running")
    shards = takeover_shards(instance)
    done = instance.get_materialized_partitions(AssetKey("diagnostics"))
    missing = [shard for shard in shards if f"{newest}|{shard}" not in done]
    if missing or not shards:
        return SkipReason(f"{newest} waits for the takeovers of {', '.join(missing) or 'any shard'}")
    diagnosed = _newest(instance, "diagnostics", [f"{newest}|{shard}" for shard in shards])
    if _newest(instance, "round_report", [newest]) > diagnosed:
        return SkipReason(f"{newest} is closed")
    evidence = f"{newest}:{diagnosed}"
    runs = instance.get_runs(filters=RunsFilter(job_name=ROUND, tags={EVIDENCE: evidence}))
    decision = decide([run.status for run in runs])
    if decision.act != "start":
        return SkipReason(f"{newest}: {decision.act}")
    return RunRequest(run_key=f"{evidence}:{decision.attempt}", partition_key=newest, tags={EVIDENCE: evidence})


def _newest(instance: DagsterInstance, table: str, partitions: list[str]) -> int:
    """Position in the event log of the newest materialization; -1 when there is none."""
    wanted = AssetRecordsFilter(asset_key=AssetKey(table), asset_partitions=partitions)
    return max((record.storage_id for record in instance.fetch_materializations(wanted, limit=1).records), default=-1)
