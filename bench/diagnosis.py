"""Diagnosis of one takeover, and robustness of a round, beside their limits and a naive baseline of the same run."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

from handoff.diagnosis import diagnose, robustness
from handoff.diagnosis.pcf import p_pc

LIMIT_MS = 0.3
LIMIT_ROUND_S = 3.0
KINDS = ("read", "read", "search", "edit", "test", "list")
LABELS = ("milestone", "intermediate", "error", "first_meaningful_modification", "post_first_validation_result")
ARMS = ("A", "A+opening", "B", "E", "expert", "oracle", "resampled", "replay")
VIEWS = ("repo", "trace", "summary", "structured")


def _keys(rng: random.Random, steps: int, files: int = 12) -> list[list[tuple[str, str]]]:
    def key() -> tuple[str, str]:
        return rng.choice(KINDS), f"package/module_{rng.randrange(files)}.py"

    return [[key() for _ in range(rng.choice((1, 1, 2)))] for _ in range(steps)]


def takeover(rng: random.Random, number: int) -> tuple[dict[str, Any], dict[str, Any], list[list[tuple[str, str]]]]:
    """A point, a run and its keys, of the size of a real one: 25 steps left, 20 steps taken."""
    h = rng.randrange(3, 20)
    gold = [
        {"step": h + n, "kind": kind, "target": target, "necessary": rng.random() < 0.5}
        for n, step in enumerate(_keys(rng, 25), 1)
        for kind, target in step
    ]
    files = [f"package/module_{n}.py" for n in range(4)]
    nodes = ["reproduce", *(f"{what}:{file}" for file in files for what in ("locate", "edit")), "validate:tests"]
    point = {
        "point_id": f"p_{number // 4}",
        "trajectory_id": f"t_{number // 16}",
        "task_id": f"task_{number // 32}",
        "split": ("train", "validation", "test")[number // 32 % 3],
        "labels": rng.sample(LABELS, 2),
        "h": h,
        "n_steps": h + 25,
        "nodes": [{"node": node, "done": rng.random() < 0.4} for node in nodes],
        "edges": [{"before": f"locate:{file}", "after": f"edit:{file}"} for file in files]
        + [{"before": f"edit:{file}", "after": "validate:tests"} for file in files],
        "plan": [f"{entry['kind']} {entry['target']}" for entry in gold],
        "gold": gold,
        "prefix_keys": [{"kind": kind, "target": target} for step in _keys(rng, h) for kind, target in step],
        "remaining_steps": 25,
        "remaining_prompt_tokens": 90_000,
        "state_class": "needs_completion",
        "tree": "0" * 40,
    }
    steps = _keys(rng, 20)
    run = {
        "takeover_id": f"k_{number}",
        "point_id": point["point_id"],
        "arm": ARMS[number % len(ARMS)],
        "view": VIEWS[number % 4],
        "tier": rng.choice((None, "easy", "hard")),
        "solved": rng.random() < 0.7,
        "steps": 20,
        "prompt_tokens": 70_000,
        "final_tree": "1" * 40,
        "destroyed_fixes": rng.choice((0, 0, 1)),
        "probe_done": rng.sample(nodes, 4),
        "probe_plan": [f"{kind} {target}" for step in _keys(rng, 10) for kind, target in step],
    }
    return point, run, steps


def naive_alignment(plan: Sequence[str], other: Sequence[str]) -> float:
    """The textbook table in pure Python: same value as P_PC."""
    row = [0] * (len(other) + 1)
    for step in plan:
        above = row[:]
        for j, theirs in enumerate(other, 1):
            row[j] = above[j - 1] + 1 if step == theirs else max(above[j], row[j - 1])
    return 2 * row[-1] / (len(plan) + len(other))


def _ms(work: Callable[[], object], items: int, repeats: int = 9) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1_000 / items)
    return min(times)  # the machine may be busy with other things


def main() -> int:
    rng = random.Random(0)
    cases = [takeover(rng, number) for number in range(2_000)]
    some = cases[:300]
    plans = [(point["plan"], [f"{k} {t}" for step in steps for k, t in step]) for point, _, steps in some]

    one = _ms(lambda: [diagnose(*case) for case in some], len(some))
    ours = _ms(lambda: [p_pc(*pair) for pair in plans], len(plans))
    table = _ms(lambda: [naive_alignment(*pair) for pair in plans], len(plans))
    ratio = _ms(lambda: [SequenceMatcher(None, *pair, autojunk=False).ratio() for pair in plans], len(plans))
    differs = sum(abs((p_pc(*pair).value or 0.0) - naive_alignment(*pair)) > 1e-12 for pair in plans)
    wrong = sum(abs(SequenceMatcher(None, *p, autojunk=False).ratio() - naive_alignment(*p)) > 1e-12 for p in plans)

    points = list({point["point_id"]: point for point, _, _ in cases}.values())
    runs = [run for _, run, _ in cases]
    rows = [row for case in cases for row in diagnose(*case)]
    begun = time.perf_counter()
    cells = robustness(runs, rows, points, seed=0)
    whole = time.perf_counter() - begun

    print(f"diagnosis of one takeover, all {len(rows) // len(runs)} measures  {one:7.3f} ms   limit {LIMIT_MS} ms")
    print(f"  its plan alignment alone                      {ours:7.3f} ms")
    print(f"  naive: dynamic programming in pure Python     {table:7.3f} ms   {table / ours:.0f}× slower")
    print(f"  naive: difflib's ratio                        {ratio:7.3f} ms   {ratio / ours:.0f}× slower")
    print(f"  alignment differs from the table in {differs} of {len(plans)}; difflib's ratio in {wrong}")
    print(f"robustness of {len(runs):,} takeovers, {len(cells):,} figures   {whole:7.2f} s    limit {LIMIT_ROUND_S} s")
    met = one <= LIMIT_MS and whole <= LIMIT_ROUND_S and not differs
    print("met" if met else "NOT MET")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
