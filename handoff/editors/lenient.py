"""Editors that search for text and accept more than an exact match, or rewrite more than they were told.

What they do with an exact, unique match is derived. A near miss is derived where the editor's way to it is the same
in every release (Aider's leading white space, pi's plain text, Claude Code's quotes); else it is ``Unknowable``. So is
a file whose bytes the editor would change while reading it: carriage returns where releases differ, text that is no
UTF-8.

Facts: aider 0.86, gemini-cli 0.1 to 0.61, pi 0.73, cline 3; Claude Code 2.0 and 2.1 as it was seen to behave.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from handoff.editors.plain import Misfit, Unknowable, encoded

_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("“”„‟", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
_REFERENCE = re.compile(r"\$[$&`']")
"""What a replacement by JavaScript's ``replaceAll`` takes for more than text."""
_NEAR = "the text to replace does not occur, and the editor accepts what only resembles it"
_LINE_END = re.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Beside the line feed, what Python ends a line at."""


def claude_code(data: bytes, old: str, new: str, *, is_every: bool) -> bytes:
    """Claude Code's ``Edit``: taking a whole line's text away takes its line feed too."""
    text = _read(data)
    _demand(old)
    found = text.count(old)
    if not found:
        old, new = _as_quoted(text, old, new)
        found = text.count(old)
    if found > 1 and not is_every:
        raise Misfit("the text to replace occurs more than once")
    if not new and not old.endswith("\n") and f"{old}\n" in text:
        old += "\n"
    return encoded(text.replace(old, new))


def _as_quoted(text: str, old: str, new: str) -> tuple[str, str]:
    """The text of the file that differs from ``old`` in curled quotes alone."""
    straight = old.translate(_STRAIGHT)
    at = text.translate(_STRAIGHT).find(straight)
    if at < 0:
        raise Unknowable(_NEAR)
    if "'" in new or '"' in new:
        raise Unknowable("the quotes of the file are curled, and releases differ in those they write")
    return text[at : at + len(old)], new


def some_edit(data: bytes, old: str, new: str, *, is_every: bool) -> bytes:
    """An ``Edit`` of an unknown harness: known where all do the same with an exact match."""
    _demand(old)
    before, after = encoded(old), encoded(new)
    found = data.count(before)
    if not found:
        raise Unknowable(_NEAR)
    if found > 1 and not is_every:
        raise Unknowable("the text to replace occurs more than once, and editors differ in which they take")
    if b"\r" in data or (not new and not old.endswith("\n") and before + b"\n" in data):
        raise Unknowable("editors of this name differ in what they do to line ends")
    return data.replace(before, after)


def gemini(data: bytes, old: str, new: str, *, is_every: bool) -> bytes:
    """Gemini CLI's ``replace``: an exact match, as often as expected."""
    text = _read(data)
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    _demand(old)
    found = text.count(old)
    if not found:
        raise Unknowable(_NEAR)
    if found > 1 and not is_every:
        raise Misfit("the text to replace occurs more than once")
    after = text.replace(old, new)
    if text.endswith("\n") != after.endswith("\n"):
        raise Unknowable("releases differ in whether they keep the file's last line feed")
    if _REFERENCE.search(new):
        raise Unknowable("releases differ in whether a dollar sign stands for itself")
    return encoded(after)


def pi(data: bytes, pairs: Sequence[tuple[str, str]]) -> bytes:
    """pi's ``edit``: every old text is looked for in the file as it was. When one occurs only in plain form (without
    typographic characters and white space at line ends), the whole file is written in plain form."""
    content = _decoded(data)
    mark = "\ufeff" if content.startswith("\ufeff") else ""
    text = content.removeprefix(mark)
    first = text.find("\n")
    is_crlf = first > 0 and text[first - 1] == "\r"
    text = _fed(text)
    edits = [(_fed(old), _fed(new)) for old, new in pairs]
    for old, _ in edits:
        _demand(old)
    if any(old not in text for old, _ in edits):
        text = _plain(text)
    places: list[tuple[int, int, str]] = []
    for old, new in edits:
        plain = _plain(old)
        wanted = old if old in text else plain
        at = text.find(wanted)
        if at < 0:
            raise Misfit("the text to replace does not occur")
        if plain and _plain(text).count(plain) > 1:
            raise Misfit("the text to replace occurs more than once")
        places.append((at, at + len(wanted), new))
    places.sort(key=lambda place: place[0])
    if any(place[1] > after[0] for place, after in pairwise(places)):
        raise Misfit("texts to replace overlap")
    for start, end, new in reversed(places):
        text = text[:start] + new + text[end:]
    return encoded(mark + (text.replace("\n", "\r\n") if is_crlf else text))


def _plain(text: str) -> str:
    lines = unicodedata.normalize("NFKC", text).split("\n")
    return "\n".join(line.rstrip() for line in lines).translate(_PLAIN)


def _fed(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cline(data: bytes, pairs: Sequence[tuple[str, str]]) -> bytes:
    """Cline's SEARCH/REPLACE blocks: each is looked for behind the one before it. Old texts end in a line feed."""
    text = _read(data)
    done: list[str] = []
    place = 0
    for old, new in pairs:
        if not old.strip("\n") and text:
            raise Unknowable("a block without old text")
        at = text.find(old, place)
        if at < 0:
            raise Unknowable(_NEAR)
        done += [text[place:at], new]
        place = at + len(old)
    return encoded("".join(done) + text[place:])


def aider(data: bytes, old: str, new: str, name: str = "") -> bytes:
    """Aider's block: the first whole lines that are ``old``, else those that differ by one indentation. The file ends
    in a line feed afterwards. ``name``: of the file, which a block may repeat as its first line."""
    text = _read(data)
    if any(side.startswith("```") or _LINE_END.search(side) for side in (old, new)) or _LINE_END.search(text):
        raise Unknowable("a fence, or a character that ends lines for Python alone")
    whole, part, replacement = _whole_lines(text), _block(old, name), _block(new, name)
    found = _placed(whole, part, replacement)
    if found is None and len(part) > 2 and not part[0].strip():
        found = _placed(whole, part[1:], replacement)
    if not found:
        raise Unknowable(_NEAR)
    return encoded(found)


def _whole_lines(text: str) -> list[str]:
    return (text if text.endswith("\n") or not text else f"{text}\n").splitlines(keepends=True)


def _block(text: str, name: str) -> list[str]:
    """A block's lines. One blank line at its end goes, for that is how Aider joins them again."""
    lines = text.splitlines()
    if name and lines and lines[0].strip().endswith(name):
        lines = lines[1:]
    return _whole_lines("\n".join(lines))


def _placed(whole: list[str], part: list[str], replacement: list[str]) -> str | None:
    count = len(part)
    for at in range(len(whole) - count + 1):
        if whole[at : at + count] == part:
            return "".join([*whole[:at], *replacement, *whole[at + count :]]) or None
    indents = [len(line) - len(line.lstrip()) for line in (*part, *replacement) if line.strip()]
    if cut := min(indents, default=0):
        part = [line[cut:] if line.strip() else line for line in part]
        replacement = [line[cut:] if line.strip() else line for line in replacement]
    for at in range(len(whole) - count + 1):
        chunk = whole[at : at + count]
        if any(line.lstrip() != other.lstrip() for line, other in zip(chunk, part, strict=True)):
            continue
        added = {line[: len(line) - len(other)] for line, other in zip(chunk, part, strict=True) if line.strip()}
        if len(added) != 1:
            continue
        (indent,) = added
        shifted = [indent + line if line.strip() else line for line in replacement]
        return "".join([*whole[:at], *shifted, *whole[at + count :]]) or None
    return None


def _demand(old: str) -> None:
    if not old:
        raise Misfit("the text to replace is empty")


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Unknowable("the editor reads UTF-8, and the file is not") from None


def _read(data: bytes) -> str:
    if b"\r" in data:
        raise Unknowable("the editor changes carriage returns, and releases differ in how")
    return _decoded(data)
