"""Git's object format, as far as states need it: ids, trees, loose objects, and which names are safe.

Everything here is bytes in, bytes out. Nothing reads a configuration or runs a program, so it is safe on trees
that come from outside.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from handoff.errors import StateError

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

FILE, EXECUTABLE, SYMLINK, FOLDER, SUBMODULE = "100644", "100755", "120000", "40000", "160000"

Entries = dict[bytes, tuple[str, str]]
"""One tree level: name → (mode, object id)."""

_IGNORED_BY_SOME_SYSTEMS = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff"))


def object_id(kind: str, body: bytes) -> str:
    """The SHA-1 id git gives an object."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)) + body, usedforsecurity=False).hexdigest()


def is_safe_name(name: bytes) -> bool:
    """Whether one path component may lie in a work tree: no ``.``, ``..``, ``/``, NUL, nor any spelling of ``.git``."""
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name or len(name) > 255:
        return False
    folded = name.lower().split(b":")[0].rstrip(b". ")
    if folded in (b".git", b"git~1"):
        return False
    if b".git" in folded or not name.isascii():
        return name.decode("utf-8", "replace").translate(_IGNORED_BY_SOME_SYSTEMS).casefold().rstrip(". ") != ".git"
    return True


def is_safe_path(path: bytes) -> bool:
    """Whether every component of a relative path is safe (``is_safe_name``)."""
    return len(path) < 4096 and all(is_safe_name(part) for part in path.split(b"/"))


def parse_tree(body: bytes, tree: str) -> Entries:
    """The entries of a tree object. ``StateError`` on names that could climb out, clash or name a ``.git``."""
    entries: Entries = {}
    at = 0
    try:
        while at < len(body):
            space = body.index(b" ", at)
            end = body.index(b"\0", space)
            name = body[space + 1 : end]
            if name in entries or not is_safe_name(name):
                raise StateError(f"tree {tree} holds a name that cannot be laid out safely: {name!r}; it is refused")
            entries[name] = (body[at:space].decode("ascii").lstrip("0"), body[end + 1 : end + 21].hex())
            at = end + 21
    except (ValueError, UnicodeDecodeError) as error:
        raise StateError(f"tree {tree} is damaged") from error
    return entries


def format_tree(entries: Mapping[bytes, tuple[str, str]]) -> bytes:
    """The body of a tree object; git orders a folder as if its name ended in a slash."""
    order = sorted(entries, key=lambda name: name + b"/" if entries[name][0] == FOLDER else name)
    return b"".join(b"%s %s\0%s" % (entries[name][0].encode(), name, bytes.fromhex(entries[name][1])) for name in order)


def write_loose(git_dir: Path, kind: str, body: bytes) -> str:
    """Store one object beside any other writer; its id. A reader sees it whole or not at all."""
    id_ = object_id(kind, body)
    path = git_dir / "objects" / id_[:2] / id_[2:]
    if path.exists():
        return id_
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f"tmp_obj_{secrets.token_hex(8)}"
    try:
        aside.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(body)) + body, 1))
        aside.chmod(0o444)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StateError(
            f"cannot write into the git store {git_dir}: {error.strerror}; free space or correct its rights"
        ) from error
    return id_


def text_path(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 survive as lone surrogates."""
    return os.fsdecode(path)


def byte_path(path: str) -> bytes:
    """The inverse of ``text_path``."""
    return path.encode("utf-8", "surrogateescape") if path.isascii() else _encode(path)


def _encode(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte, from broken JSON
        return path.encode("utf-8", "surrogatepass")
