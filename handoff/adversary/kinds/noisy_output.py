"""What tools answer is noisy (COVERT): lines that do not belong there, another form, an error that passes."""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, check_severity
from handoff.adversary.scene import Noise, Scene


class NoisyOutput:
    """Disturbs ``severity`` of the answers while the takeover runs (``noise.py`` says how)."""

    kind = "noisy_output"
    family: Family = "environment_noise"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Fits any scene. Once is enough."""
        check_severity(severity)
        if any(noise.severity for noise in scene.noise):
            return None
        return Recipe(kind=self.kind, severity=severity, seed=seed)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """Tree, task and view are as they were."""
        return msgspec.structs.replace(scene, noise=(*scene.noise, noise_of(recipe)))


def noise_of(recipe: Recipe) -> Noise:
    """What a recipe makes of the surroundings."""
    return Noise(severity=recipe.severity, seed=recipe.seed)
