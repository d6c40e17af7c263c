"""Places of a source file where a remark can stand, or a pair of brackets, and the program stays what it was."""

from __future__ import annotations

import ast
import re
import warnings
from functools import lru_cache
from typing import NamedTuple

MOST_BYTES = 400_000
"""Of a file whose places are looked for."""
COMMENTED = (".py", ".sh", ".rb", ".toml", ".yaml", ".yml")
"""Suffixes of files in which ``#`` begins a comment."""
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=]")


class Value(NamedTuple):
    """An expression on one line, from 0: ``return …``, or what a name is set to."""

    line: int
    start: int
    """Byte in the line."""
    end: int


class Places(NamedTuple):
    """What can be done to a Python file without a change of meaning."""

    remarks: tuple[tuple[int, bytes], ...]
    """(line from 0 above which a comment can stand, its indentation), rising."""
    values: tuple[Value, ...]
    """What can be put in brackets, rising."""


@lru_cache(maxsize=512)
def places_of(data: bytes) -> Places | None:
    """The places of a Python file; ``None`` when it cannot be read as one."""
    if len(data) > MOST_BYTES or any(odd in data for odd in (b"\r", b"\f", b"\0", b"\xef\xbb\xbf")):
        return None
    lines = data.split(b"\n")
    if any(_CODING.match(line) for line in lines[:2]) and not data.isascii():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    remarks: dict[int, bytes] = {}
    values: set[Value] = set()
    blocks: list[list[ast.stmt]] = [tree.body]
    while blocks:
        for statement in blocks.pop():
            line = statement.lineno - 1
            before = lines[line][: statement.col_offset]
            is_first = not before.strip() and not (line and lines[line - 1].endswith(b"\\"))
            if is_first and line >= first_remark(data):
                remarks.setdefault(line, before)
            blocks += _blocks(statement)
            value = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
            if value is not None and value.end_col_offset is not None and value.lineno == value.end_lineno:
                values.add(Value(value.lineno - 1, value.col_offset, value.end_col_offset))
    return Places(tuple(sorted(remarks.items())), tuple(sorted(values)))


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    found = [getattr(statement, name, None) for name in ("body", "orelse", "finalbody")]
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        found.append(part.body)
    return [block for block in found if block]


def with_remarks(path: str, data: bytes, remarks: tuple[tuple[int, str], ...]) -> bytes:
    """The file with comments, each above a line from 0. At a Python file's places they keep the indentation."""
    indents = dict(found.remarks) if path.endswith(".py") and (found := places_of(data)) else {}
    lines = data.splitlines(True) if not indents else [line + b"\n" for line in data.split(b"\n")]
    if indents:
        lines[-1] = lines[-1][:-1]
    for line, remark in sorted(remarks, reverse=True):
        if line and not lines[line - 1].endswith((b"\n", b"\r")):
            lines[line - 1] += b"\n"
        lines.insert(line, indents.get(line, b"") + remark.encode() + b"\n")
    return b"".join(lines)


def first_remark(data: bytes) -> int:
    """The first line, from 0, above which a comment can stand in any file: below a ``#!`` and a coding line."""
    lines = data[:4_000].splitlines()[:2]
    kept = [at for at, line in enumerate(lines, 1) if line.startswith(b"#!") or b"coding" in line.partition(b"#")[2]]
    return max(kept, default=0)
