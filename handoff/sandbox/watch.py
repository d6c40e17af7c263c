"""Watches running sandboxes and stops those that pass a limit.

Resource limits of the kernel bound single processes; here the sums are bounded: processes, resident memory
and growth of the work folder, in bytes and in files. It needs no privilege and no control groups, only /proc, and
looks every 20 ms while a command runs and every 100 ms between commands, so a limit can be overshot by what fits into
that time. What cannot be measured counts as too much; where folders are moved about, all that is written on their disk
counts as theirs. Where the kernel does not list children in /proc
(CONFIG_PROC_CHILDREN is off), only the first process of a jail is seen.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from handoff import folders
from handoff.errors import InputError, SandboxError
from handoff.sandbox.base import Limits

BUSY_S = 0.02
IDLE_S = 0.1
_THREADS = re.compile(rb"^Threads:\s+(\d+)", re.MULTILINE)
_RESIDENT = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)


class Watched:
    """One process with all it started. ``reason`` says why it was stopped, if it was."""

    def __init__(self, pid: int, stop: Callable[[], None]) -> None:
        self.pid = pid
        self.stop = stop
        self.reason: str | None = None


class Watch:
    """A thread that measures what it is given until it is closed.

    ``folders``: whose growth together is bounded, the work folder first; the others lie on its disk.
    ``members``: from a process number to the processes that belong to it (``tree`` or ``Sessions``), for their sums.
    ``holders``: the same, for files that they hold open; left out: ``members``. ``spaces``: from a process number to
    file systems in memory whose number of files is bounded too: each file takes memory that nobody else counts.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        limits: Limits,
        members: Callable[[int], Iterable[int]],
        holders: Callable[[int], Iterable[int]] | None = None,
        spaces: Callable[[int], Iterable[str]] | None = None,
    ) -> None:
        self._members = members
        self._holders = members if holders is None else holders
        self._spaces = spaces
        self._folders = tuple(folders)
        self._limits = limits
        self._watched: list[Watched] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._opened_ns = time.time_ns()
        self._free = _free(self._folders[0])
        self.is_busy = False
        """True while a command runs: then it looks more often."""
        self._thread = threading.Thread(target=self._go, name="handoff-sandbox-watch", daemon=True)
        self._thread.start()

    def add(self, pid: int, stop: Callable[[], None]) -> Watched:
        """Watch a process and all it starts; ``stop`` is called, in the watching thread, when it passes a limit."""
        one = Watched(pid, stop)
        with self._lock:
            self._watched.append(one)
        return one

    def remove(self, one: Watched) -> None:
        """No longer watch it: it is about to be reaped, and its number may be given to another process."""
        with self._lock:
            if one in self._watched:
                self._watched.remove(one)

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        self._thread.join()

    def _go(self) -> None:
        hurry(threading.get_native_id())  # go before what is watched
        while not self._closing.wait(BUSY_S if self.is_busy else IDLE_S):
            try:
                is_full = self._is_full()
            except FileNotFoundError:  # no work folder: whoever starts a shell in it will say so
                is_full = False
            except OSError:
                is_full = True
            with self._lock:  # held while stopping, so that nobody reaps the process meanwhile
                for one in list(self._watched):
                    is_crowded = self._spaces is not None and crowded(self._spaces(one.pid), self._limits)
                    reason = "disk" if is_full else over(self._members(one.pid), self._limits)
                    if reason is None and is_crowded:
                        reason = "files"
                    if reason is not None:
                        one.reason = reason
                        self._watched.remove(one)
                        with contextlib.suppress(SandboxError):  # whoever runs or closes the sandbox tries it again
                            one.stop()

    def _is_full(self) -> bool:
        """True when the folders have grown too far. What is free on their disk is the cheap first look."""
        free = _free(self._folders[0])
        self._free = _Free(max(self._free.mb, free.mb), max(self._free.files, free.files))
        used_mb, used_files = self._free.mb - free.mb, self._free.files - free.files
        if used_mb <= self._limits.disk_mb / 2 and used_files <= self._limits.files / 2:
            return False
        with self._lock:
            pids = [pid for one in self._watched for pid in self._holders(one.pid)]
        try:  # somebody wrote that much: was it this sandbox?
            is_full = is_grown(self._folders, self._opened_ns, self._limits, pids)
        except InputError:  # a build may do that once; until it can be counted, all that was written is its
            return used_mb > self._limits.disk_mb or used_files > self._limits.files
        self._free = free
        return is_full


def hurry(task: int) -> None:
    """Let a task run before all ordinary ones, where that is allowed: as root, of whom the kernel counts no processes.

    Among thousands of processes of a fork bomb a killed one would wait for seconds before it gets to die.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(task, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def over(pids: Iterable[int], limits: Limits) -> str | None:
    """The limit that processes pass together; ``None`` when they keep within all. Threads count as processes."""
    seen = 0
    memory_kb = 0
    for pid in pids:
        status = b""
        with contextlib.suppress(OSError):
            status = _read(f"/proc/{pid}/status")
        memory_kb += sum(map(int, _RESIDENT.findall(status)))
        threads = _THREADS.search(status)
        # One that ended since it was listed counts too: a fork bomb's processes rarely live to be looked at.
        seen += int(threads[1]) if threads else 1
        if seen > limits.processes:
            return "processes"
    return "memory" if memory_kb > limits.memory_mb << 10 else None


def crowded(spaces: Iterable[str], limits: Limits) -> bool:
    """Whether a file system in memory holds too many files."""
    for place in spaces:
        with contextlib.suppress(OSError):
            found = os.statvfs(place)
            if found.f_files - found.f_ffree > limits.files:
                return True
    return False


def nobody(pid: int) -> Iterator[int]:
    """No process: where control groups bound their sums."""
    return iter(())


def tree(pid: int) -> Iterator[int]:
    """A process and all its descendants, lazily. Enough where orphans cannot leave it: in a pid namespace."""
    pending = [pid]
    while pending:
        current = pending.pop()
        yield current
        pending += children(current)


class Sessions:
    """Finds the processes of a session, orphans among them. It reads all of /proc, but only after a new process."""

    def __init__(self, limits: Limits) -> None:
        self._enough = limits.processes + 1
        self._newest = b""
        self._sessions: dict[int, list[int]] = {}

    def __call__(self, session: int) -> list[int]:
        """Process numbers of a session; some may have ended."""
        newest = _read("/proc/loadavg").rsplit(b" ", 1)[-1]
        if newest != self._newest:
            self._newest = b""
            self._sessions = {}
            for name in os.listdir("/proc"):  # noqa: PTH208 (names are all that is wanted)
                if name.isdigit():
                    with contextlib.suppress(OSError, IndexError):
                        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
                        members = self._sessions.setdefault(int(fields[3]), [])
                        members.append(int(name))
                        if int(fields[3]) == session and len(members) >= self._enough:
                            return members  # too many already: no time to lose
            self._newest = newest
        return self._sessions.get(session, [])


def children(pid: int) -> list[int]:
    """Direct children of a process, of all its threads, as the kernel lists them now."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                found += [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
    return found


def is_grown(places: Sequence[Path], since_ns: int, limits: Limits, pids: Iterable[int] = ()) -> bool:
    """Whether what was written to folders after a time (ns since 1970) passes the limits. It stops counting there.

    ``pids``: processes whose open files count too when no folder shows them any more. ``InputError`` when folders
    are moved about before it has counted so many.
    """
    blocks = files = 0
    seen: set[tuple[int, int]] = set()
    for status in itertools.chain(*map(_written, places), _unlinked(pids)):
        if status.st_ctime_ns < since_ns or (status.st_dev, status.st_ino) in seen:
            continue
        if status.st_nlink != 1:
            seen.add((status.st_dev, status.st_ino))
        blocks += status.st_blocks
        files += 1
        if files > limits.files or blocks * 512 > limits.disk_mb << 20:
            return True
    return False


def _written(place: Path) -> Iterator[os.stat_result]:
    return (found.status for found in folders.walk(place))


def _unlinked(pids: Iterable[int]) -> Iterator[os.stat_result]:
    """Files that processes hold open and that have no name: an agent may fill a disk with them."""
    for pid in pids:
        for held in ("fd", "map_files"):
            with contextlib.suppress(OSError):  # map_files is for root
                for name in os.listdir(f"/proc/{pid}/{held}"):  # noqa: PTH208
                    with contextlib.suppress(OSError):
                        status = os.stat(f"/proc/{pid}/{held}/{name}")  # noqa: PTH116
                        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                            yield status


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


class _Free(NamedTuple):
    mb: float
    files: int
    """0 on file systems that do not count them: there a file takes bytes."""


def _free(folder: Path) -> _Free:
    found = os.statvfs(folder)
    return _Free(found.f_bavail * found.f_frsize / (1 << 20), found.f_ffree)
