"""Branches of failed takeovers: where they leave the run, which are tried, and what is said of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.salvage.branching import (
    MOST_A_STEP,
    SMALLEST_CHANCE,
    Moment,
    Option,
    Outcome,
    best_of,
    is_similar,
    plan_branches,
)


@st.composite
def runs_of_moments(draw: st.DrawFn) -> list[Moment]:
    moments = []
    for step in range(1, draw(st.integers(0, 6)) + 1):
        texts = draw(st.lists(st.text("abc 12", min_size=1, max_size=9), min_size=1, max_size=7, unique=True))
        weights = [draw(st.floats(0.001, 1.0)) for _ in texts]
        options = tuple(
            Option(text, weight / sum(weights), draw(st.sampled_from("xy")))
            for text, weight in zip(texts, weights, strict=True)
        )
        taken = draw(st.sampled_from(options))
        moments.append(Moment(step, taken.text, taken.key, options))
    return moments


@given(runs_of_moments(), st.integers(0, 9))
def test_branches_are_other_likely_and_distinct_moves_within_the_budget(moments: list[Moment], runs: int) -> None:
    branches = plan_branches(moments, runs)
    tried = [branch for branch in branches if branch.verdict == "tried"]
    assert len(tried) == min(runs, sum(branch.verdict != "pruned" for branch in branches))
    assert list(branches[: len(tried)]) == tried
    assert len({(branch.step, branch.text) for branch in branches}) == len(branches)
    by_step = {moment.step: moment for moment in moments}
    for branch in branches:
        moment = by_step[branch.step]
        options = {option.text: option for option in moment.options}
        assert branch.text != moment.taken and branch.chance >= SMALLEST_CHANCE
        assert branch.chance == options[branch.text].chance and math.isclose(branch.entropy, moment.entropy)
    for step, moment in by_step.items():
        options = {option.text: option for option in moment.options}
        kept = [options[b.text] for b in branches if b.step == step and b.verdict != "pruned"]
        assert len(kept) <= MOST_A_STEP
        own = [Option(moment.taken, 0.0, moment.taken_key), *kept]
        assert not any(is_similar(a, b) for n, a in enumerate(own) for b in own[:n])
    assert plan_branches(moments, runs) == branches


def test_the_least_certain_step_comes_first_and_second_choices_last() -> None:
    sure = Moment(1, "a", "a", (Option("a", 0.9, "a"), Option("bb", 0.1, "b")))
    unsure = Moment(2, "a", "a", (Option("a", 0.4, "a"), Option("bb", 0.3, "b"), Option("ccc", 0.3, "c")))
    rest = Moment(9, "a", "a", (Option("a", 1.0, "a"),))
    planned = plan_branches([sure, unsure, rest], 9)
    assert [(b.step, b.text) for b in planned] == [(2, "bb"), (1, "bb"), (2, "ccc")]
    assert [b.verdict for b in plan_branches([sure, unsure], 1)] == ["tried", "over budget", "over budget"]


def test_a_late_fork_comes_after_an_early_one() -> None:
    """Of two steps that are equally uncertain, and even of one that is somewhat more so."""
    early = Moment(1, "a", "a", (Option("a", 0.6, "a"), Option("bb", 0.4, "b")))
    late = Moment(9, "a", "a", (Option("a", 0.5, "a"), Option("bb", 0.5, "b")))
    end = Moment(10, "a", "a", (Option("a", 1.0, "a"),))
    assert [b.step for b in plan_branches([early, late, end], 9)] == [1, 9]


def test_near_duplicates_are_of_one_target() -> None:
    one = Option("edit a/trends.py 13:19 * → +", 0.5, "edit a/trends.py")
    assert is_similar(one, one._replace(text="edit a/trends.py 13:28 * → +"))
    assert not is_similar(one, one._replace(text="edit a/trends.py 6:14 < → <="))
    assert not is_similar(
        Option("read a/rates.py", 0.5, "read a/rates.py"), Option("read a/rate.py", 0.5, "read a/rate.py")
    )


@pytest.mark.parametrize(
    ("outcomes", "best"),
    [
        ([], None),
        ([Outcome(None, 9, 1)], None),
        ([Outcome(False, 9, 1), Outcome(True, 3, 20)], 1),
        ([Outcome(True, 3, 9), Outcome(True, 3, 8), Outcome(True, 3, 8)], 1),
        ([Outcome(False, 3, 9), Outcome(None, 9, 1), Outcome(False, 4, 30)], 2),
        ([Outcome(False, None, 9), Outcome(False, None, 9)], 0),
    ],
)
def test_the_best_run_is_the_one_that_the_tests_like_best(outcomes: list[Outcome], best: int | None) -> None:
    assert best_of(outcomes) == best
