"""The ``str_replace`` family of editors: what ``str_replace``, ``insert`` and ``undo_edit`` leave of a file.

One tool of Anthropic's began it; SWE-agent's, OpenHands' and others are descendants that differ in three things: what
they do to tabs, how an insertion joins its neighbours, and what they try when the old text does not occur. All of them
read with universal line ends and write line feeds, so a file with carriage returns loses them all at its first edit.
What is kept for ``undo_edit`` is the text as the editor had read it, not the bytes of the file.

Facts: SWE-agent 1.0 to 1.1, openhands-aci 0.1.0 to 0.3.3, openhands-tools 1.58.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from handoff.actions import Dialect
from handoff.editors.plain import Misfit, Unknowable, encoded


class Version(NamedTuple):
    """What one range of releases does."""

    expands_file: bool
    """Whether ``str_replace`` turns the whole file's tabs into blanks, and writes them so."""
    expands_text: bool
    """Whether tabs of the call's texts become blanks; ``insert`` then expands the file too."""
    inserts: Literal["pieces", "lines"]
    """``pieces``: between the parts that line feeds separate. ``lines``: each new line gets a line feed, whatever the
    line before it ends with."""
    strips: Literal["", "both", "old"] = ""
    """Whose outer white space goes when the old text does not occur, before it is looked for again."""
    reads_latin: bool = False
    """Whether a file that is not UTF-8 is read, and written, as Latin-1."""


SWEAGENT = Version(True, True, "pieces", reads_latin=True)
"""SWE-agent 1.x, as Anthropic's first demonstration."""
OPENHANDS_0_1_0 = Version(False, True, "pieces")
OPENHANDS_0_1 = Version(True, True, "pieces")
OPENHANDS_0_2 = Version(True, True, "lines")
OPENHANDS_0_2_11 = Version(False, False, "lines")
OPENHANDS_0_3 = Version(False, False, "lines", "both")
OPENHANDS_SDK = Version(False, False, "lines", "old")

_EXPANDING = (OPENHANDS_0_1_0, OPENHANDS_0_1, OPENHANDS_0_2)
_KEEPING = (OPENHANDS_0_2_11, OPENHANDS_0_3, OPENHANDS_SDK)

VERSIONS: dict[Dialect, tuple[Version, ...]] = {
    "sweagent": (SWEAGENT,),
    "openhands": _EXPANDING + _KEEPING,
    "openhands_expands": _EXPANDING,
    "openhands_keeps": _KEEPING,
    "str_replace": (SWEAGENT, *_EXPANDING, *_KEEPING),
    "str_replace_expands": (SWEAGENT, *_EXPANDING),
    "str_replace_keeps": _KEEPING,
}
"""The releases that a dialect may stand for."""


def replaced(data: bytes, old: str, new: str, version: Version) -> bytes:
    """``data`` after ``str_replace``. ``Misfit``: this version refuses. ``Unknowable``: its encoding is guessed."""
    text, encoding = _read(data, version)
    if version.expands_file:
        text = text.expandtabs()
    if version.expands_text:
        old, new = old.expandtabs(), new.expandtabs()
    found = text.count(old)
    if not found and version.strips:
        old = old.strip()
        new = new.strip() if version.strips == "both" else new
        found = text.count(old)
    if found != 1:
        raise Misfit("the text to replace occurs more than once" if found else "the text to replace does not occur")
    return _written(text.replace(old, new, 1), encoding)


def inserted(data: bytes, line: int, new: str, version: Version) -> bytes:
    """``data`` after ``insert`` behind line ``line`` (0: before the first). Raises as ``replaced`` does."""
    text, encoding = _read(data, version)
    if version.expands_text:
        text, new = text.expandtabs(), new.expandtabs()
    lines = text.split("\n")
    brought = new.split("\n")
    if version.inserts == "lines":
        lines = [f"{piece}\n" for piece in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
        brought = [f"{piece}\n" for piece in brought]
    if not 0 <= line <= len(lines):
        raise Misfit(f"line {line} does not exist; the file has {len(lines)}")
    between = "" if version.inserts == "lines" else "\n"
    return _written(between.join([*lines[:line], *brought, *lines[line:]]), encoding)


def remembered(data: bytes, version: Version, *, is_insert: bool) -> bytes:
    """What ``undo_edit`` will write back after an edit of ``data``. Raises as ``replaced`` does."""
    text, encoding = _read(data, version)
    expands = version.expands_text and version.inserts == "pieces" if is_insert else version.expands_file
    return _written(text.expandtabs() if expands else text, encoding)


def _read(data: bytes, version: Version) -> tuple[str, str]:
    encoding = "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if not version.reads_latin:
            raise Unknowable("the editor guesses the encoding of a file that is not UTF-8") from None
        encoding = "latin-1"
        text = data.decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n"), encoding


def _written(text: str, encoding: str) -> bytes:
    if encoding == "utf-8":
        return encoded(text)
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        raise Unknowable("the text has characters that the file's encoding lacks") from None
