"""The default sandbox: Linux namespaces through ``bwrap``, as root or as an ordinary user.

Inside: the work folder at /repo (the only place of the host that can be changed), the system's programs and
libraries and the folders in ``read_only`` (read-only), a private /tmp in memory, no network but a loopback of
its own, no other process, no variable and no home of the host, no capability, no new namespaces, and none of the
system calls that ``seccomp.py`` lists. It dies with the thread that opened it.

Not promised: a hole in the kernel is not covered, the CPU is not bounded, and neither is memory in buffers of sockets
and pipes. Limits are in ``shell.limits_script`` (per process, by the kernel) and ``watch.py`` (sums).
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from handoff.errors import SandboxError
from handoff.sandbox import seccomp
from handoff.sandbox.base import ROOT, Completed, Limits, Mount, check_mount, is_place
from handoff.sandbox.helpers import Helpers
from handoff.sandbox.shell import PersistentShell, command_environment, limits_script
from handoff.sandbox.watch import Watch, children, hurry, tree

_USER = 1000
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/mime.types", "/etc/magic")
_PASSWD = f"agent:x:{_USER}:{_USER}:agent:/tmp:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
_GROUP = f"agent:x:{_USER}:\nnogroup:x:65534:\n"


class Bubblewrap:
    """One jail with a persistent shell. See ``Sandbox``."""

    def __init__(
        self,
        workdir: Path,
        *,
        limits: Limits,
        read_only: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        root: str = ROOT,
        mounts: Sequence[Mount] = (),
    ) -> None:
        reason = missing()
        if reason is not None:
            raise SandboxError(f"bubblewrap cannot be used here: {reason}")
        self.root = root
        self._jail = jail(workdir, limits=limits, read_only=read_only, env=env, root=root, mounts=mounts)
        self._prologue = limits_script(limits, processes=_limits_are_per_namespace())
        self._watch = Watch((workdir, *(m.source for m in mounts if m.is_writable)), limits, tree, spaces=_spaces)
        self._helpers = Helpers(self._watch, stop)
        try:
            self._shell = PersistentShell(root, limits, self._watch, self._launch, stop, self._prologue)
        except BaseException:
            self._watch.close()
            raise

    def run(self, command: str, timeout_s: float | None = None, *, stop: threading.Event | None = None) -> Completed:
        """See ``Sandbox.run``."""
        return self._shell.run(command, timeout_s, stop)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """See ``Sandbox.spawn``. Its standard error goes nowhere."""
        extra = [part for name, value in sorted((env or {}).items()) for part in ("--setenv", name, value)]
        wrapped = ["bash", "-c", f'{self._prologue}; exec "$@"', "bash", *argv]
        return self._helpers.add(self._popen(wrapped, (), subprocess.DEVNULL, extra))

    def close(self) -> None:
        """See ``Sandbox.close``."""
        self._watch.close()
        self._shell.close()
        self._helpers.close()

    def _launch(self, argv: Sequence[str], pass_fds: Sequence[int]) -> subprocess.Popen[bytes]:
        return self._popen(argv, pass_fds, subprocess.STDOUT)

    def _popen(
        self, argv: Sequence[str], pass_fds: Sequence[int], stderr: int, extra: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as files:
            handed = list(pass_fds)
            command = _command(self._jail, extra, argv, files, handed)
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                pass_fds=handed,
                start_new_session=True,
                env={"PATH": os.defpath},
            )


def _command(
    options: Sequence[str], extra: Sequence[str], argv: Sequence[str], files: contextlib.ExitStack, handed: list[int]
) -> list[str]:
    """The command line of a jail. ``files``: closed once it runs; ``handed``: descriptors that it must be given."""

    def hand_over(data: str | bytes) -> str:
        """The number of a descriptor that bwrap reads ``data`` from."""
        file = files.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - it is
        file.write(os.fsencode(data))
        file.seek(0)
        handed.append(file.fileno())
        return str(file.fileno())

    known = ["--ro-bind-data", hand_over(_PASSWD), "/etc/passwd", "--ro-bind-data", hand_over(_GROUP), "/etc/group"]
    calls = seccomp.program()
    known += ["--seccomp", hand_over(calls)] if calls is not None else []
    # Handed over too, so that the jail's process list does not show the host's paths.
    told = "".join(f"{option}\0" for option in [*options, *known, *extra, "--remount-ro", "/"])
    return [_program(), "--args", hand_over(told), "--", *argv]


def jail(
    workdir: Path,
    *,
    limits: Limits,
    read_only: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    root: str = ROOT,
    mounts: Sequence[Mount] = (),
) -> list[str]:
    """The options of ``bwrap`` that make the jail, without the program to run in it. ``root``, ``mounts``: see
    ``open_sandbox``."""
    if not is_place(root):
        raise SandboxError(f"the work folder cannot be shown at {root} inside the sandbox")
    argv = ["--unshare-all", "--unshare-user", "--uid", str(_USER), "--gid", str(_USER)]
    argv += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if "--disable-userns" in _help():
        argv += ["--disable-userns"]
    argv += ["--ro-bind", "/usr", "/usr"]
    for place in _SYSTEM:
        path = Path(place)
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), place]
        elif path.is_dir():
            argv += ["--ro-bind", place, place]
    for place in _SETTINGS:
        argv += ["--ro-bind-try", place, place]
    memory = str(max(64, limits.memory_mb // 4) << 20)
    # Read-only: run by root, the agent would own the kernel's settings, and no capability is asked for to change those.
    argv += [
        "--proc",
        "/proc",
        "--remount-ro",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        memory,
        "--tmpfs",
        "/dev/shm",
        "--remount-ro",
        "/dev",
    ]
    argv += ["--size", memory, "--perms", "1777", "--tmpfs", "/tmp"]
    bins = []
    for folder in read_only:
        place = str(folder.absolute())
        if place == "/" or any(place == kept or kept.startswith(place + "/") for kept in ("/proc", "/dev", root)):
            raise SandboxError(f"{place} cannot be shown inside the sandbox")
        argv += ["--ro-bind", place, place]
        bins += [f"{place}/bin"] if (folder / "bin").is_dir() else []
    for mount in mounts:
        check_mount(mount, root)
        argv += ["--bind" if mount.is_writable else "--ro-bind", str(mount.source.absolute()), mount.place]
    argv += ["--bind", str(workdir.absolute()), root, "--chdir", root, "--clearenv"]
    for name, value in command_environment("/tmp", bins, env or {}).items():
        argv += ["--setenv", name, value]
    return argv


def _spaces(process: int) -> list[str]:
    """What a jail has in memory, as this side sees it; nothing while bwrap is still making it."""
    for child in children(process)[:1]:
        root = f"/proc/{child}/root"
        with contextlib.suppress(OSError):
            if not os.path.samestat(os.stat(f"{root}/"), os.stat("/")):  # noqa: PTH116
                return [f"{root}/tmp", f"{root}/dev/shm"]
    return []


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a jail; returns when nothing in it is left."""
    if process.poll() is None:
        # bwrap's child is the first process of the jail's pid namespace: the kernel ends all others with it,
        # and only then does bwrap itself return.
        for pid in children(process.pid) or [process.pid]:
            hurry(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


@functools.cache
def missing() -> str | None:
    """Why bubblewrap cannot work on this machine, with the remedy; ``None`` when it can. Tried once."""
    if platform.system() != "Linux":
        return "it needs Linux"
    if shutil.which("bwrap") is None:
        return "bwrap is not installed (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"
    if shutil.which("bash") is None:
        return "bash is not installed"
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder, contextlib.ExitStack() as files:
        handed: list[int] = []
        argv = _command(jail(Path(folder), limits=Limits()), (), ["bash", "-c", ": > ok"], files, handed)
        try:
            done = subprocess.run(
                argv, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL, pass_fds=handed
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bwrap does not run ({error})"
        if done.returncode == 0 and (Path(folder) / "ok").exists():
            return None
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
    return f"bwrap fails with '{said}'; {_remedy()}"


def _remedy() -> str:
    for place, off, remedy in (
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ):
        with contextlib.suppress(OSError):
            if Path("/proc/sys", place).read_text().strip() == off:
                return f"user namespaces are switched off here ({remedy})"
    return "inside a container, user namespaces must be allowed (docker: --security-opt seccomp=unconfined)"


@functools.cache
def _help() -> str:
    return subprocess.run([_program(), "--help"], capture_output=True, text=True, check=False, timeout=20).stdout


@functools.cache
def _program() -> str:
    return shutil.which("bwrap") or "bwrap"


def _limits_are_per_namespace() -> bool:
    """Since Linux 5.14 processes are counted per user namespace; before, our limit would count the user's own."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return found is not None and (int(found[1]), int(found[2])) >= (5, 14)
