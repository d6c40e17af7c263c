"""Rows under the chat template and tokenizer of the model that is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from handoff.errors import RecordError
from handoff.exports.tokenised import Ends, Tokens
from handoff.lint.codes import Finding
from handoff.lint.shapes import Row, Talk


class Shown(NamedTuple):
    """What a template makes of a conversation."""

    tokens: int
    left_out: tuple[str, ...]
    """Places of texts, thoughts and calls that it does not show."""


def shown_of(row: Row, talk: Talk, tokens: Tokens) -> Shown:
    """Render a conversation with a mark in each field, and see which come out.

    ``RecordError`` where the template refuses it.
    """
    marks: dict[str, str] = {}
    chat: list[dict[str, Any]] = []
    for turn in talk.turns:
        own: dict[str, Any] = {"role": turn.role, "content": turn.text if isinstance(turn.text, str) else ""}
        if turn.thought:
            own["reasoning_content"] = turn.thought
        if turn.calls:
            own["tool_calls"] = [
                {
                    "type": "function",
                    "id": str(c.id or ""),
                    "function": {"name": str(c.name), "arguments": _object(c.arguments)},
                }
                for c in turn.calls
            ]
        if turn.role == "tool":
            own["tool_call_id"] = str(turn.answers or "")
        chat.append(own)
    tools = row.tools if isinstance(row.tools, list) else None
    text = tokens.template.render(chat, tools).text
    marked: list[dict[str, Any]] = []
    for turn, plain in zip(talk.turns, chat, strict=True):
        own = dict(plain)
        for name in ("content", "reasoning_content"):
            if str(own.get(name) or "").strip():
                own[name] = _mark(marks, own[name], f"{turn.place}.{name}")
        if "tool_calls" in own:
            own["tool_calls"] = [
                {**c, "function": {**c["function"], "name": _mark(marks, c["function"]["name"], call.place)}}
                for c, call in zip(own["tool_calls"], turn.calls, strict=True)
            ]
        marked.append(own)
    try:
        seen = tokens.template.render(marked, tools).text
    except RecordError:  # it looks at names: then nothing can be said of what it leaves out
        seen = "".join(marks)
    left_out = tuple(place for mark, place in marks.items() if mark not in seen)
    return Shown(len(tokens.encode(text)[0]), left_out)


def _mark(marks: dict[str, str], text: str, place: str) -> str:
    """The text with a private character inside its blanks."""
    mark = chr(0x100000 + len(marks) % 0xFFF0)
    marks[mark] = place
    end = len(text.rstrip())
    return text[:end] + mark + text[end:]


def _object(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def ends_of_turns(ids: Sequence[Any], flags: Sequence[bool], ends: Ends) -> Iterator[Finding]:
    """Hold the trained stretches of a token row against the ends of turns (M08, M09).

    Output of tools may be trained without the end of its turn, which no model writes; replies may not.
    """
    places = [n for n, id_ in enumerate(ids) if id_ == ends.ending]
    late = [n for n in places if flags[n] and n + 1 < len(ids) and flags[n + 1]]
    if late:
        yield Finding("M08", f"input_ids[{late[0] + 1}]", f"{len(late)} times")
    before = [0, *(n + 1 for n in places)]
    early = [
        n
        for start, n in zip(before, places, strict=False)
        if n and flags[n - 1] and not flags[n] and _holds(ids[start:n], ends.header)
    ]
    if early:
        yield Finding("M09", f"input_ids[{early[0]}]", f"{len(early)} times")


def _holds(ids: Sequence[Any], header: Sequence[int]) -> bool:
    """Whether a reply begins in this stretch."""
    size = len(header)
    return any(list(ids[n : n + size]) == list(header) for n in range(len(ids) - size + 1))
