"""Ways of binding an answer to a JSON schema, from the strictest that an endpoint may hold to none.

Bounds on lengths keep a small model that repeats itself from writing on until it is cut off: the grammar that
llama.cpp, vLLM and others make of a schema holds them, and the answer ends. Strict schemas of OpenAI and of services
that copy them refuse some of the keywords, and say so at once and for nothing. So a schema is asked for with its
bounds, then without them, then in words.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from handoff.endpoints.wire import Declined

Way: TypeAlias = dict[str, Any]
"""What is added to a request. Empty: nothing, and the schema has to stand in its words."""

BOUNDS = ("maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum")
"""Keywords that not every endpoint takes."""
CHARACTERS_A_TOKEN = 4
"""Of English. What is denser may still be cut off."""
TOKENS_A_NODE = 12
"""Of quotes, names, indents and brackets around one value, as small models lay JSON out."""


def ways_of(name: str, schema: dict[str, Any]) -> tuple[Way, ...]:
    """The ways, the strictest first and the empty one last."""
    return (_bound(name, schema), _bound(name, _without_bounds(schema)), {})


def left_after(ways: tuple[Way, ...], answer: Declined) -> tuple[Way, ...]:
    """The ways that may still do after the first was declined; none where the schema was not why."""
    if not ways[0] or answer.why not in ("no_bounds", "no_schema"):
        return ()
    return ways[1:] if answer.why == "no_bounds" else ways[-1:]


def _bound(name: str, schema: dict[str, Any]) -> Way:
    shown = {"name": name, "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": shown}}


def _without_bounds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_bounds(part) for key, part in value.items() if key not in BOUNDS}
    return [_without_bounds(part) for part in value] if isinstance(value, list) else value
