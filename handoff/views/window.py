"""The ``window:N`` view: the last N steps of the trace, untruncated. What came before is not told."""

from __future__ import annotations

from handoff.evidence import predecessor_of
from handoff.trajectory import Trajectory
from handoff.views import trace

HEADER = (
    "# The last steps of the previous {predecessor}'s work\n\n"
    "Steps {first} to {last}, in order and complete. What came before is left out.\n\n"
)


def render(trajectory: Trajectory, h: int, steps: int) -> str:
    """Steps h − ``steps`` + 1 to h, with the numbers that they have in the run; the whole trace when it is shorter."""
    if steps >= h:
        return trace.render(trajectory, h)
    header = HEADER.format(predecessor=predecessor_of(trajectory, h), first=h - steps + 1, last=h)
    return header + "".join(trace.rendered_steps(trajectory, h)[h - steps :])
