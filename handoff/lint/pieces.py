"""A turn in stretches that have one role and one weight, as far as its format says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from handoff.lint.shapes import Row, Turn


class Piece(NamedTuple):
    """A stretch with one role and weight."""

    text: str
    role: str
    weight: float


def pieces_of(row: Row, turn: Turn) -> Iterator[Piece]:
    """In the order in which a model reads them. Spans and details that do not fit their text are cut to it."""
    spans = _spans(row, turn)
    if spans is not None:
        yield from spans
        return
    role = ("env_output" if turn.role == "tool" else "action") if turn.trained else "context"
    weight = 1.0 if turn.trained else 0.0
    if turn.thought:
        yield Piece(turn.thought + "\n", role, weight)
    text = turn.text if isinstance(turn.text, str) else ""
    details = turn.raw.get("train_detail")
    if isinstance(details, list) and turn.trained:
        at = 0
        for detail in sorted(filter(_is_detail, details), key=lambda own: own["begin_offset"]):
            start, end = max(detail["begin_offset"], at), detail["end_offset"] + 1
            yield Piece(text[at:start], "warning", 0.0)
            yield Piece(text[start:end], role if detail.get("train") else "warning", float(bool(detail.get("train"))))
            at = max(at, end)
        yield Piece(text[at:], "warning", 0.0)
    elif text:
        yield Piece(text, role, weight)
    for call in turn.calls:
        arguments = call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
        yield Piece(f"\n→ {call.name} {arguments}", role, weight)


def _is_detail(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(n), int) for n in ("begin_offset", "end_offset"))


def _spans(row: Row, turn: Turn) -> list[Piece] | None:
    """By the spans of a canonical sample."""
    if row.sample is None:
        return None
    part, _, number = turn.place.removesuffix("]").partition("[")
    own: list[Mapping[str, Any]] = [
        span for span in row.sample["spans"] if (span.get("part", "messages"), span["message"]) == (part, int(number))
    ]
    found = []
    for span in own:
        field = span["field"]
        text = turn.raw.get(field) if "[" not in field else _of_call(turn.raw, field)
        weight = span["weight"] if turn.trained or turn.role == "tool" else 0.0
        found.append(Piece(str(text)[span["start"] : span["end"]], span["role"], weight))
    return found


def _of_call(message: Mapping[str, Any], field: str) -> str:
    head, _, name = field.partition("].function.")
    own: Mapping[str, Any] = message["tool_calls"][int(head.removeprefix("tool_calls["))]["function"]
    return f"\n→ {own[name]} " if name == "name" else str(own[name])
