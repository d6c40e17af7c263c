"""What a commit did, read from its diff: which files, how, and from which blob to which.

Only headers are looked at. Every line of a file's content begins with a blank, a sign or a backslash, so a file cannot
pretend to be a header; and git quotes every name that could.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

_SECTION = re.compile(r"^diff --git (.*)$", re.M)
_HEADER = re.compile(r"(?:old|new|deleted file|new file) mode \d+|(?:dis)?similarity index .*|(?:rename|copy) .*")
_BLOBS = re.compile(r"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: \d+)?")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)", re.S)
_LONGEST_NAMES = 33_000
"""Characters of two names, each byte of the longest path quoted."""
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


class FileChange(NamedTuple):
    """One file of a diff without renames."""

    path: str
    """As git names it; bytes that are no UTF-8 are lone surrogates."""
    kind: Literal["create", "edit", "delete"]
    before: str | None
    """Blob id, zeros for no file. ``None``: only the mode changed."""
    after: str | None


def file_changes(diff: str) -> tuple[FileChange, ...]:
    """The files of ``diff``, each once, in order. A file that became a link (or the reverse) is an edit."""
    found: dict[str, FileChange] = {}
    for change in _sections(diff):
        earlier = found.get(change.path)
        found[change.path] = change if earlier is None else earlier._replace(kind="edit", after=change.after)
    return tuple(found.values())


def _sections(diff: str) -> Iterator[FileChange]:
    for section in _SECTION.finditer(diff):
        path = _path(section[1])
        if path is None:
            continue
        kind: Literal["create", "edit", "delete"] = "edit"
        before = after = None
        at = section.end() + 1
        while True:
            end = diff.find("\n", at)
            line = diff[at : end if end >= 0 else len(diff)]
            if blobs := _BLOBS.fullmatch(line):
                before, after = blobs[1], blobs[2]
                break
            if _HEADER.fullmatch(line) is None:
                break
            if line.startswith("new file"):
                kind = "create"
            elif line.startswith("deleted file"):
                kind = "delete"
            if end < 0:
                break
            at = end + 1
        yield FileChange(path, kind, before, after)


def _path(names: str) -> str | None:
    """The name in ``a/name b/name``, both the same; quoted where it holds what a line cannot."""
    if len(names) > _LONGEST_NAMES:
        return None
    half = len(names) // 2
    old, new = names[:half], names[half + 1 :]
    if names[half : half + 1] != " ":
        return None
    old, new = _unquoted(old), _unquoted(new)
    return new[2:] if old[:2] == "a/" and new[:2] == "b/" and old[2:] == new[2:] and new[2:] else None


def _unquoted(name: str) -> str:
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    parts: list[bytes] = []
    at = 1
    for escape in _ESCAPE.finditer(name, 1, len(name) - 1):
        code = escape[1]
        parts.append(name[at : escape.start()].encode("utf-8", "surrogatepass"))
        parts.append(bytes([int(code, 8) & 255 if len(code) == 3 else _ESCAPES.get(code, ord(code) & 127)]))
        at = escape.end()
    parts.append(name[at:-1].encode("utf-8", "surrogatepass"))
    return b"".join(parts).decode("utf-8", "surrogateescape")
