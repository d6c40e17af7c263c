"""Recordings that begin with another one: linked, kept, counted once (S6, T6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handoff import corpus
from handoff.corpus.links import Links, chain_of
from handoff.lake import Lake
from handoff.trajectory import Action, Observation, Step, Trajectory


def step(number: int, seen: str = "ok") -> Step:
    return Step(
        text=f"say {number}",
        actions=(Action(tool="bash", arguments=f"ls {number}", is_text=True),),
        observations=(Observation(text=seen),),
    )


def run(*numbers: int, task: str = "Fix it.", last: str = "ok") -> Trajectory:
    steps = [step(n) for n in numbers[:-1]] + [step(numbers[-1], last)]
    return Trajectory(format="chat", task=task, steps=tuple(steps))


def linked(*runs: Trajectory) -> list[tuple[int, int] | None]:
    links = Links()
    for one in runs:
        links.add(chain_of(one))
    return links.resolve()


A, B = run(*range(40)), run(*range(46))


@pytest.mark.parametrize("runs", [(A, B), (B, A)])
def test_a_resumed_run_is_linked_to_what_it_repeats_whatever_comes_first(runs: tuple[Trajectory, ...]) -> None:
    found = linked(*runs)
    long, short = runs.index(B), runs.index(A)
    assert found[long] == (short, 40)
    assert found[short] is None


def test_the_longest_of_several_nested_recordings_counts() -> None:
    assert linked(run(1, 2), run(1, 2, 3, 4), run(1, 2, 3, 4, 5)) == [None, (0, 2), (1, 4)]


def test_a_recording_that_stopped_before_its_last_result_is_still_the_same_run() -> None:
    assert linked(run(1, 2, 3, last=""), run(1, 2, 3, 4))[1] == (0, 3)


def test_runs_that_only_look_alike_are_no_repeats() -> None:
    assert linked(run(1), run(1, 2, 3)) == [None, None]  # one equal step is no evidence
    assert linked(run(1, 2, 3), run(1, 2, 4, 5)) == [None, None]  # neither begins with the whole of the other
    assert linked(run(1, 2), run(1, 2, 3, task="Another.")) == [None, None]
    assert linked(run(1, 2, 3), run(0, 1, 2, 3)) == [None, None]


def test_two_recordings_of_all_the_same_steps_are_linked_one_way() -> None:
    assert linked(run(1, 2, 3, last="a"), run(1, 2, 3, last="b")) == [None, (0, 3)]


def row(count: int) -> str:
    messages = [{"role": "user", "content": "Fix it."}]
    for number in range(count):
        call = {"id": f"c{number}", "function": {"name": "bash", "arguments": json.dumps({"command": f"ls {number}"})}}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": str(number)},
        ]
    return json.dumps({"messages": messages})


def test_the_table_names_the_run_that_another_begins_with(tmp_path: Path) -> None:
    for name, count in (("a", 46), ("b", 40)):
        (tmp_path / f"{name}.jsonl").write_text(row(count) + "\n")
    lake = Lake(tmp_path / "lake")
    report = corpus.ingest(lake, "s", [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], inputs="i")
    long, short = lake.rows("raw_trajectories", shard="s")
    assert (long["repeats"], long["repeated_steps"]) == (short["trajectory_id"], 40)
    assert (short["repeats"], short["repeated_steps"]) == (None, 0)
    assert (report.trajectories, report.continued, report.duplicates) == (2, 1, 0)


def test_a_resumed_run_has_points_only_in_its_new_part(tmp_path: Path) -> None:
    """The repeated part is the other run's, and has its points there: no handoff is counted twice."""
    from handoff.project import Project
    from handoff.stages import corpus as stage
    from handoff.stages import handoffs

    def edits(count: int) -> str:
        value = json.loads(row(count))
        for number, message in enumerate(m for m in value["messages"] if m["role"] == "assistant"):
            command = f"sed -i 's/a/b/g' src/m{number}.py" if number % 2 else f"python -m pytest tests/t{number}.py"
            message["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": command})
        return json.dumps(value)

    (tmp_path / "rows.jsonl").write_text(edits(9) + "\n" + edits(14) + "\n")
    project = Project(tmp_path / "data")
    project.add_shard("s", (str(tmp_path / "rows.jsonl"),), {})
    stage.raw_trajectories(project, "s")
    stage.repository_states(project, "s")
    handoffs.injected_handoffs(project, "s")
    short, long = project.lake.rows("raw_trajectories", shard="s")
    assert long["repeats"] == short["trajectory_id"]
    points = project.lake.rows("injected_handoffs", ["trajectory_id", "h"], shard="s")
    assert {p["h"] < 9 for p in points if p["trajectory_id"] == short["trajectory_id"]} == {True}
    assert {p["h"] >= 9 for p in points if p["trajectory_id"] == long["trajectory_id"]} == {True}
