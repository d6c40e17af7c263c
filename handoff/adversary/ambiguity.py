"""Intent ambiguity: several ways to finish look right (``docs/science.md §10``).

The task statement is thinned; one that is a single sentence instead gets a competitor, a comment in a changed file
that asks for another direction. The tests decide as before.
"""

from __future__ import annotations

import re

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene, is_judging

_SENTENCE = re.compile(r"(?<=[.!?])(?=\s)|(?<=\n)(?=\S)")
_TODOS = (
    "# TODO: alternatively leave this module as it was and adapt the callers instead.",
    "# TODO: consider rewriting this part from scratch rather than patching it.",
    "# TODO: maybe keep the old behaviour here and document it.",
)
_COMMENTED = (".py", ".sh", ".rb", ".toml", ".yaml", ".yml")
"""Suffixes of files in which ``#`` begins a comment."""


class VagueIntent:
    """Drops ``severity`` of the statement's sentences after the first (``parts``), or adds ``text`` to ``path``."""

    kind = "vague_intent"
    family: Family = "intent_ambiguity"

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """The first sentence always stays: without it there is no task."""
        rng = generator(self.kind, seed)
        available = [n for n, sentence in enumerate(sentences(scene.task)) if n and sentence.strip()]
        if available:
            lost = sorted(rng.sample(available, how_many(severity, len(available))))
            return Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(lost))
        paths = sorted(p for p, text in scene.files.items() if text and p.endswith(_COMMENTED) and not is_judging(p))
        if not paths:
            return None
        return Recipe(kind=self.kind, severity=severity, seed=seed, path=rng.choice(paths), text=rng.choice(_TODOS))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """Comments go below a ``#!`` or coding line, which must stay where it is."""
        if not recipe.path:
            lost = set(recipe.parts)
            kept = [sentence for n, sentence in enumerate(sentences(scene.task)) if n not in lost]
            return msgspec.structs.replace(scene, task="".join(kept).rstrip())
        lines = (scene.files.get(recipe.path) or b"").splitlines(True)
        at = 0
        while at < min(2, len(lines)) and (lines[at].startswith(b"#!") or b"coding" in lines[at].partition(b"#")[2]):
            at += 1
        if at and not lines[at - 1].endswith((b"\n", b"\r")):
            lines[at - 1] += b"\n"
        lines.insert(at, recipe.text.encode() + b"\n")
        return msgspec.structs.replace(scene, files={**scene.files, recipe.path: b"".join(lines)})


def sentences(text: str) -> list[str]:
    """A statement cut between sentences and before lines; joined, the pieces are the statement again."""
    return [piece for piece in _SENTENCE.split(text) if piece]
