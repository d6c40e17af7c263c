"""Rounds: what one round's diagnosis decides about the next (``docs/science.md §12``).

Drift against a reference round, the next mixture over cells, the HRS threshold, promotion of a policy, and
diversity. All of it reads rows of validation points; test points feed no choice. Running a round is in ``stages/``,
whether a drift starts a run is the sensor's business.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from handoff.diagnosis import stats
from handoff.diagnosis.robustness import ALL, FAILURE_MODES
from handoff.errors import InputError
from handoff.identity import identify

FALSE_ALARMS = 0.05
"""The chance that a round without any drift is said to have one, over all modes and cells together."""
REFERENCES = frozenset({"A", "A+opening", "B", "expert", "oracle", "replay", "resampled"})
"""Arms that are controls or yardsticks: their failures are not what the data should mend."""
CHOOSING_SPLIT = "validation"


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How often one failure mode occurs in one cell."""

    mode: str
    cell: str
    """Its ``cell_name``, by which regeneration is restricted."""
    value: float
    n: int
    """Independent runs it rests on, after correction for runs of one task."""

    @property
    def failures(self) -> float:
        """Of ``n`` runs; not whole, because runs of one task are averaged."""
        return self.value * self.n


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """One failure mode became more frequent in one cell."""

    mode: str
    cell: str
    before: float
    now: float
    p_value: float
    """Of this test alone; it was small enough after Holm's correction for all tests made."""
    evidence: str
    """Names the figures compared: the same figures give the same name, and nothing is done about them twice."""


def cell_name(arm: str, view: str, label: str, tier: str) -> str:
    """A cell as one word: ``E:structured/error/none``."""
    return f"{arm}:{view}/{label}/{tier}"


def read_cell(name: str) -> tuple[str, str, str, str]:
    """(arm, view, label, tier) of a cell's name; ``InputError`` when it is none."""
    arm, colon, rest = name.rpartition(":")
    parts = rest.split("/")
    if not colon or len(parts) != 3 or not all(parts):
        raise InputError(f"{name!r} names no cell; a cell is written arm:view/label/tier")
    return arm, parts[0], parts[1], parts[2]


def failure_rates(
    rows: Iterable[Mapping[str, Any]], *, split: str = CHOOSING_SPLIT, arms: Sequence[str] | None = None
) -> list[Rate]:
    """The failure rates in rows of ``robustness``, by mode and cell, sorted.

    Only cells of one tier, so that no run counts in two tiers of one label. ``arms``: ``None`` takes every arm that
    is no reference or control. ``InputError`` for the test split.
    """
    if split == "test":
        raise InputError("test points feed no choice; use the validation split")
    found = []
    for row in rows:
        wanted = row["arm"] not in REFERENCES if arms is None else row["arm"] in arms
        if row["metric"] in FAILURE_MODES and row["split"] == split and wanted and row["tier"] != ALL:
            n = row.get("n_effective") or row["n_tasks"]
            if row["value"] is not None and n:
                cell = cell_name(row["arm"], row["view"], row["label"], row["tier"])
                found.append(Rate(mode=row["metric"], cell=cell, value=row["value"], n=int(n)))
    return sorted(found, key=lambda rate: (rate.mode, rate.cell))


def find_drift(
    reference: Iterable[Mapping[str, Any]],
    newest: Iterable[Mapping[str, Any]],
    *,
    false_alarms: float = FALSE_ALARMS,
    split: str = CHOOSING_SPLIT,
    arms: Sequence[str] | None = None,
) -> list[Drift]:
    """The failure modes and cells that became worse than chance explains, the clearest first.

    Rows of ``robustness`` of two rounds. Per mode and cell a one-sided exact two-sample test (Fisher); Holm's
    correction keeps the chance of any false alarm at ``false_alarms``, whatever the cells have in common. Cells that
    only one of the rounds has are not compared. Failures are rounded against finding drift.
    """
    before = {(rate.mode, rate.cell): rate for rate in failure_rates(reference, split=split, arms=arms)}
    pairs = [
        (before[rate.mode, rate.cell], rate)
        for rate in failure_rates(newest, split=split, arms=arms)
        if (rate.mode, rate.cell) in before
    ]
    p_values = [
        stats.rate_rose(math.floor(now.failures + 1e-9), now.n, math.ceil(then.failures - 1e-9), then.n)
        for then, now in pairs
    ]
    drifted = [
        Drift(
            mode=now.mode,
            cell=now.cell,
            before=then.value,
            now=now.value,
            p_value=p,
            evidence=identify("i", "drift", now.mode, now.cell, repr((then.value, then.n, now.value, now.n))),
        )
        for (then, now), p, is_drift in zip(pairs, p_values, stats.holm(p_values, false_alarms), strict=True)
        if is_drift
    ]
    return sorted(drifted, key=lambda drift: (drift.p_value, drift.mode, drift.cell))


def next_mixture(rates: Sequence[Rate], *, floor: float = 0.2, strength: float = 10.0) -> dict[tuple[str, str], float]:
    """(mode, cell) → share of the next round's takeovers, summing to 1, sorted.

    Proportional to the failure rate after shrinking it towards its mode's overall rate, which weighs as much as
    ``strength`` runs: a cell with few runs is neither flooded nor forgotten. ``floor`` is divided equally between
    all cells first, so none starves.
    """
    if not 0 <= floor <= 1:
        raise InputError(f"the floor is a share between 0 and 1, not {floor}")
    if not rates:
        return {}
    runs: dict[str, float] = {}
    failures: dict[str, float] = {}
    for rate in rates:
        runs[rate.mode] = runs.get(rate.mode, 0.0) + rate.n
        failures[rate.mode] = failures.get(rate.mode, 0.0) + rate.failures
    weights = {
        (rate.mode, rate.cell): (rate.failures + strength * failures[rate.mode] / max(1.0, runs[rate.mode]))
        / (rate.n + strength)
        for rate in sorted(rates, key=lambda rate: (rate.mode, rate.cell))
    }
    total = sum(weights.values())
    equal = 1 / len(weights)
    return {
        key: floor * equal + (1 - floor) * (weight / total if total > 0 else equal) for key, weight in weights.items()
    }


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """The HRS that a sample has to reach."""

    value: float | None
    """``None`` as long as no score has ever been achieved."""
    achieved: float | None
    """The quantile of this round alone. Below ``value``: the round fell back and the threshold did not follow."""
    reason: str


def hrs_threshold(scores: Iterable[float | None], previous: float | None, *, quantile: float = 0.5) -> Threshold:
    """The quantile of what was achieved, never below the previous threshold."""
    valued = sorted(score for score in scores if score is not None)
    if not valued:
        return Threshold(value=previous, achieved=None, reason="no run of this round has a score; kept")
    achieved = float(np.quantile(valued, quantile))
    if previous is not None and achieved < previous:
        return Threshold(value=previous, achieved=achieved, reason="this round achieved less; kept")
    return Threshold(value=achieved, achieved=achieved, reason=f"the {quantile:.0%} quantile of {len(valued)} runs")


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy achieved on one task of the validation split, averaged over its points."""

    solved: float
    """Share of solved runs."""
    hrs: float | None


class Promotion(msgspec.Struct, frozen=True, kw_only=True):
    """May the candidate replace the incumbent?"""

    is_promoted: bool
    reason: str
    solve_change: tuple[float, float, float] | None
    """(mean, low, high) of candidate − incumbent, over tasks that both ran."""
    hrs_change: tuple[float, float, float] | None
    n_tasks: int


def decide_promotion(
    candidate: Mapping[str, Score], incumbent: Mapping[str, Score] | None, *, seed: int, margin: float = 0.05
) -> Promotion:
    """Promote when the solve rate is not worse by more than ``margin`` and HRS is better, both at 95 %.

    Scores by task id. ``incumbent=None``: there is none, and the first policy is promoted. The intervals are of
    paired differences, bootstrapped by task.
    """
    if incumbent is None:
        return Promotion(
            is_promoted=True,
            reason="the first policy",
            solve_change=None,
            hrs_change=None,
            n_tasks=len(candidate),
        )
    tasks = sorted(candidate.keys() & incumbent.keys())
    if len(tasks) < 2:
        return Promotion(
            is_promoted=False,
            reason="fewer than two tasks that both policies ran",
            solve_change=None,
            hrs_change=None,
            n_tasks=len(tasks),
        )
    differences = np.array([_difference(candidate[task], incumbent[task]) for task in tasks], dtype=np.float64)
    means, lows, highs = stats.bootstrap_means(differences, seed=seed)
    solve, hrs = (None if np.isnan(lows[i]) else (float(means[i]), float(lows[i]), float(highs[i])) for i in range(2))
    if solve is None or solve[1] < -margin:
        reason = f"its solve rate may be worse by more than {margin:g}"
    elif hrs is None:
        reason = "fewer than two tasks have an HRS under both policies"
    elif hrs[1] <= 0:
        reason = "its HRS is not better beyond chance"
    else:
        return Promotion(
            is_promoted=True,
            reason="solve rate not worse, HRS better",
            solve_change=solve,
            hrs_change=hrs,
            n_tasks=len(tasks),
        )
    return Promotion(is_promoted=False, reason=reason, solve_change=solve, hrs_change=hrs, n_tasks=len(tasks))


def _difference(new: Score, old: Score) -> tuple[float, float]:
    return new.solved - old.solved, math.nan if new.hrs is None or old.hrs is None else new.hrs - old.hrs


def entropy(names: Iterable[str]) -> float | None:
    """Shannon entropy in bits of how often each name occurs: the diversity of labels, views or repositories."""
    counts = Counter(names)
    total = sum(counts.values())
    if total == 0:
        return None
    return sum(n / total * math.log2(total / n) for n in sorted(counts.values()))


def diversity_losses(
    reference: Mapping[str, float | None], newest: Mapping[str, float | None], *, bound: float = 0.2
) -> list[str]:
    """Which entropies fell by more than ``bound`` of their reference, sorted. Any of them blocks promotion.

    One that the reference has and the newest round lacks has fallen.
    """
    lost = []
    for name in sorted(reference):
        before, now = reference[name], newest.get(name)
        if before is not None and (now is None or now < (1 - bound) * before):
            lost.append(name)
    return lost
