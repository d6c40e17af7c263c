"""Writers: who phrases what the predecessor knew.

::

    extractive.py  by rule; costs no tokens
    model.py       a model on an endpoint, whose claims are verified
    asking.py      what it is asked
    claims.py      its answer as claims
    verify.py      claims held against the evidence record
    phrasing.py    its words made safe, in the form of the rules

A writer of summaries and notes sees an evidence record (``evidence.py``) and nothing else, so it cannot leak what the
predecessor did not observe; one of compactions sees the trace up to h.
"""

from __future__ import annotations

from handoff.writers.extractive import write_structured, write_summary

__all__ = ["write_structured", "write_summary"]
