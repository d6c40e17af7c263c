"""Files → portions: runs of records of a few megabytes, the unit that one process digests at a time.

How files are cut depends on them alone, never on who reads the portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from handoff.framing import Damaged, Record, SourceFile

PORTION = 2 * 1024 * 1024
"""Bytes of records after which a portion ends. A longer record is a portion alone."""
_MOST = 4_000
"""Records of a portion, however short."""


class Met(NamedTuple):
    """A record, or a stretch that gives none."""

    read: int
    """Bytes of its file that had been read by then."""
    damage: Damaged | None
    """Why there is no record."""


class Portion(NamedTuple):
    """Consecutive records, and what was met between them."""

    met: list[Met | SourceFile]
    """In order, each record and each stretch that gives none; a file where it is over."""
    records: list[Record]
    """The records, in the same order."""
    size: int
    """Their bytes."""


def portions(paths: Sequence[Path], *, limit: int, relative_to: Path | None) -> Iterator[Portion]:
    """Cut files into portions, one after the other."""
    met: list[Met | SourceFile] = []
    records: list[Record] = []
    size = 0
    for path in paths:
        source = SourceFile(path, limit=limit, relative_to=relative_to)
        for item in source:
            if isinstance(item, Damaged):
                met.append(Met(source.bytes, item))
            else:
                met.append(Met(source.bytes, None))
                records.append(item)
                size += len(item.data)
            if size >= PORTION or len(met) >= _MOST:
                yield Portion(met, records, size)
                met, records, size = [], [], 0
        met.append(source)
    yield Portion(met, records, size)
