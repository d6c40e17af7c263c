"""Both studies on a real repository, judged by the tests of its task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fault_server as server
import pytest
from fault_server import message, serving
from typer.testing import CliRunner

from handoff import cli
from handoff.project import Project
from handoff.sandbox import python_paths
from handoff.studies.planning import SINGLE
from tests.stages.test_judged_takeovers import FIXED, REPO, SUBMIT, World

LOOK = ("bash", {"command": "cat pager.py"})
VAIN = ("bash", {"command": "echo '# done' >> pager.py"})
STORIES = {"weak": (LOOK, VAIN, SUBMIT), "strong": (LOOK, FIXED, SUBMIT)}


def act(handler: Any, body: dict[str, Any]) -> None:
    """Each model goes through its story, whoever began."""
    said = sum(entry["role"] == "assistant" for entry in body["messages"])
    server.answer(message("", STORIES[body["model"]][min(said, 2)]))(handler, body)


def settings(url: str, tests: str = "") -> str:
    shown = json.dumps([str(path) for path in python_paths()])
    models = "".join(f'[successors.{name}]\nbase_url = "{url}"\nmodel = "{name}"\nretries = 0\n' for name in STORIES)
    return f'{models}[tests."{REPO}"]\nprograms = {shown}\n{tests}'


def study(data: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(
        cli.app, ["study", *arguments, "--tasks=real", "--data", str(data)], env={"COLUMNS": "200"}
    )
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
def test_models_are_switched_on_a_real_task_and_judged_by_its_tests(tmp_path: Path, bubblewrap: None) -> None:
    """The weak model mends nothing and the strong one does; whoever has the strong one in it is solved."""
    with serving(then=act) as at:
        world = World(tmp_path, at.url)
        world.set()
        world.ingest()
        (world.data / "handoff.toml").write_text(settings(at.url))
        options = (
            "tax",
            "--low=weak",
            "--high=strong",
            "--timing=p50",
            "--interface=drop",
            "--interface=diff",
            "--yes",
        )
        study(world.data, *options, "--name=mine")
        asked = len(at.requests)
        project = Project(world.data)
        rows = project.lake.rows("tax_runs", study="mine")
        alone = {row["arm"]: row for row in rows if row["view"] == SINGLE}
        assert {arm: row["solved"] for arm, row in alone.items()} == {"weak": False, "strong": True}
        assert alone["strong"]["tests_passed"] == alone["strong"]["tests_total"] == 2
        switched = [row for row in rows if row["view"] != SINGLE]
        assert {(row["direction"], row["view"], row["h"], row["solved"]) for row in switched} == {
            (direction, view, 2, True) for direction in ("escalation", "downshift") for view in ("repo", "diff")
        }
        diffs = [body for body in at.requests if "Changes of the previous agent" in json.dumps(body["messages"])]
        assert diffs and all("diff --git a/pager.py" in json.dumps(body["messages"]) for body in diffs)
        cells = project.lake.rows("handoff_tax", study="mine")
        assert {(cell["qrec"], cell["tax"], cell["unit"]) for cell in cells} == {(1.0, 0.0, "tokens")}
        study(world.data, *options, "--name=mine")
        assert len(at.requests) == asked

        (world.data / "handoff.toml").write_text(settings(at.url, 'command = "false"\n'))
        study(world.data, *options, "--name=mine")
        assert len(at.requests) == asked, "judged anew, not run anew"
        cells = Project(world.data).lake.rows("handoff_tax", study="mine")
        assert all(cell["qrec"] is None and cell["n_runs"] == 0 and cell["unmatched"] == 1 for cell in cells)


@pytest.mark.slow
def test_views_are_compared_at_points_of_a_real_repository(tmp_path: Path, bubblewrap: None) -> None:
    with serving(then=act) as at:
        world = World(tmp_path, at.url)
        world.set()
        world.ingest()
        (world.data / "handoff.toml").write_text(settings(at.url))
        study(world.data, "debt", "--successor=strong", "--view=trace", "--yes", "--name=views")
        project = Project(world.data)
        rows = project.lake.rows("debt_runs", study="views")
        assert {row["view"] for row in rows} == {"repo", "trace"} and {row["solved"] for row in rows} == {True}
        solved = [
            row
            for row in project.lake.rows("handoff_debt", study="views")
            if (row["metric"], row["label"]) == ("solved", "all")
        ]
        assert [(row["value"], row["reference"], row["gained"], row["lost"]) for row in solved] == [(1.0, 1.0, 0, 0)]
        refused = CliRunner().invoke(cli.app, ["study", "debt", "--tasks=real", "--data", str(world.data)])
        assert refused.exit_code == 2 and "no policy 'A' was trained" in " ".join(refused.output.split())
        refused = CliRunner().invoke(
            cli.app, ["study", "debt", "--successor=expert", "--tasks=real", "--data", str(world.data)]
        )
        assert refused.exit_code == 2 and "acts in the embedded world only" in " ".join(refused.output.split())
