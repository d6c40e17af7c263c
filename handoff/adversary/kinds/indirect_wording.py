"""The task is told in a roundabout way (COVERT: indirect queries): forwarded, hedged, among things beside the point.

Every fact of the statement stays; what it demands, it only hints at.
"""

from __future__ import annotations

import re

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many, if_it_shows
from handoff.adversary.scene import Scene
from handoff.adversary.texts import sentences

_HEDGED = {
    "fix": "somebody might want to fix",
    "find": "somebody might want to find",
    "make": "it could be worth the while to make",
    "add": "there was talk of adding, or so it seems: add",
    "remove": "one could think about it: remove",
    "correct": "it would be nice to correct",
    "change": "it has been suggested to change",
    "update": "it has been suggested to update",
    "implement": "people have been asking to implement",
    "ensure": "it would calm people down to ensure",
    "use": "others seem to prefer to use",
    "do not": "nobody would be happy about it, so do not",
}
_ORDER = re.compile(rf"^(\s*)({'|'.join(map(re.escape, _HEDGED))})\b", re.IGNORECASE)
_BEFORE = (
    "Forwarding this, as I am out until next week.",
    "I was told about the following in passing and may have got some of it wrong.",
    "No hurry, but the topic came up again in the meeting.",
    "Not sure whom to ask about this, so I ask you.",
)
_AFTER = (
    "That is all that I know; the rest is surely clear from the context.",
    "The office move is on Thursday, by the way.",
    "If it is not a good moment, tell me. It probably is, though.",
    "Thanks, also for the help with the other thing.",
)


class IndirectWording:
    """Hedges the demands numbered ``parts`` among the sentences; ``text`` has a line before and a line after them."""

    kind = "indirect_wording"
    family: Family = "environment_noise"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Fits any task that says something."""
        if not scene.task.strip():
            return None
        rng = generator(self.kind, seed)
        orders = [n for n, sentence in enumerate(sentences(scene.task)) if _ORDER.match(sentence)]
        chosen = sorted(rng.sample(orders, how_many(severity, len(orders)))) if orders else []
        number = how_many(severity, len(_BEFORE))
        lines = (" ".join(rng.sample(_BEFORE, number)), " ".join(rng.sample(_AFTER, number)))
        recipe = Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(chosen), text="\n".join(lines))
        return if_it_shows(self, scene, recipe)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """Nothing of the statement is left out."""
        cut = sentences(scene.task)
        for number in recipe.parts:
            cut[number] = _ORDER.sub(_hedged, cut[number])
        before, _, after = recipe.text.partition("\n")
        return msgspec.structs.replace(scene, task=f"{before}\n\n{''.join(cut)}\n\n{after}")


def _hedged(order: re.Match[str]) -> str:
    said = _HEDGED[order[2].lower()]
    return order[1] + (said[0].upper() + said[1:] if order[2][0].isupper() else said)
