"""A dependency is at another version than when the work was done: a pin was changed, or the notes tell of a change.

Nothing is installed, and the tests run with what is there.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import msgspec

from handoff.adversary.recipe import Family, Recipe, check_severity, generator
from handoff.adversary.scene import Scene
from handoff.adversary.texts import is_plain, takes_claims, with_claim

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]{0,80})==(\d{1,6})((?:\.\d{1,6}){0,3})", re.MULTILINE)
_RUNNERS = ("pytest", "tox", "nox", "npm", "yarn", "cargo", "go", "make", "mvn", "gradle", "ruby", "node", "python")
PIN_FILES = ("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "constraints.txt")
"""At the top of a repository; other files named so are known when they were changed."""


class ChangedDependency:
    """Moves one pin of ``path`` (``parts``: its number) to ``text``; without pins ``text`` is a claim in the view.

    The higher the severity, the more major versions away.
    """

    kind = "changed_dependency"
    family: Family = "state_inconsistency"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a file of pins, or a view in which something can be claimed."""
        check_severity(severity)
        rng = generator(self.kind, seed)
        pinned = [path for path in sorted(scene.files) if is_pin_file(path) and _pins(scene.files[path])]
        away = 1 + int(2 * severity)
        if pinned:
            path = rng.choice(pinned)
            found = _pins(scene.files[path])
            number = rng.randrange(len(found))
            now = int(found[number][2])
            text = f"{found[number][1]}=={now + away if rng.random() < 0.5 or now < away else now - away}.0"
            return Recipe(kind=self.kind, severity=severity, seed=seed, path=path, parts=(number,), text=text)
        if not takes_claims(scene.view, scene.view_text):
            return None
        told = f"`{_runner(scene)}` was moved {away} major version{'s' * (away > 1)} back while this work was going on."
        return Recipe(kind=self.kind, severity=severity, seed=seed, text=told)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """One line of the file is another, or the view has one more claim."""
        if not recipe.path:
            told = with_claim(scene.view, scene.view_text, "Risks", recipe.text)
            return msgspec.structs.replace(scene, view_text=told)
        data = scene.files.get(recipe.path) or b""
        found = _pins(data)[recipe.parts[0]]
        text = data.decode("utf-8", "surrogateescape")
        text = text[: found.start()] + recipe.text + text[found.end() :]
        return msgspec.structs.replace(
            scene, files={**scene.files, recipe.path: text.encode("utf-8", "surrogateescape")}
        )


def is_pin_file(path: str) -> bool:
    """Whether a file pins dependencies."""
    name = PurePosixPath(path).name
    return name.endswith(".txt") and name.startswith(("requirements", "constraints"))


def _pins(data: bytes | None) -> list[re.Match[str]]:
    return list(_PIN.finditer((data or b"").decode("utf-8", "surrogateescape")))


def _runner(scene: Scene) -> str:
    """The program that the predecessor's last commands name, of those that everybody knows."""
    said = scene.evidence.commands if scene.evidence is not None else ()
    words = [word for command in reversed(said) for word in command.text[:2_000].split()]
    found = next((word for word in words if word in _RUNNERS[:-1] and is_plain(word)), None)
    return found or _RUNNERS[-1]
