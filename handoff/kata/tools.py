"""The tools of a kata agent, and the actions it makes with them.

The tools are those of ordinary coding agents (``bash``, ``str_replace_editor``, ``submit``), so that recordings
pass through the same adapters, action keys and replay as anyone's. ``Move`` is an action as kata agents think
of it; ``action_of`` writes it down, ``move_of`` reads it back from a recording.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from handoff.identity import canonical_json
from handoff.kata.mutations import Change, difference, replacement
from handoff.trajectory import Action

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command in the repository.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "str_replace_editor",
            "description": "Replace a text that occurs exactly once in a file.",
            "parameters": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": ["str_replace"]},
                    "path": {"type": "string"},
                    "old_str": {"type": "string"},
                    "new_str": {"type": "string"},
                },
                "required": ["command", "path", "old_str", "new_str"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "submit",
            "description": "Hand in the repository as it is.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]

SYSTEM = "You are a programmer working in a git repository. Use the tools. Call submit when the task is done."

LIST = "git ls-files"
DIFF = "git diff"
TEST = "python -m pytest -q"

MoveKind = Literal["list", "diff", "test_all", "test_one", "read", "edit", "undo", "restore", "submit", "other"]


class Move(msgspec.Struct, frozen=True, order=True):
    """One action as a kata agent thinks of it. Its fields order and hash it."""

    kind: MoveKind
    path: str = ""
    """Test file, file read, edited or restored."""
    change: Change | None = None
    """``edit`` and ``undo``: the token replaced."""


def action_of(move: Move, text: str, call_id: str) -> Action:
    """The tool call of a move; ``text`` is the file's present text (used by edits only)."""
    if move.kind == "submit":
        return Action(call_id=call_id, tool="submit", arguments="{}")
    if move.change is not None:
        old, new = replacement(text, move.change)
        arguments = {"command": "str_replace", "path": move.path, "old_str": old, "new_str": new}
        return Action(call_id=call_id, tool="str_replace_editor", arguments=canonical_json(arguments).decode())
    command = {
        "list": LIST,
        "diff": DIFF,
        "test_all": TEST,
        "test_one": f"{TEST} {move.path}",
        "read": f"cat {move.path}",
        "restore": f"git checkout -- {move.path}",
    }[move.kind]
    return Action(call_id=call_id, tool="bash", arguments=canonical_json({"command": command}).decode())


_TEST_LINE = re.compile(r"python -m pytest -q(?: (tests/\w+\.py))?")
_PATH_LINE = re.compile(r"(cat|git checkout --) ([\w./-]+)")


def arguments_of(action: Action) -> dict[str, Any]:
    """The arguments of a call; empty when they are no JSON object."""
    try:
        value = msgspec.json.decode(action.arguments)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def pytest_target(command: str) -> str | None:
    """The test file a plain pytest line names, ``""`` for all tests, ``None`` when it is no such line."""
    match = _TEST_LINE.fullmatch(command.strip())
    return None if match is None else (match[1] or "")


def move_of(action: Action, text: str | None) -> Move:
    """The move a recorded action made; ``text`` is what is known of the edited file before it (``None``: nothing)."""
    arguments = arguments_of(action)
    if action.tool == "submit":
        return Move("submit")
    if action.tool == "str_replace_editor":
        path, old, new = (str(arguments.get(key, "")) for key in ("path", "old_str", "new_str"))
        found = difference(path, text, text.replace(old, new, 1)) if text is not None and text.count(old) == 1 else None
        return Move("edit", path, found[0]) if found is not None and len(found) == 1 else Move("other", path)
    command = str(arguments.get("command", "")).strip()
    if command == LIST:
        return Move("list")
    if command == DIFF:
        return Move("diff")
    target = pytest_target(command)
    if target is not None:
        return Move("test_one", target) if target else Move("test_all")
    match = _PATH_LINE.fullmatch(command)
    if match:
        return Move("read" if match[1] == "cat" else "restore", match[2])
    return Move("other")


def edited_path(action: Action) -> str | None:
    """The path an editor call names, ``None`` for other calls."""
    if action.tool != "str_replace_editor":
        return None
    path = arguments_of(action).get("path")
    return path if isinstance(path, str) else None
