"""One takeover that a user asks for, at a point of the embedded world or of a real repository."""

from __future__ import annotations

from typing import Any

from handoff.errors import InputError
from handoff.project import Project
from handoff.stages.handoffs import Handoffs, find_point
from handoff.stages.takeovers import Start, endpoint_of, make_job, run_jobs
from handoff.views import parse_view


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
    (row,) = run_jobs(project, [job], None)
    return row
