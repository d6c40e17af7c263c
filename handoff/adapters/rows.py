"""The shapes in which data sets keep a conversation, brought to one: a list of turns.

::

    chat      {"messages": [{"role": "user", "content": "Fix …"}, …]}, also `trajectory`, `conversations`, a bare list
    ShareGPT  {"conversations": [{"from": "human", "value": "Fix …"}, …], "system": "…"}
    Nebius    {"trajectory": [{"role": "ai", "text": "…", "mask": true}, …]}
    call log  {"messages": […], "response": {"choices": [{"message": {…}}], "usage": {…}}}

The column may hold its list as text. A log of one model call holds all turns before it, and the reply apart. What turns
mean is in ``chat.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from handoff.adapters import values
from handoff.adapters.calls import Call, Function
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP, Repeated, Upkeep
from handoff.framing.record import begins, first_item

KEYS = ("messages", "trajectory", "conversations", "conversation")
"""Columns that may hold the conversation, in the order in which they are tried."""

_FOREIGN = frozenset(("schema_version", "trajectory_format", "sessionId", "projectHash", "eval", "loglines", "history"))
"""Keys that mark other formats which also have such a column."""
_INSPECT = frozenset(("epoch", "input", "target"))
"""The keys of a sample in an Inspect log."""

SYSTEM = frozenset(("system", "developer"))
USER = frozenset(("user", "human"))
ASSISTANT = frozenset(("assistant", "ai", "model"))
TOOL = frozenset(("tool", "function", "ipython", "environment", "tool_response"))
ROLES = SYSTEM | USER | ASSISTANT | TOOL

_SPEAKERS = {
    "human": "user",
    "user": "user",
    "system": "system",
    "gpt": "assistant",
    "assistant": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
}
"""Who speaks in ShareGPT rows."""


class Address(msgspec.Struct, gc=False):
    """``image_url`` as an object."""

    url: str | None = None
    detail: Upkeep = NOTHING


class Media(msgspec.Struct, gc=False):
    """``source`` of an Anthropic image or document."""

    type: str | None = None
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Part(msgspec.Struct, gc=False):
    """One part of a content list, in OpenAI or Anthropic form."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    tool_use_id: str | None = None
    content: str | list[Part] | None = None
    is_error: Any = None
    image_url: str | Address | None = None
    source: Media | None = None
    signature: Upkeep = NOTHING
    cache_control: Upkeep = NOTHING


class Turn(msgspec.Struct, gc=False):
    """One message."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    exit_code: Any = None
    is_error: Any = None
    usage: values.UsageRow | None = None
    model: str | None = None
    cost: Any = None
    timestamp: Any = None
    name: Repeated = NOTHING
    cache_control: Upkeep = NOTHING
    provider_specific_fields: Upkeep = NOTHING


class _Line(msgspec.Struct, gc=False):
    """A Nebius turn; ``mask`` marks those that were trained, which are the agent's."""

    role: str
    text: str | None = None
    system_prompt: str | None = None
    mask: Repeated = NOTHING
    cutoff_date: Upkeep = NOTHING


class _Said(msgspec.Struct, gc=False, rename={"speaker": "from"}):
    """A ShareGPT turn."""

    speaker: str
    value: str | None = None


class _Choice(msgspec.Struct, gc=False):
    message: Turn | None = None
    index: Upkeep = NOTHING
    provider_specific_fields: Upkeep = NOTHING


class _Completion(msgspec.Struct, gc=False):
    """The answer of one model call."""

    choices: list[_Choice] | None = None
    model: str | None = None
    usage: values.UsageRow | None = None
    id: Upkeep = NOTHING
    created: Upkeep = NOTHING
    object: Upkeep = NOTHING
    system_fingerprint: Upkeep = NOTHING


def text_of(content: str | list[Part] | None) -> str:
    """A content as text; parts that are no text stand there by kind and address, or by the hash of their bytes."""
    if isinstance(content, list):
        return "\n".join(shown for part in content if (shown := shown_of(part)))
    return content or ""


def shown_of(part: Part) -> str:
    """One part as text; empty for calls, results and thoughts."""
    if part.image_url is not None:
        return values.media("image", part.image_url.url if isinstance(part.image_url, Address) else part.image_url)
    if part.source is not None:
        data = part.source.data
        return values.media(part.type or "media", data.encode() if data else part.source.url, part.source.media_type)
    return part.text or ""


def is_conversation(record: Record) -> bool:
    """True when the record holds turns in one of these shapes and no other format claims it by its keys."""
    if record.is_array:
        return _is_turn(record.first())
    if _FOREIGN & record.keys.keys() or record.keys.keys() >= _INSPECT:
        return False
    key = column(record)
    return key is not None and _is_turn(_first(record, key))


def column(record: Record) -> str | None:
    """The column of the conversation; ``None`` for a bare list."""
    return None if record.is_array else next((key for key in KEYS if key in record.keys), None)


def is_nebius(record: Record) -> bool:
    """True for rows whose turns have ``text`` and ``mask``."""
    key = column(record)
    return key is not None and {"role", "mask"} <= _first(record, key).keys()


def turns_of(record: Record) -> list[Turn]:
    """The turns; ``RecordError`` when a field does not fit."""
    key = column(record)
    if key is None:
        return record.decode(list[Turn])
    first = _first(record, key)
    if "from" in first:
        return _sharegpt(record, key)
    if {"role", "mask"} <= first.keys():
        lines = record.decode_under(key, list[_Line])
        return [Turn(role=line.role, content=line.text or line.system_prompt) for line in lines]
    turns = record.decode_under(key, list[Turn])
    if "response" in record.keys:
        turns += _answer(record, turns)
    return turns


def _first(record: Record, key: str) -> dict[str, Any]:
    if not begins(record.keys[key], b'"'):
        return record.first(key)
    return first_item((record.peek(key) or "").encode("utf-8", "replace"))


def _is_turn(first: dict[str, Any]) -> bool:
    if isinstance(first.get("from"), str):
        return first["from"] in _SPEAKERS and "value" in first
    role = first.get("role")
    return (
        isinstance(role, str)
        and role in ROLES
        and bool({"content", "tool_calls", "text", "system_prompt"} & first.keys())
    )


def _sharegpt(record: Record, key: str) -> list[Turn]:
    system = record.text("system")
    turns = [Turn(role="system", content=system)] if system else []
    for number, said in enumerate(record.decode_under(key, list[_Said])):
        role = _SPEAKERS.get(said.speaker)
        if role is None:
            raise RecordError(
                f"Unknown speaker {said.speaker[:40]!r}.",
                field=f"$.{key}[{number}].from",
                remedy=f"Known are {', '.join(sorted(_SPEAKERS))}.",
            )
        text = said.value or ""
        if said.speaker == "function_call":
            if "<function=" in text:
                raise RecordError(
                    "The calls were rewritten for training, and such sets make up how a run ends.",
                    field=f"$.{key}[{number}].value",
                    remedy="Give the rows it was made from: the Agent Data Protocol's raw or standardized ones.",
                )
            call = _function(text)
            turns.append(Turn(role=role, tool_calls=[call]) if call is not None else Turn(role=role, content=text))
        else:
            turns.append(Turn(role=role, content=text))
    return turns


def _function(text: str) -> Call | None:
    try:
        function = msgspec.json.decode(text, type=Function)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Call(function=function) if function.name else None


def _answer(record: Record, turns: Sequence[Turn]) -> list[Turn]:
    """The reply of a call log. Where calls are text, the raw response is what the model said."""
    is_native = any(turn.tool_calls for turn in turns)
    name = "response" if is_native or "raw_response" not in record.keys else "raw_response"
    found = record.field(name, _Completion)
    record.leave(*sorted({"response", "raw_response", "raw_messages"} - {name}), reason=REPEATED)
    record.leave("kwargs", reason=UPKEEP)
    choice = found.choices[0] if found is not None and found.choices else None
    if found is None or choice is None or choice.message is None:
        return []
    turn = choice.message
    turn.usage, turn.model = found.usage, found.model
    turn.cost, turn.timestamp = record.field("cost", float), record.field("timestamp", float)
    return [turn]
