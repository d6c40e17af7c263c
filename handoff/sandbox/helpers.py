"""Programs that run beside the shell in one sandbox, such as a test server: watched while they run, ended with it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable

from handoff.sandbox.watch import Watch


class Helpers:
    """The helpers of one sandbox. ``stop`` ends a process with all that it started."""

    def __init__(self, watch: Watch, stop: Callable[[subprocess.Popen[bytes]], None]) -> None:
        self._watch = watch
        self._stop = stop
        self._running: list[subprocess.Popen[bytes]] = []

    def add(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Watch ``process`` from now on; the same process."""
        self._running.append(process)
        self._watch.add(process.pid, lambda: self._stop(process))
        return process

    def close(self) -> None:
        """End all of them and close their pipes."""
        for process in self._running:
            self._stop(process)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        self._running.clear()
