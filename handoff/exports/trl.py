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
from collections.abc import Iterator, Sequence
from typing import Any

from handoff.exports.folder import Predecessors, compact
from handoff.masks.chat import chat_messages
from handoff.samples import Sample, SampleMessage, trainable_spans

_USAGE = """## How to load it

Arguments differ from row to row, so let `datasets` (4.8 or newer) keep messages as JSON; inferred structs would
fill every missing argument with `None`, and a model would be trained on it:

```python
from datasets import Features, Json, List, Value, load_dataset

rows = List(Json())
features = Features({"prompt": rows, "completion": rows, "tools": rows, "sample_id": Value("string")})
sft = load_dataset("json", data_files={"train": "sft-train-*.jsonl"}, features=features)
```

`preference-*.jsonl` has `chosen` and `rejected` in place of `completion`. `rl_prompt-*.jsonl` has neither, and the
string columns `environment`, `task_id`, `repo`, `base_commit`, `tree`, `point_id`, `view_id` and `view`, which TRL
hands to reward functions and environments; a GRPO group shares one `view_id`.

## How to train on it

`SFTConfig(completion_only_loss=True, assistant_only_loss=True)` trains the successor's replies and nothing else.
`sft-relabelled-*.jsonl` (failed takeovers, as successes of a smaller task that they did solve) and
`sft-recovery-*.jsonl` (ways out of wrong turns of recorded runs) are files of their own: name them, or leave them out.
With `assistant_only_loss=False` the tool results inside a completion are trained too. Weights of single characters
(a small loss on environment output, none on clocks and addresses) have no place in this format: the files
`env_prediction-*.jsonl` carry the environment loss as rows of their own, in which the reply is the tool's output.
"""


class TrlExporter:
    """Rows for TRL's SFT, DPO and GRPO trainers."""

    name = "trl"
    title = "Handoff training data for TRL"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One row per sample, in the file of its kind and split."""
        row: dict[str, object] = {}
        if sample.kind == "preference":
            row["prompt"] = _messages(sample.messages)
            row["chosen"] = _messages(sample.chosen)
            row["rejected"] = _messages(sample.rejected)
        elif sample.kind == "rl_prompt":
            origin = sample.origin
            row["prompt"] = _messages(sample.messages)
            row["environment"] = "handoff"
            for name in ("task_id", "repo", "base_commit", "tree", "point_id", "view_id", "view"):
                row[name] = getattr(origin, name) or ""
        else:
            first = next(position for position, message in enumerate(sample.messages) if message.train)
            row["prompt"] = _messages(sample.messages[:first])
            row["completion"] = _messages(sample.messages[first:])
        row["tools"] = compact(sample.tools)
        row["sample_id"] = sample.sample_id
        _count_losses(sample, losses)
        basis = "" if sample.origin.basis == "solved" else f"-{sample.origin.basis}"
        yield f"{sample.kind}{basis}-{sample.origin.split}", row

    def usage(self) -> str:
        """How to load and train."""
        return _USAGE


def _messages(messages: Sequence[SampleMessage]) -> list[dict[str, Any]]:
    return chat_messages(messages, arguments=compact)


def _count_losses(sample: Sample, losses: Counter[str]) -> None:
    """What the row cannot say: weights below a message, and reasoning that a template may leave out."""
    weighted = sum(span.role == "env_output" and sample.kind in ("sft", "preference") for span in sample.spans)
    if weighted:
        losses["environment_weights_dropped"] += weighted
    trained = {(span.part, span.message) for span in trainable_spans(sample)}
    unmasked = sum((s.part, s.message) in trained and s.weight == 0 for s in sample.spans)
    if unmasked:
        losses["masked_spans_trained"] += unmasked
    reasoning = sum(
        bool(m.reasoning_content) for part in (sample.messages, sample.chosen, sample.rejected) for m in part
    )
    if reasoning:
        losses["reasoning_left_to_the_template"] += reasoning
