"""No jail at all: the same shell as a plain process of the host, with resource limits.

Only for code that is trusted already (the embedded world's own), and only when asked for by name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from handoff.errors import SandboxError
from handoff.sandbox.base import Completed, Limits
from handoff.sandbox.helpers import Helpers
from handoff.sandbox.shell import PersistentShell, command_environment, limits_script
from handoff.sandbox.watch import Sessions, Watch

WARNING = (
    "the sandbox is 'host': commands run as you, with your files, your network and your processes in "
    "reach. Only time, memory, output and file size are bounded. Use it for the embedded world only; for any "
    "other agent install bubblewrap."
)
"""To be shown, loudly, wherever this back end is used."""


class Host:
    """A shell without walls. See ``Sandbox``; a background process that leaves its session may survive it."""

    def __init__(
        self,
        workdir: Path,
        *,
        limits: Limits,
        read_only: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        reason = missing()
        if reason is not None:
            raise SandboxError(f"the host sandbox cannot be used here: {reason}")
        self.root = str(workdir.absolute())
        self._home = tempfile.TemporaryDirectory(prefix="handoff-home-")
        bins = [str(folder.absolute() / "bin") for folder in read_only if (folder / "bin").is_dir()]
        self._env = command_environment(self._home.name, bins, {"TMPDIR": self._home.name, **(env or {})})
        self._prologue = limits_script(limits, processes=False)  # it would count everything the user runs
        self._watch = Watch((workdir,), limits, Sessions(limits))
        self._helpers = Helpers(self._watch, stop)
        try:
            self._shell = PersistentShell(self.root, limits, self._watch, self._launch, stop, self._prologue)
        except BaseException:
            self._watch.close()
            self._home.cleanup()
            raise

    def run(self, command: str, timeout_s: float | None = None, *, stop: threading.Event | None = None) -> Completed:
        """See ``Sandbox.run``."""
        return self._shell.run(command, timeout_s, stop)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """See ``Sandbox.spawn``. Its standard error goes nowhere."""
        wrapped = ["bash", "-c", f'{self._prologue}; exec "$@"', "bash", *argv]
        return self._helpers.add(self._popen(wrapped, (), subprocess.DEVNULL, env or {}))

    def close(self) -> None:
        """See ``Sandbox.close``."""
        self._watch.close()
        self._shell.close()
        self._helpers.close()
        self._home.cleanup()

    def _launch(self, argv: Sequence[str], pass_fds: Sequence[int]) -> subprocess.Popen[bytes]:
        return self._popen(argv, pass_fds, subprocess.STDOUT, {})

    def _popen(
        self, argv: Sequence[str], pass_fds: Sequence[int], stderr: int, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            pass_fds=pass_fds,
            start_new_session=True,
            cwd=self.root,
            env={**self._env, **env},
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the session's process group, and give its orphans a moment to be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for _ in range(100):  # not for ever: where nobody reaps orphans, dead ones stay listed
            os.killpg(process.pid, 0)
            time.sleep(0.002)
    process.wait()


def missing() -> str | None:
    """Why it cannot work here; ``None`` when it can."""
    return None if shutil.which("bash") else "bash is not installed"
