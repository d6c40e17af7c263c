"""One small recorded world for all kata tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.kata.record import record
from handoff.kata.world import World, generate

SANDBOX = "auto"


@pytest.fixture(scope="session")
def world() -> World:
    return generate(3, 3, 1, 1)


@pytest.fixture(scope="session")
def recorded(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the world recorded in it, really executed."""
    data = tmp_path_factory.mktemp("kata")
    record(world, data, seed=3, workers=1, sandbox=SANDBOX)
    return data
