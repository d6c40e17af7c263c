"""What ``patch`` leaves: a hunk that does not fit is moved, then looked for with less of its context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from handoff.editors.plain import Misfit, Unknowable, lines_of
from handoff.editors.unified import Change, FilePatch, Hunk, Read, stripped

_MOST_FUZZ = 2


def apply_file(patch: FilePatch, read: Read, strip: int = 0) -> Iterator[Change]:
    """What one file's patch leaves, with the ``.orig`` file that a hunk out of place leaves beside it.

    ``Misfit``: the file is not there, or is there when it is to be made. ``Unknowable``: a hunk is refused, and others
    are applied; or the tool would have chosen the file by more than the patch.
    """
    old = stripped(patch.old_path, strip)
    new = stripped(patch.new_path, strip)
    if patch.is_binary or patch.is_copy or (old is not None and new is not None and old != new):
        raise Unknowable("patch handles a binary, moved or copied file in more than one way")
    if old is None and new is not None and read(new):
        raise Misfit(f"{new}: the patch creates a file that exists")
    path = new or old or ""
    before = read(path)
    if before is None and old is not None:
        raise Misfit(f"{path}: the patch changes a file that does not exist")
    applied = _applied(before or b"", patch.hunks, path)
    if applied.is_moved and before is not None:
        yield Change(f"{path}.orig", before, None, path)
    if new is None and not applied.data:
        yield Change(path, None)
    else:
        yield Change(path, applied.data, patch.mode)


class _Applied(NamedTuple):
    data: bytes
    is_moved: bool
    """Whether a hunk went elsewhere than it says, or fitted with less context."""


def _applied(data: bytes, hunks: list[Hunk], path: str) -> _Applied:
    lines = lines_of(data)
    done: list[bytes] = []
    frozen = 0
    """Lines of the file up to the last one that a hunk changed."""
    offset = 0
    is_moved = False
    for hunk in hunks:
        prefix = len(hunk.tags) - len(hunk.tags.lstrip(" "))
        suffix = len(hunk.tags) - len(hunk.tags.rstrip(" "))
        context = max(prefix, suffix)
        first = hunk.start + (not hunk.old)
        guess = first + offset
        found: int | None = None
        for fuzz in range(min(_MOST_FUZZ, context) + 1):
            found = _found(lines, hunk, first, guess, frozen, fuzz + prefix - context, fuzz + suffix - context)
            if found is not None:
                head, tail = max(fuzz + prefix - context, 0), max(fuzz + suffix - context, 0)
                break
        if found is None:
            raise Unknowable(f"{path}: patch refuses the hunk at line {hunk.start} and applies the others")
        is_moved = is_moved or found != first + offset or bool(head or tail) or bool(offset)
        offset = found - first
        start = found - 1
        if (head or tail) and start + len(hunk.old) >= len(lines) and lines and not lines[-1].endswith(b"\n"):
            raise Unknowable(f"{path}: patch applies a hunk with less context where the file's last line is open")
        done += lines[frozen : start + prefix]
        done += hunk.new[prefix : len(hunk.new) - suffix]
        frozen = start + len(hunk.old) - suffix
    done += lines[frozen:]
    done[:-1] = [line if line.endswith(b"\n") else line + b"\n" for line in done[:-1]]
    return _Applied(b"".join(done), is_moved)


def _found(lines: list[bytes], hunk: Hunk, first: int, guess: int, frozen: int, prefix: int, suffix: int) -> int | None:
    """The line, from 1, where a hunk fits. ``prefix``, ``suffix``: lines of context to leave out at its ends; below 0:
    the hunk has less context there than at the other end, so it must be an end of the file."""
    count = len(hunk.old)
    if not count:
        return guess

    def fits(at: int, head: int, tail: int) -> bool:
        start = at - 1
        if start < 0 or start + count - tail > len(lines) or start < frozen:
            return False
        return lines[start + head : start + count - tail] == hunk.old[head : count - tail]

    if prefix < 0 and first <= 1:
        if suffix < 0 and count != len(lines):
            return None
        return 1 if frozen <= 0 and fits(1, 0, max(suffix, 0)) else None
    prefix = max(prefix, 0)
    if suffix < 0:
        at = len(lines) - count + 1
        return at if fits(at, prefix, 0) else None
    for distance in range(len(lines) + 2):
        for at in (guess + distance, guess - distance):
            if fits(at, prefix, suffix):
                return at
    return None
