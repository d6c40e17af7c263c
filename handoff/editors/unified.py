"""Unified diffs as text, git's and plain: the files and hunks they name. Applying them is in ``git_apply`` and
``gnu_patch``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from handoff.editors.binary import Binary, read_binary
from handoff.editors.plain import Misfit, encoded

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]{4,40})\.\.([0-9a-f]{4,40})")

_EXTENDED = (b"old mode ", b"similarity index ", b"dissimilarity index ")

Read = Callable[[str], bytes | None]


class Hunk(NamedTuple):
    """One hunk: whole lines before and after, and the 1-based line where ``old`` begins (0: an empty file)."""

    start: int
    old: list[bytes]
    new: list[bytes]
    new_start: int = 0
    """The line where ``new`` begins in the patched file."""
    tags: str = ""
    """What each line of the hunk is: `` `` for one that stays, ``-`` and ``+``."""


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
    forward: Binary | None = None
    """A binary file's change, where the patch holds it."""
    backward: Binary | None = None


class Change(NamedTuple):
    """One file after a patch. ``data=None``: removed. ``mode=None``: as it was."""

    path: str
    data: bytes | None
    mode: str | None = None
    origin: str | None = None
    """The file it was moved or copied from, whose mode it has where ``mode`` is ``None``."""


def turned(patch: FilePatch) -> FilePatch:
    """The patch that takes this one back."""
    signs = str.maketrans("+-", "-+")
    hunks = [Hunk(h.new_start, h.new, h.old, h.start, h.tags.translate(signs)) for h in patch.hunks]
    return FilePatch(
        patch.new_path,
        patch.old_path,
        hunks,
        None,
        False,
        patch.after,
        patch.before,
        patch.is_binary,
        patch.backward,
        patch.forward,
    )


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
    forward: Binary | None = None
    backward: Binary | None = None
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
        elif line == b"GIT binary patch":
            is_binary = True
            forward, at = read_binary(lines, at + 1)
            backward, at = read_binary(lines, at)
            continue
        elif line.startswith(b"Binary files "):
            is_binary = True
        elif line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            old, new = _header_path(line[4:]), _header_path(lines[at + 1][4:])
            at += 2
            break
        elif line.startswith((b"diff --git ", b"@@ ")) or not (is_binary or line.startswith(_EXTENDED)):
            break
        at += 1
    hunks, at = _hunks(lines, at)
    return FilePatch(old, new, hunks, mode, is_copy, before, after, is_binary, forward, backward), at


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
        tags: list[str] = []
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
            tags.append(tag.decode())
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
            tags += [" "] * left_old
        elif left_old or left_new:
            raise Misfit(f"the hunk at line {start} of the patch is cut off")
        if at < len(lines) and lines[at].startswith(b"\\"):
            _open_end(lines[at - 1][:1], old, new)
            at += 1
        hunks.append(Hunk(start, old, new, int(match[3]), "".join(tags)))
    return hunks, at


def _open_end(tag: bytes, old: list[bytes], new: list[bytes]) -> None:
    """The line just read has no line feed at its end."""
    if tag != b"+" and old:
        old[-1] = old[-1].removesuffix(b"\n")
    if tag != b"-" and new:
        new[-1] = new[-1].removesuffix(b"\n")
