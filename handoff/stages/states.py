"""The states of one run, whoever asks: a shard's stage, or a person who looks at one run.

How edits are replayed is in ``states/replay.py``. Here is what a run comes out as that is not replayed: a branch of
commits, and a run whose repository cannot be had.
"""

from __future__ import annotations

from handoff.errors import StateError
from handoff.states.commits import commit_states
from handoff.states.repositories import Repository
from handoff.states.verdict import Category, Divergence, Replay, unverifiable
from handoff.trajectory import Trajectory


def without_repository(trajectory: Trajectory, trajectory_id: str, reason: str) -> Replay:
    """A run of which no state is known, for ``reason``: its repository cannot be had."""
    return _unverifiable(trajectory, trajectory_id, "no_repository", reason)


def branch_replay(trajectory: Trajectory, trajectory_id: str, repository: Repository) -> Replay:
    """The states of a branch of commits: git's own trees, held against the recorded diffs."""
    try:
        rows = list(commit_states(trajectory, trajectory_id, repository))
    except StateError as error:
        return _unverifiable(trajectory, trajectory_id, "no_base", str(error))
    last = rows[-1]
    wrong = next((row for row in rows if row["status"] == "divergent"), None)
    found = None
    if wrong is not None:
        step = int(wrong["step"])
        found = Divergence(step, "", str(wrong["reason"]), step, "patch_mismatch")
    return Replay(
        trajectory_id=trajectory_id,
        format=trajectory.format,
        repo=trajectory.repo,
        base=trajectory.base_commit,
        base_evidence="the parent of the branch's first commit" if trajectory.base_commit else "",
        status=last["status"],
        category="patch_mismatch" if found else "verified",
        reason=last["reason"],
        commits=tuple(row["commit"] for row in rows),
        trees=tuple(row["tree"] for row in rows),
        statuses=tuple(row["status"] for row in rows),
        reasons=tuple(row["reason"] for row in rows),
        divergence=found,
        is_derivable=True,
    )


def _unverifiable(trajectory: Trajectory, trajectory_id: str, category: Category, reason: str) -> Replay:
    return unverifiable(trajectory_id, trajectory.format, trajectory.repo, len(trajectory.steps), category, reason)
