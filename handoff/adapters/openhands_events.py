"""OpenHands V0 event streams: an array of actions and observations (``trajectory.json``).

::

    [{"id": 1, "source": "user", "action": "message", "args": {"content": "Fix …"}},
     {"id": 5, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Look first."},
      "timestamp": "2025-04-30T16:32:57.8", "llm_metrics": {"accumulated_cost": 0.02},
      "tool_call_metadata": {"tool_call_id": "call_1", "model_response": {"id": "chatcmpl-1", "choices": […]}}},
     {"id": 6, "source": "agent", "cause": 5, "observation": "run", "content": "setup.py",
      "extras": {"metadata": {"exit_code": 0, "working_dir": "/workspace"}}}]

Actions of one model response are one step. What came back names the action in ``cause``; ``source`` says ``agent``
there too, so the kind of an event decides and never its source. The oldest events have no ids, no ``args`` and no
``extras``: their fields stand in the event itself, and results follow their calls. A delegate acts in the same stream
on the same files, so its steps stay in the run, between two ``agent_switch`` boundaries.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.adapters import calls, harness, values
from handoff.adapters.openhands import Content, Metrics, Prompt, Run, is_given, json_text, shown, text_of
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, UPKEEP, Repeated, Upkeep
from handoff.trajectory import Action, Trajectory

EventId = int | str
"""What ``cause`` points to."""


class ReplyMessage(msgspec.Struct, gc=False):
    """The message of a model response."""

    content: Content = None
    reasoning_content: str | None = None
    tool_calls: list[calls.Call] | None = None
    role: Upkeep = NOTHING


class Choice(msgspec.Struct, gc=False):
    """One of ``choices``; there is never more than one."""

    message: ReplyMessage | None = None
    finish_reason: Upkeep = NOTHING
    index: Upkeep = NOTHING


class Response(msgspec.Struct, gc=False):
    """The model response that an action came from."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: values.UsageRow | None = None
    created: Upkeep = NOTHING
    object: Upkeep = NOTHING
    system_fingerprint: Upkeep = NOTHING
    service_tier: Upkeep = NOTHING


class CallMetadata(msgspec.Struct, gc=False):
    """``tool_call_metadata``; observations repeat that of their action, the whole model response with it."""

    tool_call_id: str | None = None
    function_name: str | None = None
    model_response: msgspec.Raw = NOTHING
    total_calls_in_response: Upkeep = NOTHING


class Knowledge(msgspec.Struct, gc=False):
    """A microagent that was recalled."""

    content: str | None = None
    name: Upkeep = NOTHING
    trigger: Upkeep = NOTHING


class Extras(msgspec.Struct, gc=False):
    """``extras`` of an observation. The files before and after an edit have no home: only text shows what happened."""

    metadata: Prompt | None = None
    exit_code: Any = None
    error: Any = None
    error_id: str | None = None
    agent_state: str | None = None
    reason: str | None = None
    image_urls: list[str] | None = None
    screenshot: str | None = None
    working_dir: str | None = None
    repo_name: str | None = None
    repo_branch: str | None = None
    repo_instructions: str | None = None
    additional_agent_instructions: str | None = None
    conversation_instructions: str | None = None
    microagent_knowledge: list[Knowledge] | None = None
    command: Repeated = NOTHING
    code: Repeated = NOTHING
    path: Repeated = NOTHING
    name: Repeated = NOTHING
    arguments: Repeated = NOTHING
    outputs: Repeated = NOTHING
    task_list: Repeated = NOTHING
    formatted_output_and_error: Repeated = NOTHING
    command_id: Upkeep = NOTHING
    date: Upkeep = NOTHING
    hidden: Upkeep = NOTHING
    impl_source: Upkeep = NOTHING
    recall_type: Upkeep = NOTHING
    runtime_hosts: Upkeep = NOTHING
    trigger_by_action: Upkeep = NOTHING
    custom_secrets_descriptions: Upkeep = NOTHING


class Event(msgspec.Struct, gc=False):
    """One action or observation. From ``command`` on: fields of the oldest events, which have no ``args``."""

    id: EventId | None = None
    timestamp: Any = None
    source: str | None = None
    action: str | None = None
    observation: str | None = None
    cause: EventId | None = None
    content: str | None = None
    args: msgspec.Raw = NOTHING
    extras: Extras | None = None
    tool_call_metadata: CallMetadata | None = None
    llm_metrics: Metrics | None = None
    response_id: str | None = None
    message: Repeated = NOTHING
    success: Repeated = NOTHING
    timeout: Upkeep = NOTHING
    command: Any = None
    code: Any = None
    path: Any = None
    start: Any = None
    end: Any = None
    url: Any = None
    browser_actions: Any = None
    agent: Any = None
    inputs: Any = None
    outputs: Any = None
    thought: str | None = None
    wait_for_response: Any = None
    images_urls: list[str] | None = None
    exit_code: Any = None
    command_id: Upkeep = NOTHING
    action_risk: Upkeep = NOTHING
    is_confirmed: Upkeep = NOTHING
    keep_prompt: Upkeep = NOTHING
    kernel_init_code: Upkeep = NOTHING


class Said(msgspec.Struct, gc=False):
    """``args`` of a message."""

    content: str | None = None
    image_urls: list[str] | None = None
    file_urls: list[str] | None = None
    wait_for_response: Any = None
    security_risk: Upkeep = NOTHING


class System(msgspec.Struct, gc=False):
    """``args`` of the system prompt."""

    content: str | None = None
    tools: msgspec.Raw = NOTHING
    openhands_version: str | None = None
    agent_class: str | None = None


class Condensation(msgspec.Struct, gc=False):
    """``args`` of a condensation. The events themselves stay in the stream."""

    summary: str | None = None
    summary_offset: Upkeep = NOTHING


class _Thought(msgspec.Struct, gc=False):
    thought: str | None = None


_THOUGHT = msgspec.json.Decoder(_Thought)

_OLD_ARGUMENTS = (
    *("command", "code", "path", "content", "start", "end", "url"),
    *("browser_actions", "agent", "inputs", "outputs"),
)
_ASIDE = frozenset(
    (
        *("action_risk", "blocking", "confirmation_state", "hidden", "impl_source", "include_extra", "is_confirmed"),
        *("is_static", "keep_prompt", "kernel_init_code", "security_risk", "translated_ipython_code"),
    )
)
"""Arguments that the harness adds to a call."""

_SIGNALS = frozenset(
    (
        *("null", "start", "pause", "resume", "stop", "change_agent_state", "recall", "loop_recovery"),
        *("condensation_request",),
    )
)
"""Actions between client and server, which no model made."""

_GOING_ON = frozenset(("", "loading", "init", "running", "user_confirmed", "rate_limited"))
"""Agent states that are no end."""


class OpenHandsEvents:
    """Reads arrays of events, bare or under ``trajectory`` as the server's interface returns them."""

    format = "openhands_events"

    def recognises(self, record: Record) -> bool:
        """By the first event: an action or an observation, with what only this format has beside it."""
        return is_event(record.first() if record.is_array else record.first("trajectory"))

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit, or there is no task or no reply."""
        key = None if record.is_array else "trajectory"
        events = record.decode(list[Event]) if key is None else record.decode_under(key, list[Event])
        field = f"$.{key}" if key else "$"
        run = read(events, Run(), record, field)
        return (run.trajectory(record, field, Trajectory(format=self.format, task="", steps=())),)


def is_event(item: dict[str, Any]) -> bool:
    """True for a V0 event with ``args``, ``extras`` or ``source``."""
    return is_bare_event(item) and bool({"args", "extras", "source"} & item.keys())


def is_bare_event(item: dict[str, Any]) -> bool:
    """True for a V0 event, the oldest form included."""
    kind = item.get("action", item.get("observation"))
    return isinstance(kind, str) and not ({"role", "response", "kind"} & item.keys())


def read(events: list[Event], run: Run, record: Record, path: str) -> Run:
    """Events in the order of the stream into ``run``. ``path`` is where they stand in the record."""
    reader = _Reader(run, record, path + "[]", events)
    for number, event in enumerate(events):
        if event.observation is not None:
            reader.observe(event)
        elif event.action is not None:
            reader.act(number, event)
        else:
            record.lost(f"{path}[]")
    return run


class _Reader:
    def __init__(self, run: Run, record: Record, path: str, events: list[Event]) -> None:
        self.run = run
        self.talk = run.talk
        self.record = record
        self.path = path
        self._call_of: dict[EventId, str | None] = {}
        self._of_others: set[EventId] = set()
        self._delegated: list[str | None] = []
        self._was_stopped = False
        self._spent = 0.0
        self._replied: set[str] = set()
        self._responses: dict[int, Response] = {}
        self._by_response: dict[str, list[Event]] = {}
        for number, event in enumerate(events):
            self._note_response(number, event)

    def _note_response(self, number: int, event: Event) -> None:
        raw = event.tool_call_metadata.model_response if event.tool_call_metadata is not None else NOTHING
        if not is_given(raw):
            return
        place = f"{self.path}.tool_call_metadata.model_response"
        if event.observation is not None:
            self.record.lost(place, reason=REPEATED)
        elif response := self.record.under(raw, Response, place):
            self._responses[number] = response
            if response.id:
                self._by_response.setdefault(response.id, []).append(event)

    # -- actions ------------------------------------------------------------------------------------

    def act(self, number: int, event: Event) -> None:
        kind = event.action
        if kind == "message":
            self._message(event)
        elif kind == "system":
            self._system(event)
        elif kind == "condensation":
            done = self.record.under(event.args, Condensation, f"{self.path}.args")
            self.talk.boundary("compaction")
            if done is not None and done.summary:
                self.talk.message("context_summary", done.summary)
        elif kind in _SIGNALS and event.tool_call_metadata is None:
            self.record.lost(f"{self.path[:-2]}[action={kind}]", reason=UPKEEP)
        elif event.source not in (None, "agent"):
            self._by_others(event)
        else:
            self._call(event, self._responses.get(number) or Response())

    def _message(self, event: Event) -> None:
        said = Said(
            content=event.content, image_urls=event.images_urls, wait_for_response=event.wait_for_response
        )  # the oldest form
        if is_given(event.args):
            said = self.record.under(event.args, Said, f"{self.path}.args") or Said()
        text = _with_media(said.content or "", said.image_urls, said.file_urls)
        speaker = event.source
        if speaker is None:  # the agent is the one that waits for an answer
            speaker = "agent" if self.talk.steps_begun and said.wait_for_response is True else "user"
        if speaker == "agent":
            self._resume()
            self.run.reply(
                text,
                response_id=event.response_id,
                cost=self._cost(event),
                timestamp=values.stamp(event.timestamp),
            )
        else:
            is_human = speaker == "user" and not (self.talk.steps_begun and harness.is_notice(text))
            self.talk.message("user" if is_human else "harness", text)

    def _system(self, event: Event) -> None:
        system = self.record.under(event.args, System, f"{self.path}.args") or System()
        if system.content:
            self.talk.message("system", system.content)
        tools = json_text(system.tools, self.record)
        if tools[:1] == "[" and tools != "[]":
            if self.run.tools is None:
                self.run.tools = tools
            elif tools != self.run.tools:
                self.record.lost(f"{self.path}.args.tools")
        for name, value in (("version", system.openhands_version), ("agent_class", system.agent_class)):
            if value:
                self.run.facts.setdefault(name, value)

    def _by_others(self, event: Event) -> None:
        """A person's or the server's own action: neither a reply, nor a task, nor what the agent did."""
        self.talk.message("harness", f"[{event.source}: {event.action}] {self._arguments(event)}")
        if event.id is not None:
            self._of_others.add(event.id)

    def _call(self, event: Event, response: Response) -> None:
        metadata = event.tool_call_metadata or CallMetadata()
        call_id = _own_id(event)
        if event.id is not None:
            self._call_of[event.id] = call_id
        if metadata.tool_call_id and is_given(event.args):
            self.record.lost(f"{self.path}.args", reason=REPEATED)
        if response.id and response.id in self._replied:
            return  # a further call of the same reply, or the same call again after it was confirmed
        self._resume()
        message = (response.choices[0].message if response.choices else None) or ReplyMessage()
        text = text_of(message.content)
        if not text and event.action != "think":
            text = event.thought or _thought(event.args)
        self.run.reply(
            text,
            thought=message.reasoning_content or "",
            actions=self._actions(event, response, message),
            response_id=response.id,
            model=response.model,
            usage=values.usage(response.usage),
            cost=self._cost(event),
            timestamp=values.stamp(event.timestamp),
        )
        if response.id:
            self._replied.add(response.id)
        if event.action == "delegate":
            self._delegated.append(call_id)
            self.talk.boundary("agent_switch")

    def _actions(self, event: Event, response: Response, message: ReplyMessage) -> tuple[Action, ...]:
        """The calls of a reply as the model wrote them; those that only the events know follow."""
        actions = list(calls.native(message.tool_calls or []))
        known = {action.call_id for action in actions}
        for other in self._by_response.get(response.id or "", [event]):
            call_id = _own_id(other)
            if call_id is None or call_id not in known:
                known.add(call_id)
                name = (other.tool_call_metadata or CallMetadata()).function_name or other.action or ""
                actions.append(Action(call_id=call_id, tool=name, arguments=self._arguments(other)))
        return tuple(actions)

    def _arguments(self, event: Event) -> str:
        """What the action was asked to do, as a JSON object."""
        if not is_given(event.args):
            old = {name: value for name in _OLD_ARGUMENTS if (value := getattr(event, name)) is not None}
            return json_text(old, self.record)
        given = self.record.under(event.args, dict[str, msgspec.Raw], f"{self.path}.args") or {}
        kept = {}
        for name, value in given.items():
            if name in _ASIDE:
                self.record.lost(f"{self.path}.args.{name}", reason=UPKEEP)
            elif name != "thought" and bytes(value) != b"null":
                kept[name] = value
        return json_text(kept, self.record)

    def _cost(self, event: Event) -> float | None:
        """What was spent since the reply before; a total of 0 is an unpriced model."""
        total = values.real(event.llm_metrics.accumulated_cost) if event.llm_metrics is not None else None
        if total is None or total <= self._spent:
            return None
        cost, self._spent = total - self._spent, total
        return round(cost, 9)

    def _resume(self) -> None:
        if self._was_stopped:
            self.talk.boundary("resume")
            self._was_stopped = False

    # -- observations -------------------------------------------------------------------------------

    def observe(self, event: Event) -> None:
        kind, extras = event.observation, event.extras or Extras()
        if kind == "null":
            return
        if kind == "agent_state_changed":
            self._state(extras)
        elif kind == "recall":
            self._recall(extras)
        elif kind in ("condense", "loop_detection") or (event.cause is not None and event.cause in self._of_others):
            text = shown(event.content or "", extras.metadata)
            if text:
                self.talk.message("harness", text)
        else:
            self._result(event, extras)

    def _result(self, event: Event, extras: Extras) -> None:
        kind = event.observation
        call_id = self._answered(event)
        text = _with_media(shown(event.content or "", extras.metadata), extras.image_urls)
        if extras.screenshot:
            text = _with_media(text, [extras.screenshot])
        if kind == "user_rejected" or "NOT_EXECUTED" in (extras.error_id or ""):
            self.talk.result(call_id, "", missing="not_executed")
            self.talk.message("harness", text)
            return
        if kind == "error" and call_id is None and not self.talk.awaits_result:
            # A reply that could not be understood leaves no other trace.
            self.talk.message("harness", text)
            return
        if extras.metadata is not None:
            self.run.folder(extras.metadata.working_dir)
        self.talk.result(call_id, text, exit_code=_exit_code(event, extras, text), error=_error(event, extras))
        if kind == "delegate":
            self.talk.boundary("agent_switch")

    def _answered(self, event: Event) -> str | None:
        """The id of the call that an observation answers; ``None`` where only its position tells."""
        if event.observation == "delegate" and self._delegated:
            return self._delegated.pop()
        named = event.tool_call_metadata.tool_call_id if event.tool_call_metadata is not None else None
        return named if event.cause is None else self._call_of.get(event.cause, named or str(event.cause))

    def _state(self, extras: Extras) -> None:
        state = extras.agent_state or ""
        if state not in _GOING_ON:
            self.run.status = extras.reason or state
        self._was_stopped = (self._was_stopped or state == "stopped") and self.talk.steps_begun

    def _recall(self, extras: Extras) -> None:
        """Notes about the workspace, which the model read before its next reply."""
        if extras.repo_name and extras.repo_name.count("/") == 1:
            self.run.repo = extras.repo_name
        if extras.repo_branch:
            self.run.facts.setdefault("branch", extras.repo_branch)
        self.run.folder(extras.working_dir)
        notes = [
            extras.repo_instructions,
            extras.additional_agent_instructions,
            extras.conversation_instructions,
            *[known.content for known in extras.microagent_knowledge or ()],
        ]
        text = "\n\n".join(note for note in notes if note)
        if text:
            self.talk.message("harness", text)


def _own_id(event: Event) -> str | None:
    """The call's id, else the event's, which later events name as their cause."""
    if event.tool_call_metadata is not None and event.tool_call_metadata.tool_call_id:
        return event.tool_call_metadata.tool_call_id
    return None if event.id is None else str(event.id)


def _with_media(text: str, images: list[str] | None, files: list[str] | None = None) -> str:
    notes = [values.media("image", url) for url in images or ()] + [values.media("file", url) for url in files or ()]
    return "\n".join([text, *notes] if text else notes) if notes else text


def _thought(args: msgspec.Raw) -> str:
    try:
        return _THOUGHT.decode(args).thought or ""
    except (msgspec.DecodeError, RecursionError):
        return ""


def _exit_code(event: Event, extras: Extras, text: str) -> int | None:
    """-1 is a command that still runs. Only where no field tells does the text."""
    told = (extras.metadata.exit_code if extras.metadata is not None else None, extras.exit_code, event.exit_code)
    number = next((values.whole(code) for code in told if code is not None), None)
    if number is None:
        return harness.exit_code_in(text) if event.observation == "run" else None
    return harness.known_code(number)


def _error(event: Event, extras: Extras) -> bool | None:
    """``extras`` of an edit that failed look like those of one that did not: the content decides."""
    if event.observation == "error":
        return True
    if event.observation in ("read", "edit", "write") and (event.content or "").startswith("ERROR:\n"):
        return True
    return values.flag(extras.error)
