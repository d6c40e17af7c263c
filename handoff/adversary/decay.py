"""Information decay: part of what was handed over is lost (``docs/science.md §10``).

From a trace the oldest steps go, as when a log is rotated; from notes, sections or sentences wherever the seed
says. Only the view's text changes. There is nothing to lose in the ``repo`` view.
"""

from __future__ import annotations

import re

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene

_STEP = re.compile(r"^(?=## Step )", re.MULTILINE)
_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?;])(?=\s)|(?<=\n)")


class LostNotes:
    """Drops ``severity`` of the view's parts; a recipe's ``parts`` are their numbers from 0."""

    kind = "lost_notes"
    family: Family = "information_decay"

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
        lost = set(recipe.parts)
        kept = [piece for n, piece in enumerate(pieces(scene.view, scene.view_text)) if n not in lost]
        return msgspec.structs.replace(scene, view_text="".join(kept))


def pieces(view: str, text: str) -> list[str]:
    """A view's text cut where parts of it may get lost; joined, the pieces are the text again."""
    if view == "structured" or is_of_steps(view):
        first, *rest = (_STEP if is_of_steps(view) else _SECTION).split(text)
        if rest:
            return [first, *rest]
    return [piece for piece in _SENTENCE.split(text) if piece]


def is_of_steps(view: str) -> bool:
    """Whether a view tells steps in their order."""
    return view in ("trace", "diet") or view.startswith("window:")
