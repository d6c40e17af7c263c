"""The environment record: time a step, beside reading the prefix of every point anew.

The runs are real recordings where the sample corpus lies beside the checkout, elsewhere this project's fixtures. A warm
figure: shell lines are parsed once per process, whoever asks first.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from handoff import adapters
from handoff.environment import environment
from handoff.errors import HandoffError
from handoff.trajectory import Trajectory, prefix

LIMIT_US = 20.0
ROUNDS = 5
MOST_BYTES = 20_000_000
ROOT = Path(__file__).resolve().parent.parent


def recorded() -> list[Trajectory]:
    """One record of every file that can be read."""
    corpus = ROOT.parent / "shared" / "corpus"
    found: list[Trajectory] = []
    for file in sorted((corpus if corpus.is_dir() else ROOT / "tests" / "fixtures").rglob("*")):
        if file.suffix not in (".json", ".jsonl", ".traj") or file.stat().st_size > MOST_BYTES:
            continue
        try:
            found += adapters.read_record(file, 1).runs
        except HandoffError:
            continue
    return found


def once(trajectories: list[Trajectory]) -> float:
    """CPU seconds for the facts of all runs."""
    started = time.process_time()
    for trajectory in trajectories:
        environment(trajectory)
    return time.process_time() - started


def anew(trajectories: list[Trajectory]) -> float:
    """CPU seconds for reading every prefix of every run."""
    started = time.process_time()
    for trajectory in trajectories:
        for h in range(1, len(trajectory.steps) + 1):
            cut = msgspec.structs.replace(trajectory, steps=prefix(trajectory.steps, h))
            environment(cut).at(h)
    return time.process_time() - started


def main() -> int:
    trajectories = recorded()
    steps = sum(len(trajectory.steps) for trajectory in trajectories)
    once(trajectories)
    spent = min(once(trajectories) for _ in range(ROUNDS)) / steps * 1e6
    naive = anew([t for t in trajectories if len(t.steps) <= 120])
    few = sum(len(t.steps) for t in trajectories if len(t.steps) <= 120)
    print(
        f"environment  {spent:5.1f} µs a step   limit {LIMIT_US:.0f}   "
        f"({len(trajectories)} runs, {steps} steps; every prefix anew {naive / few * 1e6:.0f} µs a point)"
    )
    return 0 if spent <= LIMIT_US else 1


if __name__ == "__main__":
    sys.exit(main())
