"""The stretch of a recorded run that leads out of a wrong turn.

A wrong turn is an edit after which a validation fails no less than before. It is mended when a later run of the same
validation, after another edit, has fewer failures than either, and none in between had more. A call that was refused,
or a line that could not run as it was written, is one too; it is mended by the next call that is nearly the same and
is carried out. What is learned are the steps from the failure on; the wrong turn itself stands in what was handed over,
and is never trained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from rapidfuzz.distance import Levenshtein

from handoff.actions.history import Event
from handoff.actions.outcomes import was_carried_out
from handoff.actions.tools import SHELLS
from handoff.salvage.relabel import failing_in
from handoff.states.sightings import shell_line

LONGEST = 30
"""Steps of a way out."""
SOON = 5
"""Steps within which a refused call is put right."""
ALIKE = 0.5
"""What the corrected line of a shell has in common with the refused one, by edit distance over the longer text."""
_USAGE = re.compile(
    r"^(?:usage: |\S{1,80}: (?:error: )?(?:unrecogni[sz]ed|invalid|illegal|unknown) (?:option|argument|flag))",
    re.I | re.M,
)
_MISUSED = (2, 4, 64)
"""Exit codes by which programs say that they do not understand their options."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One way out. Steps are 1-based and inclusive."""

    h: int
    """The step whose validation fails: the handoff."""
    last: int
    """The step whose validation is better."""
    wrong: tuple[int, ...]
    """The steps that edited since the validation before."""
    target: str
    failed_before: int
    """Before the wrong turn."""
    before: int
    """Failures at ``h``."""
    after: int
    failing: tuple[str, ...]
    """As the runner named them at ``h``; none where it did not."""


def recoveries(events: Sequence[Event]) -> Iterator[Recovery]:
    """The ways out of a run's wrong turns, by ``h``. A step that nobody knows the outcome of is none."""
    checks = [
        (event.step, event.result.target, *found)
        for event in events
        if event.result is not None and event.result.kind == "test" and event.happened and (found := _failures(event))
    ]
    edits = sorted({event.step for event in events if event.changed})
    for place, (h, target, failed, failing) in enumerate(checks):
        if not failed:
            continue
        earlier = [(step, count) for step, other, count, _ in checks[:place] if other == target and step < h]
        if not earlier or earlier[-1][1] > failed:
            continue  # nobody knows what the edit did, or it helped
        wrong = tuple(step for step in edits if earlier[-1][0] < step <= h)
        if not wrong:
            continue
        for step, other, now, _ in checks[place + 1 :]:
            if step == h or other != target:
                continue
            if now > failed or step - h > LONGEST:
                break
            if now < min(failed, earlier[-1][1]):
                if any(h < edit <= step for edit in edits):
                    yield Recovery(
                        h=h,
                        last=step,
                        wrong=wrong,
                        target=target,
                        failed_before=earlier[-1][1],
                        before=failed,
                        after=now,
                        failing=failing,
                    )
                break


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A call that could not be carried out, and the one that put it right. Steps are 1-based and inclusive."""

    h: int
    """The step of the refused call: the handoff."""
    last: int
    """The step of the call that was carried out."""
    tool: str
    target: str
    """What both are about, as an action key has it."""


def corrections(events: Sequence[Event]) -> Iterator[Correction]:
    """Refused calls that were put right soon, by ``h``; each with the first call that did.

    Only what the tools themselves say counts, on both sides. A call that is made again as it was is no correction.
    """
    ended: set[int] = set()
    for place, event in enumerate(events):
        if event.step in ended or not _is_refused(event):
            continue
        for later in events[place + 1 :]:
            if later.step - event.step > SOON or (later.step > event.step and _is_refused(later)):
                break  # what is learned goes wrong nowhere
            if later.step > event.step and _puts_right(event, later):
                ended.add(event.step)
                target = later.keys[0].target if later.keys else ""
                yield Correction(h=event.step, last=later.step, tool=event.action.tool, target=target)
                break


def _is_refused(event: Event) -> bool:
    if event.observation.missing is not None:
        return False  # nobody refused it: it was never answered
    if not event.happened:
        return True
    seen = event.observation
    return (
        event.action.tool.lower() in SHELLS
        and seen.exit_code in _MISUSED
        and _USAGE.search(seen.text[:2_000]) is not None
    )


def _puts_right(wrong: Event, right: Event) -> bool:
    """Whether the later call is the earlier one, corrected, and was carried out."""
    before, after = wrong.action, right.action
    if before.tool != after.tool or before.arguments == after.arguments or not right.happened:
        return False
    if not was_carried_out(after, right.observation):
        return False
    line, corrected = shell_line(before), shell_line(after)
    if line is not None:
        return corrected is not None and Levenshtein.normalized_similarity(line[:4_000], corrected[:4_000]) >= ALIKE
    return bool(wrong.keys) and wrong.keys == right.keys


def _failures(event: Event) -> tuple[int, tuple[str, ...]] | None:
    """(how many failed, their names as far as they are listed); ``None`` where nobody can tell."""
    result = event.result
    if result is None or result.outcome is None:
        return None
    names = result.failing or failing_in(event.observation.text)
    if result.failed is not None:
        return result.failed, names
    if result.outcome == "passed":
        return 0, ()
    return (len(names), names) if names else None
