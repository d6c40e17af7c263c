"""Handoff tax: what a switch of models in the middle of a task keeps of quality and of saving (``docs/science.md §9``).

A cell is direction × timing × interface. Its switched runs are compared with single sessions of both models on the
same tasks. Runs are averaged within their task and tasks within the cell; intervals resample tasks, the same ones
for the switched runs and for both models. Timing ``all`` takes every timing of a direction together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from handoff.diagnosis import stats
from handoff.diagnosis.cost import cost_saved, quality_recovered
from handoff.diagnosis.measure import Measure
from handoff.diagnosis.stats import Floats
from handoff.studies.front import Offer, Recommendation, pareto, recommend

Direction: TypeAlias = Literal["escalation", "downshift"]
"""``escalation``: the low-capability model begins and the high one goes on; ``downshift``: the other way round."""

DIRECTIONS: tuple[Direction, ...] = ("escalation", "downshift")
ALL = "all"
UNSTABLE = 0.05
"""Where more than this share of the resamples has no lead (or no saving) to keep, there is no interval."""


class Single(NamedTuple):
    """One model on one task, from beginning to end."""

    task: str
    seed: int
    is_high: bool
    """The high-capability model."""
    solved: bool | None
    cost: float | None
    """In the study's unit. ``None``: not known."""


class Switched(NamedTuple):
    """One task, begun by one model and finished by the other."""

    task: str
    seed: int
    """Of the source session."""
    direction: str
    timing: str
    interface: str
    solved: bool | None
    cost: float | None
    """Of the whole task: the source's part, the notes and the successor."""
    run: str
    """What names the run: one that serves two timings is there twice, and once in ``all``."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell's figures. Intervals are of 95 %, bootstrapped by task."""

    direction: str
    timing: str
    interface: str
    quality: float | None
    """Share of tasks solved after the switch."""
    quality_low: float | None
    """Of the low-capability model alone on the same tasks."""
    quality_high: float | None
    cost: float | None
    cost_low: float | None
    cost_high: float | None
    qrec: Measure
    qrec_interval: tuple[float, float] | None
    csret: Measure
    csret_interval: tuple[float, float] | None
    n_runs: int
    n_tasks: int
    unmatched: int
    """Switched runs that are in no figure: their outcome, or that of a single session, is not known."""
    is_on_front: bool = False
    """Among the interfaces of its direction and timing."""
    is_recommended: bool = False
    not_separated: tuple[str, ...] = ()
    note: str = ""

    @property
    def tax(self) -> float | None:
        """``1 − QRec``."""
        return None if self.qrec.value is None else 1 - self.qrec.value


def tax_cells(
    singles: Iterable[Single], switched: Iterable[Switched], *, seed: int, resamples: int = stats.RESAMPLES
) -> list[Cell]:
    """Every cell, by direction, timing in the order of first appearance (``all`` first) and interface.

    A switched run counts when its outcome is known and both models have a single session of the same task and seed
    with a known outcome. Costs are averaged where they are known for all runs of a cell; else they have no value.
    """
    alone = _by_task_and_seed(singles)
    runs = list(switched)
    timings = list(dict.fromkeys(run.timing for run in runs))
    interfaces = list(dict.fromkeys(run.interface for run in runs))
    cells: list[Cell] = []
    for direction in DIRECTIONS:
        own = [run for run in runs if run.direction == direction]
        for timing in [ALL, *timings]:
            at = _each_once(own) if timing == ALL else [run for run in own if run.timing == timing]
            group = [
                _cell(
                    direction,
                    timing,
                    interface,
                    [run for run in at if run.interface == interface],
                    alone,
                    seed,
                    resamples,
                )
                for interface in interfaces
            ]
            cells += _with_front(
                [cell for cell, _ in group if cell.n_runs or cell.unmatched], dict(_offers(group)), seed
            )
    return cells


def _each_once(runs: Iterable[Switched]) -> list[Switched]:
    return list({(run.run, run.interface): run for run in runs}.values())


def empty_cell(direction: Direction, timing: str, interface: str) -> Cell:
    """A cell in which no run was made, such as a timing that no session has."""
    return _cell(direction, timing, interface, (), {}, 0, 1)[0]


_Alone: TypeAlias = Mapping[tuple[str, int], Mapping[bool, Single]]


def _by_task_and_seed(singles: Iterable[Single]) -> _Alone:
    found: dict[tuple[str, int], dict[bool, Single]] = {}
    for single in singles:
        if single.solved is not None:
            found.setdefault((single.task, single.seed), {})[single.is_high] = single
    return found


def _cell(
    direction: Direction,
    timing: str,
    interface: str,
    runs: Sequence[Switched],
    alone: _Alone,
    seed: int,
    resamples: int,
) -> tuple[Cell, Mapping[str, float]]:
    """The cell, and the solved share of each of its tasks."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    for run in runs:
        both = alone.get((run.task, run.seed), {})
        if run.solved is not None and len(both) == 2:
            low, high = both[False], both[True]
            costs = (run.cost, low.cost, high.cost)
            solved = (float(run.solved), float(low.solved is True), float(high.solved is True))
            rows.setdefault(run.task, []).append((*solved, *(np.nan if c is None else float(c) for c in costs)))
    tasks = sorted(rows)
    matched = sum(len(own) for own in rows.values())
    by_task: Floats = np.array([np.mean(sorted(rows[task]), axis=0) for task in tasks]).reshape(len(tasks), 6)
    means = [float(value) if value == value else None for value in by_task.mean(axis=0)] if tasks else [None] * 6
    q, q_low, q_high, c, c_low, c_high = means
    drawn = stats.resampled_means(by_task, seed=seed, resamples=resamples) if len(tasks) > 1 else None
    nothing = Measure(None, None, None, "no switched run has single sessions of both models beside it")
    qrec = nothing if q is None or q_low is None or q_high is None else quality_recovered(q, q_low, q_high)
    if not tasks:
        csret = nothing
    elif c is None or c_low is None or c_high is None:
        csret = Measure(None, None, None, "the cost of some run is not known")
    else:
        csret = cost_saved(c, c_low, c_high)
    qrec_interval = csret_interval = None
    unstable_q = unstable_c = ""
    if drawn is not None and qrec.value is not None:
        qrec_interval, unstable_q = _interval(drawn[:, 0] - drawn[:, 1], drawn[:, 2] - drawn[:, 1])
    if drawn is not None and csret.value is not None:
        csret_interval, unstable_c = _interval(drawn[:, 5] - drawn[:, 3], drawn[:, 5] - drawn[:, 4])
    notes = [f"no interval of {name}: {why}" for name, why in (("QRec", unstable_q), ("CSRet", unstable_c)) if why]
    cell = Cell(
        direction=direction,
        timing=timing,
        interface=interface,
        quality=q,
        quality_low=q_low,
        quality_high=q_high,
        cost=c,
        cost_low=c_low,
        cost_high=c_high,
        qrec=qrec,
        qrec_interval=qrec_interval,
        csret=csret,
        csret_interval=csret_interval,
        n_runs=matched,
        n_tasks=len(tasks),
        unmatched=len(runs) - matched,
        note="; ".join(notes),
    )
    return cell, {task: float(value) for task, value in zip(tasks, by_task[:, 0], strict=True)}


def _interval(kept: Floats, lead: Floats) -> tuple[tuple[float, float] | None, str]:
    """The percentile interval of ``kept / lead`` over resamples, and why there is none where one was expected."""
    usable = lead > 1e-12
    if (without := 1 - float(usable.mean())) > UNSTABLE:
        return None, f"in {without:.0%} of the resamples there is nothing to keep"
    ratios = kept[usable] / lead[usable]
    return (float(np.quantile(ratios, 0.025)), float(np.quantile(ratios, 0.975))), ""


def _offers(group: Sequence[tuple[Cell, Mapping[str, float]]]) -> Iterable[tuple[str, Offer]]:
    for cell, solved in group:
        if cell.quality is not None and cell.cost is not None:
            offer = Offer(interface=cell.interface, quality=cell.quality, cost=cell.cost, solved_by_task=solved)
            yield cell.interface, offer


def _with_front(cells: Sequence[Cell], offers: Mapping[str, Offer], seed: int) -> list[Cell]:
    front = pareto(list(offers.values()))
    chosen: Recommendation | None = None
    if cells and cells[0].timing == ALL:
        alone = [cost for cell in cells for cost in (cell.cost_low, cell.cost_high) if cost is not None]
        budget = max(alone, default=None)
        chosen = recommend(list(offers.values()), budget=budget, seed=seed)
    marked = []
    for cell in cells:
        is_chosen = chosen is not None and chosen.interface == cell.interface
        why = chosen.reason if chosen is not None and chosen.interface is None else ""
        marked.append(
            msgspec.structs.replace(
                cell,
                is_on_front=cell.interface in front,
                is_recommended=is_chosen,
                not_separated=chosen.not_separated if is_chosen and chosen is not None else (),
                note="; ".join(filter(None, (f"none recommended: {why}" if why else "", cell.note))),
            )
        )
    return marked


def row_of(cell: Cell, **more: Any) -> dict[str, Any]:
    """A row of ``handoff_tax``; ``more``: the pair and the unit."""
    return {
        **more,
        "direction": cell.direction,
        "timing": cell.timing,
        "interface": cell.interface,
        "quality": cell.quality,
        "quality_lc": cell.quality_low,
        "quality_hc": cell.quality_high,
        "cost": cell.cost,
        "cost_lc": cell.cost_low,
        "cost_hc": cell.cost_high,
        "qrec": cell.qrec.value,
        "qrec_low": cell.qrec_interval and cell.qrec_interval[0],
        "qrec_high": cell.qrec_interval and cell.qrec_interval[1],
        "qrec_reason": cell.qrec.reason,
        "csret": cell.csret.value,
        "csret_low": cell.csret_interval and cell.csret_interval[0],
        "csret_high": cell.csret_interval and cell.csret_interval[1],
        "csret_reason": cell.csret.reason,
        "tax": cell.tax,
        "is_on_front": cell.is_on_front,
        "is_recommended": cell.is_recommended,
        "not_separated": list(cell.not_separated),
        "n_runs": cell.n_runs,
        "n_tasks": cell.n_tasks,
        "unmatched": cell.unmatched,
        "note": cell.note,
    }
