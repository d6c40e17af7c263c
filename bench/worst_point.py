"""Worst-point search on planted cost surfaces, beside running every point equally often, at equal budgets."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from handoff.adversary.search import Candidate, Run, find_worst

POINTS = 50
BUDGET = 300
SEEDS = 1_000
REGRET = 0.25
"""In standard deviations of the surface."""
WANTED = 0.95
UNIFORM = (1, 2, 4, 6, 8, 16, 32, 64)
"""Runs of every point."""

Floats = npt.NDArray[np.float64]


def surface(rng: np.random.Generator, reach: float) -> Floats:
    """Mean costs with standard deviation 1; neighbours within ``reach`` steps are alike (0: none are)."""
    if not reach:
        return rng.standard_normal(POINTS)
    steps = np.arange(POINTS)
    alike = np.exp(-0.5 * ((steps[:, None] - steps) / reach) ** 2) + 1e-8 * np.eye(POINTS)
    drawn: Floats = np.linalg.cholesky(alike) @ rng.standard_normal(POINTS)
    return drawn


def searched(seed: int, budget: int, reach: float, correlation: float | None) -> tuple[float, int]:
    """(regret, runs) of one search with a noise of 1."""
    rng = np.random.default_rng([seed, 1])
    means = surface(rng, reach)
    scores = None
    if correlation is not None:
        scores = correlation * means + math.sqrt(1 - correlation**2) * rng.standard_normal(POINTS)
    points = [
        Candidate(point_id=f"p{n:02}", h=n, surrogate=None if scores is None else float(scores[n]))
        for n in range(POINTS)
    ]

    def measure(runs: Sequence[Run]) -> list[float]:
        return [float(means[int(run.point_id[1:])] + rng.standard_normal()) for run in runs]

    found = find_worst(points, measure, budget, confirming=0)
    assert found.worst is not None
    return float(means.max() - means[int(found.worst[1:])]), found.runs


def uniform(seed: int, each: int, reach: float) -> float:
    """Regret when every point is run ``each`` times."""
    rng = np.random.default_rng([seed, 2])
    means = surface(rng, reach)
    return float(means.max() - means[np.argmax(means + rng.standard_normal(POINTS) / math.sqrt(each))])


def share(seeds: int, budget: int, reach: float, correlation: float | None) -> tuple[float, int]:
    """(share of searches within the regret, most runs one took)."""
    outcomes = [searched(seed, budget, reach, correlation) for seed in range(seeds)]
    return sum(regret <= REGRET for regret, _ in outcomes) / seeds, max(runs for _, runs in outcomes)


def main() -> int:
    """Print the curve; 1 when the limit is missed."""
    print(f"{POINTS} points, noise 1 sd; share of {SEEDS:,} searches that end within {REGRET} sd of the worst point")
    began = time.process_time()
    met = True
    for name, reach in (("points unlike each other", 0.0), ("neighbours alike (3 steps)", 3.0)):
        reached, runs = share(SEEDS, BUDGET, reach, None)
        met &= reached >= WANTED and runs <= BUDGET
        print(f"  {name}: {reached:.3f} with {runs} runs (limit {WANTED} with {BUDGET})")
    print(f"  {(time.process_time() - began) / (2 * SEEDS) * 1e3:.1f} ms of our own a search")
    print("by budget:    " + "".join(f"{budget:>8}" for budget in (100, 150, 200, 300, 400)))
    for name, correlation in (("no surrogate", None), ("of r = 0", 0.0), ("of r = 0.5", 0.5), ("of r = 0.8", 0.8)):
        curve = [share(SEEDS // 2, budget, 0.0, correlation)[0] for budget in (100, 150, 200, 300, 400)]
        print(f"  {name:12}" + "".join(f"{value:8.3f}" for value in curve))
    print("uniform:      " + "".join(f"{POINTS * each:>8,}" for each in UNIFORM))
    needed = None
    line = ""
    for each in UNIFORM:
        value = sum(uniform(seed, each, 0.0) <= REGRET for seed in range(SEEDS)) / SEEDS
        needed = POINTS * each if needed is None and value >= WANTED else needed
        line += f"{value:8.3f}"
    print(f"              {line}")
    print(f"  uniform allocation needs about {needed or 'more than any of these':,} runs for {WANTED}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
