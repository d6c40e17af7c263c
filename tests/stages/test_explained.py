"""Runs whose task an instance file explains: where they began, and that nothing of the answers gets out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from handoff import cli
from handoff.git.repositories import Repository
from handoff.git.worktree import lay_out
from handoff.instances.answers import load_answers, with_tests
from handoff.project import Project
from handoff.stages.corpus import raw_trajectories, repository_states
from handoff.stages.handoffs import injected_handoffs, read_briefing, view_renderings
from handoff.stages.quality import quality_signals
from handoff.views import VIEWS
from tests.states.histories import Made, make

BEFORE, AFTER = b"one\n", b"two\n"
MARKS = {
    "patch": "--- a/pager.py\n+++ b/pager.py\n@@ -1 +1 @@\n-one\n+GOLDMARK\n",
    "test_patch": "--- /dev/null\n+++ b/test_pager.py\n@@ -0,0 +1 @@\n+TESTMARK\n",
    "FAIL_TO_PASS": ["test_pager.py::FAILMARK"],
    "PASS_TO_PASS": ["test_pager.py::PASSMARK"],
    "hints_text": "HINTMARK",
    "problem_statement": "PROBLEMMARK",
}
WORDS = ("GOLDMARK", "TESTMARK", "FAILMARK", "PASSMARK", "HINTMARK", "PROBLEMMARK")


def chat(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A run that edits and then shows the file."""
    commands = (("sed -i 's/one/two/' pager.py", ""), ("cat pager.py", "two\n"), (f"echo {number}", f"{number}\n"))
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the pager."}]
    for n, (command, said) in enumerate(commands):
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        messages.append({"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": said})
    return {"messages": messages, **fields}


class World:
    """A project, a repository ``acme/pager`` with a base and a later commit, and a file of instances."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder / "data")
        self.source = folder / "acme.git"
        files = ({b"pager.py": ("100644", BEFORE)}, {b"pager.py": ("100644", AFTER)})
        self.base, self.later = make(self.source, [Made(change) for change in files], {"main": 1})
        self.instances = folder / "instances.jsonl"
        self.runs = folder / "runs.jsonl"

    def explain(self, *rows: Mapping[str, Any]) -> None:
        default = {"instance_id": "acme__pager-1", "repo": "acme/pager", "base_commit": self.base, **MARKS}
        self.instances.write_text("".join(json.dumps({**default, **row}) + "\n" for row in rows or ({},)))

    def read(self, *rows: Mapping[str, Any], repo: str | None = None) -> list[dict[str, Any]]:
        self.runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
        mapping = {"acme/pager": str(self.source)}
        explained = (str(self.instances),) if self.instances.exists() else ()
        self.project.add_shard("a", (str(self.runs),), mapping, explained, repo)
        raw_trajectories(self.project, "a")
        repository_states(self.project, "a")
        return self.project.lake.rows("state_verdicts", shard="a")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_run_that_names_no_commit_begins_where_its_instance_says(world: World) -> None:
    world.explain()
    (verdict,) = world.read(chat(instance_id="acme__pager-1"))
    assert (verdict["status"], verdict["base"], verdict["repo"]) == ("verified", world.base, "acme/pager")
    assert verdict["base_evidence"] == "named by instance acme__pager-1 of instances.jsonl"


def test_a_short_commit_is_the_whole_one(world: World) -> None:
    world.explain({"base_commit": world.base[:9]})
    (verdict,) = world.read(chat(instance_id="acme__pager-1"))
    assert (verdict["status"], verdict["base"]) == ("verified", world.base)


def test_a_planted_bug_is_begun_at_its_branch(world: World, tmp_path: Path) -> None:
    """SWE-smith: a run's id names the original, its instance the copy, where each instance is a branch of its own."""
    name = "acme__pager.1fd52536.combine_file__0fceycuu"
    copy = tmp_path / "copy.git"
    (_, planted) = make(copy, [Made({b"pager.py": ("100644", text)}) for text in (AFTER, BEFORE)], {"main": 0, name: 1})
    world.explain({"instance_id": name, "repo": "swesmith/acme__pager.1fd52536", "base_commit": None})
    mapping = {"acme/pager": str(world.source), "swesmith/acme__pager.1fd52536": str(copy)}
    world.runs.write_text(json.dumps(chat(instance_id=name)))
    world.project.add_shard("a", (str(world.runs),), mapping, (str(world.instances),))
    raw_trajectories(world.project, "a")
    assert world.project.lake.rows("raw_trajectories")[0]["repo"] == "acme/pager"
    repository_states(world.project, "a")
    (verdict,) = world.project.lake.rows("state_verdicts", shard="a")
    assert (verdict["status"], verdict["base"], verdict["repo"]) == (
        "verified",
        planted,
        "swesmith/acme__pager.1fd52536",
    )
    assert verdict["base_evidence"] == f"the branch of instance {name} of instances.jsonl"


def test_without_instances_the_same_run_has_no_base(world: World) -> None:
    (verdict,) = world.read(chat(instance_id="acme__pager-1"))
    assert (verdict["status"], verdict["base"]) == ("unverifiable", None)


def test_an_instance_names_the_repository_of_a_task_whose_id_does_not(world: World) -> None:
    """And points carry the repository and commit of the states, so that a successor can be started from them."""
    world.explain({"instance_id": "task 17"})
    (verdict,) = world.read(chat(instance_id="task 17"))
    assert (verdict["status"], verdict["repo"]) == ("verified", "acme/pager")
    quality_signals(world.project, "a")
    injected_handoffs(world.project, "a")
    points = world.project.lake.rows("injected_handoffs")
    assert points and {(p["repo"], p["base_commit"]) for p in points} == {("acme/pager", world.base)}
    assert all(p["tree"] for p in points)


def test_the_recording_is_believed_and_the_contradiction_stated(world: World) -> None:
    world.explain({"base_commit": world.later})
    (verdict,) = world.read(chat(instance_id="acme__pager-1", base_commit=world.base))
    assert (verdict["status"], verdict["base"]) == ("verified", world.base)
    assert f"begins at {world.later[:12]}, the recording at {world.base[:12]}" in verdict["base_evidence"]


def test_an_instance_helps_where_the_recorded_commit_cannot_be_had(world: World) -> None:
    """As with images whose checkout was committed anew: nobody else has that commit."""
    world.explain()
    (verdict,) = world.read(chat(instance_id="acme__pager-1", base_commit="0" * 39 + "1"))
    assert (verdict["status"], verdict["base"]) == ("verified", world.base)
    assert (
        "named by instance" in verdict["base_evidence"] and "the recording at 000000000000" in verdict["base_evidence"]
    )


def test_an_instance_of_another_repository_gives_no_base(world: World) -> None:
    world.explain({"repo": "acme/other"})
    (verdict,) = world.read(chat(instance_id="acme__pager-1"))
    assert verdict["base"] is None


def test_a_user_may_say_where_runs_without_a_repository_worked(world: World) -> None:
    (verdict,) = world.read(chat(base_commit=world.base), repo="Acme/Pager")
    assert (verdict["status"], verdict["base"]) == ("verified", world.base)
    assert "repository named by the user" in verdict["base_evidence"]


def test_a_changed_instance_file_is_read_again(world: World) -> None:
    world.explain({"base_commit": "main"})
    (before,) = world.read(chat(instance_id="acme__pager-1"))
    assert before["category"] == "no_base"
    assert not repository_states(world.project, "a").is_new
    world.explain()
    assert repository_states(world.project, "a").is_new
    (after,) = world.project.lake.rows("state_verdicts", shard="a")
    assert after["status"] == "verified"


def test_instances_of_the_settings_explain_every_shard(world: World) -> None:
    world.explain()
    world.project.root.mkdir(parents=True)
    (world.project.root / "handoff.toml").write_text('instances = ["../instances.jsonl"]\n')
    world.project = Project(world.project.root)
    world.runs.write_text(json.dumps(chat(instance_id="acme__pager-1")))
    world.project.add_shard("b", (str(world.runs),), {"acme/pager": str(world.source)})
    raw_trajectories(world.project, "b")
    repository_states(world.project, "b")
    assert world.project.lake.rows("state_verdicts", shard="b")[0]["base"] == world.base


def test_ingest_says_how_many_runs_are_explained(world: World) -> None:
    world.explain({}, {"instance_id": "acme__pager-2", "repo": 7}, *({"instance_id": n} for n in range(20)))
    world.runs.write_text("".join(json.dumps(chat(n, instance_id=f"acme__pager-{n}")) + "\n" for n in (1, 2)))
    arguments = ("ingest", world.runs, "--instances", world.instances, "--repository", f"acme/pager={world.source}")
    result = CliRunner().invoke(
        cli.app, [str(a) for a in (*arguments, "--data", world.project.root)], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "instances: known for 1 of 2 runs; 21 rows not used" in said and "$.repo" in said
    assert "more characters" not in said and "… 9 more" in said  # every remedy whole, the rest counted
    missing = CliRunner().invoke(cli.app, ["ingest", str(world.runs), "--instances", "no.jsonl", "--data", "x"])
    assert missing.exit_code == 2 and "no such file" in missing.output


# -- the leak boundary ----------------------------------------------------------------------------


def text_of(path: Path) -> str:
    """All text of a file, whatever holds it."""
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=str)
    return path.read_bytes().decode("utf-8", "replace")


def test_nothing_of_an_answer_leaves_the_sealed_folder(world: World, tmp_path: Path) -> None:
    """No table, view, briefing, work tree or git object holds a word of patches, tests, hints; the judge has them."""
    world.explain()
    world.read(chat(instance_id="acme__pager-1"))
    project = world.project
    quality_signals(project, "a")
    injected_handoffs(project, "a")
    view_renderings(project, "a")
    answer = load_answers(project.sealed, "a")["acme__pager-1"]
    assert (
        "GOLDMARK" in answer.patch and "TESTMARK" in answer.test_patch and answer.fail_to_pass and answer.pass_to_pass
    )
    with project.repositories("a") as repositories:
        repository = repositories.open("acme/pager")
        tree = project.lake.rows("repository_states", shard="a")[-1]["tree"]
        with with_tests(project.sealed, repository, world.base, tree, answer).repository:
            pass
        with lay_out(repository, world.base, tree, tmp_path / "wt") as laid:
            laid_out = "".join(text_of(file) for file in laid.path.rglob("*") if file.is_file())
        objects = _objects(repository)
    briefings = ""
    for point in project.lake.rows("injected_handoffs"):
        for view in (*VIEWS, "window:1", "diff", "diet", "compact_pre"):
            briefings += " ".join(m.text for m in read_briefing(project, point["point_id"], view).messages())
    files = [f for f in project.root.rglob("*") if f.is_file() and not f.is_relative_to(project.sealed)]
    everything = "".join(map(text_of, files)) + laid_out + objects + briefings
    assert len(files) > 10 and "two" in briefings
    assert [word for word in WORDS if word in everything] == []
    sealed = "".join(text_of(f) for f in (project.sealed / "instances").rglob("*") if f.is_file())
    assert all(word in sealed for word in ("GOLDMARK", "TESTMARK", "FAILMARK", "PASSMARK"))
    assert "HINTMARK" not in sealed and "PROBLEMMARK" not in sealed


def _objects(repository: Repository) -> str:
    """The text of every object of a mirror, unpacked."""
    ids = repository.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return repository.git("cat-file", "--batch", stdin=ids).decode("utf-8", "replace")
