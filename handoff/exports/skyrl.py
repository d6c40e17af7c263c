"""SkyRL: starts for its generators; token rows for its supervised trainer.

One row of ``rl_prompt-train-00000.jsonl``, shortened::

    {"data_source": "handoff", "prompt": [{"role": "user", "content": "…"}], "env_class": "handoff",
     "reward_spec": {"method": "rule", "ground_truth": "{\\"task_id\\": …}"}, "extra_info": {…}}

and of ``sft-train-00000.parquet``: ``{"input_ids": […], "loss_mask": [0, …, 1, …]}``, unpadded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa

from handoff.exports.exporter import MODEL, Exporter, Loss, Predecessors, Shards, demonstrations, stem_of
from handoff.exports.rows import columns, compact, line, rl_columns
from handoff.exports.tokenised import Tokens, token_rows
from handoff.samples import Sample

_SCHEMA = columns(input_ids=pa.list_(pa.int32()), loss_mask=pa.list_(pa.int8()), sample_id=pa.string())

_USAGE = """## How to train on it

`rl_prompt-*.jsonl` are starts: `env_class` names an environment that you register, `extra_info` holds task, commit,
point, view and tools. `bash sft.sh` trains on the token rows (`pretokenized_dataset_paths`), which are written when a
tokenizer is named: its trainer learns every reply of a chat or the last one alone, and a mask says it exactly. The
mask is 0 or 1, so `echo` trains output of tools like replies and says so below. Preferences have no place there.
"""


class SkyRlExporter(Exporter):
    """Rows for SkyRL."""

    name = "skyrl"
    title = "Handoff training data for SkyRL"

    def __init__(self, loss: Loss | None = None, tokens: Tokens | None = None) -> None:
        super().__init__(loss)
        self._tokens = tokens

    @property
    def identity(self) -> str:
        """With the tokenizer."""
        return f"{super().identity} {self._tokens and self._tokens.identity}"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per start; with a tokenizer, one per window of a sample that is imitated."""
        if sample.kind == "rl_prompt":
            own = rl_columns(sample)
            row = {
                "data_source": "handoff",
                "prompt": [{"role": message.role, "content": message.content} for message in sample.messages],
                "env_class": "handoff",
                "reward_spec": {"method": "rule", "ground_truth": line(own)},
                "extra_info": {**own, "tools": line(compact(sample.tools)), "sample_id": sample.sample_id},
            }
            yield stem_of(sample), row
        elif self._tokens is None or sample.kind == "preference":
            losses[f"{sample.kind}_has_no_rows" + ("" if self._tokens else "_without_a_tokenizer")] += 1
        else:
            losses["environment_weight_as_one"] += self.loss.mode == "echo"
            for part, found in token_rows(sample, self._tokens, self.loss, losses):
                mask = (found.weights > 0).astype("int8")
                yield stem_of(sample), {"input_ids": found.ids, "loss_mask": mask, "sample_id": part.sample_id}

    def schema(self, stem: str) -> pa.Schema | None:
        """Tokens are Parquet."""
        return None if stem.startswith("rl_prompt") else _SCHEMA

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """A command."""
        train = demonstrations(shards, self.loss)
        if not train:
            return {}
        return {
            "sft.sh": '#!/usr/bin/env bash\nset -eu\ncd "$(dirname "$0")"\n'
            f"python -m skyrl.train.main_sft strategy=fsdp model.path={MODEL} \\\n"
            f'  pretokenized_dataset_paths="{train}"\n'
        }
