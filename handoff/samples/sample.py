"""The structure of a sample, and how it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from handoff.errors import RecordError
from handoff.identity import canonical_json

SCHEMA_VERSION: Literal["handoff-sample/1.0"] = "handoff-sample/1.0"
ENV_WEIGHT = 0.05
"""λ1: the weight written on spans of environment output; trainers may ignore it."""

Kind: TypeAlias = Literal[
    "sft", "preference", "rl_prompt", "pivot", "env_prediction", "state_reconstruction", "note_writing"
]
Role: TypeAlias = Literal["context", "action", "env_output", "warning", "handoff_context", "handoff_state"]
Part: TypeAlias = Literal["messages", "chosen", "rejected"]
Basis: TypeAlias = Literal["solved", "relabelled", "recovery", "recorded"]


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
    """Why it is worth learning: a takeover solved the task, or what table ``salvaged`` says; ``recorded``: it is the
    rest of a recorded run that solved its task, and nobody took over."""

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


# -- reading ------------------------------------------------------------------------------------


def trainable_spans(sample: Sample) -> Iterator[Span]:
    """Spans that bear loss in plain imitation: weighted, and in a message marked ``train``.

    For a preference, those of the chosen side.
    """
    for span in sample.spans:
        if span.part != "rejected" and span.weight > 0 and message_of(sample, span).train:
            yield span


def text_of(sample: Sample, span: Span) -> str:
    """The characters a span covers."""
    return field_of(message_of(sample, span), span.field)[span.start : span.end]


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


def message_of(sample: Sample, span: Span) -> SampleMessage:
    """The message that a span is in."""
    part: tuple[SampleMessage, ...] = getattr(sample, span.part)
    return part[span.message]
