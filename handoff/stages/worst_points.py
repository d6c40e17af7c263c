"""The search for the worst point of one recorded run, with real takeovers (``docs/science.md §10``).

Every step of the run at which its state is known may be the worst. One that the successor cannot solve under the
richest view is no candidate: a search would find nothing else. Takeovers are journaled by all that decides them, so a
search that was cut off goes on where it was, and one that is asked for again runs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow.compute as pc

from handoff.adversary.search import Candidate, Found, find_worst
from handoff.errors import InputError
from handoff.identity import identify
from handoff.kata.pool import Progress
from handoff.lake import Written
from handoff.project import Project
from handoff.stages import inputs_of, is_executable, round_name, round_number
from handoff.stages.handoffs import Handoffs
from handoff.stages.search_ground import Ground, Guess
from handoff.stages.takeovers import LEARNED
from handoff.views import parse_view


class WorstPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One search: what it was about, and what it found."""

    trajectory_id: str
    task_id: str | None
    n_steps: int
    arm: str
    view: str
    budget: int
    found: Found
    surrogate: str
    """The guess that came in as a prior."""
    surrogate_note: str
    """What could not be had of it, in words; empty when nothing."""
    unsolvable: tuple[int, ...]
    """h of steps that the successor did not solve under the richest view: no candidates."""
    unjudged: tuple[int, ...]
    """h of steps of which that is not known, since not all takeovers there could be judged: no candidates either."""
    trials: int
    """Takeovers that it took to know that."""

    def rows(self) -> list[dict[str, Any]]:
        """Rows of table ``worst_points``: one a candidate, by h. ``how`` is ``searched``."""
        again = self.found.confirmation
        return [
            {
                "trajectory_id": self.trajectory_id,
                "point_id": own.point_id,
                "h": own.h,
                "n_steps": self.n_steps,
                "arm": self.arm,
                "view": self.view,
                "how": "searched",
                "excess_cost": own.mean,
                "low": own.low,
                "high": own.high,
                "n_runs": len(own.costs),
                "rounds": own.rounds,
                "surrogate": own.surrogate,
                "surrogate_kind": f"proxy: {self.surrogate}",
                "is_worst": own.point_id == self.found.worst,
                "is_near_worst": own.is_near_worst,
                **(again._asdict() if again and own.point_id == self.found.worst else {}),
                "search_runs": self.found.runs,
                "uniform_runs": self.found.uniform_runs,
                "unsolvable": list(self.unsolvable),
                "unjudged": list(self.unjudged),
            }
            for own in self.found.visited
        ]


def worst_points(project: Project, round: str, shard: str, progress: Progress | None = None) -> Written:
    """What is known in a round of how costly a shard's points are for the successor that ``worst_points`` of the
    settings names: measured by the takeovers of the round before, and searched where the settings ask for it.

    The first round has nobody to measure, and no rows.
    """
    lake, own = project.lake, project.settings.worst_points
    last = round_name(round_number(round) - 1) if round_number(round) else None
    upstream: list[tuple[str, dict[str, str]]] = [
        (table, {"shard": shard}) for table in ("raw_trajectories", "repository_states", "injected_handoffs")
    ]
    if last:
        upstream += [(table, {"round": last, "shard": shard}) for table in ("takeover_runs", "diagnostics")]
        upstream.append(("policy", {"round": last}))
    budgets = (project.settings.step_budget, project.settings.token_budget)
    settings = (project.settings.seed, own, *(budgets if own.runs else ()))
    inputs = inputs_of("worst_points", lake, *upstream, settings=settings)
    if current := lake.current("worst_points", inputs=inputs, round=round, shard=shard):
        return current
    rows = _rows(project, last, shard, progress) if last else ()
    return lake.write("worst_points", rows, inputs=inputs, round=round, shard=shard)


def _rows(project: Project, last: str, shard: str, progress: Progress | None) -> Iterator[dict[str, Any]]:
    own = project.settings.worst_points
    points = {p["point_id"]: p for p in project.lake.rows("injected_handoffs", shard=shard) if is_executable(p)}
    yield from _measured(project, last, shard, points)
    if own.successor in LEARNED and own.successor not in {r["arm"] for r in project.lake.rows("policy", round=last)}:
        return
    by_run: dict[str, set[str]] = {}
    for point in points.values():
        if point["state_class"] in ("needs_completion", "regressed"):
            by_run.setdefault(point["trajectory_id"], set()).add(point["point_id"])
    drawn = sorted(by_run, key=lambda run: identify("i", project.settings.seed, last, "worst", run))[: own.runs]
    for run in sorted(drawn):
        found = find_worst_point(
            project,
            run,
            arm=own.successor,
            view=own.view,
            budget=max(own.budget, len(by_run[run])),
            round=last,
            among=by_run[run],
            progress=progress,
        )
        yield from found.rows()


def _measured(
    project: Project, last: str, shard: str, points: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Mean excess cost of undisturbed takeovers of the round before, by point."""
    lake, own = project.lake, project.settings.worst_points
    wanted = {
        row["takeover_id"]: row["point_id"]
        for row in lake.rows(
            "takeover_runs", ["takeover_id", "point_id", "arm", "view", "variant_id"], round=last, shard=shard
        )
        if row["arm"] == own.successor and row["view"] == own.view and row["variant_id"] is None
    }
    costs: dict[str, list[float]] = {}
    for row in lake.rows("diagnostics", ["takeover_id", "metric", "value"], round=last, shard=shard):
        if row["metric"] == "excess_cost" and row["value"] is not None and row["takeover_id"] in wanted:
            costs.setdefault(wanted[row["takeover_id"]], []).append(row["value"])
    known = [(points[id_], sum(own) / len(own), len(own)) for id_, own in costs.items() if id_ in points]
    worst: dict[str, tuple[float, int]] = {}
    for point, cost, _ in known:
        worst[point["trajectory_id"]] = max(worst.get(point["trajectory_id"], (cost, -point["h"])), (cost, -point["h"]))
    for point, cost, n in sorted(known, key=lambda k: (k[0]["trajectory_id"], k[0]["h"])):
        yield {
            "trajectory_id": point["trajectory_id"],
            "point_id": point["point_id"],
            "h": point["h"],
            "n_steps": point["n_steps"],
            "arm": own.successor,
            "view": own.view,
            "how": "measured",
            "excess_cost": cost,
            "n_runs": n,
            "is_worst": worst[point["trajectory_id"]] == (cost, -point["h"]),
        }


def find_worst_point(
    project: Project,
    trajectory_id: str,
    *,
    arm: str,
    view: str,
    budget: int,
    round: str | None = None,
    among: Collection[str] | None = None,
    guess: Guess = "auto",
    progress: Progress | None = None,
) -> WorstPoint:
    """Search one run's worst point for one successor under one view.

    ``among``: ids of the points that are candidates; every step with a known state when ``None``. ``guess``: what comes
    in as a prior (``Ground.guesses``).

    ``trajectory_id``: may be the beginning of one. ``arm``: a trained policy of ``round`` (default: the latest that has
    it), a reference successor of the embedded world, or one that the settings name. ``budget``: takeovers that choose;
    those that find out which steps are solvable, and those that confirm, come on top. ``InputError``: no such run,
    successor or view, nothing that can be run, or a budget under one run a candidate.
    """
    view = parse_view(view).name
    shard, whole = _run_of(project, trajectory_id)
    with Handoffs(project, shard) as handoffs:
        ground = Ground(project, handoffs, shard, whole, arm, round, progress)
        points = {h: row for h, row in ground.points().items() if among is None or row["point_id"] in among}
        if not points:
            raise InputError(
                f"no step of {whole} has a known state to start from; `handoff states {whole}` says what is known"
            )
        if budget < len(points):
            raise InputError(
                f"{len(points)} steps may be the worst; the budget is {budget} and has to be {len(points)} or more"
            )
        ground.require_view(points, view)
        tried = ground.solvable(points)
        candidates = [points[h] for h in tried.solved]
        guesses = ground.guesses(candidates, tried.first, guess)
        found = find_worst(
            [
                Candidate(point_id=row["point_id"], h=row["h"], surrogate=guess)
                for row, guess in zip(candidates, guesses.values, strict=True)
            ],
            lambda runs: ground.costs(runs, view),
            budget,
        )
        return WorstPoint(
            trajectory_id=whole,
            task_id=ground.trajectory.task_id,
            n_steps=len(ground.trajectory.steps),
            arm=arm,
            view=view,
            budget=budget,
            found=found,
            surrogate=guesses.kind,
            surrogate_note=guesses.note,
            unsolvable=tried.unsolved,
            unjudged=tried.unjudged,
            trials=tried.trials,
        )


def _run_of(project: Project, trajectory_id: str) -> tuple[str, str]:
    """(shard, whole id) of a run that begins with this id."""
    where = pc.starts_with(pc.field("trajectory_id"), trajectory_id)
    found = project.lake.read("raw_trajectories", ["trajectory_id", "shard"], where=where).to_pylist()
    ids = sorted({row["trajectory_id"] for row in found})
    if len(ids) != 1:
        remedy = (
            f"their ids are in {project.lake.root / 'raw_trajectories'}"
            if not ids
            else f"give more of the id ({', '.join(ids[:3])} …)"
        )
        raise InputError(f"{len(ids)} runs begin with {trajectory_id!r}; {remedy}")
    return found[0]["shard"], ids[0]
