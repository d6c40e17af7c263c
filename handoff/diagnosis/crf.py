"""Context reconstruction: does the successor do what the recorded continuation did? (``docs/science.md §5``)

E_CR and its variants compare sets of action keys in a window after the handoff; rediscovery looks back at the
prefix instead. Keys are (kind, target) pairs and come from ``actions.py``; the gold side is found in ``points.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from handoff.diagnosis.measure import Measure, missing, share

Key: TypeAlias = tuple[str, str]
"""(kind, target)."""

WINDOW = 10
"""Steps compared at the headline level; fewer where the recorded run ended earlier."""
CHANGES = frozenset({"edit", "create", "delete"})
"""Kinds that change the repository."""
OF_ONE_FILE = CHANGES | {"read"}
"""Kinds whose target is one file, so that only a change of that file makes them news again."""

NO_GOLD = "no gold continuation: the recorded run is not known to be resolved"
EMPTY_GOLD = "the gold continuation has no action in the window"


class Gold(NamedTuple):
    """One resolved continuation, counted from the handoff on."""

    remaining: int
    """Its length in steps, ``n − h``."""
    keys: tuple[tuple[int, str, str, bool], ...]
    """(step after h from 1 on, kind, target, was it necessary), in order."""

    def count(self, w: int | None) -> int:
        """How many of the keys belong to the first w steps."""
        return len(self.keys) if w is None else bisect_right(self.keys, w, key=itemgetter(0))

    def window(self, w: int = WINDOW) -> int:
        """``min(w, n − h)``."""
        return min(w, self.remaining)


def e_cr(successor: Iterable[Hashable], gold: Iterable[Hashable]) -> Measure:
    """``1 − |A_succ ∩ A_gold| / |A_gold|`` over sets; the numerator is what was missed. In [0, 1], 0 is best."""
    wanted = set(gold)
    return share(len(wanted.difference(successor)), len(wanted), EMPTY_GOLD)


def e_cr_multiset(successor: Iterable[Hashable], gold: Iterable[Hashable]) -> Measure:
    """E_CR where a key that the gold side has twice has to be met twice."""
    wanted = Counter(gold)
    done = Counter(successor)
    return share(sum(max(0, n - done.get(key, 0)) for key, n in wanted.items()), sum(wanted.values()), EMPTY_GOLD)


def precision(successor: Iterable[Hashable], gold: Iterable[Hashable]) -> Measure:
    """The share of the successor's distinct keys that the gold side has too."""
    done = set(successor)
    return share(len(done.intersection(gold)), len(done), "the successor did nothing in the window")


def best(measures: Sequence[Measure]) -> Measure:
    """The lowest of several values: with several resolved continuations the nearest one counts."""
    valued = [m for m in measures if m.value is not None]
    if valued:
        return min(valued, key=lambda m: m.value or 0.0)
    return measures[0] if measures else missing(NO_GOLD)


def rediscovery(steps: Sequence[Sequence[Key]], prefix: Iterable[Key], w: int = WINDOW) -> Measure:
    """The share of the successor's first w *actions* that repeat what the predecessor already did, with nothing new
    to learn from it.

    ``prefix``: keys seen up to h whose target has not changed by h. What the successor changes itself counts too:
    after an edit, reading that file again or running or searching anything again may tell something new.
    """
    known = set(prefix)
    changed: set[str] = set()
    seen = repeated = 0
    for key in chain.from_iterable(steps):
        if seen == w:
            break
        seen += 1
        kind, target = key
        if key in known and not (target in changed if kind in OF_ONE_FILE else changed):
            repeated += 1
        if kind in CHANGES:
            changed.add(target)
    return share(repeated, seen, "the successor did nothing")
