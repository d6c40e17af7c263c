"""One shard read as far as its views, stage by stage: what the command line does, and ``corpus_job`` in Dagster."""

from __future__ import annotations

from collections.abc import Callable

from handoff.project import Project
from handoff.stages import corpus, environment, handoffs, quality

Report = Callable[[str], Callable[[int, int], None]]
"""What goes on → who is told (done, total) of it."""


def read_shard(project: Project, shard: str, report: Report) -> None:
    """Runs, states, quality, points and views. What is current is left alone."""
    advance = report("reading records (KiB)")
    corpus.raw_trajectories(project, shard, lambda done, total: advance(done >> 10, total >> 10))
    environment.environment_facts(project, shard)
    corpus.repository_states(project, shard)
    quality.quality_signals(project, shard)
    handoffs.injected_handoffs(project, shard, report("running the tasks' tests"))
    handoffs.view_renderings(project, shard)
