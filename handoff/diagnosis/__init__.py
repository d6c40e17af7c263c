"""Diagnosis: what a takeover shows about the successor (``docs/science.md §5–§9``).

::

    measure.py     value, numerator, denominator, reason
    crf.py         context reconstruction: E_CR, precision, rediscovery
    sif.py         state inference: P_SI, precision, F1, chance levels, skipped prerequisites
    pcf.py         plan continuation: P_PC, Dice, loops, strategy switch
    hrs.py         the handoff robustness score of one run
    cost.py        excess cost, handoff debt, handoff tax
    fixes.py       correct hunks that the successor removed
    one.py         all of it for one takeover: ``diagnose``, the rows of ``diagnostics``
    stats.py       intervals and tests
    robustness.py  averages with intervals, cell by cell: the rows of ``robustness``

Nothing here runs anything: it reads a point, a run and the run's action keys.
"""

from __future__ import annotations

from handoff.diagnosis.cost import Cap
from handoff.diagnosis.crf import Gold, Key
from handoff.diagnosis.measure import Measure
from handoff.diagnosis.one import METRICS, diagnose, measure_all
from handoff.diagnosis.robustness import FAILURE_MODES, ROBUSTNESS_METRICS, robustness

__all__ = [
    "FAILURE_MODES",
    "METRICS",
    "ROBUSTNESS_METRICS",
    "Cap",
    "Gold",
    "Key",
    "Measure",
    "diagnose",
    "measure_all",
    "robustness",
]
