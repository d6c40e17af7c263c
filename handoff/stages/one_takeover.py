"""One takeover that a user asks for, at a point of the embedded world or of a real repository."""

from __future__ import annotations

from typing import Any

from handoff.endpoints import Client
from handoff.errors import InputError
from handoff.project import Project
from handoff.stages.handoffs import Handoffs, find_point
from handoff.stages.named import described, model_of
from handoff.stages.takeovers import Start, make_job, run_jobs
from handoff.stages.writing import writer_of
from handoff.views import parse_view


def one_takeover(
    project: Project, point_id: str, view: str, successor: str, seed: int, writer: str = ""
) -> dict[str, Any]:
    """One takeover by a successor that the settings name: a row of ``takeover_runs`` that is not written to the lake.

    Asked for again, it is read from the journal, or gone on with. ``writer``: the endpoint that writes the view; rules
    do when it is empty, but for ``compact_suf``, which its successor writes. ``InputError``: no such point, view,
    writer or successor, a view that could not be written, or a point where nothing can be run.
    """
    described(project, successor)
    point = find_point(project, point_id)
    if point["tree"] is None:
        raise InputError(
            f"the state at {point['point_id']} is not known, so nobody can go on from it; give the repository with "
            f"`handoff ingest … --repository {point['repo'] or 'NAME'}=PATH`"
        )
    shard = point["shard"]
    view = parse_view(view).name
    author = writer or (model_of(project, successor) if view == "compact_suf" else "")
    with Handoffs(project, shard) as handoffs:
        start = Start(
            point_id=point["point_id"],
            view_id=_view_row(project, handoffs, point, view, author)["view_id"],
            variant_id=None,
            view=view,
            tier=None,
            purpose="evaluate",
            arm=successor,
            seed=seed,
        )
        job = make_job(project, handoffs, start, point, {}, {})
    (row,) = run_jobs(project, [job], None)
    if not point["state_is_derived"]:
        doubt = f"the state it began at is {point['state_status']}: not all of it follows from the recording"
        row["note"] = "; ".join(part for part in (row["note"], doubt) if part)
    return row


def _view_row(project: Project, handoffs: Handoffs, point: dict[str, Any], view: str, writer: str) -> dict[str, Any]:
    if not writer:
        return handoffs.row(point, view)
    with Client(writer_of(project, writer)) as client:
        return handoffs.written(point, view, client)
