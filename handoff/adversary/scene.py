"""What a disturbance sees and changes: the scene of a handoff, as plain values.

A disturbance never sees a step after h, the outcome or the solution, so it cannot leak them. Reading a scene from
repositories and views, and writing a changed tree back, is the stage's business (``stages/adversary.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath

import msgspec

from handoff.evidence import Evidence


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What the surroundings do while the takeover runs (``noise.py``)."""

    severity: float
    """0 to 1: the share of answers with something in them that does not belong there."""
    seed: int
    tools: tuple[str, ...] = ()
    """Tools that are offered and lead nowhere."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One handoff point under one view."""

    task: str
    view: str
    view_text: str
    """The view block as rendered; empty for ``repo``."""
    base: Mapping[str, bytes | None]
    """The files that the predecessor changed, and documents and pins beside them, as they are in the base commit.
    ``None``: not there."""
    files: Mapping[str, bytes | None]
    """The same files at h, and whatever disturbances added."""
    tools: str = "[]"
    """Definitions of the tools that a successor is offered, a JSON array."""
    evidence: Evidence | None = None
    """What the predecessor did and saw up to h; ``None``: nothing is known."""
    earlier: tuple[tuple[int, str], ...] = ()
    """(step, this view as it stood then) of some steps before h, rising; only for views that someone writes."""
    noise: tuple[Noise, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """Files that differ from the base commit and judge nothing, sorted."""
        return tuple(sorted(p for p in self.base if not is_judging(p) and self.files.get(p) != self.base[p]))

    @property
    def read_only(self) -> tuple[str, ...]:
        """Files that the predecessor read and did not change, in the order of its steps."""
        reads = self.evidence.reads if self.evidence is not None else ()
        changed = frozenset(self.changed)
        return tuple(read.path for read in reads if read.path not in changed and not is_judging(read.path))


def tree_changes(before: Scene, after: Scene) -> dict[str, bytes | None]:
    """What has to be written to turn the first scene's tree into the second's: path → content, ``None`` deletes."""
    paths = sorted(set(before.files) | set(after.files))
    return {p: after.files.get(p) for p in paths if before.files.get(p) != after.files.get(p)}


def is_judging(path: str) -> bool:
    """Can this file decide what the tests say? No disturbance touches such a file."""
    place = PurePosixPath(path)
    name = place.name
    return (
        not {"test", "tests", "testing", "spec"}.isdisjoint(place.parts)
        or name.startswith(("test_", "test."))
        or "_test." in name
        or "_spec." in name
        or name in ("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml")
    )


@lru_cache(maxsize=256)
def hunks(base: bytes, now: bytes) -> tuple[tuple[int, int, int, int], ...]:
    """Where two texts differ: (first line, past the last) in the base, then in the present text, from 0."""
    matcher = SequenceMatcher(None, base.splitlines(True), now.splitlines(True), autojunk=False)
    return tuple((i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")
