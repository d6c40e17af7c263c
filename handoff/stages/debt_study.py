"""``view_renderings`` → ``debt_runs`` → ``handoff_debt``: views against the bare repository (``studies/debt.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any, NamedTuple

from handoff.diagnosis.robustness import task_of
from handoff.identity import canonical_json, identify
from handoff.kata.pool import Progress
from handoff.lake import Written, write_file
from handoff.project import Project
from handoff.report.studies import render_debt
from handoff.stages import inputs_of, is_embedded, is_executable, is_real
from handoff.stages.handoffs import Handoffs
from handoff.stages.judges import judging_version
from handoff.stages.study_runs import (
    Agent,
    Place,
    agent_of,
    budget_of,
    job_of,
    known_runs,
    page_of,
    past_runs,
    run_row,
    shards_of,
)
from handoff.stages.takeovers import Job, run_jobs
from handoff.studies.debt import ALL, REFERENCE, Point, debt_rows
from handoff.studies.design import DebtStudy, study_name
from handoff.studies.planning import Plan, Wanted, plan_of
from handoff.views import lacking, parse_view


class Prepared(NamedTuple):
    """A study with everything that its runs need."""

    jobs: tuple[Job, ...]
    runs: tuple[Mapping[str, Any], ...]
    """What is known of each job's row beforehand."""
    agents: tuple[Agent, ...]
    points: Mapping[str, Point]
    omitted: Mapping[str, int]
    """Label → recorded runs that have no point with it."""
    inputs: str


def handoff_debt(
    project: Project, study: DebtStudy | None = None, name: str | None = None, progress: Progress | None = None
) -> Written:
    """Run a debt study and compare: ``debt_runs`` and ``handoff_debt`` of partition ``name``.

    What was run before is read from the journal. ``InputError``: somebody or something it names is not there.
    """
    study = study or DebtStudy()
    name = name or study_name(study)
    prepared = prepare(project, study)
    current = project.lake.current("handoff_debt", inputs=prepared.inputs, study=name)
    page = page_of(project, name)
    if current and page.exists() and project.lake.current("debt_runs", inputs=prepared.inputs, study=name):
        return current
    made = run_jobs(project, prepared.jobs, progress)
    rows = [run_row("debt_runs", row, **known) for known, row in zip(prepared.runs, made, strict=True)]
    project.lake.write("debt_runs", rows, inputs=prepared.inputs, study=name)
    compared = debt_rows(rows, prepared.points, seed=project.settings.seed)
    for row in compared:
        if (left_out := prepared.omitted.get(row["label"], 0)) and row["label"] != ALL:
            lack = f"recorded runs without such a point: {left_out}"
            row["note"] = "; ".join(filter(None, (row["note"], lack)))
    write_file(page, render_debt(name, compared, len(rows)).encode("utf-8", "replace"))
    return project.lake.write("handoff_debt", compared, inputs=prepared.inputs, study=name)


def plan_debt(project: Project, study: DebtStudy) -> Plan:
    """What the study will cost. Exact: it runs so many takeovers and no more."""
    prepared = prepare(project, study)
    known = known_runs(project, (job.takeover_id for job in prepared.jobs))
    agents = {agent.name: agent for agent in prepared.agents}
    return plan_of(
        [
            Wanted(job.start.arm, job.start.view, f"{len(prepared.points)} points", job.takeover_id in known)
            for job in prepared.jobs
        ],
        past_runs(project),
        budget=budget_of(project, prepared.agents[0]),
        reply_tokens={a.name: a.endpoint.max_completion_tokens for a in prepared.agents if a.endpoint is not None},
        price=lambda arm, prompt, completion: agents[arm].price(prompt, completion),
        is_exact=True,
        note="; ".join(f"recorded runs without {label}: {n}" for label, n in prepared.omitted.items() if n),
    )


def prepare(project: Project, study: DebtStudy) -> Prepared:
    """Everything a study needs, in a fixed order: successor, point, view, repetition."""
    shards = shards_of(project, study.tasks)
    agents = tuple(agent_of(project, name) for name in study.successors)
    chosen, omitted = _choose(project, study, shards)
    views = (REFERENCE, *dict.fromkeys(parse_view(view).name for view in study.views))
    jobs: list[Job] = []
    runs: list[dict[str, Any]] = []
    with ExitStack() as opened:
        handoffs = {shard: opened.enter_context(Handoffs(project, shard)) for shard in shards}
        for shard, own in handoffs.items():
            own.load(point["trajectory_id"] for point in chosen if point["shard"] == shard)
        for agent, point, view in product(agents, chosen, views):
            for repetition in range(study.seeds):
                made = _job(project, agent, point, view, repetition, handoffs[point["shard"]])
                if made is not None:
                    jobs.append(made[0])
                    runs.append({**made[1], "labels": _labels(study, point)})
    points = {point["point_id"]: Point(task_of(point), tuple(_labels(study, point))) for point in chosen}
    upstream = [
        (table, {"shard": shard})
        for table in ("raw_trajectories", "injected_handoffs", "view_renderings")
        for shard in shards
    ]
    judging = [judging_version(project, shard) for shard in shards]
    settings = (canonical_json(study), project.settings.seed, [job.takeover_id for job in jobs], judging)
    inputs = inputs_of("handoff_debt", project.lake, *upstream, settings=settings)
    return Prepared(tuple(jobs), tuple(runs), agents, points, omitted, inputs)


def _job(
    project: Project, agent: Agent, point: Mapping[str, Any], view: str, repetition: int, handoffs: Handoffs
) -> tuple[Job, dict[str, Any]] | None:
    """One run with what is known of its row; ``None`` where the view cannot be had."""
    if lacking(parse_view(view), handoffs.trajectory(point), point["h"], handoffs.reader(point)):
        return None
    rendered = handoffs.row(point, view)
    job = job_of(
        project,
        agent,
        Place(
            task_of(point),
            point["repo"],
            point["base_commit"],
            point["shard"],
            "" if is_embedded(point["repo"]) else handoffs.surroundings(point).digest,
        ),
        point_id=point["point_id"],
        view_id=rendered["view_id"],
        view=view,
        tree=point["tree"],
        briefing=handoffs.briefing(point, view),
        repetition=repetition,
        budget=budget_of(project, agent),
        note_tokens=rendered["writing_tokens"],
    )
    known = {"repo": point["repo"], "seed": repetition, "note_tokens": rendered["writing_tokens"]}
    return job, {"task_id": task_of(point), **known}


def _labels(study: DebtStudy, point: Mapping[str, Any]) -> list[str]:
    return [label for label in study.labels if label in point["labels"]]


def _choose(project: Project, study: DebtStudy, shards: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The points of a study, by task and h: of each recorded run one for every label, drawn by hash among states
    in which something is left to do; and for each label how many runs have none."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for shard in shards:
        for point in project.lake.rows("injected_handoffs", shard=shard):
            is_wanted = bool(study.tasks) or point["split"] == "test"
            is_open = point["state_class"] not in ("already_solved", "invalid")
            if is_wanted and is_open and (is_executable(point) or (study.tasks and is_real(point))):
                by_run.setdefault(point["trajectory_id"], []).append(point)
    tasks = sorted({task_of(own[0]) for own in by_run.values()})[: study.most_tasks]
    chosen: dict[str, dict[str, Any]] = {}
    omitted = dict.fromkeys(study.labels, 0)
    for trajectory_id in sorted(by_run):
        if task_of(by_run[trajectory_id][0]) not in tasks:
            continue
        for label in study.labels:
            fitting = [point for point in by_run[trajectory_id] if label in point["labels"]]
            if fitting:
                drawn = min(fitting, key=lambda p: identify("i", "debt", project.settings.seed, label, p["point_id"]))
                chosen[drawn["point_id"]] = drawn
            else:
                omitted[label] += 1
    return sorted(chosen.values(), key=lambda p: (task_of(p), p["trajectory_id"], p["h"])), omitted
