"""The end of a trace is missing, as when its writer was killed: what was done last is not told."""

from __future__ import annotations

from handoff.adversary.kinds.lost_notes import steps_of, without_pieces
from handoff.adversary.recipe import Family, Recipe, how_many
from handoff.adversary.scene import Scene


class TruncatedTrace:
    """Cuts the last ``severity`` of a trace's steps off, never all of them; ``parts`` are their pieces."""

    kind = "truncated_trace"
    family: Family = "information_decay"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a view that tells at least two steps."""
        steps = steps_of(scene)
        if len(steps) < 2:
            return None
        lost = steps[len(steps) - how_many(severity, len(steps) - 1) :]
        return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(lost))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The heading still says that the trace is complete: nobody noticed."""
        return without_pieces(scene, recipe.parts)
