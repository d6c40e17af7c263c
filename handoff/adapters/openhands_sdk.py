"""OpenHands agent SDK conversations: events as lines, as an array, or one a file in ``events/``.

::

    {"kind": "MessageEvent", "id": "e1", "source": "user", "llm_message": {"content": [{"text": "Fix …"}]}}
    {"kind": "ActionEvent", "id": "e2", "source": "agent", "llm_response_id": "r1", "reasoning_content": "…",
     "thought": [{"text": "Look first."}], "tool_call_id": "c1", "action": {"kind": "TerminalAction", …},
     "tool_call": {"id": "c1", "name": "terminal", "arguments": "{\\"command\\": \\"ls\\"}"}}
    {"kind": "ObservationEvent", "action_id": "e2", "tool_call_id": "c1",
     "observation": {"content": [{"text": "setup.py"}], "is_error": false, "exit_code": 0}}

Actions of one ``llm_response_id`` are one step. Tokens and prices are not in the events but in ``base_state.json``
beside them, by response id; its other keys may be secret and are not read. An event whose ``parent_id`` is not the
event before it went back in the conversation: those turns left the context, while their edits stayed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from handoff.adapters import calls, harness, values
from handoff.adapters.openhands import (
    Content,
    Metrics,
    Part,
    Prompt,
    Run,
    Spending,
    is_given,
    json_text,
    shown,
    text_of,
)
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP, Repeated, Sealed, Unhoused, Upkeep
from handoff.framing.record import Row
from handoff.trajectory import Action, Outcome, Trajectory


class Base(msgspec.Struct, gc=False):
    """What every event has."""

    id: str | None = None
    timestamp: Any = None
    source: str | None = None
    kind: str | None = None
    parent_id: str | None = None


class Thinking(msgspec.Struct, gc=False):
    """One of ``thinking_blocks``; a redacted one has no text."""

    thinking: str | None = None
    type: str | None = None
    signature: Upkeep = NOTHING
    data: Upkeep = NOTHING


class Reasoning(msgspec.Struct, gc=False):
    """``responses_reasoning_item``."""

    summary: list[str] | None = None
    content: list[str] | None = None
    id: Upkeep = NOTHING
    status: Upkeep = NOTHING
    encrypted_content: Upkeep = NOTHING


class Message(msgspec.Struct, gc=False):
    """``llm_message``."""

    content: Content = None
    reasoning_content: str | None = None
    thinking_blocks: list[Thinking] | None = None
    responses_reasoning_item: Reasoning | None = None
    role: Repeated = NOTHING
    cache_enabled: Upkeep = NOTHING
    vision_enabled: Upkeep = NOTHING
    function_calling_enabled: Upkeep = NOTHING
    force_string_serializer: Upkeep = NOTHING
    send_reasoning_content: Upkeep = NOTHING


class Spoken(Base, gc=False):
    """``MessageEvent``."""

    llm_message: Message | None = None
    llm_response_id: str | None = None
    extended_content: Content = None
    sender: Unhoused = NOTHING
    activated_skills: Upkeep = NOTHING
    critic_result: Sealed = NOTHING


class ToolCall(msgspec.Struct, gc=False):
    """``tool_call``, as the model wrote it."""

    name: str | None = None
    arguments: msgspec.Raw = NOTHING
    id: Repeated = NOTHING
    origin: Upkeep = NOTHING
    responses_item_id: Upkeep = NOTHING


class Acted(Base, gc=False):
    """``ActionEvent``. ``action`` is the call as it was understood; null when it could not be."""

    thought: Content = None
    reasoning_content: str | None = None
    thinking_blocks: list[Thinking] | None = None
    responses_reasoning_item: Reasoning | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_call: ToolCall | None = None
    action: msgspec.Raw = NOTHING
    llm_response_id: str | None = None
    summary: Repeated = NOTHING
    security_risk: Upkeep = NOTHING
    critic_result: Sealed = NOTHING


class Observed(msgspec.Struct, gc=False):
    """``observation``. ``output``, ``message`` and ``error`` are what the first versions wrote for ``content``."""

    content: Content = None
    output: str | None = None
    message: str | None = None
    error: Any = None
    is_error: Any = None
    exit_code: Any = None
    metadata: Prompt | None = None
    kind: Upkeep = NOTHING
    command: Repeated = NOTHING
    path: Repeated = NOTHING
    pattern: Repeated = NOTHING
    task_list: Repeated = NOTHING
    tool_name: Repeated = NOTHING
    timeout: Upkeep = NOTHING
    full_output_save_dir: Upkeep = NOTHING


class Seen(Base, gc=False):
    """``ObservationEvent``, ``AgentErrorEvent`` and ``UserRejectObservation``: what came back for a call."""

    tool_call_id: str | None = None
    action_id: str | None = None
    observation: Observed | None = None
    error: str | None = None
    rejection_reason: str | None = None
    extended_content: Content = None
    rejection_source: Upkeep = NOTHING
    classification: Upkeep = NOTHING
    tool_name: Repeated = NOTHING


class Foreign(Base, gc=False):
    """``ACPToolCallEvent``: a call of another agent that the SDK drives, as far as it has come. The last one of an id
    holds all; which replies the calls belong to is not recorded."""

    tool_call_id: str | None = None
    tool_kind: str | None = None
    title: str | None = None
    status: str | None = None
    raw_input: msgspec.Raw = NOTHING
    raw_output: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING
    is_error: Any = None


class Tool(msgspec.Struct, gc=False):
    """A tool's definition; only those of outside servers say what their parameters are."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    mcp_tool: dict[str, Any] | None = None
    type: str | None = None
    function: msgspec.Raw = NOTHING
    kind: Upkeep = NOTHING
    meta: Upkeep = NOTHING
    annotations: Upkeep = NOTHING
    action_type: Upkeep = NOTHING
    observation_type: Upkeep = NOTHING


class Prompted(Base, gc=False):
    """``SystemPromptEvent`` and ``SystemPromptUpdateEvent``."""

    system_prompt: Part | None = None
    dynamic_context: Part | None = None
    tools: list[Tool] | None = None
    reason: Upkeep = NOTHING


class Condensed(Base, gc=False):
    """``Condensation`` and ``CondensationSummaryEvent``. The events that were forgotten stay in the conversation."""

    summary: str | None = None
    summary_offset: Upkeep = NOTHING
    llm_response_id: Upkeep = NOTHING


class Failed(Base, gc=False):
    """``ConversationErrorEvent``: why the conversation could not go on."""

    code: str | None = None
    detail: str | None = None
    classification: Upkeep = NOTHING


class Changed(Base, gc=False):
    """``ConversationStateUpdateEvent``."""

    key: str | None = None
    value: msgspec.Raw = NOTHING


class _Look(msgspec.Struct, gc=False):
    """What tells the kind of an event, and where it hangs in the conversation."""

    kind: str | None = None
    id: str | None = None
    parent_id: str | None = None


class _Stats(msgspec.Struct, gc=False):
    usage_to_metrics: dict[str, Metrics] | None = None


class _Model(msgspec.Struct, gc=False):
    model: str | None = None


class _Agent(msgspec.Struct, gc=False):
    llm: _Model | None = None


class _Workspace(msgspec.Struct, gc=False):
    working_dir: str | None = None


class State(msgspec.Struct, gc=False):
    """What is read of ``base_state.json``."""

    id: str | None = None
    agent: _Agent | None = None
    workspace: _Workspace | None = None
    execution_status: str | None = None
    max_iterations: Any = None
    stats: _Stats | None = None


_LOOK = msgspec.json.Decoder(_Look)
_STATE = msgspec.json.Decoder(State)

_KINDS: dict[str, type[Base]] = {
    "SystemPromptEvent": Prompted,
    "SystemPromptUpdateEvent": Prompted,
    "MessageEvent": Spoken,
    "ActionEvent": Acted,
    "ObservationEvent": Seen,
    "AgentErrorEvent": Seen,
    "UserRejectObservation": Seen,
    "ACPToolCallEvent": Foreign,
    "Condensation": Condensed,
    "CondensationSummaryEvent": Condensed,
    "ConversationErrorEvent": Failed,
    "ConversationStateUpdateEvent": Changed,
    "PauseEvent": Base,
    "InterruptEvent": Base,
}
_ASIDE = {
    "CondensationRequest": UPKEEP,
    "HookExecutionEvent": UPKEEP,
    "LLMCompletionLogEvent": REPEATED,
    "StreamingDeltaEvent": REPEATED,
}
_IDLE = frozenset(("", "idle", "running", "waiting_for_confirmation", "deleting"))
"""Execution statuses that are no end."""


class OpenHandsSdk:
    """Reads conversations of the agent SDK."""

    format = "openhands_sdk"

    def recognises(self, record: Record) -> bool:
        """By the kind of the first events."""
        if record.form == "json":
            return record.is_array and is_event(record.first())
        return record.form == "lines" and any(_is_kind(_look(line).kind) for line in record.data.split(b"\n", 6)[:6])

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when there is no task or no reply. An event that cannot be read is noted in
        ``record.problems`` and left out."""
        rows: Iterable[Row] = record.rows()
        if record.is_array:
            rows = [Row(record.position, bytes(event)) for event in record.decode(list[msgspec.Raw])]
        state = _state(record.beside("base_state.json"))
        metrics = (state.stats.usage_to_metrics if state.stats is not None else None) or {}
        run = Run(Spending([metrics[name] for name in sorted(metrics)]))
        if state.workspace is not None:
            run.folder(state.workspace.working_dir)
        run = read(rows, run, record, "$")
        status = run.status or (None if state.execution_status in _IDLE else state.execution_status)
        run.facts["max_iterations"] = values.whole(state.max_iterations)
        known = Trajectory(
            format=self.format,
            task="",
            model=state.agent.llm.model if state.agent is not None and state.agent.llm is not None else None,
            session=state.id,
            steps=(),
            outcome=Outcome(exit_status=status),
        )
        return (run.trajectory(record, "$", known),)


def is_event(item: dict[str, Any]) -> bool:
    """True for an event of the agent SDK."""
    return _is_kind(item.get("kind"))


def _is_kind(kind: object) -> bool:
    return isinstance(kind, str) and (kind in _KINDS or kind in _ASIDE or kind.endswith("Event"))


def read(rows: Iterable[Row], run: Run, record: Record, path: str) -> Run:
    """Events in order into ``run``. ``path`` is where one event stands in the record."""
    reader = _Reader(run, record, path)
    events: list[tuple[_Look, Base | None]] = []
    seen: dict[str, bytes] = {}
    for number, row in enumerate(rows):
        look = _look(row.data)
        if look.id is not None:
            if seen.get(look.id) == row.data:
                record.lost(path, reason=REPEATED)  # a session that was copied into itself
                continue
            seen.setdefault(look.id, row.data)
        events.append((look, _event(row, number, look.kind or "", record, path)))
    reader.gather([event for _, event in events])
    for look, event in events:
        reader.place(look)
        if event is not None:
            reader.take(look.kind or "", event)
    return run


def _event(row: Row, number: int, kind: str, record: Record, path: str) -> Base | None:
    """One event as what it is; ``None`` for one that is left aside, is not known, or cannot be read."""
    if kind in _ASIDE or (kind and kind not in _KINDS):
        record.lost(f"{path}[kind={kind[:60]}]", reason=_ASIDE.get(kind))
        return None
    event = record.part(row, _KINDS.get(kind, Base), path)
    if event is None:  # its place in a list, which the account of losses leaves out
        record.problems[-1].field = record.problems[-1].field.replace("[]", f"[{number}]", 1)
    elif not kind:
        record.lost(f"{path}[kind=]")
    return event if kind else None


class _Reader:
    def __init__(self, run: Run, record: Record, path: str) -> None:
        self.run = run
        self.talk = run.talk
        self.record = record
        self.path = path
        self._placed: set[str | None] = {"__root__"}
        self._leaf: str | None = None
        self._by_response: dict[str, list[Acted]] = {}
        self._foreign: dict[str, Foreign] = {}
        self._call_of: dict[str, str | None] = {}
        self._not_understood: set[str | None] = set()
        self._summary: str | None = None

    def gather(self, events: list[Base | None]) -> None:
        """Look at all events before the first is read: actions of one response belong together."""
        for event in events:
            if isinstance(event, Acted) and event.llm_response_id:
                self._by_response.setdefault(event.llm_response_id, []).append(event)
            elif isinstance(event, Foreign) and event.tool_call_id:
                self._foreign[event.tool_call_id] = event

    def place(self, look: _Look) -> None:
        """Where an event hangs; older versions do not say, and go straight on."""
        if look.parent_id is not None:
            if self._leaf not in (None, look.parent_id) and look.parent_id in self._placed:
                self.talk.boundary("rollback")
            self._leaf = look.id
        self._placed.add(look.id)

    def take(self, kind: str, event: Base) -> None:
        """One event."""
        match event:
            case Acted():
                self._act(event)
            case Seen():
                self._see(kind, event)
            case Foreign():
                self._drive(event)
            case Spoken():
                self._speak(event)
            case Prompted():
                self._prompt(event)
            case Condensed():
                self._condense(kind, event)
            case Failed():
                self.run.status = ": ".join(part for part in (event.code, event.detail) if part) or "error"
            case Changed():
                self._change(event)
            case _:
                self.run.status = "paused" if kind == "PauseEvent" else "interrupted"

    def _act(self, event: Acted) -> None:
        group = self._by_response.pop(event.llm_response_id, None) if event.llm_response_id else [event]
        if group is None:
            return  # a further call of the same reply
        said = "\n".join([text for one in group if (text := text_of(one.thought))])
        reasons = [_reasoning(e.reasoning_content, e.thinking_blocks, e.responses_reasoning_item) for e in group]
        text, thought = _untagged(said, next(filter(None, reasons), ""))
        self.run.reply(
            text,
            thought=thought,
            actions=tuple([self._action(one) for one in group]),
            response_id=event.llm_response_id,
            timestamp=values.stamp(event.timestamp),
        )

    def _action(self, event: Acted) -> Action:
        call = event.tool_call or ToolCall()
        arguments, is_text = calls.arguments_of(call.arguments)
        is_understood = is_given(event.action)
        if event.tool_call is None and is_understood:
            given = self.record.under(event.action, dict[str, msgspec.Raw], f"{self.path}.action") or {}
            given.pop("kind", None)
            arguments, is_text = json_text(given, self.record), False
        elif is_understood:
            self.record.lost(f"{self.path}.action", reason=REPEATED)
        call_id = event.tool_call_id or event.id
        if event.id is not None:
            self._call_of[event.id] = call_id
        if not is_understood:
            self._not_understood.add(call_id)
        return Action(call_id=call_id, tool=event.tool_name or call.name or "", arguments=arguments, is_text=is_text)

    def _see(self, kind: str, event: Seen) -> None:
        call_id = event.tool_call_id or self._call_of.get(event.action_id or "", event.action_id)
        observed = event.observation or Observed()
        if kind == "UserRejectObservation" or (kind == "AgentErrorEvent" and call_id in self._not_understood):
            self.talk.result(call_id, "", missing="not_executed")
            self.talk.message("harness", event.rejection_reason or event.error or "")
        elif kind == "AgentErrorEvent":
            self.talk.result(call_id, event.error or "", error=True)
        else:
            if observed.metadata is not None:
                self.run.folder(observed.metadata.working_dir)
            text = text_of(observed.content) or observed.output or observed.message or ""
            failure = observed.error if isinstance(observed.error, str) else None
            error = values.flag(observed.is_error)
            self.talk.result(
                call_id,
                shown(text or failure or "", observed.metadata),
                exit_code=_exit_code(observed),
                error=error if error is not None else True if failure else values.flag(observed.error),
            )
        self._extend(event.extended_content)

    def _drive(self, first: Foreign) -> None:
        event = self._foreign.pop(first.tool_call_id, None) if first.tool_call_id else first
        if event is None:
            return  # a later state of a call that is read already
        arguments, is_text = calls.arguments_of(event.raw_input)
        tool = event.tool_kind or event.title or ""
        action = Action(call_id=event.tool_call_id, tool=tool, arguments=arguments, is_text=is_text)
        self.run.reply("", actions=(action,), timestamp=values.stamp(first.timestamp))
        if event.status in ("completed", "failed"):
            text = self._text(event.raw_output) or self._text(event.content)
            self.talk.result(event.tool_call_id, text, error=values.flag(event.is_error))

    def _text(self, raw: msgspec.Raw) -> str:
        """A string's own text, the JSON of anything else."""
        if bytes(raw)[:1] == b'"':
            return self.record.under(raw, str, self.path) or ""
        return json_text(raw, self.record) if is_given(raw) else ""

    def _speak(self, event: Spoken) -> None:
        message = event.llm_message or Message()
        text = text_of(message.content)
        if event.source == "agent":
            text, thought = _untagged(
                text,
                _reasoning(message.reasoning_content, message.thinking_blocks, message.responses_reasoning_item),
            )
            self.run.reply(
                text, thought=thought, response_id=event.llm_response_id, timestamp=values.stamp(event.timestamp)
            )
        else:
            is_human = event.source == "user" and not (self.talk.steps_begun and harness.is_notice(text))
            self.talk.message("user" if is_human else "harness", text)
        self._extend(event.extended_content)

    def _extend(self, content: Content) -> None:
        """What the harness added to a message or a result: skills, rules of a folder."""
        text = text_of(content)
        if text:
            self.talk.message("harness", text)

    def _prompt(self, event: Prompted) -> None:
        for part in (event.system_prompt, event.dynamic_context):
            if part is not None and part.text:
                self.talk.message("system", part.text)
        tools = json_text([_tool(tool) for tool in event.tools], self.record) if event.tools else None
        if self.run.tools is None:
            self.run.tools = tools
        elif tools is not None and tools != self.run.tools:
            self.record.lost(f"{self.path}.tools")

    def _condense(self, kind: str, event: Condensed) -> None:
        if kind == "CondensationSummaryEvent" and event.summary == self._summary:
            return
        self.talk.boundary("compaction")
        self._summary = event.summary
        if event.summary:
            self.talk.message("context_summary", event.summary)

    def _change(self, event: Changed) -> None:
        if event.key == "execution_status":
            status = self.record.under(event.value, str, f"{self.path}.value") or ""
            if status not in _IDLE:
                self.run.status = status
        elif event.key == "stats":
            self.record.lost(f"{self.path}[key=stats].value")
        else:
            self.record.lost(f"{self.path}[kind=ConversationStateUpdateEvent]", reason=UPKEEP)


def _look(data: bytes) -> _Look:
    try:
        return _LOOK.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _Look()


def _state(data: bytes | None) -> State:
    try:
        return _STATE.decode(data) if data else State()
    except (msgspec.DecodeError, RecursionError):
        return State()


def _reasoning(text: str | None, blocks: list[Thinking] | None, item: Reasoning | None) -> str:
    """Where reasoning may stand; more than one of these may hold the same."""
    if text:
        return text
    found = [block.thinking for block in blocks or () if block.thinking]
    return "\n".join(found or (item.content or item.summary or [] if item is not None else []))


def _untagged(text: str, thought: str) -> tuple[str, str]:
    """A reply's text and its reasoning, which some models also write in tags before the text."""
    if text.startswith("<think>"):
        inside, closed, rest = text[7:].partition("</think>")
        if closed and (not thought or thought.strip() == inside.strip()):
            return rest.lstrip(), thought or inside.strip()
    return text, thought


def _exit_code(observed: Observed) -> int | None:
    told = (observed.exit_code, observed.metadata.exit_code if observed.metadata is not None else None)
    return harness.known_code(next((values.whole(code) for code in told if code is not None), None))


def _tool(tool: Tool) -> dict[str, Any]:
    if tool.type == "function" and is_given(tool.function):
        return {"type": "function", "function": tool.function}
    schema = tool.mcp_tool.get("inputSchema") if tool.mcp_tool is not None else None
    function = {"name": tool.name or tool.title, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}
