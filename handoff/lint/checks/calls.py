"""Calls: their ids and answers, their arguments, and the tools that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from handoff.lint.codes import Finding
from handoff.lint.shapes import Call, Row, Talk


def check_calls(row: Row, talk: Talk) -> Iterator[Finding]:
    """C01 to C09, A01 to A06. ATIF allows calls without an answer."""
    calls = [call for turn in talk.turns for call in turn.calls]
    known = _known(row.tools)
    if row.tools is not None and known is None:
        yield Finding("C09", "tools", type(row.tools).__name__)
    if known is not None and len(known) < len(row.tools):
        yield Finding("C10", "tools", "")
    if calls and not row.tools:
        yield Finding("C07", "", f"{len(calls)} calls")
    if known and any(_has_nulls(tool) for tool in row.tools):
        yield Finding("C08", "tools", "")
    for call in calls:
        if known and call.name not in known:
            yield Finding("C06", call.place, repr(call.name)[:100])
        yield from _arguments(row, call, (known or {}).get(call.name))
    if row.uses_ids:
        yield from (one for one in _answers(talk) if one.code != "C03" or row.shape != "atif")
    else:
        yield from _counts(talk)


def _answers(talk: Talk) -> Iterator[Finding]:
    """By id: every call has one, and every result names one that is open."""
    seen: set[Any] = set()  # only asked for membership
    open_: dict[Any, Call] = {}
    for turn in talk.turns:
        if turn.role != "tool":
            yield from (Finding("C03", call.place, repr(call.name)[:100]) for call in open_.values())
            open_ = {}
        if turn.role == "assistant":
            for call in turn.calls:
                if not isinstance(call.id, str) or not call.id:
                    yield Finding("C01", call.place, repr(call.name)[:100])
                elif call.id in seen:
                    yield Finding("C02", call.place, call.id[:100])
                else:
                    open_[call.id] = call
                    seen.add(call.id)
        elif turn.role == "tool":
            if not isinstance(turn.answers, str) or not turn.answers:
                yield Finding("C05", turn.place, "")
            elif open_.pop(turn.answers, None) is None:
                yield Finding("C04", turn.place, turn.answers[:100])


def _counts(talk: Talk) -> Iterator[Finding]:
    """By place, in formats without ids: results follow calls."""
    waiting: tuple[Call, ...] = ()
    for turn in talk.turns:
        if turn.role != "tool":
            if waiting:
                yield Finding("C03", waiting[0].place, repr(waiting[0].name)[:100])
            waiting = turn.calls
        elif turn.role == "tool":
            if not waiting:
                yield Finding("C04", turn.place, "no call before it is open")
            waiting = waiting[1:] if len(waiting) > 1 and "\n<tool_response>\n" not in str(turn.text) else ()


def _arguments(row: Row, call: Call, tool: Mapping[str, Any] | None) -> Iterator[Finding]:
    value = call.arguments
    if isinstance(value, str):
        if row.wants == "object":
            yield Finding("A03", call.place, value[:80])
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            yield Finding("A01", call.place, str(call.arguments)[:80])
            return
        if isinstance(value, str):
            yield Finding("A05" if _is_object(value) else "A02", call.place, value[:80])
            return
    elif isinstance(value, dict) and row.wants == "text":
        yield Finding("A04", call.place, "")
    if not isinstance(value, dict):
        yield Finding("A02", call.place, type(value).__name__)
        return
    for name, inner in value.items():
        if inner is None and not _may_be_null(tool, name):
            yield Finding("A06", call.place, str(name)[:100])


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _may_be_null(tool: Mapping[str, Any] | None, name: str) -> bool:
    """Whether the tool's definition allows it, in either way that definitions say so."""
    parameters = (tool or {}).get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    own = properties.get(name) if isinstance(properties, dict) else None
    if not isinstance(own, dict):
        return False
    kinds = own.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    either = [*(own.get("anyOf") or ()), *(own.get("oneOf") or ())]
    if own == {} or own.get("nullable") is True or "null" in listed:
        return True
    return any(isinstance(one, dict) and one.get("type") == "null" for one in either)


def _known(tools: Any) -> dict[Any, Mapping[str, Any]] | None:
    """Definitions by name; ``None`` where this is no list of them."""
    if not isinstance(tools, list):
        return None
    found: dict[Any, Mapping[str, Any]] = {}
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, dict) else None
        name = inner.get("name") if isinstance(inner, dict) else None
        if not isinstance(name, str) or not isinstance(inner, dict):
            return None
        found[name] = inner
    return found


def _has_nulls(value: Any) -> bool:
    """Whether a schema holds a null where none has a meaning: a default may be null, and an enum may hold it."""
    if isinstance(value, dict):
        return any(
            (inner is None and name != "default") or (name not in ("default", "enum", "const") and _has_nulls(inner))
            for name, inner in value.items()
        )
    return isinstance(value, list) and any(_has_nulls(inner) for inner in value)
