"""What an unreadable record looks most like, so that its refusal can say something useful.

Content decides, never the file's name. The order matters: the first test that fits names the format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from handoff.adapters.record import Record, first_item

_CODEX = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
_CLAUDE = frozenset(("summary", "file-history-snapshot", "queue-operation"))

Line = dict[str, Any]
_Test = tuple[str, Callable[[Line], bool]]

_SESSION_LINES: tuple[_Test, ...] = (
    ("codex", lambda line: line.get("type") in _CODEX and "payload" in line),
    ("codex_legacy", lambda line: {"id", "timestamp", "instructions"} <= line.keys() and "type" not in line),
    ("codex_legacy", lambda line: line.get("record_type") == "state"),
    ("claude_code", lambda line: "sessionId" in line and ("parentUuid" in line or line.get("type") in _CLAUDE)),
    ("claude_code", lambda line: line.get("type") in _CLAUDE and ("leafUuid" in line or "messageId" in line)),
    ("claude_code", lambda line: line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)),
    ("pi", lambda line: line.get("type") == "session" and "cwd" in line),
    ("openhands_sdk", lambda line: isinstance(line.get("kind"), str) and line["kind"].endswith("Event")),
    ("gemini_cli", lambda line: {"sessionId", "projectHash"} <= line.keys()),
    (
        "codex",
        lambda line: isinstance(line.get("type"), str) and line["type"].startswith(("thread.", "turn.", "item.")),
    ),
)
"""Formats in which a whole file of lines is one run."""

_ITEM: tuple[_Test, ...] = (
    ("adp_standardized", lambda item: "class_" in item),
    ("nebius_swe_agent_rows", lambda item: {"role", "mask"} <= item.keys() or {"role", "system_prompt"} <= item.keys()),
    ("openhands_sdk", lambda item: isinstance(item.get("kind"), str) and item["kind"].endswith("Event")),
    (
        "openhands_v0_events",
        lambda item: (
            ("action" in item or "observation" in item) and ("source" in item or "args" in item or "extras" in item)
        ),
    ),
    ("chat", lambda item: "role" in item and "content" in item),
    ("sweagent", lambda item: {"action", "observation"} <= item.keys()),
)


def session_of_lines(lines: Sequence[Line]) -> str | None:
    """The session format whose lines these are: then the file is one run, not one run per line."""
    for line in lines:
        for name, test in _SESSION_LINES:
            if test(line):
                return name
    return None


def nearest(record: Record) -> str | None:
    """The format a record looks most like; ``None`` when it looks like none."""
    if record.is_array:
        return _of_item(record.first())
    keys = record.keys
    whole = _of_keys(frozenset(keys), record)
    if whole:
        return whole
    for name in ("content", "trajectory", "messages", "history", "steps", "events"):
        if name in keys:
            found = _of_item(first_item(bytes(keys[name])))
            if found:
                return found
    return None


def _of_keys(keys: frozenset[str], record: Record) -> str | None:
    if (record.text("schema_version") or "").startswith("ATIF-v"):
        return "atif"
    if (record.text("trajectory_format") or "").startswith("mini-swe-agent"):
        return "mini_swe_agent"
    if {"sessionId", "projectHash"} <= keys:
        return "gemini_cli"
    if {"eval", "plan", "samples"} <= keys:
        return "inspect"
    if "loglines" in keys:
        return "claude_code_web"
    if {"messages", "agent"} <= keys and {"sessionId", "system_prompt"} & keys:
        return "cline"
    if {"history", "test_result"} <= keys or {"history", "git_patch"} <= keys:
        return "openhands_v0_output"
    if "conversations" in keys:
        return "sharegpt"
    if "messages" in keys and {"response", "kwargs"} & keys:
        return "llm_call_log"
    if {"kind", "source"} <= keys or (record.text("kind") or "").endswith("Event"):
        return "openhands_sdk"
    if {"gold_files", "model_patch"} & keys:
        return "aider"
    return session_of_lines([shallow(record)])


def _of_item(item: Line) -> str | None:
    return next((name for name, test in _ITEM if test(item)), None)


def shallow(record: Record) -> Line:
    """Top-level strings and the presence of everything else."""
    line: Line = {}
    for key, raw in record.keys.items():
        data = bytes(raw)
        if data[:1] == b'"' and len(data) < 300:
            line[key] = msgspec.json.decode(data)
        else:
            line[key] = {} if data[:1] == b"{" else None
    return line
