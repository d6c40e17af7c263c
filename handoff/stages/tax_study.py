"""``raw_trajectories`` + ``policy`` → ``tax_runs`` → ``handoff_tax``: models switched midway (``studies/tax.py``).

Each model first does every task alone. These single sessions are the sources: cut at every timing, they are handed to
the other model through every interface. What was in the work tree at a cut is known because the session's actions are
carried out again; a session whose end that does not reproduce is not cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any, NamedTuple

from handoff.evidence import Evidence, gather_evidence
from handoff.identity import canonical_json, identify
from handoff.kata.pool import Progress
from handoff.lake import Written, write_file
from handoff.project import Project
from handoff.report.studies import render_tax
from handoff.stages import inputs_of
from handoff.stages.handoffs import States
from handoff.stages.study_runs import (
    Agent,
    agent_of,
    budget_of,
    job_of,
    known_runs,
    page_of,
    past_runs,
    run_row,
)
from handoff.stages.takeovers import Job, run_jobs
from handoff.stages.tax_sources import (
    Source,
    Spent,
    TaskAt,
    reader_of,
    single_jobs,
    spent_until,
    tasks_of,
    trajectory_of,
    trees_of,
)
from handoff.states.reader import StateReader
from handoff.studies.design import TaxStudy, study_name
from handoff.studies.planning import SINGLE, Plan, Wanted, plan_of
from handoff.studies.tax import ALL, DIRECTIONS, Single, Switched, row_of, tax_cells
from handoff.studies.timing import cuts
from handoff.successors import Briefing
from handoff.takeover import Budget, read_transcript
from handoff.tokens import prompt_lengths
from handoff.trajectory import Trajectory
from handoff.views import PREAMBLE, RULES, lacking, parse_view, render_view, view_row, view_tokens

COMPACTIONS = ("compact_pre", "compact_suf")
"""Written by rule, both are the prose of ``summary``: one run stands for all three."""


class Cell(NamedTuple):
    """Where a switched run counts, with what its notes cost there."""

    timing: str
    interface: str
    author: str | None
    note_tokens_low: int
    note_tokens_high: int
    note_dollars: float


def handoff_tax(
    project: Project, study: TaxStudy | None = None, name: str | None = None, progress: Progress | None = None
) -> Written:
    """Run a tax study and compare: ``tax_runs`` and ``handoff_tax`` of partition ``name``.

    What was run before is read from the journal. ``InputError``: somebody or something it names is not there.
    """
    study = study or TaxStudy()
    name = name or study_name(study)
    tasks = tasks_of(project, study)
    agents = _agents(project, study)
    singles = list(single_jobs(project, study, agents, tasks))
    inputs = _inputs(project, study, tasks, [job.takeover_id for _, _, _, job in singles])
    current = project.lake.current("handoff_tax", inputs=inputs, study=name)
    page = page_of(project, name)
    if current and page.exists() and project.lake.current("tax_runs", inputs=inputs, study=name):
        return current
    done = run_jobs(project, [job for *_, job in singles], progress)
    sources = [Source(*single, row) for single, row in zip(singles, done, strict=True)]
    alone = [_single_row(source) for source in sources]
    ids = [source.job.takeover_id for source in sources]
    if known_runs(project, ids) != set(ids):  # kept at once, so that a plan is exact from here on
        project.lake.write("tax_runs", alone, inputs=f"{inputs}, single sessions only", study=name)
    switched, omitted = _switched(project, study, agents, sources)
    made = run_jobs(project, [job for job, _ in switched], progress)
    rows = [*alone, *(run_row("tax_runs", row, **known) for (_, known), row in zip(switched, made, strict=True))]
    project.lake.write("tax_runs", rows, inputs=inputs, study=name)
    compared = tax_rows(project, study, agents, rows, omitted)
    write_file(page, render_tax(name, compared, len(rows)).encode("utf-8", "replace"))
    return project.lake.write("handoff_tax", compared, inputs=inputs, study=name)


def plan_tax(project: Project, study: TaxStudy) -> Plan:
    """What the study will cost. How many runs can be switched is known once the single sessions are there; until
    then a plan counts one for every session, timing and interface, which is the most there can be."""
    tasks = tasks_of(project, study)
    agents = _agents(project, study)
    singles = list(single_jobs(project, study, agents, tasks))
    stored = {row["takeover_id"]: row for row in project.lake.rows("tax_runs") if row["view"] == SINGLE}
    known = frozenset(stored)
    wanted = [Wanted(job.start.arm, SINGLE, "", job.takeover_id in known) for *_, job in singles]
    is_exact = all(job.takeover_id in known for *_, job in singles)
    if is_exact:
        sources = [Source(*single, stored[single[3].takeover_id]) for single in singles]
        switched, _ = _switched(project, study, agents, sources)
        made = known_runs(project, (job.takeover_id for job, _ in switched))
        for job, row in switched:
            wanted.append(Wanted(job.start.arm, job.start.view, row["direction"], job.takeover_id in made))
    else:
        views = dict.fromkeys(_rendered(name) for name in study.interfaces)
        for (_, is_high, _, _), _, view in product(singles, study.timings, views):
            direction = DIRECTIONS[is_high]
            if direction in study.directions:
                wanted.append(Wanted(agents[not is_high].name, view, direction))
    by_name = {agent.name: agent for agent in agents.values()}
    return plan_of(
        wanted,
        past_runs(project),
        budget=budget_of(project, agents[True]),
        reply_tokens={a.name: a.endpoint.max_completion_tokens for a in by_name.values() if a.endpoint is not None},
        price=lambda arm, prompt, completion: by_name[arm].price(prompt, completion),
        is_exact=is_exact,
        note="" if is_exact else "switched runs are counted exactly once the single sessions are there",
    )


# -- who and where ------------------------------------------------------------------------------


def _agents(project: Project, study: TaxStudy) -> dict[bool, Agent]:
    return {False: agent_of(project, study.low), True: agent_of(project, study.high)}


def _inputs(project: Project, study: TaxStudy, tasks: Sequence[TaskAt], sessions: Sequence[str]) -> str:
    settings = (canonical_json(study), project.settings.seed, [canonical_json(task) for task in tasks], sessions)
    return inputs_of("handoff_tax", project.lake, settings=settings)


# -- cutting ------------------------------------------------------------------------------------


def _switched(
    project: Project, study: TaxStudy, agents: Mapping[bool, Agent], sources: Sequence[Source]
) -> tuple[list[tuple[Job, dict[str, Any]]], dict[tuple[str, str], int]]:
    """The takeovers with what is known of their rows; and (direction, timing) → sessions that have no such cut."""
    cut = [source for source in sources if source.direction in study.directions]
    trees = trees_of(project, [(source.job, read_transcript(source.row["transcript"])) for source in cut])
    found: dict[str, tuple[Job, dict[str, Any]]] = {}
    omitted: dict[tuple[str, str], int] = {}
    with ExitStack() as opened:
        states = {
            shard: opened.enter_context(States(project, shard))
            for shard in sorted({source.task.place.shard for source in cut})
        }
        for source, after in zip(cut, trees, strict=True):
            trajectory = trajectory_of(source)
            is_same = bool(after) and after[-1] == source.row["final_tree"]
            at = cuts(study.timings, trajectory) if is_same else {}
            for timing in set(study.timings) - {name for names in at.values() for name in names}:
                key = (source.direction, timing)
                omitted[key] = omitted.get(key, 0) + 1
            repository = states[source.task.place.shard].repository(source.task.place.repo)
            reader = reader_of(repository, source, after)
            for h, timings in at.items():
                for job, row in _handed(project, study, agents, source, trajectory, reader, h, timings):
                    known = found.setdefault(job.takeover_id, (job, row))[1]
                    if known is not row:
                        known["cells"] += [cell for cell in row["cells"] if cell not in known["cells"]]
    return list(found.values()), omitted


def _handed(
    project: Project,
    study: TaxStudy,
    agents: Mapping[bool, Agent],
    source: Source,
    trajectory: Trajectory,
    reader: StateReader,
    h: int,
    timings: Sequence[str],
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """What crosses at one cut: a takeover for each text, with the cells in which it counts."""
    successor = agents[not source.is_high]
    point_id = identify("p", source.job.takeover_id, h)
    spent = spent_until(source.row, trajectory, h)
    budget = _left(budget_of(project, successor), h, spent)
    tree = reader.tree(h)
    evidence = gather_evidence(trajectory, h, reader)
    for name in study.interfaces:
        view = _rendered(name)
        if tree is None or lacking(parse_view(view), trajectory, h, reader):
            continue
        text = render_view(view, trajectory, h, evidence, reader)
        author = RULES if parse_view(name).is_written else None
        job = job_of(
            project,
            successor,
            source.task.place,
            point_id=point_id,
            view_id=view_row(point_id, view, text)["view_id"],
            view=view,
            tree=tree,
            briefing=Briefing(
                task=trajectory.task, view=view, view_text=text, preamble=PREAMBLE, tools=source.task.tools
            ),
            repetition=source.repetition,
            budget=budget,
        )
        notes = _note_tokens(name, text, trajectory, h, evidence)
        by_low = notes if (name == "compact_pre") != source.is_high else 0
        cells = [Cell(timing, name, author, by_low, notes - by_low, 0.0)._asdict() for timing in timings]
        yield (
            job,
            {
                "task_id": source.task.place.task_id,
                "repo": source.task.place.repo,
                "seed": source.repetition,
                "capability": "low" if source.is_high else "high",
                "direction": source.direction,
                "source_id": source.job.takeover_id,
                "h": h,
                "n_steps": len(trajectory.steps),
                "cells": cells,
                "prefix_tokens": spent.prompt + spent.completion,
                "prefix_dollars": spent.dollars,
            },
        )


def _rendered(name: str) -> str:
    """The view that an interface hands over."""
    return "summary" if name in COMPACTIONS else parse_view(name).name


def _note_tokens(name: str, text: str, trajectory: Trajectory, h: int, evidence: Evidence) -> int:
    """Tokens of writing what crosses [ours]. Rules write at no cost, but a compaction is charged as if the model had
    written it: ``compact_pre`` is one more call at the end of the source's conversation, ``compact_suf`` one over the
    whole trace."""
    if name not in COMPACTIONS:
        return 0
    read = prompt_lengths(trajectory)[h] if name == "compact_pre" else view_tokens(render_view("trace", trajectory, h))
    return read + view_tokens(text)


def _left(budget: Budget, h: int, spent: Spent) -> Budget:
    """The successor's budget: a switched run as a whole may spend what a single session may."""
    dollars = budget.dollars if budget.dollars is None else max(0.0, budget.dollars - (spent.dollars or 0.0))
    left = max(0, budget.prompt_tokens - spent.prompt)
    return Budget(steps=max(0, budget.steps - h), prompt_tokens=left, dollars=dollars)


# -- comparing ----------------------------------------------------------------------------------


def _single_row(source: Source) -> dict[str, Any]:
    return run_row(
        "tax_runs",
        source.row,
        task_id=source.task.place.task_id,
        repo=source.task.place.repo,
        view=SINGLE,
        seed=source.repetition,
        note_tokens=0,
        capability="high" if source.is_high else "low",
        cells=[],
    )


def tax_rows(
    project: Project,
    study: TaxStudy,
    agents: Mapping[bool, Agent],
    rows: Sequence[Mapping[str, Any]],
    omitted: Mapping[tuple[str, str], int],
) -> list[dict[str, Any]]:
    """The rows of ``handoff_tax`` from those of ``tax_runs``."""
    unit = (
        "dollars"
        if all(a.endpoint is not None and a.endpoint.prices is not None for a in agents.values())
        else "tokens"
    )
    cells = tax_cells(
        [_single(row, unit, study.price_ratio) for row in rows if row["view"] == SINGLE],
        [run for row in rows if row["view"] != SINGLE for run in _switches(row, unit, study.price_ratio)],
        seed=project.settings.seed,
    )
    authors = {(cell["interface"]): cell["author"] for row in rows for cell in row["cells"]}
    order = {name: place for place, name in enumerate((ALL, *study.timings))}
    places = {name: place for place, name in enumerate(study.interfaces)}
    cells.sort(key=lambda cell: (DIRECTIONS.index(cell.direction), order[cell.timing], places[cell.interface]))
    return [
        row_of(
            cell,
            low=study.low,
            high=study.high,
            unit=unit,
            author=authors.get(cell.interface),
            omitted=sum(
                n for (direction, timing), n in omitted.items()
                if direction == cell.direction and cell.timing in (ALL, timing)
            ),
        )
        for cell in cells
    ]  # fmt: skip


def _single(row: Mapping[str, Any], unit: str, price_ratio: float) -> Single:
    is_high = row["capability"] == "high"
    tokens = row["prompt_tokens"] + row["completion_tokens"]
    cost = row["dollars"] if unit == "dollars" else tokens * (price_ratio if is_high else 1.0)
    return Single(row["task_id"], row["seed"], is_high, row["solved"], cost)


def _switches(row: Mapping[str, Any], unit: str, price_ratio: float) -> Iterable[Switched]:
    is_high = row["capability"] == "high"  # who finished
    own, source = (price_ratio, 1.0) if is_high else (1.0, price_ratio)
    for cell in row["cells"]:
        if unit == "dollars":
            parts = (row["prefix_dollars"], row["dollars"], cell["note_dollars"])
            cost = None if None in parts else sum(parts)
        else:
            notes = cell["note_tokens_low"] + price_ratio * cell["note_tokens_high"]
            tokens = row["prompt_tokens"] + row["completion_tokens"]
            cost = source * row["prefix_tokens"] + own * tokens + notes
        yield Switched(
            row["task_id"], row["seed"], row["direction"], cell["timing"], cell["interface"], row["solved"], cost
        )
