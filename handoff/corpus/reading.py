"""Files → the tables ``sources``, ``raw_trajectories``, ``steps`` and ``quarantine``, in one streamed pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from handoff.actions import context_of, trajectory_keys
from handoff.adapters import Record, convert, nearest
from handoff.adapters.framing import RECORD_LIMIT, Damaged, SourceFile, head_text
from handoff.corpus.columns import HeadColumns, StepColumns
from handoff.corpus.files import files, size_of
from handoff.corpus.spill import Spill
from handoff.corpus.splits import split_of
from handoff.errors import RecordError
from handoff.lake import ROW_GROUP, Lake, make_folder
from handoff.trajectory import Trajectory, trajectory_id

_FLUSH = 16 * 1024 * 1024
"""Characters collected before a batch is written."""

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes in all."""


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one ingestion found."""

    files: int
    bytes: int
    records: int
    """Records seen, good and bad."""
    trajectories: int
    steps: int
    duplicates: int
    """Records that repeat an earlier one of this shard; they are left out."""
    quarantined: int
    orphans: int
    """Results whose call is not in the file."""
    unanswered: int
    """Calls without a result."""
    repairs: int
    """Characters replaced because they were no valid text."""
    nearest: dict[str, int]
    """Quarantined records by the format they look most like; ``""`` for none."""


def ingest(
    lake: Lake,
    shard: str,
    paths: Sequence[Path],
    *,
    inputs: str,
    progress: Progress | None = None,
    record_limit: int = RECORD_LIMIT,
    relative_to: Path | None = None,
) -> IngestReport:
    """Read ``paths`` into the four tables of ``shard``; ``raw_trajectories`` is written last.

    A trajectory that occurs twice (equal content or equal bytes) is kept once. Files inside ``relative_to`` are
    named from there, others as given. ``LakeError`` when the disk is full; ``InputError`` when a path does not exist.
    """
    reading = _Reading(list(files(paths)), progress, record_limit, relative_to)
    make_folder(lake.root)
    with (
        Spill(lake, "raw_trajectories") as heads,
        Spill(lake, "quarantine") as rejects,
        Spill(lake, "sources") as sources,
    ):
        lake.write("steps", reading.step_batches(heads, rejects, sources), inputs=inputs, shard=shard)
        for spill in (sources, rejects, heads):
            lake.write(spill.table, spill.batches(), inputs=inputs, shard=shard)
    return reading.report()


class _Reading:
    """One pass over the files: yields step batches, spills the rest."""

    def __init__(
        self, paths: list[Path], progress: Progress | None, record_limit: int, relative_to: Path | None
    ) -> None:
        self.paths = paths
        self.progress = progress
        self.limit = record_limit
        self.relative_to = relative_to
        self.total = sum(size_of(path) for path in paths)
        self.done = 0
        self.records = self.kept = self.n_steps = self.duplicates = self.quarantined = 0
        self.orphans = self.unanswered = self.repairs = 0
        self.nearest: dict[str, int] = {}
        self._seen: set[bytes] = set()

    def report(self) -> IngestReport:
        """What was found so far."""
        return IngestReport(
            files=len(self.paths),
            bytes=self.done,
            records=self.records,
            trajectories=self.kept,
            steps=self.n_steps,
            duplicates=self.duplicates,
            quarantined=self.quarantined,
            orphans=self.orphans,
            unanswered=self.unanswered,
            repairs=self.repairs,
            nearest=dict(sorted(self.nearest.items())),
        )

    def step_batches(self, heads: Spill, rejects: Spill, sources: Spill) -> Iterator[pa.RecordBatch]:
        """The rows of ``steps``; those of the other tables go to their spills on the way."""
        steps, head = StepColumns(), HeadColumns()
        for path in self.paths:
            for record, id_, trajectory in self._kept(path, rejects, sources):
                if steps.rows and (steps.rows + len(trajectory.steps) > ROW_GROUP or steps.bytes > _FLUSH):
                    yield steps.batch()
                    steps = StepColumns()
                keys = trajectory_keys(trajectory.steps, context=context_of(trajectory.format))
                steps.add(id_, trajectory.steps, keys)
                split = trajectory.split or split_of(trajectory.repo, trajectory.task_id)
                head.add(id_, trajectory, split=split, file=record.file, record=record.position, sha256=record.sha256)
                if head.rows >= ROW_GROUP or head.bytes > _FLUSH:
                    heads.add(head.batch())
                    head = HeadColumns()
        if steps.rows:
            yield steps.batch()
        if head.rows:
            heads.add(head.batch())

    def _kept(self, path: Path, rejects: Spill, sources: Spill) -> Iterator[tuple[Record, str, Trajectory]]:
        """The trajectories of one file that were not seen before; everything else is counted or quarantined."""
        source = SourceFile(path, limit=self.limit, relative_to=self.relative_to)
        before = (self.records, self.kept, self.quarantined)
        for item in source:
            self.records += 1
            trajectory = self._convert(item, rejects)
            if trajectory is not None and isinstance(item, Record):
                id_ = trajectory_id(trajectory)
                if not self._is_repeated(id_, item.sha256):
                    self._count(trajectory, item)
                    yield item, id_, trajectory
            if self.progress is not None:
                self.progress(self.done + source.bytes, self.total)
        self.done += source.bytes
        sources.add_row(
            path=source.name,
            sha256=source.sha256,
            bytes=source.bytes,
            framing=source.framing,
            records=self.records - before[0],
            trajectories=self.kept - before[1],
            quarantined=self.quarantined - before[2],
        )
        if self.progress is not None:
            self.progress(self.done, self.total)

    def _convert(self, item: Record | Damaged, rejects: Spill) -> Trajectory | None:
        if isinstance(item, Damaged):
            self._reject(rejects, item.error, item.sha256, item.head, item.nearest)
            return None
        try:
            return convert(item)
        except RecordError as error:
            self._reject(rejects, error.at(item.file, item.position), item.sha256, head_text(item.data), _guess(item))
            return None

    def _reject(self, rejects: Spill, error: RecordError, sha256: str, head: str, guess: str | None) -> None:
        self.quarantined += 1
        self.nearest[guess or ""] = self.nearest.get(guess or "", 0) + 1
        rejects.add_row(
            file=error.file,
            record=error.record,
            field=error.field,
            problem=error.problem,
            remedy=error.remedy,
            nearest=guess,
            raw_sha256=sha256,
            raw_head=head,
        )

    def _is_repeated(self, id_: str, sha256: str) -> bool:
        names = (id_.encode(), bytes.fromhex(sha256)[:16])
        if any(name in self._seen for name in names):
            self.duplicates += 1
            return True
        self._seen.update(names)
        return False

    def _count(self, trajectory: Trajectory, record: Record) -> None:
        self.kept += 1
        self.n_steps += len(trajectory.steps)
        self.repairs += record.repairs
        for step in trajectory.steps:
            for seen in step.observations:
                if seen.is_orphan:
                    self.orphans += 1
                elif seen.missing is not None:
                    self.unanswered += 1


def _guess(record: Record) -> str | None:
    try:
        return nearest(record)
    except RecordError:
        return None
