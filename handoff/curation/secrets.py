"""Secrets of a sample: every text of its briefing and its steps without them. Rules are in ``handoff/secrets.py``."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from handoff.secrets import Redactor
from handoff.successors import Briefing
from handoff.trajectory import Action, Message, Observation, Step

__all__ = ["Redactor", "redact_briefing", "redact_steps"]


def redact_briefing(briefing: Briefing, redactor: Redactor) -> Briefing:
    """What the successor was told, without secrets."""
    return msgspec.structs.replace(
        briefing,
        task=redactor.text(briefing.task),
        view_text=redactor.text(briefing.view_text),
        preamble=redactor.text(briefing.preamble),
        tools=redactor.json(briefing.tools),
        system=redactor.text(briefing.system),
    )


def redact_steps(steps: Sequence[Step], redactor: Redactor) -> tuple[Step, ...]:
    """Steps without secrets in any text of theirs."""
    return tuple(
        msgspec.structs.replace(
            step,
            text=redactor.text(step.text),
            thought=redactor.text(step.thought),
            actions=tuple(_action(action, redactor) for action in step.actions),
            observations=tuple(_observation(observation, redactor) for observation in step.observations),
            after=tuple(Message(role=message.role, text=redactor.text(message.text)) for message in step.after),
        )
        for step in steps
    )


def _action(action: Action, redactor: Redactor) -> Action:
    clean = redactor.text(action.arguments) if action.is_text else redactor.json(action.arguments)
    return msgspec.structs.replace(action, arguments=clean)


def _observation(observation: Observation, redactor: Redactor) -> Observation:
    text = observation.text
    is_json = text.lstrip()[:1] in ("{", "[")  # framing is decided before redaction
    return msgspec.structs.replace(observation, text=redactor.json(text) if is_json else redactor.text(text))
