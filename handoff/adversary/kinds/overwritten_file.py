"""A file that the notes rely on was overwritten: only its beginning is left, as after a broken write."""

from __future__ import annotations

import math

import msgspec

from handoff.adversary.recipe import Family, Recipe, check_severity, generator, if_it_shows
from handoff.adversary.scene import Scene, is_judging

_DOCUMENTS = (".md", ".rst", ".txt", ".adoc")


class OverwrittenFile:
    """Keeps the first ``1 - severity`` of the lines of ``path``, a file named in the view; ``parts`` is their number.

    It is one that the predecessor changed, or a document that it read. What the base commit has of it can be had back
    from git.
    """

    kind = "overwritten_file"
    family: Family = "information_decay"
    keeps_behaviour = False

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a view that names such a file."""
        check_severity(severity)
        changed = frozenset(scene.changed)
        named = [
            path
            for path, data in sorted(scene.files.items())
            if data and path in scene.view_text and not is_judging(path)
            if path in changed or path.endswith(_DOCUMENTS)
        ]
        if not named:
            return None
        path = generator(self.kind, seed).choice(named)
        kept = math.floor((1 - severity) * len((scene.files[path] or b"").splitlines()))
        recipe = Recipe(kind=self.kind, severity=severity, seed=seed, path=path, parts=(kept,))
        return if_it_shows(self, scene, recipe)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The view still speaks of the file as it was."""
        kept = (scene.files.get(recipe.path) or b"").splitlines(True)[: recipe.parts[0]]
        return msgspec.structs.replace(scene, files={**scene.files, recipe.path: b"".join(kept)})
