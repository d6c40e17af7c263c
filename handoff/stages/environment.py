"""``raw_trajectories`` → ``environment_facts``: what each run shows of the world outside its repository."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handoff import corpus
from handoff.environment import environment
from handoff.lake import Written
from handoff.project import Project
from handoff.stages import inputs_of


def environment_facts(project: Project, shard: str) -> Written:
    """The facts of every run of a shard, run by run, in the order in which they came to hold."""
    lake = project.lake
    inputs = inputs_of("environment_facts", lake, ("raw_trajectories", {"shard": shard}))
    if current := lake.current("environment_facts", inputs=inputs, shard=shard):
        return current
    return lake.write("environment_facts", _rows(project, shard), inputs=inputs, shard=shard)


def _rows(project: Project, shard: str) -> Iterator[dict[str, Any]]:
    for id_, trajectory in corpus.trajectories(project.lake, shard):
        yield from environment(trajectory).rows(id_)
