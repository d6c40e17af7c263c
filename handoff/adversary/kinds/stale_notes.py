"""The notes are those of an earlier moment: somebody wrote them and worked on."""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, check_severity, if_it_shows
from handoff.adversary.scene import Scene


class StaleNotes:
    """Puts an earlier note in the place of the view, the older the higher ``severity``; ``parts`` is its step."""

    kind = "stale_notes"
    family: Family = "information_decay"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs notes of earlier steps; a trace that ends early is ``truncated_trace``."""
        check_severity(severity)
        if not scene.earlier or not scene.view_text:
            return None
        newest_first = [step for step, _ in reversed(scene.earlier)]
        step = newest_first[min(int(severity * len(newest_first)), len(newest_first) - 1)]
        return if_it_shows(self, scene, Recipe(kind=self.kind, severity=severity, seed=seed, parts=(step,)))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """Whatever was done to the newer note is gone with it."""
        return msgspec.structs.replace(scene, view_text=dict(scene.earlier)[recipe.parts[0]])
