"""The messages of a sample as chat templates read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from handoff.samples import SampleMessage


def chat_messages(
    messages: Sequence[SampleMessage],
    *,
    arguments: Callable[[str], object] = msgspec.json.decode,
    with_names: bool = False,
) -> list[dict[str, Any]]:
    """One row a message; what is absent is not there, rather than empty.

    ``arguments``: what becomes of a call's arguments, which are JSON: an object for most templates. ``with_names``:
    results name the tool that they come from, as some templates want.
    """
    names: dict[str, str] = {}
    chat: list[dict[str, Any]] = []
    for message in messages:
        row: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning_content:
            row["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            row["tool_calls"] = [
                {
                    "type": call.type,
                    "id": call.id,
                    "function": {"name": call.function.name, "arguments": arguments(call.function.arguments)},
                }
                for call in message.tool_calls
            ]
            names |= {call.id: call.function.name for call in message.tool_calls}
        if message.tool_call_id is not None:
            row["tool_call_id"] = message.tool_call_id
            if with_names and message.tool_call_id in names:
                row["name"] = names[message.tool_call_id]
        chat.append(row)
    return chat
