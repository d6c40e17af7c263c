"""The ``summary`` view: the predecessor's work in prose. The words are chosen in ``writers/``."""

from __future__ import annotations

from handoff.evidence import Evidence
from handoff.writers.extractive import write_summary

HEADER = "# Summary of the previous {predecessor}'s work\n\n"


def render(evidence: Evidence) -> str:
    """Header and prose."""
    return HEADER.format(predecessor=evidence.predecessor) + write_summary(evidence)
