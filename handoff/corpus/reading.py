"""Files → the tables ``sources``, ``raw_trajectories``, ``steps`` and ``quarantine``, in one streamed pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from handoff.actions import context_of, trajectory_keys
from handoff.adapters import Record, convert, nearest
from handoff.corpus.columns import HeadColumns, StepColumns
from handoff.corpus.files import files, size_of
from handoff.corpus.links import Links
from handoff.corpus.spill import Spill
from handoff.errors import RecordError
from handoff.framing import RECORD_LIMIT, Damaged, SourceFile
from handoff.framing.losses import Losses
from handoff.framing.source import head_text
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
    """Runs that repeat an earlier one of this shard; they are left out."""
    continued: int
    """Runs that begin with the whole of another run: kept, and linked to it."""
    quarantined: int
    orphans: int
    """Results whose call is not in the file."""
    unanswered: int
    """Calls without a result."""
    repairs: int
    """Characters replaced because they were no valid text."""
    nearest: dict[str, int]
    """Quarantined records by the format they look most like; ``""`` for none."""
    side_files: int
    """Files that only describe the run beside them; they are read with it."""
    lost: int
    """Values that found no home; by file and field in ``sources``."""


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
        for spill in (sources, rejects):
            lake.write(spill.table, spill.batches(), inputs=inputs, shard=shard)
        lake.write("raw_trajectories", reading.linked(heads.batches()), inputs=inputs, shard=shard)
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
        self.orphans = self.unanswered = self.repairs = self.continued = self.side_files = self.lost = 0
        self.nearest: dict[str, int] = {}
        self._seen: set[bytes] = set()
        self._ids: list[str] = []
        self._links = Links()

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
            continued=self.continued,
            side_files=self.side_files,
            lost=self.lost,
        )

    def linked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of ``raw_trajectories``, each with what it repeats of the others."""
        found = self._links.resolve()
        place = 0
        for batch in batches:
            rows = found[place : place + batch.num_rows]
            place += batch.num_rows
            self.continued += sum(row is not None for row in rows)
            repeats = pa.array([None if row is None else self._ids[row[0]] for row in rows], pa.string())
            counts = pa.array([0 if row is None else row[1] for row in rows], pa.int32())
            columns: dict[str, Any] = {"repeats": repeats, "repeated_steps": counts}
            yield pa.RecordBatch.from_arrays(
                [columns.get(name, batch.column(name)) for name in batch.schema.names], schema=batch.schema
            )

    def step_batches(self, heads: Spill, rejects: Spill, sources: Spill) -> Iterator[pa.RecordBatch]:
        """The rows of ``steps``; those of the other tables go to their spills on the way."""
        steps, head = StepColumns(), HeadColumns()
        for path in self.paths:
            for record, part, id_, trajectory in self._kept(path, rejects, sources):
                if steps.rows and (steps.rows + len(trajectory.steps) > ROW_GROUP or steps.bytes > _FLUSH):
                    yield steps.batch()
                    steps = StepColumns()
                keys = trajectory_keys(trajectory.steps, context=context_of(trajectory.format, trajectory.source))
                steps.add(id_, trajectory.steps, keys)
                head.add(id_, trajectory, file=record.file, record=record.position, part=part, sha256=record.sha256)
                if head.rows >= ROW_GROUP or head.bytes > _FLUSH:
                    heads.add(head.batch())
                    head = HeadColumns()
        if steps.rows:
            yield steps.batch()
        if head.rows:
            heads.add(head.batch())

    def _kept(self, path: Path, rejects: Spill, sources: Spill) -> Iterator[tuple[Record, int, str, Trajectory]]:
        """The runs of one file that were not seen before; everything else is counted or quarantined."""
        source = SourceFile(path, limit=self.limit, relative_to=self.relative_to)
        before = (self.records, self.kept, self.quarantined, self.duplicates)
        losses: Losses = Counter()
        for item in source:
            self.records += 1
            if isinstance(item, Damaged):
                self._reject(rejects, item.error, item.sha256, item.head, None)
            else:
                for part, trajectory in enumerate(self._convert(item, rejects, losses), 1):
                    id_ = trajectory_id(trajectory)
                    if not self._is_repeated(id_, item.sha256, part):
                        self._count(id_, trajectory)
                        yield item, part, id_, trajectory
            if self.progress is not None:
                self.progress(self.done + source.bytes, self.total)
        self.done += source.bytes
        self.side_files += source.framing == "side file"
        self.lost += sum(times for (_, reason), times in losses.items() if reason is None)
        sources.add_row(
            path=source.name,
            sha256=source.sha256,
            bytes=source.bytes,
            framing=source.framing,
            records=self.records - before[0],
            trajectories=self.kept - before[1],
            repeated=self.duplicates - before[3],
            quarantined=self.quarantined - before[2],
            losses=[
                {"field": field, "reason": reason, "count": times}
                for (field, reason), times in sorted(losses.items(), key=lambda loss: (loss[0][0], loss[0][1] or ""))
            ],
        )
        if self.progress is not None:
            self.progress(self.done, self.total)

    def _convert(self, item: Record, rejects: Spill, losses: Losses) -> Sequence[Trajectory]:
        try:
            runs = convert(item)
        except RecordError as error:
            self._reject(rejects, error.at(item.file, item.position), item.sha256, head_text(item.data), _guess(item))
            return ()
        for problem in item.problems:
            self._reject(rejects, problem, item.sha256, head_text(item.data), None)
        losses.update(item.losses())
        self.repairs += item.repairs
        return runs

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

    def _is_repeated(self, id_: str, sha256: str, part: int) -> bool:
        names = (id_.encode(), bytes.fromhex(sha256)[:16] + part.to_bytes(4))
        if any(name in self._seen for name in names):
            self.duplicates += 1
            return True
        self._seen.update(names)
        return False

    def _count(self, id_: str, trajectory: Trajectory) -> None:
        self._ids.append(id_)
        self._links.add(trajectory)
        self.kept += 1
        self.n_steps += len(trajectory.steps)
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
