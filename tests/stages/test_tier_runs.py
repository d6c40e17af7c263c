"""What tiers are worth: from the rows of a round, and by runs that are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from handoff import cli
from handoff.errors import InputError
from handoff.project import Project
from handoff.stages.choosing import next_shares
from handoff.stages.tiers import measure_tiers, shown_round, tiers

SOLVED = {"easy": 4, "medium": 4, "hard": 2, "extreme": 0}
SCORE = {"easy": 0.8, "medium": 0.6, "hard": 0.5, "extreme": 0.5}


def _filled(project: Project, round: str, score: float = 0.0) -> None:
    """A round whose steering policy ran four validation and four test tasks in every tier."""
    points, runs, measures, variants = [], [], [], []
    for split in ("validation", "test"):
        for task in range(4):
            point = f"p_{split}{task}"
            points.append({"point_id": point, "task_id": f"{split}{task}", "trajectory_id": point, "split": split})
            for tier, solved in SOLVED.items():
                id_ = f"k_{round}{split}{task}{tier}"
                run = {"takeover_id": id_, "point_id": point, "arm": "E", "view": "repo", "tier": tier, "steps": 3}
                runs.append({**run, "purpose": "evaluate", "solved": task < solved, "prompt_tokens": 1, "round": round})
                for metric in ("hrs", "p_si", "p_pc"):
                    value = min(1.0, SCORE[tier] + score + task / 100)
                    measures.append({"takeover_id": id_, "metric": metric, "value": value, "reason": None})
                known = "proxy" if tier == "extreme" else None
                variants.append({"variant_id": id_, "point_id": point, "tier": tier, "worst_known": known})
    where = {"round": round, "shard": "s"}
    project.lake.write("injected_handoffs", points, inputs="i", shard="s")
    project.lake.write("takeover_runs", runs, inputs=round, **where)
    project.lake.write("diagnostics", measures, inputs=round, **where)
    project.lake.write(
        "adversarial_variants", [{**row, "oracle": "preserved"} for row in variants], inputs=round, **where
    )


def test_a_round_says_what_each_tier_is_worth_and_what_the_next_practises(tmp_path: Path) -> None:
    project = Project(tmp_path)
    _filled(project, "r001")
    assert tiers(project, "r001").is_new and not tiers(project, "r001").is_new
    name, rows = shown_round(project.lake, None)
    tested = {row["tier"]: row for row in rows if row["split"] == "test"}
    assert name == "r001" and list(tested) == ["easy", "medium", "hard", "extreme"]
    assert [row["order"] for row in tested.values()] == ["first", "harder", "harder", "not told apart"]
    assert tested["extreme"]["worst_known"] == "proxy 4" and tested["extreme"]["solve_rate"] == 0
    assert all(row["next_share"] is None for row in tested.values())
    shares = next_shares(project.lake, "r002")
    assert sum(shares.values()) == pytest.approx(1) and max(shares, key=lambda tier: shares[tier]) == "hard"
    assert next_shares(project.lake, "r001") == next_shares(project.lake, "r000") == {}
    told = CliRunner().invoke(cli.app, ["tiers", "--data", str(tmp_path)], env={"COLUMNS": "160"})
    assert told.exit_code == 0 and "not told apart" in told.output and "of the practice is hard" in told.output


def test_the_wanted_score_never_falls_from_round_to_round(tmp_path: Path) -> None:
    """A round that scores worse aims at more success; one that scores better, at less."""
    aims = {}
    for name, second in (("better", 0.1), ("worse", -0.2)):
        project = Project(tmp_path / name)
        for round, score in (("r000", 0.0), ("r001", second)):
            _filled(project, round, score)
            tiers(project, round)
        (row,) = (r for r in project.lake.rows("tiers", round="r001") if r["next_why"] and r["tier"] == "hard")
        aims[name] = float(row["next_why"].split("; ")[1].split()[0])
    assert aims["better"] < aims["worse"]


def test_nothing_to_show_says_what_to_do(tmp_path: Path) -> None:
    project = Project(tmp_path)
    with pytest.raises(InputError, match="ran no takeover on a tier"):
        shown_round(project.lake, "r000")
    with pytest.raises(InputError, match="no split 'all'"):
        measure_tiers(project, arms=["expert"], split="all")
    with pytest.raises(InputError, match="no policy 'E' was trained"):
        measure_tiers(project, arms=["E"])


@pytest.mark.usefixtures("bubblewrap")
def test_more_points_are_run_when_asked_for(recorded: Path) -> None:
    """The expert on one task: executed, read from the journal when asked again."""
    arguments = ["tiers", "--measure", "expert", "--points", "1", "--data", str(recorded)]
    first, again = (CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "160"}) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "expert" in first.output and "easy" in first.output
    assert [line for line in first.output.splitlines() if "expert" in line] == [
        line for line in again.output.splitlines() if "expert" in line
    ]
