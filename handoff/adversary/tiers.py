"""The four tiers of difficulty, as data (``docs/science.md §10``), and which points fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from handoff.errors import InputError


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the curriculum."""

    name: Literal["easy", "medium", "hard", "extreme"]
    labels: tuple[str, ...]
    """A point needs one of these labels. Empty: any point, of which the worst is taken."""
    view: str
    disturbances: tuple[tuple[str, float], ...]
    """(kind, severity), in the order in which they are applied."""
    at_least: int | None = None
    """So many of the disturbances have to fit a point; ``None``: all of them."""


TIERS: tuple[Tier, ...] = (
    Tier(name="easy", labels=("milestone",), view="structured", disturbances=()),
    Tier(name="medium", labels=("intermediate",), view="summary", disturbances=(("lost_notes", 0.3),)),
    Tier(name="hard", labels=("error",), view="repo", disturbances=(("reverted_edit", 0.5),)),
    Tier(
        name="extreme",
        labels=(),
        view="repo",
        disturbances=(("reverted_edit", 1.0), ("half_alternatives", 0.8), ("vague_intent", 0.6)),
        at_least=2,
    ),
)
"""From easy to extreme."""

MEASURED = "measured"
PROXY = "proxy"


def tier(name: str) -> Tier:
    """The tier of a name; ``InputError`` when there is none."""
    for candidate in TIERS:
        if candidate.name == name:
            return candidate
    raise InputError(f"no tier {name!r}; tiers are {', '.join(t.name for t in TIERS)}")


def points_of(tier: Tier, points: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The points (rows of ``injected_handoffs``) that fit a tier, by trajectory and h.

    A point whose state is unknown or broken fits none, and one that is already solved none that disturbs.
    """
    fitting = [
        point
        for point in points
        if point["tree"] is not None
        and point["state_class"] != "invalid"
        and not (tier.disturbances and point["state_class"] == "already_solved")
        and (not tier.labels or not set(tier.labels).isdisjoint(point["labels"]))
    ]
    return sorted(fitting, key=lambda point: (point["trajectory_id"], point["h"]))


def worst_of(
    points: Iterable[Mapping[str, Any]], cost: Mapping[str, float] | None = None
) -> tuple[Mapping[str, Any], str] | None:
    """(the worst of some points, how that is known), the earliest among equals; ``None`` of no points.

    ``cost``: measured mean excess cost by point id. Points without one are then passed over; with none measured,
    ``proxy_difficulty`` decides, and the answer says ``proxy``.
    """
    candidates = sorted(points, key=lambda point: (point["h"], point["point_id"]))
    if not candidates:
        return None
    measured = [point for point in candidates if cost and point["point_id"] in cost]
    if measured and cost:
        return max(measured, key=lambda point: cost[point["point_id"]]), MEASURED
    return max(candidates, key=proxy_difficulty), PROXY


def proxy_difficulty(point: Mapping[str, Any]) -> float:
    """A guess at how hard a point is, never a measurement: the share of the recorded run that is behind it [ours].

    The more was done, the more has to be found out again, while the least is left to set it against.
    """
    done: float = point["h"] / max(1, point["n_steps"])
    return done
