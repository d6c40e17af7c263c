"""Guesses at how hard a point is (``docs/science.md §10``). All are labelled proxies.

Two are taken together, each by its ranks. One is what the successor's takeover with the whole trace cost, which a
search needs anyway to know that the point is solvable. The other is how uncertain the successor is of its first reply
there, where it tells; else the mean rank of named heuristics, which look at steps ≤ h and states ≤ h alone. What each
foretells in the embedded world is measured by ``bench/worst_point.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handoff.evidence import Evidence
from handoff.trajectory import Step, Trajectory, prefix

HEURISTICS = ("unvalidated_edits", "open_failure", "reads_not_in_diff", "unrecoverable_bytes")
"""Names of the guesses."""
TRIAL = "cost with the whole trace"
"""Excess cost (§9) of one takeover under the richest view."""
ENTROPY = "policy entropy"
"""Of the distribution that the first move is drawn from, in nats, under the richest view."""
LOGPROB = "log-probability"
"""Negated mean log-probability of a token of the first reply, in nats, under the richest view."""
COMBINED = "heuristics"
"""Mean rank of ``HEURISTICS``."""


def heuristics(trajectory: Trajectory, h: int, evidence: Evidence, diff: str | None) -> dict[str, float]:
    """Each of ``HEURISTICS`` at one point.

    ``unvalidated_edits``: edits since the last validation; ``open_failure``: 1 where the last word of some validation
    was that it failed; ``reads_not_in_diff``: files read and not changed; ``unrecoverable_bytes``: of lines that the
    predecessor saw, thought or said and that are not in ``diff`` (the state's against the base; ``None``: unknown).
    """
    last = evidence.last_validation
    changed = {file.path for file in evidence.changed}
    since = 0 if last is None else last.step
    edits = {step for file in evidence.changed for step in file.steps if step > since}
    is_open = bool(evidence.open_failures) or (last is not None and last.outcome == "failed")
    told = set((diff or "").splitlines()) | {line[1:] for line in (diff or "").splitlines()}
    lines = {line for step in prefix(trajectory.steps, h) for line in _lines(step)}
    return {
        "unvalidated_edits": float(len(edits)),
        "open_failure": float(is_open),
        "reads_not_in_diff": float(sum(read.path not in changed for read in evidence.reads)),
        "unrecoverable_bytes": float(sum(len(line) for line in lines - told)),
    }


def _lines(step: Step) -> list[str]:
    texts = (step.text, step.thought, *(seen.text for seen in step.observations))
    return [line for text in texts for line in text.splitlines()]


def combined(guesses: Sequence[Mapping[str, float]]) -> list[float]:
    """The mean rank of each point over ``HEURISTICS``, 0 (easiest) to 1."""
    return [rank or 0.0 for rank in mean_ranks([[guess[name] for guess in guesses] for name in HEURISTICS])]


def mean_ranks(guesses: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean rank of each point over several guesses, 0 (easiest) to 1; equals share their mean rank.

    A guess that has no value at a point is left out there; ``None``: none has one.
    """
    ranked = [_ranks(guess) for guess in guesses]
    return [
        sum(known) / len(known) if (known := [rank for rank in own if rank is not None]) else None
        for own in zip(*ranked, strict=True)
    ]


def _ranks(values: Sequence[float | None]) -> list[float | None]:
    known = [value for value in values if value is not None]
    last = max(1, len(known) - 1)
    return [
        None
        if value is None
        else (sum(other < value for other in known) + (sum(other == value for other in known) - 1) / 2) / last
        for value in values
    ]
