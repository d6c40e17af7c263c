"""``takeover_runs``, ``diagnostics`` → ``tiers``: what each tier is worth, and what the next round practises.

``tiers`` reads what a round ran. ``measure_tiers`` runs more points, for whoever wants the order of the tiers told with
more certainty; it writes no table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from handoff import actions
from handoff.adversary import TIERS, Tier, Variant, make_variant, points_of, worst_of
from handoff.adversary.curriculum import Share, TierResult, tier_shares
from handoff.adversary.ordering import TierLine, TierRun, tier_lines
from handoff.coevolution import CHOOSING_SPLIT, hrs_threshold
from handoff.diagnosis import diagnose
from handoff.diagnosis.cost import Cap
from handoff.diagnosis.robustness import task_of
from handoff.errors import InputError
from handoff.identity import identify
from handoff.kata.pool import Progress
from handoff.lake import Lake, Written
from handoff.project import Project
from handoff.stages import inputs_of, is_executable, round_name, round_number
from handoff.stages.adversary import checked_rows, scene_of
from handoff.stages.diagnosis import evaluated
from handoff.stages.handoffs import Handoffs, States
from handoff.stages.search_ground import policies_of
from handoff.stages.takeovers import STEERING, Job, Start, make_job, run_jobs
from handoff.takeover import read_transcript

SPLITS = ("train", "validation", "test")
_MEASURES = ("hrs", "excess_cost", "e_cr", "p_si", "p_pc")


def tiers(project: Project, round: str) -> Written:
    """Every tier of one round, by split and successor."""
    lake = project.lake
    upstream = [
        (table, partition)
        for table in ("takeover_runs", "diagnostics", "adversarial_variants")
        for partition in lake.partitions(table)
        if partition["round"] == round
    ]
    upstream += [("injected_handoffs", partition) for partition in lake.partitions("injected_handoffs")]
    inputs = inputs_of("tiers", lake, *upstream, settings=(project.settings.seed, _threshold_before(lake, round)))
    if current := lake.current("tiers", inputs=inputs, round=round):
        return current
    return lake.write("tiers", list(_rows(project, round)), inputs=inputs, round=round)


def _rows(project: Project, round: str) -> Iterator[dict[str, Any]]:
    lake = project.lake
    runs, measures = evaluated(lake, round)
    disturbed = {run["takeover_id"]: run for run in runs if run["tier"] is not None}
    values: dict[str, dict[str, float | None]] = {}
    for row in measures:
        if row["takeover_id"] in disturbed and row["metric"] in _MEASURES:
            values.setdefault(row["takeover_id"], {})[row["metric"]] = row["value"]
    columns = ["point_id", "task_id", "trajectory_id", "split"]
    points = {row["point_id"]: row for row in lake.rows("injected_handoffs", columns)}
    by_split: dict[str, list[TierRun]] = {}
    for id_ in sorted(disturbed):
        point = points[disturbed[id_]["point_id"]]
        by_split.setdefault(point["split"], []).append(_run(disturbed[id_], point, values.get(id_, {})))
    known = _worst_known(lake, round, points)
    for split in sorted(by_split):
        lines = tier_lines(by_split[split], seed=project.settings.seed)
        shares: dict[tuple[str, str], Share] = {}
        if split == CHOOSING_SPLIT:
            shares = _shares(by_split[split], _threshold_before(lake, round))
        for line in lines:
            share = shares.get((line.arm, line.tier))
            yield {
                "split": split,
                **line.row(),
                "worst_known": known.get((split, line.tier)),
                "next_share": None if share is None else share.share,
                "next_why": None if share is None else share.why,
            }


def _run(run: Mapping[str, Any], point: Mapping[str, Any], values: Mapping[str, float | None]) -> TierRun:
    return TierRun(
        tier=run["tier"],
        arm=run["arm"],
        task=task_of(point),
        solved=run["solved"],
        **{name: values.get(name) for name in _MEASURES},
    )


def _shares(runs: Sequence[TierRun], threshold: float | None) -> dict[tuple[str, str], Share]:
    """(steering arm, tier) → its part of the next round. Runs of one task count as one."""
    own = [run for run in runs if run.arm in STEERING]
    lines = {line.tier: line for line in tier_lines(own, seed=0)}
    results = {
        tier: TierResult(solved=line.solve_rate.value * line.n_tasks, n=line.n_tasks)
        for tier, line in lines.items()
        if line.solve_rate.value is not None
    }
    scores = [run.hrs for run in own if run.hrs is not None]
    wanted = hrs_threshold(scores, threshold).value
    reached = None if wanted is None or not scores else sum(score >= wanted for score in scores) / len(scores)
    arms = sorted({run.arm for run in own})
    return {(arm, share.tier): share for arm in arms for share in tier_shares(results, reached)}


def _threshold_before(lake: Lake, round: str) -> float | None:
    """The HRS that the rounds before reached at half of their disturbed validation runs, which never falls (§12)."""
    threshold: float | None = None
    for number in range(round_number(round)):
        rows = lake.rows("tiers", ["split", "arm", "hrs"], round=round_name(number))
        scores = [row["hrs"] for row in rows if row["split"] == CHOOSING_SPLIT and row["arm"] in STEERING]
        threshold = hrs_threshold(scores, threshold).value
    return threshold


def _worst_known(lake: Lake, round: str, points: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """(split, tier) → how its worst points are known, with counts."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in lake.rows("adversarial_variants", ["point_id", "tier", "worst_known", "oracle"], round=round):
        if row["worst_known"] and row["oracle"] == "preserved":
            place = (points[row["point_id"]]["split"], row["tier"])
            counts.setdefault(place, Counter())[row["worst_known"]] += 1
    return {place: ", ".join(f"{how} {n}" for how, n in sorted(found.items())) for place, found in counts.items()}


def shown_round(lake: Lake, round: str | None) -> tuple[str, list[dict[str, Any]]]:
    """(round, its rows): the round asked for, or the newest that ran on tiers. ``InputError`` when there is none."""
    names = [round] if round else sorted((p["round"] for p in lake.partitions("tiers")), reverse=True)
    for name in names:
        if rows := lake.rows("tiers", round=name):
            return name, rows
    nobody = f"{round} ran no takeover" if round else "no round ran a takeover"
    raise InputError(
        f"{nobody} on a tier; the second round is the first that does: `handoff demo --rounds 2`, or "
        "`handoff tiers --measure E`"
    )


# -- measuring more -------------------------------------------------------------------------------


def measure_tiers(
    project: Project,
    *,
    arms: Sequence[str],
    split: str = "test",
    per_task: int = 3,
    seeds: int = 1,
    round: str | None = None,
    tiers: Sequence[Tier] = TIERS,
    progress: Progress | None = None,
) -> tuple[TierLine, ...]:
    """Run successors from up to ``per_task`` points of each task of a split and tier, and say how the tiers compare.

    ``arms``: trained policies (of ``round``, else the newest), ``expert``, or successors of the settings. ``seeds``:
    runs of each. Points are those of the embedded world; of a tier that takes the worst, those guessed to be the worst
    (``proxy``), since a measured one would be chosen by the same runs. What was run before is read from the journal.
    """
    if split not in SPLITS:
        raise InputError(f"no split {split!r}; there are {', '.join(SPLITS)}")
    found: list[TierRun] = []
    policies = {name: row for arm in arms for name, row in policies_of(project, arm, round).items()}
    for partition in project.lake.partitions("injected_handoffs"):
        shard = partition["shard"]
        own = project.lake.rows("injected_handoffs", where=pc.field("split") == split, shard=shard)
        points = [point for point in own if is_executable(point)]
        if points:
            found += _measured(project, shard, points, arms, per_task, seeds, policies, tiers, progress)
    return tier_lines(found, seed=project.settings.seed)


def _measured(
    project: Project,
    shard: str,
    points: Sequence[Mapping[str, Any]],
    arms: Sequence[str],
    per_task: int,
    seeds: int,
    policies: Mapping[str, Mapping[str, Any]],
    tiers: Sequence[Tier],
    progress: Progress | None,
) -> Iterator[TierRun]:
    jobs: list[Job] = []
    starts: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    with Handoffs(project, shard) as handoffs:
        made = list(_variants(handoffs, points, tiers, per_task, project.settings.seed))
        handoffs.load({point["trajectory_id"] for _, point in made})
        for row, (_, point) in zip(checked_rows(project, handoffs, made), made, strict=True):
            for arm in arms if row["oracle"] == "preserved" else ():
                for number in range(seeds):
                    start = _start(project, handoffs, point, row, arm, number)
                    jobs.append(make_job(project, handoffs, start, point, {row["variant_id"]: row}, policies))
                    starts.append((point, row))
    cap = Cap(steps=project.settings.step_budget, prompt_tokens=project.settings.token_budget)
    with States(project, shard) as states:
        for (point, variant), run in zip(starts, run_jobs(project, jobs, progress), strict=True):
            reader = states.of(point["trajectory_id"], point["repo"])
            measures = diagnose(
                point,
                run,
                actions.trajectory_keys(read_transcript(run["transcript"])),
                changed=None if reader is None else reader.changed(point["h"]),
                start_tree=variant["tree"],
                cap=cap,
            )
            yield _run(run, point, {row["metric"]: row["value"] for row in measures})


def _variants(
    handoffs: Handoffs, points: Sequence[Mapping[str, Any]], tiers: Sequence[Tier], per_task: int, seed: int
) -> Iterator[tuple[Variant, Mapping[str, Any]]]:
    for tier in tiers:
        by_task: dict[str, list[Mapping[str, Any]]] = {}
        for point in points_of(tier, points):
            by_task.setdefault(task_of(point), []).append(point)
        for task in sorted(by_task):
            own = by_task[task]
            for _ in range(min(per_task, len(own))):
                worst = worst_of(own) if not tier.labels else None
                point = worst[0] if worst else min(own, key=lambda p: identify("i", seed, tier.name, p["point_id"]))
                own = [each for each in own if each is not point]
                variant = make_variant(point["point_id"], tier, scene_of(handoffs, point, tier.view), seed)
                if variant is not None:
                    yield variant, point


def _start(
    project: Project,
    handoffs: Handoffs,
    point: Mapping[str, Any],
    variant: Mapping[str, Any],
    arm: str,
    number: int,
) -> Start:
    return Start(
        point_id=point["point_id"],
        view_id=handoffs.row(point, variant["view"])["view_id"],
        variant_id=variant["variant_id"],
        view=variant["view"],
        tier=variant["tier"],
        purpose="search",
        arm=arm,
        seed=int(identify("k", project.settings.seed, "tiers", arm, point["point_id"], number)[2:10], 16),
    )
