"""What crosses at a switch: where the sources of a tax study are cut, what is written there, and who goes on from it.

A compaction is written by the model that the protocol names, when that is on an endpoint: the predecessor's
(``compact_pre``) or the successor's (``compact_suf``); a summary or note by the ``writer`` of the settings, where there
is one. Else rules write, and a compaction is the prose of ``summary``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handoff.endpoints import Client, Endpoint
from handoff.endpoints.settings import MARGIN
from handoff.errors import InputError
from handoff.evidence import gather_evidence
from handoff.identity import identify
from handoff.kata.pool import Progress
from handoff.project import Project
from handoff.stages.handoffs import States
from handoff.stages.study_runs import Agent, budget_of, job_of
from handoff.stages.takeovers import Job
from handoff.stages.tax_sources import Source, Spent, reader_of, spent_until, trajectory_of, trees_of
from handoff.stages.writing import Commission, write_all, writer_of
from handoff.states.reader import StateReader
from handoff.studies.design import TaxStudy
from handoff.studies.planning import Wanted
from handoff.studies.timing import cuts
from handoff.successors import Briefing
from handoff.takeover import Budget, read_transcript
from handoff.tokens import prompt_lengths
from handoff.trajectory import Trajectory
from handoff.views import PREAMBLE, RULES, lacking, parse_view, render_view, view_row, view_tokens
from handoff.writers.model import Written

COMPACTIONS = ("compact_pre", "compact_suf")
NOTES = ("summary", "structured")

Omitted: TypeAlias = dict[tuple[str, str, str | None], int]
"""(direction, timing, interface or ``None`` for all) → sessions that have nothing there."""


class Cut(NamedTuple):
    """One source, cut at one place."""

    source: Source
    trajectory: Trajectory
    reader: StateReader
    h: int
    timings: tuple[str, ...]

    @property
    def point_id(self) -> str:
        """What names the place."""
        return identify("p", self.source.job.takeover_id, self.h)


Texts: TypeAlias = Mapping[tuple[str, str], Written]
"""(point, interface) → what a model wrote there."""


class Writer(NamedTuple):
    """A model that writes what crosses."""

    name: str
    endpoint: Endpoint
    side: Literal["low", "high", "other"]
    """Which of the two models it is; ``other``: neither."""


class Cell(NamedTuple):
    """Where a switched run counts, with what its notes cost there."""

    timing: str
    interface: str
    author: str | None
    note_tokens_low: int
    note_tokens_high: int
    note_tokens_other: int
    """Spent by a writer that is neither of the two models."""
    note_dollars: float | None


def cuts_of(project: Project, study: TaxStudy, sources: Sequence[Source]) -> tuple[list[Cut], Omitted]:
    """Where the sources are cut, and how many have no place for a timing.

    A source whose end does not come out the same when its actions are carried out again has none.
    """
    chosen = [source for source in sources if source.direction in study.directions]
    trees = trees_of(project, [(source.job, read_transcript(source.row["transcript"])) for source in chosen])
    found: list[Cut] = []
    omitted: Omitted = {}
    with ExitStack() as opened:
        states = {
            shard: opened.enter_context(States(project, shard))
            for shard in sorted({source.task.place.shard for source in chosen})
        }
        for source, after in zip(chosen, trees, strict=True):
            trajectory = trajectory_of(source)
            is_same = bool(after) and after[-1] == source.row["final_tree"]
            at = cuts(study.timings, trajectory) if is_same else {}
            for timing in sorted(set(study.timings) - {name for names in at.values() for name in names}):
                key = (source.direction, timing, None)
                omitted[key] = omitted.get(key, 0) + 1
            repository = states[source.task.place.shard].repository(source.task.place.repo)
            reader = reader_of(repository, source, after)
            found += [Cut(source, trajectory, reader, h, timings) for h, timings in at.items()]
    return found, omitted


def writer_for(
    project: Project, study: TaxStudy, name: str, agents: Mapping[bool, Agent], is_high: bool
) -> Writer | None:
    """The model that writes what crosses from a source of the high-capability model, or of the low one; ``None``:
    rules do, or nobody writes."""
    if name in NOTES and project.settings.writer:
        own = project.settings.writer
        side = {study.low: "low", study.high: "high"}.get(own, "other")
        return Writer(own, writer_of(project, own), cast(Literal["low", "high", "other"], side))
    if name not in COMPACTIONS:
        return None
    is_high = is_high if name == "compact_pre" else not is_high
    endpoint = agents[is_high].endpoint
    return None if endpoint is None else Writer(agents[is_high].name, endpoint, "high" if is_high else "low")


def rendered(name: str, writer: Writer | None) -> str:
    """The view that an interface hands over: by rule, a compaction is the prose of ``summary``."""
    return "summary" if name in COMPACTIONS and writer is None else parse_view(name).name


def write_texts(
    project: Project, study: TaxStudy, agents: Mapping[bool, Agent], cut: Sequence[Cut], progress: Progress | None
) -> Texts:
    """Everything that models write, each answer journaled: asked for again, it costs nothing."""
    texts: dict[tuple[str, str], Written] = {}
    for name, is_high in ((name, is_high) for name in study.interfaces for is_high in (False, True)):
        writer = writer_for(project, study, name, agents, is_high)
        own = [one for one in cut if one.source.is_high == is_high]
        if writer is None or not own:
            continue
        commissions = [
            Commission(
                point_id=one.point_id,
                view=name,
                trajectory=one.trajectory,
                h=one.h,
                evidence=gather_evidence(one.trajectory, one.h, one.reader),
            )
            for one in own
        ]
        with Client(writer.endpoint) as client:
            written = write_all(project, commissions, client, progress)
        texts.update({(one.point_id, name): text for one, text in zip(own, written, strict=True)})
    return texts


def crossings(
    project: Project,
    study: TaxStudy,
    agents: Mapping[bool, Agent],
    cut: Sequence[Cut],
    texts: Texts | None,
    omitted: Omitted,
) -> list[tuple[Job, dict[str, Any]]]:
    """The takeovers with what is known of their rows; equal ones once, with all cells in which they count.

    ``texts`` of ``None``: nothing was written yet, and the takeovers are only counted. What a model could not write is
    added to ``omitted``.
    """
    found: dict[str, tuple[Job, dict[str, Any]]] = {}
    for one in cut:
        for job, row in _handed(project, study, agents, one, texts, omitted):
            known = found.setdefault(job.takeover_id, (job, row))[1]
            if known is not row:
                known["cells"] += [cell for cell in row["cells"] if cell not in known["cells"]]
    return list(found.values())


def _handed(
    project: Project,
    study: TaxStudy,
    agents: Mapping[bool, Agent],
    one: Cut,
    texts: Texts | None,
    omitted: Omitted,
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """What crosses at one cut: a takeover for each interface, with the cells in which it counts."""
    source, h, trajectory = one.source, one.h, one.trajectory
    successor = agents[not source.is_high]
    spent = spent_until(source.row, trajectory, h)
    budget = left_of(budget_of(project, successor), h, spent, agents[source.is_high])
    tree = one.reader.tree(h)
    evidence = gather_evidence(trajectory, h, one.reader)
    for name in study.interfaces:
        writer = writer_for(project, study, name, agents, source.is_high)
        view = rendered(name, writer)
        if tree is None or (writer is None and lacking(parse_view(view), trajectory, h, one.reader)):
            _count(omitted, one, name)
            continue
        if writer is None:
            text = render_view(view, trajectory, h, evidence, one.reader)
            author = RULES if parse_view(name).is_written else None
            notes = _note_tokens(name, text, trajectory, h)
            dollars: float | None = 0.0
            view_id = view_row(one.point_id, view, text)["view_id"]
        else:
            view_id = identify("v", one.point_id, name, writer.endpoint.digest)
            written = None if texts is None else texts[one.point_id, name]
            if written is not None and written.text is None:
                _count(omitted, one, name)
                continue
            text = "" if written is None or written.text is None else written.text
            author = None if written is None else written.author
            notes, dollars = (0, None) if written is None else (written.writing_tokens, written.dollars)
        job = job_of(
            project,
            successor,
            source.task.place,
            point_id=one.point_id,
            view_id=view_id,
            view=view,
            tree=tree,
            briefing=Briefing(
                task=trajectory.task, view=view, view_text=text, preamble=PREAMBLE, tools=source.task.tools
            ),
            repetition=source.repetition,
            budget=budget,
        )
        by = {side: notes if side == _side(name, writer, source.is_high) else 0 for side in ("low", "high", "other")}
        cells = [
            Cell(timing, name, author, by["low"], by["high"], by["other"], dollars)._asdict() for timing in one.timings
        ]
        known = {
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
        }
        yield job, known


def _side(name: str, writer: Writer | None, is_high: bool) -> str:
    """Whose spending the notes are: the writer's, or by rule that of the model that would have written."""
    if writer is not None:
        return writer.side
    return "high" if (name == "compact_pre") == is_high else "low"


def _count(omitted: Omitted, one: Cut, name: str) -> None:
    for timing in one.timings:
        key = (one.source.direction, timing, name)
        omitted[key] = omitted.get(key, 0) + 1


def call_of(
    project: Project,
    study: TaxStudy,
    agents: Mapping[bool, Agent],
    cut: Sequence[Cut],
    job: Job,
    row: Mapping[str, Any],
) -> Wanted | None:
    """The call that writes what a takeover is given; ``None`` where no model writes it."""
    name = job.start.view
    writer = writer_for(project, study, name, agents, row["direction"] == "downshift")
    if writer is None:
        return None
    one = next(one for one in cut if one.point_id == job.start.point_id)
    tokens = (float(_read(name, one.trajectory, one.h)), float(writer.endpoint.max_completion_tokens))
    return Wanted(writer.name, f"writes {name}", row["direction"], tokens=tokens)


def _note_tokens(name: str, text: str, trajectory: Trajectory, h: int) -> int:
    """Tokens of writing what crosses by rule [ours]. Rules write at no cost, but a compaction is charged as if the
    model had written it: what it would read, and what it says."""
    return _read(name, trajectory, h) + view_tokens(text) if name in COMPACTIONS else 0


def _read(name: str, trajectory: Trajectory, h: int) -> int:
    """Tokens of what its writer reads: ``compact_pre`` is one more call at the end of the source's conversation,
    ``compact_suf`` one over the whole trace, and notes, whose evidence is shorter, at most that."""
    return prompt_lengths(trajectory)[h] if name == "compact_pre" else view_tokens(render_view("trace", trajectory, h))


def left_of(budget: Budget, h: int, spent: Spent, by: Agent) -> Budget:
    """The successor's budget: a switched run as a whole may spend what a single session may. What a source on an
    endpoint spent and did not tell is charged at the most that it may have cost."""
    dollars = budget.dollars
    if dollars is not None and by.endpoint is not None:
        most = by.endpoint.cost(math.ceil(spent.prompt * MARGIN), 0, math.ceil(spent.completion * MARGIN))
        cost = spent.dollars if spent.dollars is not None else most
        if cost is None:
            raise InputError(f"a budget in dollars needs prices: set prices of [successors.{by.name}], or no budget")
        dollars = max(0.0, dollars - cost)
    left = max(0, budget.prompt_tokens - spent.prompt)
    return Budget(steps=max(0, budget.steps - h), prompt_tokens=left, dollars=dollars)
