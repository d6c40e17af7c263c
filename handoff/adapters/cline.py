"""Sessions of the Cline SDK (the command line and newer editors): ``<session>.messages.json``.

::

    {"version": 1, "agent": "lead", "sessionId": "17…_k3xq", "system_prompt": "…", "messages": [
      {"role": "user", "ts": 1767607200000, "content": [{"type": "text", "text": "Fix it."}]},
      {"role": "assistant", "ts": 1767607204000, "modelInfo": {"id": "…"}, "metrics": {"inputTokens": 900, …},
       "content": [{"type": "tool_use", "id": "c1", "name": "run_commands", "input": {"commands": ["ls"]}}]},
      {"role": "user", "ts": 1767607205000, "content": [{"type": "tool_result", "tool_use_id": "c1",
       "name": "run_commands", "content": [{"query": "ls", "result": "core.py", "success": true}]}]}]}

The session's record beside it tells where it ran, how it ended and which session it was forked from; a fork begins
with that session's messages. A compaction replaces the working context only: it is written beside the session, whose
own messages stay. Given alone it is a copy, so it is no run. Tasks of the older extension are in ``cline_classic.py``.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from handoff.adapters import values
from handoff.adapters.calls import arguments_of
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, Repeated, Unhoused, Upkeep
from handoff.trajectory import Action, Outcome, Trajectory, Usage

_STEM = ".messages.json"
_BESIDE = "session.json"

T = TypeVar("T")


class Part(msgspec.Struct, gc=False):
    """One part of a content list, or one operation of a result."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: Any = None
    path: str | None = None
    data: str | None = None
    mime: str | None = msgspec.field(default=None, name="mediaType")
    query: str | None = None
    result: msgspec.Raw = NOTHING
    error: str | None = None
    success: Any = None
    duration: Unhoused = NOTHING
    signature: Upkeep = NOTHING
    call_id: Repeated = NOTHING


_PART = msgspec.json.Decoder(Part)
_PARTS = msgspec.json.Decoder(list[Part])


class Model(msgspec.Struct, gc=False):
    """Who replied."""

    id: str | None = None
    provider: Upkeep = NOTHING
    family: Upkeep = NOTHING


class Metrics(msgspec.Struct, gc=False):
    """Tokens and dollars of a reply; ``inputTokens`` counts what the cache held as well."""

    input: Any = msgspec.field(default=None, name="inputTokens")
    output: Any = msgspec.field(default=None, name="outputTokens")
    cached: Any = msgspec.field(default=None, name="cacheReadTokens")
    written: Unhoused = msgspec.field(default=NOTHING, name="cacheWriteTokens")
    cost: Any = None


class Note(msgspec.Struct, gc=False):
    """``metadata`` of a message."""

    kind: Any = None
    display: Any = msgspec.field(default=None, name="displayRole")
    summary: Repeated = NOTHING


class Turn(msgspec.Struct, gc=False):
    """One message."""

    role: str
    content: str | list[Part] | None = None
    ts: Any = None
    model: Model | None = msgspec.field(default=None, name="modelInfo")
    metrics: Metrics | None = None
    metadata: Note | None = None
    id: Upkeep = NOTHING
    agent: Repeated = NOTHING
    session: Repeated = msgspec.field(default=NOTHING, name="sessionId")


class Messages(msgspec.Struct, gc=False):
    """The file."""

    messages: list[Turn]
    session: str | None = msgspec.field(default=None, name="sessionId")
    agent: Any = None
    prompt: str | None = msgspec.field(default=None, name="system_prompt")
    version: Upkeep = NOTHING
    updated_at: Upkeep = NOTHING


class Fork(msgspec.Struct, gc=False):
    """Where a session was forked from."""

    session: str | None = msgspec.field(default=None, name="forkedFromSessionId")
    at: str | None = msgspec.field(default=None, name="forkedAt")


class Origin(msgspec.Struct, gc=False):
    """``metadata`` of the session's record."""

    fork: Fork | None = None


class Session(msgspec.Struct, gc=False):
    """The session's record; only what it adds is read."""

    session_id: str
    cwd: str | None = None
    source: str | None = None
    status: str | None = None
    interactive: Any = None
    metadata: Origin | None = None


class Compaction(msgspec.Struct, gc=False):
    """The working context after a compaction of the first ``source_message_count`` messages."""

    source_message_count: int
    messages: list[Turn]


class Cline:
    """Reads sessions of the Cline SDK."""

    format = "cline"

    def recognises(self, record: Record) -> bool:
        """By its keys, and by what the keys of its first message are."""
        return {"sessionId", "agent", "messages"} <= record.keys.keys() and "role" in record.first("messages")

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The session, alone; ``RecordError`` when a field does not fit or there is no reply."""
        file = record.decode(Messages)
        if file.messages and _kind(file.messages[0]).startswith("compaction"):
            raise RecordError(
                "This is the context that a compaction left, not the session.",
                field="$.messages[0].metadata.kind",
                remedy="Give the session's own .messages.json; the messages here are copies or a summary of it.",
            )
        stem = PurePath(record.file).name.removesuffix(_STEM)
        session = _session(record, stem, file.session)
        fork = session.metadata.fork if session.metadata is not None else None
        forked = _milliseconds(fork.at) if fork is not None and fork.session else None
        talk, copied = _read(record, file, _compaction(record, stem), forked)
        steps = talk.steps()
        task = next((m.text for m in talk.preamble if m.role == "user"), "")
        if not steps or not task:
            raise RecordError(
                "No reply of the model is in it." if task else "No human message comes before the first reply.",
                field="$.messages",
                remedy="The session ended before anything happened; leave the file out.",
            )
        # A human closes an interactive session whenever it pleases: "completed" says nothing about the task.
        ended = values.ended(session.status) if session.interactive is False else None
        return (
            Trajectory(
                format=self.format,
                task=task,
                agent="cline",
                model=next((step.model for step in steps if step.model), None),
                preamble=tuple(talk.preamble),
                steps=steps,
                session=file.session,
                continues=fork.session if fork is not None else None,
                copied_steps=copied,
                outcome=Outcome(exit_status=session.status, ended="cut_off" if talk.awaits_result else ended),
                source=values.facts(cwd=session.cwd, client=session.source, role=file.agent, repairs=record.repairs),
            ),
        )


def _session(record: Record, stem: str, session_id: str | None) -> Session:
    """The session's record beside the file, where it names the same session."""
    for name in (f"{stem}.json", _BESIDE):
        data = record.beside(name)
        found = _side(data, Session)
        if found is not None and found.session_id == session_id:
            return found
    return Session(session_id="")


def _compaction(record: Record, stem: str) -> Compaction | None:
    return _side(record.beside(f"{stem}.compaction.json"), Compaction)


def _read(
    record: Record, file: Messages, compaction: Compaction | None, forked: int | None
) -> tuple[Conversation, int]:
    """The conversation, and how many of its leading replies are older than the fork."""
    talk = Conversation()
    copied = replies = 0
    model: str | None = None
    if file.prompt:
        talk.message("system", file.prompt)
    for number, turn in enumerate(file.messages):
        if compaction is not None and number == compaction.source_message_count:
            _compact(talk, compaction)
        if turn.role == "assistant":
            name = turn.model.id if turn.model is not None else None
            if name and model and name != model:
                talk.boundary("agent_switch")
            model = name or model
            _reply(talk, turn, name)
            replies += 1
            time = values.whole(turn.ts)
            if forked is not None and time is not None and time < forked and copied == replies - 1:
                copied += 1
        elif turn.role == "user":
            _heard(record, talk, turn)
        else:
            record.lost(f"$.messages[role={turn.role}]")
    if compaction is not None and compaction.source_message_count == len(file.messages):
        _compact(talk, compaction)
    elif compaction is not None and compaction.source_message_count > len(file.messages):
        record.lost("(compaction of messages that are not here)")
    return talk, copied


def _compact(talk: Conversation, compaction: Compaction) -> None:
    talk.boundary("compaction")
    for turn in compaction.messages:
        if _kind(turn) == "compaction_summary":
            talk.message("context_summary", _text(turn.content))
        elif _kind(turn) == "compaction":
            talk.message("context_summary", "\n".join(_notices(turn)))


def _notices(turn: Turn) -> list[str]:
    """What a compaction without a model's summary adds to the first message: what was read, edited and run."""
    parts = turn.content if isinstance(turn.content, list) else []
    return [part.text for part in parts if part.text and part.text.startswith("<SYSTEM_NOTICE>")]


def _reply(talk: Conversation, turn: Turn, model: str | None) -> None:
    parts = turn.content if isinstance(turn.content, list) else []
    actions = []
    for part in parts:
        if part.type == "tool_use":
            arguments, is_text = arguments_of(part.input)
            actions.append(Action(call_id=part.id or None, tool=part.name or "", arguments=arguments, is_text=is_text))
    metrics = turn.metrics or Metrics()
    talk.reply(
        _text(turn.content),
        thought="\n".join(part.thinking for part in parts if part.thinking),
        actions=tuple(actions),
        model=model,
        usage=_usage(metrics),
        cost=values.real(metrics.cost) or None,
        timestamp=values.stamp(turn.ts),
    )


def _heard(record: Record, talk: Conversation, turn: Turn) -> None:
    """Results, and what the human or the client says."""
    rest: list[Part] = []
    for part in turn.content if isinstance(turn.content, list) else ():
        if part.type == "tool_result":
            text, error = _result(record, part)
            talk.result(part.tool_use_id, text, error=error)
        else:
            rest.append(part)
    text = _text(rest) if isinstance(turn.content, list) else turn.content or ""
    if not text:
        return
    if _kind(turn) == "compaction_summary":
        talk.boundary("compaction")
        talk.message("context_summary", text)
    elif turn.metadata is not None and turn.metadata.display in ("system", "status"):
        talk.message("harness", text)
    else:
        talk.message("user", text)


def _result(record: Record, part: Part) -> tuple[str, bool | None]:
    """Text and error flag of a result: its operations, or its parts, or plain text that may hold either as JSON."""
    error = values.flag(part.is_error)
    raw = bytes(part.content)
    text = msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else ""
    if raw in (b"null", b"") or (text and not text.startswith(('{"query"', '[{"query"'))):
        return text, error
    found = _operations(text.encode() or raw)
    if found is None:
        if not text:
            record.lost("$.messages[].content[].content")
        return text, error
    flags = [flag for flag in (values.flag(item.success) for item in found) if flag is not None]
    if flags and not error:
        error = not all(flags)
    if len(found) == 1:
        return _shown(found[0]), error
    return "\n".join(f"{item.query}\n{_shown(item)}" if item.query else _shown(item) for item in found), error


def _operations(raw: bytes) -> list[Part] | None:
    try:
        return _PARTS.decode(raw) if raw[:1] == b"[" else [_PART.decode(raw)]
    except (msgspec.DecodeError, RecursionError):
        return None


def _shown(part: Part) -> str:
    """A part of a message, or what an operation gave, as text."""
    if part.type == "file":
        content = bytes(part.content)
        text = msgspec.json.decode(content, type=str) if content[:1] == b'"' else ""
        return f'<file_content path="{part.path or ""}">\n{text}\n</file_content>'
    if part.type in ("image", "media"):
        return values.media(part.type, (part.data or "").encode(), part.mime)
    result = bytes(part.result)
    if result[:1] == b'"':
        text = msgspec.json.decode(result, type=str)
    elif result[:1] == b"[":
        text = "\n".join(_shown(item) for item in _operations(result) or ())
    else:
        text = part.text or ("" if result == b"null" else result.decode("utf-8", "replace"))
    return "\n".join(said for said in (text, part.error) if said)


def _text(content: str | list[Part] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    return "\n".join(said for part in content if (said := _shown(part)))


def _kind(turn: Turn) -> str:
    """What the client marked a message as; empty for what was said."""
    kind = turn.metadata.kind if turn.metadata is not None else None
    return kind if isinstance(kind, str) else ""


def _usage(metrics: Metrics) -> Usage | None:
    prompt, cached, completion = (values.whole(n) for n in (metrics.input, metrics.cached, metrics.output))
    return Usage(prompt=prompt, cached=cached, completion=completion) if prompt or completion else None


def _side(data: bytes | None, kind: type[T]) -> T | None:
    """A file beside the session; one that is something else says nothing."""
    try:
        return msgspec.json.decode(data, type=kind) if data is not None else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _milliseconds(time: str | None) -> int | None:
    """A time in ISO 8601 as the messages count it."""
    try:
        return int(datetime.fromisoformat(time or "").timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None
