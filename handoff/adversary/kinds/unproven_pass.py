"""A test is named as passing that last ran before the final edit: nobody has seen what it says now."""

from __future__ import annotations

import re

import msgspec

from handoff.adversary.recipe import Family, Recipe, check_severity, if_it_shows
from handoff.adversary.scene import Scene
from handoff.adversary.texts import takes_claims, with_claim, without_bullets, without_clauses

_COMMAND = re.compile(r"[\w./:=+,\[\]-]+(?: [\w./:=+,\[\]-]+)*", re.ASCII)
_DOUBTS = ("It is stale", "files were changed after it", "It reported as failing", "these are still to be made")
_OUTCOME = re.compile(r"which failed(?: \([^)\n]*\))?")


class UnprovenPass:
    """Claims that the last validation passes and is up to date; ``text`` is the claim. A higher severity is surer."""

    kind = "unproven_pass"
    family: Family = "state_inconsistency"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a validation that something was changed after."""
        check_severity(severity)
        last = scene.evidence.last_validation if scene.evidence is not None else None
        if last is None or not last.is_stale or not takes_claims(scene.view, scene.view_text):
            return None
        named = f"`{last.command}`" if _COMMAND.fullmatch(last.command[:201]) else "The last validation"
        sure = " Nothing is left to be checked." if severity >= 0.5 else ""
        recipe = Recipe(
            kind=self.kind, severity=severity, seed=seed, text=f"{named} passed on the present state.{sure}"
        )
        return if_it_shows(self, scene, recipe)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """Where rules wrote the notes, they no longer say that the validation failed or is stale."""
        view, text = scene.view, scene.view_text
        if view == "structured":
            text = without_bullets(text, naming="last validation", sections=("To do", "Risks"))
            text = without_bullets(text, naming="Validate the present state", sections=("To do",))
            text = _OUTCOME.sub("which passed", text)
            text = text.replace("\n- Outcome: failed\n", "\n- Outcome: passed\n")
            text = text.replace("\n- Stale: yes\n", "\n- Stale: no\n")
        elif view in ("summary", "compact_pre", "compact_suf"):
            text = without_clauses(text, holding=_DOUBTS)
            text = _OUTCOME.sub("which passed", text)
        return msgspec.structs.replace(scene, view_text=with_claim(view, text, "Done", recipe.text))
