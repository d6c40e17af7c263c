"""Damaged records give trajectories or a ``RecordError``, and what comes out can be keyed, stored and read back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from damage import damaged, kept_as_run

from handoff.adapters import ADAPTERS
from handoff.framing import Record, SourceFile

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MANY = 20_000


def records(format_: str) -> list[Record]:
    paths = sorted(path for path in (FIXTURES / format_).rglob("*") if path.suffix != ".md")
    return [item for path in paths if path.is_file() for item in SourceFile(path) if isinstance(item, Record)]


@pytest.mark.parametrize("name", [adapter.format for adapter in ADAPTERS])
def test_some_damaged_records(name: str) -> None:
    rng = random.Random(name)
    sources = records(name)
    kept = sum(kept_as_run(damaged(rng.choice(sources), rng)) for _ in range(150))
    assert kept  # most damage is small: a run with a broken part is still read


@pytest.mark.slow
@pytest.mark.parametrize("name", [adapter.format for adapter in ADAPTERS])
def test_twenty_thousand_damaged_records(name: str) -> None:
    rng = random.Random(name + " many")
    sources = records(name)
    kept = sum(kept_as_run(damaged(rng.choice(sources), rng)) for _ in range(MANY))
    assert MANY // 20 < kept < MANY
