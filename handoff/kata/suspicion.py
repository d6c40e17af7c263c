"""Where the bugs may be: the chance that a function is wrong, given which tests fail and what they exercise.

A plain noisy-or model: every function is wrong with the same small chance, a test with a wrong function in it fails
most of the time, one without never. Responsibility for a failure is shared among the functions that the passing
tests have not cleared. Whether code *looks* wrong is judged in ``prior.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

_BASE = 0.15
_MISS = 0.3
"""Chance that a test passes although a function in it is wrong."""
_ROUNDS = 4


def suspicions(
    covers: Mapping[str, tuple[str, ...]], failing: Collection[str], passing: Collection[str]
) -> dict[str, float]:
    """Function → chance that it is wrong (0..1), in sorted order.

    ``covers``: test → functions it exercises. A test in neither collection says nothing.
    """
    functions = sorted({name for names in covers.values() for name in names})
    odds = dict.fromkeys(functions, _BASE / (1 - _BASE))
    for test in sorted(passing):
        for name in covers.get(test, ()):
            odds[name] *= _MISS
    cleared = {name: value / (1 + value) for name, value in odds.items()}
    chance = dict(cleared)
    failures = [covers[test] for test in sorted(failing) if covers.get(test)]
    for _ in range(_ROUNDS if failures else 0):
        updated = dict(cleared)
        for names in failures:
            total = sum(chance[name] for name in names)
            for name in names:
                share = chance[name] / total
                # the failure happened for sure: at least `share` of the blame is here
                updated[name] = 1 - (1 - updated[name]) * (1 - share)
        chance = updated
    return chance
