"""Which JSON lines belong together: the lines of a session are one record, rows of a data set are not.

Content decides, never the file's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Line = dict[str, Any]

_CODEX = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CLAUDE = ("summary", "file-history-snapshot", "queue-operation")

_TESTS: tuple[Callable[[Line], bool], ...] = (
    # Codex CLI: rollouts, the older form of them, and what `codex exec --json` prints.
    lambda line: line.get("type") in _CODEX and "payload" in line,
    lambda line: {"id", "timestamp", "instructions"} <= line.keys() and "type" not in line,
    lambda line: line.get("record_type") == "state",
    lambda line: isinstance(line.get("type"), str) and line["type"].startswith(("thread.", "turn.", "item.")),
    # Claude Code
    lambda line: "sessionId" in line and ("parentUuid" in line or line.get("type") in _CLAUDE),
    lambda line: line.get("type") in _CLAUDE and ("leafUuid" in line or "messageId" in line),
    lambda line: line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict),
    lambda line: is_stream_event(line),
    # pi
    lambda line: line.get("type") == "session" and "cwd" in line,
    # OpenHands
    lambda line: is_event(line) and "kind" in line,
    # Gemini CLI writes its messages as lines in newer versions.
    lambda line: {"sessionId", "projectHash"} <= line.keys() and "messages" not in line,
)

_SIDE: tuple[tuple[str, frozenset[str]], ...] = (
    ("Entire metadata", frozenset(("checkpoint_id", "session_id", "files_touched"))),
    ("OpenHands base state", frozenset(("id", "agent", "workspace", "persistence_dir"))),
    ("Cline task metadata", frozenset(("files_in_context", "model_usage"))),
    ("Cline compaction", frozenset(("source_message_count", "messages"))),
    ("Cline session", frozenset(("session_id", "source", "started_at", "status", "provider"))),
    ("Aider benchmark result", frozenset(("model_patch", "edit_outcome", "lint_outcome"))),
)


def are_session(lines: Sequence[Line]) -> bool:
    """True when these lines, shallow, are events of one session: then the file is one run, not one run per line."""
    return any(test(line) for line in lines for test in _TESTS)


def is_event(item: Line) -> bool:
    """True for what only makes sense as part of one conversation."""
    if isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item):
        return True
    if is_stream_event(item):
        return True
    kind = item.get("kind")
    if isinstance(kind, str) and (kind.endswith("Event") or kind in _OPENHANDS):
        return True
    if "ts" in item and item.get("type") in ("say", "ask"):
        return True  # what Cline's interface showed
    return isinstance(item.get("action", item.get("observation")), str) and bool(
        {"source", "args", "extras"} & item.keys()
    )


def is_stream_event(item: Line) -> bool:
    """True for what a printing Claude Code says of itself, first of all; runners collect such lines in an array."""
    return item.get("type") == "system" and {"subtype", "session_id"} <= item.keys()


_OPENHANDS = frozenset(("AgentErrorEvent", "Condensation", "CondensationRequest", "UserRejectObservation"))


def side_file(keys: frozenset[str]) -> str | None:
    """What a small JSON object describes, when it only describes the run in the file beside it."""
    return next((name for name, marks in _SIDE if marks <= keys), None)
