"""What the structured copy of a Claude Code result says of a file: its text before an edit, after it, or as read.

Texts become the ids that git gives them. Where a run's files are proven by these ids is in ``handoff/states/``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from handoff.framing.losses import NOTHING

_LEADING_TABS = re.compile(r"^\t+", re.MULTILINE)


class Hunk(msgspec.Struct, gc=False, rename="camel"):
    """One piece of the patch that an edit shows."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[str]


class Shown(msgspec.Struct, gc=False, rename="camel"):
    """A file as a read returned it."""

    content: str
    start_line: int
    num_lines: int
    total_lines: int


class Edited(msgspec.Struct, gc=False, rename="camel"):
    """The parts of a copy that hold texts."""

    type: Any = None
    original_file: str | None = None
    content: Any = None
    structured_patch: list[Hunk] | None = None
    file: Shown | None = None


Region = list[Any]
"""A hunk as it is noted: old start, old lines, new start, new lines, git id of the new lines as displayed."""


class Text(NamedTuple):
    """A file's whole text at one call: the git id of it, ``after`` with leading tabs as in ``displayed``."""

    kind: Literal["before", "after", "read"]
    blob: str


_EDITED = msgspec.json.Decoder(Edited)


def texts(raw: bytes | msgspec.Raw = NOTHING) -> Iterator[Text]:
    """What a copy says of its file; nothing when it is of another form."""
    try:
        copy = _EDITED.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return
    if copy.original_file is not None:
        yield Text("before", blob_id(copy.original_file))
        after = _patched(displayed(copy.original_file), copy.structured_patch or [])
        if after is not None:
            yield Text("after", blob_id(after))
    elif copy.type == "create" and isinstance(copy.content, str):
        yield Text("after", blob_id(displayed(copy.content)))
    elif copy.file is not None and copy.file.start_line == 1 and copy.file.num_lines == copy.file.total_lines:
        yield Text("read", blob_id(copy.file.content))


def regions(raw: bytes | msgspec.Raw) -> list[Region]:
    """The hunks of an edit whose copy holds a patch and not the file: newer clients leave it out."""
    try:
        copy = _EDITED.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return []
    if copy.original_file is not None or not copy.structured_patch:
        return []
    return [
        [hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, blob_id("\n".join(_new_side(hunk)))]
        for hunk in copy.structured_patch
    ]


def left(hunks: Sequence[Sequence[Any]], before: str, after: str) -> bool:
    """Whether ``after`` is ``before`` with exactly these hunks (``regions``), tabs as displayed."""
    old, new = displayed(before).split("\n"), displayed(after).split("\n")
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
        if blob_id("\n".join(new[new_first:new_at])) != blob:
            return False
    return bool(hunks) and old[old_at:] == new[new_at:]


def displayed(text: str) -> str:
    """``text`` as the client's patches show it: every leading tab as two spaces."""
    return _LEADING_TABS.sub(lambda found: "  " * len(found[0]), text)


def blob_id(text: str) -> str:
    """The id git gives a file with this text."""
    data = text.encode("utf-8", "replace")
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _patched(text: str, hunks: list[Hunk]) -> str | None:
    """``text`` after the patch; ``None`` when there is none, or it is of another text."""
    if not hunks:
        return None
    lines, patched, at = text.split("\n"), [], 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        old = [line[1:] for line in hunk.lines if line[:1] in (" ", "-")]
        if not at <= start or lines[start : start + len(old)] != old:
            return None
        patched += lines[at:start] + _new_side(hunk)
        at = start + len(old)
    return "\n".join(patched + lines[at:])


def _new_side(hunk: Hunk) -> list[str]:
    return [line[1:] for line in hunk.lines if line[:1] in (" ", "+")]
