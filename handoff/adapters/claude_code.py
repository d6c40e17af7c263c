"""Claude Code sessions: JSON lines, one file a session, older versions with subagents inline, newer ones beside.

::

    {"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s1", "version": "2.1.7", "cwd": "/src/demo",
     "message": {"role": "user", "content": "Fix the pager."}}
    {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "s1",
     "message": {"id": "msg_1", "model": "…", "content": [{"type": "tool_use", "id": "toolu_1", …}], "usage": {…}}}
    {"type": "user", "uuid": "u3", "parentUuid": "u2", "sessionId": "s1", "toolUseResult": {…},
     "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "…"}]}}

The order of lines is the order of events. ``parentUuid`` is no chain to walk: siblings of parallel calls and progress
lines fork it. It says only which subagent a line belongs to, and where a human went back and asked anew. A line
whose ``uuid`` was seen before is a copy. ``/clear`` begins another run of the same record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import msgspec

from handoff.adapters.claude import Block, Line, Origin, Place, Said, Thread, command_in, texts_of
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP, Repeated, Unhoused, Upkeep
from handoff.framing.record import Row
from handoff.trajectory import Trajectory

_UPKEEP = frozenset(
    (
        *("summary", "file-history-snapshot", "progress", "last-prompt", "ai-title", "custom-title", "task-summary"),
        *("tag", "agent-name", "agent-color", "agent-setting"),
        *("worktree-state", "attribution-snapshot", "speculation-accept", "bridge-session"),
    )
)
"""Types of lines that say nothing about the conversation; titles may even be another session's."""

_SYSTEM_UPKEEP = frozenset(("stop_hook_summary", "informational", "away_summary"))

_SHOWN = frozenset(
    (
        *("queued_command", "hook_additional_context", "hook_blocking_error", "edited_text_file", "file"),
        *("selected_lines_in_ide", "nested_memory"),
    )
)
"""Attachments whose text the model was shown."""

_LISTINGS = frozenset(
    (
        *("skill_listing", "agent_listing_delta", "deferred_tools_delta", "mcp_instructions_delta", "date_change"),
        *("command_permissions", "todo_reminder", "task_reminder", "total_tokens_reminder", "hook_cancelled"),
        *("hook_success", "hook_non_blocking_error", "hook_system_message", "hook_permission_decision"),
    )
)
"""Attachments with what the client can do, or that it did something."""

_RESUMED = "SessionStart:resume"
_HOOKS_SHOWN = ("SessionStart", "UserPromptSubmit")
"""The hooks whose output the model was shown."""


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


class Worked(msgspec.Struct, gc=False, rename="camel"):
    """A subagent's message, as the client passed it on while the subagent worked."""

    message: Line | None = None
    prompt: str | None = None
    agent_id: str | None = None
    type: Upkeep = NOTHING
    normalized_messages: Repeated = NOTHING


class Progress(Place, gc=False, rename="camel"):
    """A line that repeats what a subagent said or was told; no other line of the file need hold it."""

    data: Worked | None = None
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    tool_use_id: Upkeep = msgspec.field(default=NOTHING, name="toolUseID")


class Queued(Place, gc=False, rename="camel"):
    """A message typed while the agent worked."""

    operation: str | None = None
    content: str | list[Block] | None = None


class Blocking(msgspec.Struct, gc=False, rename="camel"):
    """Why a hook objected."""

    blocking_error: str | None = None
    command: Upkeep = NOTHING


class Shown(msgspec.Struct, gc=False, rename="camel"):
    """A file's text, as it was shown to the model; files that a human named are one level deeper."""

    type: str | None = None
    path: str | None = None
    file_path: str | None = None
    content: str | None = None
    file: Shown | None = None
    num_lines: Upkeep = NOTHING
    start_line: Upkeep = NOTHING
    total_lines: Upkeep = NOTHING


class Attachment(msgspec.Struct, gc=False, rename="camel"):
    """What the client put into the conversation beside messages and results."""

    type: str = ""
    prompt: str | list[Block] | None = None
    content: str | list[str] | Shown | None = None
    filename: str | None = None
    snippet: str | None = None
    blocking_error: Blocking | None = None
    command_mode: str | None = None
    origin: Origin | None = None
    is_meta: Any = None
    path: Repeated = NOTHING
    display_path: Repeated = NOTHING
    stdout: Repeated = NOTHING
    stderr: Unhoused = NOTHING
    exit_code: Unhoused = NOTHING
    command: Upkeep = NOTHING
    duration_ms: Unhoused = NOTHING
    hook_name: Upkeep = NOTHING
    hook_event: Upkeep = NOTHING
    line_start: Upkeep = NOTHING
    line_end: Upkeep = NOTHING
    ide_name: Upkeep = NOTHING
    image_paste_ids: Upkeep = NOTHING
    tool_use_id: Upkeep = msgspec.field(default=NOTHING, name="toolUseID")
    source_uuid: Upkeep = msgspec.field(default=NOTHING, name="source_uuid")


class Attached(Place, gc=False, rename="camel"):
    """A line with an attachment."""

    attachment: Attachment | None = None


class Checkpoint(msgspec.Struct, gc=False):
    """What Entire keeps beside a session. Files touched and the commit made of them are answers, and are not read."""

    checkpoint_id: str | None = None
    session_id: str | None = None


_MOST_TOGETHER = 8
_STDLIB = json.JSONDecoder()
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
        session = Session(record)
        for row, head in _looks(record):
            if head.type in ("user", "assistant") or not isinstance(head.type, str):
                line = record.part(row, Line)
                if line is not None:
                    session.talk(line)
            else:
                session.aside(head.type, head, row)
        return session.runs(self.format)


def _looks(record: Record) -> Iterator[tuple[Row, Head]]:
    """Each line with a first look at it. Lines that ran together are taken apart; ``Head()``: it cannot be read."""
    for row in record.rows():
        try:
            yield row, _HEAD.decode(row.data)
        except (msgspec.DecodeError, RecursionError):
            parts = _run_together(row)
            for part in parts:
                yield part, _HEAD.decode(part.data)
            if not parts:
                yield row, Head()


def _run_together(row: Row) -> list[Row]:
    """The objects of a line on which another writer's line was put; empty when it is broken in another way."""
    text = row.data.decode("utf-8", "replace")
    parts: list[Row] = []
    end = 0
    try:
        while end < len(text) and len(parts) < _MOST_TOGETHER:
            start = end
            _, end = _STDLIB.raw_decode(text, start)
            parts.append(Row(row.line, text[start:end].encode()))
            _HEAD.decode(parts[-1].data)
    except (ValueError, RecursionError):
        return []
    return parts if len(parts) > 1 and end == len(text) else []


class Session:
    """The threads of one file."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.main = [Thread(record)]
        self.children: dict[str, Thread] = {}
        self._seen: set[str] = set()
        self._roots: dict[str, str] = {}
        self._queued: list[str] = []
        self._delivered: set[str] = set()

    def talk(self, line: Line) -> None:
        """A line of a conversation."""
        if line.type not in ("user", "assistant"):
            self.record.lost(f"$[type={line.type[:60]}]")
            return
        if not self._is_new(line.uuid):
            return
        thread = self._thread(line.uuid, line.parent_uuid, line.is_sidechain is True, line.agent_id)
        if line.type == "user" and line.message is not None:
            for text in texts_of(line.message.content):
                self._delivered.add(text)
                thread = self._after_clear(thread, text)
        thread.add(line)

    def aside(self, kind: str, head: Head, row: Row) -> None:
        """A line that is no message."""
        uuid, parent = head.uuid, head.parent_uuid
        if not self._is_new(uuid):
            return
        agent = head.agent_id if isinstance(head.agent_id, str) else None
        thread = self._thread(uuid, parent, head.is_sidechain is True, agent)
        thread.passed(uuid, parent)
        if kind == "system" and isinstance(head.subtype, str):
            self._system(head.subtype, row, thread)
        elif kind == "attachment":
            self._attachment(head.attachment or Hook(), row, thread)
        elif kind == "queue-operation":
            queued = self.record.part(row, Queued)
            if queued is not None and queued.operation == "enqueue":
                self._queued.append(thread.text_of(queued.content))
        elif kind == "progress" and head.data is not None and head.data.type == "agent_progress":
            self._progress(row)
        else:
            if head.data is not None and head.data.hook_name == _RESUMED:
                thread.happened("resume")
            self.record.lost(f"$[type={kind[:60]}]", reason=UPKEEP if kind in _UPKEEP else None)

    def _progress(self, row: Row) -> None:
        """A message of a subagent that the main file passes on: its thread may be nowhere else."""
        line = self.record.part(row, Progress)
        worked = line.data if line is not None else None
        said = worked.message if worked is not None else None
        if line is None or worked is None or said is None or not worked.agent_id:
            return
        if said.type not in ("user", "assistant") or said.uuid in self._seen:
            return
        if said.uuid:
            self._seen.add(said.uuid)
        said.agent_id = worked.agent_id
        said.session_id = said.session_id or line.session_id
        said.cwd, said.git_branch = said.cwd or line.cwd, said.git_branch or line.git_branch
        said.version = said.version or line.version
        thread = self.children.setdefault(worked.agent_id, Thread(self.record))
        if line.parent_tool_use_id:
            thread.facts.setdefault("call", line.parent_tool_use_id[:100])
        if worked.prompt and not thread.has_human and said.type != "user":
            thread.begin(worked.prompt)
        thread.add(said)

    def runs(self, format_: str) -> tuple[Trajectory, ...]:
        """All runs; ``RecordError`` when there is none."""
        self._read_checkpoint()
        lost = sum(1 for text in self._queued if text and text not in self._delivered)
        if lost:
            self.record.lost("$[type=queue-operation].content (never delivered)", lost)
        found: list[Trajectory] = []
        errors: list[RecordError] = []
        told = {prompt: call for thread in self.main for prompt, call in thread.prompts.items()}
        threads = [(thread, False) for thread in self.main if not thread.is_blank]
        threads += [(thread, True) for thread in self.children.values() if not thread.is_blank]
        if not threads:
            raise RecordError(
                "No message of a human or of the model is in it.", remedy="The session is empty; leave the file out."
            )
        for thread, is_child in threads:
            try:
                found.append(thread.trajectory(format_, parent=thread.session if is_child else None, calls=told))
            except RecordError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        for left_out in errors:
            self.record.problem(left_out)
        return tuple(found)

    def _is_new(self, uuid: Any) -> bool:
        if not isinstance(uuid, str):
            return True
        if uuid in self._seen:
            self.record.lost("$ (a line that the file holds twice)", reason=REPEATED)
            return False
        self._seen.add(uuid)
        return True

    def _thread(self, uuid: Any, parent: Any, is_sidechain: bool, agent_id: str | None) -> Thread:
        """The main conversation, or the subagent that a line belongs to: by its id, else by the root of its chain."""
        if not is_sidechain:
            return self.main[-1]
        key = agent_id
        if key is None and isinstance(uuid, str):
            if isinstance(parent, str) and parent in self._roots:
                key = self._roots[parent]
            elif isinstance(parent, str) and parent not in self._seen and self.children:
                key = next(reversed(self.children))  # the line between is lost
            else:
                key = uuid
            self._roots[uuid] = key
        return self.children.setdefault(key or "", Thread(self.record))

    def _after_clear(self, thread: Thread, text: str) -> Thread:
        """The thread that goes on after this text: ``/clear`` leaves everything before it behind."""
        command = command_in(text)
        if command:
            self._delivered.add(f"/{command}")
        if thread is self.main[-1] and command == "clear" and not thread.is_blank:
            self.main.append(Thread(self.record))
            return self.main[-1]
        return thread

    def _system(self, subtype: str, row: Row, thread: Thread) -> None:
        if subtype not in ("compact_boundary", "local_command"):
            reason = UPKEEP if subtype in _SYSTEM_UPKEEP else None
            self.record.lost(f"$[type=system, subtype={subtype[:60]}]", reason=reason)
            return
        line = self.record.part(row, System)
        if line is None:
            return
        if subtype == "compact_boundary":
            thread.happened("compaction")
        elif line.content:
            thread = self._after_clear(thread, line.content)
            if command_in(line.content):
                thread.command(line.content)
            else:
                thread.say("harness", line.content)

    def _attachment(self, hook: Hook, row: Row, thread: Thread) -> None:
        kind = hook.type if isinstance(hook.type, str) else ""
        name = hook.hook_name if isinstance(hook.hook_name, str) else ""
        if name == _RESUMED:
            thread.happened("resume")
        if kind not in _SHOWN and not (kind == "hook_success" and name.startswith(_HOOKS_SHOWN)):
            reason = UPKEEP if kind in _LISTINGS else None
            self.record.lost(f"$[type=attachment].attachment[type={kind[:60]}]", reason=reason)
            return
        line = self.record.part(row, Attached)
        attached = line.attachment if line is not None else None
        if line is None or attached is None:
            return
        if kind == "queued_command":
            is_task = attached.command_mode == "task-notification"
            text = thread.text_of(attached.prompt)
            self._delivered.add(text)
            thread.add(
                Line(
                    type="user",
                    message=Said(content=attached.prompt),
                    uuid=line.uuid,
                    parent_uuid=line.parent_uuid,
                    session_id=line.session_id,
                    version=line.version,
                    is_meta=attached.is_meta,
                    origin=Origin(kind="task-notification") if is_task else attached.origin,
                )
            )
        else:
            thread.say("harness", _shown(attached))

    def _read_checkpoint(self) -> None:
        """The id of the checkpoint that Entire made of this session: its commit's parent is where the run began."""
        stem = PurePath(self.record.file).stem
        for name in (f"{stem}.metadata.json", "metadata.json"):
            data = self.record.beside(name)
            if data is None:
                continue
            try:
                checkpoint = _CHECKPOINT.decode(data)
            except (msgspec.DecodeError, RecursionError):
                continue
            for thread in self.main:
                if thread.session and (checkpoint.session_id or "").endswith(thread.session):
                    thread.facts["checkpoint"] = checkpoint.checkpoint_id


def _shown(attached: Attachment) -> str:
    content = attached.content
    is_edited = attached.type == "edited_text_file" and attached.filename
    parts = [f"{attached.filename} was modified outside of this session." if is_edited else attached.filename]
    parts.append(attached.snippet)
    if attached.blocking_error is not None:
        parts.append(attached.blocking_error.blocking_error)
    if isinstance(content, Shown):
        file = content.file or content
        parts += [content.path if not attached.filename else None, file.content]
    elif isinstance(content, list):
        parts += content
    else:
        parts.append(content)
    return "\n".join(part for part in parts if part)
