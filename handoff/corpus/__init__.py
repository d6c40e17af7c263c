"""Files → the tables ``sources``, ``raw_trajectories``, ``steps`` and ``quarantine``; and trajectories back.

Everything is streamed: memory does not grow with the size of the files. A record that cannot be read goes to
``quarantine`` with file, record, field and remedy, and the rest is read. What a format means is in
``adapters/``; what the tables look like as columns, in ``columns.py``.
"""

from __future__ import annotations

import hashlib
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from handoff.adapters import Record, convert, nearest
from handoff.adapters.framing import RECORD_LIMIT, Damaged, SourceFile, head_text, label
from handoff.corpus.columns import HeadColumns, StepColumns, read_heads, read_steps
from handoff.corpus.keys import keys_of
from handoff.errors import InputError, LakeError, RecordError
from handoff.identity import identify
from handoff.lake import ROW_GROUP, SCHEMAS, Lake
from handoff.trajectory import Trajectory, trajectory_id

__all__ = ["IngestReport", "files", "fingerprint", "ingest", "split_of", "trajectories"]

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


def files(paths: Sequence[Path]) -> Iterator[Path]:
    """The regular files at ``paths``, folders walked in name order.

    Hidden names, links to folders (which may form loops) and anything that is no regular file are passed
    over inside a folder; a path given by name that does not exist is an ``InputError``.
    """
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise InputError(f"{label(path)}: {error.strerror or error}; check the path") from error
        if stat.S_ISDIR(mode):
            yield from _walk(path)
        elif stat.S_ISREG(mode):
            yield path
        else:
            raise InputError(f"{label(path)}: neither a file nor a folder; give a copy of it")


def fingerprint(paths: Sequence[Path]) -> str:
    """A hash of the files' content, whatever they are called; an unreadable file counts by its name."""
    digests = []
    for path in files(paths):
        try:
            with path.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        except OSError:
            digests.append("unreadable " + label(path))
    return identify("i", "content", *sorted(digests))


def ingest(
    lake: Lake,
    shard: str,
    paths: Sequence[Path],
    *,
    inputs: str,
    progress: Progress | None = None,
    record_limit: int = RECORD_LIMIT,
) -> IngestReport:
    """Read ``paths`` into the four tables of ``shard``; ``raw_trajectories`` is written last.

    A trajectory that occurs twice (equal content or equal bytes) is kept once. ``LakeError`` when the disk is
    full; ``InputError`` when a path does not exist.
    """
    reading = _Reading(list(files(paths)), progress, record_limit)
    lake.root.mkdir(parents=True, exist_ok=True)
    with (
        _Spill(lake, "raw_trajectories") as heads,
        _Spill(lake, "quarantine") as rejects,
        _Spill(lake, "sources") as sources,
    ):
        lake.write("steps", reading.step_batches(heads, rejects, sources), inputs=inputs, shard=shard)
        for spill in (sources, rejects, heads):
            lake.write(spill.table, spill.batches(), inputs=inputs, shard=shard)
    return reading.report()


def trajectories(lake: Lake, shard: str, ids: Collection[str] | None = None) -> Iterator[tuple[str, Trajectory]]:
    """The trajectories of a shard in table order, rebuilt exactly: ``trajectory_id(t)`` is the id given."""
    wanted = None if ids is None else pa.array(sorted(ids), pa.string())
    steps = _step_stream(lake, shard, wanted)
    waiting: list[Any] = []
    for batch in _table(lake, "raw_trajectories", shard, wanted):
        for id_, count, fields in read_heads(batch):
            while len(waiting) < count:
                more = next(steps, None)
                if more is None:
                    raise LakeError(
                        f"steps of {id_} in shard {shard} are missing; delete the shard's tables and ingest it again"
                    )
                waiting.extend(more)
            yield id_, Trajectory(**fields, steps=tuple(waiting[:count]))
            del waiting[:count]


def split_of(repo: str | None, task_id: str | None) -> str:
    """``train`` (80 %), ``validation`` or ``test`` (10 % each) by a hash of the repository, so that no repository
    is on two sides; by task where the repository is unknown, and ``train`` where both are."""
    name = (repo or "").lower() or (task_id or "")
    if not name:
        return "train"
    place = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big") % 10
    return "validation" if place == 8 else "test" if place == 9 else "train"


class _Reading:
    """One pass over the files: yields step batches, spills the rest."""

    def __init__(self, paths: list[Path], progress: Progress | None, record_limit: int) -> None:
        self.paths = paths
        self.progress = progress
        self.limit = record_limit
        self.total = sum(_size(path) for path in paths)
        self.done = 0
        self.records = self.kept = self.n_steps = self.duplicates = self.quarantined = 0
        self.orphans = self.unanswered = self.repairs = 0
        self.nearest: dict[str, int] = {}
        self._seen: set[bytes] = set()

    def report(self) -> IngestReport:
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

    def step_batches(self, heads: _Spill, rejects: _Spill, sources: _Spill) -> Iterator[pa.RecordBatch]:
        steps, head = StepColumns(), HeadColumns()
        for path in self.paths:
            source = SourceFile(path, limit=self.limit)
            before = (self.records, self.kept, self.quarantined)
            for item in source:
                self.records += 1
                trajectory = self._convert(item, rejects)
                if trajectory is not None and isinstance(item, Record):
                    id_ = trajectory_id(trajectory)
                    if self._is_repeated(id_, item.sha256):
                        continue
                    if steps.rows and (steps.rows + len(trajectory.steps) > ROW_GROUP or steps.bytes > _FLUSH):
                        yield steps.batch()
                        steps = StepColumns()
                    steps.add(id_, trajectory.steps, keys_of(trajectory.steps))
                    split = trajectory.split or split_of(trajectory.repo, trajectory.task_id)
                    head.add(id_, trajectory, split=split, file=source.name, record=item.position, sha256=item.sha256)
                    self._count(trajectory, item)
                    if head.rows >= ROW_GROUP or head.bytes > _FLUSH:
                        heads.add(head.batch())
                        head = HeadColumns()
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
        if steps.rows:
            yield steps.batch()
        if head.rows:
            heads.add(head.batch())

    def _convert(self, item: Record | Damaged, rejects: _Spill) -> Trajectory | None:
        if isinstance(item, Damaged):
            self._reject(rejects, item.error, item.sha256, item.head, item.nearest)
            return None
        try:
            return convert(item)
        except RecordError as error:
            self._reject(rejects, error.at(item.file, item.position), item.sha256, head_text(item.data), _guess(item))
            return None

    def _reject(self, rejects: _Spill, error: RecordError, sha256: str, head: str, guess: str | None) -> None:
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


class _Spill:
    """Rows of one table kept on disk until the table is written; the file has no name and dies with us."""

    def __init__(self, lake: Lake, table: str) -> None:
        self.table = table
        self._folder = lake.root
        self._rows: list[dict[str, Any]] = []
        self._file: IO[bytes]
        self._writer: Any

    def __enter__(self) -> _Spill:
        self._file = tempfile.TemporaryFile(dir=self._folder)
        self._writer = pa.ipc.new_stream(
            self._file, SCHEMAS[self.table], options=pa.ipc.IpcWriteOptions(compression="lz4")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._failure(error) from error

    def add_row(self, **row: Any) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROW_GROUP:
            self._flush()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything added, in order."""
        self._flush()
        try:
            self._writer.close()
            self._file.seek(0)
        except OSError as error:
            raise self._failure(error) from error
        yield from pa.ipc.open_stream(self._file)  # type: ignore[arg-type]

    def _failure(self, error: OSError) -> LakeError:
        why = error.strerror or error
        return LakeError(f"{self.table}: cannot write under {self._folder}: {why}; free space there and run again")

    def _flush(self) -> None:
        if self._rows:
            self.add(pa.RecordBatch.from_pylist(self._rows, schema=SCHEMAS[self.table]))
            self._rows = []


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            mode = entry.stat().st_mode
        except OSError:  # a dangling link, or a loop of links
            continue
        if stat.S_ISDIR(mode):
            if not entry.is_symlink():
                yield from _walk(entry)
        elif stat.S_ISREG(mode):
            yield entry


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _guess(record: Record) -> str | None:
    try:
        return nearest(record)
    except RecordError:
        return None


def _table(lake: Lake, table: str, shard: str, wanted: Any) -> Iterator[pa.RecordBatch]:
    path = lake.path(table, shard=shard)
    if not path.exists():
        raise LakeError(f"{table} has no shard {shard!r}; ingest it first")
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROW_GROUP):
            kept = batch if wanted is None else batch.filter(pc.is_in(batch.column("trajectory_id"), value_set=wanted))
            if kept.num_rows:
                yield kept


def _step_stream(lake: Lake, shard: str, wanted: Any) -> Iterator[list[Any]]:
    for batch in _table(lake, "steps", shard, wanted):
        yield read_steps(batch)
