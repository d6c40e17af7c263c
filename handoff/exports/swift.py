"""ms-swift: messages with calls and results as turns of their own, and a flag on what is trained.

One row of ``sft-train-00000.jsonl``, shortened::

    {"messages": [{"role": "user", "content": "You are taking over …"},
                  {"role": "assistant", "content": "<think>\\n…\\n</think>\\n\\n…", "loss": true},
                  {"role": "tool_call", "content": "{\\"name\\": \\"bash\\", \\"arguments\\": {…}}", "loss": true},
                  {"role": "tool_response", "content": "…"}, …],
     "tools": "[…]", "sample_id": "s_…"}

A text and its calls are joined to one reply there.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from handoff.exports.exporter import (
    CONTEXT,
    MODEL,
    Exporter,
    Predecessors,
    Shards,
    count_unsaid,
    demonstrations,
    of_kind,
    stem_of,
)
from handoff.exports.rows import compact, line, rl_columns
from handoff.samples import Sample, SampleMessage

_USAGE = """## How to train on it

`bash sft.sh`, `bash dpo.sh`, in this folder. `loss` says of each reply whether it is trained; of several calls in a
row the first one's flag holds for all. `rl_prompt-*.jsonl` are messages without a reply, for GRPO; further columns
reach the reward function. There is no loss on output of tools inside a conversation: `env_prediction` rows carry it.
Thoughts stand in `<think>` before the text.
"""


class SwiftExporter(Exporter):
    """Rows for ms-swift."""

    name = "swift"
    title = "Handoff training data for ms-swift"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample."""
        count_unsaid(sample, losses)
        followed = sum(a.role == "tool" and b.role == "user" for a, b in itertools.pairwise(sample.messages))
        losses["messages_joined"] += followed
        tools = line(compact(sample.tools))
        row: dict[str, object] = {"messages": _turns(sample.messages), "tools": tools, "sample_id": sample.sample_id}
        if sample.kind == "preference":
            row["messages"] = _turns((*sample.messages, *sample.chosen))
            row["rejected_messages"] = _turns((*sample.messages, *sample.rejected))
            row["rejected_tools"] = tools
        elif sample.kind == "rl_prompt":
            row |= rl_columns(sample)
        yield stem_of(sample), row

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Commands that train on this folder."""
        made = {}
        train, validation = (demonstrations(shards, self.loss, split) for split in ("train", "validation"))
        for name, command, own, held in (
            ("sft.sh", "swift sft", train, validation),
            ("dpo.sh", "swift rlhf --rlhf_type dpo", of_kind(shards, "preference"), []),
        ):
            if own:
                data = f"--dataset {' '.join(own)}" + (f" --val_dataset {' '.join(held)}" if held else "")
                made[name] = (
                    f'#!/usr/bin/env bash\nset -eu\ncd "$(dirname "$0")"\n{command} --model {MODEL} {data} \\\n'
                    f"  --max_length {CONTEXT} --output_dir out --num_train_epochs 1 --learning_rate 1e-5\n"
                )
        return made


def _turns(messages: Sequence[SampleMessage]) -> list[dict[str, object]]:
    turns: list[dict[str, object]] = []
    for message in messages:
        if message.role != "assistant":
            role = "tool_response" if message.role == "tool" else message.role
            if role == "user" and turns and turns[-1]["role"] == "tool_response":
                turns[-1]["content"] = f"{turns[-1]['content']}\n\n{message.content}"  # it pairs turns
            else:
                turns.append({"role": role, "content": message.content})
            continue
        thought = message.reasoning_content
        text = (f"<think>\n{thought}\n</think>\n\n" if thought else "") + message.content
        if text or not message.tool_calls:
            turns.append({"role": "assistant", "content": text, "loss": message.train})
        for call in message.tool_calls:
            called = line({"name": call.function.name, "arguments": compact(call.function.arguments)})
            turns.append({"role": "tool_call", "content": called, "loss": message.train})
    return turns
