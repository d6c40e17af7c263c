"""An edit taken back: the contents that it can have been made on (``docs/science.md §2``).

Only edits that carry what they take away can be undone, and only where one place fits. What is undone is carried out
again and must give the same bytes.
"""

from __future__ import annotations

from handoff.actions import AppendFile, ApplyPatch, InsertLines, Operation, Replace
from handoff.editors.editing import edited
from handoff.editors.patches import apply_patch, is_begin_patch, parse_unified, stripped
from handoff.editors.plain import Misfit, Unknowable, encoded

MOST_PLACES = 100
"""Places of a text that are tried when an edit is undone."""


def undone(operation: Operation, after: bytes) -> bytes | None:
    """The bytes before an operation; ``None`` unless exactly one content becomes ``after`` by it."""
    match operation:
        case Replace(count="one", first=None):
            found = origins(operation, after)
            return found.pop() if len(found) == 1 else None
        case InsertLines(line=int(line), text=text):
            lines, put = after.split(b"\n"), encoded(text).split(b"\n")
            before = b"\n".join([*lines[:line], *lines[line + len(put) :]])
            try:
                return before if edited(operation, before) == after else None
            except (Misfit, Unknowable):
                return None
        case AppendFile(text=text):
            added = encoded(text)
            return after[: -len(added)] if added and after.endswith(added) and after != added else None
        case ApplyPatch(is_reversed=False):
            return _unpatched(operation, after)
        case _:
            return None


def origins(edit: Replace, after: bytes) -> set[bytes]:
    """Every content that the edit turns into ``after``; empty as well where there are too many to tell."""
    found: set[bytes] = set()
    for was, now in {(edit.old, edit.new), (edit.old.expandtabs(), edit.new.expandtabs())}:
        old, new = encoded(was), encoded(now)
        if not new or not old or after.count(new) > MOST_PLACES:
            return set()
        at = after.find(new)
        while at >= 0:
            before = after[:at] + old + after[at + len(new) :]
            try:
                if edited(edit, before) == after:
                    found.add(before)
            except (Misfit, Unknowable):
                pass
            at = after.find(new, at + 1)
    return found


def _unpatched(patch: ApplyPatch, after: bytes) -> bytes | None:
    if not hunks_stand_once(patch, after):
        return None
    framed = b"\n" + after
    for old, new in reversed(_hunks(patch)):
        block = b"\n" + b"\n".join(new) + b"\n"
        at = framed.find(block)
        if at < 0:
            return None
        framed = framed[: at + 1] + b"".join(line + b"\n" for line in old) + framed[at + len(block) :]
    before = framed[1:]
    try:
        forward = apply_patch(patch.text, lambda _: before, patch.strip)
    except (Misfit, Unknowable):
        return None
    return before if len(forward) == 1 and forward[0].data == after else None


def hunks_stand_once(patch: ApplyPatch, after: bytes) -> bool:
    """Whether the lines that each hunk leaves stand at one place only, so that the patch can be taken back."""
    hunks = _hunks(patch)
    framed = b"\n" + after if after.endswith(b"\n") else b"\n" + after + b"\n"
    for _, lines in hunks:
        block = b"\n" + b"\n".join(lines) + b"\n"
        at = framed.find(block)
        if not lines or at < 0 or framed.find(block, at + 1) >= 0:
            return False
    return bool(hunks)


def _hunks(patch: ApplyPatch) -> list[tuple[list[bytes], list[bytes]]]:
    """Lines before and after each hunk, without their line feeds; none unless the patch changes one file."""
    if is_begin_patch(patch.text):
        return _begin_hunks(patch.text)
    try:
        files = parse_unified(patch.text)
        if len(files) != 1 or stripped(files[0].new_path, patch.strip) is None:
            return []
    except Misfit:
        return []
    return [
        ([line.rstrip(b"\n") for line in hunk.old], [line.rstrip(b"\n") for line in hunk.new])
        for hunk in files[0].hunks
    ]


def _begin_hunks(text: str) -> list[tuple[list[bytes], list[bytes]]]:
    if text.count("*** Update File: ") != 1 or "*** Add File: " in text or "*** Delete File: " in text:
        return []
    hunks: list[tuple[list[bytes], list[bytes]]] = [([], [])]
    for line in text.strip("\n").split("\n"):
        if line.startswith("@@"):
            hunks.append(([], []))
        elif not line.startswith("***"):
            if not line.startswith("+"):
                hunks[-1][0].append(encoded(line[1:]))
            if not line.startswith("-"):
                hunks[-1][1].append(encoded(line[1:]))
    return [hunk for hunk in hunks if hunk != ([], [])]
