"""What a training format is to this room, and what all of them ask of a sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
import pyarrow as pa

from handoff.samples import ENV_WEIGHT, Sample, SampleMessage, Span, trainable_spans
from handoff.trajectory import Step

Predecessors: TypeAlias = Callable[[str, int], Sequence[Step]]
"""(trajectory id, h) → steps 1..h of the predecessor."""

LossMode: TypeAlias = Literal["action_only", "actobs", "echo", "env_prediction_rows"]

MODEL = "Qwen/Qwen3-0.6B"
"""Named in trainers' settings until the user puts their own."""
CONTEXT = 32_768
"""Tokens of context in trainers' settings, where nobody named another number."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What bears loss beside the replies (``docs/science.md §11``)."""

    mode: LossMode = "action_only"
    """Nothing; output of tools like replies; or at λ1; or predictions of it as rows of their own, which every trainer
    can read."""
    env_weight: float = ENV_WEIGHT
    """λ1 of mode ``echo``."""

    @property
    def of_output(self) -> float:
        """Weight of what a tool printed, inside a demonstration."""
        return {"actobs": 1.0, "echo": self.env_weight}.get(self.mode, 0.0)


Shards: TypeAlias = Mapping[str, Sequence[str]]
"""File stem, as ``sft-train`` → names of its shards, in order."""


class Exporter(ABC):
    """One format. A new one is one file, and one line in ``exports/__init__.py``."""

    name: ClassVar[str]
    """Folder name, and ``format`` in the table."""
    title: ClassVar[str]

    tells_the_past: ClassVar[bool] = False
    """Whether its rows hold what the predecessor did."""

    def __init__(self, loss: Loss | None = None) -> None:
        self.loss = loss or Loss()

    @property
    def identity(self) -> str:
        """All that decides its rows, beside the samples."""
        return f"{self.name} {self.loss.mode} {self.loss.of_output}"

    @abstractmethod
    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """(file stem, row) pairs of one sample; what a row cannot carry is counted in ``losses``.

        A sample that the format has no place for yields nothing and is counted.
        """

    @abstractmethod
    def usage(self) -> str:
        """Markdown: how to load and train, and what the format cannot express."""

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Further files of the folder, by name: the trainer's settings for these shards, code that it loads."""
        return {}

    def schema(self, stem: str) -> pa.Schema | None:
        """Of a file that is Parquet; ``None``: JSON Lines."""
        return None


def stem_of(sample: Sample, kind: str | None = None) -> str:
    """The file that a sample belongs in: its kind, its basis unless a takeover solved the task, its split."""
    basis = "" if sample.origin.basis == "solved" else f"-{sample.origin.basis}"
    return f"{kind or sample.kind}{basis}-{sample.origin.split}"


def demonstrations(shards: Shards, loss: Loss, split: str = "train") -> list[str]:
    """Names of the shards that plain training reads: solved takeovers and the rest of recorded runs; with predictions
    of the environment where the loss mode asks for rows of them."""
    kinds = ["sft", *(["env_prediction"] if loss.mode == "env_prediction_rows" else [])]
    stems = [f"{kind}{basis}-{split}" for kind in kinds for basis in ("", "-recorded")]
    return [name for stem in stems for name in shards.get(stem, ())]


def of_kind(shards: Shards, kind: str, split: str = "train") -> list[str]:
    """Names of the shards of one kind, whatever their basis."""
    stems = [stem for stem in sorted(shards) if stem.startswith(kind) and stem.endswith(f"-{split}")]
    return [name for stem in stems for name in shards[stem]]


def trained_from(sample: Sample) -> int:
    """Place of the first message that is trained: what comes before it is the prompt."""
    return next(place for place, message in enumerate(sample.messages) if message.train)


def is_imitated(sample: Sample) -> bool:
    """Whether the sample is a conversation whose marked replies are learned."""
    return sample.kind not in ("preference", "rl_prompt")


def trains_all_replies(sample: Sample) -> bool:
    """Whether no reply of the conversation is only context: what trainers need that learn every reply."""
    return all(message.train for message in sample.messages if message.role == "assistant")


def count_unsaid(
    sample: Sample, losses: Counter[str], *, output_weight: bool = False, masks: bool = False, thoughts: bool = True
) -> None:
    """Count what a format of messages cannot say of this sample.

    ``output_weight``: it can put a loss on output of tools. ``masks``: it can leave parts of a trained message out.
    ``thoughts``: it has a place for reasoning, which a chat template may still leave out.
    """
    if not output_weight and sample.kind in ("sft", "preference"):
        losses["environment_weights_dropped"] += sum(span.role == "env_output" for span in sample.spans)
    if not masks:
        trained = {(span.part, span.message) for span in trainable_spans(sample)}
        losses["masked_spans_trained"] += sum((s.part, s.message) in trained and s.weight == 0 for s in sample.spans)
    reasoned = sum(
        bool(m.reasoning_content) for part in (sample.messages, sample.chosen, sample.rejected) for m in part
    )
    losses["reasoning_left_to_the_template" if thoughts else "thoughts_dropped"] += reasoned


def spans_of(sample: Sample, number: int, field: str = "content") -> list[Span]:
    """The spans of one field of one message, in order."""
    return [s for s in sample.spans if s.part == "messages" and s.message == number and s.field == field]


def single_turn(
    sample: Sample, losses: Counter[str]
) -> tuple[tuple[SampleMessage, ...], SampleMessage, SampleMessage] | None:
    """A preference between two next replies, for trainers that read one message a side: (prompt, better, worse).

    What both sides begin with goes to the prompt; that the rest is cut is counted. ``None``, and counted: they part in
    what came back, not in what was said, or one ends where the other goes on.
    """
    shared = 0
    for better, worse in zip(sample.chosen, sample.rejected, strict=False):
        if _said(better) != _said(worse):
            break
        shared += 1
    rest = sample.chosen[shared : shared + 1], sample.rejected[shared : shared + 1]
    if not all(side and side[0].role == "assistant" for side in rest):
        losses["preference_parts_in_what_came_back"] += 1
        return None
    losses["preference_cut_to_one_reply"] += 1
    return (*sample.messages, *sample.chosen[:shared]), rest[0][0], rest[1][0]


def _said(message: SampleMessage) -> tuple[Any, ...]:
    calls = tuple(call.function for call in message.tool_calls)
    return message.role, message.content, message.reasoning_content, calls
