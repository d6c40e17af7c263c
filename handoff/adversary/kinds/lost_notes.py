"""Parts of the view are lost: the oldest steps of a trace, as when a log is rotated; sections or sentences of notes."""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene
from handoff.adversary.texts import is_of_steps, pieces


class LostNotes:
    """Drops ``severity`` of the view's parts; a recipe's ``parts`` are their numbers from 0."""

    kind = "lost_notes"
    family: Family = "information_decay"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """The first part (the heading of a trace or note) is never lost."""
        available = [n for n, piece in enumerate(pieces(scene.view, scene.view_text)) if n and piece.strip()]
        if not available:
            return None
        n = how_many(severity, len(available))
        if is_of_steps(scene.view):
            lost = available[:n]
        else:
            lost = sorted(generator(self.kind, seed).sample(available, n))
        return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(lost))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The view without the lost parts; everything else as it was."""
        return without_pieces(scene, recipe.parts)


def without_pieces(scene: Scene, lost: tuple[int, ...]) -> Scene:
    """The scene with a view that lacks some of its pieces, by number from 0."""
    gone = set(lost)
    kept = [piece for n, piece in enumerate(pieces(scene.view, scene.view_text)) if n not in gone]
    return msgspec.structs.replace(scene, view_text="".join(kept))


def steps_of(scene: Scene) -> list[int]:
    """The pieces of a trace that are steps, by number; none where the view tells no steps."""
    if not is_of_steps(scene.view):
        return []
    return [n for n, piece in enumerate(pieces(scene.view, scene.view_text)) if piece.startswith("## Step ")]
