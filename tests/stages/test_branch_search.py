"""Branch search with executed takeovers of a policy that is trained here: what is tried, kept, and told again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from handoff import cli
from handoff.errors import InputError
from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.lake import SCHEMAS
from handoff.project import BranchingSettings, Project
from handoff.stages import branching, coevolution, corpus, handoffs, quality, takeovers
from handoff.stages.branching import branch_takeover
from handoff.takeover import read_transcript

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A small world with the policy that single sessions teach; it fails often."""
    data = tmp_path_factory.mktemp("branch") / "data"
    for path in record(generate(5, 2, 0, 1), data, seed=5):
        own = Project(data)
        corpus.raw_trajectories(own, path.stem)
        corpus.repository_states(own, path.stem)
        quality.quality_signals(own, path.stem)
        handoffs.injected_handoffs(own, path.stem)
        handoffs.view_renderings(own, path.stem)
    coevolution.policy(Project(data), "r000")
    return Project(data)


def test_a_branch_repeats_its_base_and_then_departs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for again, nothing is run; the command prints it."""
    points = [p for p in project.lake.rows("injected_handoffs", shard="kata-test") if p["state_class"]]
    point_id = next(p["point_id"] for p in points if p["state_class"] == "needs_completion")
    found = branch_takeover(project, point_id, "repo", "A", 3)
    tried = [branch for branch in found.branches if branch.verdict == "tried"]
    base = read_transcript(found.base["transcript"])
    assert len(tried) == len(found.tried) == 3
    for branch, row in zip(tried, found.tried, strict=True):
        steps = read_transcript(row["transcript"])
        assert steps[: branch.step - 1] == base[: branch.step - 1]
        assert steps[branch.step - 1].actions != base[branch.step - 1].actions
        assert row["takeover_id"] != found.base["takeover_id"] and row["solved"] is not None
        assert row["provenance"] == "executed" and f"another move at step {branch.step}" in row["note"]
    monkeypatch.setattr(takeovers, "run_takeover", lambda **given: _recorded(given))
    assert branch_takeover(project, point_id, "repo", "A", 3) == found
    arguments = ["branch", point_id, "--successor", "A", "--runs", "3", "--data", str(project.root)]
    told = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "160"})
    assert told.exit_code == 0 and "3 executed" in told.output, told.output
    with pytest.raises(InputError, match="does not tell what it might have done"):
        branch_takeover(project, point_id, "repo", "expert", 3)


def _recorded(given: dict[str, Any]) -> Any:
    """A takeover that has to be in the journal already."""
    from handoff.takeover import run_takeover

    def nobody() -> Any:
        raise AssertionError("a takeover was run again")

    return run_takeover(**{**given, "environment": nobody})


def test_a_round_keeps_the_branch_that_solved_what_failed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of collected runs of policies, and only where the settings ask for it."""
    plain = takeovers.takeover_runs(project, "r001", "kata-train")
    assert not project.lake.partitions("branches")
    before = {row["takeover_id"]: row for row in project.lake.rows("takeover_runs", round="r001", shard="kata-train")}
    settings = msgspec.structs.replace(project.settings, branching=BranchingSettings(runs=6))
    searching = Project(project.root, settings)
    written = takeovers.takeover_runs(searching, "r001", "kata-train")
    rows = project.lake.rows("branches", round="r001", shard="kata-train")
    after = {row["takeover_id"]: row for row in project.lake.rows("takeover_runs", round="r001", shard="kata-train")}
    failed = {id_ for id_, row in before.items() if row["solved"] is False and row["purpose"] == "collect"}
    assert {row["base_id"] for row in rows} <= failed and rows
    kept = {row["takeover_id"] for row in rows if row["is_kept"]}
    assert set(after) == set(before) | kept and written.rows == plain.rows + len(kept)
    assert all(after[id_]["solved"] and after[id_]["purpose"] == "collect" for id_ in kept)
    assert len(kept) == len({row["base_id"] for row in rows if row["is_kept"]})
    assert set(rows[0]) == {*SCHEMAS["branches"].names, "round", "shard"}
    monkeypatch.setattr(branching, "search_branches", None)
    assert not takeovers.takeover_runs(searching, "r001", "kata-train").is_new
