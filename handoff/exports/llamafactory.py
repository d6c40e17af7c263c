"""LLaMA-Factory: ShareGPT rows for its stable trainer, and native rows for its version 1.

One row of ``llamafactory/sft-train-00000.jsonl``, shortened::

    {"conversations": [{"from": "human", "value": "You are taking over …"},
                       {"from": "function_call", "value": "{\\"name\\": \\"bash\\", \\"arguments\\": {…}}"},
                       {"from": "observation", "value": "…"}, {"from": "gpt", "value": "…"}],
     "system": "…", "tools": "[…]"}

and of ``llamafactory-v1/sft-train-00000.jsonl``::

    {"messages": [{"role": "assistant", "content": [{"type": "text", "value": "…"}, {"type": "tool_call", "value":
      "{…}"}], "loss_weight": 1.0}, …], "tools": "[…]"}

The stable trainer skips a row whose turns do not alternate, so neighbours of one side are put together here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from handoff.exports.exporter import (
    CONTEXT,
    MODEL,
    Exporter,
    Predecessors,
    Shards,
    count_unsaid,
    demonstrations,
    of_kind,
    single_turn,
    stem_of,
    trains_all_replies,
)
from handoff.exports.rows import compact, line
from handoff.samples import Sample, SampleMessage

_USAGE = """## How to train on it

`llamafactory-cli train sft.yaml` (or `dpo.yaml`), in this folder: `dataset_info.json` names the files. A turn that
calls a tool has no place for a text or a thought beside the call: they are dropped and counted below;
`llamafactory-v1` keeps them. Every reply is trained, so a `pivot`, of which only the last is learned, is not here. A
preference compares two next replies. Several results in a row are one turn, as its own converter joins them. There is
no loss on output of tools here: `env_prediction` rows carry it.
"""

_USAGE_V1 = """## How to train on it

`USE_V1=1 llamafactory-cli sft sft.yaml`, in this folder; `dataset_info.yaml` names the files, whose rows need no
converter. Texts, thoughts and calls of a reply stay together. `loss_weight` is 1 on replies that are trained and 0
elsewhere. That trainer makes one example of each trained reply and reads the weight of its last message alone, so a
loss on output of tools cannot be said: `env_prediction` rows carry it.
"""
_JOINT = "\n</tool_response>\n<tool_response>\n"


class LlamaFactoryExporter(Exporter):
    """ShareGPT rows."""

    name = "llamafactory"
    title = "Handoff training data for LLaMA-Factory"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample that is imitated or compared."""
        if sample.kind == "rl_prompt" or (sample.kind != "preference" and not trains_all_replies(sample)):
            losses[f"{sample.kind}_has_no_rows"] += 1
            return
        count_unsaid(sample, losses, thoughts=False)
        prompt: Sequence[SampleMessage] = sample.messages
        row: dict[str, object] = {}
        if sample.kind == "preference":
            turn = single_turn(sample, losses)
            if turn is None:
                return
            prompt, better, worse = turn
            row = {"chosen": _turn(better, losses), "rejected": _turn(worse, losses)}
        system = prompt[0].content if prompt[0].role == "system" else ""
        talk = _alternating(prompt[1:] if system else prompt, losses)
        yield (
            stem_of(sample),
            {"conversations": talk, **row, "system": system, "tools": _tools(sample), "sample_id": sample.sample_id},
        )

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Names of the files, and settings that train on them."""
        tags = {
            "role_tag": "from",
            "content_tag": "value",
            "user_tag": "human",
            "assistant_tag": "gpt",
            "observation_tag": "observation",
            "function_tag": "function_call",
            "system_tag": "system",
        }
        columns = {"messages": "conversations", "system": "system", "tools": "tools"}
        info: dict[str, Any] = {}
        for names in shards.values():
            for name in names:
                entry: dict[str, Any] = {"file_name": name, "formatting": "sharegpt", "columns": columns, "tags": tags}
                if name.startswith("preference"):
                    entry |= {"ranking": True, "columns": {**columns, "chosen": "chosen", "rejected": "rejected"}}
                info[_dataset(name)] = entry
        made = {"dataset_info.json": msgspec.json.format(msgspec.json.encode(info), indent=2).decode() + "\n"}
        for stage, train in (("sft", demonstrations(shards, self.loss)), ("dpo", of_kind(shards, "preference"))):
            if train:
                made[f"{stage}.yaml"] = _settings(stage, train)
        return made


class LlamaFactoryV1Exporter(Exporter):
    """Rows that version 1 reads as they are."""

    name = "llamafactory-v1"
    title = "Handoff training data for LLaMA-Factory, version 1"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample; starts to roll out from have none."""
        if sample.kind == "rl_prompt":
            losses["rl_prompt_has_no_rows"] += 1
            return
        count_unsaid(sample, losses)
        row: dict[str, object] = {}
        if sample.kind == "preference":
            prompt = _parts(sample.messages)
            row["chosen_messages"] = [*prompt, *_parts(sample.chosen)]
            row["rejected_messages"] = [*prompt, *_parts(sample.rejected)]
        else:
            row["messages"] = _parts(sample.messages)
        yield stem_of(sample), {**row, "tools": _tools(sample), "sample_id": sample.sample_id}

    def usage(self) -> str:
        """How to train."""
        return _USAGE_V1

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Names of the files, and settings that train on them."""
        train = demonstrations(shards, self.loss)
        if not train:
            return {}
        info = "".join(f"{_dataset(name)}:\n  path: {name}\n  source: local\n" for name in train)
        return {
            "dataset_info.yaml": info,
            "sft.yaml": f"model: {MODEL}\ntrain_dataset: dataset_info.yaml\noutput_dir: out\ncutoff_len: {CONTEXT}\n",
        }


def _dataset(file: str) -> str:
    return "handoff_" + file.partition(".")[0].replace("-", "_")


def _settings(stage: str, train: list[str]) -> str:
    return (
        f"stage: {stage}\ndo_train: true\nmodel_name_or_path: {MODEL}\ntemplate: qwen3\nfinetuning_type: full\n"
        f"dataset_dir: .\ndataset: {','.join(_dataset(name) for name in train)}\ncutoff_len: {CONTEXT}\n"
        "output_dir: out\nper_device_train_batch_size: 1\nlearning_rate: 1.0e-5\nnum_train_epochs: 1.0\n"
    )


def _tools(sample: Sample) -> str:
    """As text; the trainer wants the inner definitions."""
    tools = msgspec.json.decode(sample.tools)
    return line([tool["function"] if isinstance(tool, dict) and "function" in tool else tool for tool in tools])


def _turn(message: SampleMessage, losses: Counter[str]) -> dict[str, str]:
    match message.role:
        case "assistant" if message.tool_calls:
            losses["texts_beside_calls_dropped"] += bool(message.content)
            calls = [
                {"name": call.function.name, "arguments": compact(call.function.arguments)}
                for call in message.tool_calls
            ]
            return {"from": "function_call", "value": line(calls[0] if len(calls) == 1 else calls)}
        case "assistant":
            return {"from": "gpt", "value": message.content}
        case "tool":
            return {"from": "observation", "value": message.content}
    return {"from": "human", "value": message.content}


def _alternating(messages: Sequence[SampleMessage], losses: Counter[str]) -> list[dict[str, str]]:
    """Turns that alternate: what was said to the agent in a row is one."""
    talk: list[dict[str, str]] = []
    for message in messages:
        turn = _turn(message, losses)
        is_reply = message.role == "assistant"
        if talk and not is_reply and talk[-1]["from"] in ("human", "observation"):
            joint = _JOINT if turn["from"] == talk[-1]["from"] == "observation" else "\n\n"
            losses["messages_joined"] += 1
            talk[-1]["value"] += joint + turn["value"]
        else:
            talk.append(turn)
    return talk


def _parts(messages: Sequence[SampleMessage]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for message in messages:
        parts = [
            {"type": kind, "value": value}
            for kind, value in (("reasoning", message.reasoning_content), ("text", message.content))
            if value
        ]
        parts += [
            {
                "type": "tool_call",
                "value": line({"name": call.function.name, "arguments": compact(call.function.arguments)}),
            }
            for call in message.tool_calls
        ]
        content = parts or [{"type": "text", "value": ""}]
        rows.append({"role": message.role, "content": content, "loss_weight": 1.0 if message.train else 0.0})
    return rows
