"""One file of an export, written aside: JSON Lines, the same compressed, or Parquet."""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from handoff.lake import seal
from handoff.samples import Sample

UNKNOWN = "unknown"
_ROW_GROUP = 1_000
_GROUP_BYTES = 16 << 20
_BUFFER = 1 << 20


class Writer(Protocol):
    """Puts rows into a scratch file."""

    suffix: str

    def prepare(self, row: object) -> tuple[Any, int]:
        """The row as it is written, and the bytes that it takes before compression."""
        ...

    def write(self, prepared: Any) -> None:
        """Write what ``prepare`` gave."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class _Lines:
    """JSON Lines, zstd or not."""

    def __init__(self, path: Path, *, compress: bool) -> None:
        self.suffix = ".jsonl.zst" if compress else ".jsonl"
        self._encode = msgspec.json.Encoder().encode
        self._raw: IO[bytes] = path.open("wb", buffering=_BUFFER)
        self._file: Any = zstandard.ZstdCompressor(level=3).stream_writer(self._raw) if compress else self._raw

    def prepare(self, row: object) -> tuple[bytes, int]:
        line = self._encode(row)
        return line, len(line) + 1

    def write(self, prepared: bytes) -> None:
        self._file.write(prepared)
        self._file.write(b"\n")

    def close(self) -> None:
        self._file.close()
        self._raw.close()


class _Table:
    """Parquet, a row group at a time."""

    suffix = ".parquet"

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._pending: list[Any] = []
        self._size = 0

    def prepare(self, row: Any) -> tuple[Any, int]:
        return row, sum(getattr(value, "nbytes", None) or len(str(value)) for value in row.values())

    def write(self, prepared: Any) -> None:
        self._pending.append(prepared)
        self._size += self.prepare(prepared)[1]
        if len(self._pending) >= _ROW_GROUP or self._size >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._pending, schema=self._schema))
            self._pending, self._size = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


class Shard:
    """One open file, and what is in it."""

    def __init__(self, folder: Path, stem: str, number: int, *, schema: pa.Schema | None, compress: bool) -> None:
        self.stem = stem
        self._scratch = folder / f".{secrets.token_hex(8)}.partial"
        self._writer: Writer = (
            _Lines(self._scratch, compress=compress) if schema is None else _Table(self._scratch, schema)
        )
        self.name = f"{stem}-{number:05d}{self._writer.suffix}"
        self.target = folder / self.name
        self.size = 0
        """Bytes before compression."""
        self.bytes = 0
        """On disk, once sealed."""
        self.digest = ""
        self.rows = 0
        self.sample_ids: list[str] = []
        self.licences: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def prepare(self, row: object) -> tuple[Any, int]:
        """The row as files of this kind hold it, and its bytes."""
        return self._writer.prepare(row)

    def add(self, prepared: Any, size: int, sample: Sample) -> None:
        """Write one row of a sample."""
        self._writer.write(prepared)
        self.size += size
        self.rows += 1
        self.sample_ids.append(sample.sample_id)
        self.licences[sample.origin.licence or UNKNOWN] += 1
        counts = sample.token_counts
        self.tokens.update(prompt=counts.prompt, trained=counts.trained, env_output=counts.env_output)

    def seal(self) -> None:
        """Put it in its place."""
        self._writer.close()
        self.bytes, self.digest = seal(self._scratch, self.target)

    def discard(self) -> None:
        """Remove what was not finished."""
        self._writer.close()
        self._scratch.unlink(missing_ok=True)
