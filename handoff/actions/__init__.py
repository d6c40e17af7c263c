"""Actions: what a recorded call does, the key it is compared by, and what came of it (``docs/science.md §4``).

``interpret`` turns a call into operations: ``tools.py`` knows the structured tools, ``windowed.py`` SWE-agent's editor,
``lines.py`` and ``programs/`` the shell, ``commits.py`` the commits of a branch. ``operations.py`` holds the union and
the keys, ``paths.py`` what lies in the repository, ``outcomes.py`` whether an edit happened and a validation passed.
Nothing here sees a disk: applying operations to files is in ``states/``.
"""

from __future__ import annotations

from collections.abc import Sequence

from handoff.actions.operations import (
    CHANGING_KINDS,
    LAST_LINE,
    AppendFile,
    ApplyPatch,
    Commit,
    Copy,
    Delete,
    Dialect,
    EditLines,
    InsertLines,
    Install,
    Key,
    LineEdit,
    ListFiles,
    MakeDirectory,
    Move,
    Opaque,
    Operation,
    Other,
    Read,
    Replace,
    ReplaceEach,
    Restore,
    Run,
    Search,
    SetMode,
    StreamEdit,
    Undo,
    Validate,
    Vcs,
    WriteFile,
    changed_paths,
    key_of,
    keys_of,
)
from handoff.actions.outcomes import Validation, did_not_happen, validation
from handoff.actions.paths import Context, context_of, is_outside, resolve
from handoff.actions.tools import interpret
from handoff.trajectory import Step

__all__ = [
    "CHANGING_KINDS",
    "LAST_LINE",
    "AppendFile",
    "ApplyPatch",
    "Commit",
    "Context",
    "Copy",
    "Delete",
    "Dialect",
    "EditLines",
    "InsertLines",
    "Install",
    "Key",
    "LineEdit",
    "ListFiles",
    "MakeDirectory",
    "Move",
    "Opaque",
    "Operation",
    "Other",
    "Read",
    "Replace",
    "ReplaceEach",
    "Restore",
    "Run",
    "Search",
    "SetMode",
    "StreamEdit",
    "Undo",
    "Validate",
    "Validation",
    "Vcs",
    "WriteFile",
    "changed_paths",
    "context_of",
    "did_not_happen",
    "interpret",
    "is_outside",
    "key_of",
    "keys_of",
    "resolve",
    "trajectory_keys",
    "validation",
]


def trajectory_keys(steps: Sequence[Step], *, context: Context | None = None) -> list[tuple[Key, ...]]:
    """One tuple of keys per step, in order of execution. ``context``: at the start; see ``context_of``.

    Keys say what was attempted; a refused edit has its key too.
    """
    current = Context() if context is None else context
    found: list[tuple[Key, ...]] = []
    for step in steps:
        keys: tuple[Key, ...] = ()
        for action in step.actions:
            operations, current = interpret(action, current)
            for operation in operations:
                keys += keys_of(operation)
        found.append(keys)
    return found
