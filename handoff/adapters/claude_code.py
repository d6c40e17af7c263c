"""Claude Code sessions: JSON lines, one file a session, older versions with subagents inline, newer ones beside.

::

    {"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s1", "version": "2.1.7", "cwd": "/src/demo",
     "message": {"role": "user", "content": "Fix the pager."}}
    {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "s1",
     "message": {"id": "msg_1", "model": "claude-…", "content": [{"type": "tool_use", "id": "toolu_1", …}], "usage": {…}}}
    {"type": "user", "uuid": "u3", "parentUuid": "u2", "sessionId": "s1", "toolUseResult": {…},
     "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "…"}]}}

The order of lines is the order of events. ``parentUuid`` is no chain to walk: siblings of parallel calls and progress
lines fork it. It says only which subagent a line belongs to, and where a human went back and asked anew. A line
whose ``uuid`` was seen before is a copy. ``/clear`` begins another run of the same record.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec

from handoff.adapters.claude import Block, Line, Origin, Place, Thread, command_in, said_in
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP, Repeated, Upkeep
from handoff.trajectory import Trajectory

_UPKEEP = frozenset(
    (
        *("summary", "file-history-snapshot", "progress", "last-prompt", "ai-title", "custom-title", "task-summary"),
        *("tag", "agent-name", "agent-color", "agent-setting", "pr-link", "mode", "permission-mode"),
        *("worktree-state", "attribution-snapshot", "speculation-accept", "bridge-session"),
    )
)
"""Types of lines that say nothing about the conversation; titles may even be another session's."""

_SYSTEM_UPKEEP = frozenset(("stop_hook_summary", "turn_duration", "api_error", "informational", "away_summary"))

_LISTINGS = frozenset(
    (
        *("skill_listing", "agent_listing_delta", "deferred_tools_delta", "mcp_instructions_delta", "date_change"),
        *("command_permissions", "todo_reminder", "task_reminder", "total_tokens_reminder", "hook_cancelled"),
        *("hook_success", "hook_non_blocking_error", "hook_system_message", "hook_permission_decision"),
    )
)
"""Attachments with what the client can do, or that it did something: the same for every run."""


class Head(msgspec.Struct, gc=False, rename="camel"):
    """A first look at a line, which is no reading."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = None
    agent_id: Any = None
    data: Hook | None = None
    attachment: Hook | None = None


class Hook(msgspec.Struct, gc=False, rename="camel"):
    """What a progress line or an attachment is about."""

    type: Any = None
    hook_name: Any = None


class System(Place, gc=False, rename="camel"):
    """A line of the client about the conversation."""

    subtype: str | None = None
    content: str | None = None


class Queued(Place, gc=False, rename="camel"):
    """A message typed while the agent worked."""

    operation: str | None = None
    content: str | list[Block] | None = None


class Blocking(msgspec.Struct, gc=False, rename="camel"):
    """Why a hook objected."""

    blocking_error: str | None = None
    command: Upkeep = NOTHING


class Attachment(msgspec.Struct, gc=False, rename="camel"):
    """What the client put into the conversation beside messages and results."""

    type: str = ""
    prompt: str | list[Block] | None = None
    content: str | list[str] | None = None
    filename: str | None = None
    snippet: str | None = None
    blocking_error: Blocking | None = None
    command_mode: str | None = None
    origin: Origin | None = None
    is_meta: Any = None
    display_path: Repeated = NOTHING
    hook_name: Upkeep = NOTHING
    hook_event: Upkeep = NOTHING
    tool_use_id: Upkeep = msgspec.field(default=NOTHING, name="toolUseID")
    source_uuid: Upkeep = msgspec.field(default=NOTHING, name="source_uuid")
    image_paste_ids: Upkeep = NOTHING


class Attached(Place, gc=False, rename="camel"):
    """A line with an attachment."""

    attachment: Attachment | None = None


class Checkpoint(msgspec.Struct, gc=False):
    """What Entire keeps beside a session. Files touched and the commit made of them are answers, and are not read."""

    checkpoint_id: str | None = None
    session_id: str | None = None
    branch: str | None = None


_HEAD = msgspec.json.Decoder(Head)
_CHECKPOINT = msgspec.json.Decoder(Checkpoint)


class ClaudeCode:
    """Reads Claude Code sessions and subagent files."""

    format = "claude_code"

    def recognises(self, record: Record) -> bool:
        """Lines of a session by their keys; some files begin with many that carry only a title or a snapshot."""
        return any(
            ("sessionId" in line and ("parentUuid" in line or line.get("type") == "queue-operation"))
            or (line.get("type") == "summary" and "leafUuid" in line)
            or (line.get("type") == "file-history-snapshot" and "snapshot" in line)
            for line in record.opening(20)
        )

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The main run, what followed each ``/clear``, then subagents; ``RecordError`` when nothing is a run."""
        session = _Session(record)
        for row in record.rows():
            try:
                head = _HEAD.decode(row.data)
            except (msgspec.DecodeError, RecursionError):
                head = Head()
            if head.type in ("user", "assistant", None):
                line = record.part(row, Line)
                if line is not None:
                    session.talk(line)
            elif isinstance(head.type, str):
                session.aside(head, row.line, record)
        return session.runs(self.format)


class _Session:
    """The threads of one file."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.main = [Thread(record)]
        self.children: dict[str, Thread] = {}
        self._seen: set[str] = set()
        self._roots: dict[str, str] = {}
        self._queued: list[str] = []
        self._delivered: set[str] = set()
