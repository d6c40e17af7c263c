"""The handoff robustness score of one run (``docs/science.md §8``). Its average over points is in ``robustness.py``.

HRS rewards imitation, not success: wherever it is printed, solve rate and cost stand beside it.
"""

from __future__ import annotations

from handoff.diagnosis.measure import Measure, missing
from handoff.errors import InputError

THIRDS = (1 / 3, 1 / 3, 1 / 3)
"""α (context), β (state), γ (plan)."""


def check_weights(weights: tuple[float, float, float]) -> None:
    """``InputError`` unless the three weights are non-negative and sum to 1."""
    if min(weights) < 0 or abs(sum(weights) - 1) > 1e-9:
        raise InputError(f"the HRS weights {weights} must be three non-negative numbers that sum to 1")


def hrs(
    e_cr: float | None, state: float | None, p_pc: float | None, weights: tuple[float, float, float] = THIRDS
) -> tuple[Measure, Measure]:
    """(score, coverage): ``α(1 − E_CR) + β·state + γ·P_PC``, renormalised over the terms that exist.

    ``state`` is P_SI as defined, or its F1 for ``hrs_f1``. Coverage is the weight of the terms that exist.
    """
    terms = (None if e_cr is None else 1 - e_cr, state, p_pc)
    present = [(weight, term) for weight, term in zip(weights, terms, strict=True) if term is not None]
    weight = sum(weight for weight, _ in present)
    if len(present) == 3:
        weight = 1.0
    coverage = Measure(weight, weight, 1.0)
    if weight == 0:
        return missing("none of E_CR, P_SI and P_PC has a value"), coverage
    total = sum(weight * term for weight, term in present)
    return Measure(min(1.0, total / weight), total, weight), coverage
