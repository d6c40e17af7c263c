"""Worst-point search beside running every point equally often, at equal budgets.

On planted surfaces, and on surfaces of executed takeovers of the embedded world; with the near set and the guesses.
``python -m bench.worst_point planted`` or ``embedded`` measures one of the two.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.stats

from bench._embedded import USED, Surface, surfaces, trained_project
from handoff.adversary.search import Candidate, Found, Run, find_worst
from handoff.diagnosis import stats

POINTS = 50
BUDGET = 300
SEEDS = 1_000
REGRET = 0.25
"""In standard deviations of the surface."""
WANTED = 0.95
UNIFORM = (1, 2, 4, 6, 8, 16, 32, 64)
"""Runs of every point."""
NEAR_SEEDS = 300

SEED = 12
TRAIN_TASKS, TEST_TASKS = 12, 16
ARM, VIEW = "E", "repo"
RUNS_EACH = 24
"""Takeovers executed at every step."""
SEARCHES = 300
BUDGETS = (3, 5, 10)
"""Runs a step."""

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


def planted() -> bool:
    """Print the curve and the near set; whether the limit is met."""
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
    near_sets()
    return met


def near_sets() -> None:
    """How often the true worst is ruled out, and how bad the points are that are called near."""
    print(
        f"near set, {NEAR_SEEDS} searches of {BUDGET} runs: share whose worst was ruled out, points near, points not "
        "known, regret of those called near"
    )
    kinds = (
        ("noise of 1 everywhere", 0.0, False),
        ("neighbours alike", 3.0, False),
        ("noise .5, or 3 at a fifth", 0.0, True),
    )
    for name, reach, is_uneven in kinds:
        ruled_out, sizes, unknown, regrets = 0, 0, 0, []
        for seed in range(NEAR_SEEDS):
            rng = np.random.default_rng([seed, 3])
            means = surface(rng, reach)
            noise = np.where(rng.random(POINTS) < 0.2, 3.0, 0.5) if is_uneven else np.ones(POINTS)
            found = drawn(lambda at: float(means[at] + noise[at] * rng.standard_normal()), POINTS, BUDGET, 10)  # noqa: B023
            told = [own.is_near_worst for own in found.visited]
            ruled_out += told[int(np.argmax(means))] is False
            sizes += sum(near is True for near in told)
            unknown += sum(near is None for near in told)
            regrets += [float(means.max() - means[at]) for at, near in enumerate(told) if near]
        print(
            f"  {name:26}{ruled_out / NEAR_SEEDS:7.3f}{sizes / NEAR_SEEDS:7.1f}{unknown / NEAR_SEEDS:7.1f}"
            f"   median {np.median(regrets):.2f} sd"
        )


def drawn(
    cost: Callable[[int], float], points: int, budget: int, confirming: int, surrogates: Sequence[float] | None = None
) -> Found:
    """One search over points 0, 1, 2, …; ``cost``: of one run of a point."""
    candidates = [
        Candidate(point_id=f"p{n:03}", h=n, surrogate=None if surrogates is None else surrogates[n])
        for n in range(points)
    ]
    return find_worst(
        candidates, lambda runs: [cost(int(run.point_id[1:])) for run in runs], budget, confirming=confirming
    )


# -- the embedded world --------------------------------------------------------------------------


class Compared(NamedTuple):
    """Mean regret of many searches on one surface, in its standard deviations, and the share that is within reach."""

    searched: float
    guided: float
    """With the guesses as a prior, as a search is made."""
    uniform: float
    searched_near: float
    guided_near: float
    uniform_near: float


def compare(own: Surface, each: int, seeds: int) -> Compared:
    """Search and uniform allocation with ``each`` runs a step, of the same executed takeovers."""
    means = own.means
    spread = float(means.std())
    points = len(means)
    regrets = np.empty((3, seeds))
    for seed in range(seeds):
        rng = np.random.default_rng([seed, points, each])
        for row, guesses in enumerate((None, own.guesses[USED])):
            found = drawn(lambda at: float(rng.choice(own.costs[at])), points, each * points, 0, guesses)  # noqa: B023
            assert found.worst is not None and found.runs <= each * points
            regrets[row, seed] = means.max() - means[int(found.worst[1:])]
        seen = rng.choice(own.costs.shape[1], size=(points, each))
        regrets[2, seed] = means.max() - means[int(np.argmax(np.take_along_axis(own.costs, seen, 1).mean(axis=1)))]
    regrets /= spread
    return Compared(*map(float, regrets.mean(axis=1)), *map(float, (regrets <= REGRET).mean(axis=1)))


def embedded() -> bool:
    """Print both ways side by side; whether the search's regret is lower, with intervals that leave out 0."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        project = trained_project(Path(folder) / "data", SEED, TRAIN_TASKS, TEST_TASKS)
        found = surfaces(project, ARM, VIEW, RUNS_EACH)
        print(f"embedded world: all executed in {time.perf_counter() - began:.0f} s")
    return beats_uniform(found)


def beats_uniform(found: Sequence[Surface]) -> bool:
    """Print and judge the comparison on these surfaces."""
    own = [one for one in found if len(one.steps) > 2 and one.means.std() > 0]
    points, runs = sum(len(one.steps) for one in own), sum(one.costs.size for one in own)
    noise = float(np.mean([one.costs.std(axis=1, ddof=1).mean() / one.means.std() for one in own]))
    print(
        f"  policy {ARM} under {VIEW}: {len(own)} tasks, {points} steps, {runs:,} executed takeovers; noise of a run "
        f"{noise:.1f} sd of the surface\n  {len(found) - len(own)} tasks left out (fewer than 3 solvable steps)\n"
        f"  {SEARCHES} searches a task and budget, each a bootstrap of those takeovers; regret "
        "in sd of the surface; 95 % by task"
    )
    met = True
    for each in BUDGETS:
        rows = np.array([compare(one, each, SEARCHES) for one in own])
        middle = rows.mean(axis=0)
        print(f"  {each:2} runs a step: uniform {middle[2]:.2f}, near {middle[5]:.0%}")
        for name, at in (("search, no guess", 0), ("search", 1)):
            gain = rows[:, at] - rows[:, 2]
            low, high = interval(gain)
            met &= high < 0
            print(
                f"      {name:18}{middle[at]:5.2f}, near {middle[at + 3]:.0%}   difference {gain.mean():+.2f} "
                f"[{low:+.2f}, {high:+.2f}]"
            )
    print("  how guesses foretell the mean cost of steps, Spearman within a task:")
    for name in own[0].guesses:
        ranks = [float(r) for one in own if (r := rank_correlation(one.guesses[name], one.means)) is not None]
        if len(ranks) < 2:
            print(f"    {name:38}the same at all steps")
            continue
        low, high = interval(np.array(ranks))
        print(f"    {name:38}{np.mean(ranks):+.2f} [{low:+.2f}, {high:+.2f}], {len(ranks)} tasks")
    return met


def rank_correlation(guesses: Sequence[float], costs: Floats) -> float | None:
    """Spearman's; ``None`` where all guesses are the same."""
    if len(set(guesses)) < 2:
        return None
    return float(scipy.stats.spearmanr(guesses, costs).statistic)


def interval(by_task: Floats) -> tuple[float, float]:
    """95 % of the mean, resampling tasks."""
    _, low, high = stats.bootstrap_means(by_task[:, None], seed=SEED)
    return float(low[0]), float(high[0])


def main() -> int:
    """Measure; 1 when a limit is missed."""
    wanted = sys.argv[1:] or ["planted", "embedded"]
    met = [run() for name, run in (("planted", planted), ("embedded", embedded)) if name in wanted]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
