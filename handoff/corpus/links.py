"""Which recordings repeat another: resumed sessions, checkpoints and request logs begin with all earlier steps.

A run that begins with the whole of another one goes on from it: its first steps are that run's, paid for and trained
there. Runs that only look alike, or share a first command, are no repeats.
"""

from __future__ import annotations

from array import array

from handoff.trajectory import Trajectory

_FEWEST = 2
"""One equal step is no evidence: many runs begin with ``ls``."""


class Links:
    """Collects runs in order; ``resolve`` says what each repeats. Eight bytes a step are kept."""

    def __init__(self) -> None:
        self._chains: list[array[int]] = []

    def add(self, trajectory: Trajectory) -> None:
        """The next run."""
        # Built-in hashes differ from process to process, and nothing here outlives this one.
        link = hash((trajectory.task_id, trajectory.task))
        chain = array("q")
        before: tuple[str, ...] = ()
        for step in trajectory.steps:
            # What came back for a step counts with the next one: a recording may stop before it.
            link = hash((link, before, step.text, *[(a.tool, a.arguments) for a in step.actions]))
            chain.append(link)
            before = tuple([seen.text for seen in step.observations])
        self._chains.append(chain)

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
