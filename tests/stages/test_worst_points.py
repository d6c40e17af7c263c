"""The search for a worst point, with executed takeovers of the embedded world."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from handoff import cli
from handoff.errors import InputError
from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.stages import corpus, takeovers, worst_points
from handoff.stages.worst_points import ATTEMPTS, find_worst_point


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("kata") / "data"
    record(generate(5, 1, 0, 1), data, seed=5, workers=1)
    corpus.raw_trajectories(Project(data), "kata-test")
    corpus.repository_states(Project(data), "kata-test")
    return data


def shortest(project: Project) -> str:
    rows = project.lake.rows("raw_trajectories", ["trajectory_id", "n_steps"])
    return str(min(rows, key=lambda row: (row["n_steps"], row["trajectory_id"]))["trajectory_id"])


@pytest.mark.slow
def test_a_search_is_executed_once_and_told_again(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(recorded)
    run = shortest(project)
    n = int(project.lake.rows("raw_trajectories", ["n_steps"])[0]["n_steps"])
    ran: list[int] = []
    whole = takeovers.run_takeover

    def counted(**arguments: object) -> object:
        ran.append(1)
        return whole(**arguments)  # type: ignore[arg-type]

    found = find_worst_point(project, run[:12], arm="expert", view="repo", budget=n)
    assert found.trajectory_id == run and found.found.worst is not None
    assert [own.h for own in found.found.visited] + list(found.unsolvable) != []
    assert {own.h for own in found.found.visited} | set(found.unsolvable) == set(range(1, found.n_steps))
    assert found.found.runs <= n and found.trials <= ATTEMPTS * n
    entries = sorted(path.name for path in (recorded / "journal" / "takeovers").rglob("*") if path.is_file())
    monkeypatch.setattr(takeovers, "run_takeover", counted)
    assert find_worst_point(project, run, arm="expert", view="repo", budget=n) == found
    assert sorted(p.name for p in (recorded / "journal" / "takeovers").rglob("*") if p.is_file()) == entries
    rows = found.rows()
    assert [row["is_worst"] for row in rows].count(True) == 1
    (worst,) = (row for row in rows if row["is_worst"])
    assert worst["confirmed_cost"] is not None and worst["surrogate_kind"].startswith("proxy: ")
    project.lake.write("worst_points", rows, inputs="i", round="r000", shard="kata-test")

    plot = recorded / "worst.svg"
    arguments = ["worst-point", run, "--successor", "expert", "--budget", str(n), "--plot", str(plot)]
    told = CliRunner().invoke(cli.app, [*arguments, "--data", str(recorded)], env={"COLUMNS": "120"})
    assert told.exit_code == 0, told.output
    assert "worst" in told.output and plot.read_text().startswith("<svg")


def test_what_cannot_be_searched_says_what_to_do(recorded: Path) -> None:
    project = Project(recorded)
    with pytest.raises(InputError, match="0 runs begin with 't_nothing'"):
        find_worst_point(project, "t_nothing", arm="expert", view="repo", budget=99)
    with pytest.raises(InputError, match="no policy 'E' was trained"):
        find_worst_point(project, shortest(project), arm="E", view="repo", budget=99)
    with pytest.raises(InputError, match="no view 'all'"):
        find_worst_point(project, shortest(project), arm="expert", view="all", budget=99)
    with pytest.raises(InputError, match="no successor 'nobody'"):
        find_worst_point(project, shortest(project), arm="nobody", view="repo", budget=99)
    with pytest.raises(InputError, match=r"the budget is 1 and has to be [0-9]+ or more"):
        find_worst_point(project, shortest(project), arm="expert", view="repo", budget=1)


def test_a_run_that_nobody_can_judge_has_no_worst_point(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not known is not unsolvable."""
    note = "not judged: no instance file names the task's tests"
    monkeypatch.setattr(
        worst_points, "run_jobs", lambda project, jobs, progress: [{"solved": None, "note": note} for _ in jobs]
    )
    project = Project(recorded)
    with pytest.raises(InputError, match="no instance file names"):
        find_worst_point(project, shortest(project), arm="expert", view="repo", budget=99)
