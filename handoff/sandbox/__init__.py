"""Where untrusted commands run: ``open_sandbox`` and what can be opened on this machine.

::

    base.py         the protocol, its limits, its answer
    shell.py        the persistent bash that all back ends drive
    helpers.py      programs that run beside it
    watch.py        memory, processes and disk of a running sandbox
    bubblewrap.py   the default: namespaces, no network, read-only system
    docker.py       a container in an image of the task's own; engine.py asks the engine
    host.py         a plain subprocess with resource limits; only when asked for by name
    rerun.py        a recorded step executed again, to learn what it did to files
    files.py        reading and writing a work folder that an agent has touched
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from handoff.errors import SandboxError
from handoff.sandbox import bubblewrap, docker, engine, host
from handoff.sandbox.base import ROOT, Completed, Limits, Mount, Sandbox, python_paths, shown_folders
from handoff.sandbox.host import WARNING as HOST_WARNING

__all__ = [
    "HOST_WARNING",
    "Completed",
    "Limits",
    "Mount",
    "Sandbox",
    "available",
    "missing",
    "open_sandbox",
    "python_paths",
    "shown_folders",
]


def open_sandbox(
    name: str,
    workdir: Path,
    *,
    limits: Limits | None = None,
    read_only: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    root: str | None = None,
    mounts: Sequence[Mount] = (),
    image: str | None = None,
) -> Sandbox:
    """A sandbox over ``workdir``, the only folder its commands can change.

    ``read_only``: further folders they may read, at their own paths (``python_paths()`` for an interpreter),
    their ``bin`` folders first on the path. ``env``: variables beside the plain ones of ``shell.py``.
    ``root``: where a jail shows the work folder, instead of ``/repo`` or, in docker, the image's own working folder;
    the host shows it where it is. ``image``: docker's; the others run with this machine's programs and do not use it.
    ``mounts``: what else a jail shows, for programs that act by themselves; the host has no such places.
    ``SandboxError`` when there is no such back end or it cannot work here; never falls back to a weaker one.
    """
    limits = limits if limits is not None else Limits()
    if not workdir.is_dir():
        raise SandboxError(f"the work folder {workdir} does not exist")
    match name:
        case "bubblewrap":
            place = root if root is not None else ROOT
            return bubblewrap.Bubblewrap(
                workdir, limits=limits, read_only=read_only, env=env, root=place, mounts=mounts
            )
        case "docker":
            return docker.Docker(
                workdir, limits=limits, image=image, read_only=read_only, env=env, root=root, mounts=mounts
            )
        case "host" if mounts:
            raise SandboxError("the sandbox 'host' shows nothing at other places; use bubblewrap or docker")
        case "host":
            return host.Host(workdir, limits=limits, read_only=read_only, env=env)
        case _:
            raise SandboxError(f"no sandbox {name!r}; there are: {', '.join(_BACK_ENDS)}")


_BACK_ENDS: dict[str, Callable[[], str | None]] = {
    "bubblewrap": bubblewrap.missing,
    "docker": engine.missing,
    "host": host.missing,
}


def missing(name: str) -> str | None:
    """Why a back end cannot work here, with the remedy; ``None`` when it can. ``KeyError`` when there is none."""
    return _BACK_ENDS[name]()


def available() -> dict[str, str | None]:
    """Each back end with the reason why it cannot work here, or ``None`` when it can."""
    return {name: missing(name) for name in _BACK_ENDS}
