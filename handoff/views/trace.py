"""The ``trace`` view: every event of the steps up to h, untruncated, in order.

Text of a run is hostile: a tool's output may hold a line that looks like the next step's heading. Each text
therefore stands in a code fence longer than any run of backticks inside it, the rule of CommonMark, so nothing
inside can end it and nothing needs to be altered. Control characters stay as recorded; escape on display.

A run has many points, and each step is rendered for many of them: the rendered steps of the last few runs
are kept, so that one view costs one join.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from handoff.evidence import predecessor_of
from handoff.trajectory import Message, Observation, Step, Trajectory, as_of

HEADER = "# Trace of the previous {predecessor}'s work\n\nEvery step it took, in order and complete.\n\n"

_BACKTICKS = re.compile(r"`{3,}")
_KEPT_RUNS = 4

_AFTER = {
    "system": "Message of the system",
    "user": "Message of the user",
    "harness": "Message of the harness",
    "context_summary": "Summary written at a context compaction",
}
_MISSING = {
    "none": "no answer is recorded",
    "aborted": "the call was aborted",
    "not_executed": "the call was not executed",
    "truncated": "the recording was cut off",
    "pending": "it had not answered yet",
}


class _Run(NamedTuple):
    """A run with its rendered steps."""

    trajectory: Trajectory
    """Kept alive with them, so that its id stays its own."""
    pieces: tuple[str, ...]
    late: tuple[int, ...]
    """Steps to which something came back only after a later reply."""


_rendered: dict[int, _Run] = {}
"""By identity of the trajectory."""


def render(trajectory: Trajectory, h: int) -> str:
    """Steps 1..h. Later steps never enter the text."""
    return header(trajectory, h) + "".join(rendered_steps(trajectory, h))


def rendered_steps(trajectory: Trajectory, h: int) -> tuple[str, ...]:
    """Steps 1..h as they stood at h, one text each."""
    run = _render_run(trajectory)
    pieces = run.pieces[:h]
    for number in run.late:
        step = trajectory.steps[number - 1]
        if number <= h and any(seen.arrived is not None and seen.arrived > h for seen in step.observations):
            pieces = (*pieces[: number - 1], render_step(number, as_of(step, h)), *pieces[number:])
    return pieces


def header(trajectory: Trajectory, h: int) -> str:
    """What stands above the first step."""
    return HEADER.format(predecessor=predecessor_of(trajectory, h))


def render_steps(steps: Iterable[Step], first: int = 1) -> str:
    """Some steps in the form of the trace, numbered from ``first``."""
    return "".join(render_step(number, step) for number, step in enumerate(steps, first))


def split(text: str) -> list[str]:
    """A text cut before each line that begins with ``## Step``; joined, the pieces are the text again."""
    first, *rest = text.split("\n## Step ")
    if not rest:
        return [text]
    pieces = [first + "\n", *("## Step " + piece + "\n" for piece in rest)]
    pieces[-1] = pieces[-1][:-1]
    return pieces


def _render_run(trajectory: Trajectory) -> _Run:
    found = _rendered.get(id(trajectory))
    if found is not None and found.trajectory is trajectory:
        return found
    numbered = list(enumerate(trajectory.steps, 1))
    late = [number for number, step in numbered if any(seen.arrived is not None for seen in step.observations)]
    found = _Run(trajectory, tuple([render_step(number, step) for number, step in numbered]), tuple(late))
    while len(_rendered) >= _KEPT_RUNS:
        _rendered.pop(next(iter(_rendered), 0), None)
    _rendered[id(trajectory)] = found
    return found


def render_step(number: int, step: Step, marks: Mapping[int, str] = MappingProxyType({}), remark: str = "") -> str:
    """One step. ``marks``: place of a call → what stands in place of its answer; ``remark``: of the reply itself."""
    parts = [f"## Step {number}\n\n"]
    if remark:
        parts.append(f"(left out: {remark})\n\n")
    if step.thought:
        parts += ("Thought:\n", fenced(step.thought))
    if step.text:
        parts += ("Said:\n", fenced(step.text))
    for position, observation in enumerate(step.observations):
        if position < len(step.actions) and not observation.is_orphan:
            action = step.actions[position]
            parts += ("Action ", _inline(action.tool), ":\n", fenced(action.arguments))
        parts += _observed(observation, marks.get(position, ""))
    answered = sum(not o.is_orphan for o in step.observations)
    for action in step.actions[answered:]:
        parts += ("Action ", _inline(action.tool), ":\n", fenced(action.arguments))
    for message in step.after:
        parts += _said(message)
    return "".join(parts)


def _observed(observation: Observation, mark: str) -> list[str]:
    label = "Observation of a call that is not recorded" if observation.is_orphan else "Observation"
    facts = []
    if observation.exit_code is not None:
        facts.append(f"exit code {observation.exit_code}")
    if observation.error:
        facts.append("marked as an error")
    if observation.missing is not None:
        facts.append(_MISSING[observation.missing])
    head = f"{label} ({', '.join(facts)})" if facts else label
    if mark:
        return [head, ": ", mark, "\n\n"]
    return [head, ":\n", fenced(observation.text)] if observation.text else [head, ": no output\n\n"]


def _said(message: Message) -> list[str]:
    return [_AFTER[message.role], ":\n", fenced(message.text)]


def fenced(text: str, language: str = "") -> str:
    """A text in a code fence that nothing inside it can end."""
    fence = "```"
    if fence in text:
        fence = "`" * (max(map(len, _BACKTICKS.findall(text))) + 1)
    return f"{fence}{language}\n{text}\n{fence}\n\n"


def _inline(name: str) -> str:
    """A tool's name on one line; a name that holds line breaks or backticks is quoted as JSON would."""
    if name.isprintable() and "`" not in name:
        return name
    return ascii(name).replace("`", "\\x60")
