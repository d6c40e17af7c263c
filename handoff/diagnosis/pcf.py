"""Plan continuation: does the successor go on with the plan? (``docs/science.md §7``)

P is the hindsight plan of the point (``points.py``), steps written "kind target"; P̂ is what the successor did
(*enacted*) or said it would do (*elicited*). The alignment is 1 − normalised indel distance, from rapidfuzz's LCS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from handoff.diagnosis.crf import CHANGES, Key
from handoff.diagnosis.measure import Measure, missing

BOTH_EMPTY = "there is no plan left and the successor has none"


def plan_of(keys: Sequence[Key]) -> list[str]:
    """Keys as plan steps, runs of one key merged."""
    plan: list[str] = []
    last: Key | None = None
    for key in keys:
        if key != last:
            plan.append(f"{key[0]} {key[1]}")
            last = key
    return plan


def p_pc(plan: Sequence[str], other: Sequence[str]) -> Measure:
    """``2·LCS / (|P| + |P̂|)``. Symmetric; 1 exactly when equal. Exactly one empty gives 0, both empty no value."""
    if not plan and not other:
        return missing(BOTH_EMPTY)
    length = len(plan) + len(other)
    # Numbers instead of strings: rapidfuzz compares hashes, and those of small integers never collide.
    numbers = {step: n for n, step in enumerate(dict.fromkeys([*plan, *other]))}
    common = 2 * LCSseq.similarity([numbers[s] for s in plan], [numbers[s] for s in other])
    return Measure(common / length, common, length)


def dice(plan: Sequence[str], other: Sequence[str]) -> Measure:
    """The multiset Dice coefficient: P_PC if order did not matter, hence never below it."""
    if not plan and not other:
        return missing(BOTH_EMPTY)
    length = len(plan) + len(other)
    theirs = Counter(other)
    common = 2 * sum(min(n, theirs[step]) for step, n in Counter(plan).items() if step in theirs)
    return Measure(common / length, common, length)


def loops(steps: Sequence[Sequence[Key]]) -> Measure:
    """The share of acting steps in which every action repeats an earlier one with nothing changed since."""
    seen: set[Key] = set()
    acting = looping = 0
    for step in steps:
        if not step:
            continue
        acting += 1
        looping += seen.issuperset(step)
        for key in step:
            if key[0] in CHANGES:
                seen.clear()
            else:
                seen.add(key)
    return Measure(looping / acting, looping, acting) if acting else missing("the successor did nothing")


def strategy_switch(plan: Sequence[str], window: Sequence[str]) -> Measure:
    """1 when the successor's window shares no step with the plan, else 0."""
    if not plan:
        return missing("there is no plan left to leave")
    if not window:
        return missing("the successor did nothing in the window")
    switched = set(plan).isdisjoint(window)
    return Measure(float(switched), float(switched), 1.0)
