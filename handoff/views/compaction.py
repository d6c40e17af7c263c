"""The ``compact_pre`` and ``compact_suf`` views: a summary written at a compaction, by whoever has the whole trace.

Written by rule, from the evidence record, it is the prose of ``summary``. A model's is in ``written.py``.
"""

from __future__ import annotations

from handoff.evidence import Evidence
from handoff.writers.extractive import write_summary

HEADER = "# Summary of the previous {predecessor}'s work, made for a compaction\n\n"


def render(evidence: Evidence) -> str:
    """Header and prose."""
    return HEADER.format(predecessor=evidence.predecessor) + write_summary(evidence)
