"""One recorded run, read once for all signals: its operations, its commands and what it was shown."""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

from handoff.actions import Key, Operation, Validation, context_of
from handoff.actions.history import history
from handoff.quality.commands import Call, call_of
from handoff.trajectory import Action, Observation, Trajectory

NO_ANSWER = Observation(missing="none")

_TRIED = 8
"""Places of a repeated line at which a match is tried."""
_NUMBERING = re.compile(r"^ {0,12}\d{1,9}(?:\t|[:|→] ?)", re.M)


class Deed(NamedTuple):
    """An ``Event`` with what is asked of it again and again, worked out once."""

    step: int
    """From 1."""
    action: Action
    observation: Observation
    operation: Operation
    happened: bool
    """False only with positive evidence that it did not."""
    result: Validation | None
    keys: tuple[Key, ...]
    changed: tuple[str, ...]
    """Files it changed, or may have changed."""


class Shown:
    """What an answer shows of a file: its lines without line numbers and blank lines, in order."""

    def __init__(self, text: str) -> None:
        self.lines = [line for line in map(str.rstrip, _NUMBERING.sub("", text).splitlines()) if line]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Line → where it stands."""
        places: dict[str, list[int]] = {}
        for place, line in enumerate(self.lines):
            places.setdefault(line, []).append(place)
        return places

    def holds(self, other: Shown) -> bool:
        """Whether the lines of ``other`` stand here in one piece; never so when it has none."""
        rarest, found = 0, None
        for place, line in enumerate(other.lines):
            here = self.places.get(line)
            if here is None:
                return False
            if found is None or len(here) < len(found):
                rarest, found = place, here
        starts = (place - rarest for place in (found or ())[:_TRIED])
        return any(start >= 0 and self.lines[start : start + len(other.lines)] == other.lines for start in starts)

    def overlap(self, other: Shown) -> float:
        """The share of the distinct lines here that ``other`` shows too; 0 when there are none."""
        return len(self.places.keys() & other.places.keys()) / len(self.places) if self.places else 0.0


class Recording:
    """A trajectory with what every rule asks of it. Steps are counted from 1; lists here from 0."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.steps = trajectory.steps
        self.deeds: list[list[Deed]] = [[] for _ in self.steps]
        """Operations of each step, in order of execution."""
        for event in history(self.steps, context_of(trajectory.format, trajectory.source)):
            self.deeds[event.step - 1].append(Deed(*event, event.keys, event.changed))
        self.calls: list[list[Call]] = [[call_of(action) for action in step.actions] for step in self.steps]
        """Programs and addresses of each action of each step."""
        self._shown: dict[int, Shown] = {}

    def answer(self, step: int, place: int) -> Observation:
        """What came back for action ``place`` (from 0) of ``step`` (from 1)."""
        answers = self.steps[step - 1].observations
        return answers[place] if place < len(answers) and not answers[place].is_orphan else NO_ANSWER

    def shown(self, answer: Observation) -> Shown:
        """What ``answer`` shows of a file; made once."""
        known = self._shown.get(id(answer))
        if known is None:
            known = self._shown[id(answer)] = Shown(answer.text)
        return known


def is_answered(answer: Observation) -> bool:
    """There is an answer, and nothing in it says that the call failed."""
    return answer.missing is None and answer.exit_code in (None, 0) and answer.error is not True


def by_call(deeds: list[Deed]) -> list[list[Deed]]:
    """The operations of one step, grouped by the call they belong to."""
    calls: list[list[Deed]] = []
    for deed in deeds:
        if calls and calls[-1][0].action is deed.action:
            calls[-1].append(deed)
        else:
            calls.append([deed])
    return calls


def answer_of(own: list[Deed]) -> tuple[object, ...]:
    """What came back for one call, less what differs between equal runs: of a validation its counts, else the text."""
    answer = own[0].observation
    results = [deed.result for deed in own if deed.result is not None]
    if len(results) == 1 == len(own) and results[0].outcome is not None:
        result = results[0]
        return answer.exit_code, result.outcome, result.passed, result.failed, result.failing
    return answer.exit_code, answer.error, answer.missing, answer.text
