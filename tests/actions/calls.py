"""Calls as agents make them, and what they are read as."""

from __future__ import annotations

import json

from handoff import actions
from handoff.actions import Context, interpret, keys_of
from handoff.trajectory import Action


def bash(line: str) -> Action:
    """A shell line."""
    return Action(tool="bash", arguments=json.dumps({"command": line}))


def call(tool: str, **arguments: object) -> Action:
    """A structured call."""
    return Action(tool=tool, arguments=json.dumps(arguments))


def text(tool: str, arguments: str) -> Action:
    """A call kept as text."""
    return Action(tool=tool, arguments=arguments, is_text=True)


def operations(action: Action, context: Context | None = None) -> tuple[actions.Operation, ...]:
    """What the call does."""
    return interpret(action, context or Context())[0]


def keys(action: Action, context: Context | None = None) -> list[tuple[str, str]]:
    """Its keys, in order."""
    return [key for operation in operations(action, context) for key in keys_of(operation)]
