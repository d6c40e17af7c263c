"""A run and its subagents as one: they work in one tree, so a subagent's edits belong to the state of its parent.

A subagent is a run of its own in the tables; here its actions stand in its parent's steps, between the call that
started it and the result of that call, so that the parent's states hold them. What it read and edited proves the
parent's files as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from handoff.identity import canonical_json
from handoff.states.sightings import fact, seconds_of
from handoff.trajectory import Action, Observation, Step, Trajectory

_JOINED = ("before", "after", "hunks", "read", "changes")
"""Facts that are kept by call."""
_CD = re.compile(r"\b(?:cd|pushd|popd)\b")
_NO_OBSERVATION = Observation(missing="none")
_DEEPEST = 8


class _Deed(NamedTuple):
    """One call of a subagent, and when it was made."""

    time: float
    """Seconds since 1970; 0 where it is not dated."""
    action: Action
    observation: Observation


def merged(parent: Trajectory, children: Iterable[Trajectory]) -> Trajectory:
    """``parent`` with what its subagents did in its steps; itself when none of ``children`` is its own.

    A call that started a subagent stands for nothing beside the subagent's own calls, unless its recording breaks
    off. A step that came after the call takes what was done then, where both are dated. Steps keep their numbers.
    """
    own = _by_call(parent, children)
    if not own:
        return parent
    later: dict[int, list[_Deed]] = {}
    steps: list[Step] = []
    for number, step in enumerate(parent.steps):
        actions: list[Action] = []
        observations: list[Observation] = []
        for place, action in enumerate(step.actions):
            child = own.get(action.call_id or "")
            if child is None or not _is_whole(child):
                actions.append(action)
                observations.append(step.observations[place] if place < len(step.observations) else _NO_OBSERVATION)
            if child is not None:
                for deed in _deeds(child, own, 0):
                    later.setdefault(_place(parent.steps, number, deed.time), []).append(deed)
        for deed in sorted(later.pop(number, ()), key=lambda deed: deed.time):
            actions.append(deed.action)
            observations.append(deed.observation)
        orphans = step.observations[len(step.actions) :]
        steps.append(msgspec.structs.replace(step, actions=tuple(actions), observations=(*observations, *orphans)))
    return msgspec.structs.replace(parent, steps=tuple(steps), source=_joined(parent, own.values()))


def _by_call(parent: Trajectory, children: Iterable[Trajectory]) -> dict[str, Trajectory]:
    """Call → the run that it started, for calls of the parent and of its subagents."""
    named = {
        call: child
        for child in children
        if child.parent is not None and child.parent == parent.session and (call := fact(child, "call")) is not None
    }
    called = {action.call_id for run in (parent, *named.values()) for step in run.steps for action in step.actions}
    return {call: child for call, child in named.items() if call in called}


def _is_whole(child: Trajectory) -> bool:
    return child.outcome.ended not in ("cut_off", "aborted", "error")


def _deeds(child: Trajectory, own: Mapping[str, Trajectory], depth: int) -> list[_Deed]:
    """Everything that a subagent did, and its own subagents, in order."""
    found: list[_Deed] = []
    for step in child.steps:
        for place, action in enumerate(step.actions):
            inner = own.get(action.call_id or "")
            if inner is not None and inner is not child and depth < _DEEPEST:
                found += _deeds(inner, own, depth + 1)
                continue
            answer = step.observations[place] if place < len(step.observations) else _NO_OBSERVATION
            found.append(_Deed(seconds_of(step) or 0, _apart(action), msgspec.structs.replace(answer, arrived=None)))
    return found


def _place(steps: Sequence[Step], call: int, time: float) -> int:
    """The step during which something was done at ``time`` that began in step ``call``."""
    place = call
    while time and place + 1 < len(steps) and (seconds_of(steps[place + 1]) or math.inf) <= time:
        place += 1
    return place


def _apart(action: Action) -> Action:
    """A shell line of a subagent, so that its folder is not its parent's: each of its lines begins at the root."""
    if action.is_text or '"command"' not in action.arguments or not _CD.search(action.arguments):
        return action
    try:
        values = msgspec.json.decode(action.arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return action
    line = values.get("command")
    if not isinstance(line, str):
        return action
    return msgspec.structs.replace(action, arguments=canonical_json({**values, "command": f"({line}\n)"}).decode())


def _joined(parent: Trajectory, children: Iterable[Trajectory]) -> str:
    facts: dict[str, Any] = msgspec.json.decode(parent.source, type=dict[str, Any])
    for child in children:
        of_child: dict[str, Any] = msgspec.json.decode(child.source, type=dict[str, Any])
        for name in _JOINED:
            noted = of_child.get(name)
            if isinstance(noted, dict):
                facts[name] = {**noted, **(facts.get(name) or {})}
    return canonical_json(facts).decode()
