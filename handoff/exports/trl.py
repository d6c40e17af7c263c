"""TRL: prompt/completion for SFT, prompt/chosen/rejected for DPO, prompts for GRPO.

One row of ``sft-train-00000.jsonl``, shortened::

    {"prompt": [{"role": "user", "content": "You are taking over …"}],
     "completion": [{"role": "assistant", "content": "…", "tool_calls": [{"type": "function", "id": "c00001000",
       "function": {"name": "bash", "arguments": {"command": "git diff"}}}]}, {"role": "tool", …}, …],
     "tools": […], "sample_id": "s_…"}

Arguments are objects here (a canonical sample holds them as text), because the chat templates TRL trains with
iterate over them. Prompt/completion, not ``messages``: everything of the predecessor is in the prompt, and
the completion alone bears loss.
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
    of_kind,
    stem_of,
    trained_from,
)
from handoff.exports.rows import compact, messages_of, rl_columns
from handoff.samples import Sample

_USAGE = """## How to load it

Arguments differ from row to row, so let `datasets` (4.8 or newer) keep messages as JSON; inferred structs would
fill every missing argument with `None`, and a model would be trained on it:

```python
from datasets import Features, Json, List, Value, load_dataset

rows = List(Json())
features = Features({"prompt": rows, "completion": rows, "tools": rows, "sample_id": Value("string")})
sft = load_dataset("json", data_files={"train": "sft-*train-*.jsonl"}, features=features)
```

`preference-*.jsonl` has `chosen` and `rejected` in place of `completion`. `rl_prompt-*.jsonl` has neither, and the
string columns `environment`, `task_id`, `repo`, `base_commit`, `tree`, `point_id`, `view_id` and `view`, which TRL
hands to reward functions and environments; a GRPO group shares one `view_id`.

## How to train on it

`python train_sft.py`, `python train_dpo.py`: both are in this folder and name its files.
`SFTConfig(completion_only_loss=True, assistant_only_loss=True)` trains the successor's replies and nothing else.
`sft-recorded-*.jsonl` (the rest of recorded runs) is trained too. `sft-relabelled-*.jsonl` (failed takeovers, as
successes of a smaller task that they did solve), `sft-recovery-*.jsonl` (ways out of wrong turns), `pivot-*.jsonl`
(one decision), `state_reconstruction-*.jsonl` and `note_writing-*.jsonl` are files of their own: name them, or leave
them out. With `assistant_only_loss=False` the tool results inside a completion are trained too. Weights of single
characters (a small loss on environment output, none on clocks and addresses) have no place in this format: the format
`trl-tokens` has them, and the files `env_prediction-*.jsonl` carry the environment loss as rows of their own, in
which the reply is the tool's output.
"""

_TRAIN = '''"""Train on this folder with TRL. Run it here; put your own model in."""

from datasets import Features, Json, List, Value, load_dataset
from trl import {trainer}, {config}

MODEL = "{model}"

rows = List(Json())
features = Features({{{columns}, "tools": rows, "sample_id": Value("string")}})
data = load_dataset("json", data_files={files}, features=features)
settings = {config}(
    output_dir="out",{settings}
)
trainer = {trainer}(model=MODEL, args=settings, train_dataset=data["train"], eval_dataset=data.get("validation"))
trainer.train()
'''


class TrlExporter(Exporter):
    """Rows for TRL's SFT, DPO and GRPO trainers."""

    name = "trl"
    title = "Handoff training data for TRL"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample, in the file of its kind and split."""
        row: dict[str, object] = {}
        if sample.kind == "preference":
            row["prompt"] = messages_of(sample.messages)
            row["chosen"] = messages_of(sample.chosen)
            row["rejected"] = messages_of(sample.rejected)
        elif sample.kind == "rl_prompt":
            row["prompt"] = messages_of(sample.messages)
            row["environment"] = "handoff"
            row |= rl_columns(sample)
        else:
            first = trained_from(sample)
            row["prompt"] = messages_of(sample.messages[:first])
            row["completion"] = messages_of(sample.messages[first:])
        row["tools"] = compact(sample.tools)
        row["sample_id"] = sample.sample_id
        count_unsaid(sample, losses)
        yield stem_of(sample), row

    def usage(self) -> str:
        """How to load and train."""
        return _USAGE

    def files(self, shards: Shards) -> Mapping[str, str]:
        """One script for each trainer that finds data here."""
        made = {}
        if train := demonstrations(shards, self.loss):
            files = _splits(train, demonstrations(shards, self.loss, "validation"))
            columns = '"prompt": rows, "completion": rows'
            settings = f"""
    max_length={CONTEXT},
    completion_only_loss=True,
    assistant_only_loss=True,"""
            made["train_sft.py"] = _script("SFTTrainer", "SFTConfig", columns, files, settings)
        if train := of_kind(shards, "preference"):
            files = _splits(train, of_kind(shards, "preference", "validation"))
            columns = '"prompt": rows, "chosen": rows, "rejected": rows'
            made["train_dpo.py"] = _script("DPOTrainer", "DPOConfig", columns, files, f"\n    max_length={CONTEXT},")
        return made


def _splits(train: list[str], validation: list[str]) -> dict[str, list[str]]:
    return {"train": train} | ({"validation": validation} if validation else {})


def _script(trainer: str, config: str, columns: str, files: dict[str, list[str]], settings: str) -> str:
    return _TRAIN.format(trainer=trainer, config=config, columns=columns, files=files, settings=settings, model=MODEL)
