"""One recorded run, read once for all signals: its operations, its commands and what it was shown."""

from __future__ import annotations

import re

from handoff.actions.history import Event, history
from handoff.actions.paths import context_of
from handoff.quality.commands import Call, call_of
from handoff.trajectory import Observation, Trajectory

NO_ANSWER = Observation(missing="none")

_NUMBERING = re.compile(r"^ {0,12}\d{1,9}(?:\t|[:|→] ?)", re.M)


class Recording:
    """A trajectory with what every rule asks of it. Steps are counted from 1; lists here from 0."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.steps = trajectory.steps
        self.events: list[list[Event]] = [[] for _ in self.steps]
        """Operations of each step, in order of execution."""
        for event in history(self.steps, context_of(trajectory.format)):
            self.events[event.step - 1].append(event)
        self.calls: list[list[Call]] = [[call_of(action) for action in step.actions] for step in self.steps]
        """Programs and addresses of each action of each step."""
        self._lines: dict[int, frozenset[str]] = {}

    def answer(self, step: int, place: int) -> Observation:
        """What came back for action ``place`` (from 0) of ``step`` (from 1)."""
        answers = self.steps[step - 1].observations
        return answers[place] if place < len(answers) and not answers[place].is_orphan else NO_ANSWER

    def lines(self, answer: Observation) -> frozenset[str]:
        """The lines of an answer as readings of one file are compared: without line numbers and blank lines."""
        known = self._lines.get(id(answer))
        if known is None:
            text = _NUMBERING.sub("", answer.text)
            known = frozenset(line for line in map(str.rstrip, text.splitlines()) if line)
            self._lines[id(answer)] = known
        return known


def is_answered(answer: Observation) -> bool:
    """There is an answer, and nothing in it says that the call failed."""
    return answer.missing is None and answer.exit_code in (None, 0) and answer.error is not True


def by_call(events: list[Event]) -> list[list[Event]]:
    """The operations of one step, grouped by the call they belong to."""
    calls: list[list[Event]] = []
    for event in events:
        if calls and calls[-1][0].action is event.action:
            calls[-1].append(event)
        else:
            calls.append([event])
    return calls


def answer_of(own: list[Event]) -> tuple[object, ...]:
    """What came back for one call, less what differs between equal runs: of a validation its counts, else the text."""
    answer = own[0].observation
    results = [event.result for event in own if event.result is not None]
    if len(results) == 1 == len(own) and results[0].outcome is not None:
        result = results[0]
        return answer.exit_code, result.outcome, result.passed, result.failed, result.failing
    return answer.exit_code, answer.error, answer.missing, answer.text
