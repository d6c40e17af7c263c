"""``raw_trajectories`` + ``policy`` → ``tax_runs`` → ``handoff_tax``: models switched midway (``studies/tax.py``).

Each model first does every task alone. These single sessions are the sources: cut at every timing, they are handed to
the other model through every interface. What was in the work tree at a cut is known because the session's actions are
carried out again; a session whose end that does not reproduce is not cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from handoff.identity import canonical_json
from handoff.kata.pool import Progress
from handoff.lake import Written, write_file
from handoff.project import Project
from handoff.report.studies import render_tax
from handoff.stages import inputs_of
from handoff.stages.judges import judging_version
from handoff.stages.study_runs import (
    Agent,
    agent_of,
    budget_of,
    known_runs,
    page_of,
    past_runs,
    run_row,
)
from handoff.stages.takeovers import run_jobs
from handoff.stages.tax_crossing import Omitted, call_of, crossings, cuts_of, rendered, write_texts, writer_for
from handoff.stages.tax_sources import (
    Source,
    TaskAt,
    single_jobs,
    tasks_of,
)
from handoff.stages.writing import writer_of
from handoff.studies.design import TaxStudy, study_name
from handoff.studies.planning import SINGLE, Plan, Wanted, plan_of
from handoff.studies.tax import ALL, DIRECTIONS, Single, Switched, empty_cell, row_of, tax_cells
from handoff.writers.model import VERSION as WRITER_VERSION


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
    cut, omitted = cuts_of(project, study, sources)
    texts = write_texts(project, study, agents, cut, progress)
    switched = crossings(project, study, agents, cut, texts, omitted)
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
        cut, omitted = cuts_of(project, study, [Source(*single, stored[single[3].takeover_id]) for single in singles])
        switched = crossings(project, study, agents, cut, None, omitted)
        made = known_runs(project, (job.takeover_id for job, _ in switched))
        for job, row in switched:
            is_made = job.takeover_id in made
            wanted.append(Wanted(job.start.arm, job.start.view, row["direction"], is_made))
            if (call := call_of(project, study, agents, cut, job, row)) is not None:
                wanted.append(call._replace(is_known=is_made))
    else:
        for (_, is_high, _, _), _ in product(singles, study.timings):
            if DIRECTIONS[is_high] in study.directions:
                wanted += _bound(project, study, agents, is_high)
    by_name = {agent.name: agent for agent in agents.values()}

    def price(arm: str, prompt: float, completion: float) -> float | None:
        if arm in by_name:
            return by_name[arm].price(prompt, completion)
        return writer_of(project, arm).cost(round(prompt), 0, round(completion))

    return plan_of(
        wanted,
        past_runs(project),
        budget=budget_of(project, agents[True]),
        reply_tokens={a.name: a.endpoint.max_completion_tokens for a in by_name.values() if a.endpoint is not None},
        price=price,
        is_exact=is_exact,
        note="" if is_exact else "switched runs are counted exactly once the single sessions are there",
    )


def _bound(project: Project, study: TaxStudy, agents: Mapping[bool, Agent], is_high: bool) -> Iterator[Wanted]:
    """What one cut of one session costs at most."""
    direction = DIRECTIONS[is_high]
    seen: set[tuple[str, bool]] = set()
    for name in study.interfaces:
        writer = writer_for(project, study, name, agents, is_high)
        view = rendered(name, writer)
        if (view, writer is None) in seen:
            continue
        seen.add((view, writer is None))
        yield Wanted(agents[not is_high].name, view, direction)
        if writer is not None:
            most = (float(project.settings.token_budget), float(writer.endpoint.max_completion_tokens))
            yield Wanted(writer.name, f"writes {name}", direction, tokens=most)


# -- who and where ------------------------------------------------------------------------------


def _agents(project: Project, study: TaxStudy) -> dict[bool, Agent]:
    return {False: agent_of(project, study.low), True: agent_of(project, study.high)}


def _inputs(project: Project, study: TaxStudy, tasks: Sequence[TaskAt], sessions: Sequence[str]) -> str:
    judging = [judging_version(project, shard) for shard in sorted({task.place.shard for task in tasks})]
    told = [canonical_json(task) for task in tasks]
    own = project.settings
    writer = writer_of(project, own.writer).digest if own.writer else ""
    settings: tuple[object, ...] = (canonical_json(study), own.seed, told, sessions, judging, writer, WRITER_VERSION)
    settings += tuple(filter(None, [own.writer_dollar_budget]))
    return inputs_of("handoff_tax", project.lake, settings=settings)


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
    omitted: Omitted,
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
    authors: dict[tuple[str, str], str | None] = {}
    for row in rows:
        for use in row["cells"]:
            authors.setdefault((row["direction"], use["interface"]), use["author"])
    made = {(cell.direction, cell.timing, cell.interface): cell for cell in cells}
    compared: list[dict[str, Any]] = []
    for direction, timing, interface in product(DIRECTIONS, (ALL, *study.timings), study.interfaces):
        lacking = sum(
            n
            for (one, at, what), n in omitted.items()
            if one == direction and timing in (ALL, at) and what in (None, interface)
        )
        cell = made.get((direction, timing, interface))
        if cell is None and not lacking:
            continue
        author = authors.get((direction, interface))
        told = {"low": study.low, "high": study.high, "unit": unit, "author": author, "omitted": lacking}
        compared.append(row_of(cell or empty_cell(direction, timing, interface), **told))
    return compared


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
            notes = cell["note_tokens_low"] + price_ratio * cell["note_tokens_high"] + cell["note_tokens_other"]
            tokens = row["prompt_tokens"] + row["completion_tokens"]
            cost = source * row["prefix_tokens"] + own * tokens + notes
        yield Switched(
            row["task_id"],
            row["seed"],
            row["direction"],
            cell["timing"],
            cell["interface"],
            row["solved"],
            cost,
            row["takeover_id"],
        )
