"""The rest of recorded runs as samples: gates, views, and nothing that passes for a takeover."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.project import Project
from handoff.samples import read_sample, text_of, trainable_spans
from handoff.stages import corpus, handoffs, quality
from handoff.stages.curation import curated_training_set
from handoff.stages.exports import exports
from handoff.stages.recorded import recorded_samples


def row(name: str, resolved: bool | None, *, unknown: str = "src/pager.py") -> dict[str, Any]:
    """A run that reads, edits, tests, looks again and submits."""
    talk: list[dict[str, Any]] = [
        {"role": "system", "content": "You work in a shell. End with submit_now."},
        {"role": "user", "content": f"Fix the pager of {name}."},
    ]
    lines = [
        ("ls src", "pager.py"),
        ("cat src/pager.py", "size = 1"),
        ("sed -i 's/size = 1/size = 2/' src/pager.py", ""),
        ("python -m pytest tests", "FAILED tests/test_pager.py::test_two - assert 2 == 3\n1 failed, 3 passed in 0.1s"),
        (f"sed -i 's/size = 2/size = 3/' {unknown}", ""),
        ("python -m pytest tests", "4 passed in 0.1s"),
        ("submit_now", ""),
    ]
    for number, (line, answer) in enumerate(lines):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": line})},
        }
        talk.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        talk.append({"role": "tool", "tool_call_id": f"c{number}", "content": answer})
    return {
        "instance_id": f"acme__pager-{name}",
        "repo": f"acme/pager-{name}",
        "messages": talk,
        **({} if resolved is None else {"resolved": resolved}),
    }


def ingested(tmp_path: Path, *rows: dict[str, Any], settings: str = "") -> Project:
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    data = tmp_path / "data"
    data.mkdir()
    (data / "handoff.toml").write_text(settings)
    project = Project(data)
    project.add_shard("runs", (str(file),), {})
    corpus.raw_trajectories(project, "runs")
    corpus.repository_states(project, "runs")
    quality.quality_signals(project, "runs")
    handoffs.injected_handoffs(project, "runs")
    handoffs.view_renderings(project, "runs")
    return project


def funnel(project: Project) -> set[tuple[str, str]]:
    return {(one["gate"], one["verdict"]) for one in project.lake.rows("recorded_funnel", shard="runs")}


RUNS = [row(str(number), True) for number in range(8)]


def test_the_rest_of_a_solved_run_is_learned_and_nothing_before_it(tmp_path: Path) -> None:
    project = ingested(tmp_path, *RUNS)
    assert recorded_samples(project, "runs").rows > 0
    rows = project.lake.rows("recorded_samples", shard="runs")
    assert {one["basis"] for one in rows} == {"recorded"} and {one["split"] for one in rows} <= {"train", "validation"}
    assert all(one["takeover_id"] is None for one in rows)
    demonstrations = [read_sample(one["sample"]) for one in rows if one["kind"] == "sft"]
    assert {sample.origin.view for sample in demonstrations} > {"trace"}
    for sample in demonstrations:
        learned = [text_of(sample, span) for span in trainable_spans(sample) if span.field == "content"]
        assert learned == [f"Step {number}." for number in range(sample.origin.h, 7)]
        assert [m.role for m in sample.messages[:2]] == ["system", "user"]
        assert json.loads(sample.tools)[0]["function"]["name"] == "bash"  # no run declares it
        assert sample.reward.value == 1.0 and sample.origin.provenance == "recorded"


def test_it_is_made_once_and_again_the_same(tmp_path: Path) -> None:
    project = ingested(tmp_path, *RUNS[:3])
    first = recorded_samples(project, "runs")
    assert first.is_new and not recorded_samples(project, "runs").is_new
    project.lake.path("recorded_funnel", shard="runs").unlink()  # killed between the two tables
    again = recorded_samples(project, "runs")
    assert again.is_new and again.digest == first.digest


def test_failed_and_unjudged_runs_are_left_out_and_said_so(tmp_path: Path) -> None:
    project = ingested(tmp_path, row("a", False), row("b", None))
    assert recorded_samples(project, "runs").rows == 0
    assert funnel(project) == {("outcome", "dropped")}


def test_a_user_can_admit_unjudged_runs_and_never_failed_ones(tmp_path: Path) -> None:
    runs = [row(str(number), None) for number in range(8)]
    project = ingested(tmp_path, *runs, row("bad", False), settings="[recorded]\nunjudged = true\n")
    recorded_samples(project, "runs")
    rows = project.lake.rows("recorded_samples", shard="runs")
    assert rows and all(one["reward"] is None for one in rows)
    assert "acme__pager-bad" not in {one["task_id"] for one in rows}


def test_an_action_that_could_not_be_known_moves_the_sample_or_drops_it(tmp_path: Path) -> None:
    project = ingested(tmp_path, *(row(str(n), True, unknown="src/never_seen_anywhere.py") for n in range(8)))
    recorded_samples(project, "runs")
    assert ("groundedness", "dropped") in funnel(project)
    rows = project.lake.rows("recorded_samples", shard="runs")
    assert all(json.loads(one["sample"])["origin"]["h"] >= 5 for one in rows)  # behind the guess


@pytest.mark.parametrize(("settings", "most"), [("per_run = 0", 0), ("per_run = 1", 8), ("per_task = 1", 8)])
def test_points_of_a_run_and_runs_of_a_task_are_capped(tmp_path: Path, settings: str, most: int) -> None:
    project = ingested(tmp_path, *RUNS, settings=f"[recorded]\n{settings}\n")
    recorded_samples(project, "runs")
    rows = project.lake.rows("recorded_samples", shard="runs")
    assert sum(one["kind"] == "sft" for one in rows) <= most
    assert (most == 0) == (not rows)


def test_every_export_holds_them_in_files_of_their_own(tmp_path: Path) -> None:
    project = ingested(tmp_path, *RUNS)
    recorded_samples(project, "runs")
    curated_training_set(project, "r000")
    exports(project, "r000")
    files = {one["path"]: one for one in project.lake.rows("exports", round="r000") if one["format"] == "trl"}
    assert files and all("recorded" in path for path in files)
    (demonstrations,) = (one for path, one in files.items() if "sft-recorded-train" in path)
    (line, *_) = (project.exports / demonstrations["path"]).read_text().splitlines()
    assert [m["role"] for m in json.loads(line)["prompt"]] == ["system", "user"]
