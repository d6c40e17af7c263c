"""New files in the inbox become shards, and each content is read exactly once.

What has been read is decided from the history of runs, by a hash of the shard's bytes: the same name with new
bytes is read again, the same bytes are not. The cursor only saves work (which shards need no second look);
losing it, or a daemon that dies between storing a partition and storing the cursor, changes nothing. A failed
run is tried again a few times.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from dagster import (
    AddDynamicPartitionsRequest,
    AssetKey,
    AssetRecordsFilter,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from handoff.errors import HandoffError
from resources.project import ProjectResource
from sensors.jobs import ACTIVE, CONTENT, CORPUS

ATTEMPTS = 3
"""Runs of one content, the first included, before the sensor leaves it to a person."""
SETTLE_S = 3.0
"""A file that changed within this many seconds is still being copied."""
LOOKS_PER_TICK = 50
"""Shards examined in one tick: a tick stays short whatever is dropped."""
PARTITION = "dagster/partition"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the cursor keeps of a shard that needs no second look while its files stay as they are."""

    stamp: str
    """Names, sizes and times of its files: cheap to compare, and good enough to know that nothing happened."""
    content: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one content."""

    act: Literal["start", "wait", "done", "give up"]
    attempt: int = 0


def decide(statuses: Sequence[DagsterRunStatus]) -> Decision:
    """From the runs that one content has had. A cancelled one counts as an attempt: a daemon that stops cancels."""
    if DagsterRunStatus.SUCCESS in statuses:
        return Decision(act="done")
    if any(status in ACTIVE for status in statuses):
        return Decision(act="wait")
    if len(statuses) >= ATTEMPTS:
        return Decision(act="give up")
    return Decision(act="start", attempt=len(statuses))


@sensor(
    job_name=CORPUS,
    minimum_interval_seconds=15,
    default_status=DefaultSensorStatus.RUNNING,
    description="Reads what is dropped into the inbox: a file or folder becomes a shard, once per content.",
)
def new_corpus_sensor(context: SensorEvaluationContext, project: ProjectResource) -> SensorResult | SkipReason:
    """Registers shards and requests their runs."""
    opened = project.open()
    try:
        sources = opened.shards()
    except HandoffError as error:
        return SkipReason(str(error))
    seen = _cursor(context.cursor)
    busy = {
        run.tags.get(PARTITION)
        for run in context.instance.get_runs(filters=RunsFilter(job_name=CORPUS, statuses=list(ACTIVE)))
    }
    requests: list[RunRequest] = []
    kept: dict[str, Seen] = {}
    looks = 0
    for shard, source in sources.items():
        stamp = _stamp(source.paths)
        if shard in seen and seen[shard].stamp == stamp:
            kept[shard] = seen[shard]
            continue
        if shard in busy or stamp is None or looks == LOOKS_PER_TICK:
            continue  # looked at again in a later tick
        looks += 1
        try:
            opened.lake.path("raw_trajectories", shard=shard)
            content = project.content(shard)
        except (HandoffError, OSError) as error:
            context.log.warning(f"shard {shard!r} is left out: {error}")
            continue
        decision = decide(_statuses(context.instance, shard, content))
        if decision.act == "start":
            requests.append(
                RunRequest(
                    run_key=f"{shard}:{content}:{decision.attempt}",
                    partition_key=shard,
                    tags={CONTENT: content, "handoff/attempt": str(decision.attempt + 1)},
                )
            )
        elif decision.act != "wait":
            kept[shard] = Seen(stamp=stamp, content=content)
        if decision.act == "give up":
            context.log.warning(f"shard {shard!r} failed {ATTEMPTS} times and is left alone until its files change")
    names = [str(request.partition_key) for request in requests]
    return SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[AddDynamicPartitionsRequest("shard", names)] if names else [],
        cursor=msgspec.json.encode(kept, order="deterministic").decode(),
        skip_reason=None if requests else SkipReason(f"nothing new among {len(sources)} shards in {opened.inbox}"),
    )


def _statuses(instance: DagsterInstance, shard: str, content: str) -> list[DagsterRunStatus]:
    """The runs that read ``content`` as ``shard``: by tag, or by what they materialized when a person started them."""
    runs = instance.get_runs(filters=RunsFilter(job_name=CORPUS, tags={CONTENT: content, PARTITION: shard}))
    statuses = [run.status for run in runs]
    records = instance.fetch_materializations(
        AssetRecordsFilter(asset_key=AssetKey("raw_trajectories"), asset_partitions=[shard]), limit=1
    ).records
    for record in records:
        materialization = record.asset_materialization
        metadata = materialization.metadata.get("content") if materialization else None
        run = instance.get_run_by_id(record.run_id)
        if metadata is not None and metadata.value == content and run is not None and run.job_name == CORPUS:
            statuses.append(run.status) if run.run_id not in {r.run_id for r in runs} else None
    return statuses


def _stamp(paths: Sequence[str]) -> str | None:
    """Names, sizes and times of a shard's files; ``None`` while they are still being written."""
    newest, parts = 0.0, []
    for path in sorted(file for root in paths for file in _files(Path(root))):
        try:
            stat = path.stat()
        except OSError:
            continue  # gone since it was listed: the stamp changes, which is right
        newest = max(newest, stat.st_mtime)
        parts.append(f"{path}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}")
    if time.time() - SETTLE_S < newest <= time.time():
        return None
    from handoff.identity import identify

    return identify("i", "stamp", *parts)


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else [root]


def _cursor(text: str | None) -> dict[str, Seen]:
    """The cursor, or nothing when it is of another version: it only saves work."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Seen])
    except msgspec.DecodeError:
        return {}
