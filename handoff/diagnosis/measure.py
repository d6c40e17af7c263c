"""What every measure returns: a value that can be traced to its numerator and denominator, or the reason for none.

The measures themselves are in the files beside this one.
"""

from __future__ import annotations

from typing import NamedTuple


class Measure(NamedTuple):
    """One figure. ``value`` is ``None`` exactly when ``reason`` is not."""

    value: float | None
    numerator: float | None = None
    denominator: float | None = None
    reason: str | None = None


def missing(reason: str) -> Measure:
    """No value, and why."""
    return Measure(None, None, None, reason)


def share(numerator: float, denominator: float, empty: str) -> Measure:
    """``numerator / denominator``; an empty denominator gives no value for the reason ``empty``, never 0 or 1."""
    if denominator == 0:
        return Measure(None, numerator, denominator, empty)
    return Measure(numerator / denominator, numerator, denominator)


def count(number: float) -> Measure:
    """A plain count, which has no denominator."""
    return Measure(float(number), float(number), None)
