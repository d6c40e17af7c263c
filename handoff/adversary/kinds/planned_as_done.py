"""A write that was only planned is told as done: a file that was read, and not changed."""

from __future__ import annotations

import re

import msgspec

from handoff.adversary.recipe import Family, Recipe, check_severity, generator
from handoff.adversary.scene import Scene
from handoff.adversary.texts import is_of_steps, is_plain, takes_claims, with_claim, without_bullets

_CHANGED = re.compile(r"^- Changed files: (.*)$", re.MULTILINE)
_SOURCE = re.compile(r"\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|kt|c|h|cc|cpp|hpp|rb|php|cs|swift|scala|sh)\Z")


class PlannedAsDone:
    """Tells that ``path`` was changed; ``text`` is the claim. The higher the severity, the surer its tone."""

    kind = "planned_as_done"
    family: Family = "state_inconsistency"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """A file that the predecessor said it would work on goes before one that it only read."""
        check_severity(severity)
        if not takes_claims(scene.view, scene.view_text) or scene.evidence is None:
            return None
        read = [path for path in scene.read_only if is_plain(path) and _SOURCE.search(path)]
        meant = " ".join(said.text for said in scene.evidence.intentions[-4:])
        planned = [path for path in read if path in meant] or read
        if not planned:
            return None
        path = generator(self.kind, seed).choice(sorted(set(planned)))
        sure = " It is complete and was checked." if severity >= 0.5 else ""
        return Recipe(kind=self.kind, severity=severity, seed=seed, path=path, text=f"`{path}` was modified.{sure}")

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """A note no longer lists it among what is to do, and its rule block lists it as changed."""
        view, text = scene.view, scene.view_text
        if view == "structured":
            text = without_bullets(text, naming=recipe.path, sections=("To do",))
            text = _CHANGED.sub(lambda line: f"- Changed files: {_more(line[1], recipe.path)}", text, count=1)
        claim = f"Now {recipe.text}" if is_of_steps(view) else recipe.text
        return msgspec.structs.replace(scene, view_text=with_claim(view, text, "Done", claim))


def _more(listed: str, path: str) -> str:
    one = f"`{path}` (modified)"
    return one if listed.startswith("NONE OBSERVED") else f"{listed}, {one}"
