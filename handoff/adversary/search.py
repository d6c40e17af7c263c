"""The worst handoff point of a run, found with few takeovers (``docs/science.md §10``).

Successive halving: every candidate is run as often as every other one that is left; then the third or half of them is
dropped that cost the successor least. What a candidate has cost is kept from round to round. A *surrogate* (a guess at
how hard a point is) counts as at most one run whose cost it foretells, and as less the less single runs vary: it moves
what is close together at first and is soon outvoted. A candidate is never left out for its surrogate's sake.

What is asked for is a run's number at a point, so that a search that was cut off asks for the same runs again and finds
them in the journal. Which other points may be as bad is in ``near.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import scipy.stats

from handoff.adversary.near import LEVEL, Estimate, estimates, shared_spread
from handoff.errors import InputError

PRIOR_RUNS = 1.0
"""What a surrogate counts for at most, in runs; less where single runs vary less than points do. More does harm where
it foretells nothing (``bench/worst_point.py``)."""
KEPT = (0.65, 0.5)
"""Of the candidates after each round. The first errs less often, where the budget allows its rounds half again over."""
CONFIRMING_RUNS = 10
"""Fresh runs of the winner, which had no part in choosing it."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A point that may be the worst."""

    point_id: str
    h: int
    surrogate: float | None = None
    """Rises with difficulty, on any scale; ``None``: there is none."""


class Run(NamedTuple):
    """One takeover to measure: the ``number``-th of a point, from 0."""

    point_id: str
    number: int


Measure: TypeAlias = Callable[[Sequence[Run]], Sequence["float | None"]]
"""Excess cost (§9) of each run, in order; ``None`` where it has no value. The runs of one call can go side by side."""


class Visited(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one candidate after the search."""

    point_id: str
    h: int
    surrogate: float | None
    costs: tuple[float, ...]
    """Of the runs that chose, in order; those without a value left out."""
    mean: float | None
    low: float | None
    """95 % interval of the mean, with noise of its own and of all candidates; ``None`` where it cannot be told."""
    high: float | None
    rounds: int
    """Times it was among those that were kept."""
    is_near_worst: bool | None
    """Its cost cannot be told from the winner's; ``None``: it was run too seldom to say (``near.py``)."""


class Confirmation(NamedTuple):
    """An estimate of the winner's cost by runs that had no part in choosing it, with its 95 % interval."""

    confirmed_cost: float
    confirmed_low: float | None
    confirmed_high: float | None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one search."""

    worst: str | None
    """``point_id``; ``None`` when no run had a value."""
    visited: tuple[Visited, ...]
    """Every candidate, by h: the cost curve of the run."""
    runs: int
    """Takeovers that chose."""
    uniform_runs: int
    """What it would have taken to run every candidate as often as the winner."""
    confirmed: tuple[float, ...]
    """Costs of fresh runs of the winner. Their mean is honest; that of the runs that chose it is too high."""
    noise: float | None
    """Standard deviation of one run's cost at one point; ``None``: no point was run twice."""

    @property
    def confirmation(self) -> Confirmation | None:
        """What the fresh runs say; ``None`` when there were none."""
        n = len(self.confirmed)
        if not n:
            return None
        mean = sum(self.confirmed) / n
        if n < 2:
            return Confirmation(mean, None, None)
        half = float(scipy.stats.t.ppf(0.5 + LEVEL / 2, n - 1)) * float(np.std(self.confirmed, ddof=1)) / math.sqrt(n)
        return Confirmation(mean, mean - half, mean + half)


def find_worst(
    candidates: Iterable[Candidate], measure: Measure, budget: int, *, confirming: int = CONFIRMING_RUNS
) -> Found:
    """The point of the highest mean cost, found with at most ``budget`` runs beside those that confirm.

    Among equals the smallest h wins. ``InputError``: a budget under one run a candidate, or a point named twice.
    """
    points = sorted(candidates, key=lambda c: (c.h, c.point_id))
    if len({c.point_id for c in points}) < len(points):
        raise InputError("a handoff point is among the candidates twice")
    if budget < len(points):
        raise InputError(f"{len(points)} candidates need at least as many runs, and the budget is {budget}")
    costs: list[list[float]] = [[] for _ in points]
    asked = [0] * len(points)
    lived = [0] * len(points)
    alive = list(range(len(points)))
    spent = 0
    sizes = _sizes(len(points), budget)
    for number, size in enumerate(sizes):
        each = min(max(1, (budget - spent) // ((len(sizes) - number) * size)), (budget - spent) // size)
        if not each:
            break
        wanted = [(i, Run(points[i].point_id, asked[i] + n)) for i in alive for n in range(each)]
        for (i, _), cost in zip(wanted, measure([run for _, run in wanted]), strict=True):
            asked[i] += 1
            if cost is not None:
                costs[i].append(cost)
        spent += len(wanted)
        if number + 1 < len(sizes):
            scores = _scores(points, costs)
            alive.sort(key=lambda i: (-scores[i], points[i].h, points[i].point_id))
            alive = sorted(alive[: sizes[number + 1]])
            for i in alive:
                lived[i] += 1
    scores = _scores(points, costs)
    known = [i for i in alive if costs[i]]
    worst = min(known, key=lambda i: (-scores[i], points[i].h, points[i].point_id)) if known else None
    fresh: list[float] = []
    if worst is not None and confirming:
        again = [Run(points[worst].point_id, asked[worst] + n) for n in range(confirming)]
        fresh = [cost for cost in measure(again) if cost is not None]
    spread = shared_spread([*costs, fresh])
    return Found(
        worst=None if worst is None else points[worst].point_id,
        visited=tuple(
            _visited(point, own, rounds, estimate)
            for point, own, rounds, estimate in zip(points, costs, lived, estimates(costs, worst, fresh), strict=True)
        ),
        runs=spent,
        uniform_runs=0 if worst is None else asked[worst] * len(points),
        confirmed=tuple(fresh),
        noise=None if spread is None else spread.deviation,
    )


def _sizes(candidates: int, budget: int) -> list[int]:
    """How many candidates each round has, down to two."""
    for kept in KEPT:
        sizes = [candidates] if candidates else []
        while sizes and sizes[-1] > 2:
            sizes.append(min(sizes[-1] - 1, math.ceil(kept * sizes[-1])))
        if 3 * sum(sizes) <= 2 * budget:
            break
    return sizes


def _scores(points: Sequence[Candidate], costs: Sequence[Sequence[float]]) -> list[float]:
    """Mean cost of each point, its surrogate counted as up to ``PRIOR_RUNS`` runs; −∞ where nothing is known."""
    means = [sum(own) / len(own) for own in costs if own]
    if not means:
        return [-math.inf] * len(points)
    middle, spread = float(np.mean(means)), float(np.std(means))
    standard = _standardised([point.surrogate for point in points])
    noise = shared_spread(costs)
    weight = PRIOR_RUNS * (1.0 if noise is None or not spread else min(1.0, (noise.deviation / spread) ** 2))
    found = []
    for own, score in zip(costs, standard, strict=True):
        prior = 0.0 if score is None else weight
        foretold = middle + (score or 0.0) * spread / math.sqrt(2)
        found.append((sum(own) + prior * foretold) / (len(own) + prior) if own else -math.inf)
    return found


def _standardised(values: Sequence[float | None]) -> list[float | None]:
    """Standard scores; ``None`` for what has no value, and for all when they do not differ."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    spread = float(np.std(known)) if known else 0.0
    if spread == 0:
        return [None] * len(values)
    middle = float(np.mean(known))
    return [None if v is None or not math.isfinite(v) else (v - middle) / spread for v in values]


def _visited(point: Candidate, own: Sequence[float], rounds: int, estimate: Estimate) -> Visited:
    return Visited(
        point_id=point.point_id,
        h=point.h,
        surrogate=point.surrogate,
        costs=tuple(own),
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        rounds=rounds,
        is_near_worst=estimate.is_near,
    )
