"""What a recording shows of a file, compared with the state at that step (``docs/science.md §2``).

Every text a tool printed of a file is a checkpoint: a whole file (``cat``), a stretch of it (``sed -n``, ``head``),
numbered lines (SWE-agent's window, the views of editors, ``cat -n``), a hit of ``grep -n``. Clipped output proves
nothing and is passed over. A stretch proves its own lines and no other. Diffs that git printed are in ``gitshown``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

from handoff.actions import Operation, Read, Search

_CLIPPED = re.compile(
    r"<response clipped>|characters? elided|output_?(?:head|tail)|\[?\.{3}.{0,40}truncated|output truncated|"
    r"truncated output|\(Truncated|exceeded maximum|<NOTE>|omitted\]|tokens truncated|lines truncated",
    re.IGNORECASE,
)
REDACTED = re.compile(r"redacted\d*@|\bREDACTED\b|<redacted|\[redacted", re.IGNORECASE)
"""A publisher replaced something in this line: it cannot be compared."""
_WRAPPED = re.compile(r"\s*<returncode>-?\d+</returncode>\s*<output>\n?(.*?)</output>\s*", re.DOTALL)
_WINDOW = re.compile(r"^\[File: (.+) \((\d+) lines total\)\]$", re.MULTILINE)
_WINDOW_LINE = re.compile(r"(\d+):(.*)")
_EDITOR = re.compile(r"result of running `cat -n` on (a snippet of )?(\S+?):?\s*$", re.MULTILINE)
_NUMBERED_LINE = re.compile(r" *(\d+)[\t→](.*)")
_UNCHANGED = re.compile(
    r"[^\n]{0,40}\bfile (?:is unchanged|unchanged|has not changed) since (?:your |the )?last read\b", re.IGNORECASE
)
"""What a tool says in place of a text that it has shown before."""
_REMINDER = re.compile(r"\n*<system-reminder>.*\Z", re.DOTALL)
_HIT = re.compile(r"(?:([^\s:][^:\n]{0,300}):)?(\d{1,7}):(.*)")
_STRANGE_ENDS = ("\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""Characters that some tools take for the end of a line."""
_TOOL_LIMIT = 2_000
"""Lines that reading tools show when they are not told how many."""
_MOST_HITS = 200
_HUNK_LINES = 14
_HUNK_WIDTH = 160


class Shown(NamedTuple):
    """Text of one file as a step printed it."""

    path: str
    """As the tool wrote it; may be absolute. With ``is_placed``: relative to the repository's root."""
    text: str | None = None
    """A run of lines, from ``first`` to ``last`` (``None``: the end). Outer white space may have been trimmed."""
    first: int = 1
    last: int | None = None
    numbered: tuple[tuple[int, str], ...] = ()
    """Lines with their numbers, when the tool printed numbers."""
    expands_tabs: bool = False
    is_whole: bool = False
    """All lines of the file, as far as the tool says; a comparison may find more."""
    is_placed: bool = False
    is_hit: bool = False
    """A search found it: that says nothing of a file that is not there as derived."""


class Agreement(NamedTuple):
    """What a comparison found. Lines are counted from 1, and stretches include both ends."""

    holds: bool
    lines: tuple[tuple[int, int], ...] = ()
    """Stretches of lines that are shown exactly as they are."""
    is_whole: bool = False
    """Every line of the file is shown."""
    is_exact: bool = False
    """Every byte of it is: the end of the file too, and its line ends."""
    hunk: str = ""
    """Where they differ: a short diff from the state to what is shown."""


def shown(operations: Iterable[Operation], observation: str) -> list[Shown]:
    """What an observation shows of files, given the operations of its action."""
    text = unwrapped(observation)
    operations = tuple(operations)
    for read in operations:
        if isinstance(read, Read) and read.is_alone and read.form != "windowed":
            if _EDITOR.search(text):
                break
            return _alone(read, text)
    text = text.replace("\r\n", "\n")
    return _windows(text) + _editor_views(text) + _hits(operations, text)


def unwrapped(observation: str) -> str:
    """The output in an observation that frames it."""
    wrapped = _WRAPPED.fullmatch(observation)
    return wrapped[1] if wrapped else observation


def _alone(read: Read, text: str) -> list[Shown]:
    """An observation that is one file's text and nothing else."""
    if read.form == "numbered":
        text = _REMINDER.sub("", text)
    if _CLIPPED.search(text) or _UNCHANGED.match(text) is not None:
        return []
    first = read.first or 1
    if read.form == "numbered":
        text = text.replace("\r\n", "\n")
        numbered = _consecutive(text)
        if numbered:
            is_all = len(numbered) == text.strip("\n").count("\n") + 1 < _TOOL_LIMIT
            whole = is_all and first == 1 and read.last is None and numbered[0][0] == 1
            return [Shown(read.path, numbered=numbered, is_whole=whole, is_placed=True)]
        if text.lstrip().startswith("<"):
            return []  # framed by the tool: which lines those are is not known
    is_whole = first == 1 and read.last is None
    return [Shown(read.path, text, first, read.last, is_whole=is_whole, is_placed=True)]


def _consecutive(text: str) -> tuple[tuple[int, str], ...]:
    """Lines numbered as ``cat -n`` does, up to the first that is not."""
    numbered: list[tuple[int, str]] = []
    for line in text.strip("\n").split("\n"):
        match = _NUMBERED_LINE.fullmatch(line)
        if match is None or (numbered and int(match[1]) != numbered[-1][0] + 1) or _CLIPPED.search(match[2]):
            break
        numbered.append((int(match[1]), match[2]))
    return tuple(numbered)


def _windows(text: str) -> list[Shown]:
    heads = list(_WINDOW.finditer(text))
    if len(heads) != 1 or "would have looked" in text:
        return []  # none, or a refused edit that prints what it did not do
    lines = text[heads[0].end() :].lstrip("\n").split("\n")
    numbered: list[tuple[int, str]] = []
    for line in lines:
        match = _WINDOW_LINE.fullmatch(line)
        if match is None or (numbered and int(match[1]) != numbered[-1][0] + 1):
            if numbered:
                break
            continue
        numbered.append((int(match[1]), match[2]))
    total = int(heads[0][2])
    whole = bool(numbered) and numbered[0][0] == 1 and numbered[-1][0] == total
    return [Shown(heads[0][1], numbered=tuple(numbered), is_whole=whole)] if numbered else []


def _editor_views(text: str) -> list[Shown]:
    heads = list(_EDITOR.finditer(text))
    if len(heads) != 1:
        return []
    numbered = _consecutive(text[heads[0].end() :])
    if heads[0][1] and numbered and not numbered[-1][1]:
        numbered = numbered[:-1]  # some number what follows the snippet's last line feed
    return [Shown(heads[0][2], numbered=numbered, expands_tabs=True)] if numbered else []


def _hits(operations: tuple[Operation, ...], text: str) -> list[Shown]:
    """Lines that ``grep -n`` found. A hit in a file that the search does not name is passed over."""
    searches = [operation for operation in operations if isinstance(operation, Search)]
    if len(searches) != 1 or len(operations) != 1 or not searches[0].pattern:
        return []
    place = searches[0].path
    found: list[Shown] = []
    for line in text.split("\n")[:_MOST_HITS]:
        match = _HIT.fullmatch(line)
        if match is None or _CLIPPED.search(line):
            continue
        path = match[1]
        if path is None and "." in place.rsplit("/", 1)[-1][1:]:
            path = place
        if path is not None and (place == "." or place == path or path.startswith(f"{place}/")):
            found.append(Shown(path, numbered=((int(match[2]), match[3]),), is_placed=True, is_hit=True))
    return found


# -- comparing ------------------------------------------------------------------------------------


def compare(seen: Shown, data: bytes) -> Agreement | None:
    """Whether a file's bytes are what was shown. ``None``: the text cannot be compared."""
    try:
        raw = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    text = raw.replace("\r\n", "\n")
    if "\r" in text or "\0" in text:
        return None
    if seen.text is None:
        return _compare_numbered(seen, text, keeps_ends=text is raw or text == raw)
    printed = seen.text
    if not printed.isprintable() and any(ord(c) < 32 and c not in "\n\t\f\r" for c in printed):
        return None
    if seen.first == 1 and printed == raw and (seen.last is None or printed.count("\n") < seen.last):
        return Agreement(True, ((1, raw.count("\n") + 1),), is_whole=True, is_exact=True)
    return _compare_text(seen, printed.replace("\r\n", "\n"), text, keeps_ends=text == raw and "\r" not in printed)


def _compare_text(seen: Shown, printed: str, text: str, *, keeps_ends: bool) -> Agreement:
    lines = text.split("\n")
    wanted = lines[seen.first - 1 : seen.last] if not seen.is_whole else lines
    trimmed = "\n".join(wanted).strip().split("\n")
    shown_lines = printed.strip().split("\n")
    holds = len(shown_lines) == len(trimmed) and all(
        a == b or REDACTED.search(a) for a, b in zip(shown_lines, trimmed, strict=True)
    )
    if not holds:
        return Agreement(False, hunk=_hunk(trimmed, shown_lines, seen.first))
    blank = len(list(_leading_blank(wanted)))
    is_whole = seen.is_whole or (
        seen.first == 1 and seen.last is not None and seen.last > len(lines) - (lines[-1] == "")
    )
    exact = [
        keeps_ends and a == b and not REDACTED.search(a)
        for a, b in zip(shown_lines, wanted[blank : blank + len(shown_lines)], strict=False)
    ]
    return Agreement(True, _stretches(exact, seen.first + blank), is_whole=is_whole)


def _leading_blank(lines: list[str]) -> Iterable[str]:
    for line in lines:
        if line.strip():
            return
        yield line


def _compare_numbered(seen: Shown, text: str, *, keeps_ends: bool) -> Agreement | None:
    if any(character in text for character in _STRANGE_ENDS):
        return None  # tools differ in what ends a line
    lines = text.split("\n")
    exact: list[bool] = []
    for number, line in seen.numbered:
        state = lines[number - 1] if 0 < number <= len(lines) else None
        expanded, other = line, state
        if seen.expands_tabs and state is not None:
            expanded, other = line.expandtabs(), state.expandtabs()
        if other is None or (other.rstrip() != expanded.rstrip() and not REDACTED.search(line)):
            first, last = seen.numbered[0][0], seen.numbered[-1][0]
            return Agreement(False, hunk=_hunk(lines[first - 1 : last], [each for _, each in seen.numbered], first))
        exact.append(keeps_ends and state == line)
    first, last = seen.numbered[0][0], seen.numbered[-1][0]
    ends = len(lines) if lines[-1] else len(lines) - 1
    if seen.is_whole and last < ends:
        return Agreement(False, hunk=_hunk(lines[last - 1 :], [seen.numbered[-1][1]], last))
    is_whole = first == 1 and last >= ends
    is_exact = is_whole and all(exact) and (last == len(lines) if not lines[-1] else False)
    return Agreement(True, _stretches(exact, first), is_whole=is_whole, is_exact=is_exact)


def _stretches(flags: list[bool], first: int) -> tuple[tuple[int, int], ...]:
    """Stretches of true flags; the first flag is line ``first``."""
    found: list[tuple[int, int]] = []
    for place, flag in enumerate(flags, first):
        if flag and found and found[-1][1] == place - 1:
            found[-1] = (found[-1][0], place)
        elif flag:
            found.append((place, place))
    return tuple(found)


def _hunk(derived: list[str], printed: list[str], first: int) -> str:
    """A short diff from ``derived`` (which begins at line ``first``) to what is printed."""
    same = 0
    while same < min(len(derived), len(printed)) and derived[same] == printed[same]:
        same += 1
    start = max(0, same - 2)
    stop = same + _HUNK_LINES
    return excerpt(derived[start:stop], printed[start:stop], first + start)


def excerpt_of(derived: list[str], other: list[str]) -> str:
    """A short unified diff around the first difference of two files' lines."""
    return _hunk(derived, other, 1)


def excerpt(derived: list[str], other: list[str], first: int) -> str:
    """A short unified diff between two stretches of lines that begin at line ``first``."""
    found = [f"@@ line {first} @@"]
    for line in difflib.unified_diff(derived, other, n=2, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            found.append(line if len(line) <= _HUNK_WIDTH else line[: _HUNK_WIDTH - 1] + "…")
    if len(found) > _HUNK_LINES:
        found = [*found[: _HUNK_LINES - 1], "…"]
    return "\n".join(found)


def text_of(seen: Shown) -> tuple[bytes, bool] | None:
    """The whole file that was shown, and whether its end is certain; ``None``: not whole, or not the file's bytes.

    Where the recorder trimmed the end, one line feed is taken for it.
    """
    if not seen.is_whole or seen.expands_tabs:
        return None
    text = seen.text if seen.text is not None else "\n".join(line for _, line in seen.numbered)
    if REDACTED.search(text) or "\r" in text or "\0" in text or any(ord(c) < 32 and c not in "\n\t\f" for c in text):
        return None
    is_certain = text.endswith("\n")
    try:
        return (text if is_certain or not text else text + "\n").encode(), is_certain
    except UnicodeEncodeError:
        return None
