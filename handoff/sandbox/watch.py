"""Watches running sandboxes and stops those that pass a limit.

Resource limits of the kernel bound single processes; here the sums are bounded: processes, resident memory
and growth of the work folder. It needs no privilege and no control groups, only /proc, and looks every
20 ms while a command runs and every 100 ms between commands, so a limit can be overshot by what fits into
that time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from handoff.sandbox.base import Limits

BUSY_S = 0.02
IDLE_S = 0.1
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Tree:
    """One process with all it started. ``reason`` says why it was stopped, if it was."""

    def __init__(self, pid: int, stop: Callable[[], None]) -> None:
        self.pid = pid
        self.stop = stop
        self.reason: str | None = None


class Watch:
    """A thread that measures the trees given to it until it is closed."""

    def __init__(self, workdir: Path, limits: Limits) -> None:
        self._workdir = workdir
        self._limits = limits
        self._trees: list[Tree] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._free_mb = _free_mb(workdir)
        self._size_mb: float | None = None
        self._busy = False
        self._thread = threading.Thread(target=self._go, name="handoff-sandbox-watch", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """True while a command runs: then it looks more often, and growth is counted from its start."""
        return self._busy

    @is_busy.setter
    def is_busy(self, busy: bool) -> None:
        self._busy = busy

    def add(self, pid: int, stop: Callable[[], None]) -> Tree:
        """Watch a process and all it starts; ``stop`` is called, in the watching thread, when it passes a limit."""
        tree = Tree(pid, stop)
        with self._lock:
            self._trees.append(tree)
        return tree

    def remove(self, tree: Tree) -> None:
        """No longer watch it: it is about to be reaped, and its number may be given to another process."""
        with self._lock:
            if tree in self._trees:
                self._trees.remove(tree)

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        self._thread.join()

    def _go(self) -> None:
        while not self._closing.wait(BUSY_S if self._busy else IDLE_S):
            is_full = self._is_full()
            with self._lock:  # held while stopping, so that nobody reaps the process meanwhile
                for tree in list(self._trees):
                    reason = "disk" if is_full else over(tree.pid, self._limits)
                    if reason is not None:
                        tree.reason = reason
                        self._trees.remove(tree)
                        tree.stop()

    def _is_full(self) -> bool:
        """True when the work folder has grown too far. Free space of its disk is the cheap first look."""
        free = _free_mb(self._workdir)
        if self._free_mb - free <= self._limits.disk_mb:
            self._free_mb = max(self._free_mb, free)
            return False
        self._free_mb = free  # somebody wrote that much: was it this sandbox?
        size = folder_mb(self._workdir)
        before, self._size_mb = self._size_mb or 0.0, size
        return size - before > self._limits.disk_mb


def over(pid: int, limits: Limits) -> str | None:
    """The limit that a process and its descendants pass together; ``None`` when they keep within all."""
    pending = [pid]
    seen = 0
    memory = 0.0
    while pending:
        current = pending.pop()
        base = f"/proc/{current}"
        try:
            fields = _read(f"{base}/statm").split()
            memory += (int(fields[1]) - int(fields[2])) * _PAGE_MB
            threads = os.listdir(f"{base}/task")
        except (OSError, IndexError):
            continue  # it has ended
        seen += len(threads)
        if seen > limits.processes:
            return "processes"
        for thread in threads:
            with contextlib.suppress(OSError):
                pending += [int(child) for child in _read(f"{base}/task/{thread}/children").split()]
    return "memory" if memory > limits.memory_mb else None


def descendants(pid: int) -> list[int]:
    """Direct children of a process, as the kernel lists them now."""
    try:
        return [int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def folder_mb(folder: Path) -> float:
    """Megabytes that the files of a folder take up on disk."""
    total = 0
    for base, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(base, file)).st_blocks  # noqa: PTH118
    return total * 512 / (1 << 20)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def _free_mb(folder: Path) -> float:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize / (1 << 20)
