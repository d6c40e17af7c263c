"""Logs of Inspect: each sample of a ``.eval`` archive, or all samples of a log in one JSON file.

::

    {"id": 3, "epoch": 1, "input": "Find the flag.", "target": "…", "messages": [
      {"role": "user", "source": "input", "content": "Find the flag."},
      {"role": "assistant", "tool_calls": [{"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}}], …},
      {"role": "tool", "tool_call_id": "c1", "content": "flag.txt"}],
     "events": [{"event": "model", "input": […], "output": {"choices": […], "usage": {…}}, …}, …],
     "scores": {"includes": {"value": "C", …}}, "attachments": {"0a1b…": "long text"}}

``messages`` is only the context as it stood at the end. The events tell the run: every request with its input, so what
was trimmed since or replaced by a summary is still there, every call with what it gave, and what ran in the sandbox.
Requests inside a call or a subtask are runs of their own; requests of a scorer are the evaluation. A score counts as
the verdict on the task when it says right or wrong and no model gave it. Long texts are kept apart and referred to.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import Any, NamedTuple, TypeVar

import msgspec

from handoff.adapters import calls, harness, values
from handoff.adapters import inspect_shapes as shapes
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import REPEATED, SEALED
from handoff.framing.record import Row
from handoff.identity import canonical_json
from handoff.trajectory import Action, Ending, Outcome, Trajectory, Usage

T = TypeVar("T")

_ATTACHMENT = re.compile(r"(?:attachment|tc)://([0-9a-f]{32})")
_LIMITS: dict[str, Ending] = {
    "message": "step_limit",
    "turn": "step_limit",
    "token": "cost_limit",
    "cost": "cost_limit",
    "time": "time_limit",
    "working": "time_limit",
    "context": "context_limit",
    "operator": "aborted",
}
"""Inspect's token limit is a budget of the whole sample, not the model's window."""
_BROKEN_OFF = ("max_tokens", "model_length", "content_filter")
_VERDICTS = {"C": True, "I": False, 1: True, 0: False}
_CHILDREN = ("tool", "subtask", "fork")
_SCORERS = ("scorer", "scorers")
_KNOWN = frozenset(
    (
        "model", "tool", "sandbox", "span_begin", "span_end", "step", "state", "store", "score", "score_edit",
        "sample_init", "sample_limit", "error", "compaction", "subtask", "interrupt",
    )
)  # fmt: skip
_MOST_REFERENCES = 20_000_000

Key = tuple[str, str, tuple[str, ...]]
"""What makes two copies of a message the same: role, text, and the ids of its calls or of the call it answers."""


class Inspect:
    """Reads logs of Inspect."""

    format = "inspect"

    def recognises(self, record: Record) -> bool:
        """By the keys of a sample, or of a log."""
        keys = record.keys.keys()
        return {"id", "epoch", "input", "target", "messages"} <= keys or {"eval", "samples", "version"} <= keys

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The runs of all samples; ``RecordError`` when there is none."""
        if "samples" not in record.keys:
            header = _decoded(record.context, shapes.Header) or shapes.Header()
            return self._runs(record, record.decode(shapes.Sample), header, "$")
        header = shapes.Header(eval=record.field("eval", shapes.Eval), plan=record.field("plan", shapes.Plan))
        record.leave("results", "reductions", reason=SEALED)
        record.leave("stats", "version", "location", "status", reason=REPEATED)
        runs: list[Trajectory] = []
        for number, raw in enumerate(record.field("samples", list[msgspec.Raw]) or ()):
            sample = _part(record, raw, shapes.Sample, "$.samples[]", f"$.samples[{number}]")
            try:
                runs += self._runs(record, sample, header, f"$.samples[{number}]") if sample is not None else ()
            except RecordError as error:
                record.problem(error)
        if not runs:
            raise RecordError(
                "No sample in it holds a run.",
                field="$.samples",
                remedy="The evaluation did not get to one, or its log was written without samples.",
            )
        return tuple(runs)

    def _runs(self, record: Record, sample: shapes.Sample, header: shapes.Header, where: str) -> tuple[Trajectory, ...]:
        eval_ = header.eval or shapes.Eval()
        name = f"{eval_.run_id or ''}/{sample.id}_epoch_{sample.epoch}"[:300]  # as the archive names it
        reading = _Sample(record, sample, sample.uuid or name, where)
        main, *children = reading.threads()
        steps = main.talk.steps()
        if not steps or not main.task:
            raise RecordError(
                "No reply of the model is in it." if main.task else "No human message comes before the first reply.",
                field=f"{where}.messages",
                remedy="The sample ended before its first step; leave it out.",
            )
        known = _decoded(bytes(sample.metadata), shapes.Facts) or shapes.Facts()
        id_ = known.instance_id or sample.id
        instance = str(id_) if isinstance(id_, str | int) else None
        is_instance = values.repository_of(instance) is not None
        agent = eval_.solver or (header.plan.steps[-1].solver if header.plan and header.plan.steps else None)
        packages = eval_.packages or {}
        source = values.facts(
            task=eval_.task,
            sample=instance,
            epoch=sample.epoch,
            created=eval_.created,
            version=packages.get("inspect_ai"),
            repairs=record.repairs,
        )
        run = Trajectory(
            format=self.format,
            task_id=values.task_of(instance) if is_instance else _task_id(eval_.task, instance),
            task=main.task,
            repo=known.repo or values.repository_of(instance),
            base_commit=values.commit(known.base_commit),
            agent=agent,
            model=main.model or eval_.model,
            tools=main.tools,
            preamble=tuple(main.talk.preamble),
            steps=steps,
            session=main.session,
            outcome=reading.outcome(),
            source=source,
        )
        runs = [run]
        for child in children:
            steps = child.talk.steps()
            if not steps:
                continue
            if not child.task:
                record.lost("$.events[event=model] (nothing was asked)")
                continue
            runs.append(
                msgspec.structs.replace(
                    run,
                    task=child.task,
                    agent=child.agent,
                    model=child.model,
                    tools=child.tools,
                    preamble=tuple(child.talk.preamble),
                    steps=steps,
                    session=child.session,
                    parent=child.parent,
                    outcome=Outcome(ended=calls.ending(steps)),
                )
            )
        return tuple(runs)


class _Thread:
    """One conversation of a sample while its requests are read."""

    def __init__(self, session: str, parent: str | None = None, agent: str | None = None) -> None:
        self.talk = Conversation()
        self.session = session
        self.parent = parent
        self.agent = agent
        self.model: str | None = None
        self.tools: str | None = None
        self.stop: str | None = None
        self.open: dict[str, None] = {}
        """Calls that nothing answered yet."""
        self.told: list[str] = []
        """Calls whose event came since the latest reply."""
        self.taken: Counter[Key] = Counter()
        """Messages that are in ``talk``."""
        self.input: list[bytes] = []
        """The latest request's messages, beside their keys and how often each is among them."""
        self.keys: list[Key] = []
        self.present: Counter[Key] = Counter()

    @property
    def task(self) -> str:
        """The first thing that was asked, after the examples; empty when nothing was."""
        asked = ""
        for message in self.talk.preamble:
            if message.role == "harness":
                asked = ""
            elif message.role == "user" and not asked:
                asked = message.text
        return asked


class _Known(NamedTuple):
    """A message, its text and its key."""

    message: shapes.Message
    text: str
    key: Key


class _Sample:
    """A sample while its events are read."""

    def __init__(self, record: Record, sample: shapes.Sample, session: str, where: str) -> None:
        self.record = record
        self.sample = sample
        self.where = where
        self.older = sample.transcript or shapes.Transcript()
        self.texts = sample.attachments or self.older.content
        pool = sample.message_pool or (sample.events_data or shapes.Pools()).messages
        self.pool = [bytes(raw) for raw in pool]
        self.references = _MOST_REFERENCES
        self.budget = 4 * len(record.data) + (1 << 20)
        """Bytes that texts kept apart may still fill."""
        self.main = _Thread(session)
        self.children: dict[str, _Thread] = {}
        self.owners: dict[str, str | None] = {}
        """Span → the child it belongs to: empty for the main run, ``None`` for a scorer."""
        self.openings: dict[tuple[str | None, str | None], deque[str]] = {}
        """(span, tool) → spans of calls that began there and whose event is still to come."""
        self.call_of: dict[str, str] = {}
        self.codes: dict[str, list[int | None]] = {}
        """Call → exit codes of what it ran in the sandbox."""
        self.answers: dict[str, tuple[str, shapes.Fault | None]] = {}
        """Call → what its event says it gave."""
        self.scoring = 0
        self.replied: set[str] = set()
        """Ids of messages that models returned."""
        self.known: dict[bytes, _Known | None] = {}
        self.messages = [self._know(bytes(raw), number) for number, raw in enumerate(sample.messages)]
        self.last = frozenset(known.key for known in self.messages if known is not None)

    def threads(self) -> list[_Thread]:
        """The main run and the runs that it started, in the order of their first events."""
        self._events(self.sample.events or self.older.events, "", None)
        present: Counter[Key] = Counter()
        for known in self.messages:
            self._add(self.main, known, present)
        found = [self.main, *self.children.values()]
        for thread in found:
            thread.told += thread.open
            self._settle(thread)
        return found

    def outcome(self) -> Outcome:
        """The scorers' verdict when they agree, and what ended the sample."""
        sample = self.sample
        limit = self._read(sample.limit, shapes.Limit, "$.limit")
        fault = self._read(sample.error, shapes.Fault, "$.error")
        scores = self._read(sample.scores, dict[str, shapes.Score], "$.scores") or {}
        verdicts: set[bool | None] = set()
        patches: list[str] = []
        for name, score in sorted(scores.items()):
            if "model_graded" not in name:
                value = score.value
                verdicts.add(_VERDICTS.get(value) if isinstance(value, str | int) else None)
            judged = _decoded(bytes(score.metadata), shapes.Judged)
            if judged is not None and judged.model_patch:
                patches.append(judged.model_patch)
        status: str | None
        ended: Ending | None
        if limit is not None and limit.type:
            status, ended = limit.type, _LIMITS.get(limit.type)
        elif fault is not None:
            status, ended = "error", "error"
        else:
            status = self.main.stop if self.main.stop in _BROKEN_OFF else None
            ended = "context_limit" if status == "model_length" else calls.ending(self.main.talk.steps())
        return Outcome(
            resolved=verdicts.pop() if len(verdicts) == 1 else None,
            exit_status=status,
            ended=ended,
            patch=patches[0] if patches else None,
        )

    # -- events ---------------------------------------------------------------------------------

    def _events(self, raws: list[msgspec.Raw], owner: str | None, call_id: str | None) -> None:
        """Read events; ``owner`` and ``call_id`` say inside what older logs nest them."""
        for number, raw in enumerate(raws):
            event = _part(self.record, raw, shapes.Event, "$.events[]", f"{self.where}.events[{number}]")
            if event is None:
                continue
            kind = event.event
            inside = self.owners.get(event.span_id or "", owner)
            if kind == "model":
                self._request(event, None if self.scoring > 0 or event.role == "grader" else inside)
            elif kind == "tool":
                self._called(event, inside)
            elif kind == "sandbox" and event.action == "exec":
                self._ran(event, self.call_of.get(event.span_id or "", call_id))
            elif kind == "span_begin":
                self._opened(event, owner)
            elif kind == "step" and event.type in _SCORERS:
                self.scoring += 1 if event.action == "begin" else -1
            elif kind == "subtask" and event.events:
                self._events(event.events, self._begin(f"{inside}/{len(self.children)}", inside, event.name), None)
            elif kind == "compaction" and inside is not None:
                self._settle(self._thread(inside))
                self._thread(inside).talk.boundary("compaction")
            elif kind not in _KNOWN:
                self.record.lost(f"$.events[event={kind}]")

    def _opened(self, event: shapes.Event, owner: str | None) -> None:
        """A span: it belongs to the run around it, unless a run or the scoring begins with it."""
        if event.id is None:
            return
        around = self.owners.get(event.parent_id or "", owner)
        if event.type in _SCORERS or event.name in _SCORERS:
            around = None
        elif event.type in _CHILDREN:
            if event.type == "tool":
                self.openings.setdefault((event.parent_id, event.name), deque()).append(event.id)
            around = self._begin(event.id, around, event.name)
        self.owners[event.id] = around

    def _begin(self, name: str, owner: str | None, agent: str | None) -> str | None:
        """A run inside another, should it ask a model; what scorers do stays theirs."""
        if owner is not None:
            self.children.setdefault(name, _Thread(name, self._thread(owner).session, agent))
            return name
        return None

    def _thread(self, owner: str) -> _Thread:
        return self.children[owner] if owner else self.main

    def _called(self, event: shapes.Event, owner: str | None) -> None:
        """What a call gave, and the span in which it ran."""
        if event.id is None:
            return
        spans = self.openings.get((event.span_id, event.function))
        if spans:
            self.call_of[spans.popleft()] = event.id
        fault = self._read(event.error, shapes.Fault, "$.events[].error")
        self.answers[event.id] = (self._given(event.result), fault)
        if owner is not None:
            self._thread(owner).told.append(event.id)
        if event.events:
            self._events(event.events, self._begin(f"{owner}/{event.id}", owner, event.function), event.id)

    def _ran(self, event: shapes.Event, call_id: str | None) -> None:
        if call_id is not None:
            code = bytes(event.result)
            self.codes.setdefault(call_id, []).append(int(code) if code.isdigit() and len(code) < 10 else None)

    def _request(self, event: shapes.Event, owner: str | None) -> None:
        """A request to a model: what is new in its input, and the reply."""
        if owner is None:
            self.record.lost("$.events[event=model]", reason=SEALED)
            return
        output = self._read(event.output, shapes.Output, "$.events[].output")
        if output is None or not output.choices:
            self.record.lost("$.events[event=model].error")
            return
        choice = output.choices[0]
        if output.choices[1:]:
            self.record.lost("$.events[].output.choices[1:]", len(output.choices) - 1)
        text = self._text(choice.message.content)
        key = _key(choice.message, text)
        # A handoff lets another agent go on in the same conversation: then the reply is in the final messages.
        thread = self.main if key in self.last else self._thread(owner)
        self._heard(thread, event)
        self._settle(thread)
        if thread.tools is None:
            thread.tools = self._tools(event.tools)
        thread.taken[key] += 1
        thread.stop = choice.stop_reason
        if choice.message.id is not None:
            self.replied.add(choice.message.id)
        usage = output.usage or shapes.Usage()
        self._reply(
            thread,
            choice.message,
            text,
            model=output.model or event.model,
            usage=_usage(usage),
            cost=values.real(usage.total_cost) or None,
            timestamp=values.stamp(event.timestamp),
        )

    def _heard(self, thread: _Thread, event: shapes.Event) -> None:
        """The messages of a request that its conversation does not hold yet, in order."""
        if event.input_refs:
            found = self._referred(event.input_refs)
        else:
            found = [bytes(raw) for raw in _decoded(bytes(event.input), list[msgspec.Raw]) or ()]
        same = len(thread.input)
        if found[:same] != thread.input:
            pairs = enumerate(zip(thread.input, found, strict=False))
            same = next((number for number, (old, new) in pairs if old != new), min(same, len(found)))
        thread.present.subtract(thread.keys[same:])
        del thread.keys[same:]
        for number, raw in enumerate(found[same:], same):
            thread.keys.append(self._add(thread, self._know(raw, number), thread.present))
        thread.input = found

    def _settle(self, thread: _Thread) -> None:
        """Answer the calls whose result never came into the context from what their events say."""
        for call_id in thread.told:
            if call_id in thread.open and call_id in self.answers:
                thread.taken["tool", "", (call_id,)] += 1
                self._answer(thread, call_id, *self.answers[call_id])
        thread.told.clear()

    def _referred(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        found: list[bytes] = []
        for start, end in ranges:
            part = self.pool[max(start, 0) : max(end, 0)]
            self.references -= len(part)
            if self.references < 0:
                raise RecordError(
                    f"Its events refer to more than {_MOST_REFERENCES:,} messages.",
                    field="$.events[].input_refs",
                    remedy="No evaluation is that long; write the log again.",
                )
            found += part
        return found

    # -- messages -------------------------------------------------------------------------------

    def _know(self, data: bytes, number: int) -> _Known | None:
        if data not in self.known:
            message = _part(self.record, data, shapes.Message, "$.messages[]", f"{self.where}.messages[{number}]")
            text = self._text(message.content) if message is not None else ""
            self.known[data] = _Known(message, text, _key(message, text)) if message is not None else None
        return self.known[data]

    def _add(self, thread: _Thread, known: _Known | None, present: Counter[Key]) -> Key:
        """Take a message in when it is in this context more often than in the conversation."""
        if known is None:
            return ("", "", ())
        message, text, key = known
        present[key] += 1
        # Agents rewrite replies in their context, such as one that submits: the id stays.
        if present[key] > thread.taken[key] and not (message.role == "assistant" and message.id in self.replied):
            thread.taken[key] += 1
            if message.role == "assistant" and message.source != "input":
                self._reply(thread, message, text)
            elif message.role == "tool":
                call_id = message.tool_call_id if isinstance(message.tool_call_id, str) else None
                self._answer(thread, call_id, text, message.error)
            elif message.role == "user":
                self._said(thread, message, text)
            else:
                thread.talk.message("system" if message.role == "system" else "harness", text)
        return key

    def _said(self, thread: _Thread, message: shapes.Message, text: str) -> None:
        """The task, a summary of the context, or the solver: it speaks as a user between calls."""
        if message.metadata is not None and message.metadata.summary:
            thread.talk.boundary("compaction")
            thread.talk.message("context_summary", text)
        elif thread.talk.steps_begun and message.source not in ("input", "operator"):
            thread.talk.message("harness", text)
        else:
            thread.talk.message("user", text)

    def _reply(
        self,
        thread: _Thread,
        message: shapes.Message,
        text: str,
        *,
        model: str | None = None,
        usage: Usage | None = None,
        cost: float | None = None,
        timestamp: str | None = None,
    ) -> None:
        parts = message.content if isinstance(message.content, list) else []
        served = [part for part in parts if part.type == "tool_use"]
        actions = [self._action(part.id, part.name, part.arguments) for part in served]
        actions += [self._action(call.id, call.function, call.arguments) for call in message.tool_calls or ()]
        if model and thread.model and model != thread.model:
            thread.talk.boundary("agent_switch")
        thread.model = model or thread.model
        thoughts = (self._whole(part.reasoning or part.summary) for part in parts)
        thread.talk.reply(
            text,
            thought="\n".join(thought for thought in thoughts if thought),
            actions=tuple(actions),
            model=model,
            usage=usage,
            cost=cost,
            timestamp=timestamp,
        )
        thread.open.update((action.call_id, None) for action in actions if action.call_id is not None)
        for part in served:  # the provider ran these
            fault = shapes.Fault(message=part.error) if part.error else None
            self._answer(thread, part.id, self._whole(part.result), fault)

    def _answer(self, thread: _Thread, call_id: str | None, text: str, fault: shapes.Fault | None) -> None:
        if call_id is not None:
            thread.open.pop(call_id, None)
        codes = self.codes.get(call_id or "", [])
        shown = text or (self._whole(fault.message) if fault is not None else "")
        if fault is not None and fault.type == "approval":
            thread.talk.result(call_id, "", missing="not_executed")
            thread.talk.message("harness", shown)
        else:
            code = harness.known_code(codes[0]) if len(codes) == 1 else None
            thread.talk.result(call_id, shown, exit_code=code, error=True if fault is not None else None)

    # -- values ---------------------------------------------------------------------------------

    def _read(self, raw: msgspec.Raw, kind: type[T], path: str) -> T | None:
        return self.record.under(raw, kind, path) if bytes(raw) != b"null" else None

    def _action(self, call_id: str | None, tool: str | None, raw: msgspec.Raw) -> Action:
        arguments, is_text = calls.arguments_of(raw)
        if "://" in arguments:
            if is_text:
                arguments = self._whole(arguments)
            else:
                arguments = canonical_json(self._whole_in(msgspec.json.decode(arguments))).decode()
        return Action(call_id=call_id or None, tool=tool or "", arguments=arguments, is_text=is_text)

    def _text(self, content: str | list[shapes.Part] | None) -> str:
        if not isinstance(content, list):
            return self._whole(content)
        return "\n".join(said for part in content if (said := self._part(part)))

    def _part(self, part: shapes.Part) -> str:
        for kind, source in (
            ("image", part.image),
            ("audio", part.audio),
            ("video", part.video),
            ("document", part.document),
        ):
            if source:
                return values.media(kind, self._whole(source), part.mime)
        if part.type == "data":
            return "[data]"
        return self._whole(part.text)

    def _given(self, raw: msgspec.Raw) -> str:
        """What a call's event says that it gave: text, parts, or a value."""
        data = bytes(raw)
        if data[:1] == b'"':
            return self._whole(msgspec.json.decode(data, type=str))
        if data[:1] in (b"[", b"{"):
            parts = _decoded(data if data[:1] == b"[" else b"[" + data + b"]", list[shapes.Part])
            if parts and all(part.type for part in parts):
                return self._text(parts)
        return "" if data == b"null" else data.decode("utf-8", "replace")

    def _tools(self, raw: msgspec.Raw) -> str | None:
        tools = _decoded(bytes(raw), list[shapes.Tool])
        if not tools:
            return None
        return msgspec.json.encode(
            [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": self._whole(tool.description),
                        "parameters": self._whole_in(msgspec.json.decode(tool.parameters)),
                    },
                }
                for tool in tools
            ]
        ).decode()

    def _whole(self, text: str | None) -> str:
        """A text with those kept apart put back in."""
        return _ATTACHMENT.sub(self._attachment, text) if text and "://" in text else text or ""

    def _attachment(self, found: re.Match[str]) -> str:
        text = self.texts.get(found[1])
        if text is None or len(text) > self.budget:
            self.record.lost("$.attachments (missing, or too many)")
            return found[0]
        self.budget -= len(text)
        return text

    def _whole_in(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._whole(value)
        if isinstance(value, list):
            return [self._whole_in(item) for item in value]
        if isinstance(value, dict):
            return {key: self._whole_in(item) for key, item in value.items()}
        return value


def _part(record: Record, raw: msgspec.Raw | bytes, kind: type[T], path: str, place: str) -> T | None:
    """An item of a list: one that does not fit is noted with its place, and the rest is read."""
    begun = len(record.problems)
    value = record.part(Row(record.position, bytes(raw)), kind, path)
    for problem in record.problems[begun:]:
        problem.field = place + problem.field.removeprefix(path)
    return value


def _key(message: shapes.Message, text: str) -> Key:
    ids = tuple(call.id or "" for call in message.tool_calls or ())
    if message.role == "tool" and isinstance(message.tool_call_id, str):
        ids = (message.tool_call_id,)
    return (message.role, "" if any(ids) else text, ids)


def _usage(usage: shapes.Usage) -> Usage | None:
    fresh, completion = values.whole(usage.input_tokens), values.whole(usage.output_tokens)
    cached, written = values.whole(usage.input_tokens_cache_read), values.whole(usage.input_tokens_cache_write)
    if not (fresh or completion or cached or written):
        return None
    prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
    return Usage(prompt=prompt, cached=cached, completion=completion)


def _task_id(task: str | None, sample: str | None) -> str | None:
    """A sample's id alone says little: ``3`` of which task?"""
    return f"{task}/{sample}" if task and sample else sample


def _decoded(data: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
