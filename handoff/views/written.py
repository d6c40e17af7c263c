"""Views that a model writes: which writer is asked for which, and the row that records it (``docs/science.md §3``).

Nothing here knows a project: the ledger of answers is opened by the caller (``stages/writing.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from handoff.endpoints import Client
from handoff.errors import InputError
from handoff.evidence import Evidence
from handoff.identity import canonical_json
from handoff.trajectory import Trajectory
from handoff.views import compaction, parse_view, structured, summary, trace, view_row
from handoff.writers.model import Opened, Written, write_compaction, write_from_evidence


def write_view(
    view: str,
    trajectory: Trajectory,
    h: int,
    evidence: Evidence,
    client: Client,
    opened: Opened,
    seed: int,
    dollars: float | None = None,
) -> Written:
    """One view as the model behind ``client`` writes it, with its heading. What was answered before is not asked again.

    ``opened``: opens the ledger of a name; ``seed``: sent to endpoints that take one; ``dollars``: the most that it may
    cost, ``None``: no limit. ``InputError``: nobody writes that view, or there is a limit and no prices. Errors of the
    endpoint as ``Client.ask``.
    """
    match parse_view(view).kind:
        case "structured":
            written = write_from_evidence("structured", evidence, client, opened, seed, dollars)
            header = structured.HEADER
        case "summary":
            written = write_from_evidence("summary", evidence, client, opened, seed, dollars)
            header = summary.HEADER
        case "compact_pre" | "compact_suf" as kind:
            told = trace.render(trajectory, h)
            written = write_compaction(kind, evidence, told, client, opened, seed, dollars)
            header = compaction.HEADER
        case _:
            raise InputError(
                f"no model writes the {view} view; it writes summary, structured, compact_pre, compact_suf"
            )
    if written.text is None:
        return written
    text = header.format(predecessor=evidence.predecessor) + written.text
    return msgspec.structs.replace(written, text=text)


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's writing of one view took: the column ``writing``, as JSON."""

    attempts: int
    """Answers that were read."""
    claims: int | None
    """Of the last answer that could be read. ``None``: a compaction, or none could be read."""
    rejected_claims: int | None
    """Those of them that were dropped."""
    contradicted_claims: int
    """Sentences of a compaction that the record contradicts, and that stand in the text."""
    prompt_tokens: int | None
    """As the endpoint counted; ``None``: it did not say at some call."""
    completion_tokens: int | None
    dollars: float | None
    """``None``: no prices, or no usage."""


def written_row(point_id: str, view: str, written: Written) -> dict[str, Any]:
    """The row of ``view_renderings`` of a view that a model wrote, or could not write."""
    row = view_row(
        point_id,
        parse_view(view).name,
        written.text,
        author=written.author,
        writing_tokens=written.writing_tokens,
        reason=written.reason,
    )
    writing = Writing(**{name: getattr(written, name) for name in Writing.__struct_fields__})
    return {**row, "writing": canonical_json(writing).decode()}


def read_writing(row: Mapping[str, Any]) -> Writing | None:
    """The writing of a row of ``view_renderings``; ``None``: rules rendered the view, or the recording holds it."""
    return None if row["writing"] is None else msgspec.json.decode(row["writing"], type=Writing)
