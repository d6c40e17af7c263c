"""The task statement is thinned: several ways to finish look right. The tests decide as before."""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene
from handoff.adversary.texts import sentences


class VagueIntent:
    """Drops ``severity`` of the statement's sentences after the first; ``parts`` are their numbers."""

    kind = "vague_intent"
    family: Family = "intent_ambiguity"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """The first sentence always stays: without it there is no task."""
        available = [n for n, sentence in enumerate(sentences(scene.task)) if n and sentence.strip()]
        if not available:
            return None
        lost = sorted(generator(self.kind, seed).sample(available, how_many(severity, len(available))))
        return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(lost))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The statement without those sentences."""
        lost = set(recipe.parts)
        kept = [sentence for n, sentence in enumerate(sentences(scene.task)) if n not in lost]
        return msgspec.structs.replace(scene, task="".join(kept).rstrip())
