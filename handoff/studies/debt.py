"""Handoff debt: each view against the bare repository on matched points (``docs/science.md §9``).

Two runs are matched when they are of one successor, from one point, with one seed. Everything is broken down by
successor, view and point label; label ``all`` takes every point once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from handoff.diagnosis import stats
from handoff.diagnosis.cost import Debt, Matched, handoff_debt, require_same_tokenizer

REFERENCE = "repo"
"""The view that the others are held against."""
ALL = "all"

COSTS = (
    "events",
    "steps",
    "prompt_tokens",
    "first_prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "note_tokens",
    "total_tokens",
)
"""Compared by medians, each in the unit of its column; ``total_tokens``: prompt, completion and notes together."""
SOLVED = "solved"
"""Compared by rate and by exact McNemar."""

Run: TypeAlias = Mapping[str, Any]


class Point(NamedTuple):
    """What a study needs to know of a handoff point."""

    task: str
    labels: tuple[str, ...]


def debt_rows(
    runs: Iterable[Run], points: Mapping[str, Point], *, seed: int, resamples: int = stats.RESAMPLES
) -> list[dict[str, Any]]:
    """Rows of ``handoff_debt``: one for each successor, view, label and measure, in this order.

    ``runs``: rows of ``debt_runs``. Labels come in the order in which ``points`` first name them, views and
    successors in that of ``runs``; the same rows in another order give the same figures. ``InputError`` when token
    counts of several tokenizers are mixed.
    """
    every = list(runs)
    require_same_tokenizer([run["tokenizer"] for run in every])
    labels = [ALL, *dict.fromkeys(label for point in points.values() for label in point.labels)]
    found: dict[tuple[str, str], dict[tuple[str, int], Run]] = {}
    for run in every:
        found.setdefault((run["arm"], run["view"]), {})[run["point_id"], run["seed"]] = run
    rows: list[dict[str, Any]] = []
    for (arm, view), under in found.items():
        if view != REFERENCE:
            bare = found.get((arm, REFERENCE), {})
            for label in labels:
                rows += _cell(arm, view, label, under, bare, points, seed, resamples)
    return rows


def _cell(
    arm: str,
    view: str,
    label: str,
    under: Mapping[tuple[str, int], Run],
    bare: Mapping[tuple[str, int], Run],
    points: Mapping[str, Point],
    seed: int,
    resamples: int,
) -> Iterator[dict[str, Any]]:
    def fits(key: tuple[str, int]) -> bool:
        return label == ALL or label in points[key[0]].labels

    shared = [key for key in sorted(under.keys() & bare.keys()) if fits(key)]
    lone = [sum(fits(key) for key in one.keys() - other.keys()) for one, other in ((under, bare), (bare, under))]
    if not shared and not sum(lone):
        return
    why = [f"{n} without a run under {v}" for n, v in zip(lone, (REFERENCE, view), strict=True) if n]
    for metric in COSTS:
        valued = [key for key in shared if None not in (_value(under[key], metric), _value(bare[key], metric))]
        unknown = [f"{n} without a count"] if (n := len(shared) - len(valued)) else []
        pairs = [_pair(under[key], bare[key], points[key[0]].task, metric) for key in valued]
        debt = handoff_debt(pairs, seed=seed, resamples=resamples)
        yield {
            "arm": arm,
            "view": view,
            "label": label,
            "metric": metric,
            **_figures(debt),
            "gained": None,
            "lost": None,
            "p_value": None,
            **_counts(valued, points, sum(lone) + len(shared) - len(valued), [*why, *unknown]),
        }
    judged = [key for key in shared if None not in (under[key]["solved"], bare[key]["solved"])]
    unknown = [f"{n} with unknown outcome"] if (n := len(shared) - len(judged)) else []
    gained = sum(under[key]["solved"] and not bare[key]["solved"] for key in judged)
    lost = sum(bare[key]["solved"] and not under[key]["solved"] for key in judged)
    yield {
        "arm": arm,
        "view": view,
        "label": label,
        "metric": SOLVED,
        "value": sum(under[key]["solved"] for key in judged) / len(judged) if judged else None,
        "reference": sum(bare[key]["solved"] for key in judged) / len(judged) if judged else None,
        **dict.fromkeys(("ratio_of_medians", "ratio_low", "ratio_high")),
        **dict.fromkeys(("median_of_ratios", "median_low", "median_high")),
        "reason": None if judged else "no matched points with known outcomes",
        "gained": gained,
        "lost": lost,
        "p_value": stats.mcnemar(gained, lost),
        **_counts(judged, points, sum(lone) + len(shared) - len(judged), [*why, *unknown]),
    }


def _value(run: Run, metric: str) -> float | None:
    if metric == "total_tokens":
        return float(run["prompt_tokens"] + run["completion_tokens"] + run["note_tokens"])
    value = run[metric]
    return None if value is None else float(value)


def _pair(under: Run, bare: Run, task: str, metric: str) -> Matched:
    return Matched(
        task_id=task,
        cost=_value(under, metric) or 0.0,
        cost_reference=_value(bare, metric) or 0.0,
        solved=under["solved"],
        solved_reference=bare["solved"],
    )


def _figures(debt: Debt) -> dict[str, Any]:
    low, high = debt.interval or (None, None)
    median_low, median_high = debt.median_interval or (None, None)
    return {
        "value": debt.ratio_of_medians.numerator,
        "reference": debt.ratio_of_medians.denominator,
        "ratio_of_medians": debt.ratio_of_medians.value,
        "ratio_low": low,
        "ratio_high": high,
        "median_of_ratios": debt.median_of_ratios.value,
        "median_low": median_low,
        "median_high": median_high,
        "reason": debt.ratio_of_medians.reason,
    }


def _counts(
    keys: Sequence[tuple[str, int]], points: Mapping[str, Point], unmatched: int, why: Sequence[str]
) -> dict[str, Any]:
    return {
        "n_runs": len(keys),
        "n_points": len({point for point, _ in keys}),
        "n_tasks": len({points[point].task for point, _ in keys}),
        "unmatched": unmatched,
        "note": "; ".join(why),
    }
