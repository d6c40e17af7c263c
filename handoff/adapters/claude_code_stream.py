"""What ``claude -p --output-format stream-json`` prints: JSON lines, or one array where a runner collected them.

::

    {"type": "system", "subtype": "init", "session_id": "s1", "cwd": "/src/demo", "model": "…", "tools": ["Bash"]}
    {"type": "user", "message": {"role": "user", "content": "Fix the pager."}, "session_id": "s1", "isReplay": true}
    {"type": "assistant", "message": {"id": "msg_1", "content": […], "usage": {…}}, "parent_tool_use_id": null, …}
    {"type": "result", "subtype": "success", "is_error": false, "num_turns": 3, "total_cost_usd": 0.04, …}

The stream holds the prompt only when it was asked to replay it. Lines of a subagent name the call that started it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from handoff.adapters import values
from handoff.adapters.claude import Line, Said, Thread
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP, Repeated, Unhoused, Upkeep
from handoff.framing.record import Row
from handoff.trajectory import Outcome, Trajectory

_KINDS = ("system", "assistant", "user", "result")


class Look(msgspec.Struct, gc=False):
    """A first look at a line, which is no reading."""

    type: Any = None
    subtype: Any = None


class Event(msgspec.Struct, gc=False):
    """One line."""

    type: str
    subtype: str | None = None
    message: Said | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    uuid: str | None = None
    timestamp: Any = None
    is_synthetic: Any = msgspec.field(default=None, name="isSynthetic")
    tool_use_result: msgspec.Raw = NOTHING
    cwd: str | None = None
    claude_code_version: str | None = None
    is_error: Any = None
    total_cost_usd: Any = None
    num_turns: Any = None
    compact_metadata: Unhoused = NOTHING
    model: Repeated = NOTHING
    result: Repeated = NOTHING
    usage: Repeated = NOTHING
    model_usage: Repeated = msgspec.field(default=NOTHING, name="modelUsage")
    permission_denials: Repeated = NOTHING
    is_replay: Upkeep = msgspec.field(default=NOTHING, name="isReplay")
    permission_mode: Unhoused = msgspec.field(default=NOTHING, name="permissionMode")
    api_key_source: Upkeep = msgspec.field(default=NOTHING, name="apiKeySource")
    duration_ms: Unhoused = NOTHING
    duration_api_ms: Unhoused = NOTHING
    tools: Upkeep = NOTHING
    mcp_servers: Upkeep = NOTHING
    slash_commands: Upkeep = NOTHING
    output_style: Upkeep = NOTHING
    agents: Upkeep = NOTHING
    skills: Upkeep = NOTHING
    plugins: Upkeep = NOTHING
    stop_reason: Upkeep = NOTHING
    request_id: Upkeep = NOTHING


_LOOK = msgspec.json.Decoder(Look)


class ClaudeCodeStream:
    """Reads printed streams."""

    format = "claude_code_stream"

    def recognises(self, record: Record) -> bool:
        """Events with ``session_id`` where a session file would have ``sessionId``."""
        looks = [record.first()] if record.is_array else record.opening()
        return any(look.get("type") in _KINDS and "session_id" in look and "sessionId" not in look for look in looks)

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The main run, then subagents; ``RecordError`` when the prompt is not in it, or no reply."""
        main = Thread(record)
        children: dict[str, Thread] = {}
        outcome: Outcome | None = None
        is_summary = False
        for event in _events(record):
            thread = main
            if event.parent_tool_use_id:
                thread = children.setdefault(event.parent_tool_use_id, Thread(record))
            if event.type in ("user", "assistant"):
                thread.add(_line(event, is_summary=is_summary))
                is_summary = False
            elif event.type == "result":
                outcome = _outcome(event)
                main.facts["cost_usd"] = values.real(event.total_cost_usd)
                main.facts["turns"] = values.whole(event.num_turns)
            elif event.subtype == "compact_boundary":
                thread.happened("compaction")
                is_summary = True
            elif event.subtype == "init":
                main.facts.setdefault("cwd", event.cwd)
                main.facts.setdefault(
                    "versions", {event.claude_code_version: True} if event.claude_code_version else {}
                )
        if not main.has_human:
            raise RecordError(
                "The prompt is not in the stream, so the task is missing.",
                remedy="Print it with --replay-user-messages, or give the session's own file.",
            )
        runs = [main.trajectory(self.format, outcome=outcome)]
        prompts = {call: prompt for prompt, call in main.prompts.items()}
        for call, child in children.items():
            child.facts["call"] = call
            if not child.has_human and call in prompts:
                child.begin(prompts[call])
            try:
                runs.append(child.trajectory(self.format, parent=main.session))
            except RecordError as error:
                record.problem(error)
        return tuple(runs)


def _events(record: Record) -> Iterator[Event]:
    rows: Iterator[Row] = (
        (Row(number, bytes(raw)) for number, raw in enumerate(record.decode(list[msgspec.Raw]), 1))
        if record.is_array
        else record.rows()
    )
    for row in rows:
        try:
            look = _LOOK.decode(row.data)
        except (msgspec.DecodeError, RecursionError):
            look = Look()
        if isinstance(look.type, str) and look.type not in _KINDS:
            is_partial = look.type == "stream_event"
            record.lost(f"$[type={look.type[:60]}]", reason=REPEATED if is_partial else None)
        elif look.type == "system" and look.subtype not in ("init", "compact_boundary"):
            record.lost(f"$[type=system, subtype={str(look.subtype)[:60]}]", reason=UPKEEP)
        elif (event := record.part(row, Event)) is not None:
            yield event


def _line(event: Event, *, is_summary: bool) -> Line:
    return Line(
        type=event.type,
        message=event.message,
        uuid=event.uuid,
        session_id=event.session_id,
        timestamp=event.timestamp,
        is_meta=event.is_synthetic,
        is_compact_summary=is_summary and event.is_synthetic,
        tool_use_result=event.tool_use_result,
    )


def _outcome(event: Event) -> Outcome:
    is_failed = event.is_error is True and event.subtype == "success"
    return Outcome(exit_status=event.subtype, ended="error" if is_failed else values.ended(event.subtype))
