"""``raw_trajectories`` → ``quality_signals`` and ``run_quality``: what is worth knowing about every step and run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handoff import corpus
from handoff.corpus.spill import Spill
from handoff.lake import Written
from handoff.project import Project
from handoff.quality import assess
from handoff.stages import inputs_of


def quality_signals(project: Project, shard: str) -> Written:
    """Assess every run of a shard. ``run_quality`` is written first: signals on disk mean that both are there."""
    lake = project.lake
    inputs = inputs_of("quality_signals", lake, ("raw_trajectories", {"shard": shard}))
    if current := lake.current("quality_signals", inputs=inputs, shard=shard):
        return current
    with Spill(lake, "quality_signals") as signals:
        lake.write("run_quality", _run_rows(project, shard, signals), inputs=inputs, shard=shard)
        return lake.write("quality_signals", signals.batches(), inputs=inputs, shard=shard)


def _run_rows(project: Project, shard: str, signals: Spill) -> Iterator[dict[str, Any]]:
    for id_, trajectory in corpus.trajectories(project.lake, shard):
        quality = assess(trajectory)
        for signal in quality.signals:
            signals.add_row(**signal.row(id_))
        yield quality.run_row(id_)
