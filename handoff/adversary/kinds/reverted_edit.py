"""An edit of the predecessor is silently put back, as a parallel checkout or a bad merge would.

View and task still speak of it. The base commit's lines come back, so nothing appears that was never in the
repository, and the files that judge the task are never touched.
"""

from __future__ import annotations

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many
from handoff.adversary.scene import Scene, hunks


class RevertedEdit:
    """Puts ``severity`` of one changed file's hunks back; ``path`` is the file, ``parts`` are the hunks from 0."""

    kind = "reverted_edit"
    family: Family = "state_inconsistency"
    keeps_behaviour = False

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Any changed file may be chosen, except those that judge."""
        paths = scene.changed
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
        return msgspec.structs.replace(
            scene, files={**scene.files, recipe.path: without_hunks(scene, recipe.path, recipe.parts)}
        )


def without_hunks(scene: Scene, path: str, undone: tuple[int, ...]) -> bytes | None:
    """A changed file with some of its hunks, by number from 0, as the base commit has them."""
    base, now = scene.base[path], scene.files.get(path)
    if base is None or now is None:
        return base if 0 in undone else now
    old, lines = base.splitlines(True), now.splitlines(True)
    for number, (i1, i2, j1, j2) in reversed(list(enumerate(hunks(base, now)))):
        if number in undone:
            lines[j1:j2] = old[i1:i2]
    return b"".join(lines)
