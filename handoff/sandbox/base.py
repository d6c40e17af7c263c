"""What every sandbox promises: one protocol, its limits and its answer.

The back ends are ``bubblewrap.py``, ``docker.py`` and ``host.py``; the shell they share is ``shell.py``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from handoff.errors import InputError, SandboxError
from handoff.trajectory import Observation

ROOT = "/repo"
"""Where a jail shows the work folder, unless it is told."""
_PLACE = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[\w.+@-]{1,100}){1,12}", re.A)
_TAKEN = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr")
)
"""Folders of the system, where no work folder is shown."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox may use. Whoever passes a limit is stopped, and the observation says so."""

    memory_mb: int = 2048
    """Of all processes together (resident), and of each one's private writable memory."""
    processes: int = 256
    """Alive at once."""
    file_mb: int = 256
    """Size of any one file."""
    disk_mb: int = 2048
    """Growth of the work folder while the sandbox is open."""
    files: int = 200_000
    """New files and folders in the work folder while the sandbox is open, and in each place in memory."""
    cpus: float = 2.0
    """Processors, where the back end can bound them: docker. At most those that there are."""
    wall_s: float = 60.0
    """Seconds one command may take, unless the call says otherwise."""
    output_kb: int = 64
    """Output kept of one command: its beginning and its end."""


class Mount(NamedTuple):
    """A file or folder that a jail shows beside the work folder, at a place of our choosing."""

    source: Path
    place: str
    """Where commands find it. Its ``bin`` is not put on their path."""
    is_writable: bool = False
    """What a writable one grows by counts as growth of the work folder."""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """One command that ended, in one way or another."""

    exit_code: int | None
    """As bash reports it. ``None``: it was stopped, so there is none."""
    output: str
    """Standard output and error in the order written. Invalid UTF-8 becomes U+FFFD; NUL and escapes are kept."""
    timed_out: bool = False
    is_truncated: bool = False
    """Part of the output was left out; the gap is marked in ``output``."""
    seconds: float = 0.0
    notice: str = ""
    """What the sandbox has to say to the agent (stopped, started again); empty when all went well."""

    @property
    def text(self) -> str:
        """What an agent is shown: the output, then the notice on its own line."""
        if not self.notice:
            return self.output
        gap = "\n" if self.output and not self.output.endswith("\n") else ""
        return f"{self.output}{gap}{self.notice}"

    def observation(self, call_id: str | None = None) -> Observation:
        """The same as an observation of a trajectory."""
        return Observation(
            call_id=call_id,
            text=self.text,
            exit_code=self.exit_code,
            error=None if self.exit_code == 0 else True,
        )


class Sandbox(Protocol):
    """A place to run an untrusted agent's commands. Not safe for use by two threads at once.

    It belongs to the thread that opened it and dies with it.
    """

    root: str
    """The work folder as commands see it: ``/repo`` in a jail, the real path on the host."""

    def run(self, command: str, timeout_s: float | None = None, *, stop: threading.Event | None = None) -> Completed:
        """Run one shell command in the persistent shell. Never raises for anything the command does;
        ``SandboxError`` when the sandbox itself cannot go on. ``stop``: another thread sets it to end the command."""
        ...

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A helper process in a jail of the same kind over the same work folder, with pipes for stdin and stdout.

        It outlives restarts of the shell, has a private /tmp of its own, and ends at ``close``.
        """
        ...

    def close(self) -> None:
        """End everything that runs in it. The work folder stays. May be called twice."""
        ...


def is_place(root: str) -> bool:
    """Whether a jail can show a work folder there: a plain absolute path that hides nothing of the system."""
    return _PLACE.fullmatch(root) is not None and root.split("/", 2)[1] not in _TAKEN


def check_mount(mount: Mount, root: str) -> None:
    """``SandboxError`` for a mount over the system or the work folder at ``root``."""
    if not is_place(mount.place) or mount.place.split("/", 2)[1] == root.split("/", 2)[1]:
        raise SandboxError(f"nothing can be shown at {mount.place} inside the sandbox")


def python_paths() -> tuple[Path, ...]:
    """The folders that this interpreter and its packages live in, for ``read_only``."""
    return tuple(dict.fromkeys(Path(place).absolute() for place in (sys.prefix, sys.base_prefix)))


def shown_folders(programs: Sequence[str]) -> tuple[Path, ...]:
    """The folders to show for some programs, for ``read_only``: their own, where a link leads to, and where a virtual
    environment has its interpreter from. ``InputError`` when one is not there."""
    found: dict[Path, None] = {}
    for folder in (Path(program).absolute() for program in programs):
        if not folder.is_dir():
            raise InputError(f"programs: there is no folder {folder}; install them there or correct the setting")
        found[folder] = None
        found[folder.resolve()] = None
        program = (folder / "bin" / "python").resolve()
        home = program.parent.parent
        if program.is_file() and not home.is_relative_to("/usr") and home != folder and len(home.parts) > 2:
            found[home] = None
    return tuple(found)
