"""Tools that lead nowhere: what a disturbance may offer (``adversary/kinds/distractor_tools.py``).

A successor on an endpoint shows its model those that stand in its briefing; the surroundings answer calls of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

_SAID: dict[str, tuple[str, str]] = {
    "search_codebase": ("query", "Semantic search over an index of the code."),
    "ask_reviewer": ("question", "Ask the reviewer who is on duty."),
    "read_ticket": ("id", "Read a ticket of the issue tracker."),
    "list_recent_changes": ("path", "Changes that were made to a path lately, by anyone."),
    "run_static_analysis": ("path", "Run the analysis service on a path."),
    "lookup_symbol": ("name", "Where a symbol is defined, from the index."),
    "read_notes": ("topic", "Read the team's notes on a topic."),
    "query_coverage": ("test", "Lines that a test covers, from the last nightly run."),
}
"""Name → its one argument, and what it says of itself."""


def definition(name: str) -> dict[str, Any]:
    """The definition of one of them, in OpenAI form."""
    argument, said = _SAID[name]
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": said, "parameters": schema}}


DISTRACTORS = tuple(_SAID)
"""Their names, in the order in which recipes count them."""
_OFFERED = [definition(name) for name in DISTRACTORS]


def distractors(tools: str) -> list[dict[str, Any]]:
    """Those of a JSON array of tool definitions that lead nowhere."""
    return [tool for tool in definitions(tools) if tool in _OFFERED]


def definitions(tools: str) -> list[Any]:
    """A JSON array of tool definitions; empty when it is none."""
    try:
        found = msgspec.json.decode(tools)
    except (msgspec.DecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []
