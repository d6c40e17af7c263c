"""The stretch of a recorded run that leads out of a wrong turn.

A wrong turn is an edit after which a validation fails no less than before. It is mended when a later run of the same
validation, after another edit, has fewer failures than either, and none in between had more. What is learned are the
steps from the failure on; the wrong turn itself stands in what was handed over, and is never trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from handoff.actions.history import Event
from handoff.salvage.relabel import failing_in

LONGEST = 30
"""Steps of a way out."""


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
