"""The ``structured`` view: the predecessor's work as a note in sections. The words are chosen in ``writers/``."""

from __future__ import annotations

from handoff.evidence import Evidence
from handoff.writers.extractive import write_structured

HEADER = "# Handoff note of the previous {predecessor}\n\n"


def render(evidence: Evidence) -> str:
    """Header and note."""
    return HEADER.format(predecessor=evidence.predecessor) + write_structured(evidence)
