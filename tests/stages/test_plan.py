"""The plan of a round: who is started where. Test points feed no choice, and nothing depends on order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from handoff.stages import inputs_of, is_executable, round_name, round_number
from handoff.stages.choosing import POINT_LABELS, choose_points
from handoff.stages.takeovers import LEARNED, plan, runnable
from handoff.views import VIEWS


def point(
    run: int, h: int, split: str = "test", label: str = "error", state: str = "needs_completion"
) -> dict[str, Any]:
    return {
        "point_id": f"p_{run}_{h}",
        "trajectory_id": f"t_{run:02d}",
        "h": h,
        "split": split,
        "labels": [label],
        "state_class": state,
        "tree": "abc",
        "repo": "kata/x",
    }


def starts(number: int, points: list[dict[str, Any]], variants: tuple[dict[str, Any], ...] = ()) -> list[Any]:
    views = {(p["point_id"], view): f"v_{p['point_id']}_{view}" for p in points for view in VIEWS}
    return list(plan(number, points, views, variants, {p["point_id"]: p for p in points}, 7))


def test_the_first_round_collects_from_training_points_and_measures_yardsticks_on_test_points() -> None:
    found = starts(0, [point(1, 2, "train"), point(2, 3, "test"), point(3, 3, "validation")])
    assert {(s.purpose, s.arm) for s in found if s.point_id == "p_1_2"} == {("collect", "expert")}
    assert {s.arm for s in found if s.point_id == "p_2_3"} == {"expert", "oracle", "resampled", "replay"}
    assert not [s for s in found if s.point_id == "p_3_3"]


def test_later_rounds_evaluate_every_arm_under_every_view_on_test_points() -> None:
    found = starts(1, [point(2, 3, "test")])
    assert {(s.arm, s.view) for s in found} == {(arm, view) for arm in LEARNED for view in VIEWS}
    assert {s.purpose for s in found} == {"evaluate"}


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_nothing_is_collected_from_held_out_points(number: int) -> None:
    points = [point(n, 2, split) for n, split in enumerate(("test", "validation") * 4)]
    row = {"variant_id": "d_1", "point_id": "p_0_2", "view": "repo", "tier": "hard", "oracle": "preserved"}
    assert not [s for s in starts(number, points, (row,)) if s.purpose == "collect"]


def test_a_variant_that_broke_its_oracle_is_never_run() -> None:
    row = {"variant_id": "d_1", "point_id": "p_0_2", "view": "repo", "tier": "hard", "oracle": "broken"}
    points = [point(0, 2)]
    assert not [s for s in starts(1, points, (row,)) if s.variant_id]
    assert [s for s in starts(1, points, ({**row, "oracle": "preserved"},)) if s.variant_id]


def test_a_start_has_a_seed_of_its_own_that_repeats() -> None:
    points = [point(n, 2) for n in range(3)]
    first, again = starts(1, points), starts(1, points)
    assert first == again
    assert len({s.seed for s in first}) == len(first)


def test_points_are_chosen_whatever_their_order() -> None:
    points = [point(run, h, label=POINT_LABELS[h % 3]) for run in range(5) for h in range(2, 9)]
    chosen = choose_points(points, 2, 7)
    random.Random(1).shuffle(points)
    assert choose_points(points, 2, 7) == chosen
    assert len(chosen) == 10
    assert {label for p in chosen for label in p["labels"]} == set(POINT_LABELS)


def test_a_solved_or_broken_state_is_no_place_to_start() -> None:
    assert choose_points([point(1, 2, state="already_solved"), point(1, 3, state="invalid")], 2, 7) == []


def test_only_the_embedded_world_is_executed() -> None:
    assert is_executable(point(1, 2))
    assert not is_executable({**point(1, 2), "repo": "django/django"})
    assert not is_executable({**point(1, 2), "tree": None})


def test_rounds_have_names_that_sort() -> None:
    assert [round_name(n) for n in (0, 9, 10)] == ["r000", "r009", "r010"]
    assert round_number("r010") == 10


def test_inputs_name_everything_they_are_made_from(tmp_path: Any) -> None:
    from handoff.lake import Lake

    lake = Lake(tmp_path)
    empty = inputs_of("robustness", lake, ("diagnostics", {"round": "r000", "shard": "a"}))
    lake.write("diagnostics", [], inputs="i", round="r000", shard="a")
    assert inputs_of("robustness", lake, ("diagnostics", {"round": "r000", "shard": "a"})) != empty


def test_an_arm_that_was_not_trained_is_left_out() -> None:
    """A round in which no takeover was worth learning from trains no B and no E; the next one goes on without them."""
    found = runnable(starts(1, [point(2, 3, "test")]), {"A", "A+opening"})
    assert {s.arm for s in found} == {"A", "A+opening"}
    yardsticks = starts(0, [point(2, 3, "test")])
    assert runnable(yardsticks, ()) == yardsticks


def test_a_round_without_curated_takeovers_gives_no_demonstrations(tmp_path: Any) -> None:
    from handoff.project import Project
    from handoff.stages.coevolution import _takeovers

    project = Project(tmp_path)
    project.lake.write("takeover_runs", [], inputs="i", round="r000", shard="a")
    project.lake.write("curated_training_set", [], inputs="i", round="r000")
    assert list(_takeovers(project, "r000")) == []
