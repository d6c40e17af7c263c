"""Patches as text: unified diffs (git's and plain) and the ``*** Begin Patch`` form, parsed and applied to bytes.

Application is exact: every context line must equal the file, at the stated line or at the nearest other place, as
``git apply`` does; nothing is fuzzed. Only the ``*** Begin Patch`` form may differ in surrounding white space, since
its own tool allows that. What does not fit raises ``Misfit``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from handoff.states.editors import Misfit, encoded, lines_of

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})")

_SECTIONS = ("*** Add", "*** Delete", "*** Update", "*** End Patch")
_EXTENDED = (b"old mode ", b"similarity index ", b"dissimilarity index ")

Read = Callable[[str], bytes | None]


class Hunk(NamedTuple):
    """One hunk: whole lines before and after, and the 1-based line where ``old`` begins (0: an empty file)."""

    start: int
    old: list[bytes]
    new: list[bytes]
    new_start: int = 0
    """The line where ``new`` begins in the patched file."""


class FilePatch(NamedTuple):
    """One file of a unified diff. Paths are as written, with the ``a/`` or ``b/`` level still on them."""

    old_path: str | None
    new_path: str | None
    hunks: list[Hunk]
    mode: str | None = None
    is_copy: bool = False
    before: str | None = None
    """Abbreviated blob id of the file before the patch, when the diff has an ``index`` line."""
    after: str | None = None
    is_binary: bool = False


class Change(NamedTuple):
    """One file after a patch. ``data=None``: removed. ``mode=None``: as it was."""

    path: str
    data: bytes | None
    mode: str | None = None


def is_begin_patch(text: str) -> bool:
    """Whether a patch is in the ``*** Begin Patch`` form."""
    return text.lstrip().startswith("*** Begin Patch")


def apply_patch(text: str, read: Read, strip: int = 1, *, is_reversed: bool = False) -> list[Change]:
    """What a patch leaves of each file it names. ``read`` gives a file's present bytes. ``Misfit``: it does not fit."""
    if is_begin_patch(text):
        return list(_apply_begin_patch(text, read))
    patches = parse_unified(text)
    if not patches:
        raise Misfit("no file is named in the patch")
    if is_reversed:
        patches = [_reversed(patch) for patch in reversed(patches)]
    return [change for patch in patches for change in apply_file(patch, read, strip)]


def _reversed(patch: FilePatch) -> FilePatch:
    hunks = [Hunk(hunk.new_start, hunk.new, hunk.old, hunk.start) for hunk in patch.hunks]
    return FilePatch(patch.new_path, patch.old_path, hunks, None, False, patch.after, patch.before, patch.is_binary)


def apply_file(patch: FilePatch, read: Read, strip: int = 1) -> Iterator[Change]:
    """What one file's patch leaves."""
    old = stripped(patch.old_path, strip)
    new = stripped(patch.new_path, strip)
    if patch.is_binary:
        raise Misfit(f"{new or old}: the patch is binary, its content is not in it")
    before = read(old) if old is not None else None
    if old is not None and before is None:
        raise Misfit(f"{old}: the patch changes a file that does not exist")
    if old is None and new is not None and read(new):
        raise Misfit(f"{new}: the patch creates a file that exists")
    after = apply_hunks(before or b"", patch.hunks, new or old or "")
    if new is None:
        if after:
            raise Misfit(f"{old}: the patch removes a file that has other content")
        yield Change(old or "", None)
        return
    if old is not None and old != new and not patch.is_copy:
        yield Change(old, None)
    yield Change(new, after, patch.mode)


def apply_hunks(data: bytes, hunks: list[Hunk], path: str) -> bytes:
    """Hunks applied in order, each at its line or at the nearest place where it fits."""
    lines = lines_of(data)
    shift = 0
    floor = 0
    for hunk in hunks:
        wanted = max(hunk.start - 1, 0) + shift if hunk.old else hunk.start + shift
        at = _nearest(lines, hunk.old, wanted, floor)
        if at is None:
            raise Misfit(f"{path}: the hunk at line {hunk.start} does not fit")
        lines[at : at + len(hunk.old)] = hunk.new
        shift = at - wanted + shift + len(hunk.new) - len(hunk.old)
        floor = at + len(hunk.new)
    return b"".join(lines)


def _nearest(lines: list[bytes], old: list[bytes], wanted: int, floor: int) -> int | None:
    last = len(lines) - len(old)
    if not old:
        return wanted if floor <= wanted <= len(lines) else None
    if floor <= wanted <= last and lines[wanted : wanted + len(old)] == old:
        return wanted
    fits = [at for at in range(floor, last + 1) if lines[at] == old[0] and lines[at : at + len(old)] == old]
    return min(fits, key=lambda at: (abs(at - wanted), at), default=None)


def stripped(path: str | None, strip: int) -> str | None:
    """A path without its first ``strip`` components. ``Misfit`` when it has too few."""
    if path is None:
        return None
    parts = path.split("/", strip)
    if len(parts) <= strip:
        raise Misfit(f"{path!r} has fewer than {strip} leading folders to strip")
    return parts[strip]


def parse_unified(text: str) -> list[FilePatch]:
    """The files of a unified diff. Text between files (mail headers, prose) is skipped, as ``patch`` does."""
    lines = encoded(text).split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    found: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            patch, at = _git_file(lines, at)
            found.append(patch)
        elif lines[at].startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            old, new = _header_path(lines[at][4:]), _header_path(lines[at + 1][4:])
            hunks, at = _hunks(lines, at + 2)
            found.append(FilePatch(old, new, hunks))
        else:
            at += 1
    return found


def _git_file(lines: list[bytes], at: int) -> tuple[FilePatch, int]:
    old: str | None
    new: str | None
    old, new = _git_paths(lines[at][len(b"diff --git ") :])
    mode: str | None = None
    before: str | None = None
    after: str | None = None
    is_copy = is_binary = False
    at += 1
    while at < len(lines):
        line = lines[at]
        if line.startswith(b"new file mode "):
            mode, old = line[14:].decode("ascii", "replace").strip(), None
        elif line.startswith(b"deleted file mode "):
            new = None
        elif line.startswith(b"new mode "):
            mode = line[9:].decode("ascii", "replace").strip()
        elif line.startswith((b"rename from ", b"copy from ")):
            old = "a/" + _unquoted(line.split(b" from ", 1)[1])
            is_copy = line.startswith(b"copy")
        elif line.startswith((b"rename to ", b"copy to ")):
            new = "b/" + _unquoted(line.split(b" to ", 1)[1])
        elif match := _INDEX.match(line):
            before, after = match[1].decode(), match[2].decode()
        elif line.startswith((b"GIT binary patch", b"Binary files ")):
            is_binary = True
        elif line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            old, new = _header_path(line[4:]), _header_path(lines[at + 1][4:])
            at += 2
            break
        elif line.startswith((b"diff --git ", b"@@ ")) or not (is_binary or line.startswith(_EXTENDED)):
            break
        at += 1
    hunks, at = _hunks(lines, at)
    return FilePatch(old, new, hunks, mode, is_copy, before, after, is_binary), at


def _git_paths(rest: bytes) -> tuple[str, str]:
    """Both names of a ``diff --git`` line. Unquoted names with spaces are equal but for their first level."""
    if rest.startswith(b'"'):
        end = rest.index(b'" ', 1) if b'" ' in rest[1:] else len(rest)
        return _unquoted(rest[: end + 1]), _unquoted(rest[end + 2 :])
    half = (len(rest) - 1) // 2
    if rest[half : half + 1] == b" ":
        return _unquoted(rest[:half]), _unquoted(rest[half + 1 :])
    first, _, second = rest.partition(b" ")
    return _unquoted(first), _unquoted(second)


def _header_path(rest: bytes) -> str | None:
    name = rest.split(b"\t")[0].rstrip(b"\r ")
    return None if name == b"/dev/null" else _unquoted(name)


_ESCAPES = {ord("a"): 7, ord("b"): 8, ord("t"): 9, ord("n"): 10, ord("v"): 11, ord("f"): 12, ord("r"): 13}


def _unquoted(name: bytes) -> str:
    if len(name) >= 2 and name.startswith(b'"') and name.endswith(b'"'):
        name = re.sub(
            rb"\\([0-7]{3}|.)",
            lambda m: bytes([int(m[1], 8) & 255 if len(m[1]) == 3 else _ESCAPES.get(m[1][0], m[1][0])]),
            name[1:-1],
        )
    return name.decode("utf-8", "surrogateescape")


def _hunks(lines: list[bytes], at: int) -> tuple[list[Hunk], int]:
    hunks: list[Hunk] = []
    while at < len(lines) and (match := _HUNK.match(lines[at])):
        start = int(match[1])
        left_old = int(match[2]) if match[2] is not None else 1
        left_new = int(match[4]) if match[4] is not None else 1
        old: list[bytes] = []
        new: list[bytes] = []
        at += 1
        while (left_old or left_new) and at < len(lines):
            line = lines[at]
            tag, body = line[:1] or b" ", line[1:] + b"\n"  # mailers strip the blank of an empty context line
            if tag == b"\\":
                _open_end(lines[at - 1][:1], old, new)
                at += 1
                continue
            if tag not in (b" ", b"+", b"-"):
                break
            if tag != b"+":
                old.append(body)
                left_old -= 1
            if tag != b"-":
                new.append(body)
                left_new -= 1
            at += 1
        if left_old == left_new and at >= len(lines):  # a recorder that trimmed the text's end took blank context along
            old += [b"\n"] * left_old
            new += [b"\n"] * left_new
        elif left_old or left_new:
            raise Misfit(f"the hunk at line {start} of the patch is cut off")
        if at < len(lines) and lines[at].startswith(b"\\"):
            _open_end(lines[at - 1][:1], old, new)
            at += 1
        hunks.append(Hunk(start, old, new, int(match[3])))
    return hunks, at


def _open_end(tag: bytes, old: list[bytes], new: list[bytes]) -> None:
    """The line just read has no line feed at its end."""
    if tag != b"+" and old:
        old[-1] = old[-1].removesuffix(b"\n")
    if tag != b"-" and new:
        new[-1] = new[-1].removesuffix(b"\n")


def _apply_begin_patch(text: str, read: Read) -> Iterator[Change]:
    lines = text.strip("\n").split("\n")
    at = 1
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("*** End Patch"):
            return
        if line.startswith("*** Add File: "):
            body = []
            while at < len(lines) and lines[at].startswith("+"):
                body.append(lines[at][1:] + "\n")
                at += 1
            yield Change(line[14:].strip(), encoded("".join(body)))
        elif line.startswith("*** Delete File: "):
            path = line[17:].strip()
            if read(path) is None:
                raise Misfit(f"{path}: the patch removes a file that does not exist")
            yield Change(path, None)
        elif line.startswith("*** Update File: "):
            path = line[17:].strip()
            target = path
            if at < len(lines) and lines[at].startswith("*** Move to: "):
                target = lines[at][13:].strip()
                at += 1
            end = at
            while end < len(lines) and not lines[end].startswith(_SECTIONS):
                end += 1
            data = read(path)
            if data is None:
                raise Misfit(f"{path}: the patch changes a file that does not exist")
            after = _update(data, lines[at:end], path)
            at = end
            if target != path:
                yield Change(path, None)
            yield Change(target, after)
        elif line.strip():
            raise Misfit("the patch has a line outside any file")


def _update(data: bytes, patch: list[str], path: str) -> bytes:
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    cursor = 0
    old: list[bytes] = []
    new: list[bytes] = []
    at_end = False

    def flush() -> None:
        nonlocal cursor, old, new, at_end
        if old or new:
            place = len(lines) if not old else _seek(lines, old, cursor, at_end)
            if place is None:
                raise Misfit(f"{path}: a hunk of the patch does not fit")
            lines[place : place + len(old)] = new
            cursor = place + len(new)
        old, new, at_end = [], [], False

    for line in patch:
        if line.startswith("@@"):
            flush()
            anchor = encoded(line[2:].strip())
            if anchor:
                place = _seek([item.strip() for item in lines], [anchor], cursor, False)
                if place is None:
                    raise Misfit(f"{path}: the anchor {line!r} does not occur")
                cursor = place + 1
        elif line.startswith("*** End of File"):
            at_end = True
        elif line.startswith("-"):
            old.append(encoded(line[1:]))
        elif line.startswith("+"):
            new.append(encoded(line[1:]))
        else:
            old.append(encoded(line[1:]))
            new.append(encoded(line[1:]))
    flush()
    return b"\n".join(lines) + b"\n" if lines else b""


def _seek(lines: list[bytes], wanted: list[bytes], start: int, at_end: bool) -> int | None:
    places = [len(lines) - len(wanted)] if at_end else []
    places += range(start, len(lines) - len(wanted) + 1)
    for same in (bytes, bytes.rstrip, bytes.strip):
        trimmed = [same(item) for item in wanted]
        for at in places:
            if at >= 0 and [same(item) for item in lines[at : at + len(wanted)]] == trimmed:
                return at
    return None
