"""Which recordings repeat another: resumed sessions, checkpoints and request logs begin with all earlier steps.

A run that begins with the whole of another one goes on from it: its first steps are that run's, paid for and trained
there. Runs that only look alike, or share a first command, are no repeats.
"""

from __future__ import annotations

from array import array
from zlib import crc32

from handoff.trajectory import Trajectory

_FEWEST = 2
"""One equal step is no evidence: many runs begin with ``ls``."""

Chain = bytes
"""For each step eight bytes that stand for the run up to there; the same in every process."""


def chain_of(trajectory: Trajectory) -> Chain:
    """What a run is compared by."""
    link = _linked(trajectory.task_id is None, [trajectory.task_id or "", trajectory.task])
    chain = array("q")
    before: list[str] = []
    for step in trajectory.steps:
        # What came back for a step counts with the next one: a recording may stop before it.
        texts = [*before, step.text]
        for action in step.actions:
            texts += (action.tool, action.arguments)
        link = _linked(link, texts)
        chain.append(link)
        before = [seen.text for seen in step.observations]
    return chain.tobytes()


def _linked(link: int, texts: list[str]) -> int:
    """The next link. Of texts the lengths and a checksum count: built-in hashes are the same in every process for
    numbers alone, and nobody gains by forging a repeat."""
    return hash((link, crc32("".join(texts).encode("utf-8", "surrogatepass")), *map(len, texts)))


class Links:
    """Collects runs in order; ``resolve`` says what each repeats. Eight bytes a step are kept."""

    def __init__(self) -> None:
        self._chains: list[array[int]] = []

    def add(self, chain: Chain) -> None:
        """The next run."""
        self._chains.append(array("q", chain))

    def resolve(self) -> list[tuple[int, int] | None]:
        """For each run the place of the longest run that it begins with, and the steps of that run."""
        ends: dict[int, int] = {}
        for place, chain in enumerate(self._chains):
            if len(chain) >= _FEWEST:
                ends.setdefault(chain[-1], place)
        return [_repeated(place, chain, ends) for place, chain in enumerate(self._chains)]


def _repeated(place: int, chain: array[int], ends: dict[int, int]) -> tuple[int, int] | None:
    for count in range(len(chain), _FEWEST - 1, -1):
        other = ends.get(chain[count - 1])
        if other is not None and other != place and (count < len(chain) or other < place):
            return other, count
    return None
