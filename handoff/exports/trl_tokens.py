"""TRL, pre-tokenised: ids, labels and a weight for every token, so that any loss can be said exactly.

One row of ``sft-train-00000.parquet``::

    {"input_ids": [151644, 872, …], "labels": [-100, -100, …, 785, …], "loss_weights": [0.0, …, 1.0, …, 0.05, …]}

``labels`` are the ids where the weight is above 0. TRL takes labels as they are; weights need the trainer class that
lies in the folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa

from handoff.exports.exporter import MODEL, Exporter, Loss, Predecessors, Shards, demonstrations, stem_of
from handoff.exports.rows import columns
from handoff.exports.tokenised import Tokens, token_rows
from handoff.samples import Sample

_SCHEMA = columns(
    input_ids=pa.list_(pa.int32()),
    labels=pa.list_(pa.int32()),
    loss_weights=pa.list_(pa.float32()),
    sample_id=pa.string(),
)

_TRAINER = '''"""A TRL trainer that reads a weight for every token. Run it here; put your own model in."""

import torch
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

MODEL = "{model}"


class WeightedCollator(DataCollatorForLanguageModeling):
    """Pads weights with 0, beside what is padded anyway."""

    def torch_call(self, examples):
        batch = super().torch_call(examples)
        weights = torch.zeros(batch["input_ids"].shape, dtype=torch.float32)
        for row, example in enumerate(examples):
            own = torch.tensor(example["loss_weights"][: weights.shape[1]])
            weights[row, : len(own)] = own
        batch["loss_weights"] = weights
        return batch


class WeightedTrainer(SFTTrainer):
    """Sum of weight times loss over the tokens of a step, by the sum of their weights, however the step is cut up."""

    def _get_num_items_in_batch(self, batch_samples, device):
        total = sum(batch["loss_weights"][:, 1:].sum() for batch in batch_samples).to(device)
        return self.accelerator.gather(total).sum() if self._is_shared() else total

    def _is_shared(self):
        return self.args.average_tokens_across_devices and self.accelerator.num_processes > 1

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        weights = inputs.pop("loss_weights")[:, 1:]
        labels = inputs.pop("labels")[:, 1:]
        outputs = model(**inputs)
        losses = torch.nn.functional.cross_entropy(
            outputs.logits[:, :-1].transpose(1, 2).float(), labels, ignore_index=-100, reduction="none"
        )
        whole = weights.sum() if num_items_in_batch is None else num_items_in_batch
        loss = (losses * weights).sum() / whole.clamp_min(1e-8)
        if num_items_in_batch is not None and self._is_shared():
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss


if __name__ == "__main__":
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    data = load_dataset("parquet", data_files={files})
    trainer = WeightedTrainer(
        model=MODEL,
        args=SFTConfig(output_dir="out", max_length=None, remove_unused_columns=False),
        train_dataset=data["train"],
        eval_dataset=data.get("validation"),
        processing_class=tokenizer,
        data_collator=WeightedCollator(pad_token_id=tokenizer.pad_token_id),
    )
    trainer.train()
'''


class TrlTokensExporter(Exporter):
    """Rows that are tokenised for one model."""

    name = "trl-tokens"
    title = "Handoff training data for TRL, tokenised"

    def __init__(self, loss: Loss | None, tokens: Tokens) -> None:
        super().__init__(loss)
        self._tokens = tokens

    @property
    def identity(self) -> str:
        """With the tokenizer."""
        return f"{super().identity} {self._tokens.identity}"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per window of a sample that is imitated."""
        for part, own in token_rows(sample, self._tokens, self.loss, losses):
            yield (
                stem_of(sample),
                {
                    "input_ids": own.ids,
                    "labels": own.labels,
                    "loss_weights": own.weights,
                    "sample_id": part.sample_id,
                },
            )

    def schema(self, stem: str) -> pa.Schema:
        """Ids, labels, weights."""
        return _SCHEMA

    def usage(self) -> str:
        """How to load and train."""
        return f"""## How to train on it

`python train_weighted.py`, in this folder. The ids are those of the tokenizer `{self._tokens.name}`: train a model that
has this tokenizer. Rows hold at most {self._tokens.context or "any number of"} tokens; longer samples are split so that
each piece begins with the task and each reply is trained once. Without the class in that file TRL trains every label
alike: right for the loss modes `action_only` and `actobs`, and not for `echo`.
"""

    def files(self, shards: Shards) -> Mapping[str, str]:
        """The trainer."""
        train = demonstrations(shards, self.loss)
        if not train:
            return {}
        validation = demonstrations(shards, self.loss, "validation")
        files = {"train": train} | ({"validation": validation} if validation else {})
        return {"train_weighted.py": _TRAINER.replace("{model}", MODEL).replace("{files}", repr(files))}
