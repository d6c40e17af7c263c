"""Which interfaces nothing beats on both quality and cost, and which of them to take (``docs/science.md §9``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from handoff.diagnosis import stats
from handoff.diagnosis.stats import Floats


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What one interface gave at the same points as the others."""

    interface: str
    quality: float
    """Share of tasks solved."""
    cost: float
    """Of a whole task, in the study's unit."""
    solved_by_task: Mapping[str, float]
    """Task → share of its runs that solved it: what separates one interface from another."""


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The interface to take in one direction."""

    interface: str | None
    reason: str
    """Why this one, or why none."""
    not_separated: tuple[str, ...] = ()
    """Others on which the quality may be the same or better, at 95 %: the choice between them is open."""


def pareto(offers: Sequence[Offer]) -> frozenset[str]:
    """The interfaces that no other matches or betters in both quality and cost while being better in one."""
    return frozenset(
        one.interface
        for one in offers
        if not any(
            other.quality >= one.quality
            and other.cost <= one.cost
            and (other.quality > one.quality or other.cost < one.cost)
            for other in offers
        )
    )


def recommend(offers: Sequence[Offer], *, budget: float | None, seed: int) -> Recommendation:
    """The interface on the front with the highest quality whose cost is at most ``budget`` (``None``: no bound).

    Between equals the cheaper one, then by name. ``budget`` is what the costlier of the two models costs alone: a
    switch that costs more than either is not worth making. Others are *not separated* when the 95 % interval of the
    paired difference of solved shares, bootstrapped by task, does not lie wholly on the recommended one's side.
    """
    if not offers:
        return Recommendation(interface=None, reason="no switched run has an outcome")
    front = pareto(offers)
    able = [o for o in offers if o.interface in front and (budget is None or o.cost <= budget)]
    if not able:
        return Recommendation(interface=None, reason="every interface on the front costs more than either model alone")
    best = min(able, key=lambda o: (-o.quality, o.cost, o.interface))
    others = [o for o in offers if o.interface != best.interface]
    open_ = tuple(sorted(o.interface for o in others if not _is_better(best, o, seed)))
    bound = "" if budget is None else " that costs no more than the costlier model alone"
    return Recommendation(interface=best.interface, reason=f"the best quality on the front{bound}", not_separated=open_)


def _is_better(one: Offer, other: Offer, seed: int) -> bool:
    tasks = sorted(one.solved_by_task.keys() & other.solved_by_task.keys())
    if len(tasks) < 2:
        return False
    differences: Floats = np.array([[one.solved_by_task[t] - other.solved_by_task[t]] for t in tasks])
    _, low, _ = stats.bootstrap_means(differences, seed=seed)
    return bool(low[0] > 0)
