"""pi sessions (also written by OpenClaw, which is built on it): JSON lines, one entry each.

::

    {"type": "session", "version": 3, "id": "5d0c…", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/home/dev"}
    {"type": "message", "id": "a1", "parentId": null, "message": {"role": "user", "content": "Fix it."}}
    {"type": "message", "id": "a2", "parentId": "a1", "message": {"role": "assistant", "stopReason": "toolUse",
      "content": [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {…}}], "usage": {…}}}
    {"type": "message", "id": "a3", "parentId": "a2", "message": {"role": "toolResult", "toolCallId": "c1",
      "content": [{"type": "text", "text": "core.py"}], "isError": false}}

Entries form a tree from version 2 on: a human who goes back to an earlier entry starts a branch. The file is read in
its own order, which is the order of the edits on disk; where a branch leaves replies behind, that is a ``rollback``.
A forked session begins with copies of the entries of the one it came from.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import arguments_of
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, Repeated, Unhoused, Upkeep
from handoff.trajectory import Action, Outcome, Trajectory, Usage

_BASH_CODE = re.compile(r"Command exited with code (\d{1,10})\s*\Z")
_SESSION = re.compile(r"_([0-9a-fA-F-]{36})\.jsonl\Z")
_SKIPPED = "Skipped due to queued user message."
_FAILED = ("aborted", "error")
_UPKEEP = ("label", "session_info", "custom")


class Part(msgspec.Struct, gc=False):
    """One part of a content list: ``text``, ``thinking``, ``toolCall`` or ``image``."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = NOTHING
    data: str | None = None
    mime: str | None = msgspec.field(default=None, name="mimeType")
    signature: Upkeep = msgspec.field(default=NOTHING, name="thinkingSignature")
    text_signature: Upkeep = msgspec.field(default=NOTHING, name="textSignature")
    thought_signature: Upkeep = msgspec.field(default=NOTHING, name="thoughtSignature")
    redacted: Upkeep = NOTHING
    partial: Repeated = msgspec.field(default=NOTHING, name="partialJson")


class Cost(msgspec.Struct, gc=False):
    """US dollars of one reply; the parts of the sum are not kept apart."""

    total: Any = None
    input: Unhoused = NOTHING
    output: Unhoused = NOTHING
    cache_read: Unhoused = msgspec.field(default=NOTHING, name="cacheRead")
    cache_write: Unhoused = msgspec.field(default=NOTHING, name="cacheWrite")


class Tokens(msgspec.Struct, gc=False):
    """Tokens of one reply; ``input`` is what no cache held."""

    input: Any = None
    output: Any = None
    cache_read: Any = msgspec.field(default=None, name="cacheRead")
    cache_write: Any = msgspec.field(default=None, name="cacheWrite")
    total: Repeated = msgspec.field(default=NOTHING, name="totalTokens")
    cost: Cost | None = None


class Details(msgspec.Struct, gc=False):
    """What the interface shows of a result."""

    diff: Repeated = NOTHING
    first_changed_line: Repeated = msgspec.field(default=NOTHING, name="firstChangedLine")


class Said(msgspec.Struct, gc=False):
    """The message of an entry, of any role."""

    role: str
    content: str | list[Part] | None = None
    model: str | None = None
    usage: msgspec.Raw = NOTHING
    stop: str | None = msgspec.field(default=None, name="stopReason")
    error: str | None = msgspec.field(default=None, name="errorMessage")
    call_id: str | None = msgspec.field(default=None, name="toolCallId")
    tool: str | None = msgspec.field(default=None, name="toolName")
    is_error: Any = msgspec.field(default=None, name="isError")
    details: msgspec.Raw = NOTHING
    summary: str | None = None
    command: str | None = None
    output: str | None = None
    exit_code: Any = msgspec.field(default=None, name="exitCode")
    cancelled: Any = None
    truncated: Unhoused = NOTHING
    is_private: Any = msgspec.field(default=None, name="excludeFromContext")
    timestamp: Repeated = NOTHING
    api: Upkeep = NOTHING
    provider: Upkeep = NOTHING
    display: Upkeep = NOTHING
    response_id: Upkeep = msgspec.field(default=NOTHING, name="responseId")


class Entry(msgspec.Struct, gc=False):
    """One line."""

    type: str
    id: str | None = None
    parent: str | msgspec.UnsetType | None = msgspec.field(default=msgspec.UNSET, name="parentId")
    timestamp: Any = None
    message: Said | None = None
    summary: str | None = None
    content: str | list[Part] | None = None
    cwd: str | None = None
    version: Any = None
    provider: Any = None
    model: str | None = msgspec.field(default=None, name="modelId")
    thinking: Any = msgspec.field(default=None, name="thinkingLevel")
    parent_session: str | None = msgspec.field(default=None, name="parentSession")
    branched_from: str | None = msgspec.field(default=None, name="branchedFrom")
    origin: Repeated = msgspec.field(default=NOTHING, name="fromId")
    before: Unhoused = msgspec.field(default=NOTHING, name="tokensBefore")
    hook: Upkeep = msgspec.field(default=NOTHING, name="fromHook")
    display: Upkeep = NOTHING
    target: Upkeep = msgspec.field(default=NOTHING, name="targetId")
    label: Upkeep = NOTHING
    name: Upkeep = NOTHING
    data: Upkeep = NOTHING


class Pi:
    """Reads pi sessions."""

    format = "pi"

    def recognises(self, record: Record) -> bool:
        """By the header, which is the first line that is whole."""
        return any(line.get("type") == "session" and "cwd" in line for line in record.opening())

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The session, alone; ``RecordError`` when there is no reply in it."""
        session = _Session(record)
        for row in record.rows():
            entry = record.part(row, Entry)
            if entry is not None:
                session.read(entry)
        return (session.trajectory(self.format),)


class _Session:
    """A session while its lines are read."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.talk = Conversation()
        self.header = Entry(type="session")
        self.model: str | None = None
        self.models: list[str] = []
        self.stop: str | None = None
        self.copied = 0
        self.replies = 0
        self.paths: dict[str, int] = {}
        """Entry → number of the latest reply on the way to it."""
        self.path = 0
        self.latest: str | None = None
        self.withdrawn = 0
        """Messages of the preamble whose request was called off before any reply."""

    def read(self, entry: Entry) -> None:
        """Take one line in."""
        if entry.type == "session":
            if self.header.id is None:
                self.header, self.model = entry, entry.model
            else:
                self.record.lost("$[type=session]", reason=REPEATED)
            return
        if entry.id is not None:
            if entry.id in self.paths:
                self.record.lost(f"$[type={entry.type}]", reason=REPEATED)
                return
            self._follow(entry.parent)
        self._take(entry)
        if entry.id is not None:
            self.paths[entry.id] = self.path
            self.latest = entry.id

    def trajectory(self, format_: str) -> Trajectory:
        """The run; ``RecordError`` when nothing was asked or nothing replied."""
        preamble = self.talk.preamble
        asked = [m.text for m in preamble[self.withdrawn :] if m.role == "user" and m.text]
        steps = self.talk.steps()
        if not steps or not asked:
            raise RecordError(
                "No reply of the model is in it." if asked else "No human message comes before the first reply.",
                remedy="The session ended before anything happened; leave the file out.",
            )
        header = self.header
        origin = _SESSION.search((header.parent_session or header.branched_from or "")[-50:])
        return Trajectory(
            format=format_,
            task=asked[0],
            agent="pi",
            model=self.models[0] if self.models else None,
            preamble=tuple(preamble),
            steps=steps,
            session=header.id,
            continues=origin[1] if origin else None,
            copied_steps=self.copied if origin else 0,
            outcome=Outcome(
                exit_status=self.stop,
                ended="cut_off" if self.talk.awaits_result else values.ended(self.stop),
            ),
            source=values.facts(
                version=header.version,
                cwd=header.cwd,
                provider=header.provider,
                thinking=header.thinking,
                repairs=self.record.repairs,
            ),
        )

    def _follow(self, parent: str | msgspec.UnsetType | None) -> None:
        """Where the entry hangs: a jump to another branch takes the replies back that are not on the way to it."""
        if parent is msgspec.UNSET or parent == self.latest:
            return
        path = 0 if parent is None else self.paths.get(str(parent), self.path)
        if path != self.path:
            self.talk.boundary("rollback")
            self.path = path

    def _take(self, entry: Entry) -> None:
        if entry.type == "message" and entry.message is not None:
            self._message(entry.message, values.stamp(entry.timestamp))
        elif entry.type == "compaction":
            self.talk.boundary("compaction")
            self.talk.message("context_summary", entry.summary or "")
        elif entry.type == "branch_summary":
            self.talk.message("context_summary", entry.summary or "")
        elif entry.type == "custom_message":
            self.talk.message("harness", _text(entry.content))
        elif entry.type == "model_change":
            self.model = entry.model
        elif entry.type not in _UPKEEP:
            self.record.lost(f"$[type={entry.type}]")

    def _message(self, said: Said, time: str | None) -> None:
        role = said.role
        if role == "assistant":
            self._reply(said, time)
        elif role == "toolResult":
            self._result(said)
        elif role == "user":
            self.talk.message("user", _text(said.content))
        elif role == "bashExecution":
            if said.is_private is True:
                self.record.lost("$.message[role=bashExecution]")
            else:
                self.talk.message("harness", _ran(said))
        elif role in ("custom", "hookMessage"):
            self.talk.message("harness", _text(said.content))
        elif role in ("compactionSummary", "branchSummary"):
            self.talk.message("context_summary", said.summary or "")
        else:
            self.record.lost(f"$.message[role={role}]")

    def _reply(self, said: Said, time: str | None) -> None:
        parts = said.content if isinstance(said.content, list) else [Part(type="text", text=said.content)]
        actions = tuple([_call(part) for part in parts if part.type == "toolCall"])
        thought = "\n".join(part.thinking for part in parts if part.thinking)
        text = _text(parts)
        tokens = self.record.under(said.usage, Tokens, "$.message.usage") if said.usage is not NOTHING else None
        self.stop = said.stop
        if text or thought or actions or said.stop not in _FAILED:
            model = said.model or self.model
            if model and self.models and self.models[-1] != model:
                self.talk.boundary("agent_switch")
            if model:
                self.models.append(model)
            self.talk.reply(
                text,
                thought=thought,
                actions=actions,
                model=model,
                usage=_usage(tokens),
                cost=_cost(tokens),
                timestamp=time,
            )
            self.replies += 1
            self.path = self.replies
            if self.copied == self.replies - 1 and _is_before(time, self.header):
                self.copied += 1
        elif not self.talk.steps_begun:
            self.withdrawn = len(self.talk.preamble)
        if said.stop in _FAILED:
            # The client drops the calls of a reply that broke off.
            if actions:
                self.talk.refuse()
            self.talk.message("harness", said.error or said.stop)

    def _result(self, said: Said) -> None:
        text = _text(said.content)
        if said.details is not NOTHING:
            self.record.under(said.details, Details, "$.message.details")
        if text == _SKIPPED:
            self.talk.result(said.call_id, "", missing="not_executed")
            self.talk.message("harness", text)
            return
        error = values.flag(said.is_error)
        code = _BASH_CODE.search(text[-60:]) if error and said.tool == "bash" else None
        self.talk.result(said.call_id, text, exit_code=harness.known_code(int(code[1])) if code else None, error=error)


def _text(content: str | list[Part] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    said = []
    for part in content:
        if part.type == "image":
            said.append(values.media("image", (part.data or "").encode(), part.mime))
        elif part.text:
            said.append(part.text)
    return "\n".join(said)


def _call(part: Part) -> Action:
    arguments, is_text = arguments_of(part.arguments)
    return Action(call_id=part.id or None, tool=part.name or "", arguments=arguments, is_text=is_text)


def _ran(said: Said) -> str:
    """A command that the human ran beside the agent, and its output."""
    code = harness.known_code(values.whole(said.exit_code, 31))
    end = " (cancelled)" if said.cancelled is True else f" (exit code {code})" if code is not None else ""
    return f"The user ran `{said.command or ''}`{end}:\n{said.output or ''}"


def _usage(tokens: Tokens | None) -> Usage | None:
    """Token counts; all zero, as in a reply that broke off, is unknown."""
    if tokens is None:
        return None
    fresh, cached, written = (values.whole(n) for n in (tokens.input, tokens.cache_read, tokens.cache_write))
    completion = values.whole(tokens.output)
    if not (fresh or cached or written or completion):
        return None
    prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
    return Usage(prompt=prompt, cached=cached, completion=completion)


def _cost(tokens: Tokens | None) -> float | None:
    """Dollars; zero is a price that the client does not know."""
    cost = values.real(tokens.cost.total) if tokens is not None and tokens.cost is not None else None
    return cost or None


def _is_before(time: str | None, header: Entry) -> bool:
    """True when an entry is older than its session: it was copied. Both times are UTC in one form."""
    begun = values.stamp(header.timestamp)
    return time is not None and begun is not None and len(time) == len(begun) and time < begun
