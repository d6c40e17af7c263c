"""Branch search beside independent sampling: failed takeovers of training points, the same number of runs for both.

A branch repeats the failed run's own moves up to where it departs, which costs no decision; steps are therefore counted
from there on. Both ways are of the same policy, point, view and limits.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from bench._embedded import trained_project
from handoff.diagnosis import stats
from handoff.project import Project
from handoff.stages import is_executable
from handoff.stages.branching import search_branches
from handoff.stages.choosing import choose_points
from handoff.stages.handoffs import Handoffs
from handoff.stages.search_ground import policies_of
from handoff.stages.takeovers import Job, Start, make_job, run_jobs

SEED = 22
TRAIN_TASKS, SHARD = 24, "kata-train"
ARMS = ("A", "E")
RUNS = 8
CURVE = (1, 2, 4, 8)

Floats = npt.NDArray[np.float64]


def started(project: Project, arm: str, seed: int) -> list[Job]:
    """One start at each chosen training point, under the repository view."""
    points = [p for p in project.lake.rows("injected_handoffs", shard=SHARD) if is_executable(p)]
    policies = policies_of(project, arm, None)
    jobs = []
    with Handoffs(project, SHARD) as handoffs:
        for point in choose_points(points, 3, SEED):
            view_id = handoffs.row(point, "repo")["view_id"]
            start = Start(
                point_id=point["point_id"],
                view_id=view_id,
                variant_id=None,
                view="repo",
                tier=None,
                purpose="branch",
                arm=arm,
                seed=seed,
            )
            jobs.append(msgspec.structs.replace(make_job(project, handoffs, start, point, {}, policies), question=None))
    return jobs


def measured(project: Project, arm: str) -> None:
    """Print one arm's two ways."""
    jobs = started(project, arm, 0)
    rows = list(run_jobs(project, jobs, None))
    failed = [place for place, row in enumerate(rows) if row["solved"] is False]
    found = search_branches(project, [(jobs[place], rows[place]) for place in failed], RUNS)
    others = [started(project, arm, seed) for seed in range(1, RUNS + 1)]
    again = list(run_jobs(project, [own[place] for place in failed for own in others], None))
    solved, equal, steps, tasks = [], [], [], []
    for number, (place, one) in enumerate(zip(failed, found, strict=True)):
        fork = [branch.step for branch in one.branches if branch.verdict == "tried"]
        sampled = again[number * RUNS : (number + 1) * RUNS]
        ways = (
            [(bool(row["solved"]), row["steps"] - at + 1) for row, at in zip(one.tried, fork, strict=True)],
            [(bool(row["solved"]), row["steps"]) for row in sampled],
        )
        solved.append([[any(s for s, _ in way[:k]) for k in CURVE] for way in ways])
        spent = sum(n for _, n in ways[0])
        afforded = sum(np.cumsum([n for _, n in ways[1]]) <= spent)
        equal.append([any(s for s, _ in ways[0]), any(s for s, _ in ways[1][:afforded])])
        steps.append([sum(n for _, n in way) / max(1, len(way)) for way in ways])
        tasks.append(jobs[place].task_id or "")
    if not failed:
        print(f"  {arm}: solved all {len(rows)} starts; nothing to try again")
        return
    shares = by_task(np.array(solved, dtype=float), tasks)
    mean_steps = by_task(np.array(steps), tasks).mean(axis=0)
    print(f"  {arm}: {len(failed)} of {len(rows)} starts failed, of {len(shares)} tasks; {RUNS} runs more of each")
    for at, k in enumerate(CURVE):
        gain = shares[:, 0, at] - shares[:, 1, at]
        _, low, high = stats.bootstrap_means(gain[:, None], seed=SEED)
        print(
            f"    solved within {k}: branches {shares[:, 0, at].mean():.2f}, other seeds {shares[:, 1, at].mean():.2f}"
            f", difference {gain.mean():+.2f} [{low[0]:+.2f}, {high[0]:+.2f}]"
        )
    shares = by_task(np.array(equal, dtype=float), tasks)
    gain = shares[:, 0] - shares[:, 1]
    _, low, high = stats.bootstrap_means(gain[:, None], seed=SEED)
    print(
        f"    at as many steps decided: branches {shares[:, 0].mean():.2f}, other seeds {shares[:, 1].mean():.2f}"
        f", difference {gain.mean():+.2f} [{low[0]:+.2f}, {high[0]:+.2f}]"
    )
    print(f"    steps decided a run: branches {mean_steps[0]:.1f}, other seeds {mean_steps[1]:.1f}")


def by_task(values: Floats, tasks: Sequence[str]) -> Floats:
    """Means within tasks, tasks sorted."""
    return np.array([values[[t == task for t in tasks]].mean(axis=0) for task in sorted(set(tasks))])


def main() -> int:
    """Print both ways."""
    print("branch search beside independent sampling, of failed takeovers; 95 % by task")
    with tempfile.TemporaryDirectory() as folder:
        project = trained_project(Path(folder) / "data", SEED, TRAIN_TASKS, 1)
        for arm in ARMS:
            measured(project, arm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
