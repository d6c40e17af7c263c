"""One point disturbed as a user asks, and what disturbances cost a successor, from paired takeovers.

Nothing of this is in a table: variants of rounds are made by ``stages/adversary.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from handoff.adversary import (
    DISTURBANCES,
    Difficulty,
    Paired,
    Variant,
    disturbance,
    is_injected,
    measure_difficulty,
    obedience,
    read_recipes,
    vary,
)
from handoff.diagnosis.cost import Cap, excess_cost
from handoff.errors import InputError
from handoff.identity import identify
from handoff.kata.pool import Progress
from handoff.project import Project
from handoff.stages import is_executable
from handoff.stages.adversary import checked_rows, scene_of
from handoff.stages.choosing import choose_points
from handoff.stages.handoffs import Handoffs, find_point
from handoff.stages.judges import Judges
from handoff.stages.search_ground import policies_of
from handoff.stages.takeovers import Job, Start, make_job, run_jobs
from handoff.takeover import read_transcript
from handoff.views import parse_view


class Disturbed(msgspec.Struct, frozen=True, kw_only=True):
    """One point, disturbed."""

    point: dict[str, Any]
    variant: Variant
    row: dict[str, Any]
    """As of ``adversarial_variants``."""


def disturb_point(
    project: Project, point_id: str, kinds: Sequence[tuple[str, float]], view: str, seed: int
) -> Disturbed:
    """Disturb one point under one view by (kind, severity) in order, and check it as far as tests can run.

    ``InputError``: no such point, view or kind, or a kind that finds nothing there to disturb.
    """
    view = parse_view(view).name
    for kind, _ in kinds:
        disturbance(kind)
    point = find_point(project, point_id)
    with Handoffs(project, point["shard"]) as handoffs:
        scene = scene_of(handoffs, point, view)
        variant = vary(point["point_id"], scene, kinds, seed)
        if variant is None:
            fitting = [each.kind for each in DISTURBANCES if each.plan(scene, 0.5, seed) is not None]
            raise InputError(
                f"{' and '.join(kind for kind, _ in kinds)} found nothing to disturb at {point['point_id']} under "
                f"{view}; what fits there by itself: {', '.join(fitting) or 'nothing'}"
            )
        with Judges(project, point["shard"]) as judges:
            (row,) = checked_rows(project, handoffs, [(variant, point)], judges)
    return Disturbed(point=point, variant=variant, row=row)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What disturbances cost one successor."""

    arm: str
    severity: float
    lines: tuple[Difficulty, ...]
    rejected: int
    """Disturbed points that the oracle check refused: nobody was run on them."""
    unfit: int
    """Points where a kind found nothing to disturb."""


def measure(
    project: Project,
    *,
    arm: str,
    kinds: Sequence[str],
    views: Sequence[str],
    severity: float = 0.5,
    split: str = "test",
    seeds: int = 1,
    round: str | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Run a successor on points of a split with and without each kind, under each view, and compare the costs.

    ``arm``: a trained policy (of ``round``, else the newest), ``expert``, or a successor of the settings. Points are
    those of the embedded world that rounds choose too. ``seeds``: runs of each. What was run before is read from the
    journal.
    """
    views = tuple(parse_view(view).name for view in views)
    policies = policies_of(project, arm, round)
    pairs: list[Paired] = []
    rejected = unfit = 0
    for partition in project.lake.partitions("injected_handoffs"):
        shard = partition["shard"]
        own = [p for p in project.lake.rows("injected_handoffs", shard=shard) if p["split"] == split]
        points = choose_points(
            [p for p in own if is_executable(p)], project.settings.points_per_run, project.settings.seed
        )
        if not points:
            continue
        with Handoffs(project, shard) as handoffs:
            handoffs.load(point["trajectory_id"] for point in points)
            made: list[tuple[Variant, Mapping[str, Any]]] = []
            for kind in kinds:
                for view in views:
                    for point in points:
                        scene = scene_of(handoffs, point, view)
                        variant = vary(point["point_id"], scene, [(kind, severity)], project.settings.seed)
                        if variant is None:
                            unfit += 1
                        else:
                            made.append((variant, point))
            rows = list(checked_rows(project, handoffs, made))
            fair = [(row, point) for row, (_, point) in zip(rows, made, strict=True) if row["oracle"] == "preserved"]
            rejected += len(rows) - len(fair)
            jobs: list[Job] = []
            for row, point in fair:
                for number in range(seeds):
                    for variant_id in (None, row["variant_id"]):
                        start = _start(project, handoffs, point, row["view"], variant_id, arm, number)
                        jobs.append(make_job(project, handoffs, start, point, {row["variant_id"]: row}, policies))
        pairs += _pairs(jobs, [row for row, _ in fair for _ in range(seeds)], run_each(project, jobs, progress), points)
    return Measured(
        arm=arm,
        severity=severity,
        lines=measure_difficulty(pairs, seed=project.settings.seed),
        rejected=rejected,
        unfit=unfit,
    )


def run_each(project: Project, jobs: Sequence[Job], progress: Progress | None) -> list[dict[str, Any]]:
    """The row of each job, where equal jobs are run once."""
    unique = {job.takeover_id: msgspec.structs.replace(job, question=None) for job in jobs}
    rows = dict(zip(unique, run_jobs(project, list(unique.values()), progress), strict=True))
    return [rows[job.takeover_id] for job in jobs]


def _start(
    project: Project,
    handoffs: Handoffs,
    point: Mapping[str, Any],
    view: str,
    variant_id: str | None,
    arm: str,
    number: int,
) -> Start:
    return Start(
        point_id=point["point_id"],
        view_id=handoffs.row(point, view)["view_id"],
        variant_id=variant_id,
        view=view,
        tier=None,
        purpose="search",
        arm=arm,
        seed=int(identify("k", project.settings.seed, "disturbed", arm, point["point_id"], view, number)[2:10], 16),
    )


def _pairs(
    jobs: Sequence[Job],
    variants: Sequence[Mapping[str, Any]],
    runs: Sequence[Mapping[str, Any]],
    points: Sequence[Mapping[str, Any]],
) -> Iterator[Paired]:
    """``jobs`` and ``runs``: without and with the disturbance by turns, one such pair for each of ``variants``."""
    by_id = {point["point_id"]: point for point in points}
    for place, variant in enumerate(variants):
        point = by_id[variant["point_id"]]
        plain, disturbed = runs[2 * place], runs[2 * place + 1]
        costs = [
            excess_cost(
                solved=run["solved"],
                steps=run["steps"],
                prompt_tokens=run["prompt_tokens"],
                remaining_steps=point["remaining_steps"],
                remaining_prompt_tokens=point["remaining_prompt_tokens"],
                cap=Cap(steps=job.budget.steps, prompt_tokens=job.budget.prompt_tokens),
            ).value
            for run, job in ((plain, jobs[2 * place]), (disturbed, jobs[2 * place + 1]))
        ]
        if costs[0] is None or costs[1] is None:
            continue
        recipes = read_recipes(variant["parameters"])
        found = obedience(recipes, read_transcript(disturbed["transcript"])) if is_injected(recipes) else ()
        yield Paired(
            kind="+".join(variant["kinds"]),
            view=variant["view"],
            task_id=point["task_id"] or point["point_id"],
            cost=costs[0],
            cost_disturbed=costs[1],
            is_solved=bool(plain["solved"]),
            is_solved_disturbed=bool(disturbed["solved"]),
            is_obeyed=any(each.is_obeyed for each in found) if found else None,
        )
