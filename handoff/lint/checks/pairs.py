"""Preferences: two sides of one prompt that differ in what is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handoff.lint.codes import Finding
from handoff.lint.shapes import Talk, Turn


def check_pair(chosen: Talk, rejected: Talk) -> Iterator[Finding]:
    """P01 to P03."""
    better, worse = [_said(turn) for turn in chosen.turns], [_said(turn) for turn in rejected.turns]
    if better == worse:
        yield Finding("P01", "", "")
        return
    for talk in (chosen, rejected):
        if not any(turn.role == "assistant" for turn in talk.turns[talk.prompt :]):
            yield Finding("P03", "", "")
            return
    shared = next((n for n, (one, other) in enumerate(zip(better, worse, strict=False)) if one != other), None)
    if shared is not None and chosen.turns[shared].role != "assistant" and shared < _first_reply(chosen):
        yield Finding("P02", chosen.turns[shared].place, "")


def _first_reply(talk: Talk) -> int:
    """Place of the first reply of its own."""
    places = [n for n, turn in enumerate(talk.turns) if turn.role == "assistant" and n >= talk.prompt]
    return places[0] if places else len(talk.turns)


def _said(turn: Turn) -> tuple[Any, ...]:
    return turn.role, turn.text, turn.thought, tuple((call.name, repr(call.arguments)) for call in turn.calls)
