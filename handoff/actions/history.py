"""What happened step by step: operations with their outcome, the base of points and of evidence.

One pass over the steps, in order; what is said of step i depends on steps ≤ i alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from handoff.actions.operations import Key, Opaque, Operation, Validate, changed_paths, keys_of
from handoff.actions.outcomes import Validation, did_not_happen, validation
from handoff.actions.paths import Context
from handoff.actions.tools import interpret
from handoff.trajectory import Action, Observation, Step

NO_OBSERVATION = Observation(missing="none")


class Event(NamedTuple):
    """One operation of one step."""

    step: int
    """From 1."""
    action: Action
    observation: Observation
    operation: Operation
    happened: bool
    """False only with positive evidence that it did not."""
    result: Validation | None

    @property
    def keys(self) -> tuple[Key, ...]:
        """Its action keys."""
        return keys_of(self.operation)

    @property
    def changed(self) -> tuple[str, ...]:
        """Files it changed, or may have changed; empty when it did not happen."""
        if not self.happened or (isinstance(self.operation, Opaque) and self.operation.is_possible):
            return ()
        return changed_paths(self.operation)


def history(steps: Sequence[Step], context: Context) -> list[Event]:
    """Every operation of ``steps`` in order of execution. ``context``: at the start (``context_of``)."""
    events = []
    for number, step in enumerate(steps, start=1):
        answers = step.observations
        for place, action in enumerate(step.actions):
            answer = answers[place] if place < len(answers) and not answers[place].is_orphan else NO_OBSERVATION
            operations, context = interpret(action, context, answer)
            refused = bool(operations) and did_not_happen(action, answer)
            for operation in operations:
                result = validation(operation, answer) if isinstance(operation, Validate) else None
                events.append(Event(number, action, answer, operation, not refused, result))
    return events
