"""Files of training data and their rows, one at a time."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from handoff.errors import InputError

_KNOWN = (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst", ".parquet")
_ASIDE = frozenset({"MANIFEST.json", "export_report.json", "dataset_info.json", "handoff-sample.schema.json"})
LONGEST = 64 << 20
"""Bytes of the longest row that is read."""


class Read(NamedTuple):
    """One row, or why it is none."""

    number: int
    """From 1."""
    row: dict[str, Any] | None
    problem: str
    raw: bytes
    """For digests; empty where the row is no text."""


def find(paths: Sequence[Path]) -> list[Path]:
    """Files of rows among these files and below these folders, sorted; hidden ones are passed over.

    ``InputError`` where a path is not there, or none holds any.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_file():
            found[path] = None
        elif path.is_dir():
            for inner in sorted(path.rglob("*")):
                is_hidden = any(part.startswith(".") for part in inner.relative_to(path).parts)
                if not is_hidden and inner.is_file() and inner.name.endswith(_KNOWN) and inner.name not in _ASIDE:
                    found[inner] = None
        else:
            raise InputError(f"{path} is not there; name a file of rows or a folder of such files")
    if not found:
        raise InputError(f"no file of rows in {', '.join(map(str, paths))}; they end in {', '.join(_KNOWN)}")
    return list(found)


def rows(path: Path) -> Iterator[Read]:
    """The rows of one file. A file that breaks off gives a last row that says so."""
    try:
        if path.name.endswith(".parquet"):
            yield from _table(path)
        elif path.name.endswith(".json"):
            yield from _array(path)
        else:
            yield from _lines(path)
    except (OSError, EOFError, UnicodeDecodeError, zstandard.ZstdError, pa.ArrowException) as error:
        yield Read(0, None, f"the file cannot be read further: {error}", b"")


def _lines(path: Path) -> Iterator[Read]:
    with path.open("rb") as raw:
        stream: Any = raw
        if path.name.endswith(".gz"):
            stream = gzip.GzipFile(fileobj=raw)
        elif path.name.endswith(".zst"):
            stream = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
        number = 0
        while line := stream.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                yield Read(number, None, f"longer than {LONGEST >> 20} MB; the rest of the file was not read", b"")
                return
            if line.strip():
                yield _one(number, line.strip())


def _array(path: Path) -> Iterator[Read]:
    if path.stat().st_size > 4 * LONGEST:
        yield Read(0, None, f"a JSON array of more than {4 * LONGEST >> 20} MB; write JSON Lines", b"")
        return
    data = path.read_bytes()
    try:
        values = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        yield from (_one(n, line) for n, line in enumerate(data.splitlines(), 1) if line.strip())
        return
    for number, value in enumerate(values, 1):
        yield _one(number, bytes(value))


def _one(number: int, data: bytes) -> Read:
    try:
        row = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        try:
            row = json.loads(data)  # it takes NaN and halves of surrogate pairs, which are findings of their own
        except (ValueError, RecursionError):
            return Read(number, None, str(error)[:200], b"")
    if not isinstance(row, dict):
        return Read(number, None, f"a JSON {type(row).__name__}, not an object", b"")
    return Read(number, row, "", data)


def _table(path: Path) -> Iterator[Read]:
    number = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=64):
        for row in batch.to_pylist():
            number += 1
            yield Read(number, row, "", b"")
