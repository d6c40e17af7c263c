"""Asking a docker engine, through its own program: what it is, what an image says of itself, what was left running.

The program and not the library that the lock holds (``docker``): a helper process is promised as a ``Popen`` with
pipes, which ``docker run -i`` is, and the program knows the user's contexts, keys and rootless sockets.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from handoff.errors import SandboxError

LABEL = "handoff.sandbox"
"""On every container: which sandbox it belongs to."""
OWNER = "handoff.owner"
"""On every container: the process that opened it, as ``owner`` writes it."""
FILTERS_ALL = 25
"""Version of the engine from which on its filter of system calls refuses io_uring and vsock."""
_ANSWER_S = 60.0
_IMAGE = re.compile(r"[a-zA-Z0-9][\w.:/@-]{0,254}", re.A)


class _Info(msgspec.Struct, frozen=True):
    ServerVersion: str = ""
    OSType: str = ""
    NCPU: int = 1
    SecurityOptions: tuple[str, ...] | None = None
    ServerErrors: tuple[str, ...] | None = None


class Engine(NamedTuple):
    """What matters of an engine."""

    version: str
    cpus: int
    is_rootless: bool
    """Run by an ordinary user, who is root inside its containers."""
    is_remapped: bool
    """Users of containers are others outside (``userns-remap``)."""

    @property
    def remark(self) -> str:
        """What its own filter of system calls leaves open; empty when nothing that is known."""
        major = self.version.split(".")[0]
        if major.isdigit() and int(major) < FILTERS_ALL:
            return (
                f"engine {self.version} leaves io_uring and maybe vsock open to containers; {FILTERS_ALL} closes them"
            )
        return ""


class Image(msgspec.Struct, frozen=True):
    """What an image says of itself. Its author's words: nothing of it is used outside the container."""

    WorkingDir: str = ""
    Env: tuple[str, ...] | None = None
    Volumes: dict[str, object] | None = None

    @property
    def path(self) -> str | None:
        """Its search path for programs."""
        return next((entry.removeprefix("PATH=") for entry in self.Env or () if entry.startswith("PATH=")), None)


@functools.cache
def missing() -> str | None:
    """Why docker cannot be used, with the remedy; ``None`` when an engine answers. Asked once."""
    if shutil.which("docker") is None:
        return "docker is not installed (Debian, Ubuntu: apt install docker.io)"
    try:
        info = _info()
    except SandboxError as error:
        return str(error)
    if info.OSType != "linux":
        return f"its engine runs containers of {info.OSType or 'an unknown system'}; Linux is needed"
    return None


@functools.cache
def engine() -> Engine:
    """The engine's facts. ``SandboxError`` when none answers."""
    info = _info()
    options = {option.removeprefix("name=").split(",")[0] for option in info.SecurityOptions or ()}
    return Engine(
        version=info.ServerVersion,
        cpus=max(1, info.NCPU),
        is_rootless="rootless" in options,
        is_remapped="userns" in options,
    )


def _info() -> _Info:
    remedy = "start it (systemctl start docker), or let this user reach it (group docker; DOCKER_HOST)"
    done = ask("info", "--format", "{{json .}}", timeout_s=10.0)
    try:
        info = msgspec.json.decode(done.stdout, type=_Info)
    except msgspec.DecodeError as error:
        raise SandboxError(f"its engine does not answer: {said(done)}; {remedy}") from error
    if done.returncode or info.ServerErrors or not info.ServerVersion:
        raise SandboxError(f"its engine does not answer: {' '.join(info.ServerErrors or ()) or said(done)}; {remedy}")
    return info


def image_facts(image: str) -> Image:
    """What an image on this machine says. ``SandboxError`` when it is not there: nothing is ever fetched."""
    if not _IMAGE.fullmatch(image):
        raise SandboxError(f"{image!r} cannot be the name of an image")
    done = ask("image", "inspect", "--format", "{{json .Config}}", image)
    if done.returncode:
        raise SandboxError(f"there is no image {image} here: {said(done)}; fetch it first: docker pull {image}")
    try:
        return msgspec.json.decode(done.stdout, type=Image)
    except msgspec.DecodeError as error:
        raise SandboxError(f"the image {image} cannot be read: {error}") from error


def remove(*containers: str) -> None:
    """Kill and remove containers; those that are gone already are no error. ``SandboxError`` when some stay."""
    if not containers:
        return
    done = ask("rm", "--force", "--volumes", *containers)
    left = list(containers) if done.returncode else []
    for _ in range(100):  # another may be at it
        left = [name for name in left if _exists(name)]
        if not left:
            return
        time.sleep(0.1)
    raise SandboxError(f"{', '.join(left)}: not removed ({said(done)}); remove by hand: docker rm -f {left[0]}")


def _exists(container: str) -> bool:
    return ask("container", "inspect", "--format", "{{.Id}}", container).returncode == 0


def first_process(container: str) -> int:
    """Number of a container's first process as the engine's machine counts; 0 when it does not run."""
    done = ask("container", "inspect", "--format", "{{.State.Pid}}", container)
    return int(done.stdout) if done.stdout.strip().isdigit() else 0


def containers(label: str) -> dict[str, str]:
    """Containers with a label (``NAME`` or ``NAME=VALUE``), running or not → what their ``OWNER`` says."""
    form = f'{{{{.ID}}}} {{{{.Label "{OWNER}"}}}}'
    done = ask("ps", "--all", "--no-trunc", "--filter", f"label={label}", "--format", form)
    if done.returncode:
        raise SandboxError(f"the containers cannot be listed: {said(done)}")
    lines = (line.partition(" ") for line in done.stdout.decode("utf-8", "replace").splitlines())
    return {name: owner for name, _, owner in lines}


def owner() -> str:
    """This process, told from every other of this machine, of other pid namespaces and of earlier boots."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"


def remove_leftovers() -> int:
    """Remove containers of processes of this machine that were killed; how many. Those of others are left alone."""
    left = [name for name, value in containers(LABEL).items() if _is_dead(value)]
    remove(*left)
    return len(left)


def _is_dead(value: str) -> bool:
    machine, _, process = value.rpartition("/")[0].rpartition("/")
    started = value.rpartition("/")[2]
    return machine == _machine() and process.isdigit() and _started(int(process)) != started


@functools.cache
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return "unknown"


def _started(process: int) -> str:
    """When a process started, in the kernel's ticks; empty when there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def ask(*arguments: str, timeout_s: float = _ANSWER_S) -> subprocess.CompletedProcess[bytes]:
    """One command of the program. ``SandboxError`` when it does not come back."""
    try:
        return subprocess.run(
            ["docker", *arguments], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=timeout_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"docker {arguments[0]} does not work: {error}") from error


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The program's complaint, on one line."""
    words = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())
    return words[-400:] or f"exit code {done.returncode}"


def proxy_free() -> Mapping[str, str]:
    """Variables that keep the program from handing the user's proxies, with their passwords, to containers."""
    names = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
    return dict.fromkeys([*names, *(name.upper() for name in names)], "")
