"""Axolotl: chat rows in which every message says whether it is trained, and which of its characters.

One row of ``sft-train-00000.jsonl``, shortened::

    {"messages": [{"role": "user", "content": "You are taking over …", "train": false},
                  {"role": "assistant", "content": "…", "tool_calls": […], "train": true},
                  {"role": "tool", "content": "…", "train": true,
                   "train_detail": [{"begin_offset": 0, "end_offset": 811, "train": true}]}, …],
     "tools": "[…]", "sample_id": "s_…"}

Offsets are inclusive at both ends there. Arguments and tools are JSON text, which Axolotl decodes: read as structs,
missing arguments would be filled with nulls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from handoff.exports.exporter import (
    CONTEXT,
    MODEL,
    Exporter,
    Predecessors,
    Shards,
    count_unsaid,
    demonstrations,
    is_imitated,
    spans_of,
    stem_of,
)
from handoff.exports.rows import compact, line, text_messages_of
from handoff.samples import Sample, SampleMessage, Span

_USAGE = """## How to train on it

`axolotl train axolotl.yaml`, in this folder. `train` says of every message whether it is trained, `train_detail` of
which characters; `roles_to_train` is empty, so that nothing else is. In the loss modes `actobs` and `echo` the output
of tools is trained as well, but for clocks, addresses and notices of truncation; Axolotl knows no weights, so `echo`
trains it like replies and says so below. Its preference strategy for chats reads texts and no calls, so this folder
has no preferences; starts to roll out from have no format of its own there either.
"""


class AxolotlExporter(Exporter):
    """Rows for Axolotl's `chat_template` strategy."""

    name = "axolotl"
    title = "Handoff training data for Axolotl"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample that is imitated."""
        if not is_imitated(sample):
            losses[f"{sample.kind}_has_no_rows"] += 1
            return
        count_unsaid(sample, losses, output_weight=self.loss.of_output > 0, masks=True)
        messages = text_messages_of(sample.messages)
        for number, (message, row) in enumerate(zip(sample.messages, messages, strict=True)):
            row["train"] = message.train
            if message.role == "tool" and self.loss.of_output and sample.kind == "sft":
                details = _details(spans_of(sample, number))
                row["train"] = any(detail["train"] for detail in details)
                row["train_detail"] = details
                losses["environment_weight_as_one"] += row["train"] and self.loss.of_output < 1
                losses["ends_of_tool_turns_trained"] += row["train"]
            losses["bracket_at_an_edge_untrained"] += message.train and _has_bracket(message)
            if message.role != "tool" and message.train and any(span.weight == 0 for span in spans_of(sample, number)):
                row["train_detail"] = _details(spans_of(sample, number))
        yield (
            stem_of(sample),
            {"messages": messages, "tools": line(compact(sample.tools)), "sample_id": sample.sample_id},
        )

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Settings that train on this folder."""
        train = demonstrations(shards, self.loss)
        if not train:
            return {}
        text = f"base_model: {MODEL}\ndatasets:\n{_datasets(train)}"
        if validation := demonstrations(shards, self.loss, "validation"):
            text += f"test_datasets:\n{_datasets(validation, 'split: train')}"
        text += f"chat_template: tokenizer_default\nsequence_len: {CONTEXT}\noutput_dir: out\n"
        return {"axolotl.yaml": text + "micro_batch_size: 1\nnum_epochs: 1\nlearning_rate: 0.00001\n"}


def _has_bracket(message: SampleMessage) -> bool:
    """Axolotl finds a reply by ``[[dummy_message]]`` put in its place: what both begin or end with is not trained."""
    return not message.tool_calls and (message.content[:1] == "[" or message.content[-1:] == "]")


def _details(spans: list[Span]) -> list[dict[str, Any]]:
    return [{"begin_offset": span.start, "end_offset": span.end - 1, "train": span.weight > 0} for span in spans]


def _datasets(names: list[str], *more: str) -> str:
    parts = []
    for name in names:
        lines = [
            f"path: {name}",
            "ds_type: json",
            "type: chat_template",
            "field_messages: messages",
            "message_field_training: train",
            "message_field_training_detail: train_detail",
            "roles_to_train: []",
            "train_on_eos: turn",
            *more,
        ]
        parts.append("  - " + "\n    ".join(lines) + "\n")
    return "".join(parts)
