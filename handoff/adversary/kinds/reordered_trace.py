"""Steps of a trace stand in another order, as when logs of several writers were joined."""

from __future__ import annotations

import msgspec

from handoff.adversary.kinds.lost_notes import steps_of
from handoff.adversary.recipe import Family, Recipe, generator, how_many, if_it_shows
from handoff.adversary.scene import Scene
from handoff.adversary.texts import pieces


class ReorderedTrace:
    """Moves ``severity`` of a trace's steps to one another's places; ``parts`` says which piece stands where now."""

    kind = "reordered_trace"
    family: Family = "information_decay"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a view that tells at least two steps. Their headings keep the true numbers."""
        steps = steps_of(scene)
        if len(steps) < 2:
            return None
        rng = generator(self.kind, seed)
        moved = sorted(rng.sample(steps, max(2, how_many(severity, len(steps)))))
        mixed = rng.sample(moved, len(moved))
        if mixed == moved:
            mixed = [*moved[1:], moved[0]]
        order = list(range(len(pieces(scene.view, scene.view_text))))
        for place, piece in zip(moved, mixed, strict=True):
            order[place] = piece
        recipe = Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(order))
        return if_it_shows(self, scene, recipe)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The same steps, each whole."""
        cut = pieces(scene.view, scene.view_text)
        return msgspec.structs.replace(scene, view_text="".join(cut[n] for n in recipe.parts))
