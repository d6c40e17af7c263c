"""A run and its subagents: one tree, one history of states."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from handoff.git.objects import object_id
from handoff.git.repositories import Repository
from handoff.states.family import merged
from handoff.states.replay import replay
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

NEW = "def page(items, size):\n    return items[:size]\n"


def did(tool: str, call: str, said: str = "done", time: str | None = None, **arguments: Any) -> Step:
    return Step(
        actions=(Action(call_id=call, tool=tool, arguments=json.dumps(arguments)),),
        observations=(Observation(call_id=call, text=said),),
        timestamp=time,
    )


def run(*steps: Step, session: str, parent: str | None = None, ended: Any = None, **facts: Any) -> Trajectory:
    return Trajectory(
        format="claude_code",
        task="Fix the pager.",
        steps=steps,
        session=session,
        parent=parent,
        outcome=Outcome(ended=ended),
        source=json.dumps({"cwd": "/src/r", **facts}),
    )


def calls(trajectory: Trajectory) -> list[list[str | None]]:
    return [[action.call_id for action in step.actions] for step in trajectory.steps]


def told(trajectory: Trajectory) -> list[list[str]]:
    return [[seen.text for seen in step.observations] for step in trajectory.steps]


CHILD = run(
    did("Bash", "r1", "what it read", time="2026-01-01T00:00:02Z", command="ls"),
    did("Write", "w1", "what it wrote", time="2026-01-01T00:00:03Z", file_path="/src/r/src/pager.py", content=NEW),
    session="a1",
    parent="s1",
    call="t1",
    after={"w1": object_id("blob", NEW.replace("\t", "  ").encode())},
)


def parent_of(*more: Step) -> Trajectory:
    return run(
        did("Task", "t1", "It is mended.", time="2026-01-01T00:00:01Z", prompt="Mend it."),
        did("Bash", "b1", "ok", time="2026-01-01T00:00:05Z", command="pytest"),
        *more,
        session="s1",
        before={"x": "y"},
    )


def test_a_subagents_calls_stand_for_the_call_that_started_it() -> None:
    whole = merged(parent_of(), [CHILD])
    assert calls(whole) == [["r1", "w1"], ["b1"]]
    assert told(whole) == [["what it read", "what it wrote"], ["ok"]]
    assert json.loads(whole.source) == {
        "cwd": "/src/r",
        "before": {"x": "y"},
        "after": json.loads(CHILD.source)["after"],
    }


def test_runs_of_others_are_left_out() -> None:
    parent = parent_of()
    other = msgspec.structs.replace(CHILD, parent="s2")
    uncalled = msgspec.structs.replace(CHILD, source=json.dumps({"call": "t9"}))
    assert merged(parent, [other, uncalled]) is parent
    assert merged(parent, []) is parent


def test_what_a_subagent_did_later_stands_where_it_was_done() -> None:
    """One that works in the background goes on while its parent does."""
    late = did("Bash", "b2", "late", time="2026-01-01T00:00:06Z", command="touch x")
    child = msgspec.structs.replace(CHILD, steps=(*CHILD.steps, late))
    last = did("Bash", "b3", "end", time="2026-01-01T00:00:09Z", command="ls")
    assert calls(merged(parent_of(last), [child])) == [["r1", "w1"], ["b1", "b2"], ["b3"]]


def test_two_subagents_at_once_take_turns_by_time() -> None:
    both = Step(
        actions=tuple(Action(call_id=call, tool="Task", arguments="{}") for call in ("t1", "t2")),
        observations=tuple(Observation(call_id=call, text="done") for call in ("t1", "t2")),
        timestamp="2026-01-01T00:00:01Z",
    )
    second = run(
        did("Bash", "m1", time="2026-01-01T00:00:02.500Z", command="cd src && ls"), session="a2", parent="s1", call="t2"
    )
    whole = merged(run(both, session="s1"), [CHILD, second])
    assert calls(whole) == [["r1", "m1", "w1"]]
    assert json.loads(whole.steps[0].actions[1].arguments)["command"] == "(cd src && ls\n)"


def test_a_subagent_whose_recording_breaks_off_may_have_done_more() -> None:
    broken = msgspec.structs.replace(CHILD, outcome=Outcome(ended="cut_off"))
    assert calls(merged(parent_of(), [broken])) == [["t1", "r1", "w1"], ["b1"]]


def test_a_subagent_of_a_subagent_is_found() -> None:
    inner = run(did("Bash", "i1", command="ls"), session="a2", parent="s1", call="t2")
    outer = run(did("Task", "t2", prompt="Look."), session="a1", parent="s1", call="t1")
    assert calls(merged(parent_of(), [outer, inner])) == [["i1"], ["b1"]]
    looped = msgspec.structs.replace(inner, steps=(did("Task", "t2"),))
    assert calls(merged(parent_of(), [outer, looped]))[1] == ["b1"]


def test_the_parents_states_hold_what_its_subagent_wrote(repository: Repository, base: str) -> None:
    whole = merged(parent_of(), [CHILD])
    found = replay(whole, "t_1", repository, base)
    assert found.status == "verified"
    assert repository.read(found.trees[1] or "", "src/pager.py") == NEW.encode()
    alone = replay(parent_of(), "t_2", repository, base)
    assert alone.trees[1] == repository.tree_of(base)
    assert alone.status != "verified"
