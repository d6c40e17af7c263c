"""Walking and removing a folder that an agent has had its hands on: any depth, any names, never through a link.

Only one folder is open at a time, and each is reached from the one beside it: paths longer than the system takes, or
folders nested deeper than Python recurses, are no obstacle. A folder that is moved during the walk ends it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from handoff.errors import InputError

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """One thing in a folder."""

    folder: int
    """Descriptor of the folder it is in, valid until the next step of the walk."""
    name: str
    status: os.stat_result
    depth: int
    """How many folders below the first one it lies: 0 for what is in that itself."""

    @property
    def is_folder(self) -> bool:
        """False for a link to one."""
        return stat.S_ISDIR(self.status.st_mode)


class _Level(NamedTuple):
    name: str
    """Of this folder in the one above."""
    status: os.stat_result
    folders: list[str]
    """Those not yet gone into."""


def walk(root: Path, *, unlock: bool = False) -> Iterator[Found]:
    """Everything below ``root``, each folder after what is in it; what vanishes meanwhile is left out.

    ``unlock``: give folders that the owner may not enter its rights first. ``OSError`` where a folder cannot be
    opened; ``InputError`` when folders are moved about during the walk. File systems mounted below are gone into.
    """
    here = os.open(root, _OPEN)
    try:
        yield from _files(here, 0)
        levels = [_Level("", os.fstat(here), _folders(here))]
        while True:
            level = levels[-1]
            if level.folders:
                name = level.folders.pop()
                try:
                    below = _enter(here, name, unlock)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                os.close(here)
                here = below
                yield from _files(here, len(levels))
                levels.append(_Level(name, os.fstat(here), _folders(here)))
                continue
            levels.pop()
            if not levels:
                return
            above = os.open("..", _OPEN, dir_fd=here)
            os.close(here)
            here = above
            if not os.path.samestat(os.fstat(here), levels[-1].status):
                raise InputError(f"{root}: folders below it were moved while it was read; end what writes there")
            with suppress(FileNotFoundError):
                status = os.stat(level.name, dir_fd=here, follow_symlinks=False)
                yield Found(here, level.name, status, len(levels) - 1)
    finally:
        os.close(here)


def shallow(root: Path, deepest: int, leave: Container[str] = ()) -> Iterator[tuple[str, Found]]:
    """Everything below ``root`` with its path, in the order of names; folders at depth ``deepest`` are not gone into.

    ``leave``: names of files and folders that are passed over. What is swapped for a link meanwhile is not followed: it
    is as if it were gone.
    """
    here = os.open(root, _OPEN)
    try:
        yield from _shallow(here, "", 0, deepest, leave)
    finally:
        os.close(here)


def _shallow(folder: int, prefix: str, depth: int, deepest: int, leave: Container[str]) -> Iterator[tuple[str, Found]]:
    for name in sorted(os.listdir(folder)):
        if name in leave:
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield prefix + name, Found(folder, name, status, depth)
        if stat.S_ISDIR(status.st_mode) and depth < deepest:
            try:
                below = os.open(name, _OPEN, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                yield from _shallow(below, f"{prefix}{name}/", depth + 1, deepest, leave)
            finally:
                os.close(below)


def read(found: Found, limit: int) -> bytes | None:
    """A regular file's bytes, at most ``limit``; ``None`` when it is none (any more). Never waits for another."""
    try:
        file = os.open(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=found.folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    with os.fdopen(file, "rb") as stream:
        return stream.read(limit) if stat.S_ISREG(os.fstat(file).st_mode) else None


def remove(root: Path) -> None:
    """Remove a folder with all below it; nothing happens when there is none. ``OSError`` for what cannot be removed."""
    with suppress(FileNotFoundError):
        os.chmod(root, 0o700)  # noqa: PTH101 - as below
        for found in walk(root, unlock=True):
            with suppress(FileNotFoundError):
                if found.is_folder:
                    os.rmdir(found.name, dir_fd=found.folder)
                else:
                    os.unlink(found.name, dir_fd=found.folder)
        root.rmdir()


def _enter(folder: int, name: str, unlock: bool) -> int:
    try:
        below = os.open(name, _OPEN, dir_fd=folder)
    except PermissionError:
        if not unlock:
            raise
        _own(folder, name)
        return os.open(name, _OPEN, dir_fd=folder)
    if unlock and os.fstat(below).st_mode & 0o700 != 0o700:
        with suppress(PermissionError):
            os.fchmod(below, 0o700)
    return below


def _own(folder: int, name: str) -> None:
    """``chmod`` of a folder that cannot be opened, and never of what a link points to."""
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101
    finally:
        os.close(place)


def _files(folder: int, depth: int) -> Iterator[Found]:
    """What is in a folder, but for folders."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    yield Found(folder, entry.name, entry.stat(follow_symlinks=False), depth)


def _folders(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
