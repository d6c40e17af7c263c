"""ATIF 1.8: whole episodes, predecessor and successor, one document per line.

One line, shortened::

    {"schema_version": "ATIF-v1.8", "session_id": "k_…", "trajectory_id": "s_…", "agent": {"name": "E", …},
     "steps": [{"step_id": 1, "source": "user", "message": "<task>", "is_copied_context": true},
               {"step_id": 2, "source": "agent", "message": "…", "tool_calls": […], "is_copied_context": true},
               {"step_id": 3, "source": "user", "message": "You are taking over …"},
               {"step_id": 4, "source": "agent", "message": "…", "tool_calls": […], "observation": {…}}],
     "final_metrics": {"total_steps": 4}, "extra": {…}}

The predecessor's steps are marked ``is_copied_context``: the standard asks every consumer to keep such steps
out of training targets. Its models forbid unknown keys, so all that is ours stands under ``extra``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from handoff.curation.secrets import Redactor, redact_steps
from handoff.exports.folder import Predecessors, compact
from handoff.samples import Sample, SampleMessage, text_of
from handoff.trajectory import Action, Step

SCHEMA_VERSION = "ATIF-v1.8"

_USAGE = """## How to load it

Each line is one ATIF document. Tools that want one file per trajectory take the lines apart:

```python
import pathlib
for number, line in enumerate(open("sft-train-00000.jsonl", encoding="utf-8")):
    pathlib.Path(f"{number:06d}.trajectory.json").write_text(line, encoding="utf-8")
```

## How to train on it

Train on steps with `source: agent` that are not `is_copied_context`: those are the successor's. Steps that are
`is_copied_context` are the predecessor's, shown for reference; what the successor was really given is the user step
after them. The character spans with roles and weights, and the provenance, are under the document's `extra`.
"""


class AtifExporter:
    """Documents for tools that read the Agent Trajectory Interchange Format."""

    name = "atif"
    title = "Handoff episodes in ATIF 1.8"

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """One document per demonstration; other kinds are no episodes and are counted."""
        if sample.kind != "sft":
            losses[f"{sample.kind}_is_no_episode"] += 1
            return
        steps: list[dict[str, Any]] = []
        if predecessors is None:
            losses["predecessor_steps_not_given"] += 1
        else:
            task = "".join(text_of(sample, s) for s in sample.spans if s.message == 0 and s.role == "context")
            steps.append({"source": "user", "message": task, "is_copied_context": True})
            before = redact_steps(predecessors(sample.origin.trajectory_id, sample.origin.h), Redactor())
            steps += [_predecessor_step(number, step, sample, losses) for number, step in enumerate(before, 1)]
        steps += _successor_steps(sample.messages)
        yield (
            f"{sample.kind}-{sample.origin.split}",
            {
                "schema_version": SCHEMA_VERSION,
                "session_id": sample.origin.takeover_id or sample.sample_id,
                "trajectory_id": sample.sample_id,
                "agent": {
                    "name": sample.origin.successor or "successor",
                    "version": sample.origin.successor_digest or "unknown",
                    "tool_definitions": compact(sample.tools),
                },
                "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
                "final_metrics": {"total_steps": len(steps)},
                "extra": {
                    "sample_id": sample.sample_id,
                    "reward": sample.reward,
                    "diagnosis": sample.diagnosis,
                    "token_counts": sample.token_counts,
                    "origin": sample.origin,
                    "spans": sample.spans,
                },
            },
        )

    def usage(self) -> str:
        """How to load and train."""
        return _USAGE


def _successor_steps(messages: Sequence[SampleMessage]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            results = steps[-1].setdefault("observation", {"results": []})["results"]
            results.append({"source_call_id": message.tool_call_id, "content": message.content})
            continue
        step: dict[str, Any] = {
            "source": "agent" if message.role == "assistant" else message.role,
            "message": message.content,
        }
        if message.reasoning_content:
            step["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            step["tool_calls"] = [
                {
                    "tool_call_id": call.id,
                    "function_name": call.function.name,
                    "arguments": compact(call.function.arguments),
                }
                for call in message.tool_calls
            ]
        steps.append(step)
    return steps


def _predecessor_step(number: int, step: Step, sample: Sample, losses: Counter[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"source": "agent", "message": step.text, "is_copied_context": True}
    model = step.model or sample.origin.predecessor_model
    if model:
        row["model_name"] = model
    if step.thought:
        row["reasoning_content"] = step.thought
    if step.actions:
        row["tool_calls"] = [
            {
                "tool_call_id": _id(number, position),
                "function_name": action.tool,
                "arguments": _arguments(action, losses),
            }
            for position, action in enumerate(step.actions)
        ]
    answers = [o for o in step.observations if not o.is_orphan]
    results: list[dict[str, Any]] = [
        {"source_call_id": _id(number, position), "content": answer.text}
        for position, answer in enumerate(answers[: len(step.actions)])
    ]
    orphans = [{"content": o.text} for o in step.observations if o.is_orphan]
    if results or orphans:
        row["observation"] = {"results": results + orphans}
    if step.after:
        losses["predecessor_messages_moved_to_extra"] += len(step.after)
        row["extra"] = {"messages_after": step.after}
    return row


def _id(step: int, position: int) -> str:
    return f"p{step:05d}{position:03d}"


def _arguments(action: Action, losses: Counter[str]) -> msgspec.Raw:
    if not action.is_text:
        try:
            msgspec.json.decode(action.arguments, type=dict[str, msgspec.Raw])
            return compact(action.arguments)
        except msgspec.DecodeError:
            pass  # stored as text below, and counted
    losses["predecessor_text_arguments_wrapped"] += 1
    return msgspec.Raw(msgspec.json.encode({"command" if action.tool == "bash" else "text": action.arguments}))
