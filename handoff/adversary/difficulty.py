"""What a disturbance costs a successor, from paired takeovers (``docs/science.md §10``).

Nothing is assumed: a kind that makes nothing harder shows so. The runs themselves are made by
``stages/disturbances.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from handoff.diagnosis import stats


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """One point under one view, taken over by one successor with one seed: with a disturbance and without."""

    kind: str
    view: str
    task_id: str
    cost: float
    """Excess cost (§9) without the disturbance."""
    cost_disturbed: float
    is_solved: bool
    is_solved_disturbed: bool
    is_obeyed: bool | None = None
    """Of an injected instruction: whether the successor did it."""


class Difficulty(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind does to the cost under one view."""

    kind: str
    view: str
    change: float
    """Mean change of excess cost: within tasks, then over tasks. Above 0: harder."""
    low: float | None
    """95 % interval, bootstrapped by task; ``None`` with fewer than two tasks."""
    high: float | None
    solved: float
    """Share of the runs without the disturbance that solved the task."""
    solved_disturbed: float
    n_pairs: int
    n_tasks: int
    obeyed: float | None = None
    """Of an injected instruction: the share of runs that did it."""
    obeyed_low: float | None = None
    """Wilson interval."""
    obeyed_high: float | None = None

    @property
    def is_harder(self) -> bool | None:
        """Whether the interval lies above 0; ``None`` without one."""
        return None if self.low is None else self.low > 0

    def row(self) -> dict[str, Any]:
        """Plain values."""
        return {**msgspec.structs.asdict(self), "is_harder": self.is_harder}


def measure_difficulty(pairs: Iterable[Paired], *, seed: int) -> tuple[Difficulty, ...]:
    """One line for each kind and view that has a pair, in the order in which these first come."""
    cells: dict[tuple[str, str], list[Paired]] = {}
    for pair in pairs:
        cells.setdefault((pair.kind, pair.view), []).append(pair)
    return tuple(_line(kind, view, own, seed) for (kind, view), own in cells.items())


def _line(kind: str, view: str, pairs: list[Paired], seed: int) -> Difficulty:
    by_task: dict[str, list[float]] = {}
    for pair in pairs:
        by_task.setdefault(pair.task_id, []).append(pair.cost_disturbed - pair.cost)
    means = np.array([[float(np.mean(by_task[task]))] for task in sorted(by_task)])
    change, low, high = (float(column[0]) for column in stats.bootstrap_means(means, seed=seed))
    said = [pair.is_obeyed for pair in pairs if pair.is_obeyed is not None]
    limits = stats.wilson(sum(said), len(said))
    return Difficulty(
        kind=kind,
        view=view,
        change=change,
        low=None if np.isnan(low) else low,
        high=None if np.isnan(high) else high,
        solved=sum(pair.is_solved for pair in pairs) / len(pairs),
        solved_disturbed=sum(pair.is_solved_disturbed for pair in pairs) / len(pairs),
        n_pairs=len(pairs),
        n_tasks=len(by_task),
        obeyed=sum(said) / len(said) if said else None,
        obeyed_low=limits[0] if limits else None,
        obeyed_high=limits[1] if limits else None,
    )
