"""Curation: which takeovers become training samples, and what must not be in one (``docs/science.md §11–§12``).

::

    secrets.py       keys and tokens are replaced by stable placeholders, before a sample is built
    groundedness.py  an action may only use what its actor could know
    select.py        outcome and cost first, then handoff robustness; caps; preference pairs
    tools.py         definitions of the tools that a recorded run calls
    build.py         one chosen takeover → its samples, each with the verdict of every gate

``select.py`` sees numbers, ``build.py`` sees text, so a round may hold more takeovers than memory holds texts.
Every candidate leaves at least one row in ``curation_funnel``.
"""

from __future__ import annotations

from handoff.curation.build import Built, Episode, build_pair, build_samples, turning_step
from handoff.curation.groundedness import Decision, Grounding, check_grounded, decide
from handoff.curation.secrets import Redactor, redact_briefing, redact_steps
from handoff.curation.select import Candidate, Choice, Pair, Rules, Selection, funnel_row, select
from handoff.curation.tools import Declared, declared_tools

__all__ = [
    "Built",
    "Candidate",
    "Choice",
    "Decision",
    "Declared",
    "Episode",
    "Grounding",
    "Pair",
    "Redactor",
    "Rules",
    "Selection",
    "build_pair",
    "build_samples",
    "check_grounded",
    "decide",
    "declared_tools",
    "funnel_row",
    "redact_briefing",
    "redact_steps",
    "select",
    "turning_step",
]
