"""Failed takeovers are looked at again by running their tests; ways out are read from recordings, once a shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from handoff.kata import store
from handoff.kata.lab import KataLab
from handoff.kata.record import load_world, record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.salvage.relabel import NOTHING_FIXED
from handoff.stages import corpus, handoffs, quality
from handoff.stages.curation import curated_training_set
from handoff.stages.salvage import Trial, kept, salvaged, verify

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world with a training task, read as far as its views."""
    data = tmp_path_factory.mktemp("kata") / "data"
    record(generate(5, 6, 0, 0), data, seed=5, workers=2)
    project = Project(data)
    for stage in (corpus.raw_trajectories, corpus.repository_states, quality.quality_signals):
        stage(project, "kata-train")
    handoffs.injected_handoffs(project, "kata-train")
    handoffs.view_renderings(project, "kata-train")
    return data


def _point(data: Path) -> dict[str, Any]:
    rows = Project(data).lake.rows("injected_handoffs", shard="kata-train")
    return next(row for row in rows if row["tree"] and row["state_class"] == "needs_completion")


def _changed(data: Path, tree: str, changes: dict[str, str]) -> str:
    with KataLab(data, worker="made") as lab:
        return store.write_tree(lab.git_dir, {**lab.files(tree), **changes})


def _run(point: dict[str, Any], final: str) -> dict[str, Any]:
    return {
        "takeover_id": "k_1",
        "point_id": point["point_id"],
        "view": "repo",
        "purpose": "collect",
        "solved": False,
        "final_tree": final,
        "steps": 1,
        "prompt_tokens": 1,
        "transcript": "[]",
        "destroyed_fixes": 0,
        "arm": "expert",
    }


def test_what_a_failed_takeover_achieved_is_run_again(trained: Path) -> None:
    """The reference solution makes all failing tests pass; touching a test, or nothing, is no achievement."""
    point = _point(trained)
    reference = dict(load_world(trained).task(point["repo"]).reference)
    end = _changed(trained, point["tree"], reference)
    trial = _trial(trained, point, point["tree"], end)
    with KataLab(trained, worker="again") as lab:
        found = verify(lab, trial)
        assert found.fixed and not found.reason
        assert (found.failing_before, found.failing_after) == (len(found.fixed), 0)
        (test, *_) = (path for path in lab.files(point["tree"]) if path.startswith("tests/test_"))
        cheat = store.write_tree(lab.git_dir, {**lab.files(point["tree"]), test: "def test_a():\n    pass\n"})
        assert "changed what judges" in verify(lab, msgspec.structs.replace(trial, end=cheat)).reason
        assert verify(lab, msgspec.structs.replace(trial, end=point["tree"])).fixed == ()


def _trial(data: Path, point: dict[str, Any], start: str, end: str) -> Trial:
    solution = load_world(data).task(point["repo"]).reference
    return Trial(repo=point["repo"], base_commit=point["base_commit"], start=start, end=end, solution=solution)


DOWN = """

def _down(*given, **named):
    raise RuntimeError("down")

globals().update({name: _down for name, value in list(globals().items()) if callable(value) and name != "_down"})
"""


def test_a_file_may_be_right_though_no_test_passes_yet(trained: Path) -> None:
    """Every test that its bug fails needs another file too, which is down: nothing passes, and the file is right."""
    point = _point(trained)
    task = load_world(trained).task(point["repo"])
    (path, *_) = sorted(task.reference)
    found = None
    with KataLab(trained, worker="right") as lab:
        for other in sorted(name for name in task.files if name.endswith(".py") and not name.startswith("tests/")):
            if other == path:
                continue
            whole = {**task.files, **task.reference, other: task.files[other] + DOWN}
            start = store.write_tree(lab.git_dir, {**whole, path: task.files[path]})
            trial = _trial(trained, point, start, store.write_tree(lab.git_dir, whole))
            result = verify(lab, trial)
            if result.right:
                found = result
                untouched = {**whole, path: task.files[path] + "\n# a remark\n"}
                wrong = msgspec.structs.replace(trial, end=store.write_tree(lab.git_dir, untouched))
                assert verify(lab, wrong).right == ()
                assert verify(lab, wrong).reason == NOTHING_FIXED
                break
    assert found is not None and found.right == (path,) and found.fixed == () and not found.reason


def test_both_bases_become_rows_and_a_shard_is_read_once(trained: Path) -> None:
    project = Project(trained)
    point = _point(trained)
    end = _changed(trained, point["tree"], dict(load_world(trained).task(point["repo"]).reference))
    for round in ("r000", "r001"):
        run = _run(point, end)
        view = project.lake.rows("view_renderings", shard="kata-train")
        run["view_id"] = next(
            row["view_id"] for row in view if row["point_id"] == point["point_id"] and row["view"] == "repo"
        )
        where = {"round": round, "shard": "kata-train"}
        project.lake.write("takeover_runs", [run], inputs=round, **where)
        project.lake.write("diagnostics", [], inputs=round, **where)
        assert salvaged(project, round, "kata-train").is_new
        assert not salvaged(project, round, "kata-train").is_new
    first, second = (project.lake.rows("salvaged", round=r, shard="kata-train") for r in ("r000", "r001"))
    assert {row["basis"] for row in second} == {"relabelled"}
    (row,) = (row for row in first if row["basis"] == "relabelled")
    assert row["verdict"] == "kept" and row["goals"] and row["goals"][0] in row["statement"]
    ways = [row for row in first if row["basis"] == "recovery"]
    assert ways and all(row["failing_after"] < row["failing_before"] for row in ways)
    assert {row["salvage_id"] for row in kept(project, "r001", ["relabelled", "recovery"])} == {
        row["salvage_id"] for row in first
    }


def test_ways_out_become_samples_whose_wrong_turn_is_not_trained(trained: Path) -> None:
    """In the set with their basis; nothing of the recorded run before the failure is in a trained message."""
    project = Project(trained)
    curated_training_set(project, "r001")
    rows = project.lake.rows("curated_training_set", round="r001")
    ways = [row for row in rows if row["basis"] == "recovery"]
    assert ways and all(row["kind"] == "sft" and row["reward"] is None for row in ways)
    assert len({row["point_id"] for row in ways}) == len(ways)
    (trainable,) = {row["basis"] for row in rows if row["kind"] != "sft"} or {"solved"}
    assert trainable == "solved"


def test_a_user_can_leave_both_out(trained: Path, tmp_path: Path) -> None:
    (trained / "handoff.toml").write_text("[salvage]\nrelabelled = false\nrecovery = false\n")
    project = Project(trained)
    assert salvaged(project, "r000", "kata-train").rows == 0
    curated_training_set(project, "r001")
    assert {row["basis"] for row in project.lake.rows("curated_training_set", round="r001")} <= {"solved"}
