"""The journal: append-only logs that survive a kill at any byte.

One log is one file of lines ``<crc32, 8 hex> <payload>\\n``. A line that is torn or damaged ends the log: it
and all after it are cut off when the log is next opened, and the work goes on from there. What the payloads
mean is the business of whoever writes them (``takeover.py``).

When a line is safe:

- against a kill of the process: as soon as ``append`` returns (it has been handed to the kernel);
- against a power failure: with ``sync="entry"`` as soon as ``append`` returns, which costs one disk flush a
  line; with ``sync="paid"`` that holds for lines that were paid for, and all before them; with ``sync="finish"`` once
  the last line is written;
  with ``sync="never"`` when the kernel gets round to it, for answers that cost nothing to compute again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import zlib
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

from handoff.errors import HandoffError, InputError

Sync: TypeAlias = Literal["never", "finish", "paid", "entry"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_PREFIX = 9  # eight digits and a space


class Journal:
    """A folder of logs."""

    def __init__(self, folder: Path, *, sync: Sync = "finish") -> None:
        self.folder = folder
        self.sync = sync

    def __repr__(self) -> str:
        return f"Journal({str(self.folder)!r}, sync={self.sync!r})"

    def path(self, name: str) -> Path:
        """Where a log lies: spread over 256 folders, so that none grows long."""
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r} cannot name a log; use letters, digits, '.', '_' and '-'")
        return self.folder / f"{zlib.crc32(name.encode()) & 0xFF:02x}" / f"{name}.log"

    def open(self, name: str) -> Log:
        """One log, locked: a second process that opens it waits until the first is done (or dead)."""
        return Log(self.path(name), self.sync)


class Log:
    """One open log. ``entries`` holds the payloads that were there when it was opened."""

    def __init__(self, path: Path, sync: Sync) -> None:
        self.path = path
        self._sync = sync
        try:
            self._file = _open(path)
        except OSError as error:
            raise _explain(error, path) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            data = _read(self._file)
            self.entries, valid = parse(data)
            if valid < len(data):
                os.ftruncate(self._file, valid)
            if not data and sync != "never":
                _sync_folder(path.parent)
        except OSError as error:
            os.close(self._file)
            raise _explain(error, path) from error

    def append(self, payload: bytes, *, is_last: bool = False, is_paid: bool = False) -> None:
        """Add one line; see the module's promises. ``payload`` holds no newline; ``is_paid``: it cost money."""
        line = frame(payload)
        try:
            while line:  # a short write is legal
                line = line[os.write(self._file, line) :]
            is_due = (is_paid and self._sync == "paid") or (is_last and self._sync != "never")
            if is_due or self._sync == "entry":
                os.fdatasync(self._file)
        except OSError as error:
            raise _explain(error, self.path) from error

    def close(self) -> None:
        """Release the log. May be called twice."""
        if self._file >= 0:
            os.close(self._file)  # the lock goes with it
            self._file = -1

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def frame(payload: bytes) -> bytes:
    """One line of a log."""
    if b"\n" in payload:
        raise ValueError("a payload is one line")
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def parse(data: bytes) -> tuple[tuple[bytes, ...], int]:
    """The payloads of all whole lines up to the first that is torn or damaged, and where that one begins."""
    entries: list[bytes] = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        payload = data[start + _PREFIX : end]
        if data[start : start + _PREFIX] != b"%08x " % zlib.crc32(payload):
            break
        entries.append(payload)
        start = end + 1
    return tuple(entries), start


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)


def _read(file: int) -> bytes:
    size = os.fstat(file).st_size
    parts = []
    offset = 0
    while offset < size and (part := os.pread(file, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(error: OSError, path: Path) -> HandoffError:
    if error.errno == errno.ENOSPC:
        return InputError(f"the disk that holds {path.parent} is full; free space and run again")
    return InputError(f"cannot use the journal {path}: {error.strerror or error}")
