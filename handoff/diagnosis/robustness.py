"""Robustness: the measures of many takeovers averaged cell by cell, with intervals (``docs/science.md §8``).

A cell is split × arm × view × point label × tier, where label and tier may be ``all`` and the tier of an
undisturbed run is ``none``. Runs are averaged within their point, points within their task, tasks within the
cell; intervals resample tasks. Rates carry a Wilson interval at the effective number of runs (``stats.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from handoff.diagnosis import stats
from handoff.diagnosis.stats import Floats

ALL = "all"
UNDISTURBED = "none"

RUN_COLUMNS = ("steps", "prompt_tokens")
"""Measures that the run itself carries: raw means, in which a failed run counts what it spent."""

FAILURE_MODES: dict[str, tuple[str, str, float]] = {
    "crf_failed": ("e_cr", "above", 0.7),
    "sif_failed": ("si_f1", "below", 0.5),
    "pcf_failed": ("p_pc", "below", 0.3),
}
"""The three failure modes as thresholded measures (§12): mode → (metric, side, threshold)."""

RATES = frozenset({"solve_rate", *FAILURE_MODES})
"""Yes-or-no measures, which carry a Wilson interval."""

ROBUSTNESS_METRICS = (
    "solve_rate",
    "steps",
    "prompt_tokens",
    "e_cr",
    "p_si",
    "si_precision",
    "si_f1",
    "p_pc",
    "hrs",
    "hrs_f1",
    "rediscovery",
    "destroyed_fixes",
    "excess_cost",
    *FAILURE_MODES,
)
"""One row per cell and each of these, in this order."""


class Cell(NamedTuple):
    """Where a figure holds."""

    split: str
    arm: str
    view: str
    label: str
    tier: str


def robustness(
    runs: Iterable[Mapping[str, Any]],
    diagnostics: Iterable[Mapping[str, Any]],
    points: Iterable[Mapping[str, Any]],
    *,
    seed: int,
    resamples: int = stats.RESAMPLES,
) -> list[dict[str, Any]]:
    """The rows of ``robustness``, sorted by cell. The same rows in any order give the same result.

    ``runs``: rows of ``takeover_runs``; ``diagnostics``: theirs; ``points``: rows of ``injected_handoffs`` (those of
    the runs at least; a run whose point is not among them is left out). A figure that has no value says why.
    """
    table = _Table(runs, diagnostics, points)
    rows: list[dict[str, Any]] = []
    for cell in sorted(table.cells):
        rows += _rows(cell, table, np.asarray(table.cells[cell]), seed, resamples)
    return rows


class _Table:
    """Runs × metrics, the runs sorted so that those of a task, and within it of a point, are neighbours."""

    def __init__(
        self,
        runs: Iterable[Mapping[str, Any]],
        diagnostics: Iterable[Mapping[str, Any]],
        points: Iterable[Mapping[str, Any]],
    ) -> None:
        known = {point["point_id"]: point for point in points}
        ordered = sorted(
            (run for run in runs if run["point_id"] in known),
            key=lambda run: (task_of(known[run["point_id"]]), run["point_id"], run["takeover_id"]),
        )
        self.number = {run["takeover_id"]: i for i, run in enumerate(ordered)}
        self.values: Floats = np.full((len(ordered), len(ROBUSTNESS_METRICS)), np.nan)
        self.reasons: dict[tuple[int, int], str] = {}
        self.point = _codes([run["point_id"] for run in ordered])
        self.task = _codes([task_of(known[run["point_id"]]) for run in ordered])
        self.cells: dict[Cell, list[int]] = {}
        for i, run in enumerate(ordered):
            self._add(i, run, known[run["point_id"]])
        self._read(diagnostics)

    def _add(self, i: int, run: Mapping[str, Any], point: Mapping[str, Any]) -> None:
        self._set(i, 0, run["solved"], "nobody knows whether the runs solved the task")
        for column, name in enumerate(RUN_COLUMNS, 1):
            self._set(i, column, run[name], f"the runs do not say their {name}")
        for label in (ALL, *sorted(set(point["labels"] or ()))):
            for tier in (ALL, run["tier"] or UNDISTURBED):
                cell = Cell(point["split"], run["arm"], run["view"], label, tier)
                self.cells.setdefault(cell, []).append(i)

    def _read(self, diagnostics: Iterable[Mapping[str, Any]]) -> None:
        columns = {name: column for column, name in enumerate(ROBUSTNESS_METRICS)}
        modes: dict[str, list[tuple[int, str, float]]] = {}
        for mode, (metric, side, threshold) in FAILURE_MODES.items():
            modes.setdefault(metric, []).append((columns[mode], side, threshold))
        for row in diagnostics:
            column = columns.get(row["metric"])
            i = self.number.get(row["takeover_id"])
            if column is None or i is None:
                continue
            value, reason = row["value"], row["reason"]
            self._set(i, column, value, reason)
            for mode_column, side, threshold in modes.get(row["metric"], ()):
                failed = None if value is None else value > threshold if side == "above" else value < threshold
                self._set(i, mode_column, failed, reason)

    def _set(self, i: int, column: int, value: float | None, reason: str | None) -> None:
        if value is None:
            self.reasons[i, column] = reason or "not measured"
        else:
            self.values[i, column] = value


def task_of(point: Mapping[str, Any]) -> str:
    """What points are dependent within: the task, or the recorded run where no task is named."""
    return point.get("task_id") or point.get("trajectory_id") or str(point["point_id"])


def _codes(names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Neighbours with equal names get equal numbers, rising along the sequence."""
    codes = np.zeros(len(names), dtype=np.int64)
    for i in range(1, len(names)):
        codes[i] = codes[i - 1] + (names[i] != names[i - 1])
    return codes


def _rows(
    cell: Cell, table: _Table, members: npt.NDArray[np.int64], seed: int, resamples: int
) -> Iterable[dict[str, Any]]:
    values = table.values[members]
    by_point, first = _means(values, table.point[members])
    by_task, _ = _means(by_point, table.task[members][first])
    mean, low, high = stats.bootstrap_means(by_task, seed=seed, resamples=resamples)
    valued = (~np.isnan(values)).sum(axis=0)
    for column, metric in enumerate(ROBUSTNESS_METRICS):
        row: dict[str, Any] = {
            **cell._asdict(),
            "metric": metric,
            "value": None,
            "low": None,
            "high": None,
            "n_runs": len(members),
            "n_points": len(by_point),
            "n_tasks": len(by_task),
            "n_effective": None,
            "coverage": float(valued[column]) / len(members),
            "reason": None,
        }
        if valued[column] == 0:
            row["reason"] = _reason(table, members, column)
        else:
            value = row["value"] = float(mean[column])
            interval: tuple[float, float] | None = None
            if metric in RATES:
                means = by_task[~np.isnan(by_task[:, column]), column]
                row["n_effective"] = stats.effective_runs(means, int(valued[column]))
                interval = stats.wilson(value * row["n_effective"], row["n_effective"])
            elif not np.isnan(low[column]):
                interval = float(low[column]), float(high[column])
            if interval is not None:
                row["low"], row["high"] = min(value, interval[0]), max(value, interval[1])
        yield row


def _means(values: Floats, groups: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(mean of each column per group of neighbours, index of each group's first row). NaN: no value."""
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    has = ~np.isnan(values)
    sums = np.add.reduceat(np.where(has, values, 0.0), starts, axis=0)
    n = np.add.reduceat(has.astype(np.float64), starts, axis=0)
    means: Floats = np.full_like(sums, np.nan)
    np.divide(sums, n, out=means, where=n > 0)
    return means, starts


def _reason(table: _Table, members: npt.NDArray[np.int64], column: int) -> str:
    """The most frequent reason among the cell's runs."""
    counted = Counter(table.reasons.get((int(i), column), "not measured") for i in members)
    reason, n = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return reason if len(counted) == 1 else f"{reason} ({n} of {len(members)} runs)"
