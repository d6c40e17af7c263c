"""What each kind of edit does to a file's bytes, exactly as the editors do it.

Pure functions on bytes. An edit that cannot have happened on these bytes raises ``Misfit``: the state is then not
what the recording's tool saw, and ``replay`` reports a divergence. Patches are in ``patches``.
"""

from __future__ import annotations

from typing import Literal


class Misfit(Exception):
    """An edit does not fit the file it is applied to. ``str`` says how; caught by ``replay``, never by a user."""


class Unknowable(Exception):
    """What an edit left cannot be derived: the file is unknown from there on. ``str`` says why."""


def encoded(text: str) -> bytes:
    """The bytes a recorded text stood for; lone surrogates become the byte they escape, or CESU bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def replace(
    data: bytes,
    old: str,
    new: str,
    count: Literal["all", "one", "loose"],
    first: int | None = None,
    last: int | None = None,
) -> bytes:
    """Replace text. ``one``: it must occur exactly once, else the editor refuses. ``all``: none is no change.
    ``loose``: the first occurrence; ``Unknowable`` when there is none, as the editor then took something like it.

    ``first``, ``last``: only in these lines (1-based, inclusive; ``last`` ``None``: to the end).
    """
    if first is not None:
        lines = data.split(b"\n")
        shown = replace(b"\n".join(lines[first - 1 : last]), old, new, count)
        return b"\n".join([*lines[: first - 1], shown, *(lines[last:] if last is not None else [])])
    before, after = encoded(old), encoded(new)
    if not before:
        raise Misfit("the text to replace is empty")
    if count == "all":
        return data.replace(before, after)
    if count == "loose":
        if before not in data:
            raise Unknowable("the text to replace does not occur, and the editor accepts what only resembles it")
        return data.replace(before, after, 1)
    found = data.count(before)
    if found == 1 and data.find(before, data.find(before) + 1) == -1:
        return data.replace(before, after)
    if found == 0:
        raise Misfit("the text to replace does not occur")
    raise Misfit("the text to replace occurs more than once")


def insert_lines(data: bytes, line: int | None, text: str) -> bytes:
    """Insert ``text`` as whole lines after line ``line`` (0: before the first; ``None``: at the end, where it stays
    without a line feed)."""
    if line is None:
        return data.removesuffix(b"\n") + b"\n" + encoded(text) if data else encoded(text)
    lines = data.split(b"\n")
    if not 0 <= line <= len(lines):
        raise Misfit(f"line {line} does not exist; the file has {len(lines)}")
    return b"\n".join([*lines[:line], *encoded(text).split(b"\n"), *lines[line:]])


def edit_lines(data: bytes, first: int, last: int, text: str) -> bytes:
    """Replace lines ``first`` to ``last`` (1-based, inclusive, ``last`` clipped to the file) by ``text``.

    ``last = first - 1`` inserts before ``first``. An empty ``text`` deletes. Lines stay whole: a missing final
    newline of ``text`` is added unless the file itself ends there without one.
    """
    lines = lines_of(data)
    if not 1 <= first <= len(lines) + 1 or last < first - 1:
        raise Misfit(f"lines {first} to {last} do not exist; the file has {len(lines)}")
    body = encoded(text)
    head, tail = lines[: first - 1], lines[max(last, first - 1) :]
    ends_open = not tail and bool(lines) and not lines[-1].endswith(b"\n")
    if head and not head[-1].endswith(b"\n") and body:
        head[-1] += b"\n"
    if body and not body.endswith(b"\n") and not ends_open:
        body += b"\n"
    return b"".join([*head, body, *tail])


def lines_of(data: bytes) -> list[bytes]:
    """Lines with their line feeds. Only a line feed ends a line: form feeds and lone carriage returns stay inside."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
