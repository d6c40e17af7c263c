"""The tools of a recorded run: as it declares them, and what its calls show of those that it does not.

Many recordings hold calls and no definitions, and a model that is trained on them never sees what it may call. An
inferred definition has the names of the arguments that occur and the types of their values; no description is made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from handoff.samples import TEXT_ARGUMENT
from handoff.trajectory import Action, Trajectory

_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
"""In this order: a truth value is a whole number to Python."""


class Declared(NamedTuple):
    """Tool definitions in OpenAI form."""

    tools: str
    """A JSON array."""
    inferred: tuple[str, ...]
    """Names of those that only calls tell of, sorted."""


def declared_tools(run: Trajectory) -> Declared:
    """The definitions that a run needs: its own, and one inferred for each tool that it calls without one.

    Definitions that are no JSON array count as none.
    """
    own = [_without_nulls(tool) for tool in _array(run.tools)]
    known = {_name(tool) for tool in own}
    calls: dict[str, list[dict[str, Any]]] = {}
    for step in run.steps:
        for action in step.actions:
            if action.tool not in known and (arguments := _arguments(action)) is not None:
                calls.setdefault(action.tool, []).append(arguments)
    if not calls:
        return Declared(msgspec.json.encode(own).decode(), ())
    made = [_definition(name, calls[name]) for name in sorted(calls)]
    return Declared(msgspec.json.encode([*own, *made]).decode(), tuple(sorted(calls)))


def _without_nulls(value: Any) -> Any:
    """A definition without the nulls that a program padded it with: a template would print them. A default may be null,
    and an enumeration may hold it."""
    if isinstance(value, dict):
        return {
            name: inner if name in ("default", "enum", "const") else _without_nulls(inner)
            for name, inner in value.items()
            if inner is not None or name == "default"
        }
    return [_without_nulls(inner) for inner in value if inner is not None] if isinstance(value, list) else value


def _array(text: str | None) -> list[Any]:
    try:
        found = msgspec.json.decode(text or "[]")
    except (msgspec.DecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _name(tool: Any) -> str | None:
    """The name of a definition, whether it stands in ``function`` or not."""
    inner = tool.get("function", tool) if isinstance(tool, dict) else {}
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else None


def _arguments(action: Action) -> dict[str, Any] | None:
    if action.is_text:
        return {"command" if action.tool == "bash" else TEXT_ARGUMENT: action.arguments}
    try:
        found = msgspec.json.decode(action.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _definition(name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    names = sorted({argument for call in calls for argument in call})
    return {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {n: _schema(call[n] for call in calls if n in call) for n in names},
                "required": [n for n in names if all(n in call for call in calls)],
            },
        },
    }


def _schema(values: Iterable[Any]) -> dict[str, Any]:
    """Of values that occur; without a type where nothing but null does."""
    kinds = sorted({kind for value in values if (kind := _type(value))})
    return {} if not kinds else {"type": kinds[0] if len(kinds) == 1 else kinds}


def _type(value: Any) -> str:
    return next((name for python, name in _TYPES if isinstance(value, python)), "")
