"""What Codex notes of the files that a patch of its own changed: whole texts, or the lines of a diff.

Texts become the ids that git gives them. Where a run's files are proven by these ids is in ``handoff/states/``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from handoff.adapters.claude_files import blob_id
from handoff.framing.losses import NOTHING

_HEAD = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_NO_LINE_FEED = "\\ No newline"
_LONGEST_PATH = 300
_MOST_FILES = 500


class Noted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One file at one call. ``before``: git id of a file that was deleted; ``after``: of one that was written whole."""

    before: str | None = None
    after: str | None = None
    hunks: list[list[Any]] = []
    """What was changed: old start, old lines, new start, new lines, git id of the new lines with their line ends."""


class _Change(msgspec.Struct, gc=False):
    type: Any = None
    content: Any = None
    unified_diff: Any = None
    move_path: Any = None


_CHANGES = msgspec.json.Decoder(dict[str, _Change])


def changes(raw: bytes | msgspec.Raw = NOTHING) -> dict[str, Noted]:
    """Path → what the client noted; files that moved, and what is of another form, are left out."""
    try:
        found = _CHANGES.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    noted = {}
    for path, change in list(found.items())[:_MOST_FILES]:
        one = _noted(change)
        if one is not None and 0 < len(path) <= _LONGEST_PATH:
            noted[path] = one
    return noted


def follows(hunks: Sequence[Sequence[Any]], before: str, after: str) -> bool:
    """Whether ``after`` is ``before`` with exactly these hunks."""
    old, new = _lines(before), _lines(after)
    old_at = new_at = 0
    for hunk in hunks:
        if len(hunk) != 5 or not all(isinstance(number, int) and number >= 0 for number in hunk[:4]):
            return False
        old_start, old_lines, new_start, new_lines, blob = hunk
        old_first = old_start - 1 if old_lines else old_start
        new_first = new_start - 1 if new_lines else new_start
        if old_first < old_at or new_first < new_at or old[old_at:old_first] != new[new_at:new_first]:
            return False
        old_at, new_at = old_first + old_lines, new_first + new_lines
        if blob_id("".join(new[new_first:new_at])) != blob:
            return False
    return bool(hunks) and old[old_at:] == new[new_at:]


def merged(known: Mapping[str, Noted] | None, more: Mapping[str, Noted]) -> dict[str, Noted]:
    """What two notes of one call say: nothing, where they differ and it is not told which call each is of."""
    return dict(more) if known is None or known == more else {}


def _noted(change: _Change) -> Noted | None:
    match change:
        case _Change(type="add", content=str(text)):
            return Noted(after=blob_id(text))
        case _Change(type="delete", content=str(text)):
            return Noted(before=blob_id(text))
        case _Change(type="update", unified_diff=str(diff), move_path=None):
            hunks = _hunks(diff)
            return Noted(hunks=hunks) if hunks else None
        case _:
            return None


def _hunks(diff: str) -> list[list[Any]]:
    """The hunks of a diff without file names; none when it is no such diff, or cut."""
    found: list[list[Any]] = []
    lines = diff.split("\n")
    if lines[-1] == "":
        lines.pop()
    at = 0
    while at < len(lines):
        head = _HEAD.match(lines[at])
        if head is None:
            return []
        old_start, new_start = int(head[1]), int(head[3])
        old_lines, new_lines = (1 if count is None else int(count) for count in (head[2], head[4]))
        at += 1
        old, last = 0, ""
        new: list[str] = []
        while at < len(lines) and (old < old_lines or len(new) < new_lines or lines[at].startswith("\\")):
            line = lines[at]
            if line.startswith(_NO_LINE_FEED):
                if last in ("+", " ") and new:
                    new[-1] = new[-1].removesuffix("\n")
            elif line[:1] in (" ", "-", "+"):
                last = line[0]
                old += last != "+"
                if last != "-":
                    new.append(line[1:] + "\n")
            else:
                return []
            at += 1
        if old != old_lines or len(new) != new_lines:
            return []
        found.append([old_start, old_lines, new_start, new_lines, blob_id("".join(new))])
    return found


def _lines(text: str) -> list[str]:
    """Lines with their line feeds."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
