"""State inconsistency: the tree is not what the predecessor left (``docs/science.md §10``).

One file's edits are silently put back, as a parallel checkout or a bad merge would; view and task still speak of
them. The base commit's lines come back, so nothing appears that was never in the repository, and the files that
judge the task are never touched.
"""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene, hunks, is_judging


class RevertedEdit:
    """Puts ``severity`` of one changed file's hunks back; ``path`` is the file, ``parts`` are the hunks from 0."""

    kind = "reverted_edit"
    family: Family = "state_inconsistency"

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Any changed file may be chosen, except those that judge."""
        paths = sorted(p for p in scene.base if not is_judging(p) and scene.files.get(p) != scene.base[p])
        if not paths:
            return None
        rng = generator(self.kind, seed)
        path = rng.choice(paths)
        base, now = scene.base[path], scene.files.get(path)
        number = 1 if base is None or now is None else len(hunks(base, now))
        undone = sorted(rng.sample(range(number), how_many(severity, number)))
        return Recipe(kind=self.kind, severity=severity, seed=seed, path=path, parts=tuple(undone))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """A file that was created or deleted as a whole is one hunk."""
        base, now = scene.base[recipe.path], scene.files.get(recipe.path)
        undone = set(recipe.parts)
        text: bytes | None
        if base is None or now is None:
            text = base if 0 in undone else now
        else:
            old, lines = base.splitlines(True), now.splitlines(True)
            for number, (i1, i2, j1, j2) in reversed(list(enumerate(hunks(base, now)))):
                if number in undone:
                    lines[j1:j2] = old[i1:i2]
            text = b"".join(lines)
        return msgspec.structs.replace(scene, files={**scene.files, recipe.path: text})
