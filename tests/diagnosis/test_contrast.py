"""Contrasts compare two arms on the same points, with tasks as the unit of chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis.contrast import contrast


def rows(arm: str, values: dict[tuple[str, str], float | None], metric: str = "steps") -> list[dict[str, Any]]:
    return [
        {"arm": arm, "view": "repo", "metric": metric, "task": task, "point_id": point, "value": value}
        for (task, point), value in values.items()
    ]


def compare(
    a: dict[tuple[str, str], float | None], b: dict[tuple[str, str], float | None], metric: str = "steps"
) -> Any:
    return contrast([*rows("E", a, metric), *rows("A", b, metric)], "E", "A", view="repo", metric=metric, seed=1)


def test_a_cost_is_a_relative_change() -> None:
    found = compare({("t1", "p1"): 5, ("t2", "p2"): 5}, {("t1", "p1"): 10, ("t2", "p2"): 10})
    assert found.change == pytest.approx(-0.5)
    assert found.is_relative and found.is_clear
    assert (found.n_points, found.n_tasks) == (2, 2)


def test_a_score_is_a_difference() -> None:
    found = compare({("t1", "p1"): 0.9, ("t2", "p2"): 0.9}, {("t1", "p1"): 0.4, ("t2", "p2"): 0.4}, "hrs")
    assert found.change == pytest.approx(0.5)
    assert not found.is_relative


def test_only_points_that_both_arms_ran_count() -> None:
    found = compare({("t1", "p1"): 5, ("t2", "p2"): 1000}, {("t1", "p1"): 10, ("t3", "p3"): 1})
    assert found.change == pytest.approx(-0.5)
    assert found.n_tasks == 1
    assert found.low is None and not found.is_clear


def test_nothing_in_common_has_no_value() -> None:
    assert compare({("t1", "p1"): 5}, {("t2", "p2"): None}).change is None


@given(st.lists(st.floats(1, 100), min_size=2, max_size=8))
def test_an_arm_against_itself_is_no_difference(values: list[float]) -> None:
    own: dict[tuple[str, str], float | None] = {(f"t{n}", f"p{n}"): value for n, value in enumerate(values)}
    found = compare(own, own, "hrs")
    assert found.change == pytest.approx(0)
    assert not found.is_clear
