"""What may have changed files without a word of the recording, and what shows that it did not (``docs/science.md §2``).

Nothing that a program leaves of a file is known unless something shows it. A look at the whole tree (git's list of what
is changed, the recorded patch) answers for every program that ran before it, back to the last time that files were put
back to what git holds: before that, a file may have been another one meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Doubt(NamedTuple):
    """A step that may have changed any file."""

    step: int
    reason: str


class Unseen:
    """Doubts of one run, and the steps that answer them."""

    def __init__(self) -> None:
        self.suspicions: dict[int, str] = {}
        """Step → why it may, or may not, have changed files in a way the text does not tell."""
        self.programs: dict[int, str] = {}
        """Step → a program that ran, of which nobody can tell whether it changes files of the repository."""
        self._witnesses: list[int] = []
        self._restored: list[int] = []

    def suspect(self, step: int, reason: str) -> None:
        """Note that a step may have changed any file."""
        self.suspicions.setdefault(step, reason)
        self._end(step)

    def ran(self, step: int, program: str) -> None:
        """Note a program that may have changed any file."""
        self.programs.setdefault(step, program)
        self._end(step)

    def restored(self, step: int) -> None:
        """Note that files were put back to what git holds, whatever they were."""
        self._restored.append(step)

    def witness(self, step: int) -> None:
        """Note that the whole tree was seen at a step, and is as derived."""
        self._witnesses.append(step)

    def _end(self, step: int) -> None:
        """A look at the tree that came before something else in the same step says nothing of it."""
        while self._witnesses and self._witnesses[-1] == step:
            self._witnesses.pop()

    def open(self, steps: int, *, is_whole: bool) -> tuple[list[Doubt | None], list[Doubt | None]]:
        """By step, 0 to ``steps``: the first suspicion, and the first program, that nothing answers. ``is_whole``: the
        whole tree is known at the last step."""
        witnesses = [*self._witnesses, *([steps] if is_whole else [])]
        suspicions = _open(self.suspicions, witnesses, self._restored, steps)
        return suspicions, _open(self.programs, witnesses, self._restored, steps)


def _open(doubts: dict[int, str], witnesses: Sequence[int], restored: Sequence[int], steps: int) -> list[Doubt | None]:
    found: list[Doubt | None] = []
    times = sorted(doubts)
    for step in range(steps + 1):
        later = bisect_right(witnesses, step)
        is_answered = later < len(witnesses) and bisect_right(restored, step) == bisect_right(
            restored, witnesses[later]
        )
        first = bisect_right(times, witnesses[later - 1]) if later else 0
        is_open = not is_answered and first < len(times) and times[first] <= step
        found.append(Doubt(times[first], doubts[times[first]]) if is_open else None)
    return found
