"""The world outside the repository at a step: packages, processes, the shell's folder, variables, files, the system.

``environment(trajectory).at(h)`` says what is known at the end of step h, each thing as observed or inferred, and which
kinds are unknown, so that nothing is ever trained or judged on what nobody could know (``docs/science.md §2``). Nothing
here is executed, and nothing from after h is looked at. The files of the repository are in ``states/``.
"""

from __future__ import annotations

from handoff.environment.facts import KINDS, Basis, Environment, Fact, Kind, Known, Surroundings, from_rows
from handoff.environment.follow import environment
from handoff.environment.ledger import MASKED

__all__ = [
    "KINDS",
    "MASKED",
    "Basis",
    "Environment",
    "Fact",
    "Kind",
    "Known",
    "Surroundings",
    "environment",
    "from_rows",
]
