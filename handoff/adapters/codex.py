"""Codex CLI rollouts: one session, one JSON line for each thing that happened.

::

    {"timestamp": "…", "type": "session_meta", "payload": {"id": "…", "cwd": "/src/app", "cli_version": "0.125.0", "git": {…}}}
    {"timestamp": "…", "type": "turn_context", "payload": {"model": "gpt-5.1-codex", …}}
    {"timestamp": "…", "type": "response_item", "payload": {"type": "function_call", "name": "exec_command",
     "arguments": "{\\"cmd\\": \\"ls\\"}", "call_id": "call_1"}}
    {"timestamp": "…", "type": "response_item", "payload": {"type": "function_call_output", "call_id": "call_1", "output": "…"}}
    {"timestamp": "…", "type": "event_msg", "payload": {"type": "token_count", "info": {…}}}

Items say what the model was told and said, events what the client saw: content comes from items; tokens, exit codes and
what became of a turn from events. A reply is what stands between two results or counts of tokens. A command that still
runs when its call returns is answered by later polls: its whole output and its exit code belong to the call that
started it, and each poll keeps its own answer. Turns that were taken back stay, their edits did. Rollouts of 2025 hold
the bare items.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from handoff.adapters import codex_lines as lines
from handoff.adapters import values
from handoff.adapters.calls import arguments_of, is_object
from handoff.adapters.conversation import Conversation, Role
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP
from handoff.framing.record import Row
from handoff.identity import canonical_json
from handoff.trajectory import Action, Ending, Outcome, Trajectory, Usage

_TYPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_CONTEXT = frozenset(
    (
        *("environment_context", "user_instructions", "skill", "user_shell_command", "turn_aborted", "user_action"),
        *("subagent_notification", "additional_context", "permissions instructions", "collaboration_mode"),
        *("INSTRUCTIONS", "hook_prompt", "goal_context", "skills_instructions", "plugins_instructions"),
        *("apps_instructions", "model_switch", "personality_spec", "environments", "recommended_plugins"),
    )
)
"""Tags of what the client puts into the conversation in the user's name."""
_AGENTS_MD = "# AGENTS.md instructions"
_TAGGED = re.compile(r"\s*<([A-Za-z_ ]{1,40})[\s>]")
_SUMMARY = "Another language model started to solve this problem and produced a summary"
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

_ITEMS_LEFT = {
    "ghost_snapshot": UPKEEP,
    "compaction_trigger": UPKEEP,
    "additional_tools": UPKEEP,
    "other": UPKEEP,
}
_EVENTS_LEFT = {
    **dict.fromkeys(
        ("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "view_image_tool_call", "image_generation_end"),
        REPEATED,
    ),
    **dict.fromkeys(("exited_review_mode", "plan_update", "dynamic_tool_call_request", "dynamic_tool_call_response"), REPEATED),
    **dict.fromkeys(
        ("task_started", "turn_started", "thread_settings_applied", "thread_name_updated", "session_configured"), UPKEEP
    ),
}
_LINES_LEFT = {"world_state": REPEATED, "inter_agent_communication_metadata": UPKEEP, "security_risk_score": UPKEEP}
_DONE_LEFT = frozenset(("UserMessage", "AgentMessage", "Reasoning", "McpToolCall", "WebSearch", "ContextCompaction"))


class Codex:
    """Reads rollouts of the Codex CLI."""

    format = "codex"

    def recognises(self, record: Record) -> bool:
        """Lines with a payload of a known type, or the header of a rollout of 2025, or what ``codex exec`` prints."""
        opening = record.opening()
        return any(line.get("type") in _TYPES and "payload" in line for line in opening) or (
            bool(opening) and (_is_old(opening[0]) or _is_exec(opening[0]))
        )

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when no reply or no task is in it."""
        opening = record.opening()
        if opening and _is_exec(opening[0]):
            raise RecordError(
                "What `codex exec --json` prints does not hold the task.",
                remedy="Give the rollout that Codex wrote of the same session: a file rollout-….jsonl in its sessions folder.",
            )
        rollout = _Rollout(record, is_old=bool(opening) and _is_old(opening[0]))
        return (rollout.read(self.format),)


def _is_old(line: dict[str, Any]) -> bool:
    return {"id", "timestamp", "instructions"} <= line.keys() and "type" not in line


def _is_exec(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    return isinstance(kind, str) and kind.startswith(("thread.", "turn.", "item."))


class _Said:
    """A message that waits for the next reply. ``role`` is ``None`` while it is open whether a human wrote it."""

    __slots__ = ("is_copy", "role", "text")

    def __init__(self, role: Role | None, text: str, *, is_copy: bool = False) -> None:
        self.role = role
        self.text = text
        self.is_copy = is_copy


class _Reply:
    """A reply still being written."""

    __slots__ = ("actions", "said", "thought", "timestamp", "usage")

    def __init__(self, timestamp: str | None, usage: Usage | None) -> None:
        self.said: list[str] = []
        self.thought: list[str] = []
        self.actions: list[Action] = []
        self.timestamp = timestamp
        self.usage = usage


class _Process:
    """A command that outlived its call."""

    __slots__ = ("code", "first", "is_over", "pieces")

    def __init__(self, first: str, piece: str) -> None:
        self.first = first
        self.pieces = [piece]
        self.code: int | None = None
        self.is_over = False


class _Rollout:
    """The lines of a rollout, read once in order."""

    def __init__(self, record: Record, *, is_old: bool) -> None:
        self.record = record
        self.is_old = is_old
        self.talk = Conversation()
        self.session: lines.Session | None = None
        self.facts: dict[str, Any] = {}
        self.timestamp: str | None = None
        self.reply: _Reply | None = None
        self.steps = 0
        # messages
        self.waiting: list[_Said] = []
        self.is_confirmed = False
        self.summaries: set[str] = set()
        # models and tokens
        self.model: str | None = None
        self.first_model: str | None = None
        self.last_model: str | None = None
        self.has_boundary = False
        self.total = b""
        self.early_usage: Usage | None = None
        # calls
        self.tools: dict[str, str] = {}
        self.unanswered: dict[str, None] = {}
        self.aborted: dict[str, None] = {}
        self.ended: dict[str, lines.Ended] = {}
        self.polls: dict[str, str] = {}
        self.running: dict[str, _Process] = {}
        self.processes: dict[str, _Process] = {}
        self.searches: dict[str, str] = {}
        # the end
        self.status: str | None = None
        self.ending: Ending | None = None
        self.phase: Any = None
        # history copied from another session
        self.is_copy = False
        self.copied = 0
        self.rolled_back: list[list[int | None]] = []
