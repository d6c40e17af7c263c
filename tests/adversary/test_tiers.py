"""Tiers (docs/science.md §10)."""

from __future__ import annotations

import pytest

from handoff.adversary import DISTURBANCES, TIERS, points_of, tier, worst_of
from handoff.errors import InputError


def point(h: int, labels=("error",), state_class="needs_completion", tree="t", trajectory="t_1", done=False):
    return {
        "point_id": f"p_{trajectory}_{h}", "trajectory_id": trajectory, "h": h, "labels": list(labels), "tree": tree,
        "state_class": state_class, "nodes": [{"node": "edit:a.py", "done": done}], "n_steps": 9,
    }  # fmt: skip


def test_the_four_tiers_are_those_of_the_science_page():
    assert [(t.name, t.labels, t.view, [kind for kind, _ in t.disturbances]) for t in TIERS] == [
        ("easy", ("milestone",), "structured", []),
        ("medium", ("intermediate",), "summary", ["lost_notes"]),
        ("hard", ("error",), "repo", ["reverted_edit"]),
        ("extreme", (), "repo", ["reverted_edit", "half_alternatives", "vague_intent"]),
    ]


def test_every_tier_names_disturbances_that_exist():
    kinds = {d.kind for d in DISTURBANCES}
    assert all(kind in kinds and 0 < severity <= 1 for t in TIERS for kind, severity in t.disturbances)


def test_an_unknown_tier_is_an_error_that_names_the_known_ones():
    with pytest.raises(InputError, match="easy, medium, hard, extreme"):
        tier("harder")


def test_points_fit_by_label_and_state():
    """Unknown and broken states fit nothing; a solved state is not disturbed."""
    points = [
        point(5),
        point(2),
        point(3, ("milestone",)),
        point(4, tree=None),
        point(6, state_class="invalid"),
        point(7, state_class="already_solved"),
        point(1, state_class=None),
    ]
    assert [p["h"] for p in points_of(tier("hard"), points)] == [1, 2, 5]
    assert [p["h"] for p in points_of(tier("extreme"), points)] == [1, 2, 3, 5]
    assert [p["h"] for p in points_of(tier("easy"), [point(7, ("milestone",), "already_solved")])] == [7]


def test_the_worst_point_is_the_earliest_of_the_most_expensive_ones():
    points = [point(3), point(2), point(1)]
    worst, source = worst_of(points, {"p_t_1_3": 2.0, "p_t_1_2": 2.0, "p_t_1_1": 1.0})
    assert (worst["h"], source) == (2, "measured")


def test_without_measurements_the_worst_point_is_a_guess_and_says_so():
    worst, source = worst_of([point(1, ("milestone",)), point(2, done=True), point(3)])
    assert (worst["h"], source) == (3, "proxy")
    assert worst_of([]) is None
