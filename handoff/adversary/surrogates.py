"""Guesses at how hard a point is, made without running anything (``docs/science.md §10``). All are labelled proxies.

They look at steps ≤ h and states ≤ h alone. Where a successor tells how uncertain it is, its own entropy is the better
guess; that one comes from whoever runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handoff.evidence import Evidence
from handoff.trajectory import Step, Trajectory, prefix

HEURISTICS = ("unvalidated_edits", "open_failure", "reads_not_in_diff", "unrecoverable_bytes")
"""Names of the guesses."""
COMBINED = "heuristics"
"""Their mean rank."""
ENTROPY = "entropy"
"""Of the successor's first reply at h."""


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
    """The mean rank of each point over ``HEURISTICS``, 0 (easiest) to 1; equals share their mean rank."""
    if len(guesses) < 2:
        return [0.0] * len(guesses)
    ranks = [_ranks([guess[name] for guess in guesses]) for name in HEURISTICS]
    return [sum(own) / len(own) for own in zip(*ranks, strict=True)]


def _ranks(values: Sequence[float]) -> list[float]:
    below = [sum(other < value for other in values) for value in values]
    equal = [sum(other == value for other in values) - 1 for value in values]
    return [(low + same / 2) / (len(values) - 1) for low, same in zip(below, equal, strict=True)]
