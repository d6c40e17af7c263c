"""One takeover that a user asks for, at a point of the embedded world or of a real repository."""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.endpoints import Client
from handoff.errors import InputError
from handoff.git.repositories import Repository
from handoff.journal import Journal
from handoff.project import Project
from handoff.stages import is_executable
from handoff.stages.handoffs import Handoffs, find_point
from handoff.stages.takeovers import Job, Start, endpoint_of, make_job, run_on_endpoints
from handoff.successors.openai import OpenAISuccessor
from handoff.takeover import run_takeover
from handoff.views import parse_view
from handoff.workplace import open_workplace


def one_takeover(project: Project, point_id: str, view: str, successor: str, seed: int) -> dict[str, Any]:
    """One takeover by a successor on an endpoint, as a row of ``takeover_runs`` that is not written to the lake.

    Asked for again, it is read from the journal, or gone on with. ``InputError``: no such point, view or successor,
    or a point where nothing can be run.
    """
    endpoint_of(project, successor)
    point = find_point(project, point_id)
    if point["tree"] is None:
        raise InputError(
            f"the state at {point['point_id']} is not known, so nobody can go on from it; give the repository with "
            f"`handoff ingest … --repository {point['repo'] or 'NAME'}=PATH`"
        )
    shard = point["shard"]
    view = parse_view(view).name
    with Handoffs(project, shard) as handoffs:
        start = Start(
            point_id=point["point_id"],
            view_id=handoffs.row(point, view)["view_id"],
            variant_id=None,
            view=view,
            tier=None,
            purpose="evaluate",
            arm=successor,
            seed=seed,
        )
        job = make_job(project, handoffs, start, point, {}, {})
        if not is_executable(point):
            return _in_repository(job, handoffs.repository(point))
    (row,) = run_on_endpoints(project, [job], None)
    return row


def _in_repository(job: Job, repository: Repository) -> dict[str, Any]:
    """A takeover of a point of a real repository: nobody judges it, and what it destroyed is not known."""
    assert job.endpoint is not None, "only successors on endpoints are started so"
    place = job.data / "sandboxes" / job.takeover_id
    with Client(job.endpoint) as client:
        takeover = run_takeover(
            takeover_id=job.takeover_id,
            briefing=job.briefing,
            successor=OpenAISuccessor(client, name=job.start.arm),
            environment=lambda: open_workplace(repository, job.base_commit, job.tree, place),
            budget=job.budget,
            seed=job.start.seed,
            question=job.question,
            journal=Journal(job.data / "journal" / "takeovers", sync="paid"),
        )
    return {**takeover.columns(), **msgspec.structs.asdict(job.start), "destroyed_fixes": None}
