"""The notes claim what the tree denies: an edit that stands was taken back, or a file was written that is not there."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene
from handoff.adversary.texts import is_plain, takes_claims, with_claim


class FalseClaim:
    """Adds a line of claims, ``text``; the higher the severity, the more."""

    kind = "false_claim"
    family: Family = "state_inconsistency"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a view that speaks, and a changed file to speak of."""
        paths = [path for path in scene.changed if is_plain(path) and scene.files.get(path) is not None]
        if not paths or not takes_claims(scene.view, scene.view_text):
            return None
        rng = generator(self.kind, seed)
        chosen = sorted(rng.sample(paths, how_many(severity, len(paths))))
        claims = [f"The edit of `{path}` was put back; the file is as in the base commit." for path in chosen]
        absent = _absent(scene, chosen[0])
        if absent is not None and severity >= 0.5:
            claims.append(f"A new file `{absent}` was added and is used from there.")
        return Recipe(kind=self.kind, severity=severity, seed=seed, path=chosen[0], text=" ".join(claims))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The tree is as it was."""
        told = with_claim(scene.view, scene.view_text, "Key decisions", recipe.text)
        return msgspec.structs.replace(scene, view_text=told)


def _absent(scene: Scene, path: str) -> str | None:
    place = PurePosixPath(path)
    other = str(place.with_name(f"{place.stem}_support{place.suffix}"))
    return other if is_plain(other) and scene.files.get(other) is None else None
