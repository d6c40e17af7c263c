"""Trajectories ↔ columns of ``raw_trajectories`` and ``steps``.

Nested columns are built from flat lists and offsets: going through one dictionary per step costs several times
as much as parsing did. Reading back gives equal trajectories, so that identifiers can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

from handoff.actions import Key
from handoff.corpus.splits import split_of
from handoff.lake import SCHEMAS
from handoff.trajectory import Action, Message, Observation, Outcome, Step, Trajectory, Usage

Keys = Sequence[Sequence[Key]]
"""One sequence of action keys per step."""

_HEADS = SCHEMAS["raw_trajectories"]
_STEPS = SCHEMAS["steps"]
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_FLAT = ("text", "thought", "boundary", "model", *_TOKENS, "cost", "timestamp")


class _Lists:
    """A column of lists of structs, as offsets and one flat list per field."""

    def __init__(self, kind: Any) -> None:
        self._struct = kind.value_type
        self.offsets = [0]
        self.fields: list[list[Any]] = [[] for _ in range(self._struct.num_fields)]

    def array(self) -> Any:
        fields = [self._struct.field(i) for i in range(self._struct.num_fields)]
        arrays = [pa.array(values, field.type) for values, field in zip(self.fields, fields, strict=True)]
        return pa.ListArray.from_arrays(
            pa.array(self.offsets, pa.int32()), pa.StructArray.from_arrays(arrays, fields=fields)
        )


class HeadColumns:
    """Rows of ``raw_trajectories`` being collected."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _HEADS.names if name != "preamble"}
        self._preamble = _Lists(_HEADS.field("preamble").type)

    def add(self, id_: str, trajectory: Trajectory, *, file: str, record: int, part: int, sha256: str) -> int:
        """One trajectory and where it stood; its characters, about.

        What it repeats of others is known only at the end (``links.py``).
        """
        t = trajectory
        row = {
            "trajectory_id": id_,
            "file": file,
            "record": record,
            "part": part,
            "source_sha256": sha256,
            "format": t.format,
            "task_id": t.task_id,
            "task": t.task,
            "repo": t.repo,
            "base_commit": t.base_commit,
            "agent": t.agent,
            "author": t.author,
            "model": t.model,
            "licence": t.licence,
            "split": t.split or split_of(t.repo, t.task_id),
            "split_is_given": t.split is not None,
            "tools": t.tools,
            "session": t.session,
            "parent": t.parent,
            "continues": t.continues,
            "copied_steps": t.copied_steps,
            "repeats": None,
            "repeated_steps": 0,
            "n_steps": len(t.steps),
            "resolved": t.outcome.resolved,
            "exit_status": t.outcome.exit_status,
            "ended": t.outcome.ended,
            "patch": t.outcome.patch,
            "source": t.source,
        }
        for name, value in row.items():
            self._columns[name].append(value)
        roles, texts = self._preamble.fields
        size = len(t.task) + len(t.outcome.patch or "") + len(t.tools or "") + 500
        for message in t.preamble:
            roles.append(message.role)
            texts.append(message.text)
            size += len(message.text)
        self._preamble.offsets.append(len(roles))
        return size

    def batch(self) -> pa.RecordBatch:
        """What was collected."""
        arrays = [
            self._preamble.array() if field.name == "preamble" else pa.array(self._columns[field.name], field.type)
            for field in _HEADS
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_HEADS)


class StepColumns:
    """Rows of ``steps`` being collected."""

    def __init__(self) -> None:
        self._flat: dict[str, list[Any]] = {name: [] for name in ("trajectory_id", "step", *_FLAT, "utc")}
        self._actions = _Lists(_STEPS.field("actions").type)
        self._observations = _Lists(_STEPS.field("observations").type)
        self._after = _Lists(_STEPS.field("after").type)
        self._keys = _Lists(_STEPS.field("keys").type)

    def add(self, id_: str, steps: Sequence[Step], keys: Keys) -> int:
        """All steps of one trajectory; their characters, about."""
        flat = self._flat
        calls, tools, arguments, are_text = self._actions.fields
        answers, texts, codes, errors, missing, orphans, arrivals = self._observations.fields
        roles, messages = self._after.fields
        kinds, targets = self._keys.fields
        action_ends, observation_ends = self._actions.offsets, self._observations.offsets
        after_ends, key_ends = self._after.offsets, self._keys.offsets
        size = 0
        for step, step_keys in zip(steps, keys, strict=True):
            for action in step.actions:
                calls.append(action.call_id)
                tools.append(action.tool)
                arguments.append(action.arguments)
                are_text.append(action.is_text)
                size += len(action.arguments)
            for seen in step.observations:
                answers.append(seen.call_id)
                texts.append(seen.text)
                codes.append(seen.exit_code)
                errors.append(seen.error)
                missing.append(seen.missing)
                orphans.append(seen.is_orphan)
                arrivals.append(seen.arrived)
                size += len(seen.text)
            for message in step.after:
                roles.append(message.role)
                messages.append(message.text)
                size += len(message.text)
            for key in step_keys:
                kinds.append(key.kind)
                targets.append(key.target)
            action_ends.append(len(calls))
            observation_ends.append(len(answers))
            after_ends.append(len(roles))
            key_ends.append(len(kinds))
            size += len(step.text) + len(step.thought) + 300
        count = len(steps)
        flat["trajectory_id"].extend([id_] * count)
        flat["step"].extend(range(1, count + 1))
        flat["text"].extend([s.text for s in steps])
        flat["thought"].extend([s.thought for s in steps])
        flat["boundary"].extend([s.boundary for s in steps])
        flat["model"].extend([s.model for s in steps])
        flat["prompt_tokens"].extend([s.usage.prompt if s.usage is not None else None for s in steps])
        flat["cached_tokens"].extend([s.usage.cached if s.usage is not None else None for s in steps])
        flat["completion_tokens"].extend([s.usage.completion if s.usage is not None else None for s in steps])
        flat["cost"].extend([s.cost for s in steps])
        flat["timestamp"].extend([s.timestamp for s in steps])
        flat["utc"].extend([utc(s.timestamp) if s.timestamp is not None else None for s in steps])
        return size

    def batch(self) -> pa.RecordBatch:
        """What was collected."""
        nested = {
            "actions": self._actions,
            "observations": self._observations,
            "after": self._after,
            "keys": self._keys,
        }
        arrays = [
            nested[field.name].array() if field.name in nested else pa.array(self._flat[field.name], field.type)
            for field in _STEPS
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_STEPS)


def utc(stamp: str) -> datetime | None:
    """A recorded time as UTC; ``None`` when it has no zone, for a local time says nothing alone.

    Numbers are seconds since 1970, or milliseconds when that is the only reading in this century.
    """
    try:
        if stamp[:1].isdigit() and stamp.replace(".", "", 1).isdigit():
            seconds = float(stamp)
            if seconds >= 1e11:
                seconds /= 1000
            return _EPOCH + timedelta(seconds=seconds) if _EARLIEST <= seconds < _LATEST else None
        found = datetime.fromisoformat(stamp)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = 946_684_800, 4_102_444_800
"""The years 2000 to 2100."""


def read_heads(batch: pa.RecordBatch) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Id, number of steps, and the fields of ``Trajectory`` except its steps."""
    outside = ("preamble", "file", "record", "part", "source_sha256", "repeats", "repeated_steps")
    columns: dict[str, list[Any]] = {n: batch.column(n).to_pylist() for n in _HEADS.names if n not in outside}
    names = (
        *("format", "task_id", "task", "repo", "base_commit", "agent", "author", "model", "licence", "tools", "source"),
        *("session", "parent", "continues", "copied_steps"),
    )
    preambles = _messages(batch.column("preamble"))
    for i in range(batch.num_rows):
        fields: dict[str, Any] = {name: columns[name][i] for name in names}
        fields["split"] = columns["split"][i] if columns["split_is_given"][i] else None
        fields["preamble"] = preambles[i]
        fields["outcome"] = Outcome(
            resolved=columns["resolved"][i],
            exit_status=columns["exit_status"][i],
            ended=columns["ended"][i],
            patch=columns["patch"][i],
        )
        yield columns["trajectory_id"][i], columns["n_steps"][i], fields


def read_steps(batch: pa.RecordBatch) -> list[Step]:
    """The steps of a batch, in order."""
    flat: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in _FLAT}
    actions = _rows(batch.column("actions"))
    observations = _rows(batch.column("observations"))
    after = _messages(batch.column("after"))
    steps = []
    for i, (calls, seen) in enumerate(zip(actions, observations, strict=True)):
        tokens = (flat["prompt_tokens"][i], flat["cached_tokens"][i], flat["completion_tokens"][i])
        steps.append(
            Step(
                text=flat["text"][i],
                thought=flat["thought"][i],
                actions=tuple([Action(call_id=a, tool=b, arguments=c, is_text=d) for a, b, c, d in calls]),
                observations=tuple(
                    [
                        Observation(call_id=a, text=b, exit_code=c, error=d, missing=e, is_orphan=f, arrived=g)
                        for a, b, c, d, e, f, g in seen
                    ]
                ),
                after=after[i],
                boundary=flat["boundary"][i],
                model=flat["model"][i],
                usage=None
                if tokens == (None, None, None)
                else Usage(prompt=tokens[0], cached=tokens[1], completion=tokens[2]),
                cost=flat["cost"][i],
                timestamp=flat["timestamp"][i],
            )
        )
    return steps


def _messages(column: Any) -> list[tuple[Message, ...]]:
    return [tuple([Message(role=role, text=text) for role, text in row]) for row in _rows(column)]


def _rows(column: Any) -> Iterator[list[tuple[Any, ...]]]:
    """A column of lists of structs as one list of tuples per row."""
    offsets = column.offsets.to_pylist()
    structs = column.values
    flat = list(zip(*(structs.field(i).to_pylist() for i in range(structs.type.num_fields)), strict=True))
    for start, end in pairwise(offsets):
        yield flat[start:end]
