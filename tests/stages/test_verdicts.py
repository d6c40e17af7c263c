"""A shard's verdicts and its facts about the world outside: one for every run, whatever it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from handoff import corpus
from handoff.environment import environment, from_rows
from handoff.project import Project
from handoff.stages.corpus import add_branches, descendants, raw_trajectories, repository_states
from handoff.stages.environment import environment_facts
from tests.states.histories import Made, make


def chat(*commands: str, **fields: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix it."}]
    for n, command in enumerate(commands):
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        messages.append({"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "Successfully installed left-1.0"})
    return {"messages": messages, **fields}


def read(project: Project, shard: str, *rows: dict[str, Any], repositories: dict[str, str] | None = None) -> None:
    file = project.root / f"{shard}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    project.add_shard(shard, (str(file),), repositories or {})
    raw_trajectories(project, shard)
    repository_states(project, shard)
    environment_facts(project, shard)


def test_every_run_has_one_verdict_whatever_it_lacks(tmp_path: Path) -> None:
    """No repository, a repository that is not there, no base commit; in the order of the runs."""
    project = Project(tmp_path / "data")
    make(tmp_path / "acme", [Made({b"a.py": ("100644", b"1\n")})], {"main": 0})
    rows = [chat("ls"), chat("ls -a", repo="not/there"), chat("ls -l", repo="acme/pager", base_commit="0" * 40)]
    read(project, "a", *rows, repositories={"acme/pager": str(tmp_path / "acme")})
    heads = project.lake.rows("raw_trajectories", ["trajectory_id", "repo", "n_steps"])
    verdicts = project.lake.rows("state_verdicts")
    assert [row["trajectory_id"] for row in verdicts] == [head["trajectory_id"] for head in heads]
    assert [row["status"] for row in verdicts] == ["unverifiable"] * 3
    assert {row["category"] for row in verdicts[:2]} == {"no_repository"}
    assert verdicts[2]["category"] in ("no_base", "no_repository")
    assert [row["unverifiable_steps"] for row in verdicts] == [head["n_steps"] + 1 for head in heads]
    assert all(row["reason"] for row in verdicts)


def test_a_branch_has_its_verdict_too(tmp_path: Path) -> None:
    project = Project(tmp_path / "data")
    commits = [Made({b"a.py": ("100644", str(n).encode())}) for n in range(4)]
    make(tmp_path / "acme", commits, {"main": 0, "work": 3})
    add_branches(project, "b", tmp_path / "acme", ["work"], repo="acme/pager")
    raw_trajectories(project, "b")
    repository_states(project, "b")
    (verdict,) = project.lake.rows("state_verdicts")
    assert (verdict["status"], verdict["category"], verdict["verified_steps"]) == ("verified", "verified", 4)
    assert verdict["is_derivable"]


def test_counts_of_a_verdict_are_those_of_its_states(tmp_path: Path) -> None:
    """The two tables are written together and never disagree."""
    project = Project(tmp_path / "data")
    (commit,) = make(tmp_path / "acme", [Made({b"a.py": ("100644", b"1\n")})], {"main": 0})
    mapped = {"acme/pager": str(tmp_path / "acme")}
    read(project, "a", chat("echo 2 > a.py", "make gen", repo="acme/pager", base_commit=commit), repositories=mapped)
    states = project.lake.rows("repository_states")
    for verdict in project.lake.rows("state_verdicts"):
        own = [row["status"] for row in states if row["trajectory_id"] == verdict["trajectory_id"]]
        for status in ("verified", "partial", "divergent", "unverifiable"):
            assert verdict[f"{status}_steps"] == own.count(status)
    before = project.lake.digest("state_verdicts", shard="a")
    assert not repository_states(project, "a").is_new
    assert project.lake.digest("state_verdicts", shard="a") == before


def test_facts_of_a_shard_are_those_of_its_runs(tmp_path: Path) -> None:
    project = Project(tmp_path / "data")
    read(project, "a", chat("pip install left", "touch /tmp/x"), chat("export A=1"))
    rows = project.lake.rows("environment_facts")
    for id_, trajectory in corpus.trajectories(project.lake, "a"):
        own = [row for row in rows if row["trajectory_id"] == id_]
        assert from_rows(own, len(trajectory.steps)) == environment(trajectory)
    assert {row["name"] for row in rows} >= {"pip left", "A"}
    assert not environment_facts(project, "a").is_new


def test_a_subagents_edits_are_part_of_the_run_that_started_it(tmp_path: Path) -> None:
    """It has a verdict that says so, and no states of its own; the parent's steps hold what it did."""
    project = Project(tmp_path / "data")
    make(tmp_path / "acme", [Made({b"a.py": ("100644", b"1\n")})], {"main": 0})
    file = Path(__file__).parent.parent / "fixtures" / "claude_code" / "inline_subagents.jsonl"
    project.add_shard("a", (str(file),), {"acme/pager": str(tmp_path / "acme")}, repo="acme/pager")
    raw_trajectories(project, "a")
    repository_states(project, "a")
    heads = {head["trajectory_id"]: head for head in project.lake.rows("raw_trajectories")}
    verdicts = {row["trajectory_id"]: row for row in project.lake.rows("state_verdicts")}
    children = [id_ for id_, head in heads.items() if head["parent"]]
    assert len(children) == 2
    for id_ in children:
        assert verdicts[id_]["category"] == "subagent"
        assert heads[id_]["parent"] in verdicts[id_]["reason"]
    assert all(verdicts[id_]["category"] != "subagent" for id_ in heads.keys() - set(children))


def test_runs_of_subagents_in_turn_belong_to_every_run_above_them() -> None:
    """A run that names itself, or two that name each other, end nowhere."""
    runs = {
        "p": ("s0", None),
        "c": ("s1", "s0"),
        "g": ("s2", "s1"),
        "x": ("s9", "s9"),
        "y": ("y1", "y2"),
        "z": ("y2", "y1"),
    }
    assert descendants(runs) == {"s0": ["c", "g"], "s1": ["g"], "y1": ["y", "z"], "y2": ["y", "z"]}
