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
    solved: bool | None
    """``None``: not known; such a pair is in no McNemar test."""
    solved_reference: bool | None


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """Handoff debt of a view: the change of the median cost against the reference, and of success."""

    ratio_of_medians: Measure
    interval: tuple[float, float] | None
    """95 %, of the ratio of medians, bootstrapped by task. ``None`` below two tasks."""
    median_of_ratios: Measure
    median_interval: tuple[float, float] | None
    """The same, of the median of matched ratios."""
    p_solved: float | None
    """Exact McNemar on the solved flags."""
    n_points: int
    n_tasks: int


def handoff_debt(pairs: Sequence[Matched], *, seed: int, resamples: int = stats.RESAMPLES) -> Debt:
    """Compare matched runs. Ratios below 1: cheaper than the reference."""
    if not pairs:
        nothing = missing("no matched points")
        return Debt(
            ratio_of_medians=nothing,
            interval=None,
            median_of_ratios=nothing,
            median_interval=None,
            p_solved=None,
            n_points=0,
            n_tasks=0,
        )
    pairs = sorted(pairs, key=lambda p: (p.task_id, p.cost, p.cost_reference))
    cost = np.array([p.cost for p in pairs], dtype=float)
    reference = np.array([p.cost_reference for p in pairs], dtype=float)
    tasks = sorted({p.task_id for p in pairs})
    task = np.array([tasks.index(p.task_id) for p in pairs])
    positive = reference > 0
    ratios = cost[positive] / reference[positive]
    interval = median_interval = None
    if len(tasks) > 1:
        above = stats.resampled_medians(cost, task, seed=seed, resamples=resamples)
        below = stats.resampled_medians(reference, task, seed=seed, resamples=resamples)
        interval = _quantiles(above[below > 0] / below[below > 0])
        if len(present := sorted(set(task[positive].tolist()))) > 1:
            numbers = np.searchsorted(present, task[positive])
            median_interval = _quantiles(stats.resampled_medians(ratios, numbers, seed=seed, resamples=resamples))
    middle = float(np.median(ratios)) if positive.any() else None
    return Debt(
        ratio_of_medians=share(float(np.median(cost)), float(np.median(reference)), "the reference's median is 0"),
        interval=interval,
        median_of_ratios=missing("every reference cost is 0") if middle is None else Measure(middle, middle, 1.0),
        median_interval=median_interval,
        p_solved=stats.mcnemar(
            sum(p.solved is True and p.solved_reference is False for p in pairs),
            sum(p.solved_reference is True and p.solved is False for p in pairs),
        ),
        n_points=len(pairs),
        n_tasks=len(tasks),
    )


def _quantiles(drawn: stats.Floats) -> tuple[float, float] | None:
    return (float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))) if len(drawn) else None


def quality_recovered(switched: float, low: float, high: float) -> Measure:
    """``QRec = (q − q_LC)/(q_HC − q_LC)``: the part of the better model's lead kept after a switch; tax = 1 − QRec.

    No value where the high-capability model does not solve more: there is no lead to keep.
    """
    if high < low:
        return missing("the high-capability model solves less than the low one: there is no lead to keep")
    return share(switched - low, high - low, "both models solve equally much: there is no lead to keep")


def cost_saved(switched: float, low: float, high: float) -> Measure:
    """``CSRet = (c_HC − c)/(c_HC − c_LC)``: the part of the cheaper model's saving kept after a switch.

    No value where the low-capability model does not cost less: there is no saving to keep.
    """
    if high < low:
        return missing("the low-capability model costs more than the high one: there is no saving to keep")
    return share(high - switched, high - low, "both models cost the same: there is no saving to keep")


def require_same_tokenizer(names: Sequence[str]) -> None:
    """``InputError`` when counts of different tokenizers are about to be compared."""
    if len(distinct := sorted(set(names))) > 1:
        raise InputError(f"token counts of {' and '.join(distinct)} cannot be compared; count both with one tokenizer")
