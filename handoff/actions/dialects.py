"""Whose editor a call reaches (``Dialect``), by the recording's format, the tool's name and what its answers show.

Versions of one editor differ in what they do to tabs. A version that keeps them shows them; one that turns them into
blanks shows blanks where the call itself had brought a tab. What was seen once holds for the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from handoff.actions.operations import Dialect, InsertLines, Operation, Replace, ReplaceEach, Undo, WriteFile
from handoff.actions.paths import Context
from handoff.trajectory import Observation

_FAMILIES: Mapping[str, tuple[Dialect, Dialect, Dialect]] = {
    "": ("str_replace", "str_replace_keeps", "str_replace_expands"),
    "sweagent": ("sweagent", "sweagent", "sweagent"),
    "openhands_events": ("openhands", "openhands_keeps", "openhands_expands"),
    "openhands_output": ("openhands", "openhands_keeps", "openhands_expands"),
    "openhands_sdk": ("openhands_keeps", "openhands_keeps", "openhands_keeps"),
}
"""By format: the ``str_replace`` editor of which nothing was seen yet, one that keeps tabs, one that does not."""
_EDITS: Mapping[str, Dialect] = {
    "claude_code": "claude_code",
    "claude_code_stream": "claude_code",
    "claude_code_web": "claude_code",
    "gemini_cli": "gemini",
    "cline": "cline",
    "cline_classic": "cline",
    "aider": "aider",
    "pi": "pi",
}


def str_replace_dialect(context: Context) -> Dialect:
    """The ``str_replace`` editor of this run."""
    unseen, keeps, expands = _FAMILIES.get(context.harness, _FAMILIES[""])
    return keeps if context.tabs == "keeps" else expands if context.tabs == "expands" else unseen


def edit_dialect(context: Context, name: str, key: str = "") -> Dialect:
    """The editor behind ``Edit``, ``replace`` and their like; ``key``: what the call names its old text."""
    known = _EDITS.get(context.harness)
    if known is not None:
        return known
    return "gemini" if name == "replace" else "pi" if key == "oldText" else "some_edit"


_SHOWS = "the result of running `cat -n` on"
_KEPT = re.compile(r"^ {0,9}\d{1,9}\t[^\n]*\t", re.M)


def as_seen(
    operations: tuple[Operation, ...], context: Context, observation: Observation
) -> tuple[tuple[Operation, ...], Context]:
    """``operations`` and ``context`` with what the answer tells of the editor's version."""
    if context.tabs or _SHOWS not in observation.text:
        return operations, context
    text = observation.text[observation.text.index(_SHOWS) :]
    if _KEPT.search(text) is not None:
        context = msgspec.structs.replace(context, tabs="keeps")
    elif any(_brings_tab(operation) for operation in operations) and "clipped" not in text:
        context = msgspec.structs.replace(context, tabs="expands")
    else:
        return operations, context
    family = _FAMILIES.get(context.harness, _FAMILIES[""])
    return tuple(_narrowed(operation, family[0], str_replace_dialect(context)) for operation in operations), context


def _brings_tab(operation: Operation) -> bool:
    match operation:
        case Replace(new=text) | InsertLines(text=text):
            return "\t" in text.strip()  # some versions drop what surrounds it
        case _:
            return False


def _narrowed(operation: Operation, family: Dialect, dialect: Dialect) -> Operation:
    match operation:
        case Replace() | ReplaceEach() | InsertLines() | WriteFile() | Undo() if operation.dialect == family:
            return msgspec.structs.replace(operation, dialect=dialect)
        case _:
            return operation
