"""Locks between processes. The kernel lets go when a process dies, so a killed one leaves nothing locked.

Two kinds: taking turns at one thing (``locked``, ``try_locked``), and holding a thing that others may remove when
nobody holds it (``hold``, ``try_claim``). What is removed takes its lock file with it, so a holder looks whether the
file it locked is still the one of that name.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; waits for it."""
    descriptor = os.open(path, _FLAGS, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def try_locked(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock if nobody else does; tells whether it is held."""
    descriptor = os.open(path, _FLAGS, 0o644)
    try:
        yield _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def hold(path: Path) -> int:
    """A descriptor that holds ``path`` together with other holders; waits while one claims it. Close it to let go."""
    while True:
        descriptor = os.open(path, _FLAGS, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_current(descriptor, path):
            return descriptor
        os.close(descriptor)


def try_claim(path: Path) -> int | None:
    """A descriptor that has ``path`` alone; ``None`` while anybody holds it, or when it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_current(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


def _take(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    return True


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))  # noqa: PTH116 - with a descriptor
    except FileNotFoundError:
        return False
