"""Contrasts: one arm against another on the same points under the same view (``docs/science.md §13``).

Costs are compared as the change of the mean, scores as the difference of means; both are averaged within tasks first,
and intervals resample tasks, the same ones for both arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from handoff.diagnosis import stats

COSTS = ("steps", "prompt_tokens")
"""Compared as a relative change; everything else as a difference."""


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """``arm`` against ``other`` in one metric."""

    arm: str
    other: str
    view: str
    metric: str
    change: float | None
    """Relative change for costs, difference otherwise; ``None``: nothing to compare."""
    low: float | None
    high: float | None
    n_points: int
    """Points that both arms ran and that have a value for both."""
    n_tasks: int

    @property
    def is_relative(self) -> bool:
        """Is ``change`` a share of the other arm's mean?"""
        return self.metric in COSTS

    @property
    def is_clear(self) -> bool:
        """Does the interval leave out "no difference"?"""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def contrast(
    values: Iterable[Mapping[str, Any]],
    arm: str,
    other: str,
    *,
    view: str,
    metric: str,
    seed: int,
    resamples: int = stats.RESAMPLES,
) -> Contrast:
    """Compare two arms.

    ``values``: mappings with ``arm``, ``view``, ``metric``, ``point_id``, ``task`` and ``value`` (``None``: no value).
    Only points that have a value under both arms count.
    """
    found: dict[str, dict[tuple[str, str], list[float]]] = {arm: {}, other: {}}
    for row in values:
        if row["view"] == view and row["metric"] == metric and row["arm"] in found and row["value"] is not None:
            found[row["arm"]].setdefault((row["task"], row["point_id"]), []).append(float(row["value"]))
    shared = sorted(found[arm].keys() & found[other].keys())
    tasks = sorted({task for task, _ in shared})
    nothing = Contrast(
        arm=arm,
        other=other,
        view=view,
        metric=metric,
        change=None,
        low=None,
        high=None,
        n_points=len(shared),
        n_tasks=len(tasks),
    )
    if not tasks:
        return nothing
    sides = np.array(
        [
            [np.mean([np.mean(found[side][key]) for key in shared if key[0] == task]) for side in (arm, other)]
            for task in tasks
        ]
    )
    rng = np.random.default_rng([seed, len(tasks)])
    drawn = rng.multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), size=resamples) / len(tasks)
    means = drawn @ sides
    mean = sides.mean(axis=0)
    if metric in COSTS:
        if mean[1] == 0:
            return nothing
        change, every = mean[0] / mean[1] - 1, means[:, 0] / np.maximum(means[:, 1], 1e-12) - 1
    else:
        change, every = mean[0] - mean[1], means[:, 0] - means[:, 1]
    low, high = (None, None) if len(tasks) < 2 else (float(q) for q in np.quantile(every, [0.025, 0.975]))
    return msgspec.structs.replace(nothing, change=float(change), low=low, high=high)
