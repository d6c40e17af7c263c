"""What ``git apply`` leaves: every line of context must equal the file, nothing is fuzzed."""

from __future__ import annotations

from collections.abc import Iterator

from handoff.editors.plain import Misfit, lines_of
from handoff.editors.unified import Change, FilePatch, Hunk, Read, stripped


def apply_file(patch: FilePatch, read: Read, strip: int = 1, *, is_strict: bool = False) -> Iterator[Change]:
    """What one file's patch leaves. ``is_strict``: as ``git apply`` demands it (see ``apply_hunks``)."""
    old = stripped(patch.old_path, strip)
    new = stripped(patch.new_path, strip)
    if patch.is_binary and patch.forward is None:
        raise Misfit(f"{new or old}: the patch is binary, its content is not in it")
    before = read(old) if old is not None else None
    if old is not None and before is None:
        raise Misfit(f"{old}: the patch changes a file that does not exist")
    if new is not None and new != old and (read(new) is not None if is_strict else old is None and read(new)):
        raise Misfit(f"{new}: the patch creates a file that exists")
    path = new or old or ""
    if patch.forward is not None:
        after = patch.forward.applied(before or b"", path)
    else:
        after = apply_hunks(before or b"", patch.hunks, path, is_strict=is_strict)
    if new is None:
        if after:
            raise Misfit(f"{old}: the patch removes a file that has other content")
        yield Change(old or "", None)
        return
    if old is not None and old != new and not patch.is_copy:
        yield Change(old, None)
    yield Change(new, after, patch.mode, old if old != new else None)


def apply_hunks(data: bytes, hunks: list[Hunk], path: str, *, is_strict: bool = False) -> bytes:
    """Hunks applied in order, each at its line or at the nearest place where it fits; nowhere twice.

    A hunk that begins at the first line fits there alone, and one without context behind its changes fits at the end
    alone; ``is_strict`` holds that for hunks without any context too, as ``git apply`` does unless told otherwise.
    """
    lines = lines_of(data)
    is_done = [False] * len(lines)
    shift = 0
    for hunk in hunks:
        leading, trailing = _context(hunk)
        is_bare = not leading and not trailing
        must_begin = hunk.start == 0 or (hunk.start == 1 and (is_strict or not is_bare))
        must_end = not trailing and (is_strict or not is_bare)
        if is_bare and not is_strict:
            wanted = max(hunk.start - 1, 0) + shift if hunk.old else hunk.start + shift
            must_begin = False
        else:
            wanted = max(hunk.new_start - 1, 0)
        at = _place(lines, is_done, hunk.old, wanted, must_begin, must_end, is_strict)
        if at is None:
            raise Misfit(f"{path}: the hunk at line {hunk.start} does not fit")
        lines[at : at + len(hunk.old)] = hunk.new
        is_done[at : at + len(hunk.old)] = [True] * len(hunk.new)
        shift += len(hunk.new) - len(hunk.old)
    return b"".join(lines)


def _context(hunk: Hunk) -> tuple[int, int]:
    """How many lines stay at the beginning of a hunk, and how many at its end."""
    if hunk.tags:
        bare = hunk.tags.strip(" ")
        if not bare:
            return len(hunk.tags), len(hunk.tags)
        return len(hunk.tags) - len(hunk.tags.lstrip(" ")), len(hunk.tags) - len(hunk.tags.rstrip(" "))
    return 0, 0


def _place(
    lines: list[bytes],
    is_done: list[bool],
    old: list[bytes],
    wanted: int,
    must_begin: bool,
    must_end: bool,
    is_strict: bool,
) -> int | None:
    count = len(old)
    last = len(lines) - count
    start = 0 if must_begin else last if must_end else min(wanted, len(lines))

    is_open = is_strict and not must_end and bool(old) and not old[-1].endswith(b"\n")

    def fits(at: int) -> bool:
        if not 0 <= at <= last or any(is_done[at : at + count]):
            return False
        if is_open:  # git compares the bytes up to the open end, then nothing but blanks may follow in the line
            end = lines[at + count - 1]
            same = end.startswith(old[-1]) and not end[len(old[-1]) :].strip()
            return same and lines[at : at + count - 1] == old[:-1]
        return lines[at : at + count] == old

    if must_begin and must_end and last != 0:
        return None
    if fits(start):
        return start
    if must_begin or must_end or not old:
        return None
    places = (at for at in range(last + 1) if lines[at].startswith(old[0]) and fits(at))
    return min(places, key=lambda at: (abs(at - start), at < start), default=None)
