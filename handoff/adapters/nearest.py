"""What an unreadable record looks most like, so that its refusal can say something useful.

Content decides, never the file's name. The order matters: the first test that fits names the format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handoff.framing.record import Record, first_item

Line = dict[str, Any]
_Test = tuple[str, Callable[[Line], bool]]

_ITEM: tuple[_Test, ...] = (
    ("adp", lambda item: "class_" in item),
    ("chat", lambda item: {"role", "mask"} <= item.keys() or {"from", "value"} <= item.keys()),
    ("openhands_sdk", lambda item: isinstance(item.get("kind"), str) and item["kind"].endswith("Event")),
    (
        "openhands_events",
        lambda item: (
            ("action" in item or "observation" in item) and ("source" in item or "args" in item or "extras" in item)
        ),
    ),
    ("cline_classic", lambda item: "ts" in item and item.get("type") in ("say", "ask")),
    ("chat", lambda item: "role" in item and "content" in item),
    ("sweagent", lambda item: {"action", "observation"} <= item.keys()),
)


def nearest(record: Record) -> str | None:
    """The format a record looks most like; ``None`` when it looks like none."""
    if record.form != "json":
        return None
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
    if (record.peek("schema_version") or "").startswith("ATIF-v"):
        return "atif"
    if (record.peek("trajectory_format") or "").startswith("mini-swe-agent"):
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
        return "openhands_output"
    if "conversations" in keys:
        return "chat"
    if {"kind", "source"} <= keys or (record.peek("kind") or "").endswith("Event"):
        return "openhands_sdk"
    if "gold_files" in keys:
        return "aider"
    return None


def _of_item(item: Line) -> str | None:
    return next((name for name, test in _ITEM if test(item)), None)
