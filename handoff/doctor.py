"""What this machine can do, found by trying: nothing is assumed from a version number alone."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from handoff import sandbox
from handoff.endpoints import Client, SdkTransport
from handoff.errors import InputError, SuccessorError
from handoff.git import worktree
from handoff.git.survey import Mirror, survey
from handoff.project import Project
from handoff.sandbox.engine import engine
from handoff.successors.settings import Command
from handoff.tokens import TOKENIZER, count_tokens

GIT_MINIMUM = (2, 30)
_LISTED = 10
"""Sound mirrors that are listed one by one."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One ability: ``ok``, ``limited`` (a slower or narrower path), ``missing`` (needed) or ``off`` (optional)."""

    what: str
    state: Literal["ok", "limited", "missing", "off"]
    detail: str


def examine(data: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Try each ability in turn."""
    yield Finding(what="python", state="ok", detail=f"{platform.python_version()} at {sys.executable}")
    yield _git()
    backends = sandbox.available()
    reason = backends["bubblewrap"]
    yield Finding(
        what="sandbox bubblewrap",
        state="limited" if reason else "ok",
        detail=f"{reason}; only the kata world's own code can run (host fallback)"
        if reason
        else "user namespace, no network, read-only system",
    )
    overlay = worktree.overlay_reason()
    yield Finding(
        what="overlay mounts",
        state="limited" if overlay else "ok",
        detail=f"{overlay}; work trees are checked out instead (slower, equally exact)"
        if overlay
        else "work trees are laid out by mount",
    )
    yield _docker(backends["docker"])
    yield from _endpoints(data, environment)
    yield from _tests(data, backends)
    yield Finding(
        what="tokenizer",
        state="ok",
        detail=f"{TOKENIZER}, offline ({count_tokens('def f(): return 1')} tokens in a probe)",
    )
    place = data if data.exists() else data.absolute().parent
    free = shutil.disk_usage(place).free / 1e9
    yield Finding(what="disk", state="ok" if free > 2 else "limited", detail=f"{free:.1f} GB free for {data}")
    yield from _mirrors(data / "git")


def _mirrors(root: Path) -> Iterator[Finding]:
    """The mirrors of a data folder: those with problems one by one, the largest of the others, the rest as a sum."""
    found = list(survey(root))
    sound = sorted((mirror for mirror in found if not mirror.problems), key=lambda mirror: -mirror.size)
    for mirror in [mirror for mirror in found if mirror.problems] + sound[:_LISTED]:
        state: Literal["ok", "limited"] = "limited" if mirror.problems else "ok"
        yield Finding(what=f"mirror {mirror.name}", state=state, detail="; ".join((_told(mirror), *mirror.problems)))
    rest = sound[_LISTED:]
    if rest:
        size = sum(mirror.size for mirror in rest) / 1e6
        yield Finding(what="other mirrors", state="ok", detail=f"{len(rest)} with {size:.1f} MB")


def _told(mirror: Mirror) -> str:
    partial = ", without the files it has not needed" if mirror.is_partial else ""
    laid = f", {mirror.templates / 1e6:.1f} MB of checkouts" if mirror.templates else ""
    return (
        f"{mirror.size / 1e6:.1f} MB{partial}, packs: {mirror.packs} ({mirror.own_packs} of states), "
        f"loose objects: {mirror.loose}{laid}"
    )


def _git() -> Finding:
    try:
        text = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            what="git", state="missing", detail=f"{error}; install git {GIT_MINIMUM[0]}.{GIT_MINIMUM[1]} or newer"
        )
    numbers = tuple(int(n) for n in text.split()[2].split(".")[:2])
    if numbers < GIT_MINIMUM:
        return Finding(
            what="git",
            state="missing",
            detail=f"{text.strip()} is too old; {GIT_MINIMUM[0]}.{GIT_MINIMUM[1]} is needed",
        )
    return Finding(what="git", state="ok", detail=text.strip())


def _endpoints(data: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Each successor of ``handoff.toml``: does its endpoint answer, and list the model? Nothing is generated."""
    try:
        successors = Project(data).settings.successors
    except InputError as error:
        yield Finding(what="settings", state="limited", detail=str(error))
        return
    if not successors:
        detail = "no [successors.NAME] in handoff.toml; the embedded policy needs none"
        yield Finding(what="model endpoints", state="off", detail=detail)
    for name, endpoint in sorted(successors.items()):
        if isinstance(endpoint, Command):
            yield _command(name, endpoint)
            continue
        brief = msgspec.structs.replace(endpoint, timeout_s=min(endpoint.timeout_s, 10.0))
        with Client(brief, SdkTransport(brief, environment)) as client:
            try:
                listed = client.models()
            except SuccessorError as error:
                yield Finding(what=f"successor {name}", state="limited", detail=str(error))
                continue
        key = f"key from {endpoint.key_env}" if endpoint.key_env else "no key"
        if not listed or endpoint.model in listed:
            detail = f"{endpoint.base_url}, {endpoint.model}, {key}"
            yield Finding(what=f"successor {name}", state="ok", detail=detail)
        else:
            some = ", ".join(listed[:5])
            detail = f"{endpoint.base_url} does not list {endpoint.model!r}; set model to one of {some}"
            yield Finding(what=f"successor {name}", state="limited", detail=detail)


def _tests(data: Path, backends: Mapping[str, str | None]) -> Iterator[Finding]:
    """Each rule of ``[tests]``: are its programs there, and can its image be used? No test is run."""
    try:
        settings = Project(data).settings
    except InputError:  # said above
        return
    in_docker = settings.sandbox == "docker"
    for name, rule in sorted(settings.tests.items()):
        absent = [folder for folder in rule.programs if not Path(folder).is_dir()]
        place = "docker" if in_docker else "bubblewrap"
        problems = [
            f"there is no folder {absent[0]}; install the programs there" if absent and not in_docker else "",
            f"they need {place}, and {backends[place]}" if backends[place] else "",
            'its image is used with `sandbox = "docker"` alone' if rule.image and not in_docker else "",
            'its programs are shown in bubblewrap alone, not with `sandbox = "docker"`'
            if rule.programs and in_docker
            else "",
        ]
        shown = f"image {rule.image}" if in_docker else ", ".join(rule.programs) or "this machine's own programs"
        line = rule.command or "as the instance says, else pytest"
        detail = "; ".join(filter(None, [f"{line}; {shown}", *problems]))
        yield Finding(what=f"tests {name}", state="limited" if any(problems) else "ok", detail=detail)


def _command(name: str, command: Command) -> Finding:
    """An agent that is a command: is its installation there? It is not started."""
    absent = [folder for folder in command.programs if not Path(folder).is_dir()]
    reason = sandbox.missing("bubblewrap")
    if absent:
        detail = f"there is no folder {absent[0]}; install the agent there"
    elif reason is not None:
        detail = f"it needs a jail, and {reason}"
    else:
        model = f"the model of {command.endpoint}" if command.endpoint else "no model"
        where = f", installed in {', '.join(command.programs)}" if command.programs else ""
        return Finding(what=f"successor {name}", state="ok", detail=f"a command with {model}{where}; not started here")
    return Finding(what=f"successor {name}", state="limited", detail=detail)


def _docker(reason: str | None) -> Finding:
    if reason is not None:
        return Finding(what="sandbox docker", state="off", detail=f"{reason}; needed only for images of real tasks")
    remark = engine().remark
    detail = remark or "an engine answers; images of real tasks can be used"
    return Finding(what="sandbox docker", state="limited" if remark else "ok", detail=detail)
