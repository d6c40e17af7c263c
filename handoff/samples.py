"""The canonical training sample: one structure from which every training format is derived (``exports/``).

Kinds: ``sft`` (imitate the successor), ``preference`` (two takeovers of one point), ``rl_prompt`` (a start and
its reward), ``env_prediction`` (predict what an action brings back), ``state_reconstruction`` (say what the
state at h is). Which takeovers become samples is decided in ``curation/``; secrets are replaced there too,
before anything here sees the text.

What holds for every sample, and is checked when one is built:

- ``content`` is ``""`` and never null; a call's ``arguments`` are a JSON string that decodes to an object;
- preamble, view and task are one user message, since some trainers drop rows with two in a row;
- every result answers a call of the message before it, and every call is answered, except the calls of the
  closing message of a demonstration, whose results nobody trains on;
- roles (``docs/science.md §11``) partition the characters of every stored string; a span is
  ``[start, end)`` in characters (code points) of that string, so it survives re-tokenising for any model;
- what the predecessor did is only ever ``handoff_context``: it is never trained;
- every sample that is trained by imitation has at least one trainable character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from handoff.errors import RecordError
from handoff.identity import canonical_json, identify
from handoff.successors import Briefing
from handoff.tokens import MESSAGE_OVERHEAD, TOKENIZER, count_tokens
from handoff.trajectory import Action, Observation, Step
from handoff.views.trace import render_steps

SCHEMA_VERSION: Literal["handoff-sample/1.0"] = "handoff-sample/1.0"
ENV_WEIGHT = 0.05
"""λ1: the weight written on spans of environment output; trainers may ignore it."""

Kind: TypeAlias = Literal["sft", "preference", "rl_prompt", "env_prediction", "state_reconstruction"]
Role: TypeAlias = Literal["context", "action", "env_output", "warning", "handoff_context", "handoff_state"]
Part: TypeAlias = Literal["messages", "chosen", "rejected"]
Basis: TypeAlias = Literal["solved", "relabelled", "recovery"]

PREDICT = (
    "You are given a software task, what is known about the work so far, the latest steps and the next action. "
    "Predict the output that the action brings back, exactly as the tool would print it."
)
RECONSTRUCT = (
    "You are given a software task and what is known about the work so far. "
    "State what is true of the repository now, as one JSON object with sorted keys. Use null for what cannot be known."
)

_VOLATILE = re.compile(
    r"\[[^\[\]\n]{0,80}\b(?:truncated|left out|omitted|clipped)\b[^\[\]\n]{0,80}\]"  # a harness cut the output
    r"|<response clipped>"
    r"|\b(?:0x[0-9a-f]{6,16})\b"  # addresses
    r"|/tmp/tmp[\w.-]+|/tmp/pytest-of-[\w.-]+/pytest-\d+"
    r"|\b\d+\.\d+ ?s(?:ec(?:onds)?)?\b"  # durations
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?",
    re.IGNORECASE,
)
"""Parts of an observation that cannot be predicted and must not be learned (role ``warning``)."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """Name and arguments of a call."""

    name: str
    arguments: str
    """A JSON object as text."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call, in OpenAI form."""

    id: str
    """``c`` and eight digits, unique in its conversation: the nine characters that the strictest templates ask for."""
    type: Literal["function"] = "function"
    function: Function


class SampleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    reasoning_content: str = ""
    """Explicit reasoning; empty when the successor gave none."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    segment: Literal["task", "successor", "environment", "harness", "instruction", "target"]
    """``task`` is preamble, view and task in one; ``target`` the answer of a prediction or reconstruction."""
    source_step: int | None = None
    """The successor's step it came from, 1-based."""
    train: bool = False


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A run of characters with one role."""

    part: Part = "messages"
    message: int
    """0-based, within ``part``."""
    field: str
    """``content``, ``reasoning_content``, ``tool_calls[i].function.name`` or ``tool_calls[i].function.arguments``."""
    start: int
    end: int
    """Exclusive."""
    role: Role
    weight: float
    """Weight of the loss; 0 is masked."""


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by the named tokenizer, without a chat template's own."""

    tokenizer: str
    prompt: int
    """Messages before the first trained one, with the overhead per message."""
    trained: int
    env_output: int


class Reward(msgspec.Struct, frozen=True, kw_only=True):
    """How the takeover was judged. ``value`` is ``None`` where there is nothing to reward."""

    value: float | None = None
    source: str | None = None
    """``tests`` when the task's tests decided."""
    rejected_value: float | None = None


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a sample comes from, down to the bytes."""

    trajectory_id: str
    point_id: str
    view_id: str
    view: str
    h: int
    task_id: str | None = None
    repo: str | None = None
    base_commit: str | None = None
    split: str
    licence: str | None = None
    labels: tuple[str, ...] = ()
    tree: str | None = None
    """The git tree the successor started from."""
    variant_id: str | None = None
    tier: str | None = None
    takeover_id: str | None = None
    rejected_takeover_id: str | None = None
    provenance: str | None = None
    """``executed``, ``replayed`` or ``recorded`` (``docs/science.md``, general rules)."""
    successor: str | None = None
    successor_digest: str | None = None
    predecessor_agent: str | None = None
    predecessor_model: str | None = None
    seed: int | None = None
    source_format: str | None = None
    source_file: str | None = None
    source_record: int | None = None
    source_sha256: str | None = None
    redactions: int = 0
    basis: Basis = "solved"
    """Why it is worth learning: the task was solved, or what table ``salvaged`` says."""

    @staticmethod
    def of(
        trajectory: Mapping[str, Any],
        point: Mapping[str, Any],
        view: Mapping[str, Any],
        run: Mapping[str, Any] | None = None,
    ) -> Origin:
        """From rows of ``raw_trajectories``, ``injected_handoffs``, ``view_renderings`` and ``takeover_runs``."""
        run = run or {}
        return Origin(
            trajectory_id=point["trajectory_id"],
            point_id=point["point_id"],
            view_id=view["view_id"],
            view=view["view"],
            h=point["h"],
            task_id=point.get("task_id"),
            repo=point.get("repo"),
            base_commit=point.get("base_commit"),
            split=point["split"],
            licence=trajectory.get("licence"),
            labels=tuple(point.get("labels") or ()),
            tree=point.get("tree"),
            variant_id=run.get("variant_id"),
            tier=run.get("tier"),
            takeover_id=run.get("takeover_id"),
            provenance=run.get("provenance"),
            successor=run.get("arm"),
            successor_digest=run.get("successor_digest"),
            predecessor_agent=trajectory.get("agent"),
            predecessor_model=trajectory.get("model"),
            seed=run.get("seed"),
            source_format=trajectory.get("format"),
            source_file=trajectory.get("file"),
            source_record=trajectory.get("record"),
            source_sha256=trajectory.get("source_sha256"),
        )


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a training set."""

    schema_version: Literal["handoff-sample/1.0"] = SCHEMA_VERSION
    sample_id: str = ""
    kind: Kind
    tools: str
    """Tool definitions as a JSON array in OpenAI form, as text."""
    messages: tuple[SampleMessage, ...]
    chosen: tuple[SampleMessage, ...] = ()
    rejected: tuple[SampleMessage, ...] = ()
    spans: tuple[Span, ...]
    reward: Reward = Reward()
    diagnosis: dict[str, float | None] = {}
    """Metrics of the (chosen) takeover by name; ``None`` has no value."""
    token_counts: TokenCounts
    origin: Origin
    changes: dict[str, int] = {}
    """What building the sample changed in the recording, by kind: results cut, arguments wrapped…"""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a sample."""
    return msgspec.json.schema(Sample)


# -- one function per kind ----------------------------------------------------------------------


def sft_sample(
    origin: Origin,
    briefing: Briefing,
    steps: Sequence[Step],
    *,
    reward: Reward | None = None,
    diagnosis: Mapping[str, float | None] | None = None,
) -> Sample:
    """Imitate this takeover: every reply of the successor is trained, everything else is context.

    ``RecordError`` when nothing is trainable or an action's arguments cannot be stored as an object.
    """
    talk = _Conversation()
    talk.open(briefing)
    talk.play(steps)
    return _finish("sft", origin, briefing, [talk], reward, diagnosis)


def preference_sample(
    origin: Origin,
    briefing: Briefing,
    chosen: Sequence[Step],
    rejected: Sequence[Step],
    *,
    reward: Reward | None = None,
    diagnosis: Mapping[str, float | None] | None = None,
) -> Sample:
    """Two takeovers of one point under one view: same prompt to the character.

    ``RecordError`` when they do not differ.
    """
    opening, better, worse = _Conversation(), _Conversation("chosen"), _Conversation("rejected")
    opening.open(briefing)
    better.play(chosen)
    worse.play(rejected)
    if better.messages == worse.messages:
        raise RecordError("both takeovers say the same", field="$.rejected", remedy="Pair takeovers that differ.")
    return _finish("preference", origin, briefing, [opening, better, worse], reward, diagnosis)


def rl_prompt_sample(origin: Origin, briefing: Briefing) -> Sample:
    """A start to roll out from. A group of GRPO shares task, h and view, so it is named by ``origin.view_id``."""
    opening = _Conversation()
    opening.open(briefing)
    return _finish("rl_prompt", origin, briefing, [opening], Reward(source="tests"), None)


def env_prediction_samples(
    origin: Origin, briefing: Briefing, steps: Sequence[Step], *, history: int = 3, at: Sequence[int] | None = None
) -> tuple[Sample, ...]:
    """For each action with an answer: given the last ``history`` steps and the action, predict the answer.

    ``at`` limits to some steps (1-based). Steps with other than one action are skipped: what came first is not known.
    """
    samples = []
    for number, step in enumerate(steps, 1):
        if (at is not None and number not in at) or len(step.actions) != 1:
            continue
        answer = next((o for o in step.observations if not o.is_orphan), None)
        if answer is None or answer.missing is not None or not _VOLATILE.sub("", answer.text).strip():
            continue
        talk = _Conversation()
        talk.add("system", [(PREDICT, "context")], segment="instruction")
        asked = Step(thought="", text="", actions=step.actions)
        since = max(number - 1 - history, 0)
        told = render_steps(steps[since : number - 1], since + 1)
        talk.add(
            "user",
            [
                *_opening(briefing),
                ("\n\n# Latest steps\n\n" + told if told else "", "context"),
                ("\n\n# Next action\n\n" + render_steps([asked], number), "context"),
            ],
            segment="task",
            source_step=number,
        )
        talk.add(
            "assistant", _roles_of_output(answer.text), segment="target", source_step=number, train=True, env_weight=1.0
        )
        samples.append(_finish("env_prediction", origin, briefing, [talk], None, None))
    return tuple(samples)


def state_reconstruction_sample(origin: Origin, briefing: Briefing, state: Mapping[str, object]) -> Sample:
    """Say what the state at h is. Fields of ``state`` that are ``None`` are unknown: written as null and masked.

    ``RecordError`` when nothing is known.
    """
    if all(value is None for value in state.values()):
        raise RecordError(
            "no field of the state is known", field="$.state", remedy="Use a point with a verified state."
        )
    answer: list[tuple[str, Role]] = []
    for position, name in enumerate(sorted(state)):
        text = f"{canonical_json(name).decode()}:{canonical_json(state[name]).decode()}"
        answer.append(("{" if position == 0 else ",", "handoff_state"))
        answer.append((text, "context" if state[name] is None else "handoff_state"))
    answer.append(("}", "handoff_state"))
    talk = _Conversation()
    talk.add("system", [(RECONSTRUCT, "context")], segment="instruction")
    talk.open(briefing)
    talk.add("assistant", answer, segment="target", train=True)
    return _finish("state_reconstruction", origin, briefing, [talk], None, None)


# -- building -----------------------------------------------------------------------------------

_Pieces: TypeAlias = Sequence[tuple[str, Role]]
_WEIGHTS: dict[Role, float] = {"action": 1.0, "env_output": ENV_WEIGHT, "handoff_state": 1.0}


def _opening(briefing: Briefing) -> list[tuple[str, Role]]:
    parts: list[tuple[str, Role]] = []
    for text, role in (
        (briefing.preamble, "handoff_context"),
        (briefing.view_text, "handoff_context"),
        (briefing.task, "context"),
    ):
        if text:
            parts += [("\n\n", parts[-1][1])] if parts else []
            parts.append((text, role))  # type: ignore[arg-type]  # the tuple's literals widen to str
    return parts


def _roles_of_output(text: str) -> list[tuple[str, Role]]:
    pieces: list[tuple[str, Role]] = []
    last = 0
    for match in _VOLATILE.finditer(text):
        pieces += [(text[last : match.start()], "env_output"), (match.group(), "warning")]
        last = match.end()
    return [*pieces, (text[last:], "env_output")]


class _Conversation:
    """Messages and their spans, grown together."""

    def __init__(self, part: Part = "messages") -> None:
        self.part = part
        self.messages: list[SampleMessage] = []
        self.spans: list[Span] = []
        self.changes: dict[str, int] = {}

    def open(self, briefing: Briefing) -> None:
        pieces = _opening(briefing)
        if not pieces:
            raise RecordError("the successor was told nothing", field="$.messages[0]", remedy="Give a task.")
        self.add("user", pieces, segment="task")

    def play(self, steps: Sequence[Step]) -> None:
        """The successor's conversation, cut after its last reply."""
        for number, step in enumerate(steps, 1):
            if step.text or step.thought or step.actions:
                self._reply(number, step)
                for position, action in enumerate(step.actions):
                    self._result(number, position, action, step)
            self._count("orphan_results_dropped", sum(o.is_orphan for o in step.observations))
            for message in step.after:
                role: Role = "warning" if message.role == "harness" else "context"
                self.add("user", [(message.text, role)], segment="harness", source_step=number)
        while self.messages and self.messages[-1].role != "assistant":
            self._drop_last()
        if not self.messages:
            raise RecordError("the successor said nothing", field="$.messages", remedy="Drop the takeover.")

    def add(
        self,
        role: Literal["system", "user", "assistant", "tool"],
        pieces: _Pieces,
        *,
        segment: Literal["task", "successor", "environment", "harness", "instruction", "target"],
        source_step: int | None = None,
        train: bool = False,
        tool_call_id: str | None = None,
        env_weight: float = ENV_WEIGHT,
    ) -> None:
        """One message; text of a role that spoke just now is appended to its message instead."""
        last = self.messages[-1] if self.messages else None
        if last is not None and role == last.role == "user":
            self.messages.pop()
            pieces = [("\n\n", "context"), *pieces]
            content, offset, segment, source_step = last.content, len(last.content), last.segment, last.source_step
        else:
            content, offset = "", 0
        text = content + "".join(piece for piece, _ in pieces)
        self._mark("content", pieces, offset, env_weight)
        self.messages.append(
            SampleMessage(
                role=role,
                content=text,
                segment=segment,
                source_step=source_step,
                train=train,
                tool_call_id=tool_call_id,
            )
        )

    def _reply(self, number: int, step: Step) -> None:
        content, reasoning = step.text, step.thought
        if (
            self.messages and self.messages[-1].role == "assistant"
        ):  # a reply that called nothing and was followed by another
            last = self.messages.pop()
            at = len(self.messages)
            self.spans = [span for span in self.spans if span.message != at]
            content = "\n\n".join(filter(None, (last.content, content)))
            reasoning = "\n\n".join(filter(None, (last.reasoning_content, reasoning)))
            self._count("replies_joined", 1)
        calls = tuple(
            ToolCall(
                id=_call_id(number, position),
                function=Function(
                    name=_tool_name(action, number, position), arguments=self._arguments(action, number, position)
                ),
            )
            for position, action in enumerate(step.actions)
        )
        self._mark("content", [(content, "action")])
        self._mark("reasoning_content", [(reasoning, "action")])
        for position, call in enumerate(calls):
            self._mark(f"tool_calls[{position}].function.name", [(call.function.name, "action")])
            self._mark(f"tool_calls[{position}].function.arguments", [(call.function.arguments, "action")])
        self.messages.append(
            SampleMessage(
                role="assistant",
                content=content,
                reasoning_content=reasoning,
                tool_calls=calls,
                segment="successor",
                source_step=number,
                train=True,
            )
        )

    def _result(self, number: int, position: int, action: Action, step: Step) -> None:
        answers = [o for o in step.observations if not o.is_orphan]
        answer = answers[position] if position < len(answers) else Observation(missing="none")
        if answer.missing is not None and not answer.text:
            self._count("missing_results_as_empty", 1)
        self.add(
            "tool",
            _roles_of_output(answer.text),
            segment="environment",
            source_step=number,
            tool_call_id=_call_id(number, position),
        )

    def _arguments(self, action: Action, number: int, position: int) -> str:
        if action.is_text:
            if action.tool != "bash":
                raise RecordError(
                    f"the call of {action.tool!r} has free text for arguments",
                    field=f"$.steps[{number - 1}].actions[{position}].arguments",
                    remedy="Only a shell line can be stored as an object; drop the takeover.",
                )
            self._count("shell_lines_wrapped", 1)
            return msgspec.json.encode({"command": action.arguments}).decode()
        try:
            msgspec.json.decode(action.arguments, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as error:
            raise RecordError(
                f"the arguments of {action.tool!r} are not a JSON object: {error}",
                field=f"$.steps[{number - 1}].actions[{position}].arguments",
                remedy="Mark them as text at the source, or drop the takeover.",
            ) from error
        return action.arguments

    def _drop_last(self) -> None:
        dropped = self.messages.pop()
        at = len(self.messages)
        self.spans = [span for span in self.spans if span.message != at]
        self._count("closing_results_cut" if dropped.role == "tool" else "closing_messages_cut", 1)

    def _mark(self, field: str, pieces: _Pieces, offset: int = 0, env_weight: float = ENV_WEIGHT) -> None:
        for text, role in pieces:
            if not text:
                continue
            weight = env_weight if role == "env_output" else _WEIGHTS.get(role, 0.0)
            span = Span(
                part=self.part,
                message=len(self.messages),
                field=field,
                start=offset,
                end=offset + len(text),
                role=role,
                weight=weight,
            )
            offset = span.end
            if self.spans and self.spans[-1].end == span.start and _same_place(self.spans[-1], span):
                span = msgspec.structs.replace(self.spans.pop(), end=span.end)
            self.spans.append(span)

    def _count(self, change: str, number: int) -> None:
        if number:
            self.changes[change] = self.changes.get(change, 0) + number


def _same_place(a: Span, b: Span) -> bool:
    return (a.message, a.field, a.role, a.weight) == (b.message, b.field, b.role, b.weight)


def _call_id(step: int, position: int) -> str:
    return f"c{step:05d}{position:03d}"


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _tool_name(action: Action, number: int, position: int) -> str:
    if not _NAME.fullmatch(action.tool):
        raise RecordError(
            f"{action.tool!r} cannot name a tool",
            field=f"$.steps[{number - 1}].actions[{position}].tool",
            remedy="Names are letters, digits, '_', '.' and '-', 64 at most; drop the takeover.",
        )
    return action.tool


def _finish(
    kind: Kind,
    origin: Origin,
    briefing: Briefing,
    talks: Sequence[_Conversation],
    reward: Reward | None,
    diagnosis: Mapping[str, float | None] | None,
) -> Sample:
    by_part = {talk.part: tuple(talk.messages) for talk in talks}
    changes: dict[str, int] = {}
    for talk in talks:
        for change in sorted(talk.changes):
            changes[change] = changes.get(change, 0) + talk.changes[change]
    unnamed = Sample(
        kind=kind,
        tools=briefing.tools,
        messages=by_part["messages"],
        chosen=by_part.get("chosen", ()),
        rejected=by_part.get("rejected", ()),
        spans=tuple(span for talk in talks for span in talk.spans),
        reward=reward or Reward(),
        diagnosis=dict(sorted((diagnosis or {}).items())),
        token_counts=TokenCounts(tokenizer=TOKENIZER, prompt=0, trained=0, env_output=0),
        origin=origin,
        changes=changes,
    )
    if kind != "rl_prompt" and not any(trainable_spans(unnamed)):
        raise RecordError("no character of the sample would be trained", field="$.spans", remedy="Drop it.")
    try:
        counted = msgspec.structs.replace(unnamed, token_counts=_count(unnamed))
        return msgspec.structs.replace(counted, sample_id=identify("s", canonical_json(counted)))
    except UnicodeEncodeError as error:
        raise RecordError(
            f"the text holds half of a surrogate pair ({error.reason})", field="$.messages", remedy="Drop the takeover."
        ) from error


# -- reading a sample ---------------------------------------------------------------------------


def trainable_spans(sample: Sample) -> Iterator[Span]:
    """Spans that bear loss in plain imitation: weighted, and in a message marked ``train``.

    For a preference, those of the chosen side.
    """
    for span in sample.spans:
        if span.part != "rejected" and span.weight > 0 and _message(sample, span).train:
            yield span


def text_of(sample: Sample, span: Span) -> str:
    """The characters a span covers."""
    return field_of(_message(sample, span), span.field)[span.start : span.end]


def field_of(message: SampleMessage, field: str) -> str:
    """The stored string a span's ``field`` names."""
    if field == "content":
        return message.content
    if field == "reasoning_content":
        return message.reasoning_content
    head, _, name = field.partition("].function.")
    call = message.tool_calls[int(head.removeprefix("tool_calls["))]
    return call.function.name if name == "name" else call.function.arguments


def fields(message: SampleMessage) -> Iterator[str]:
    """Names of a message's non-empty strings, in the order of their spans."""
    if message.content:
        yield "content"
    if message.reasoning_content:
        yield "reasoning_content"
    for position, call in enumerate(message.tool_calls):
        yield f"tool_calls[{position}].function.name"
        if call.function.arguments:
            yield f"tool_calls[{position}].function.arguments"


def sample_row(sample: Sample, *, gates: Mapping[str, object], chosen_because: str) -> dict[str, Any]:
    """One row of ``curated_training_set``."""
    origin = sample.origin
    return {
        "sample_id": sample.sample_id,
        "kind": sample.kind,
        "split": origin.split,
        "task_id": origin.task_id,
        "repo": origin.repo,
        "trajectory_id": origin.trajectory_id,
        "point_id": origin.point_id,
        "view_id": origin.view_id,
        "view": origin.view,
        "variant_id": origin.variant_id,
        "takeover_id": origin.takeover_id,
        "tier": origin.tier,
        "licence": origin.licence,
        "reward": sample.reward.value,
        "prompt_tokens": sample.token_counts.prompt,
        "trained_tokens": sample.token_counts.trained,
        "env_tokens": sample.token_counts.env_output,
        "tokenizer": sample.token_counts.tokenizer,
        "basis": origin.basis,
        "gates": canonical_json(dict(gates)).decode(),
        "chosen_because": chosen_because,
        "sample": msgspec.json.encode(sample).decode(),
    }


def read_sample(text: str | bytes) -> Sample:
    """The sample of a row's ``sample`` column. ``RecordError`` when it is not one."""
    try:
        return msgspec.json.decode(text, type=Sample)
    except msgspec.DecodeError as error:
        raise RecordError(f"not a sample: {error}", remedy="Curate again with this version.") from error


def _message(sample: Sample, span: Span) -> SampleMessage:
    part: tuple[SampleMessage, ...] = getattr(sample, span.part)
    return part[span.message]


def _count(sample: Sample) -> TokenCounts:
    prompt = 0
    for message in sample.messages:
        if message.train:
            break
        prompt += MESSAGE_OVERHEAD + sum(count_tokens(field_of(message, name)) for name in fields(message))
    return TokenCounts(
        tokenizer=TOKENIZER,
        prompt=prompt,
        trained=_tokens(text_of(sample, span) for span in trainable_spans(sample)),
        env_output=_tokens(text_of(sample, s) for s in sample.spans if s.role == "env_output"),
    )


def _tokens(texts: Iterable[str]) -> int:
    return sum(count_tokens(text) for text in texts)
