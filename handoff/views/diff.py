"""The ``diff`` view: the frozen repository and what was changed in it, as git shows it.

A changed file may hold anything, so the diff stands in a code fence longer than any run of backticks inside it.
"""

from __future__ import annotations

from handoff.evidence import Predecessor
from handoff.views.trace import fenced

HEADER = "# Changes of the previous {predecessor}\n\n"
_SHOWN = "From the commit at which the work began to the state that you find, new files included:\n\n"
_NONE = "No file differs from the commit at which the work began.\n"


def render(diff: str, predecessor: Predecessor) -> str:
    """``diff``: unified, from the base commit to the state at h."""
    return HEADER.format(predecessor=predecessor) + (_SHOWN + fenced(diff, "diff") if diff else _NONE)
