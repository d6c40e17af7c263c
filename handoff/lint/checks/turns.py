"""The order of turns, and what each has to hold."""

from __future__ import annotations

from collections.abc import Iterator

from handoff.lint.codes import Finding
from handoff.lint.shapes import Row, Talk, Turn

_KNOWN = ("system", "user", "assistant", "tool")


def check_turns(row: Row, talk: Talk) -> Iterator[Finding]:
    """R01 to R11."""
    if not talk.turns:
        yield Finding("R11", "", "")
        return
    if not any(turn.role == "user" for turn in talk.turns):
        yield Finding("R06", "", "")
    before: Turn | None = None
    has_replied = False
    for number, turn in enumerate(talk.turns):
        if turn.role not in _KNOWN:
            yield Finding("R01", turn.place, repr(turn.role))
        if turn.role == "system" and number and row.shape != "atif":
            yield Finding("R02", turn.place, "")
        if before is not None and turn.role == before.role == "user" and row.shape != "atif":
            yield Finding("R03", turn.place, "")
        if before is not None and turn.role == before.role == "assistant" and row.shape != "atif":
            yield Finding("R04", turn.place, "")
        if turn.role == "tool" and not has_replied:
            yield Finding("R10", turn.place, "")
        has_replied = has_replied or turn.role == "assistant"
        yield from _content(row, turn)
        before = turn
    if talk.ends_with_reply and talk.turns[-1].role != "assistant":
        yield Finding("R05", talk.turns[-1].place, f"it ends with a turn of {talk.turns[-1].role or 'nobody'}")


def _content(row: Row, turn: Turn) -> Iterator[Finding]:
    if not turn.has_content:
        yield Finding("R09", turn.place, "")
    elif turn.text is None:
        may_be_null = row.nulls and turn.role == "assistant" and bool(turn.calls)
        if not may_be_null and not (turn.calls and "content" not in turn.raw):
            yield Finding("R08", turn.place, "")
    if turn.role == "assistant" and not (turn.text or turn.thought or turn.calls):
        yield Finding("R07", turn.place, "")
