"""The ``recorded`` view: what was really handed over at this point, word for word.

Of an agent's run that is the summary written when its context was compacted; of a branch of commits, the messages of
the commits so far, oldest first, indented as ``git log`` does, so that no message can look like the next heading. Most
points have none.
"""

from __future__ import annotations

from handoff.adapters.git_branch import commit_of
from handoff.evidence import predecessor_of
from handoff.trajectory import Step, Trajectory

HEADER = "# What was handed over here\n\n"

_SHORT = 12


def render(trajectory: Trajectory, h: int) -> str | None:
    """Header and text of steps up to h; ``None`` where nothing was handed over."""
    if trajectory.steps[h - 1].boundary == "commit":
        parts = [_logged(number, step) for number, step in enumerate(trajectory.steps[:h], 1)]
    else:
        parts = [message.text for message in trajectory.steps[h - 1].after if message.role == "context_summary"]
    return HEADER + "\n\n".join(parts) if any(parts) else None


def author(trajectory: Trajectory, h: int) -> str | None:
    """Who wrote it: ``human``, or the model of that step. ``None``: the recording does not say."""
    if predecessor_of(trajectory, h) == "person":
        return "human"
    return trajectory.steps[h - 1].model or trajectory.model


def _logged(number: int, step: Step) -> str:
    commit = (commit_of(step) or "unknown")[:_SHORT]
    message = step.text.replace("\n", "\n    ")
    return f"## Step {number}: commit {commit}\n\n    {message}"
