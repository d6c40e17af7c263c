"""What a successor left in a work tree, read back as changes of its base.

Plain files are read and nothing of the work tree's own ``.git`` is trusted; no symbolic link is followed. An overlay
is read from its upper layer alone, a copy in whole. Laying out is in ``worktree``.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from handoff.errors import StateError
from handoff.git.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    SUBMODULE,
    SYMLINK,
    Entries,
    byte_path,
    is_safe_name,
    object_id,
    text_path,
    write_loose,
)
from handoff.git.program import git_environment, git_program
from handoff.git.repository import Repository

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes. A larger file in a work tree makes reading it back refuse."""

Change = tuple[str, tuple[str, str] | None]
"""(path, (mode, object id)) of one file that differs from the base; ``None``: it is gone."""


def is_whiteout(status: os.stat_result) -> bool:
    """Whether a file of an upper layer says that there is none."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def read_upper(upper: Path, repository: Repository, base_tree: str) -> Iterator[Change]:
    """What the upper layer of an overlay says about the base."""
    yield from _read_upper_level(os.fsencode(upper), b"", repository, base_tree, base_tree, b"")


def _read_upper_level(
    folder: bytes, prefix: bytes, repository: Repository, tree: str | None, base_tree: str, origin: bytes
) -> Iterator[Change]:
    """One folder of the upper layer over ``tree``, the folder of the base that lies below it (``None``: nothing).

    ``origin``: that folder's path in the base, with a slash at its end.
    """
    below = repository.entries(tree) if tree else {}
    hides_base = bool(prefix) and _mark(folder, "opaque") == b"y"
    seen: set[bytes] = set()
    for name, status in _scan(folder):
        if not is_safe_name(name):
            continue
        seen.add(name)
        old = below.get(name)
        path = prefix + name
        if is_whiteout(status):
            yield from _gone(path, old, repository)
        elif stat.S_ISDIR(status.st_mode):
            here = folder + b"/" + name
            moved = _moved_from(here, origin)
            if old and (moved is not None or old[0] not in (FOLDER, SUBMODULE)):
                yield from _gone(path, old, repository)
            if moved is not None:
                old = repository.entry(base_tree, text_path(moved))
                if old is not None:
                    yield from _came(path, old, repository)
            inside = old[1] if old and old[0] == FOLDER else None
            below_here = origin + name if moved is None else moved
            yield from _read_upper_level(here, path + b"/", repository, inside, base_tree, below_here + b"/")
        else:
            if old and old[0] == FOLDER:
                yield from _gone(path, old, repository)
            entry = _stored(folder + b"/" + name, status, repository)
            if entry is not None or old is not None:
                yield text_path(path), entry
    if hides_base:
        for name in sorted(below.keys() - seen):
            yield from _gone(prefix + name, below[name], repository)


def _mark(folder: bytes, name: str) -> bytes | None:
    """What the kernel noted on a folder of the upper layer; a sandboxed program cannot write these."""
    try:
        return os.getxattr(folder, f"trusted.overlay.{name}", follow_symlinks=False)
    except OSError:
        return None


def _moved_from(folder: bytes, origin: bytes) -> bytes | None:
    """Where in the base a renamed folder came from; ``None`` for a folder that was not renamed."""
    redirect = _mark(folder, "redirect")
    if redirect is None:
        return None
    return redirect.lstrip(b"/") if redirect.startswith(b"/") else origin + redirect


def _came(path: bytes, entry: tuple[str, str], repository: Repository) -> Iterator[Change]:
    if entry[0] != FOLDER:
        yield text_path(path), entry
        return
    for name, below in sorted(repository.entries(entry[1]).items()):
        yield from _came(path + b"/" + name, below, repository)


def _gone(path: bytes, old: tuple[str, str] | None, repository: Repository) -> Iterator[Change]:
    if old is None:
        return
    if old[0] != FOLDER:
        yield text_path(path), None
        return
    for name, entry in sorted(repository.entries(old[1]).items()):
        yield from _gone(path + b"/" + name, entry, repository)


def read_all(root: Path, repository: Repository, base_tree: str) -> Iterator[Change]:
    """Every file of a copied work tree against the base. All content is hashed: times can be forged."""
    yield from _read_level(os.fsencode(root), b"", repository, base_tree)


def _read_level(folder: bytes, prefix: bytes, repository: Repository, tree: str | None) -> Iterator[Change]:
    below: Entries = repository.entries(tree) if tree else {}
    seen: set[bytes] = set()
    for name, status in _scan(folder):
        if not is_safe_name(name):
            continue
        old = below.get(name)
        path = prefix + name
        if stat.S_ISDIR(status.st_mode):
            if old and old[0] == SUBMODULE:
                seen.add(name)
                continue
            if old and old[0] == FOLDER:
                seen.add(name)
            yield from _read_level(
                folder + b"/" + name, path + b"/", repository, old[1] if old and old[0] == FOLDER else None
            )
            continue
        entry = _stored(folder + b"/" + name, status, repository, old)
        if entry is not None:
            if old is None or old[0] != FOLDER:
                seen.add(name)
            if entry != old:
                if old and old[0] == FOLDER:
                    seen.add(name)
                    yield from _gone(path, old, repository)
                yield text_path(path), entry
    for name in sorted(below.keys() - seen):
        yield from _gone(prefix + name, below[name], repository)


def _scan(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    with os.scandir(folder) as found:
        listed = sorted((item.name, item.stat(follow_symlinks=False)) for item in found)
    yield from listed


def _stored(
    path: bytes, status: os.stat_result, repository: Repository, old: tuple[str, str] | None = None
) -> tuple[str, str] | None:
    """Store one file or link as a blob; ``None`` for anything that git does not keep."""
    if stat.S_ISLNK(status.st_mode):
        return SYMLINK, write_loose(repository.git_dir, "blob", os.readlink(path))  # noqa: PTH115 - a Path would not keep bytes
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > LARGEST_FILE:
        raise StateError(f"{text_path(path)} has {status.st_size} bytes; a state stores files up to {LARGEST_FILE}")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LARGEST_FILE + 1)
    mode = EXECUTABLE if status.st_mode & 0o100 else FILE
    if old is not None and old == (mode, object_id("blob", data)):
        return old
    return mode, write_loose(repository.git_dir, "blob", data)


def ignored(root: Path, repository: Repository, paths: list[str]) -> list[str]:
    """Which of these new files the ignore rules in the work tree name. Git runs with the mirror's configuration."""
    if not paths:
        return []
    done = subprocess.run(
        [
            *(git_program(), "--git-dir", str(repository.git_dir), "--work-tree", str(root), "-c", "core.bare=false"),
            *("-c", "core.excludesFile=", "-c", "core.fsmonitor=false", "check-ignore", "--no-index", "-z", "--stdin"),
        ],
        input=b"\0".join(map(byte_path, paths)) + b"\0",
        capture_output=True,
        check=False,
        cwd=root,
        env=git_environment(),
    )
    if done.returncode not in (0, 1):  # 1: none is ignored
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise StateError(f"the ignore rules of {root} cannot be read: {said}")
    asked: Mapping[str, None] = dict.fromkeys(paths)
    return [path for path in map(text_path, done.stdout.split(b"\0")) if path in asked]
