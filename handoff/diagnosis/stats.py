"""Statistics of takeovers: intervals and tests. What is averaged over what is in ``robustness.py``.

Points of one task are not independent. Means are therefore bootstrapped by task, and a rate's Wilson interval uses
the *effective* number of runs: as many as the spread between tasks allows, never fewer than the tasks nor more
than the runs. No function here draws from anything but the seed it is given.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.stats

Floats: TypeAlias = npt.NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 1_000


def wilson(successes: float, n: float, level: float = LEVEL) -> tuple[float, float] | None:
    """Wilson interval of a rate; ``None`` for n = 0. ``n`` may be an effective number and need not be whole."""
    if n <= 0:
        return None
    z = _normal_quantile(level)
    rate = successes / n
    middle = rate + z * z / (2 * n)
    half = z * math.sqrt(max(0.0, rate * (1 - rate)) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if rate <= 0 else max(0.0, (middle - half) / scale)
    high = 1.0 if rate >= 1 else min(1.0, (middle + half) / scale)
    return low, high


@lru_cache(maxsize=16)
def _normal_quantile(level: float) -> float:
    return float(scipy.stats.norm.ppf(0.5 + level / 2))


def effective_runs(task_means: Floats, n_runs: int) -> float:
    """How many independent runs carry as much information as ``n_runs`` runs whose tasks have these mean rates.

    Kish's design effect, estimated from the spread between tasks. When all tasks agree on 0 or 1, nothing can be
    estimated, and tasks count as the runs.
    """
    tasks = len(task_means)
    if tasks == 0:
        return 0.0
    rate = float(task_means.mean())
    if tasks == 1 or rate <= 0 or rate >= 1:
        return float(tasks)
    variance = float(task_means.var(ddof=1)) / tasks
    if variance <= 0:
        return float(n_runs)
    return min(float(n_runs), max(float(tasks), rate * (1 - rate) / variance))


@lru_cache(maxsize=256)
def _draws(tasks: int, seed: int, resamples: int) -> Floats:
    """How often each task is drawn in each resample. Shared by all cells with this number of tasks."""
    rng = np.random.default_rng([seed, tasks])
    drawn: Floats = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=resamples).astype(np.float64)
    drawn.setflags(write=False)
    return drawn


def resampled_means(by_task: Floats, *, seed: int, resamples: int = RESAMPLES) -> Floats:
    """The column means of each resample of whole tasks (resamples × metrics), for statistics of several means.

    ``by_task``: tasks × metrics, at least one task; NaN makes the means of its column NaN.
    """
    means: Floats = (_draws(len(by_task), seed, resamples) @ by_task) / len(by_task)
    return means


def resampled_medians(values: Floats, task: npt.NDArray[np.int_], *, seed: int, resamples: int = RESAMPLES) -> Floats:
    """The median of ``values`` in each resample of whole tasks. ``task``: the number of each value's task, from 0."""
    order = np.argsort(values, kind="stable")
    weights = _draws(int(task.max()) + 1, seed, resamples)[:, task[order]]
    reached = np.cumsum(weights, axis=1)
    total = reached[:, -1:]
    lower = (reached > np.floor((total - 1) / 2)).argmax(axis=1)
    upper = (reached > np.floor(total / 2)).argmax(axis=1)
    medians: Floats = (values[order][lower] + values[order][upper]) / 2
    return medians


def bootstrap_means(
    by_task: Floats, *, seed: int, resamples: int = RESAMPLES, level: float = LEVEL
) -> tuple[Floats, Floats, Floats]:
    """(mean, low, high) of each column of ``by_task`` (tasks × metrics, NaN: no value), resampling whole tasks.

    The percentile interval; NaN where fewer than two tasks have a value. Resamples in which no task has a value
    are left out. Tasks are exchangeable but their order is not: give them sorted.
    """
    has = ~np.isnan(by_task)
    filled = np.where(has, by_task, 0.0)
    n = has.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = filled.sum(axis=0) / n
        if len(by_task) < 2:
            nothing = np.full(by_task.shape[1], np.nan)
            return means, nothing, nothing.copy()
        draws = _draws(len(by_task), seed, resamples)
        drawn = np.sort((draws @ filled) / (draws @ has), axis=0)  # NaN sorts last
    usable = (~np.isnan(drawn)).sum(axis=0)
    low = _sorted_quantile(drawn, usable, (1 - level) / 2)
    high = _sorted_quantile(drawn, usable, (1 + level) / 2)
    low[n < 2] = high[n < 2] = np.nan
    return means, low, high


def _sorted_quantile(columns: Floats, usable: npt.NDArray[np.int_], q: float) -> Floats:
    """Linear-interpolated quantile of the first ``usable`` entries of each sorted column."""
    last = np.maximum(usable - 1, 0)
    place = q * last
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, last)
    at = np.arange(columns.shape[1])
    value: Floats = columns[below, at] + (place - below) * (columns[above, at] - columns[below, at])
    return value


def mcnemar(only_first: int, only_second: int) -> float | None:
    """Two-sided exact McNemar p-value from the discordant pairs; ``None`` when there are none."""
    n = only_first + only_second
    if n == 0:
        return None
    return float(scipy.stats.binomtest(only_first, n, 0.5).pvalue)


def rate_rose(failures: int, n: int, failures_before: int, n_before: int) -> float:
    """One-sided exact p-value (Fisher) that a rate is higher than it was before; 1 where one side is empty."""
    if n <= 0 or n_before <= 0:
        return 1.0
    p = scipy.stats.hypergeom.sf(failures - 1, n + n_before, failures + failures_before, n)
    return float(min(1.0, p))


def holm(p_values: list[float], level: float) -> list[bool]:
    """Which hypotheses are rejected when at most ``level`` may be the chance of any false rejection (Holm)."""
    order = sorted(range(len(p_values)), key=lambda i: (p_values[i], i))
    rejected = [False] * len(p_values)
    for rank, i in enumerate(order):
        if p_values[i] > level / (len(p_values) - rank):
            break
        rejected[i] = True
    return rejected
