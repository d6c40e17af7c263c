"""Records → columns, and what is known of each run: all of an ingestion that needs no other record.

It depends on the records alone, so any process may do it (``crew.py``). What needs the others, such as which run
repeats which, is in ``reading.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from handoff.actions import context_of, trajectory_keys
from handoff.adapters import Record, convert, nearest
from handoff.corpus.columns import HeadColumns, StepColumns
from handoff.corpus.links import Chain, chain_of
from handoff.errors import RecordError
from handoff.framing.losses import Losses
from handoff.framing.source import head_text
from handoff.trajectory import Trajectory, trajectory_id

Reject = dict[str, Any]
"""A row of ``quarantine``."""


class Run(NamedTuple):
    """What is counted and compared of one run; its rows are in the columns."""

    id: str
    origin: bytes
    """The record's bytes by their hash, and which run of it this is."""
    chain: Chain
    steps: int
    size: int
    """Characters of its steps, about."""
    head_size: int
    orphans: int
    unanswered: int


class Reading(NamedTuple):
    """What one record gave."""

    runs: tuple[Run, ...]
    rejects: tuple[Reject, ...]
    losses: Losses
    repairs: int


class Digest(NamedTuple):
    """What a few records gave: one reading each, and the rows of all their runs, in order."""

    readings: list[Reading]
    heads: pa.RecordBatch
    """Rows of ``raw_trajectories``."""
    steps: pa.RecordBatch
    """Rows of ``steps``."""


def digest(records: Sequence[Record]) -> Digest:
    """Read records; one that is unusable gives no runs and says why."""
    heads, steps = HeadColumns(), StepColumns()
    readings = [_read(record, heads, steps) for record in records]
    return Digest(readings, heads.batch(), steps.batch())


def reject(error: RecordError, sha256: str, head: str, guess: str | None = None) -> Reject:
    """The row that tells of an error. ``guess``: the format that the record looks most like."""
    return {
        "file": error.file,
        "record": error.record,
        "field": error.field,
        "problem": error.problem,
        "remedy": error.remedy,
        "nearest": guess,
        "raw_sha256": sha256,
        "raw_head": head,
    }


def _read(record: Record, heads: HeadColumns, steps: StepColumns) -> Reading:
    try:
        found = convert(record)
    except RecordError as error:
        placed = error.at(record.file, record.position)
        return Reading((), (reject(placed, record.sha256, head_text(record.data), _guess(record)),), Losses(), 0)
    rejects = tuple([reject(problem, record.sha256, head_text(record.data)) for problem in record.problems])
    runs = tuple([_run(record, part, trajectory, heads, steps) for part, trajectory in enumerate(found, 1)])
    return Reading(runs, rejects, record.losses(), record.repairs)


def _run(record: Record, part: int, trajectory: Trajectory, heads: HeadColumns, steps: StepColumns) -> Run:
    id_ = trajectory_id(trajectory)
    keys = trajectory_keys(trajectory.steps, context=context_of(trajectory.format, trajectory.source))
    size = steps.add(id_, trajectory.steps, keys)
    head_size = heads.add(id_, trajectory, file=record.file, record=record.position, part=part, sha256=record.sha256)
    orphans = unanswered = 0
    for step in trajectory.steps:
        for seen in step.observations:
            if seen.is_orphan:
                orphans += 1
            elif seen.missing is not None:
                unanswered += 1
    return Run(
        id=id_,
        origin=bytes.fromhex(record.sha256)[:16] + part.to_bytes(4),
        chain=chain_of(trajectory),
        steps=len(trajectory.steps),
        size=size,
        head_size=head_size,
        orphans=orphans,
        unanswered=unanswered,
    )


def _guess(record: Record) -> str | None:
    try:
        return nearest(record)
    except RecordError:
        return None
