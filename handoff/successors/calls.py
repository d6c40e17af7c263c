"""The tools of an agent on an endpoint, what is wrong with a call of them, and calls that stand in plain text.

Names and arguments are those of ordinary coding agents, so that a transcript passes through the same action keys and
replay as any recording.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from handoff.identity import canonical_json
from handoff.trajectory import Action, Observation

SHELL = "bash"
EDITOR = "str_replace_editor"
SUBMIT = "submit"

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": SHELL,
            "description": "Run a command in the repository. The shell stays open: folder and variables are kept.",
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
            "name": EDITOR,
            "description": (
                "Look at and change files. view: a file with line numbers, or a folder. create: write file_text to a "
                "new file. str_replace: put new_str in the place of old_str, which occurs exactly once. insert: put "
                "new_str behind line insert_line."
            ),
            "parameters": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
                    "path": {"type": "string", "description": "Relative to the repository."},
                    "file_text": {"type": "string"},
                    "old_str": {"type": "string"},
                    "new_str": {"type": "string"},
                    "insert_line": {"type": "integer", "minimum": 0},
                    "view_range": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "description": "First and last line, from 1; -1 is the last of the file.",
                    },
                },
                "required": ["command", "path"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": SUBMIT,
            "description": "Hand in the repository as it is. Ends the work.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]

_NEEDED: dict[str, dict[str, type]] = {
    "view": {},
    "create": {"file_text": str},
    "str_replace": {"old_str": str, "new_str": str},
    "insert": {"insert_line": int, "new_str": str},
}
_WORDS = {str: "text", int: "a whole number"}
_BLOCK = re.compile(r"^```(?:bash|sh|shell)[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)


def read_object(arguments: str) -> dict[str, Any] | None:
    """The arguments of a call; ``None`` when they are no JSON object. No arguments at all are an empty one."""
    try:
        value = msgspec.json.decode(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def refuse(action: Action) -> Observation | None:
    """What is wrong with a call, in words that its model can act on; ``None``: nothing that shows before it is made."""
    problem = _problem(action)
    if problem is None:
        return None
    return Observation(call_id=action.call_id, text=f"{problem} Nothing was done.", error=True)


def _problem(action: Action) -> str | None:
    if action.tool not in (SHELL, EDITOR, SUBMIT):
        return f"There is no tool {action.tool[:80]!r}; the tools are {SHELL}, {EDITOR} and {SUBMIT}."
    if action.tool == SUBMIT:
        return None
    values = read_object(action.arguments)
    if values is None:
        return f"The arguments of {action.tool} are no JSON object; perhaps they were cut off. Send the call again."
    if action.tool == SHELL:
        return _missing(SHELL, values, {"command": str})
    command = values.get("command")
    if not isinstance(command, str) or command not in _NEEDED:
        return f"{EDITOR} needs command, one of {', '.join(_NEEDED)}."
    return _missing(f"{EDITOR} {command}", values, {"path": str, **_NEEDED[command]})


def _missing(name: str, values: dict[str, Any], needed: dict[str, type]) -> str | None:
    for key, kind in needed.items():
        value = values.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name} needs {key}, {_WORDS[kind]}."
    return None


def calls_in(text: str) -> tuple[Action, ...]:
    """The calls that a reply makes in fenced shell blocks, in order. A block that says ``submit`` submits."""
    found = []
    for block in _BLOCK.finditer(text):
        command = block[1].strip("\n")
        if command.strip() == SUBMIT:
            found.append(Action(tool=SUBMIT, arguments="{}"))
        elif command.strip():
            found.append(Action(tool=SHELL, arguments=canonical_json({"command": command}).decode()))
    return tuple(found)
