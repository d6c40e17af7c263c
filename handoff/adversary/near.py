"""Which points cost about as much as the worst one, and of which that is not known (``docs/science.md §10``).

A search drops most points after one or two runs. That such a point cannot be told from the winner says little about the
point and much about how seldom it was run. So there are three answers: *near*, *told apart*, and *not known*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

LEVEL = 0.95
SHARED_RUNS = 4
"""What the noise that all points share counts for in that of one point, in degrees of freedom."""
ENOUGH_RUNS = 6
"""With fewer, a point that cannot be told from the winner is not called near."""


class Spread(NamedTuple):
    """How much the cost of single runs varies."""

    deviation: float
    dof: float
    """Degrees of freedom of the estimate."""


class Estimate(NamedTuple):
    """What the runs of one point say of its mean cost."""

    mean: float | None
    low: float | None
    """95 % interval of the mean; ``None`` where no noise is known."""
    high: float | None
    is_near: bool | None
    """Its cost cannot be told from the winner's, and it was run often enough to say so; ``None``: it was not."""


def shared_spread(costs: Sequence[Sequence[float]]) -> Spread | None:
    """Pooled over all points that were run twice or more; ``None`` when there is none."""
    dof = sum(len(own) - 1 for own in costs if own)
    if not dof:
        return None
    squares = sum(float(np.var(own)) * len(own) for own in costs if len(own) > 1)
    return Spread(math.sqrt(squares / dof), dof)


def own_spread(own: Sequence[float], shared: Spread) -> Spread:
    """Of one point: its own, drawn towards what all points share."""
    weight = min(shared.dof, SHARED_RUNS)
    squares = float(np.var(own)) * len(own) if own else 0.0
    dof = weight + max(0, len(own) - 1)
    return Spread(math.sqrt((weight * shared.deviation**2 + squares) / dof), dof)


def estimates(costs: Sequence[Sequence[float]], winner: int | None, fresh: Sequence[float] = ()) -> list[Estimate]:
    """One for each point. ``winner``: its place; ``fresh``: costs of runs of it that had no part in choosing it.

    The winner is compared by its fresh runs where there are two or more: those that chose it are too high. Each point
    is told apart at 95 %, one-sided, by itself. How often the true worst is ruled out so: ``bench/worst_point.py``.
    """
    has_fresh = len(fresh) > 1
    shared = shared_spread([*costs, fresh] if has_fresh else costs)
    top = None if winner is None else fresh if has_fresh else costs[winner]
    return [_estimate(own, place == winner, top, shared) for place, own in enumerate(costs)]


def _estimate(own: Sequence[float], is_winner: bool, top: Sequence[float] | None, shared: Spread | None) -> Estimate:
    if not own:
        return Estimate(None, None, None, False)
    mean = sum(own) / len(own)
    if shared is None:
        return Estimate(mean, None, None, True if is_winner else None)
    spread = own_spread(own, shared)
    half = float(scipy.stats.t.ppf(0.5 + LEVEL / 2, spread.dof)) * spread.deviation / math.sqrt(len(own))
    is_near: bool | None = is_winner
    if top and not is_winner:
        other = own_spread(top, shared)
        error = math.hypot(spread.deviation / math.sqrt(len(own)), other.deviation / math.sqrt(len(top)))
        apart = float(scipy.stats.t.ppf(LEVEL, min(spread.dof, other.dof))) * error
        if sum(top) / len(top) - mean > apart:
            is_near = False
        else:
            is_near = True if len(own) >= ENOUGH_RUNS or not error else None
    return Estimate(mean, mean - half, mean + half, is_near)
