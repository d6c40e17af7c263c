"""Tools are offered that lead nowhere (COVERT: distractor tools)."""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Noise, Scene
from handoff.identity import canonical_json
from handoff.successors.distractors import DISTRACTORS, definition, definitions


class DistractorTools:
    """Offers ``severity`` of eight further tools; ``parts`` are their numbers. A call finds nothing."""

    kind = "distractor_tools"
    family: Family = "environment_noise"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Fits any scene that has other tools still."""
        known = names_of(scene.tools)
        free = [n for n, name in enumerate(DISTRACTORS) if name not in known]
        if not free:
            return None
        chosen = generator(self.kind, seed).sample(free, how_many(severity, len(free)))
        return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(sorted(chosen)))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The tools stand behind the others."""
        noise = noise_of(recipe)
        offered = [*definitions(scene.tools), *(definition(name) for name in noise.tools)]
        return msgspec.structs.replace(scene, tools=canonical_json(offered).decode(), noise=(*scene.noise, noise))


def noise_of(recipe: Recipe) -> Noise:
    """What answers calls of the tools that a recipe offers."""
    return Noise(severity=0.0, seed=recipe.seed, tools=tuple(DISTRACTORS[n] for n in recipe.parts))


def names_of(tools: str) -> frozenset[str]:
    """Names in a JSON array of tool definitions, in OpenAI form or flat."""
    found = set()
    for tool in definitions(tools):
        own = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(own, dict) and isinstance(own.get("name"), str):
            found.add(own["name"])
    return frozenset(found)
