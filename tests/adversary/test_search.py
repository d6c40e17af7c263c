"""The search for the worst point: what it may spend, what it asks for, what it says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.adversary.search import Candidate, Found, Run, find_worst
from handoff.errors import InputError


def points(n: int, surrogates: Sequence[float | None] | None = None) -> list[Candidate]:
    return [
        Candidate(point_id=f"p{i:02}", h=i + 1, surrogate=None if surrogates is None else surrogates[i])
        for i in range(n)
    ]


def measuring(means: Sequence[float], noise: float, seed: int = 0) -> Callable[[Sequence[Run]], list[float]]:
    """Costs that are a function of point and number, as those of journaled takeovers are."""

    def cost(run: Run) -> float:
        place = int(run.point_id[1:])
        return means[place] + noise * float(np.random.default_rng([seed, place, run.number]).standard_normal())

    return lambda runs: [cost(run) for run in runs]


def test_the_worst_point_is_found_and_confirmed_by_runs_of_its_own() -> None:
    means = [math.sin(i) + (i == 14) for i in range(30)]
    found = find_worst(points(30), measuring(means, 0.3), 180, confirming=6)
    assert found.worst == "p14"
    winner = next(v for v in found.visited if v.point_id == found.worst)
    assert len(found.confirmed) == 6 and not set(found.confirmed) & set(winner.costs)
    assert winner.is_near_worst and winner.low is not None and winner.high is not None
    assert winner.low < max(means) < winner.high
    assert not next(v for v in found.visited if v.point_id == "p11").is_near_worst  # the best one
    assert found.noise == pytest.approx(0.3, rel=0.3)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 200), st.integers(0, 5), st.booleans())
def test_budget_and_order_hold(n: int, more: int, seed: int, is_guessed: bool) -> None:
    """The budget is kept, every candidate is run, numbers have no gaps, and the same search asks the same things."""
    rng = np.random.default_rng(seed)
    means = list(map(float, rng.standard_normal(n)))
    own = points(n, list(map(float, rng.standard_normal(n))) if is_guessed else None)
    asked: list[Run] = []

    def measure(runs: Sequence[Run]) -> list[float]:
        asked.extend(runs)
        return measuring(means, 1.0, seed)(runs)

    found = find_worst(own, measure, n + more, confirming=3)
    first = list(asked)
    assert found.runs <= n + more and len(first) == found.runs + 3
    counts = Counter(run.point_id for run in first)
    assert set(counts) == {candidate.point_id for candidate in own}
    for point_id, count in counts.items():
        assert sorted(run.number for run in first if run.point_id == point_id) == list(range(count))
    asked.clear()
    assert find_worst(list(reversed(own)), measure, n + more, confirming=3) == found and asked == first
    assert [visited.h for visited in found.visited] == sorted(visited.h for visited in found.visited)


def test_among_equals_the_earliest_wins() -> None:
    assert find_worst(points(9), lambda runs: [1.0] * len(runs), 40, confirming=0).worst == "p00"


def test_a_surrogate_moves_equals_and_leaves_nobody_out() -> None:
    """It may be quite wrong: the point that it calls easiest is found when it is the worst."""
    means = [0.0] * 9
    guesses = [float(i) for i in range(9)]
    assert find_worst(points(9, guesses), measuring(means, 0.5), 9, confirming=0).worst is not None
    means[0] = 3.0
    assert find_worst(points(9, guesses), measuring(means, 0.5), 60, confirming=0).worst == "p00"


def test_a_surrogate_counts_for_nothing_where_runs_leave_nothing_to_chance() -> None:
    """Two runs of each point and no noise: the guess, which is as wrong as can be, has no weight at all."""
    means = [float(n == 0) * 1e-6 for n in range(9)]
    found = find_worst(points(9, [float(i) for i in range(9)]), measuring(means, 0.0), 90, confirming=0)
    assert found.worst == "p00" and found.noise == 0
    assert [own.is_near_worst for own in found.visited] == [True] + [False] * 8


def test_a_point_that_ran_once_is_not_called_near() -> None:
    """What cannot be told for want of runs is not known: neither near nor told apart."""
    means = [0.0] * 30 + [1.0] * 3
    found = find_worst(points(33), measuring(means, 1.0), 70, confirming=10)
    once = [own for own in found.visited if len(own.costs) == 1]
    assert once and not any(own.is_near_worst for own in once)
    assert any(own.is_near_worst is None for own in once)
    single = find_worst(points(4), measuring([0.0, 1.0, 2.0, 3.0], 1.0), 4, confirming=0)
    if max(len(own.costs) for own in single.visited) == 1:
        assert [own.is_near_worst for own in single.visited].count(None) == 3


def test_the_worst_point_is_seldom_ruled_out() -> None:
    """Of planted surfaces, among them some whose noise is six times as high at some points."""
    kept = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 7])
        means = list(map(float, rng.standard_normal(20)))
        noise = [3.0 if rng.random() < 0.2 else 0.5 for _ in means] if seed % 2 else [1.0] * len(means)
        drawn = [np.random.default_rng([seed, place]) for place in range(len(means))]

        def measure(runs: Sequence[Run]) -> list[float]:
            at = [int(run.point_id[1:]) for run in runs]
            return [means[i] + noise[i] * float(drawn[i].standard_normal()) for i in at]  # noqa: B023

        found = find_worst(points(20), measure, 120)
        kept += found.visited[int(np.argmax(means))].is_near_worst is not False
    assert kept >= 54


def test_runs_without_a_value_are_spent_and_say_nothing() -> None:
    def measure(runs: Sequence[Run]) -> list[float | None]:
        return [None if run.point_id == "p01" else float(run.point_id == "p02") for run in runs]

    found = find_worst(points(4), measure, 20, confirming=2)
    assert found.worst == "p02" and found.confirmed == (1.0, 1.0)
    silent = found.visited[1]
    assert (silent.costs, silent.mean, silent.is_near_worst) == ((), None, False)
    nothing = find_worst(points(3), lambda runs: [None] * len(runs), 9)
    assert (nothing.worst, nothing.confirmed, nothing.noise, nothing.uniform_runs) == (None, (), None, 0)


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        find_worst([*points(2), *points(1)], lambda runs: [0.0] * len(runs), 9)
    with pytest.raises(InputError, match="budget is 3"):
        find_worst(points(4), lambda runs: [0.0] * len(runs), 3)
    assert find_worst([], lambda runs: [], 5) == Found(
        worst=None, visited=(), runs=0, uniform_runs=0, confirmed=(), noise=None
    )


def test_it_finds_near_worst_points_with_a_tenth_of_the_runs() -> None:
    """Planted surfaces, as in ``bench/worst_point.py``, with few seeds: 50 points, a noise of one deviation."""
    near = 0
    for seed in range(60):
        means = list(map(float, np.random.default_rng(seed).standard_normal(50)))
        found = find_worst(points(50), measuring(means, 1.0, seed), 300, confirming=0)
        assert found.worst is not None
        near += max(means) - means[int(found.worst[1:])] <= 0.25
    assert near >= 52
