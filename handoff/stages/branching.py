"""Failed takeovers of policies tried again otherwise at their most uncertain steps (``docs/science.md §11``).

An option that changes what data is collected, and nothing else: no evaluation and no optimiser looks at it. Every
branch is a whole takeover from the frozen state, executed and judged like any other, and journaled by all that decides
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from handoff.errors import InputError
from handoff.identity import canonical_json, identify
from handoff.kata.branches import forced_replies, moments_of
from handoff.kata.pool import Progress
from handoff.project import Project
from handoff.salvage.branching import Branch, Outcome, best_of, plan_branches
from handoff.stages import is_executable
from handoff.stages.handoffs import Handoffs, find_point
from handoff.stages.search_ground import policies_of, policy_at
from handoff.stages.takeovers import LEARNED, Job, Start, make_job, run_jobs
from handoff.takeover import read_transcript
from handoff.views import parse_view


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """One takeover and its branches."""

    base: dict[str, Any]
    """Row as of ``takeover_runs``."""
    branches: tuple[Branch, ...]
    """Those that were tried first."""
    tried: tuple[dict[str, Any], ...]
    """Rows as of ``takeover_runs`` of the branches that were tried, in their order."""
    best: int | None
    """Place of the best among ``tried``; ``None``: none is better than the base, or nobody judged."""

    @property
    def kept(self) -> dict[str, Any] | None:
        """The row of the best branch, if it solves what its base did not."""
        if self.best is None or self.base["solved"] is not False or not self.tried[self.best]["solved"]:
            return None
        return self.tried[self.best]


def search_branches(
    project: Project, based: Sequence[tuple[Job, dict[str, Any]]], runs: int, progress: Progress | None = None
) -> list[Searched]:
    """The branches of some takeovers of policies, at most ``runs`` each. ``based``: their jobs and rows."""
    planned: list[tuple[Branch, ...]] = []
    jobs: list[Job] = []
    for job, row in based:
        assert job.policy is not None, "only policies tell what they might have done"
        policy = policy_at(project, job.policy)
        steps = read_transcript(row["transcript"])
        branches = plan_branches(moments_of(policy, job.briefing, steps), runs)
        planned.append(branches)
        for branch in branches:
            if branch.verdict == "tried":
                forced = forced_replies(policy, job.briefing, steps, branch)
                name = identify("k", job.takeover_id, "branch", canonical_json(forced))
                seed = int(identify("k", job.start.seed, "branch", branch.step, branch.text)[2:10], 16)
                start = msgspec.structs.replace(job.start, seed=seed)  # it goes on with draws of its own
                jobs.append(msgspec.structs.replace(job, start=start, forced=forced, takeover_id=name))
    rows = iter(run_jobs(project, jobs, progress))
    found = []
    for (_, base), branches in zip(based, planned, strict=True):
        tried = tuple(_told(next(rows), base, branch) for branch in branches if branch.verdict == "tried")
        best = best_of([_outcome(row) for row in (base, *tried)])
        found.append(Searched(base=base, branches=branches, tried=tried, best=best - 1 if best else None))
    return found


def collected_branches(
    project: Project, jobs: Sequence[Job], rows: Sequence[dict[str, Any]], progress: Progress | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(rows of ``branches``, rows of ``takeover_runs``) of the failed takeovers among those that policies collected.

    The latter are the kept branches, each of which solved what its base did not.
    """
    failed = [
        (job, row)
        for job, row in zip(jobs, rows, strict=True)
        if job.start.purpose == "collect" and job.policy is not None and row["solved"] is False
    ]
    found = search_branches(project, failed, project.settings.branching.runs, progress)
    return [row for one in found for row in _branch_rows(one)], [one.kept for one in found if one.kept is not None]


def _branch_rows(found: Searched) -> list[dict[str, Any]]:
    made = iter(found.tried)
    rows = []
    for branch in found.branches:
        tried = next(made) if branch.verdict == "tried" else None
        ran = (
            {} if tried is None else {name: tried[name] for name in ("takeover_id", "solved", "tests_passed", "steps")}
        )
        rows.append(
            {
                "base_id": found.base["takeover_id"],
                **{name: found.base[name] for name in ("point_id", "arm", "view")},
                "step": branch.step,
                "move": branch.text,
                "chance": branch.chance,
                "entropy": branch.entropy,
                "verdict": branch.verdict,
                **ran,
                "is_kept": tried is not None and tried is found.kept,
            }
        )
    return rows


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(row["solved"], row["tests_passed"], row["steps"])


def _told(row: dict[str, Any], base: dict[str, Any], branch: Branch) -> dict[str, Any]:
    note = f"branch of {base['takeover_id']}: another move at step {branch.step}, of chance {branch.chance:.2f}"
    return {**row, "note": "; ".join(part for part in (note, row["note"]) if part)}


def branch_takeover(
    project: Project,
    point_id: str,
    view: str,
    arm: str,
    runs: int,
    *,
    seed: int = 0,
    round: str | None = None,
    progress: Progress | None = None,
) -> Searched:
    """One takeover by a trained policy, and its branches; asked for again, nothing is run.

    ``point_id``: may be the beginning of one. ``InputError``: no such point, view or policy, or a successor that does
    not tell what it might have done.
    """
    view = parse_view(view).name
    if arm not in LEARNED:
        raise InputError(f"{arm!r} does not tell what it might have done; branches are of {', '.join(LEARNED)}")
    point = find_point(project, point_id)
    if not is_executable(point):
        raise InputError(f"{point['point_id']} is no point of the embedded world, where the policies act")
    policies = policies_of(project, arm, round)
    with Handoffs(project, point["shard"]) as handoffs:
        start = Start(
            point_id=point["point_id"],
            view_id=handoffs.row(point, view)["view_id"],
            variant_id=None,
            view=view,
            tier=None,
            purpose="branch",
            arm=arm,
            seed=seed,
        )
        job = msgspec.structs.replace(make_job(project, handoffs, start, point, {}, policies), question=None)
    (base,) = run_jobs(project, [job], None)
    (found,) = search_branches(project, [(job, base)], runs, progress)
    return found
