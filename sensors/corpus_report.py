"""The corpus report is made anew when the states of a shard are newer than it, and no shard is being read.

What has been reported is decided from the event log, so nothing is lost with a cursor. A failed run is tried again a
few times.
"""

from dagster import (
    AssetKey,
    AssetRecordsFilter,
    DagsterInstance,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from sensors.jobs import ACTIVE, CORPUS, EVIDENCE, REPORT
from sensors.new_corpus import decide


@sensor(
    job_name=REPORT,
    minimum_interval_seconds=30,
    default_status=DefaultSensorStatus.RUNNING,
    description="Makes the corpus report anew when the states of a shard have changed.",
)
def corpus_report_sensor(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """One run for every state of the shards."""
    instance = context.instance
    active = instance.get_runs(filters=RunsFilter(statuses=list(ACTIVE)))
    if any(run.job_name in (CORPUS, REPORT) for run in active):
        return SkipReason("shards are being read; the report waits for the last of them")
    states = _newest(instance, "repository_states")
    if states < 0:
        return SkipReason("no shard has been read yet")
    if _newest(instance, "corpus_report") > states:
        return SkipReason("the report is up to date")
    evidence = f"corpus:{states}"
    runs = instance.get_runs(filters=RunsFilter(job_name=REPORT, tags={EVIDENCE: evidence}))
    decision = decide([run.status for run in runs])
    if decision.act != "start":
        return SkipReason(f"{evidence}: {decision.act}")
    return RunRequest(run_key=f"{evidence}:{decision.attempt}", tags={EVIDENCE: evidence})


def _newest(instance: DagsterInstance, table: str) -> int:
    """Position in the event log of the newest materialization; -1 when there is none."""
    wanted = AssetRecordsFilter(asset_key=AssetKey(table))
    return max((record.storage_id for record in instance.fetch_materializations(wanted, limit=1).records), default=-1)
