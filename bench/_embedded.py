"""Real takeovers of the embedded world by a policy that is trained here: many at every step of some recorded runs.

Repeated searches draw from them with replacement: a bootstrap of executed takeovers, in which the cost surface is
known exactly, since it is the mean of what was executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from handoff.adversary.search import Run
from handoff.adversary.surrogates import HEURISTICS
from handoff.kata.record import record
from handoff.kata.world import generate
from handoff.project import Project
from handoff.stages import coevolution, corpus, curation, diagnosis, handoffs, quality, takeovers
from handoff.stages.handoffs import Handoffs
from handoff.stages.search_ground import Ground

Floats = npt.NDArray[np.float64]
USED = "the two that a search takes together"


class Surface(NamedTuple):
    """One recorded run: what takeovers at its steps cost."""

    task: str
    steps: tuple[int, ...]
    """h of the candidates."""
    costs: Floats
    """Steps × runs: excess cost of each executed takeover."""
    guesses: dict[str, tuple[float, ...]]
    """What may foretell the cost, by name; ``USED`` is what a search takes."""
    trials: int
    """Takeovers that it took to know which steps are solvable."""

    @property
    def means(self) -> Floats:
        """The cost surface."""
        means: Floats = self.costs.mean(axis=1)
        return means


def trained_project(data: Path, seed: int, train: int, tests: int) -> Project:
    """A recorded world with the policies of its first round."""
    paths = record(generate(seed, train, 1, tests), data, seed=seed)
    project = Project(data)
    shards = [path.stem for path in paths if "validation" not in path.stem]
    for shard in shards:
        corpus.raw_trajectories(project, shard)
        corpus.repository_states(project, shard)
        quality.quality_signals(project, shard)
        handoffs.injected_handoffs(project, shard)
        handoffs.view_renderings(project, shard)
    takeovers.takeover_runs(project, "r000", "kata-train")
    diagnosis.diagnostics(project, "r000", "kata-train")
    curation.curated_training_set(project, "r000")
    coevolution.policy(project, "r000")
    return project


def surfaces(project: Project, arm: str, view: str, each: int) -> list[Surface]:
    """The cost surface of every recorded test run, ``each`` takeovers at every step that is solvable."""
    rows = project.lake.rows("raw_trajectories", ["trajectory_id"], shard="kata-test")
    return [surface(project, row["trajectory_id"], arm, view, each) for row in rows]


def surface(project: Project, trajectory_id: str, arm: str, view: str, each: int) -> Surface:
    """The cost surface of one recorded run. Costs are of undisturbed takeovers, all of them executed."""
    with Handoffs(project, "kata-test") as opened:
        ground = Ground(project, opened, "kata-test", trajectory_id, arm, None)
        points = ground.points()
        tried = ground.solvable(points)
        rows = [points[h] for h in tried.solved]
        runs = [Run(row["point_id"], number) for row in rows for number in range(each)]
        costs = ground.costs(runs, view)
        named = [ground.heuristics(row) for row in rows]
        told = ground.guesses(rows, tried.first)
        guesses = {
            USED: told.values,
            **told.parts,
            **ground.guesses(rows, tried.first, "uncertainty").parts,
            **{name: [guess[name] for guess in named] for name in HEURISTICS},
        }
    return Surface(
        task=ground.trajectory.task_id or trajectory_id,
        steps=tried.solved,
        costs=np.array(costs, dtype=float).reshape(len(rows), each),
        guesses={name: tuple(0.0 if v is None else v for v in values) for name, values in guesses.items()},
        trials=tried.trials,
    )
