"""Views: what a successor is given about the work so far, beside the frozen repository (``docs/science.md §3``).

::

    repo.py        nothing
    trace.py       every event with step ≤ h, untruncated
    summary.py     prose, written from the evidence record
    structured.py  sections with cited steps, written from the same evidence record

``render_view`` is pure: the same trajectory, h and evidence give the same text. It sees no step after h, no
outcome and no fact of the source file (the *leak boundary*; ``tests/views/test_leak_boundary.py``). Gathering
the evidence is in ``evidence.py``; who phrases it is in ``writers/``. Rule-written text is never stored: a
row of ``view_renderings`` keeps its token count, and the text is rendered again on read. The row's ``view_id`` is
a hash over the text among others, so it shows whether the same text came out; a second hash of the text would
double the table, and is written only beside a text that a model wrote.
"""

from __future__ import annotations

import hashlib
from typing import Any

from handoff.errors import InputError
from handoff.evidence import Evidence
from handoff.identity import identify
from handoff.tokens import TOKENIZER, count_tokens
from handoff.trajectory import Trajectory
from handoff.views import repo, structured, summary, trace

VIEWS = ("repo", "trace", "summary", "structured")
"""From poorest to fullest in form; ``summary`` and ``structured`` hold the same information."""

RULES = "extractive"
"""The author of a summary or note that rules wrote."""

PREAMBLE = (
    "You are taking over a software task that another agent began. The repository is in the state in which that "
    "agent left it: its changes are uncommitted in the work tree. What you are told about its work, if anything, "
    "comes next and then the original task. Notes can be incomplete, out of date or wrong; the repository decides. "
    "Continue from here, keep what is already right, and submit when the task is done."
)
"""Every successor gets this first, also under ``repo``."""


def render_view(view: str, trajectory: Trajectory, h: int, evidence: Evidence | None = None) -> str:
    """The view block of one point; empty for ``repo``.

    ``evidence`` is needed by ``summary`` and ``structured`` alone. ``InputError`` for an unknown view, an h
    outside 1 ≤ h < n, or missing evidence.
    """
    if not 1 <= h < len(trajectory.steps):
        raise InputError(f"h={h} is no handoff index of a run with {len(trajectory.steps)} steps; it must be 1 ≤ h < n")
    if view == "repo":
        return repo.render()
    if view == "trace":
        return trace.render(trajectory, h)
    if view not in VIEWS:
        raise InputError(f"no view {view!r}; views are {', '.join(VIEWS)}")
    if evidence is None:
        raise InputError(f"the {view} view is written from an evidence record, and none was given")
    return summary.render(evidence) if view == "summary" else structured.render(evidence)


def view_row(
    point_id: str,
    view: str,
    text: str | None,
    *,
    author: str | None = None,
    writing_tokens: int = 0,
) -> dict[str, Any]:
    """One row of ``view_renderings``.

    ``author``: the model that wrote ``text``; ``None`` for rules. Only a model's text is stored, with its
    SHA-256. ``text=None`` says that the view could not be had: the row then has no count.
    """
    by_model = author is not None and author != RULES
    if not by_model:
        author = RULES if view in ("summary", "structured") else None
    digest = None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "view_id": view_identity(point_id, view, author, digest),
        "point_id": point_id,
        "view": view,
        "author": author,
        "tokens": None if text is None else view_tokens(text),
        "writing_tokens": writing_tokens,
        "tokenizer": TOKENIZER,
        "text_sha256": digest if by_model else None,
        "written": text if by_model else None,
    }


def view_identity(point_id: str, view: str, author: str | None, digest: str | None) -> str:
    """The ``view_id`` of one view, a content hash in both cases.

    A model's view: a hash over point, view, author and text. A rule-written one is a function of its point, so
    twenty digits are the point's own and one is the view's place in ``VIEWS``: four views of a point then share what
    cannot be compressed, which halves the table (``bench/views.py``). Three more are of the text where a writer
    phrased it, so that a changed rule shows (one in 4096 hides it); ``repo`` and ``trace`` only repeat the recording.
    """
    whole = identify("v", point_id, view, author or "", digest or "missing")
    if author is not None and author != RULES:
        return whole
    check = whole[2:5] if author == RULES or digest is None else "000"
    return f"{identify('v', point_id)[:22]}{VIEWS.index(view):x}{check}"


def view_tokens(text: str) -> int:
    """Tokens of a view's text: ``count_tokens(text)``, counted piece by piece so that steps shared by many
    points are tokenised once.

    A newline followed by ``#`` always ends a pre-token of o200k, so the pieces' counts add up exactly.
    """
    return sum(count_tokens(_encodable(piece)) for piece in trace.split(text))


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: counted as the replacement mark a model would be sent
        return text.encode("utf-8", "replace").decode()
    return text
