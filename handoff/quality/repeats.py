"""Steps that repeat: loops, calls that failed, answers that were not heeded (``docs/science.md §14``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from handoff.actions import CHANGING_KINDS, did_not_happen
from handoff.actions.operations import Restore, SetMode, WriteFile
from handoff.quality.recording import Deed, Recording, answer_of, by_call
from handoff.quality.signal import Signal, short
from handoff.trajectory import Action, Observation

_MALFORMED = re.compile(r"syntax error|[Pp]arameter|Invalid `|[Uu]sage:|must be|malformed|InputValidationError")

LONGEST_PERIOD = 12
"""Steps of the longest block whose repetition is looked for."""
TIMES = 3
"""Occurrences of a block that make a loop."""

_SAME_AGAIN = (WriteFile, Restore, SetMode)
"""Changes that change nothing when they are made a second time."""


def loops(recording: Recording) -> list[Signal]:
    """Steps that end, or go on with, the third occurrence of a block of 1 to ``LONGEST_PERIOD`` steps.

    Two steps are the same when calls, operations and answers are, and neither puts anything new into a file. Depends on
    steps ≤ i alone; the cost is ``LONGEST_PERIOD`` comparisons of numbers a step.
    """
    names: dict[object, int] = {}
    first_with: dict[object, int] = {}
    line: list[int] = []
    runs = [0] * (LONGEST_PERIOD + 1)
    found = []

    def name(number: int) -> int:
        signature = _signature(recording, number)
        return -number if signature is None else names.setdefault(signature, len(names))

    for number, step in enumerate(recording.steps, start=1):
        calls = tuple((action.tool, action.arguments) for action in step.actions) or step.text
        earlier = first_with.setdefault(calls, number)
        if earlier == number:
            line.append(-number)  # nothing like it yet: no need to look closer
        else:
            if line[earlier - 1] == -earlier:
                line[earlier - 1] = name(earlier)
            line.append(name(number))
        for period in range(1, min(LONGEST_PERIOD, number - 1) + 1):
            runs[period] = runs[period] + 1 if line[-1] == line[-1 - period] else 0
        shortest = next((p for p in range(1, LONGEST_PERIOD + 1) if runs[p] >= (TIMES - 1) * p), None)
        if shortest is not None:
            period = shortest
            first = number - runs[period] - period + 1
            block = "step" if period == 1 else f"block of {period} steps"
            reason = f"the same {block} since step {first}, with the same answers and nothing new in any file"
            shows = tuple(number - period * n for n in range(TIMES - 1, 0, -1))
            found.append(Signal(step=number, name="loop", rule=f"period_{period}", shown_by=shows, reason=reason))
    return found


def _signature(recording: Recording, number: int) -> object | None:
    """What makes a step the same as another; ``None`` when it changes a file."""
    step, deeds = recording.steps[number - 1], recording.deeds[number - 1]
    if any(deed.changed and not isinstance(deed.operation, _SAME_AGAIN) for deed in deeds):
        return None
    if not step.actions:
        return (step.text,) if step.text else None
    answers = tuple(answer_of(own) for own in by_call(deeds))
    if not answers:
        answers = tuple((seen.exit_code, seen.text) for seen in step.observations)
    calls = tuple((action.tool, action.arguments) for action in step.actions)
    return calls, tuple(deed.operation for deed in deeds), answers


# -- calls that failed --------------------------------------------------------------------------


class Failure(NamedTuple):
    """One call that positively failed."""

    kind: str
    step: int
    action: Action
    answer: Observation


def failures(recording: Recording) -> list[Failure]:
    """Calls that had no effect: ``malformed`` in themselves (parameters, syntax), ``refused`` because what they name is
    not there, an ``unknown`` program, ``not_run`` by the harness.

    A command that ran and returned an error code is no failed call: a failing test is an answer.
    """
    found = []
    for number, (step, deeds) in enumerate(zip(recording.steps, recording.deeds, strict=True), start=1):
        happened = {id(deed.action): deed.happened or _has_only_run(deed) for deed in deeds}
        for place, action in enumerate(step.actions):
            answer = recording.answer(number, place)
            if answer.missing in ("not_executed", "aborted"):
                if id(action) not in happened:
                    continue  # it says or submits something
                kind = "not_run"
            elif answer.exit_code == 127:
                kind = "unknown"
            elif answer.missing is None and _is_refused(action, answer, happened):
                kind = "malformed" if _MALFORMED.search(answer.text[:1_000]) else "refused"
            else:
                continue
            found.append(Failure(kind, number, action, answer))
    return found


def _has_only_run(deed: Deed) -> bool:
    """An error code alone: a program that was asked to do something, and did not change files, has answered."""
    answer = deed.observation
    is_change = any(key.kind in CHANGING_KINDS for key in deed.keys)
    return answer.exit_code not in (None, 0) and answer.error is not True and not is_change


def _is_refused(action: Action, answer: Observation, happened: Mapping[int, bool]) -> bool:
    known = happened.get(id(action))
    return did_not_happen(action, answer) if known is None else not known


def failed_calls(recording: Recording, failed: Sequence[Failure]) -> list[Signal]:
    """One signal for each step and kind of failure; ``retry``: the same call had failed, with nothing changed since.

    Depends on steps ≤ i alone.
    """
    found: dict[tuple[int, str], Signal] = {}
    changed = _last_changes(recording.deeds)
    before: dict[tuple[str, str], int] = {}
    for failure in failed:
        key = failure.action.tool, failure.action.arguments
        earlier = before.get(key)
        is_retry = earlier is not None and earlier < failure.step and changed[failure.step - 1] <= earlier
        kind = "retry" if is_retry else failure.kind
        again = f"; step {earlier} had failed alike, and nothing was changed since" if is_retry else ""
        signal = Signal(
            step=failure.step,
            name="failed_call",
            rule=kind,
            shown_by=(earlier,) if is_retry and earlier is not None else (),
            reason=f"{short(failure.action.tool, 40)}: {short(failure.answer.text) or 'no answer'}{again}",
        )
        found.setdefault((failure.step, kind), signal)
        before[key] = failure.step
    return sorted(found.values(), key=lambda s: (s.step, s.rule))


def _last_changes(by_step: Sequence[Sequence[Deed]]) -> list[int]:
    """For each step: the last step before it that changed a file; 0 for none."""
    found, last = [], 0
    for number, deeds in enumerate(by_step, start=1):
        found.append(last)
        if any(deed.changed for deed in deeds):
            last = number
    return found


# -- answers ------------------------------------------------------------------------------------


class Use(NamedTuple):
    """How a run used what its tools answered, each as numerator and denominator; without a denominator, no value."""

    understood: int
    responses: int
    planned: float
    plans: int


def responses(recording: Recording, repeated: Iterable[Signal]) -> tuple[list[Signal], Use]:
    """Answers that were not heeded (looks ahead), and the run's two figures.

    ``repeated``: ``redundant`` and ``failed_call``. An answer was not heeded when a later step asks for it again: it is
    redundant, or a retry. A step's plan counts 1 without a bad call; with one, ½ beside other calls and 0 alone. A bad
    call is one that failed or only repeats; that the harness did not run it is not its fault.
    """
    again: dict[int, list[int]] = {}
    bad: set[int] = set()
    for signal in repeated:
        if signal.rule != "not_run":
            bad.add(signal.step)
        if signal.name == "redundant" or signal.rule == "retry":
            for earlier in signal.shown_by:
                again.setdefault(earlier, []).append(signal.step)
    acting = [number for number, step in enumerate(recording.steps, start=1) if step.actions]
    heard = [
        number for number in acting[:-1] if any(o.missing is None for o in recording.steps[number - 1].observations)
    ]
    found = [
        Signal(
            step=number,
            name="response_ignored",
            rule="asked_again",
            shown_by=tuple(dict.fromkeys(again[number])),
            reason=f"step {again[number][0]} asks again for what this step had answered",
        )
        for number in heard
        if number in again
    ]
    plans = [number for number in acting[1:] if recording.steps[number - 2].observations]
    scores = (
        1.0 if number not in bad else 0.5 if len(recording.steps[number - 1].actions) > 1 else 0.0 for number in plans
    )
    return found, Use(len(heard) - len(found), len(heard), sum(scores), len(plans))
