"""On costs of executed takeovers, the search does better than running every step equally often."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench._embedded import surfaces
from bench.worst_point import compare
from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.stages import corpus


@pytest.mark.slow
def test_the_search_beats_uniform_allocation_in_the_embedded_world(tmp_path: Path) -> None:
    """As ``bench/worst_point.py``, which has more tasks and intervals: here the mean alone, on three tasks."""
    data = tmp_path / "data"
    record(generate(11, 1, 0, 3), data, seed=11)
    project = Project(data)
    corpus.raw_trajectories(project, "kata-test")
    corpus.repository_states(project, "kata-test")
    own = surfaces(project, "resampled", "repo", 8)
    assert len(own) == 3 and all(np.isfinite(one.costs).all() and len(one.steps) > 2 for one in own)
    searched, guided, uniform, *_ = np.array([compare(one, 6, 150) for one in own]).mean(axis=0)
    assert max(searched, guided) < uniform
