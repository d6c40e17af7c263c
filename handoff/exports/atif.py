"""ATIF 1.8: whole episodes, predecessor and successor, one document per line.

One line, shortened::

    {"schema_version": "ATIF-v1.8", "session_id": "k_…", "trajectory_id": "s_…", "agent": {"name": "E", …},
     "steps": [{"step_id": 1, "source": "user", "message": "<task>", "is_copied_context": true},
               {"step_id": 2, "source": "agent", "message": "…", "tool_calls": […], "is_copied_context": true},
               {"step_id": 3, "source": "user", "message": "You are taking over …"},
               {"step_id": 4, "source": "agent", "message": "…", "tool_calls": […], "observation": {…}}],
     "final_metrics": {"total_steps": 4}, "extra": {…}}

The predecessor's steps are marked ``is_copied_context``: the standard asks every consumer to keep such steps
out of training targets. Their tokens and cost were counted in their own run, so they stand under ``extra.handoff`` and
not in ``metrics``. The standard's models forbid unknown keys: all that it has no field for stands under ``extra``, and
``handoff/adapters/atif.py`` reads a document back as the same steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from handoff.curation.secrets import Redactor, redact_steps
from handoff.exports.exporter import Exporter, Predecessors, stem_of
from handoff.exports.rows import compact
from handoff.samples import Sample, SampleMessage, text_of
from handoff.trajectory import Action, Observation, Step

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


class AtifExporter(Exporter):
    """Documents for tools that read the Agent Trajectory Interchange Format."""

    name = "atif"
    title = "Handoff episodes in ATIF 1.8"
    tells_the_past = True

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
            taken = {call.id for message in sample.messages for call in message.tool_calls}
            for number, step in enumerate(before, 1):
                steps += _predecessor_steps(number, step, sample.origin.predecessor_model, taken, losses)
        steps += _successor_steps(sample.messages)
        yield (
            stem_of(sample),
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


def _predecessor_steps(
    number: int, step: Step, model: str | None, taken: set[str], losses: Counter[str]
) -> Iterator[dict[str, Any]]:
    """A step and the messages after it. ``taken``: the call ids of the document so far."""
    row: dict[str, Any] = {"source": "agent", "message": step.text, "is_copied_context": True}
    own: dict[str, Any] = {}
    if step.model or model:
        row["model_name"] = step.model or model
    if step.thought:
        row["reasoning_content"] = step.thought
    if step.timestamp is not None:
        (row if _is_iso(step.timestamp) else own)["timestamp"] = step.timestamp
    metrics = _metrics(step)
    if metrics:
        own["metrics"] = metrics
    if step.boundary is not None:
        own["boundary"] = step.boundary
    answers = [seen for seen in step.observations if not seen.is_orphan]
    results = []
    for position, action in enumerate(step.actions):
        answer = answers[position] if position < len(answers) else Observation(missing="none")
        call = _call(f"p{number:05d}{position:03d}", action, answer, taken, losses)
        row.setdefault("tool_calls", []).append(call)
        if answer.missing is None:
            results.append({"source_call_id": call["tool_call_id"], **_result(answer)})
    results += [_result(seen) for seen in step.observations if seen.is_orphan]
    if results:
        row["observation"] = {"results": results}
    if own:
        row["extra"] = {"handoff": own}
    yield row
    for message in step.after:
        yield {
            "source": "system" if message.role == "system" else "user",
            "message": message.text,
            "is_copied_context": True,
            "extra": {"handoff": {"role": message.role}},
        }


def _call(id_: str, action: Action, answer: Observation, taken: set[str], losses: Counter[str]) -> dict[str, Any]:
    """A call under the id that its source gave it, unless the document has that already: then under ``id_``."""
    own: dict[str, Any] = {}
    if action.call_id and action.call_id not in taken:
        id_ = action.call_id
    else:
        own["call_id"] = action.call_id
    taken.add(id_)
    arguments, is_text = _arguments(action)
    if is_text:
        losses["predecessor_text_arguments_wrapped"] += 1
        own["is_text"] = True
    if answer.missing not in (None, "none"):
        own["missing"] = answer.missing
    call = {"tool_call_id": id_, "function_name": action.tool, "arguments": arguments}
    return call | {"extra": {"handoff": own}} if own else call


def _result(seen: Observation) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if seen.exit_code is not None:
        extra["exit_code"] = seen.exit_code
    if seen.error is not None:
        extra["is_error"] = seen.error
    if seen.is_orphan:
        extra["handoff"] = {"is_orphan": True} | ({"call_id": seen.call_id} if seen.call_id else {})
    return {"content": seen.text, "extra": extra} if extra else {"content": seen.text}


def _metrics(step: Step) -> dict[str, int | float]:
    usage = step.usage
    counts = {
        "prompt_tokens": usage.prompt if usage is not None else None,
        "cached_tokens": usage.cached if usage is not None else None,
        "completion_tokens": usage.completion if usage is not None else None,
        "cost_usd": step.cost,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _is_iso(timestamp: str) -> bool:
    """True when the standard's own models take it."""
    try:
        datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def _arguments(action: Action) -> tuple[msgspec.Raw, bool]:
    """The arguments as an object, and whether they were only text."""
    if not action.is_text:
        try:
            msgspec.json.decode(action.arguments, type=dict[str, msgspec.Raw])
            return compact(action.arguments), False
        except msgspec.DecodeError:
            pass  # kept as text below
    name = "command" if action.tool == "bash" else "text"
    return msgspec.Raw(msgspec.json.encode({name: action.arguments})), True
