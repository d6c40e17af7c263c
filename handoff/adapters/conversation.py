"""Messages in order → steps: which result answers which call, and what belongs to which step.

Results are joined by call id. Position decides only where the source has no ids, and then only within the
latest reply. A result whose call is missing is kept as an orphan; a call without a result gets an empty
observation that says so. What the text of a message means is up to the adapters.
"""

from __future__ import annotations

from typing import Literal

from handoff.trajectory import Action, Boundary, Message, Missing, Observation, Step, Usage

Role = Literal["system", "user", "harness", "context_summary"]

BOUNDARIES: tuple[Boundary, ...] = ("commit", "agent_switch", "resume", "compaction", "rollback")
"""From the least to the most telling."""


class _OpenStep:
    """A step still being filled."""

    __slots__ = (
        "actions",
        "after",
        "boundary",
        "cost",
        "model",
        "number",
        "observations",
        "orphans",
        "passed",
        "text",
        "thought",
        "timestamp",
        "usage",
    )

    def __init__(
        self,
        number: int,
        text: str,
        thought: str,
        actions: tuple[Action, ...],
        model: str | None,
        usage: Usage | None,
        cost: float | None,
        timestamp: str | None,
    ) -> None:
        self.number = number
        self.text = text
        self.thought = thought
        self.actions = actions
        self.observations: list[Observation | None] = [None] * len(actions)
        self.orphans: list[Observation] = []
        self.passed = {False: 0, True: 0}
        self.after: list[Message] = []
        self.boundary: Boundary | None = None
        self.model = model
        self.usage = usage
        self.cost = cost
        self.timestamp = timestamp

    def next_open(self, *, nameless: bool) -> int | None:
        """The first call without an answer, or the first of them without an id. Each call is passed over once."""
        at = self.passed[nameless]
        while at < len(self.actions) and (
            self.observations[at] is not None or (nameless and self.actions[at].call_id is not None)
        ):
            at += 1
        self.passed[nameless] = at
        return at if at < len(self.actions) else None

    def close(self) -> Step:
        observations = tuple(
            [
                seen if seen is not None else Observation(call_id=action.call_id, missing="none")
                for action, seen in zip(self.actions, self.observations, strict=True)
            ]
        )
        return Step(
            text=self.text,
            thought=self.thought,
            actions=self.actions,
            observations=observations + tuple(self.orphans) if self.orphans else observations,
            after=tuple(self.after),
            boundary=self.boundary,
            model=self.model,
            usage=self.usage,
            cost=self.cost,
            timestamp=self.timestamp,
        )


class Conversation:
    """Collects messages; ``steps`` closes it."""

    def __init__(self) -> None:
        self.preamble: list[Message] = []
        self._steps: list[_OpenStep] = []
        self._waiting: dict[str, tuple[_OpenStep, int]] = {}
        self._early: list[Observation] = []

    def reply(
        self,
        text: str,
        *,
        thought: str = "",
        actions: tuple[Action, ...] = (),
        model: str | None = None,
        usage: Usage | None = None,
        cost: float | None = None,
        timestamp: str | None = None,
    ) -> None:
        """The agent spoke: a new step."""
        step = _OpenStep(len(self._steps) + 1, text, thought, actions, model, usage, cost, timestamp)
        for position, action in enumerate(actions):
            if action.call_id is not None:
                self._waiting[action.call_id] = (step, position)
        if self._early:
            step.orphans, self._early = self._early, []
        self._steps.append(step)

    def message(self, role: Role, text: str) -> None:
        """Somebody else spoke."""
        (self._steps[-1].after if self._steps else self.preamble).append(Message(role=role, text=text))

    def result(
        self,
        call_id: str | None,
        text: str,
        *,
        exit_code: int | None = None,
        error: bool | None = None,
        missing: Missing | None = None,
        arrived: int | None = None,
    ) -> None:
        """Something came back. ``arrived``: how many replies there were when it had come whole; default: now."""
        slot = self._waiting.pop(call_id, None) if call_id is not None else None
        if slot is None and self._steps:
            slot = self._next_without_answer(call_id)
        if slot is None:
            self.orphan(call_id, text, exit_code=exit_code, error=error, missing=missing)
            return
        step, position = slot
        own_id = step.actions[position].call_id
        step.observations[position] = Observation(
            call_id=own_id if own_id is not None else call_id,
            text=text,
            exit_code=exit_code,
            error=error,
            missing=missing,
            arrived=self._lateness(step, arrived) if missing is None else None,
        )

    def _lateness(self, step: _OpenStep, arrived: int | None) -> int | None:
        """``arrived`` when replies were made in between, else ``None``."""
        if arrived is None:
            arrived = len(self._steps)
        return arrived if step.number < arrived else None

    def orphan(
        self,
        call_id: str | None,
        text: str,
        *,
        exit_code: int | None = None,
        error: bool | None = None,
        missing: Missing | None = None,
    ) -> None:
        """Something came back whose call is not in the file."""
        seen = Observation(
            call_id=call_id, text=text, exit_code=exit_code, error=error, missing=missing, is_orphan=True
        )
        (self._steps[-1].orphans if self._steps else self._early).append(seen)

    def screen(self, text: str, *, exit_code: int | None = None, error: bool | None = None) -> None:
        """One text for all open calls of the latest reply, as a terminal shows it: it stands at the last of them."""
        step = self._steps[-1]
        waiting = [position for position, seen in enumerate(step.observations) if seen is None]
        # A call that only says that the work is done shows nothing by itself.
        typed = [position for position in waiting if step.actions[position].tool != "mark_task_complete"] or waiting
        action = step.actions[typed[-1]]
        self._waiting.pop(action.call_id or "", None)
        step.observations[typed[-1]] = Observation(call_id=action.call_id, text=text, exit_code=exit_code, error=error)
        for position in waiting:
            if step.observations[position] is None:
                self._waiting.pop(step.actions[position].call_id or "", None)
                step.observations[position] = Observation(call_id=step.actions[position].call_id, missing="none")

    def boundary(self, kind: Boundary) -> None:
        """Something happened after the latest reply: of several things the last in ``BOUNDARIES`` stays.

        Before the first reply there is nothing to hand over.
        """
        if self._steps:
            told = self._steps[-1].boundary
            if told is None or BOUNDARIES.index(told) < BOUNDARIES.index(kind):
                self._steps[-1].boundary = kind

    def count(self, usage: Usage) -> bool:
        """Tokens of the latest reply, told after it; false when there is none, or its tokens are known."""
        if not self._steps or self._steps[-1].usage is not None:
            return False
        self._steps[-1].usage = usage
        return True

    @property
    def replies(self) -> int:
        """How many there are so far."""
        return len(self._steps)

    @property
    def steps_begun(self) -> bool:
        """True after the first reply."""
        return bool(self._steps)

    @property
    def awaits_result(self) -> bool:
        """True when the latest reply has a call that nothing answered yet."""
        return bool(self._steps) and self._steps[-1].next_open(nameless=False) is not None

    def refuse(self) -> None:
        """The scaffold did not run the latest reply's open calls."""
        if not self.awaits_result:
            return
        step = self._steps[-1]
        for position, action in enumerate(step.actions):
            if step.observations[position] is None:
                step.observations[position] = Observation(call_id=action.call_id, missing="not_executed")

    def steps(self) -> tuple[Step, ...]:
        """The finished steps."""
        return tuple([step.close() for step in self._steps])

    def _next_without_answer(self, call_id: str | None) -> tuple[_OpenStep, int] | None:
        """The first open call of the latest reply that position may decide: a result with an id never
        answers a call with another id."""
        step = self._steps[-1]
        position = step.next_open(nameless=call_id is not None)
        if position is None:
            return None
        self._waiting.pop(step.actions[position].call_id or "", None)
        return step, position
