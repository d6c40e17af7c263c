"""Cells with intervals (docs/science.md §8)."""

from __future__ import annotations

import random

import pytest

from handoff.diagnosis import ROBUSTNESS_METRICS, robustness
from handoff.lake import SCHEMAS


def point(number: int, task: str, labels=("error",), split="test"):
    return {"point_id": f"p{number}", "task_id": task, "trajectory_id": "t", "split": split, "labels": list(labels)}


def run(number: int, point: int, solved: bool | None = True, steps=5, tier=None, view="repo", arm="E"):
    return {
        "takeover_id": f"k{number}", "point_id": f"p{point}", "arm": arm, "view": view, "tier": tier,
        "solved": solved, "steps": steps, "prompt_tokens": 100 * steps,
    }  # fmt: skip


def measure(run: int, metric: str, value: float | None, reason: str | None = None):
    return {"takeover_id": f"k{run}", "metric": metric, "value": value, "reason": reason}


def figure(rows, metric, label="all", tier="all", **cell):
    (row,) = [
        r for r in rows
        if (r["metric"], r["label"], r["tier"]) == (metric, label, tier) and all(r[k] == v for k, v in cell.items())
    ]  # fmt: skip
    return row


def test_runs_are_averaged_in_their_point_points_in_their_task_and_tasks_last():
    """A task with many runs weighs no more than one with a single run."""
    points = [point(1, "a"), point(2, "a"), point(3, "b")]
    runs = [run(1, 1, steps=2), run(2, 1, steps=4), run(3, 2, steps=5), run(4, 3, steps=10)]
    row = figure(robustness(runs, [], points, seed=0), "steps")
    assert row["value"] == ((3 + 5) / 2 + 10) / 2
    assert (row["n_runs"], row["n_points"], row["n_tasks"]) == (4, 3, 2)
    assert row["low"] <= row["value"] <= row["high"]


def test_cells_are_split_arm_view_label_and_tier_with_all_and_none():
    points = [point(1, "a", ("error", "milestone"))]
    rows = robustness([run(1, 1), run(2, 1, tier="hard")], [], points, seed=0)
    assert {(r["label"], r["tier"]) for r in rows} == {
        (label, tier) for label in ("all", "error", "milestone") for tier in ("all", "none", "hard")
    }
    assert len(rows) == 9 * len(ROBUSTNESS_METRICS)
    assert all(set(row) == set(SCHEMAS["robustness"].names) for row in rows)


def test_a_figure_without_value_says_why_and_coverage_says_how_many_have_one():
    points = [point(1, "a"), point(2, "b")]
    runs = [run(1, 1), run(2, 2, solved=None)]
    rows = robustness(runs, [measure(1, "hrs", 0.5), measure(2, "hrs", None, "no terms"),
                             measure(1, "p_si", None, "nothing done"), measure(2, "p_si", None, "nothing done")],
                      points, seed=0)  # fmt: skip
    assert figure(rows, "hrs")["value"] == 0.5 and figure(rows, "hrs")["coverage"] == 0.5
    assert figure(rows, "p_si")["value"] is None and figure(rows, "p_si")["reason"] == "nothing done"
    assert figure(rows, "e_cr")["reason"] == "not measured"
    assert figure(rows, "solve_rate")["coverage"] == 0.5
    assert all((row["value"] is None) == (row["reason"] is not None) for row in rows)


def test_failure_modes_are_thresholded_measures():
    points = [point(n, f"t{n}") for n in range(4)]
    runs = [run(n, n) for n in range(4)]
    e_crs = (0.9, 0.8, 0.2, None)
    rows = robustness(runs, [measure(n, "e_cr", e) for n, e in enumerate(e_crs)], points, seed=0)
    row = figure(rows, "crf_failed")
    assert row["value"] == pytest.approx(2 / 3)
    assert row["n_effective"] == 3


def test_the_order_of_rows_never_matters_and_the_seed_decides_everything():
    rng = random.Random(1)
    points = [point(n, f"t{n % 5}", rng.sample(["error", "milestone"], rng.randrange(3))) for n in range(20)]
    runs = [run(n, n % 20, rng.random() < 0.5, rng.randrange(1, 9)) for n in range(60)]
    measures = [measure(n, "hrs", rng.random()) for n in range(60)]
    first = robustness(runs, measures, points, seed=3)
    rng.shuffle(points), rng.shuffle(runs), rng.shuffle(measures)
    assert robustness(runs, measures, points, seed=3) == first
    assert robustness(runs, measures, points, seed=4) != first


def test_a_rate_of_1_over_few_tasks_is_not_called_certain():
    """Twenty solved runs of two tasks are about as good as two."""
    points = [point(1, "a"), point(2, "b")]
    row = figure(robustness([run(n, 1 + n % 2) for n in range(20)], [], points, seed=0), "solve_rate")
    assert row["value"] == row["high"] == 1 and row["low"] < 0.4


def test_nothing_gives_no_rows_and_runs_of_unknown_points_are_left_out():
    assert robustness([], [], [], seed=0) == []
    assert robustness([run(1, 1)], [], [], seed=0) == []
