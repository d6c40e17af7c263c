"""Damaged records give trajectories or a ``RecordError``, and what comes out can be keyed, stored and read back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from damage import damaged

from handoff.actions import context_of, trajectory_keys
from handoff.adapters import ADAPTERS, convert
from handoff.corpus.columns import HeadColumns, StepColumns, read_heads, read_steps
from handoff.errors import RecordError
from handoff.framing import Record, SourceFile
from handoff.trajectory import trajectory_id

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MANY = 20_000


def records(format_: str) -> list[Record]:
    paths = sorted(path for path in (FIXTURES / format_).rglob("*") if path.suffix != ".md")
    return [item for path in paths if path.is_file() for item in SourceFile(path) if isinstance(item, Record)]


def check(record: Record) -> bool:
    """True when it was still a run. Anything but ``RecordError`` is a failure."""
    try:
        runs = convert(record)
    except RecordError as error:
        assert error.problem and error.remedy
        return False
    assert runs
    assert all(error.problem and error.remedy for error in record.problems)
    record.losses()
    for run in runs:
        heads, columns = HeadColumns(), StepColumns()
        id_ = trajectory_id(run)
        columns.add(id_, run.steps, trajectory_keys(run.steps, context=context_of(run.format)))
        heads.add(id_, run, file="", record=1, part=1, sha256="")
        assert tuple(read_steps(columns.batch())) == run.steps
        assert [row[0] for row in read_heads(heads.batch())] == [id_]
    return True


@pytest.mark.parametrize("name", [adapter.format for adapter in ADAPTERS])
def test_some_damaged_records(name: str) -> None:
    rng = random.Random(name)
    sources = records(name)
    kept = sum(check(damaged(rng.choice(sources), rng)) for _ in range(150))
    assert kept  # most damage is small: a run with a broken part is still read


@pytest.mark.slow
@pytest.mark.parametrize("name", [adapter.format for adapter in ADAPTERS])
def test_twenty_thousand_damaged_records(name: str) -> None:
    rng = random.Random(name + " many")
    sources = records(name)
    kept = sum(check(damaged(rng.choice(sources), rng)) for _ in range(MANY))
    assert MANY // 20 < kept < MANY
