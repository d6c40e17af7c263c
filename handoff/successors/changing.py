"""When a successor stops looking around: the moment for the probe (``docs/science.md §6``)."""

from __future__ import annotations

from handoff.actions import ApplyPatch, Context, Opaque, changed_paths, interpret
from handoff.trajectory import Action

SUBMITTING = frozenset({"submit", "finish", "exit", "complete"})
"""Tools that end a run."""


def changes(actions: tuple[Action, ...], context: Context) -> tuple[bool, Context]:
    """Could these actions change the repository, or end the run?"""
    is_changing = False
    for action in actions:
        operations, context = interpret(action, context)
        is_changing = is_changing or any(
            changed_paths(operation)
            or isinstance(operation, ApplyPatch)
            or (isinstance(operation, Opaque) and not operation.is_possible)
            for operation in operations
        )
        is_changing = is_changing or action.tool in SUBMITTING
    return is_changing, context
