"""A container per shell, in an image per task: for code that needs more than this machine's own programs.

Inside: the work folder at the image's own working folder or at /repo (the only place of the host that can be
changed), the image's system (read-only), the folders in ``read_only`` (read-only), /tmp, /var/tmp, /run and the
image's volumes in memory, no network but a loopback of its own, no other process, no variable and no home of the host.
The user is not root and cannot become root: no capability, no new privileges, docker's own filter of system calls.
Control groups bound memory, swap, processes and processors, of all kinds and all together.

As root, the work folder is given to a user of its own while the sandbox is open, and given back at ``close``; as an
ordinary user, commands run as that user. Under a rootless engine they run as its root, who is that user outside.

A container is removed when its shell ends, and when the process that opened it dies: a guard waits for that. What even
the guard could not remove, such as after a crash of the machine, is found by its label at the next start.

Not promised: a hole in the kernel or the engine is not covered; whoever may talk to the engine is root on the host.
Engines before 25 let io_uring through, and some of them a virtual machine's vsock: ``handoff doctor`` says so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from handoff import folders
from handoff.errors import SandboxError
from handoff.sandbox import engine
from handoff.sandbox.base import ROOT, Completed, Limits, Mount, check_mount, is_place
from handoff.sandbox.helpers import Helpers
from handoff.sandbox.shell import PersistentShell, command_environment, limits_script
from handoff.sandbox.watch import Watch, nobody, tree

AGENT = 61_184
"""User and group of commands where this process is root: one that no account has (systemd's range for such)."""
_SPARE = 4
"""Processes of the shell itself."""
_GUARD = (
    'read -r word; [ "$word" = closed ] && exit; '
    'for turn in 1 2 3; do ids=$(docker ps -aq --filter "label=$1"); '
    '[ -n "$ids" ] && docker rm -fv $ids >/dev/null; sleep 1; done'
)
"""Ends with its input, which is ours alone. Three times: one may just be starting."""


class Docker:
    """One container with a persistent shell, and one more a helper. See ``Sandbox``."""

    def __init__(
        self,
        workdir: Path,
        *,
        limits: Limits,
        image: str | None,
        read_only: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        root: str | None = None,
        mounts: Sequence[Mount] = (),
    ) -> None:
        reason = engine.missing()
        if reason is not None:
            raise SandboxError(f"docker cannot be used here: {reason}")
        if not image:
            raise SandboxError("docker needs an image: the task's own, or one named in handoff.toml")
        _remove_leftovers()
        facts = engine.image_facts(image)
        self.root = root if root is not None else (facts.WorkingDir if _can_be_shown(facts.WorkingDir) else ROOT)
        if not _can_be_shown(self.root):
            raise SandboxError(f"the work folder cannot be shown at {self.root} inside a container")
        self._workdir = workdir.absolute()
        self._names: dict[int, str] = {}
        self._label = f"{engine.LABEL}={secrets.token_hex(8)}"
        self._given: list[tuple[Path, int, int]] = []
        self._options = container(
            self._workdir,
            limits=limits,
            facts=facts,
            read_only=read_only,
            env=env or {},
            root=self.root,
            mounts=mounts,
        )
        self._options += ["--label", self._label, "--label", f"{engine.OWNER}={engine.owner()}"]
        self._image = image
        self._prologue = f"unset {' '.join(engine.proxy_free())}; {limits_script(limits, processes=False)}"
        self._shell: PersistentShell | None = None
        self._is_closed = False
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", self._label],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        written = (workdir, *(mount.source for mount in mounts if mount.is_writable))
        self._watch = Watch(written, limits, nobody, self._inside)
        self._helpers = Helpers(self._watch, self._stop)
        try:
            if _gives_away():
                for folder in written:
                    status = folder.stat()
                    self._given.append((folder, status.st_uid, status.st_gid))
                    give(folder, AGENT, AGENT)
            with _sign(self._workdir) as name:
                self._shell = PersistentShell(
                    self.root, limits, self._watch, self._launch, self._stop, self._prologue, can_pass=False
                )
                if self._shell.run(f"[ -d {name} ]", 60.0).exit_code != 0:
                    raise SandboxError(f"the engine does not show {workdir}: it must run on this machine")
        except BaseException:
            self.close()
            raise

    def run(self, command: str, timeout_s: float | None = None, *, stop: threading.Event | None = None) -> Completed:
        """See ``Sandbox.run``."""
        assert self._shell is not None
        return self._shell.run(command, timeout_s, stop)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """See ``Sandbox.spawn``. Its standard error goes nowhere."""
        wrapped = ["bash", "-c", f'{self._prologue}; exec "$@"', "bash", *argv]
        return self._helpers.add(self._popen(wrapped, subprocess.DEVNULL, env or {}))

    def close(self) -> None:
        """See ``Sandbox.close``. ``SandboxError`` when the engine would not remove a container."""
        if self._is_closed:
            return
        self._watch.close()
        if self._shell is not None:
            self._shell.close()
        self._helpers.close()
        engine.remove(*engine.containers(self._label))  # one that the engine was slow to make
        while self._given:
            give(*self._given.pop())
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._guard.stdin.write(b"closed\n")
            self._guard.stdin.close()
        self._guard.wait()
        self._is_closed = True

    def _launch(self, argv: Sequence[str], pass_fds: Sequence[int]) -> subprocess.Popen[bytes]:
        assert not pass_fds
        return self._popen(argv, subprocess.PIPE, {})

    def _popen(self, argv: Sequence[str], stderr: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        name = f"handoff-{secrets.token_hex(8)}"
        extra = [part for key, value in sorted(env.items()) for part in ("--env", f"{key}={value}")]
        # The first process is a bash that only waits: it reaps orphans, and the shell below it can be killed.
        command = ["docker", "run", "--name", name, *self._options, *extra, self._image]
        process = subprocess.Popen(
            [*command, "-c", '"$@"; exit $?', "sandbox", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )
        self._names[process.pid] = name
        return process

    def _inside(self, pid: int) -> Iterator[int]:
        """The processes of a container, where this machine shows them."""
        first = engine.first_process(self._names.get(pid, ""))
        return tree(first) if first else iter(())

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """Kill and remove a container; returns when nothing in it is left."""
        # First the program: the engine would wait for it to take all output, and it for us.
        process.kill()
        process.wait()
        name = self._names.get(process.pid)
        if name is not None:
            engine.remove(name)
            self._names.pop(process.pid, None)


def container(
    workdir: Path,
    *,
    limits: Limits,
    facts: engine.Image,
    read_only: Sequence[Path],
    env: Mapping[str, str],
    root: str,
    mounts: Sequence[Mount],
) -> list[str]:
    """The options of ``docker run`` that confine a container, without its name, labels, image and command."""
    memory = f"{limits.memory_mb}m"
    part = max(64, limits.memory_mb // 4)
    argv = ["--interactive", "--pull", "never", "--log-driver", "none", "--no-healthcheck"]
    argv += ["--entrypoint", "bash", "--hostname", "sandbox", "--user", _user(), "--workdir", root]
    argv += ["--network", "none", "--ipc", "private", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    argv += ["--userns", "host"] if engine.engine().is_remapped else []
    argv += ["--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes + _SPARE)]
    argv += ["--cpus", str(min(limits.cpus, engine.engine().cpus))]
    argv += ["--read-only", "--shm-size", f"{part}m"]
    files = f"nr_inodes={limits.files}"
    for place, size in (("/tmp", part), ("/var/tmp", part), ("/run", 16)):
        argv += ["--tmpfs", f"{place}:rw,exec,nosuid,nodev,mode=1777,size={size}m,{files}"]
    for place in sorted(facts.Volumes or {}):  # else each becomes a folder of the host without a limit
        if place.startswith("/") and ":" not in place and place not in ("/tmp", "/var/tmp", "/run", root):
            argv += ["--tmpfs", f"{place}:rw,exec,nosuid,nodev,mode=1777,size={part}m,{files}"]
    bins = []
    for folder in read_only:
        place = str(folder.absolute())
        if place == "/" or any(place == kept or kept.startswith(place + "/") for kept in ("/proc", "/dev", root)):
            raise SandboxError(f"{place} cannot be shown inside a container")
        argv += ["--mount", _bind(place, place, ",readonly")]
        bins += [f"{place}/bin"] if (folder / "bin").is_dir() else []
    for mount in mounts:
        check_mount(mount, root)
        argv += ["--mount", _bind(str(mount.source.absolute()), mount.place, "" if mount.is_writable else ",readonly")]
    argv += ["--mount", _bind(str(workdir), root)]
    variables = command_environment("/tmp", bins, {"USER": "agent", "LOGNAME": "agent", **env})
    if facts.path is not None and "PATH" not in env:
        variables["PATH"] = ":".join([*bins, facts.path])
    for name, value in {**engine.proxy_free(), **variables}.items():
        argv += ["--env", f"{name}={value}"]
    return argv


def _bind(source: str, target: str, more: str = "") -> str:
    """A bind mount as one line of comma-separated values, quoted as those are."""
    fields = (f"source={source}", f"target={target}")
    quoted = ['"{}"'.format(field.replace('"', '""')) for field in fields]
    return f"type=bind,{','.join(quoted)}{more}"


def _can_be_shown(root: str) -> bool:
    """``/root`` is closed to everybody but the user that commands never are."""
    return is_place(root) and root.split("/", 2)[1] != "root"


def _user() -> str:
    if engine.engine().is_rootless:
        return "0:0"
    return f"{AGENT}:{AGENT}" if _gives_away() else f"{os.getuid()}:{os.getgid()}"


def _gives_away() -> bool:
    return os.getuid() == 0 and not engine.engine().is_rootless


def give(folder: Path, user: int, group: int) -> None:
    """Make everything in a folder belong to a user, and the folder; no link is followed."""
    for found in folders.walk(folder):
        if (found.status.st_uid, found.status.st_gid) != (user, group):
            with contextlib.suppress(FileNotFoundError):
                os.chown(found.name, user, group, dir_fd=found.folder, follow_symlinks=False)
    os.chown(folder, user, group)


@contextlib.contextmanager
def _sign(workdir: Path) -> Iterator[str]:
    """A folder of a fresh name in the work folder: whoever sees it sees the same work folder."""
    place = workdir / f".handoff-{secrets.token_hex(8)}"
    place.mkdir()
    try:
        yield place.name
    finally:
        place.rmdir()


@functools.cache
def _remove_leftovers() -> None:
    """Once a process."""
    engine.remove_leftovers()
