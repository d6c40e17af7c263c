"""Steps are missing here and there in a trace, as in one that was sampled to save room."""

from __future__ import annotations

from handoff.adversary.kinds.lost_notes import steps_of, without_pieces
from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene


class SampledTrace:
    """Drops ``severity`` of a trace's steps wherever the seed says, never all of them; ``parts`` are their pieces."""

    kind = "sampled_trace"
    family: Family = "information_decay"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a view that tells at least two steps. The numbers in the headings show that some are missing."""
        steps = steps_of(scene)
        if len(steps) < 2:
            return None
        lost = generator(self.kind, seed).sample(steps, how_many(severity, len(steps) - 1))
        return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(sorted(lost)))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The trace without those steps."""
        return without_pieces(scene, recipe.parts)
