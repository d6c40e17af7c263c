"""NVIDIA NeMo: messages and preferences for NeMo-RL, requests and single decisions for NeMo Gym.

One row of ``nemo-gym/pivot-train-00000.jsonl``, shortened::

    {"responses_create_params": {"input": [{"role": "user", "content": "You are taking over …"},
       {"type": "function_call", "call_id": "c00001000", "name": "bash", "arguments": "{…}"},
       {"type": "function_call_output", "call_id": "c00001000", "output": "…"}], "tools": […], "tool_choice": "auto",
       "parallel_tool_calls": false},
     "expected_action": {"type": "function_call", "name": "bash", "arguments": "{…}"},
     "agent_ref": {"type": "responses_api_agents", "name": "…"}, "metadata": {…}}
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
from handoff.exports.rows import compact, messages_of, rl_columns
from handoff.samples import Sample, SampleMessage

_USAGE_RL = """## How to train on it

`uv run examples/run_sft.py --config sft.yaml` (or `run_dpo.py --config dpo.yaml`) of NeMo-RL, with this folder as the
working folder. The settings name one file a split, which is all that it reads. They ask for `use_preserving_dataset`:
without it missing arguments are filled with nulls. Every reply of a conversation is trained there; a `pivot` would
train those before it as well, so it is not here (NeMo Gym has it). There is no loss on output of tools:
`env_prediction` rows carry it. A preference compares two next replies, since only the last message of a side is
trained, and is read without tools.
"""

_USAGE_GYM = """## How to train on it

`pivot-*.jsonl` are single decisions for the verifier `single_step_tool_use_with_argument_comparison`: one call is
expected, and compared with the one that a successor made which solved the task. `handoff_pivot.yaml` describes the
agent that they name, with these files as its data; copy both where your configuration lies. Replies of several calls,
or of none, are left out. `rl_prompt-*.jsonl` are requests to roll out from; the agent and the verifier that read them
are yours: they are named `handoff_agent` in `agent_ref`.
"""

_CONFIG = """handoff_pivot_resources_server:
  resources_servers:
    single_step_tool_use_with_argument_comparison:
      entrypoint: app.py
      domain: agent
      tool_call_comparator_config:
        word_count_similarity_threshold: 0.0
      verified: false
handoff_pivot_agent:
  responses_api_agents:
    tool_simulation_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: handoff_pivot_resources_server
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
"""
_PIVOT_AGENT = "handoff_pivot_agent"
_ROLLOUT_AGENT = "handoff_agent"


class NemoRlExporter(Exporter):
    """Rows for NeMo-RL."""

    name = "nemo-rl"
    title = "Handoff training data for NeMo-RL"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per conversation all of whose replies are trained, or per preference."""
        if sample.kind == "rl_prompt" or (sample.kind != "preference" and not trains_all_replies(sample)):
            losses[f"{sample.kind}_has_no_rows"] += 1
            return
        count_unsaid(sample, losses)
        row: dict[str, object] = {"messages": messages_of(sample.messages)}
        if sample.kind == "preference":
            turn = single_turn(sample, losses)
            if turn is None:
                return
            prompt, *sides = turn
            completions = [{"rank": rank, "completion": messages_of((side,))} for rank, side in enumerate(sides)]
            row = {"context": messages_of(prompt), "completions": completions}
        yield stem_of(sample), {**row, "tools": compact(sample.tools), "sample_id": sample.sample_id}

    def usage(self) -> str:
        """How to train."""
        return _USAGE_RL

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Settings that train on this folder."""
        made = {}
        for stage, of in (("sft", self._demonstrations), ("dpo", of_preferences)):
            train, validation = of(shards, "train"), of(shards, "validation")
            if train:
                kind = "openai_format" if stage == "sft" else "PreferenceDataset"
                more = "    use_preserving_dataset: true\n" if stage == "sft" else ""
                text = (
                    f"defaults: {stage}.yaml\npolicy:\n  model_name: {MODEL}\n"
                    f"  max_total_sequence_length: {CONTEXT}\ndata:\n"
                )
                for split, names in (("train", train), ("validation", validation)):
                    if names:
                        text += f"  {split}:\n    dataset_name: {kind}\n    data_path: {names[0]}\n{more}"
                made[f"{stage}.yaml"] = text
        return made

    def _demonstrations(self, shards: Shards, split: str) -> list[str]:
        return demonstrations(shards, self.loss, split)


def of_preferences(shards: Shards, split: str) -> list[str]:
    """Files of preferences."""
    return of_kind(shards, "preference", split)


class NemoGymExporter(Exporter):
    """Rows for NeMo Gym."""

    name = "nemo-gym"
    title = "Handoff training data for NeMo Gym"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per start to roll out from, and per decision."""
        origin = sample.origin
        metadata = {**rl_columns(sample), "sample_id": sample.sample_id}
        if sample.kind == "rl_prompt":
            row: dict[str, object] = {
                "responses_create_params": _request(sample, sample.messages),
                "agent_ref": {"type": "responses_api_agents", "name": _ROLLOUT_AGENT},
                "verifier_metadata": metadata,
            }
            yield stem_of(sample), row
        elif sample.kind == "pivot" and len(sample.messages[-1].tool_calls) == 1:
            losses["thoughts_dropped"] += sum(bool(message.reasoning_content) for message in sample.messages)
            call = sample.messages[-1].tool_calls[0].function
            row = {
                "uuid": sample.sample_id,
                "responses_create_params": _request(sample, sample.messages[:-1]),
                "expected_action": {"type": "function_call", "name": call.name, "arguments": call.arguments},
                "agent_ref": {"type": "responses_api_agents", "name": _PIVOT_AGENT},
                "pivot_tags": sorted({origin.view, *origin.labels}),
                "metadata": metadata,
            }
            yield stem_of(sample), row
        else:
            losses[f"{sample.kind}_has_no_rows"] += 1

    def usage(self) -> str:
        """How to train."""
        return _USAGE_GYM

    def files(self, shards: Shards) -> Mapping[str, str]:
        """The agent of single decisions, with these files as its data."""
        text = _CONFIG
        for split in ("train", "validation"):
            for name in of_kind(shards, "pivot", split):
                text += f"      - name: {name.partition('.')[0]}\n        type: {split}\n        jsonl_fpath: {name}\n"
        return {"handoff_pivot.yaml": text} if text != _CONFIG else {}


def _request(sample: Sample, messages: Sequence[SampleMessage]) -> dict[str, object]:
    """As OpenAI's Responses interface has it."""
    tools = msgspec.json.decode(sample.tools)
    return {
        "input": [item for message in messages for item in _items(message)],
        "tools": [_flat(tool) for tool in tools],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
    }


def _items(message: SampleMessage) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}
        return
    if message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        own = call.function
        yield {"type": "function_call", "call_id": call.id, "name": own.name, "arguments": own.arguments}


def _flat(tool: Any) -> Any:
    """A definition without its inner object."""
    inner = tool.get("function") if isinstance(tool, dict) else None
    return {"type": "function", "strict": False, **inner} if isinstance(inner, dict) else tool
