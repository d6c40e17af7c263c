"""Views: what a successor is given about the work so far, beside the frozen repository (``docs/science.md §3``).

::

    repo.py        nothing
    trace.py       every event with step ≤ h, untruncated
    summary.py     prose, written from the evidence record
    structured.py  sections with cited steps, written from the same evidence record
    recorded.py    what was really handed over, at the points where something was
    window.py      the last N steps of the trace
    diff.py        what was changed, as git shows it
    diet.py        the trace without its waste
    compaction.py  a summary written at a compaction
    interfaces.py  the names of all of them
    written.py     those that a model writes

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
from handoff.evidence import Evidence, predecessor_of
from handoff.identity import identify
from handoff.states.reader import StateReader
from handoff.tokens import TOKENIZER, count_tokens
from handoff.trajectory import Trajectory
from handoff.views import compaction, diet, diff, recorded, repo, structured, summary, trace, window
from handoff.views.interfaces import KINDS, LONGEST_WINDOW, Interface, parse_view

__all__ = [
    "ALL_VIEWS",
    "LONGEST_WINDOW",
    "PREAMBLE",
    "RECORDED",
    "RULES",
    "VIEWS",
    "Interface",
    "author_of",
    "lacking",
    "parse_view",
    "preamble",
    "render_view",
    "view_identity",
    "view_row",
    "view_tokens",
    "views_at",
]

VIEWS = ("repo", "trace", "summary", "structured")
"""From poorest to fullest in form; ``summary`` and ``structured`` hold the same information."""

RECORDED = "recorded"
"""The view that only some points have: what the recording itself handed over there."""

ALL_VIEWS = (*VIEWS, RECORDED)

RULES = "extractive"
"""The author of a summary or note that rules wrote."""

_PREAMBLE = (
    "You are taking over a software task that {somebody} began. The repository is in the state in which {they} left "
    "it: {their} changes are uncommitted in the work tree. What you are told about {their} work, if anything, comes "
    "next and then the original task. Notes can be incomplete, out of date or wrong; the repository decides. Continue "
    "from here, keep what is already right, and submit when the task is done."
)
PREAMBLE = _PREAMBLE.format(somebody="another agent", they="that agent", their="its")
"""Every successor of an agent gets this first, also under ``repo``."""


def preamble(trajectory: Trajectory, h: int) -> str:
    """What the successor is told first: that it takes over, from an agent or from a person."""
    if predecessor_of(trajectory, h) == "agent":
        return PREAMBLE
    return _PREAMBLE.format(somebody="a person", they="that person", their="their")


def render_view(
    view: str, trajectory: Trajectory, h: int, evidence: Evidence | None = None, states: StateReader | None = None
) -> str:
    """The view block of one point as rules render it; empty for ``repo``.

    ``evidence`` is needed by the views that someone phrases, ``states`` by ``diff``. ``InputError`` for an unknown
    view, an h outside 1 ≤ h < n, missing evidence, or a view that cannot be had there (``lacking``).
    """
    if not 1 <= h < len(trajectory.steps):
        raise InputError(f"h={h} is no handoff index of a run with {len(trajectory.steps)} steps; it must be 1 ≤ h < n")
    wanted = parse_view(view)
    if reason := lacking(wanted, trajectory, h, states):
        raise InputError(reason)
    match wanted.kind:
        case "repo":
            return repo.render()
        case "trace":
            return trace.render(trajectory, h)
        case "recorded":
            return recorded.render(trajectory, h) or ""
        case "window":
            return window.render(trajectory, h, wanted.steps or h)
        case "diet":
            return diet.render(trajectory, h)
        case "diff":
            return diff.render(states.diff(h) if states is not None else "", predecessor_of(trajectory, h))
    if evidence is None:
        raise InputError(f"the {view} view is written from an evidence record, and none was given")
    match wanted.kind:
        case "summary":
            return summary.render(evidence)
        case "structured":
            return structured.render(evidence)
        case "compact_pre" | "compact_suf":
            return compaction.render(evidence)


def lacking(view: Interface, trajectory: Trajectory, h: int, states: StateReader | None) -> str:
    """Why a view cannot be had at h; empty when it can."""
    if view.kind == "recorded" and recorded.render(trajectory, h) is None:
        return f"nothing was handed over at step {h} of the recording; ask for another view, such as {', '.join(VIEWS)}"
    if view.kind == "diff" and (states is None or states.tree(h) is None or states.tree(0) is None):
        return (
            f"the state after step {h} is not known, so there is no diff; give the repository with "
            f"`handoff ingest … --repository {trajectory.repo or 'NAME'}=PATH`"
        )
    return ""


def views_at(trajectory: Trajectory, h: int) -> tuple[str, ...]:
    """The views that a point has: the four, and ``recorded`` where something was handed over."""
    return VIEWS if recorded.render(trajectory, h) is None else ALL_VIEWS


def author_of(view: str, trajectory: Trajectory, h: int) -> str | None:
    """Who wrote the text of ``recorded``; ``None`` for every other view, which rules render, and where unknown."""
    return recorded.author(trajectory, h) if view == RECORDED else None


def view_row(
    point_id: str,
    view: str,
    text: str | None,
    *,
    author: str | None = None,
    writing_tokens: int = 0,
    reason: str = "",
) -> dict[str, Any]:
    """One row of ``view_renderings``; what only a model's writing tells is null (``written.py``).

    ``author``: who wrote ``text``; ``None`` for rules. Only a text that a model wrote for this view is stored, with
    its SHA-256: that of ``recorded`` is in the recording. ``text=None`` says that the view could not be had: the row
    then has no count, and ``reason`` says why.
    """
    by_model = author is not None and author != RULES and view != RECORDED
    if not by_model and view != RECORDED:
        author = RULES if parse_view(view).is_written else None
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
        "writing": None,
        "reason": reason or None,
    }


def view_identity(point_id: str, view: str, author: str | None, digest: str | None) -> str:
    """The ``view_id`` of one view, a content hash in both cases.

    A model's view: a hash over point, view, author and text. A rule-written one is a function of its point, so
    twenty digits are the point's own and one is the view's place in ``KINDS``: the views of a point then share what
    cannot be compressed, which halves the table (``bench/views.py``). Three more are of the text where a rule chose
    it, so that a changed rule shows (one in 4096 hides it); the others only repeat the recording. Of a window
    they are its length.
    """
    whole = identify("v", point_id, view, author or "", digest or "missing")
    if author is not None and author != RULES and view != RECORDED:
        return whole
    wanted = parse_view(view)
    if wanted.steps is not None:
        check = f"{wanted.steps:03x}"
    else:
        is_checked = author == RULES or digest is None or wanted.kind in ("diff", "diet")
        check = whole[2:5] if is_checked else "000"
    return f"{identify('v', point_id)[:22]}{KINDS.index(wanted.kind):x}{check}"


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
