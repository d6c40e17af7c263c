"""prime-rl: prompt/completion for its supervised trainer, starts for verifiers' environments.

One row of ``sft-train-00000.jsonl``, shortened::

    {"prompt": [{"role": "user", "content": "You are taking over …"}],
     "completion": [{"role": "assistant", "content": "…", "tool_calls": [{"id": "c00001000", "type": "function",
       "function": {"name": "bash", "arguments": "{…}"}}]}, …], "tools": "[…]", "sample_id": "s_…"}

Arguments and tools are JSON text, which it decodes itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from handoff.exports.exporter import (
    CONTEXT,
    MODEL,
    Exporter,
    Predecessors,
    Shards,
    count_unsaid,
    demonstrations,
    stem_of,
    trained_from,
    trains_all_replies,
)
from handoff.exports.rows import compact, line, rl_columns, text_messages_of
from handoff.samples import Sample

_USAGE = """## How to train on it

`uv run sft @ sft.toml`, with this folder as the dataset (`[data] name`). Every reply is trained, in prompt and
completion alike, so a `pivot` is not here. In the loss mode `actobs` the settings train the output of tools as well
(`[data.loss_mask] tool`), clocks and addresses included; a smaller weight cannot be said in supervised training, so
`echo` leaves it out and `env_prediction` rows carry it. `rl_prompt-*.jsonl` are starts for an environment: `prompt`,
and the rest under `info`.
"""


class PrimeRlExporter(Exporter):
    """Rows for prime-rl."""

    name = "prime-rl"
    title = "Handoff training data for prime-rl"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per conversation all of whose replies are trained, or per start."""
        if sample.kind == "preference" or not (sample.kind == "rl_prompt" or trains_all_replies(sample)):
            losses[f"{sample.kind}_has_no_rows"] += 1
            return
        count_unsaid(sample, losses, output_weight=self.loss.mode == "actobs")
        tools = line(compact(sample.tools))
        if sample.kind == "rl_prompt":
            info = line(rl_columns(sample))
            row = {"prompt": text_messages_of(sample.messages), "answer": "", "info": info, "task": "handoff"}
        else:
            first = trained_from(sample)
            row = {
                "prompt": text_messages_of(sample.messages[:first]),
                "completion": text_messages_of(sample.messages[first:]),
            }
        yield stem_of(sample), {**row, "tools": tools, "sample_id": sample.sample_id}

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """Settings that train on this folder."""
        if not demonstrations(shards, self.loss):
            return {}
        tool = str(self.loss.mode == "actobs").lower()
        return {
            "sft.toml": f'max_steps = 1000\n\n[model]\nname = "{MODEL}"\n\n[data]\ntype = "sft"\nname = "."\n'
            f"seq_len = {CONTEXT}\nbatch_size = 8\n\n[data.loss_mask]\nassistant = true\ntool = {tool}\n\n"
            "[optim]\nlr = 1e-5\n"
        }
