"""Somebody else worked on the same lines: remarks and brackets around the predecessor's edits, no change of meaning.

Line numbers in notes fit no longer, patches no longer apply, and ``git diff`` shows what the predecessor did not do.
"""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from handoff.adversary.recipe import Family, Recipe, generator, how_many, if_it_shows
from handoff.adversary.scene import Scene, hunks
from handoff.adversary.source import places_of, with_remarks

_REMARKS = (
    "# Also touched on another branch; keep both in step.",
    "# Reviewed together with the release work, see there.",
    "# Moved here while the other change was being made.",
)


class ParallelChange:
    """Works on ``severity`` of the edits in ``path``, a Python file; ``parts`` are its hunks, ``text`` a remark.

    A value that an edited line returns or sets is put in brackets, and a remark stands above the nearest statement.
    """

    kind = "parallel_change"
    family: Family = "state_inconsistency"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a changed Python file that can be read as one."""
        paths = [p for p in scene.changed if p.endswith(".py") and (now := scene.files.get(p)) and places_of(now)]
        if not paths:
            return None
        rng = generator(self.kind, seed)
        path = rng.choice(paths)
        number = len(_hunks(scene, path))
        parts = tuple(sorted(rng.sample(range(number), how_many(severity, number))))
        text = rng.choice(_REMARKS)
        recipe = Recipe(kind=self.kind, severity=severity, seed=seed, path=path, parts=parts, text=text)
        return if_it_shows(self, scene, recipe)

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The program is the same program."""
        now = scene.files.get(recipe.path) or b""
        places = places_of(now)
        if places is None:
            return scene
        lines = now.split(b"\n")
        above = [line for line, _ in places.remarks]
        remarks: set[int] = set()
        for number, (_, _, first, last) in enumerate(_hunks(scene, recipe.path)):
            if number not in recipe.parts:
                continue
            if above:
                remarks.add(above[min(bisect_left(above, first), len(above) - 1)])
            for value in reversed([v for v in places.values if first <= v.line < last]):
                line = lines[value.line]
                inside = b"(" + line[value.start : value.end] + b")"
                lines[value.line] = line[: value.start] + inside + line[value.end :]
        text = with_remarks(recipe.path, b"\n".join(lines), tuple((line, recipe.text) for line in sorted(remarks)))
        return msgspec.structs.replace(scene, files={**scene.files, recipe.path: text})


def _hunks(scene: Scene, path: str) -> tuple[tuple[int, int, int, int], ...]:
    """A created file is one hunk."""
    base, now = scene.base[path], scene.files.get(path) or b""
    return ((0, 0, 0, now.count(b"\n") + 1),) if base is None else hunks(base, now)
