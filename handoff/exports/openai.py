"""OpenAI's fine-tuning files, which Together and others read too: supervised, preference, reinforcement.

One row of ``sft-train-00000.jsonl``, shortened::

    {"messages": [{"role": "user", "content": "You are taking over …"},
                  {"role": "assistant", "content": null, "weight": 1, "tool_calls": [{"id": "c00001000", "type":
                   "function", "function": {"name": "bash", "arguments": "{\\"command\\": \\"git diff\\"}"}}]}, …],
     "tools": […], "parallel_tool_calls": false}

The service refuses keys that it does not know, so a row names no sample: table ``exports`` holds them in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from handoff.exports.exporter import (
    Exporter,
    Predecessors,
    Shards,
    count_unsaid,
    demonstrations,
    single_turn,
    stem_of,
)
from handoff.exports.rows import rl_columns, text_messages_of
from handoff.samples import Sample, SampleMessage

_NAME = re.compile(r"[^A-Za-z0-9_-]")

_USAGE = """## How to train on it

Upload a file as it is, or run `python fine_tune.py MODEL` in this folder. `sft-*.jsonl` is for supervised fine-tuning
(`weight` is 1 on the replies that are trained and 0 on others), `preference-*.jsonl` for preference tuning,
`rl_prompt-*.jsonl` for reinforcement fine-tuning, whose graders read the further fields as `item.*`. A preference
compares two next replies: what both sides begin with stands in the prompt, and what came after is left out. The
service has no place for reasoning, and none for a loss on output of tools: use `env_prediction-*.jsonl` for that.
Names of tools keep letters, digits, `_` and `-`.
"""


_UPLOAD = '''"""Upload a file of this folder and start fine-tuning. The key is read from OPENAI_API_KEY."""

import sys

from openai import OpenAI

TRAIN, VALIDATION = {train!r}, {validation!r}
model = sys.argv[1] if len(sys.argv) > 1 else sys.exit("which model? python fine_tune.py MODEL")
client = OpenAI()


def uploaded(name):
    with open(name, "rb") as file:
        return client.files.create(file=file, purpose="fine-tune").id


job = client.fine_tuning.jobs.create(
    model=model,
    training_file=uploaded(TRAIN),
    validation_file=uploaded(VALIDATION) if VALIDATION else None,
)
print(job.id)
'''


class OpenAIExporter(Exporter):
    """Rows for OpenAI's fine-tuning and those who read the same."""

    name = "openai"
    title = "Handoff training data in OpenAI's form"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample; a preference that does not part in what is said has none."""
        count_unsaid(sample, losses, thoughts=False)
        prompt = sample.messages
        if sample.kind == "preference":
            turn = single_turn(sample, losses)
            if turn is None:
                return
            prompt, *sides = turn
            better, worse = (_messages((side,), losses) for side in sides)
            given: dict[str, object] = {"messages": _messages(prompt, losses), **_tools(sample, prompt, losses)}
            yield stem_of(sample), {"input": given, "preferred_output": better, "non_preferred_output": worse}
            return
        messages = _messages(prompt, losses)
        row: dict[str, object] = {"messages": messages, **_tools(sample, prompt, losses)}
        if sample.kind == "rl_prompt":
            row |= rl_columns(sample)
        else:
            for message, own in zip(prompt, messages, strict=True):
                if message.role == "assistant":
                    own["weight"] = int(message.train)
        yield stem_of(sample), row

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """A script that uploads the first file of demonstrations: the service takes one."""
        train, held = (demonstrations(shards, self.loss, split) for split in ("train", "validation"))
        if not train:
            return {}
        return {"fine_tune.py": _UPLOAD.format(train=train[0], validation=held[0] if held else None)}


def _messages(messages: Sequence[SampleMessage], losses: Counter[str]) -> list[dict[str, Any]]:
    """As the service has them: no reasoning, and no text where there are only calls."""
    rows = text_messages_of(messages)
    for row in rows:
        row.pop("reasoning_content", None)
        for call in row.get("tool_calls", ()):
            call["function"]["name"] = _named(call["function"]["name"], losses)
        if row["role"] == "assistant" and not row["content"] and row.get("tool_calls"):
            row["content"] = None
    return rows


def _tools(sample: Sample, messages: Sequence[SampleMessage], losses: Counter[str]) -> dict[str, Any]:
    tools: list[Any] = msgspec.json.decode(sample.tools)
    if not tools:
        return {}
    for tool in tools:
        if isinstance(tool, dict) and isinstance(tool.get("function"), dict) and "name" in tool["function"]:
            tool["function"]["name"] = _named(str(tool["function"]["name"]), losses)
    every = (*messages, *sample.chosen, *sample.rejected)
    return {"tools": tools, "parallel_tool_calls": any(len(message.tool_calls) > 1 for message in every)}


def _named(name: str, losses: Counter[str]) -> str:
    allowed = _NAME.sub("_", name)
    losses["tool_names_changed"] += allowed != name
    return allowed
