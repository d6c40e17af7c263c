"""What a takeover costs beyond what the source run itself still needed (``docs/science.md §9``).

Also the comparison of views (handoff debt) and of interfaces (handoff tax), which are about sets of matched runs.
Counting steps and tokens while a run goes on is ``takeover.py``'s.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from handoff.diagnosis import stats
from handoff.diagnosis.hrs import THIRDS
from handoff.diagnosis.measure import Measure, missing, share
from handoff.errors import InputError


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """The most a run could have spent: its budget. Failures are charged twice this (PAR-2)."""

    steps: int
    prompt_tokens: int


def excess_cost(
    *,
    solved: bool | None,
    steps: float,
    prompt_tokens: float,
    remaining_steps: float | None,
    remaining_prompt_tokens: float | None,
    cap: Cap | None,
    weights: tuple[float, float, float] = THIRDS,
) -> Measure:
    """``C = w_s(S/S_rem − 1) + w_t(T/T_rem − 1) + w_f·failed``, S_rem and T_rem at least 1.

    0: as cheap as the source run. A failure is charged twice ``cap``, so that quitting early is not cheap.
    """
    if solved is None:
        return missing("nobody knows whether the run solved the task")
    if remaining_steps is None or remaining_prompt_tokens is None:
        return missing("the source run's own remaining cost is unknown")
    if not solved:
        if cap is None:
            return missing("the run failed and its budget, which a failure is charged twice, is unknown")
        steps, prompt_tokens = 2 * cap.steps, 2 * cap.prompt_tokens
    w_s, w_t, w_f = weights
    value = (
        w_s * (steps / max(1, remaining_steps) - 1)
        + w_t * (prompt_tokens / max(1, remaining_prompt_tokens) - 1)
        + w_f * (not solved)
    )
    return Measure(value, value, 1.0)


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """One point run under two views (or by two successors), everything else alike."""

    task_id: str
    cost: float
    """Steps or prompt tokens, under the view in question."""
    cost_reference: float
    """The same under ``repo``."""
    solved: bool
    solved_reference: bool


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """Handoff debt of a view: the change of the median cost against the reference, and of success."""

    ratio_of_medians: Measure
    interval: tuple[float, float] | None
    """95 %, of the ratio of medians, bootstrapped by task."""
    median_of_ratios: Measure
    p_solved: float | None
    """Exact McNemar on the solved flags."""
    n_points: int
    n_tasks: int


def handoff_debt(pairs: Sequence[Matched], *, seed: int, resamples: int = 1_000) -> Debt:
    """Compare matched runs. Ratios below 1: cheaper than the reference."""
    if not pairs:
        nothing = missing("no matched points")
        return Debt(
            ratio_of_medians=nothing, interval=None, median_of_ratios=nothing, p_solved=None, n_points=0, n_tasks=0
        )
    pairs = sorted(pairs, key=lambda p: (p.task_id, p.cost, p.cost_reference))
    cost = np.array([p.cost for p in pairs], dtype=float)
    reference = np.array([p.cost_reference for p in pairs], dtype=float)
    tasks = sorted({p.task_id for p in pairs})
    members = [np.flatnonzero([p.task_id == task for p in pairs]) for task in tasks]
    rng = np.random.default_rng([seed, len(tasks)])
    ratios = []
    for drawn in rng.integers(0, len(tasks), size=(resamples, len(tasks))):
        rows = np.concatenate([members[i] for i in drawn])
        below = float(np.median(reference[rows]))
        if below > 0:
            ratios.append(float(np.median(cost[rows])) / below)
    positive = reference > 0
    middle = float(np.median(cost[positive] / reference[positive])) if positive.any() else None
    return Debt(
        ratio_of_medians=share(float(np.median(cost)), float(np.median(reference)), "the reference's median is 0"),
        interval=(float(np.quantile(ratios, 0.025)), float(np.quantile(ratios, 0.975))) if ratios else None,
        median_of_ratios=missing("every reference cost is 0") if middle is None else Measure(middle, middle, 1.0),
        p_solved=stats.mcnemar(
            sum(p.solved and not p.solved_reference for p in pairs),
            sum(p.solved_reference and not p.solved for p in pairs),
        ),
        n_points=len(pairs),
        n_tasks=len(tasks),
    )


def quality_recovered(switched: float, low: float, high: float) -> Measure:
    """``QRec = (q − q_LC)/(q_HC − q_LC)``: the part of the better model's lead kept after a switch; tax = 1 − QRec."""
    return share(switched - low, high - low, "both models solve equally much: there is no lead to keep")


def cost_saved(switched: float, low: float, high: float) -> Measure:
    """``CSRet = (c_HC − c)/(c_HC − c_LC)``: the part of the cheaper model's saving kept after a switch."""
    return share(high - switched, high - low, "both models cost the same: there is no saving to keep")


def require_same_tokenizer(names: Sequence[str]) -> None:
    """``InputError`` when counts of different tokenizers are about to be compared."""
    if len(distinct := sorted(set(names))) > 1:
        raise InputError(f"token counts of {' and '.join(distinct)} cannot be compared; count both with one tokenizer")
