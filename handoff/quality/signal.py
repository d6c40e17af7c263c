"""One signal: what is worth knowing about one step, and what shows it (``docs/science.md §14``)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Name: TypeAlias = Literal[
    "redundant",
    "useless",
    "expired",
    "unused_evidence",
    "loop",
    "failed_call",
    "response_ignored",
    "risky",
    "peek",
]

NAMES: tuple[Name, ...] = (
    "redundant",
    "useless",
    "expired",
    "unused_evidence",
    "loop",
    "failed_call",
    "response_ignored",
    "risky",
    "peek",
)
"""Every signal, in the order in which a step's rows stand."""

LOOKS_AHEAD = frozenset({"expired", "unused_evidence", "response_ignored", "peek"})
"""Signals that later steps decide or sharpen. No signal reaches a view; these may not even be shown for a prefix."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One signal of one step. ``row()`` is its row of ``quality_signals``."""

    step: int
    """From 1."""
    name: Name
    rule: str
    """Which of the signal's rules holds."""
    shown_by: tuple[int, ...] = ()
    """Other steps that show it, ascending."""
    paths: tuple[str, ...] = ()
    """Files, references or addresses that it is about."""
    reason: str
    """For a person. Holds text of the recording: escape it wherever it is shown."""
    risk: int | None = None
    """Of ``risky``: kinds of risk met in steps 1..``step``."""

    def row(self, trajectory_id: str) -> dict[str, object]:
        """Plain values for the lake."""
        return {
            "trajectory_id": trajectory_id,
            "step": self.step,
            "signal": self.name,
            "rule": self.rule,
            "looks_ahead": self.name in LOOKS_AHEAD,
            "shown_by": list(self.shown_by),
            "paths": [storable(path) for path in self.paths],
            "reason": storable(self.reason),
            "risk": self.risk,
        }


def storable(text: str) -> str:
    """``text`` without lone surrogates, which JSON can smuggle in and no table can hold."""
    return text.encode("utf-8", "replace").decode()


def short(text: str, limit: int = 120) -> str:
    """``text`` on one line, cut to ``limit`` characters; for reasons that quote the recording."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
