"""The search for a worst point, with executed takeovers of the embedded world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from handoff import cli
from handoff.endpoints import Endpoint
from handoff.errors import InputError
from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.stages import corpus, search_ground, takeovers
from handoff.stages.handoffs import Handoffs
from handoff.stages.search_ground import ATTEMPTS, Ground
from handoff.stages.takeovers import Job
from handoff.stages.worst_points import find_worst_point


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


def test_what_cannot_be_searched_says_what_to_do(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(recorded)
    with pytest.raises(InputError, match="0 runs begin with 't_nothing'"):
        find_worst_point(project, "t_nothing", arm="expert", view="repo", budget=99)
    with pytest.raises(InputError, match="no policy 'E' was trained"):
        find_worst_point(project, shortest(project), arm="E", view="repo", budget=99)
    with pytest.raises(InputError, match="no view 'all'"):
        find_worst_point(project, shortest(project), arm="expert", view="all", budget=99)
    with pytest.raises(InputError, match="no successor 'nobody'"):
        find_worst_point(project, shortest(project), arm="nobody", view="repo", budget=99)
    monkeypatch.setattr(search_ground, "run_jobs", None)  # nothing is run before it is refused
    with pytest.raises(InputError, match=r"recorded view cannot be had at 1[0-9] .*\(step 1, 2, 3, 4, 5 …\): nothing"):
        find_worst_point(project, shortest(project), arm="expert", view="recorded", budget=99)
    with pytest.raises(InputError, match=r"the budget is 1 and has to be [0-9]+ or more"):
        find_worst_point(project, shortest(project), arm="expert", view="repo", budget=1)


def test_what_is_not_judged_is_neither_solvable_nor_unsolvable(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of which some verdicts are missing are told apart from those that were never solved."""
    project = Project(recorded)
    run = shortest(project)

    def judged(project: Project, jobs: Sequence[Job], progress: object) -> list[dict[str, object]]:
        verdicts = ([False], [None], [False, None], [None, True])
        rows = []
        for job in jobs:
            turn = seen[job.start.point_id] = seen.get(job.start.point_id, -1) + 1
            own = verdicts[sorted(seen).index(job.start.point_id) % 4] if len(seen) == known else [False]
            solved = own[turn % len(own)]
            rows.append({"solved": solved, "note": "n", "steps": 3, "prompt_tokens": 9, "first_logprob": None})
        return rows

    seen: dict[str, int] = {}
    with Handoffs(project, "kata-test") as handoffs:
        ground = Ground(project, handoffs, "kata-test", run, "expert", None)
        points = ground.points()
        known = len(points)
        seen.update({row["point_id"]: -1 for row in points.values()})
        monkeypatch.setattr(search_ground, "run_jobs", judged)
        tried = ground.solvable(points)
    kinds = {h: sorted(seen).index(row["point_id"]) % 4 for h, row in points.items()}
    assert tried.unsolved == tuple(h for h in sorted(points) if kinds[h] == 0)
    assert tried.unjudged == tuple(h for h in sorted(points) if kinds[h] in (1, 2))
    assert tried.solved == tuple(h for h in sorted(points) if kinds[h] == 3)


@pytest.mark.parametrize(
    ("told", "kind", "note"),
    [
        ([-0.5, -0.25], "log-probability", ""),
        ([-0.5, None], "heuristics", "the endpoint returns no log-probabilities: named heuristics stand in"),
    ],
)
def test_an_endpoint_is_guessed_by_its_own_uncertainty_where_it_tells(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, told: list[float | None], kind: str, note: str
) -> None:
    """The first takeover at each step asks for it, the later ones do not."""
    asked: list[bool] = []

    def judged(project: Project, jobs: Sequence[Job], progress: object) -> list[dict[str, object]]:
        asked.extend(job.asks_logprobs for job in jobs)
        return [
            {"solved": place > 0, "note": "", "steps": place, "prompt_tokens": 9, "first_logprob": told[place % 2]}
            for place, _ in enumerate(jobs)
        ]

    monkeypatch.setattr(search_ground, "run_jobs", judged)
    endpoint = Endpoint(base_url="http://127.0.0.1:9/v1", model="m")
    project = Project(recorded, msgspec.structs.replace(Project(recorded).settings, successors={"stub": endpoint}))
    with Handoffs(project, "kata-test") as handoffs:
        ground = Ground(project, handoffs, "kata-test", shortest(project), "stub", None)
        points = ground.points()
        tried = ground.solvable(points)
        found = ground.guesses([points[h] for h in tried.solved], tried.first)
    assert asked[: len(points)] == [True] * len(points) and not any(asked[len(points) :])
    assert found.kind == f"cost with the whole trace + {kind}" and found.note == note
    assert all(value is not None and 0 <= value <= 1 for value in found.values)


def test_a_search_without_a_candidate_says_so(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No empty table: in words, that the successor solves it from nowhere."""
    failed = {"solved": False, "note": "", "steps": 3, "prompt_tokens": 9, "first_logprob": None}
    monkeypatch.setattr(search_ground, "run_jobs", lambda project, jobs, progress: [failed for _ in jobs])
    arguments = ["worst-point", shortest(Project(recorded)), "--successor", "expert", "--data", str(recorded)]
    told = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    assert "solves the task from no step" in told.output and "mean excess cost" not in told.output


def test_a_run_that_nobody_can_judge_has_no_worst_point(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not known is not unsolvable."""
    note = "not judged: no instance file names the task's tests"
    monkeypatch.setattr(
        search_ground, "run_jobs", lambda project, jobs, progress: [{"solved": None, "note": note} for _ in jobs]
    )
    project = Project(recorded)
    with pytest.raises(InputError, match="no instance file names"):
        find_worst_point(project, shortest(project), arm="expert", view="repo", budget=99)
