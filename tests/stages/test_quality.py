"""Quality tables of a shard, and what a leak does to all that comes after it (``docs/science.md §14``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from handoff import cli
from handoff.curation import Episode
from handoff.lake import SCHEMAS
from handoff.project import Project
from handoff.samples import Origin
from handoff.stages import corpus, handoffs, quality
from handoff.stages.curation import known_history
from handoff.successors import Briefing
from handoff.trajectory import Step
from tests.quality.build import bash

BASE = "b45e1230" + "0" * 32
LOOK = ("git log --all --oneline", "f00dfee fix off-by-one in pager\nb45e123 base")
STEPS = (
    ("cat src/pager.py", "x = 1"),
    ("python -m pytest", "1 failed in 0.1s"),
    ("sed -i 's/1/2/' src/pager.py", ""),
    ("python -m pytest", "1 passed in 0.1s"),
)


def record(number: int, *steps: tuple[str, str]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Fix pager {number}."}]
    for n, (command, answer) in enumerate(steps):
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        messages.append({"role": "assistant", "content": f"Step {n} of {number}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": answer})
    return {
        "instance_id": f"o__pager-{number}",
        "repo": "o/pager",
        "base_commit": BASE,
        "resolved": True,
        "messages": messages,
    }


def ingest(folder: Path, *records: dict[str, Any]) -> Project:
    file = folder / "a.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in records))
    project = Project(folder / "data")
    project.add_shard("a", (str(file),), {})
    corpus.raw_trajectories(project, "a")
    corpus.repository_states(project, "a")
    return project


def test_both_tables_are_written_and_a_second_run_writes_nothing(tmp_path: Path) -> None:
    project = ingest(tmp_path, record(1, *STEPS), record(2, *STEPS[:2], STEPS[1]))
    written = quality.quality_signals(project, "a")
    assert written.is_new
    signals, runs = project.lake.rows("quality_signals"), project.lake.rows("run_quality")
    ids = [row["trajectory_id"] for row in project.lake.rows("raw_trajectories")]
    assert [row["trajectory_id"] for row in runs] == ids
    assert {row["signal"] for row in signals if row["trajectory_id"] == ids[1]} >= {"redundant", "response_ignored"}
    assert all(1 <= row["step"] <= 4 and row["reason"] for row in signals)
    assert list(runs[0]) == [*SCHEMAS["run_quality"].names, "shard"]
    again = quality.quality_signals(project, "a")
    assert (again.is_new, again.digest) == (False, written.digest)


def test_a_leaked_run_has_points_only_before_its_leak_and_its_success_counts_for_nothing(tmp_path: Path) -> None:
    """CASES S7: flagged as leaked, its outcome is not used, and no view can hold the fix."""
    clean, leaked = record(1, *STEPS), record(2, *STEPS[:3], LOOK, *STEPS[2:])
    project = ingest(tmp_path, clean, leaked)
    quality.quality_signals(project, "a")
    handoffs.injected_handoffs(project, "a")
    handoffs.view_renderings(project, "a")
    runs = {row["trajectory_id"]: row["leak_step"] for row in project.lake.rows("run_quality")}
    points = project.lake.rows("injected_handoffs")
    assert sorted(runs.values(), key=str) == [4, None]
    good = [p for p in points if runs[p["trajectory_id"]] is None]
    bad = [p for p in points if runs[p["trajectory_id"]] is not None]
    assert good and bad
    assert all(p["gold"] is not None and p["plan"] for p in good)
    assert all(p["h"] < 4 and p["gold"] is None and p["plan"] is None and not p["nodes"] for p in bad)
    for point in points:
        briefing = handoffs.read_briefing(project, point["point_id"], "trace")
        assert "off-by-one" not in "".join(message.text for message in briefing.messages())


def test_the_command_line_tells_signals_leaks_and_failures_in_plain_words(tmp_path: Path) -> None:
    failed = {**record(1, STEPS[0], LOOK, STEPS[0]), "resolved": False}
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(failed) + "\n")
    shown = CliRunner().invoke(cli.app, ["inspect", str(file)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.stdout.split())
    assert "redundant: same_read 3 read src/pager.py: step 1 had shown the same" in said
    assert "answers: 1 of 2 heeded" in said
    assert "leaked, step 2: git log --all --oneline: it shows commits beyond HEAD: f00dfee" in said
    assert "failed by instruction, steps 3: the run ends without having changed a file" in said
    read = CliRunner().invoke(cli.app, ["ingest", str(file), "--data", str(tmp_path / "data")], env={"COLUMNS": "200"})
    said = " ".join(read.stdout.split())
    assert "leaked: 1 run looked beyond the base commit" in said
    assert "failed: 1 run (instruction 1)" in said


def test_a_takeover_is_held_to_the_same_rules_as_the_run_it_went_on_from() -> None:
    point = {"point_id": "p_1", "trajectory_id": "t_1", "task_id": None, "repo": "o/pager", "base_commit": BASE}

    def why(leak_step: int | None, *steps: Step) -> str | None:
        briefing = Briefing(task="Fix it.", view="repo", view_text="", preamble="", tools="[]")
        episode = Episode(
            origin=Origin(trajectory_id="t_1", point_id="p_1", view_id="v_1", view="repo", h=1, split="train"),
            briefing=briefing,
            steps=steps,
            solved=True,
        )
        leak = None if leak_step is None else "saw: git log --all"
        return known_history({"t_1": {"leak_step": leak_step, "leak": leak}}, point, episode)

    assert why(None, bash("git log", "b45e123 base")) is None
    assert why(3, bash("ls")) == "the recorded run, step 3: saw: git log --all"
    own = why(None, bash("ls"), bash(*LOOK))
    assert own is not None and own.startswith("the takeover, step 2: saw: git log --all --oneline: it shows commits")
