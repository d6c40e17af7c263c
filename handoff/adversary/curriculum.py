"""The curriculum: how much of the next round's practice each tier gets (``docs/science.md §10``) [ours].

A tier teaches most where the successor succeeds about half the time. As its scores rise, the success that is aimed at
falls, so that practice moves to harder tiers. No tier falls below a floor, and the easiest has the highest one, so that
nothing is forgotten. Success is measured on validation points only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import msgspec

from handoff.adversary.tiers import TIERS
from handoff.errors import InputError

NAMES = tuple(each.name for each in TIERS)
"""From easy to extreme."""
PRIOR_RUNS = 4.0
"""What is not known of a tier weighs as much as so many runs, half of them solved."""
AIMS = (0.6, 0.4)
"""Success that is aimed at while no run reaches the HRS wanted, and when all do."""
WIDTH = 0.25
"""How far from the aim a tier still gets a good part: a share falls to 0.61 of the best at this distance."""


class TierResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a successor did in one tier on validation points."""

    solved: float
    """Solved runs; not whole where runs of a task are averaged."""
    n: int

    @property
    def success(self) -> float:
        """The share solved, drawn towards one half while few runs are known."""
        return (self.solved + PRIOR_RUNS / 2) / (self.n + PRIOR_RUNS)


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One tier's part of the next round."""

    tier: str
    share: float
    success: float
    aim: float
    why: str


def tier_shares(
    results: Mapping[str, TierResult],
    reached: float | None,
    *,
    floor: float = 0.05,
    easy_floor: float = 0.1,
    tiers: Sequence[str] = NAMES,
) -> tuple[Share, ...]:
    """Shares of ``tiers`` (from easy to hard), summing to 1.

    ``reached``: the share of validation runs whose HRS reaches the threshold, which never falls (§12); ``None``: not
    known, as before the first round, and the middle is aimed at. ``InputError`` for floors that leave nothing over.
    """
    floors = [easy_floor if place == 0 else floor for place in range(len(tiers))]
    if min(floor, easy_floor) < 0 or sum(floors) > 1:
        raise InputError(f"the floors {floors} are no shares that sum to at most 1")
    if reached is not None and not 0 <= reached <= 1:
        raise InputError(f"a share of runs is between 0 and 1, not {reached}")
    aim = AIMS[0] + (AIMS[1] - AIMS[0]) * (0.5 if reached is None else reached)
    known = [results.get(tier, TierResult(solved=0.0, n=0)) for tier in tiers]
    weights = [math.exp(-(((result.success - aim) / WIDTH) ** 2) / 2) for result in known]
    left = 1 - sum(floors)
    return tuple(
        Share(
            tier=tier,
            share=own_floor + left * weight / sum(weights),
            success=result.success,
            aim=aim,
            why=f"{result.solved:g} of {result.n} solved, {result.success:.2f} with the prior; {aim:.2f} aimed at"
            if result.n
            else f"not measured yet; {aim:.2f} aimed at",
        )
        for tier, own_floor, weight, result in zip(tiers, floors, weights, known, strict=True)
    )


def allot(shares: Mapping[str, float], total: int, seed: int) -> dict[str, int]:
    """Tier → places of ``total``: whole parts first, the rest drawn by what is left over. Reproducible for a seed."""
    exact = {tier: share * total for tier, share in shares.items()}
    places = {tier: math.floor(value + 1e-9) for tier, value in exact.items()}
    rng = random.Random(f"curriculum/{seed}/{total}")
    left = {tier: max(0.0, exact[tier] - places[tier]) for tier in exact}
    for _ in range(total - sum(places.values())):
        drawn = rng.choices(list(left), weights=list(left.values()))[0] if any(left.values()) else next(iter(left))
        places[drawn] += 1
        left[drawn] = 0.0
    return places
