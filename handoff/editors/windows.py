"""SWE-agent's windowed editors: what their edits leave of the open file.

0.x was shell: lines are read into an array and printed again, each with a line feed, so the file always ends in one;
taking everything away leaves one empty line. 1.x is Python: it reads with universal line ends and cuts the text at its
line feeds, so the part behind the last one counts as a line, which an edit of lines past the end replaces or follows.

Facts: SWE-agent 0.2 to 0.6.1 (``edit_linting``, ``cursors_edit_linting``), 1.0 to 1.1 and later (``windowed_edit_*``).
"""

from __future__ import annotations

from handoff.actions import LAST_LINE
from handoff.editors.plain import Misfit, Unknowable, encoded, lines_of


def shell_edited(data: bytes, first: int, last: int, typed: str) -> bytes:
    """0.x: lines ``first`` to ``last`` (from 1, inclusive) become the lines of ``typed``, each with its line feed.

    As the shell's array slices go: past the end is the end, and ``last < first`` keeps lines twice.
    """
    if first < 1 or last < 0:
        raise Unknowable("the shell refuses a line number below 1, and what it then writes is not known")
    if b"\0" in data or "\0" in typed:
        raise Unknowable("the shell drops zero bytes")
    lines = [line.removesuffix(b"\n") for line in lines_of(data)]
    brought = [line.removesuffix(b"\n") for line in lines_of(encoded(typed))]
    left = [*lines[: first - 1], *brought, *lines[last:]]
    return b"".join(line + b"\n" for line in left) or b"\n"


def lines_edited(data: bytes, first: int, last: int, typed: str) -> bytes:
    """1.x: the same with Python's slices of the text between line feeds; ``LAST_LINE``: to the last line shown."""
    text = _read(data)
    stop = len(text.splitlines()) if last == LAST_LINE else last
    brought = typed.removesuffix("\n").split("\n")
    if brought == [""]:
        brought = []
    pieces = text.split("\n")
    pieces[first - 1 : stop] = brought
    return encoded("\n".join(pieces))


def replaced(data: bytes, old: str, new: str, first: int, last: int | None) -> bytes:
    """1.x: a text that occurs once among lines ``first`` to ``last`` (``None``: the file's last) is replaced there."""
    text = _read(data)
    stop = len(text.splitlines()) if last is None else last
    pieces = text.split("\n")
    window = "\n".join(pieces[first - 1 : stop])
    _demand_one(window.count(old))
    after = window.replace(old, new)
    pieces[first - 1 : stop] = after.split("\n") if after else []
    return encoded("\n".join(pieces))


def replaced_everywhere(data: bytes, old: str, new: str) -> bytes:
    """1.x: every occurrence in the file; none is refused."""
    text = _read(data)
    if old not in text:
        raise Misfit("the text to replace does not occur")
    return encoded(text.replace(old, new))


def inserted(data: bytes, line: int | None, text: str, *, is_before: bool) -> bytes:
    """1.x: ``text`` as whole lines behind line ``line``, or, as up to 1.0.1, before it; ``None``: at the end, where
    no line feed follows it."""
    content = _read(data)
    if line is None:
        return encoded(content.removesuffix("\n") + "\n" + text if content else text)
    place = line - 1 if is_before else line
    if place < 0:
        return encoded(text + "\n" + content.removeprefix("\n") if content else text)
    pieces = content.split("\n")
    pieces.insert(place, text)
    return encoded("\n".join(pieces))


def _demand_one(found: int) -> None:
    if found != 1:
        raise Misfit("the text to replace occurs more than once" if found else "the text to replace does not occur")


def _read(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Unknowable("the editor reads UTF-8, and the file is not") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
