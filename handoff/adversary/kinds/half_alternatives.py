"""Two half-finished versions of a changed file lie beside it: which direction was meant?

Each is the predecessor's file with a part of its edits put back, so nothing in them was never in the repository.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from handoff.adversary.kinds.reverted_edit import without_hunks
from handoff.adversary.recipe import Family, Recipe, generator, how_many, if_it_shows
from handoff.adversary.scene import Scene, hunks
from handoff.adversary.texts import is_plain, takes_claims, with_claim

_NAMES = (("_a", "_b"), ("_old", "_new"), ("_draft1", "_draft2"), ("_v2", "_v3"))


class HalfAlternatives:
    """Adds two drafts of ``path``; ``parts`` are the hunks that the first one lacks (the second lacks the others).

    ``text`` holds the two endings of their names. At 0.5 and above, a view that speaks says that neither is finished.
    """

    kind = "half_alternatives"
    family: Family = "intent_ambiguity"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a changed source file that the base commit has, and free names beside it."""
        rng = generator(self.kind, seed)
        endings = rng.choice(_NAMES)
        paths = [
            path
            for path in scene.changed
            if is_plain(path)
            and scene.base[path] is not None
            and scene.files.get(path) is not None
            and not any(name in scene.files for name in _drafts(path, endings))
        ]
        if not paths:
            return None
        path = rng.choice(paths)
        number = len(hunks(scene.base[path] or b"", scene.files.get(path) or b""))
        lacking = tuple(sorted(rng.sample(range(number), how_many(severity, number) if number == 1 else number // 2)))
        how_many(severity, number)
        recipe = Recipe(kind=self.kind, severity=severity, seed=seed, path=path, parts=lacking, text=" ".join(endings))
        return if_it_shows(self, scene, recipe)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The file itself is left as it is, and nothing uses the drafts."""
        number = len(hunks(scene.base[recipe.path] or b"", scene.files.get(recipe.path) or b""))
        others = tuple(n for n in range(number) if n not in recipe.parts)
        first, second = _drafts(recipe.path, tuple(recipe.text.split(" ")))
        files = {
            **scene.files,
            first: without_hunks(scene, recipe.path, recipe.parts),
            second: without_hunks(scene, recipe.path, others),
        }
        text = scene.view_text
        if recipe.severity >= 0.5 and takes_claims(scene.view, text):
            claim = f"Two directions were begun, in `{first}` and in `{second}`; neither is finished."
            text = with_claim(scene.view, text, "In progress", claim)
        return msgspec.structs.replace(scene, files=files, view_text=text)


def _drafts(path: str, endings: tuple[str, ...]) -> tuple[str, str]:
    place = PurePosixPath(path)
    first, second = (str(place.with_name(f"{place.stem}{ending}{place.suffix}")) for ending in endings)
    return first, second
