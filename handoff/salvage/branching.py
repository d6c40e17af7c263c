"""A failed takeover tried again otherwise, where the policy was least sure (``docs/science.md §11``).

From one finished run: at its most uncertain steps, other moves that the policy might have made, near-duplicates left
out, within a budget of runs [after LATR and TSR]. Each is then executed from the start with the run's own replies up to
that step. Which of them is kept is decided by the tests. Nothing is executed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from rapidfuzz.distance import Levenshtein

SIMILAR = 0.9
"""Two moves of one kind and target that are as alike as this, by edit distance over the longer text, are one."""
SMALLEST_CHANCE = 0.02
"""Of a move that is tried: what the policy would all but never do is not its own."""
MOST_A_STEP = 3
"""Other moves of one step."""

Verdict: TypeAlias = Literal["tried", "pruned", "over budget"]


class Option(NamedTuple):
    """One move that a policy may make at a step."""

    text: str
    """The move in one canonical line."""
    chance: float
    key: str
    """Kind and target (``docs/science.md §4``): moves of different keys are never duplicates."""


class Moment(NamedTuple):
    """One step of a run as the policy saw it."""

    step: int
    """From 1."""
    taken: str
    """The text of the move that was made."""
    taken_key: str
    options: tuple[Option, ...]
    """Every move that could be made, with chances that sum to 1."""

    @property
    def entropy(self) -> float:
        """Of the chances, in nats."""
        return -math.fsum(option.chance * math.log(option.chance) for option in self.options if option.chance > 0)


class Branch(NamedTuple):
    """Another move at one step, and what is done with it."""

    step: int
    text: str
    chance: float
    entropy: float
    """Of the step."""
    verdict: Verdict


class Outcome(NamedTuple):
    """What tests say of one finished run."""

    solved: bool | None
    tests_passed: int | None
    steps: int


def plan_branches(moments: Sequence[Moment], runs: int) -> tuple[Branch, ...]:
    """Other moves at each step, those that are tried first, at most ``runs``.

    Their order: the likeliest other move of each step, by entropy times the square of the share of the run that was
    left then, since a late fork has no room; the second likeliest moves after all those. Moves that are all but
    impossible are not among them.
    """
    last = max((moment.step for moment in moments), default=1)

    likely: list[tuple[int, Branch]] = []
    pruned: list[Branch] = []
    for moment in moments:
        kept = [Option(moment.taken, 0.0, moment.taken_key)]
        for option in sorted(moment.options, key=lambda option: (-option.chance, option.text)):
            if option.text == moment.taken:
                continue
            if option.chance < SMALLEST_CHANCE or len(kept) > MOST_A_STEP:
                break
            branch = Branch(moment.step, option.text, option.chance, moment.entropy, "tried")
            if any(is_similar(option, other) for other in kept):
                pruned.append(branch._replace(verdict="pruned"))
            else:
                likely.append((len(kept), branch))
                kept.append(option)
    ordered = [branch for _, branch in sorted(likely, key=lambda one: (one[0], -_worth(one[1], last), one[1].step))]
    over = [branch._replace(verdict="over budget") for branch in ordered[runs:]]
    return (*ordered[:runs], *over, *pruned)


def _worth(branch: Branch, last: int) -> float:
    """How soon a branch is tried, in a run of ``last`` steps."""
    return branch.entropy * (1 - (branch.step - 1) / last) ** 2


def is_similar(option: Option, other: Option) -> bool:
    """Whether two moves are near-duplicates."""
    return option.key == other.key and Levenshtein.normalized_similarity(option.text, other.text) >= SIMILAR


def best_of(outcomes: Sequence[Outcome]) -> int | None:
    """The place of the best run: solved, then the most tests passed, then the fewest steps, then the first.

    ``None``: none was judged.
    """
    judged = [place for place, outcome in enumerate(outcomes) if outcome.solved is not None]
    if not judged:
        return None

    def rank(place: int) -> tuple[bool, int, int, int]:
        own = outcomes[place]
        return not own.solved, -(own.tests_passed or 0), own.steps, place

    return min(judged, key=rank)
