"""A small recorded embedded world for tests of stages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.stages import corpus, handoffs, quality


@pytest.fixture(scope="module")
def recorded(recorded_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of the module's own with a small recorded world, read as far as its views."""
    return Path(shutil.copytree(recorded_once, tmp_path_factory.mktemp("kata") / "data"))


@pytest.fixture(scope="session")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("kata") / "data"
    record(generate(5, 1, 0, 1), data, seed=5, workers=1)
    project = Project(data)
    corpus.raw_trajectories(project, "kata-test")
    corpus.repository_states(project, "kata-test")
    quality.quality_signals(project, "kata-test")
    handoffs.injected_handoffs(project, "kata-test")
    handoffs.view_renderings(project, "kata-test")
    return data
