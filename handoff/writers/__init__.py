"""Writers: who phrases what the predecessor knew.

``extractive.py`` writes by rule and costs no tokens. A writer sees an evidence record (``evidence.py``) and
nothing else, so it cannot leak what the predecessor did not observe.
"""

from __future__ import annotations

from handoff.writers.extractive import write_structured, write_summary

__all__ = ["write_structured", "write_summary"]
