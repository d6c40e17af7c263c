"""Are the tiers as hard as they are named? Measured scores by tier, and each against the tier before it (§10).

Runs of one task are averaged first; intervals resample tasks. A tier is compared with the one before it on the tasks
that were run in both, pair by pair, and the fall of HRS is taken apart into its three terms (§8). What is not shown is
said: nothing here takes the order for granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from handoff.adversary.tiers import TIERS
from handoff.diagnosis import stats

Order: TypeAlias = Literal["first", "harder", "easier", "not told apart", "not compared"]
"""A tier against the one before it, by HRS: its interval leaves out "no difference", or not."""

TERMS = ("context", "state", "plan")
"""1 − E_CR, P_SI and P_PC, as HRS averages them."""
_SCORES = ("solve_rate", "hrs", "excess_cost", *TERMS)


class TierRun(msgspec.Struct, frozen=True, kw_only=True):
    """One takeover from a variant of a tier."""

    tier: str
    arm: str
    task: str
    solved: bool | None
    hrs: float | None
    excess_cost: float | None
    e_cr: float | None
    p_si: float | None
    p_pc: float | None

    def score(self, name: str) -> float:
        """One of the scores; NaN where it has no value."""
        value: float | None
        if name == "solve_rate":
            value = None if self.solved is None else float(self.solved)
        elif name == "context":
            value = None if self.e_cr is None else 1 - self.e_cr
        else:
            value = getattr(self, {"state": "p_si", "plan": "p_pc"}.get(name, name))
        return float("nan") if value is None else value


class Estimate(NamedTuple):
    """A mean with its 95 % interval; ``None`` where nothing, or too little, was measured."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class TierLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one successor scored in one tier."""

    tier: str
    arm: str
    n_runs: int
    n_tasks: int
    solve_rate: Estimate
    hrs: Estimate
    excess_cost: Estimate
    context: float | None
    state: float | None
    plan: float | None
    order: Order
    fall: Estimate
    """HRS of the tier before minus this one's, over tasks that both have."""
    why: str
    """What the order rests on, in words."""

    def row(self) -> dict[str, Any]:
        """As a row of table ``tiers``."""
        row = {name: getattr(self, name) for name in ("tier", "arm", "n_runs", "n_tasks", *TERMS, "order", "why")}
        for name, estimate in (
            ("solve_rate", self.solve_rate),
            ("hrs", self.hrs),
            ("excess_cost", self.excess_cost),
            ("fall", self.fall),
        ):
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return row


def tier_lines(runs: Iterable[TierRun], *, seed: int) -> tuple[TierLine, ...]:
    """One line for each successor and tier that was run, by successor, from easy to extreme."""
    by: dict[tuple[str, str], list[TierRun]] = {}
    for run in runs:
        by.setdefault((run.arm, run.tier), []).append(run)
    lines: list[TierLine] = []
    for arm in sorted({arm for arm, _ in by}):
        before: list[TierRun] | None = None
        for tier in TIERS:
            own = by.get((arm, tier.name))
            if own is not None:
                lines.append(_line(own, before, seed))
                before = own
    return tuple(lines)


def _line(own: Sequence[TierRun], before: Sequence[TierRun] | None, seed: int) -> TierLine:
    tasks, means = _by_task(own)
    mean, low, high = stats.bootstrap_means(means, seed=seed)
    found = {name: Estimate(*map(_value, (mean[i], low[i], high[i]))) for i, name in enumerate(_SCORES)}
    order, fall, why = _against(own, before, seed)
    return TierLine(
        tier=own[0].tier,
        arm=own[0].arm,
        n_runs=len(own),
        n_tasks=len(tasks),
        solve_rate=found["solve_rate"],
        hrs=found["hrs"],
        excess_cost=found["excess_cost"],
        context=found["context"].value,
        state=found["state"].value,
        plan=found["plan"].value,
        order=order,
        fall=fall,
        why=why,
    )


def _by_task(runs: Sequence[TierRun]) -> tuple[list[str], npt.NDArray[np.float64]]:
    """(tasks, their mean scores, one column a score)."""
    tasks = sorted({run.task for run in runs})
    means = np.full((len(tasks), len(_SCORES)), np.nan)
    for row, task in enumerate(tasks):
        for column, name in enumerate(_SCORES):
            values = [value for run in runs if run.task == task if (value := run.score(name)) == value]
            if values:
                means[row, column] = np.mean(values)
    return tasks, means


def _against(own: Sequence[TierRun], before: Sequence[TierRun] | None, seed: int) -> tuple[Order, Estimate, str]:
    if before is None:
        return "first", Estimate(), ""
    (tasks, means), (earlier, earlier_means) = _by_task(own), _by_task(before)
    shared = sorted(set(tasks) & set(earlier))
    places = [tasks.index(task) for task in shared], [earlier.index(task) for task in shared]
    falls = earlier_means[places[1]] - means[places[0]] if shared else np.empty((0, len(_SCORES)))
    hrs = _SCORES.index("hrs")
    compared = int((~np.isnan(falls[:, hrs])).sum()) if shared else 0
    name = before[0].tier
    if compared < 2:
        return "not compared", Estimate(), f"fewer than two tasks have an HRS here and at {name}"
    mean, low, high = stats.bootstrap_means(falls, seed=seed)
    fall = Estimate(float(mean[hrs]), float(low[hrs]), float(high[hrs]))
    order: Order = "harder" if low[hrs] > 0 else "easier" if high[hrs] < 0 else "not told apart"
    terms = {term: float(mean[_SCORES.index(term)]) for term in TERMS if not np.isnan(mean[_SCORES.index(term)])}
    parts = ", ".join(f"{term} {_signed(-value)}" for term, value in terms.items())
    words = {
        "harder": f"HRS is {mean[hrs]:.2f} below {name}",
        "easier": f"HRS is {-mean[hrs]:.2f} above {name}",
        "not told apart": f"HRS is {abs(mean[hrs]):.2f} {'below' if mean[hrs] >= 0 else 'above'} {name}, within chance",
    }
    why = f"{words[order]} ({_signed(-high[hrs])} to {_signed(-low[hrs])}, {compared} tasks): {parts}"
    solved = falls[:, _SCORES.index("solve_rate")]
    if order != "harder" and not np.isnan(solved).all():
        why += f"; solved {_signed(-float(np.nanmean(solved)))}"
    return order, fall, why


def _signed(number: float) -> str:
    """With its sign; no minus before a nought."""
    return f"{round(number, 2) + 0.0:+.2f}"


def _value(number: float) -> float | None:
    return None if np.isnan(number) else float(number)
