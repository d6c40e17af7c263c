"""Where a file first went wrong, given what it really was later.

From the real content the recorded operations are taken back, one by one. The first that cannot have led there, or
before which the derived content is the real one, is the step to blame.
"""

from __future__ import annotations

from collections.abc import Callable

from handoff.actions import Move
from handoff.states.proof.proofs import Histories
from handoff.states.proof.undoing import undone


def blamed(histories: Histories, path: str, real: bytes, locate: Callable[[str], str | None]) -> int | None:
    """The first step whose result is wrong; ``None`` where the operations cannot tell."""
    versions = list(histories.of(path))
    while len(versions) > 1:
        version, before = versions[-1], versions[-2]
        if version.data == real:
            return None
        if isinstance(version.by, Move):
            source = locate(version.by.source)
            earlier = histories.of(source) if source else []
            versions = [each for each in earlier if each.moment < version.moment]
            continue
        if version.data == before.data:  # it changed nothing
            versions.pop()
            continue
        if version.by is None or before.data is None:
            return version.step
        origin = undone(version.by, real)
        if origin is None or origin == before.data:
            return version.step
        real = origin
        versions.pop()
    return None
