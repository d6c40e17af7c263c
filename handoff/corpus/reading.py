"""Files → the tables ``sources``, ``raw_trajectories``, ``steps`` and ``quarantine``, in one streamed pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from handoff.corpus.crew import Crew, usual_workers
from handoff.corpus.digest import Digest, Reading, Reject, Run, reject
from handoff.corpus.files import files, size_of
from handoff.corpus.links import Links
from handoff.corpus.portions import Met, Portion, portions
from handoff.corpus.slices import Slices
from handoff.corpus.spill import Spill
from handoff.framing import RECORD_LIMIT, SourceFile
from handoff.framing.losses import Losses
from handoff.lake import ROW_GROUP, Lake, make_folder

_FLUSH = 16 * 1024 * 1024
"""Characters collected before a batch is written."""
_FEW = 64 * 1024 * 1024
"""Bytes of files that are read before another process has started."""

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
    workers: int | None = None,
) -> IngestReport:
    """Read ``paths`` into the four tables of ``shard``; ``raw_trajectories`` is written last.

    A trajectory that occurs twice (equal content or equal bytes) is kept once. Files inside ``relative_to`` are
    named from there, others as given. ``workers``: processes in all, this one among them (``None``: ``usual_workers``);
    few bytes are read by this one alone, and the tables are the same bytes however many there are.

    ``LakeError`` when the disk is full; ``InputError`` when a path does not exist; ``WorkerError`` when a process dies.
    """
    found = list(files(paths))
    reading = _Pass(found, progress)
    others = (usual_workers() if workers is None else workers) - 1 if reading.total >= _FEW else 0
    make_folder(lake.root)
    with (
        Crew(others) as crew,
        Spill(lake, "raw_trajectories") as heads,
        Spill(lake, "quarantine") as rejects,
        Spill(lake, "sources") as sources,
    ):
        digests = crew.digests(portions(found, limit=record_limit, relative_to=relative_to))
        lake.write("steps", reading.step_batches(digests, heads, rejects, sources), inputs=inputs, shard=shard)
        for spill in (sources, rejects):
            lake.write(spill.table, spill.batches(), inputs=inputs, shard=shard)
        lake.write("raw_trajectories", reading.linked(heads.batches()), inputs=inputs, shard=shard)
    return reading.report()


class _Pass:
    """One pass over the files: yields step batches, spills the rest."""

    def __init__(self, paths: list[Path], progress: Progress | None) -> None:
        self.paths = paths
        self.progress = progress
        self.total = sum(size_of(path) for path in paths)
        self.done = 0
        self.records = self.kept = self.n_steps = self.duplicates = self.quarantined = 0
        self.orphans = self.unanswered = self.repairs = self.continued = self.side_files = self.lost = 0
        self.nearest: dict[str, int] = {}
        self._before = (0, 0, 0, 0)
        """Counts when the present file began."""
        self._losses: Losses = Counter()
        """Of the present file."""
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

    def step_batches(
        self, digests: Iterator[tuple[Portion, Digest]], heads: Spill, rejects: Spill, sources: Spill
    ) -> Iterator[pa.RecordBatch]:
        """The rows of ``steps``; those of the other tables go to their spills on the way."""
        steps, head = Slices(), Slices()
        for portion, found in digests:
            step_row = 0
            for head_row, run in enumerate(self._runs(portion, found.readings, rejects, sources)):
                if self._is_kept(run):
                    if steps.rows and (steps.rows + run.steps > ROW_GROUP or steps.size > _FLUSH):
                        yield steps.batch()
                    steps.add(found.steps, step_row, run.steps, run.size)
                    head.add(found.heads, head_row, 1, run.head_size)
                    if head.rows >= ROW_GROUP or head.size > _FLUSH:
                        heads.add(head.batch())
                step_row += run.steps
        if steps.rows:
            yield steps.batch()
        if head.rows:
            heads.add(head.batch())

    def _runs(self, portion: Portion, readings: Sequence[Reading], rejects: Spill, sources: Spill) -> Iterator[Run]:
        """All runs of a portion; what is no run is counted or quarantined."""
        waiting = iter(readings)
        for met in portion.met:
            if not isinstance(met, Met):
                self._close(met, sources)
                continue
            self.records += 1
            if met.damage is not None:
                self._reject(rejects, reject(met.damage.error, met.damage.sha256, met.damage.head))
            else:
                reading = next(waiting)
                for row in reading.rejects:
                    self._reject(rejects, row)
                self._losses.update(reading.losses)
                self.repairs += reading.repairs
                yield from reading.runs
            self._tell(self.done + met.read)

    def _close(self, source: SourceFile, sources: Spill) -> None:
        """A file is over."""
        records, kept, quarantined, duplicates = self._before
        self.done += source.bytes
        self.side_files += source.framing == "side file"
        self.lost += sum(times for (_, reason), times in self._losses.items() if reason is None)
        in_order = sorted(self._losses.items(), key=lambda loss: (loss[0][0], loss[0][1] or ""))
        sources.add_row(
            path=source.name,
            sha256=source.sha256,
            bytes=source.bytes,
            framing=source.framing,
            records=self.records - records,
            trajectories=self.kept - kept,
            repeated=self.duplicates - duplicates,
            quarantined=self.quarantined - quarantined,
            losses=[{"field": field, "reason": reason, "count": times} for (field, reason), times in in_order],
        )
        self._before = (self.records, self.kept, self.quarantined, self.duplicates)
        self._losses = Counter()
        self._tell(self.done)

    def _tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.total)

    def _reject(self, rejects: Spill, row: Reject) -> None:
        self.quarantined += 1
        guess = row["nearest"] or ""
        self.nearest[guess] = self.nearest.get(guess, 0) + 1
        rejects.add_row(**row)

    def _is_kept(self, run: Run) -> bool:
        """Whether a run was not seen before; it is counted."""
        names = (run.id.encode(), run.origin)
        if any(name in self._seen for name in names):
            self.duplicates += 1
            return False
        self._seen.update(names)
        self._ids.append(run.id)
        self._links.add(run.chain)
        self.kept += 1
        self.n_steps += run.steps
        self.orphans += run.orphans
        self.unanswered += run.unanswered
        return True
