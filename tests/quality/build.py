"""Small recordings, written down call by call."""

from __future__ import annotations

import json

from handoff.trajectory import Action, Boundary, Message, Observation, Outcome, Step, Trajectory


def bash(line: str, text: str = "", code: int | None = 0, boundary: Boundary | None = None) -> Step:
    """One shell line with its answer."""
    action = Action(tool="bash", arguments=json.dumps({"command": line}))
    return Step(actions=(action,), observations=(Observation(text=text, exit_code=code),), boundary=boundary)


def call(tool: str, answer: str = "ok", **arguments: object) -> Step:
    """One structured call with its answer."""
    action = Action(tool=tool, arguments=json.dumps(arguments))
    return Step(actions=(action,), observations=(Observation(text=answer),))


def edit(path: str, old: str, new: str, answer: str = "The file has been edited.") -> Step:
    """One replacement by the editor."""
    return call("str_replace_editor", answer, command="str_replace", path=path, old_str=old, new_str=new)


def reminder(text: str = "Hm.") -> Step:
    """A reply without a call, sent back by the harness."""
    return Step(text=text, after=(Message(role="harness", text="Please use a tool."),))


def run(
    *steps: Step,
    repo: str | None = None,
    base: str | None = None,
    task: str = "Fix it.",
    task_id: str | None = "o__pager-1",
    outcome: Outcome | None = None,
) -> Trajectory:
    """A recorded run of these steps."""
    return Trajectory(
        format="chat",
        task=task,
        task_id=task_id,
        repo=repo,
        base_commit=base,
        steps=steps,
        outcome=outcome or Outcome(),
    )
