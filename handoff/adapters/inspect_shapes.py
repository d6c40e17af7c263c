"""What is read of an Inspect log: samples, messages, events and their parts, as typed structs.

Fields of several kinds of events share one struct, since most events matter by their place alone; what differs in
type from one kind to the next stays unparsed until the kind is known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.framing.losses import NOTHING, Repeated, Sealed, Unhoused, Upkeep


class Eval(msgspec.Struct, gc=False):
    """``eval`` of the header. The revision in it is of the evaluation's code, not of the task's repository."""

    run_id: str | None = None
    task: str | None = None
    model: str | None = None
    solver: str | None = None
    created: str | None = None
    packages: dict[str, Any] | None = None


class PlanStep(msgspec.Struct, gc=False):
    """One solver of the plan."""

    solver: str | None = None


class Plan(msgspec.Struct, gc=False):
    """``plan`` of the header."""

    steps: list[PlanStep] = []


class Header(msgspec.Struct, gc=False):
    """An archive's ``header.json``."""

    eval: Eval | None = None
    plan: Plan | None = None


class Fault(msgspec.Struct, gc=False):
    """An error of a tool, or of a whole sample."""

    type: str | None = None
    message: str | None = None
    traceback: Upkeep = NOTHING
    traceback_ansi: Upkeep = NOTHING


class Limit(msgspec.Struct, gc=False):
    """The limit that ended a sample."""

    type: str | None = None
    limit: Upkeep = NOTHING


class Judged(msgspec.Struct, gc=False):
    """``metadata`` of a score: some benchmarks keep the run's own patch there."""

    model_patch: str | None = None


class Score(msgspec.Struct, gc=False):
    """A scorer's verdict; what it compared with stays out."""

    value: Any = None
    metadata: msgspec.Raw = NOTHING
    answer: Sealed = NOTHING
    explanation: Sealed = NOTHING
    history: Sealed = NOTHING


class Pools(msgspec.Struct, gc=False):
    """Messages that events refer to by number."""

    messages: list[msgspec.Raw] = []
    calls: Repeated = NOTHING


class Transcript(msgspec.Struct, gc=False):
    """Events, and texts kept apart, of logs before 0.3.45."""

    events: list[msgspec.Raw] = []
    content: dict[str, str] = {}


class Sample(msgspec.Struct, gc=False):
    """One sample: one run and the runs that it started."""

    messages: list[msgspec.Raw]
    id: Any = None
    epoch: Any = None
    uuid: str | None = None
    events: list[msgspec.Raw] | None = None
    message_pool: list[msgspec.Raw] | None = None
    events_data: Pools | None = None
    transcript: Transcript | None = None
    attachments: dict[str, str] = {}
    scores: msgspec.Raw = NOTHING
    limit: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    metadata: Sealed = NOTHING
    target: Sealed = NOTHING
    input: Repeated = NOTHING
    output: Repeated = NOTHING
    model_usage: Repeated = NOTHING
    role_usage: Repeated = NOTHING
    sandbox: Unhoused = NOTHING
    store: Unhoused = NOTHING
    timelines: Upkeep = NOTHING
    started_at: Unhoused = NOTHING
    completed_at: Unhoused = NOTHING
    total_time: Unhoused = NOTHING
    working_time: Unhoused = NOTHING
    turn_count: Upkeep = NOTHING
    token_limit: Upkeep = NOTHING
    token_limit_type: Upkeep = NOTHING
    token_limit_usage: Upkeep = NOTHING


class Facts(msgspec.Struct, gc=False):
    """What is read of ``metadata``, which may hold hidden tests and solutions."""

    repo: str | None = None
    base_commit: str | None = None
    instance_id: str | None = None


class Part(msgspec.Struct, gc=False):
    """One part of a content list."""

    type: str | None = None
    text: str | None = None
    reasoning: str | None = None
    summary: str | None = None
    image: str | None = None
    audio: str | None = None
    video: str | None = None
    document: str | None = None
    name: str | None = None
    id: str | None = None
    arguments: msgspec.Raw = NOTHING
    result: str | None = None
    error: str | None = None
    mime: str | None = msgspec.field(default=None, name="mime_type")
    filename: Repeated = NOTHING
    format: Repeated = NOTHING
    detail: Upkeep = NOTHING
    signature: Upkeep = NOTHING
    redacted: Upkeep = NOTHING
    internal: Upkeep = NOTHING
    tool_type: Upkeep = NOTHING


class Call(msgspec.Struct, gc=False):
    """One call of a reply."""

    id: str | None = None
    function: str | None = None
    arguments: msgspec.Raw = NOTHING
    view: Repeated = NOTHING
    parse_error: Repeated = NOTHING
    type: Upkeep = NOTHING
    internal: Upkeep = NOTHING


class Mark(msgspec.Struct, gc=False):
    """``metadata`` of a message."""

    summary: Any = None


class Message(msgspec.Struct, gc=False):
    """One message. A user's without ``source`` was put there by the solver."""

    role: str
    content: str | list[Part] | None = None
    source: str | None = None
    id: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | list[str] | None = None
    error: Fault | None = None
    metadata: Mark | None = None
    function: Repeated = NOTHING
    model: Repeated = NOTHING


class Usage(msgspec.Struct, gc=False):
    """Tokens of one reply; ``input_tokens`` is what no cache held."""

    input_tokens: Any = None
    output_tokens: Any = None
    input_tokens_cache_read: Any = None
    input_tokens_cache_write: Any = None
    total_cost: Any = None
    total_tokens: Repeated = NOTHING
    reasoning_tokens: Unhoused = NOTHING


class Choice(msgspec.Struct, gc=False):
    """One reply to one request."""

    message: Message
    stop_reason: str | None = None
    logprobs: Upkeep = NOTHING


class Output(msgspec.Struct, gc=False):
    """What a model returned."""

    choices: list[Choice] = []
    model: str | None = None
    usage: Usage | None = None
    error: str | None = None
    completion: Repeated = NOTHING
    time: Unhoused = NOTHING
    metadata: Upkeep = NOTHING


class Tool(msgspec.Struct, gc=False):
    """A tool that a model was offered."""

    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = NOTHING
    options: Upkeep = NOTHING


class Event(msgspec.Struct, gc=False):
    """One event, of any kind."""

    event: str
    span_id: str | None = None
    id: str | None = None
    parent_id: str | None = None
    type: str | None = None
    name: str | None = None
    function: str | None = None
    action: str | None = None
    timestamp: Any = None
    model: str | None = None
    role: str | None = None
    input: msgspec.Raw = NOTHING
    input_refs: list[tuple[int, int]] | None = None
    tools: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    events: list[msgspec.Raw] | None = None
    arguments: Repeated = NOTHING
    view: Repeated = NOTHING
    message_id: Repeated = NOTHING
    call: Repeated = NOTHING
    cmd: Repeated = NOTHING
    sample: Repeated = NOTHING
    state: Repeated = NOTHING
    score: Sealed = NOTHING
    target: Sealed = NOTHING
    intermediate: Sealed = NOTHING
    scorer: Sealed = NOTHING
    changes: Upkeep = NOTHING
    config: Upkeep = NOTHING
    tool_choice: Upkeep = NOTHING
    options: Upkeep = NOTHING
    file: Upkeep = NOTHING
    uuid: Upkeep = NOTHING
    working_start: Upkeep = NOTHING
    working_time: Unhoused = NOTHING
    completed: Unhoused = NOTHING
    retries: Unhoused = NOTHING
    cache: Upkeep = NOTHING
    pending: Upkeep = NOTHING
    message: Upkeep = NOTHING
    limit: Upkeep = NOTHING
