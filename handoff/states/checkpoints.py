"""What a recording shows of a file, compared with the state at that step (``docs/science.md §2``).

Every text a tool printed of a file is a checkpoint: a whole file (``cat``), a stretch of it (``sed -n``, ``head``), or
numbered lines (SWE-agent's window, ``cat -n`` of an editor). Clipped output proves nothing and is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from handoff.actions import Operation, Read

_CLIPPED = re.compile(
    r"<response clipped>|characters? elided|output_?(?:head|tail)|\[?\.{3}.{0,40}truncated|output truncated|"
    r"truncated output|\(Truncated|exceeded maximum|<NOTE>|omitted\]",
    re.IGNORECASE,
)
_REDACTED = re.compile(r"redacted\d*@|\bREDACTED\b|<redacted|\[redacted", re.IGNORECASE)
"""A publisher replaced something in this line: it cannot be compared."""
_WRAPPED = re.compile(r"\s*<returncode>-?\d+</returncode>\s*<output>\n?(.*?)</output>\s*", re.DOTALL)
_WINDOW = re.compile(r"^\[File: (.+) \((\d+) lines total\)\]$", re.MULTILINE)
_WINDOW_LINE = re.compile(r"(\d+):(.*)")
_EDITOR = re.compile(r"result of running `cat -n` on (?:a snippet of )?(\S+?):?\s*$", re.MULTILINE)
_EDITOR_LINE = re.compile(r" *(\d+)\t(.*)")


class Shown(NamedTuple):
    """Text of one file as a step printed it."""

    path: str
    """As the tool wrote it; may be absolute."""
    text: str | None = None
    """A run of lines, from ``first`` to ``last`` (``None``: the end). Outer white space may have been trimmed."""
    first: int = 1
    last: int | None = None
    numbered: tuple[tuple[int, str], ...] = ()
    """Lines with their numbers, when the tool printed numbers."""
    expands_tabs: bool = False
    is_whole: bool = False


def shown(operations: Iterable[Operation], observation: str) -> list[Shown]:
    """What an observation shows of files, given the operations of its action."""
    wrapped = _WRAPPED.fullmatch(observation)
    text = (wrapped[1] if wrapped else observation).replace("\r\n", "\n")
    for read in operations:
        if isinstance(read, Read) and read.is_alone and read.form != "windowed":
            if _EDITOR.search(text):
                break
            return _alone(read, text)
    return _windows(text) + _editor_views(text)


def _alone(read: Read, text: str) -> list[Shown]:
    """An observation that is one file's text and nothing else."""
    if _CLIPPED.search(text):
        return []
    first = read.first or 1
    if read.form == "numbered":
        numbered = _consecutive(text)
        return [Shown(read.path, numbered=numbered)] if numbered else []
    return [Shown(read.path, text, first, read.last, is_whole=first == 1 and read.last is None)]


def _consecutive(text: str) -> tuple[tuple[int, str], ...]:
    """Lines numbered as ``cat -n`` does, up to the first that is not."""
    numbered: list[tuple[int, str]] = []
    for line in text.strip("\n").split("\n"):
        match = _EDITOR_LINE.fullmatch(line)
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
    return [Shown(heads[0][1], numbered=numbered, expands_tabs=True)] if numbered else []


def agrees(seen: Shown, data: bytes) -> bool | None:
    """Whether a file's bytes are what was shown. ``None``: the text cannot be compared."""
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    if "\r" in text or "\0" in text:
        return None
    if seen.text is None:
        return _numbered_agree(seen, text)
    if not seen.text.isprintable() and any(ord(c) < 32 and c not in "\n\t\f" for c in seen.text):
        return None
    lines = text.split("\n")
    wanted = "\n".join(lines[seen.first - 1 : seen.last]) if not seen.is_whole else text
    shown_lines, state_lines = seen.text.strip().split("\n"), wanted.strip().split("\n")
    return len(shown_lines) == len(state_lines) and all(
        a == b or _REDACTED.search(a) for a, b in zip(shown_lines, state_lines, strict=True)
    )


def _numbered_agree(seen: Shown, text: str) -> bool | None:
    if "\f" in text or "\v" in text or "\x85" in text or "\u2028" in text or "\u2029" in text:
        return None  # tools differ in what ends a line
    lines = (text.expandtabs() if seen.expands_tabs else text).split("\n")
    for number, line in seen.numbered:
        if seen.expands_tabs:
            line = line.expandtabs()
        state = lines[number - 1] if number <= len(lines) else None
        if state is None:
            return False
        if state.rstrip() != line.rstrip() and not _REDACTED.search(line):
            return False
    return True
