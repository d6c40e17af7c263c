"""verl: Parquet prompts for its agent loops; token rows, with a class that reads them, for its supervised trainer.

One row of ``rl_prompt-train-00000.parquet``, shortened::

    {"prompt": [{"role": "user", "content": "…"}], "data_source": "handoff", "ability": "software",
     "agent_name": "tool_agent", "reward_model": {"style": "rule", "ground_truth": "{\\"task_id\\": …}"},
     "extra_info": {"split": "train", "index": 0, "need_tools_kwargs": true, "tools": "[…]", "task_id": "…", …,
       "tools_kwargs": {"bash": {"create_kwargs": {"task_id": "…", "tree": "…", …}}}}}

What differs from row to row is JSON text, since Parquet would fill in nulls. Its own supervised dataset renders one
message at a time, which many templates do not survive; rows of tokens need no template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa

from handoff.exports.exporter import (
    CONTEXT,
    MODEL,
    Exporter,
    Loss,
    Predecessors,
    Shards,
    demonstrations,
    of_kind,
    stem_of,
)
from handoff.exports.rows import RL_COLUMNS, columns, compact, line, rl_columns
from handoff.exports.tokenised import Tokens, token_rows
from handoff.samples import Sample

_TEXT = pa.string()
_STARTS = pa.struct([(name, _TEXT) for name in RL_COLUMNS])
_PROMPTS = pa.schema(
    [
        ("prompt", pa.list_(pa.struct([("role", _TEXT), ("content", _TEXT)]))),
        ("data_source", _TEXT),
        ("ability", _TEXT),
        ("agent_name", _TEXT),
        ("reward_model", pa.struct([("style", _TEXT), ("ground_truth", _TEXT)])),
        (
            "extra_info",
            pa.struct(
                [
                    ("split", _TEXT),
                    ("index", pa.int64()),
                    ("need_tools_kwargs", pa.bool_()),
                    ("tools_kwargs", pa.struct([("bash", pa.struct([("create_kwargs", _STARTS)]))])),
                    ("tools", _TEXT),
                    ("sample_id", _TEXT),
                    *[(name, _TEXT) for name in RL_COLUMNS],
                ]
            ),
        ),
    ]
)
_TOKENS = columns(
    input_ids=pa.list_(pa.int32()),
    loss_mask=pa.list_(pa.int8()),
    loss_weights=pa.list_(pa.float32()),
    sample_id=_TEXT,
)

_DATASET = '''"""Rows of tokens for verl's supervised trainer, which takes this class by `data.custom_cls`."""

import pandas as pd
import torch
from torch.utils.data import Dataset


class HandoffDataset(Dataset):
    """Ids and loss mask as they were exported, padded or cut on the right to data.max_length."""

    def __init__(self, parquet_files, tokenizer, config, processor=None, max_samples=-1):
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        rows = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
        self.rows = rows.iloc[:max_samples] if max_samples > 0 else rows
        self.length = config.get("max_length", 1024)
        self.pads = config.get("pad_mode", "right") == "right"
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, item):
        row = self.rows.iloc[item]
        ids = torch.tensor(row["input_ids"][: self.length], dtype=torch.long)
        mask = torch.tensor(row["loss_mask"][: self.length], dtype=torch.long)
        places = torch.arange(len(ids))
        if not self.pads:
            return {"input_ids": ids, "position_ids": places, "loss_mask": mask}
        short = self.length - len(ids)
        extend = torch.nn.functional.pad
        return {
            "input_ids": extend(ids, (0, short), value=self.pad),
            "attention_mask": extend(torch.ones_like(ids), (0, short)),
            "position_ids": extend(places, (0, short)),
            "loss_mask": extend(mask, (0, short)),
        }
'''

_USAGE = """## How to train on it

`rl_prompt-*.parquet` are prompts for `data.train_files` of the RL trainers; `ground_truth` and `extra_info` name
task, commit, point and view for a reward function of yours, `tools_kwargs` hands the same to the tool `bash` when it
is made, and `tools` are in `extra_info` as JSON. A group shares one `view_id`. `bash sft.sh` trains on the token rows
with the dataset class in this folder (`data.custom_cls`); rows of tokens are written when a tokenizer is named. Its
mask is 0 or 1: weights of `echo` are in `loss_weights`, which its loss does not read. Preferences have no place
there.
"""


class VerlExporter(Exporter):
    """Rows for verl."""

    name = "verl"
    title = "Handoff training data for verl"

    def __init__(self, loss: Loss | None = None, tokens: Tokens | None = None) -> None:
        super().__init__(loss)
        self._tokens = tokens
        self._count = 0

    @property
    def identity(self) -> str:
        """With the tokenizer."""
        return f"{super().identity} {self._tokens and self._tokens.identity}"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per start; with a tokenizer, one per window of a sample that is imitated."""
        if sample.kind == "rl_prompt":
            yield stem_of(sample), self._prompt(sample)
        elif self._tokens is None or sample.kind == "preference":
            losses[f"{sample.kind}_has_no_rows" + ("" if self._tokens else "_without_a_tokenizer")] += 1
        else:
            losses["environment_weight_as_one"] += self.loss.mode == "echo"
            for part, own in token_rows(sample, self._tokens, self.loss, losses):
                yield (
                    stem_of(sample),
                    {
                        "input_ids": own.ids,
                        "loss_mask": (own.weights > 0).astype("int8"),
                        "loss_weights": own.weights,
                        "sample_id": part.sample_id,
                    },
                )

    def _prompt(self, sample: Sample) -> dict[str, object]:
        self._count += 1
        own = rl_columns(sample)
        return {
            "prompt": [{"role": message.role, "content": message.content} for message in sample.messages],
            "data_source": "handoff",
            "ability": "software",
            "agent_name": "tool_agent",
            "reward_model": {"style": "rule", "ground_truth": line(own)},
            "extra_info": {
                "split": sample.origin.split,
                "index": self._count - 1,
                "need_tools_kwargs": True,
                "tools_kwargs": {"bash": {"create_kwargs": own}},
                "tools": line(compact(sample.tools)),
                "sample_id": sample.sample_id,
                **own,
            },
        }

    def schema(self, stem: str) -> pa.Schema:
        """Prompts or tokens."""
        return _PROMPTS if stem.startswith("rl_prompt") else _TOKENS

    def usage(self) -> str:
        """How to train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """The dataset class, and commands."""
        made = {}
        head = '#!/usr/bin/env bash\nset -eu\ncd "$(dirname "$0")"\n'
        if train := demonstrations(shards, self.loss):
            held = demonstrations(shards, self.loss, "validation") or train[:1]
            made["handoff_verl_dataset.py"] = _DATASET
            made["sft.sh"] = (
                f"{head}torchrun --standalone --nproc_per_node 1 -m verl.trainer.sft_trainer \\\n"
                f"  data.train_files={_list(train)} data.val_files={_list(held)} \\\n"
                "  data.custom_cls.path=handoff_verl_dataset.py data.custom_cls.name=HandoffDataset \\\n"
                f"  data.max_length={(self._tokens and self._tokens.context) or CONTEXT} model.path={MODEL}\n"
            )
        if train := of_kind(shards, "rl_prompt"):
            held = of_kind(shards, "rl_prompt", "validation") or train[:1]
            made["grpo.sh"] = (
                f"{head}python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n"
                f"  data.train_files={_list(train)} data.val_files={_list(held)} data.return_raw_chat=True \\\n"
                f"  actor_rollout_ref.model.path={MODEL} actor_rollout_ref.rollout.multi_turn.enable=True\n"
            )
        return made


def _list(names: list[str]) -> str:
    return f"'[{','.join(names)}]'"
