"""Logs are gone: files that look like one, or the answers of the oldest steps of a trace."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import msgspec

from handoff.adversary.kinds.lost_notes import steps_of
from handoff.adversary.recipe import Family, Recipe, generator, how_many, if_it_shows
from handoff.adversary.scene import Scene, is_judging
from handoff.adversary.texts import pieces

_FENCE = re.compile(r"(`{3,})[^`]*")
GONE = "the log was rotated away"


class RotatedLogs:
    """Deletes the log ``path`` (below a severity of 0.5: empties it), or takes the answers out of the pieces ``parts``.

    A file is a log by its name: ``*.log``, ``*.out``, or in a folder ``log`` or ``logs``.
    """

    kind = "rotated_logs"
    family: Family = "information_decay"
    keeps_behaviour = True

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Needs a log among the files, or a view that shows answers."""
        logs = [path for path, data in sorted(scene.files.items()) if data and is_log(path) and not is_judging(path)]
        if logs:
            how_many(severity, 1)
            path = generator(self.kind, seed).choice(logs)
            return Recipe(kind=self.kind, severity=severity, seed=seed, path=path)
        cut = pieces(scene.view, scene.view_text)
        answered = [n for n in steps_of(scene) if without_answers(cut[n]) != cut[n]]
        if not answered:
            return None
        lost = answered[: how_many(severity, len(answered))]
        return if_it_shows(self, scene, Recipe(kind=self.kind, severity=severity, seed=seed, parts=tuple(lost)))

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """Calls stay; what came back for them does not."""
        if recipe.path:
            left = b"" if recipe.severity < 0.5 else None
            return msgspec.structs.replace(scene, files={**scene.files, recipe.path: left})
        cut = pieces(scene.view, scene.view_text)
        for number in recipe.parts:
            cut[number] = without_answers(cut[number])
        return msgspec.structs.replace(scene, view_text="".join(cut))


def without_answers(step: str) -> str:
    """A step of a trace with a word in the place of each answer. What stands inside a fence is never looked into."""
    lines = step.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is None:
            kept.append(lines[at])
            at += 1
            continue
        try:
            end = lines.index(fence[1], at + 1)
        except ValueError:
            return "\n".join([*kept, *lines[at:]])
        if kept and kept[-1].startswith("Observation") and kept[-1].endswith(":"):
            kept[-1] += f" {GONE}"
        else:
            kept += lines[at : end + 1]
        at = end + 1
    return "\n".join(kept)


def is_log(path: str) -> bool:
    """Whether a file looks like a log."""
    place = PurePosixPath(path)
    return place.suffix in (".log", ".out") or not {"log", "logs"}.isdisjoint(place.parts[:-1])
