"""Which points of recorded runs successors are started from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handoff.identity import identify
from handoff.lake import Lake
from handoff.stages import round_name, round_number

POINT_LABELS = ("error", "intermediate", "milestone")
"""Points that successors are started from carry one of these; one point a label and run."""


def choose_points(
    points: Sequence[Mapping[str, Any]], per_run: int, seed: int, *, unknown: bool = False
) -> list[Mapping[str, Any]]:
    """At most ``per_run`` points of each recorded run, one a label, drawn by hash among unsolved states.

    Sorted by trajectory and h. The label that is served first goes round from run to run, so that all occur.
    ``unknown``: also states of which nobody knows whether they are solved.
    """
    fitting = {"needs_completion", "regressed", *([None] if unknown else [])}
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        if point["state_class"] in fitting:
            by_run.setdefault(point["trajectory_id"], []).append(point)
    chosen: list[Mapping[str, Any]] = []
    for place, trajectory_id in enumerate(sorted(by_run)):
        own: dict[str, Mapping[str, Any]] = {}
        first = place % len(POINT_LABELS)
        for label in POINT_LABELS[first:] + POINT_LABELS[:first]:
            labelled = [p for p in by_run[trajectory_id] if label in p["labels"] and p["point_id"] not in own]
            if labelled and len(own) < per_run:
                drawn = min(labelled, key=lambda p: identify("i", seed, label, p["point_id"]))
                own[drawn["point_id"]] = drawn
        chosen += own.values()
    return sorted(chosen, key=lambda p: (p["trajectory_id"], p["h"]))


def known_costs(lake: Lake, round: str, shard: str) -> dict[str, tuple[float, str]]:
    """Point id → (mean excess cost, how that is known), from table ``worst_points``: searched where it was, else
    measured."""
    costs: dict[str, tuple[float, str]] = {}
    for row in lake.rows("worst_points", ["point_id", "how", "excess_cost"], round=round, shard=shard):
        if row["excess_cost"] is not None and (row["how"] == "searched" or row["point_id"] not in costs):
            costs[row["point_id"]] = (row["excess_cost"], row["how"])
    return costs


def next_shares(lake: Lake, round: str) -> dict[str, float]:
    """Tier → its part of the disturbed training points of ``round``, as the round before decided (table ``tiers``);
    empty: it decided nothing."""
    number = round_number(round)
    if not number:
        return {}
    rows = lake.rows("tiers", ["tier", "next_share"], round=round_name(number - 1))
    return {row["tier"]: row["next_share"] for row in rows if row["next_share"] is not None}
