"""The project that a task is about, as it can be had from the web and from package indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from handoff.quality.commands import Call, Program
from handoff.quality.glances import git_verb
from handoff.quality.signal import short
from handoff.trajectory import Trajectory

_PAGES = re.compile(r"/(?:pulls?|commits?|compare|blob|raw|tree|archive|releases)\b|\.(?:patch|diff)\Z")
_VERSION = re.compile(r"[\[=<>~!@ ;].*\Z", re.S)
_INSTALLERS = frozenset(("pip", "pip3", "npm", "yarn", "pnpm"))


class Reach(NamedTuple):
    """One call that reaches the project from outside."""

    kind: Literal["looked", "meant", "saw"]
    what: str
    refs: tuple[str, ...]
    why: str
    steps: tuple[int, ...] = ()
    """Earlier steps that it rests on."""


class Project:
    """Tells what reaches this project. A run without a named repository reaches none."""

    def __init__(self, trajectory: Trajectory) -> None:
        repo = (trajectory.repo or "").strip().lower().removesuffix(".git")
        self._repo = repo if re.fullmatch(r"[\w.-]+/[\w.-]+", repo) else ""
        self._package = self._repo.rsplit("/", 1)[-1].replace("_", "-")
        self._task = trajectory.task
        self._installed: int | None = None
        """The step that got the package from an index."""

    def reached(self, number: int, call: Call, text: str, is_answered: bool) -> Iterator[Reach]:
        """What step ``number`` reached by ``call``; ``text`` is the answer. To be asked in the order of steps."""
        if not self._repo:
            return
        for url in call.urls:
            if not self._is_ours(url) or url.rstrip("/.,") in self._task:
                continue
            is_content = "raw.githubusercontent" in url or _PAGES.search(url) is not None
            is_clone = any(p.name == "git" and git_verb(p.arguments)[0] == "clone" for p in call.programs)
            what = f"asks {short(url)}"
            if not is_content or is_clone:
                yield Reach("looked", what, (url,), "a page of this project that may tell what came later")
            elif is_answered:
                yield Reach("saw", what, (url,), "a later state of this project")
            else:
                yield Reach("meant", what, (url,), "a later state of this project; there was no answer")
        for program in call.programs:
            yield from self._by_program(number, program, text, is_answered)

    def _is_ours(self, url: str) -> bool:
        place = url.lower().removesuffix(".git").rstrip("/")
        at = place.find(self._repo)
        return at > 0 and place[at - 1] in "/:" and place[at + len(self._repo) :][:1] in ("", "/", "#", "?", ".")

    def _by_program(self, number: int, program: Program, text: str, is_answered: bool) -> Iterator[Reach]:
        words = [a for a in program.arguments if not a.startswith("-")]
        said = short(str(program))
        if program.name == "gh" and words[:1] == ["pr"] and words[1:2] in (["diff"], ["view"], ["checkout"]):
            if is_answered and "diff --git " in text:
                yield Reach("saw", said, ("gh pr",), "a pull request's change")
            else:
                yield Reach("looked", said, ("gh pr",), "a pull request of this project")
            return
        inside = next((a for a in program.arguments if self._is_installed(a)), None)
        if inside is not None and self._installed is not None and is_answered:
            yield Reach("saw", said, (inside,), "the released package's own source", (self._installed,))
        if program.name.startswith(("python", "uv")) and words[:1] == ["pip"]:
            words = words[1:]
        elif program.name not in _INSTALLERS:
            return
        named = tuple(w for w in words[1:] if _VERSION.sub("", w).lower().replace("_", "-") == self._package)
        if not named or words[0] not in ("install", "download", "wheel", "pack", "view", "add"):
            return
        if words[0] in ("download", "wheel", "pack") or {"--target", "-t"} & set(program.arguments):
            yield Reach("meant", said, named, "it gets a release of the very package it works on")
        else:
            yield Reach("looked", said, named, "it installs a release of the very package it works on")
        if is_answered and "Successfully " in text:
            self._installed = number

    def _is_installed(self, argument: str) -> bool:
        tail = argument.lower().replace("_", "-").split("site-packages/", 1)
        return len(tail) == 2 and tail[1].startswith((self._package + "/", self._package + "-", self._package + "."))
