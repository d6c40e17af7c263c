"""Where successors break: their failures by point label, view and disturbance, from rows of the lake.

Every figure stands with its interval and its number of runs. A cell of few runs is marked, and a figure is called
*worse* only where its interval and the one it is held against do not meet. How the figures are averaged is in
``diagnosis/robustness.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from handoff.diagnosis.robustness import ALL, UNDISTURBED
from handoff.report.tables import VIEWS, Cell, cell_of

MEASURES: tuple[tuple[str, str, int, bool], ...] = (
    # metric, heading, decimals, whether a high value is bad
    ("solve_rate", "solved", 2, False),
    ("crf_failed", "CRF", 2, True),
    ("sif_failed", "SIF", 2, True),
    ("pcf_failed", "PCF", 2, True),
    ("excess_cost", "excess cost", 1, True),
)
FEW_RUNS = 10
FEW_TASKS = 5
"""Cells with fewer runs, or of fewer tasks, are marked: their intervals say little."""
FIRST_LABELS = (ALL, "error", "intermediate", "milestone")
"""Shown first; other labels follow by name."""


class Breaking(msgspec.Struct, frozen=True, kw_only=True):
    """One successor at points of one label, under one view, with one disturbance."""

    arm: str
    label: str
    view: str
    disturbance: str
    """Kinds joined by `` + ``; ``none``."""
    n_runs: int
    n_tasks: int
    cells: tuple[Cell, ...]
    """In the order of ``MEASURES``."""
    worse: tuple[bool, ...]
    """Of each: its interval lies wholly on the bad side of the same successor's undisturbed runs at all points under
    that view. Never of a small cell."""

    @property
    def is_small(self) -> bool:
        """Too few runs, or of too few tasks, to say much."""
        return is_small(self.n_runs, self.n_tasks)

    @property
    def place(self) -> str:
        """The cell in words."""
        points = "all points" if self.label == ALL else f"{self.label.replace('_', ' ')} points"
        return f"{points}, {self.view}, {disturbance_words(self.disturbance)}"


def is_small(n_runs: int, n_tasks: int) -> bool:
    """Whether a cell has too few runs, or of too few tasks, to say much."""
    return n_runs < FEW_RUNS or n_tasks < FEW_TASKS


def disturbance_words(name: str) -> str:
    """A disturbance as people read it."""
    return "undisturbed" if name == UNDISTURBED else name.replace("_", " ")


def break_table(rows: Iterable[Mapping[str, Any]]) -> tuple[Breaking, ...]:
    """Cells from rows as of ``robustness`` whose ``tier`` is the disturbance; by arm, label, view and disturbance."""
    found: dict[tuple[str, str, str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["tier"] != ALL:
            found.setdefault((row["arm"], row["label"], row["view"], row["tier"]), {})[row["metric"]] = row
    lines = []
    for key in sorted(found, key=_order):
        arm, label, view, disturbance = key
        own, plain = found[key], found.get((arm, ALL, view, UNDISTURBED), {})
        n_runs = max(row["n_runs"] for row in own.values())
        n_tasks = max(row["n_tasks"] for row in own.values())
        is_exempt = (label, disturbance) == (ALL, UNDISTURBED) or is_small(n_runs, n_tasks)
        cells = tuple(cell_of(metric, decimals, own.get(metric)) for metric, _, decimals, _ in MEASURES)
        lines.append(
            Breaking(
                arm=arm,
                label=label,
                view=view,
                disturbance=disturbance,
                n_runs=n_runs,
                n_tasks=n_tasks,
                cells=cells,
                worse=tuple(
                    not is_exempt and _is_worse(cell, plain.get(metric), is_bad)
                    for cell, (metric, _, _, is_bad) in zip(cells, MEASURES, strict=True)
                ),
            )
        )
    return tuple(lines)


def _order(key: tuple[str, str, str, str]) -> tuple[object, ...]:
    arm, label, view, disturbance = key
    return (
        arm,
        FIRST_LABELS.index(label) if label in FIRST_LABELS else len(FIRST_LABELS),
        label,
        VIEWS.index(view) if view in VIEWS else len(VIEWS),
        view,
        disturbance != UNDISTURBED,
        disturbance,
    )


def _is_worse(cell: Cell, plain: Mapping[str, Any] | None, is_high_bad: bool) -> bool:
    if plain is None or plain["low"] is None or plain["high"] is None or cell.low is None or cell.high is None:
        return False
    return bool(cell.low > plain["high"] if is_high_bad else cell.high < plain["low"])


def shown(lines: Sequence[Breaking], is_first: bool) -> list[Breaking]:
    """Those of the labels that are shown first, or the others."""
    return [line for line in lines if (line.label in FIRST_LABELS) == is_first]


def worst_lines(lines: Sequence[Breaking], arm: str, most: int = 5) -> tuple[tuple[str, str], ...]:
    """(where, what) of an arm's cells that are clearly worse and not small, those with most such figures first."""
    own = [line for line in lines if line.arm == arm and any(line.worse)]
    own.sort(key=lambda line: (-sum(line.worse), line.cells[0].high if line.cells[0].high is not None else 1.0))
    return tuple((line.place, _figures(line)) for line in own[:most])


def _figures(line: Breaking) -> str:
    told = [
        f"{heading} {' ('.join(figures(cell))})"
        for cell, is_worse, (_, heading, _, _) in zip(line.cells, line.worse, MEASURES, strict=True)
        if is_worse
    ]
    return f"{', '.join(told)}; {line.n_runs} runs of {line.n_tasks} tasks"


def figures(cell: Cell) -> tuple[str, str]:
    """(value, interval) as people read them; a dash, or nothing, where there is none."""
    if cell.value is None:
        return "–", ""

    def said(value: float) -> str:
        text = f"{round(value, cell.decimals) + 0.0:.{cell.decimals}f}"
        return text.removeprefix("0").replace("-", "−") if cell.decimals == 2 and value < 1 else text.replace("-", "−")

    between = "" if cell.low is None or cell.high is None else f"{said(cell.low)} to {said(cell.high)}"
    return said(cell.value), between


def shade(cell: Cell) -> float:
    """How dark a cell is drawn, 0 to 1: by the end of the interval that speaks for the successor, so that what is not
    known is not dark."""
    if cell.low is None or cell.high is None:
        return 0.0
    if cell.metric == "solve_rate":
        return max(0.0, 1.0 - cell.high)
    if cell.metric == "excess_cost":
        return max(0.0, cell.low) / (max(0.0, cell.low) + 2.0)
    return max(0.0, cell.low)


def as_rows(lines: Iterable[Breaking]) -> list[tuple[str, ...]]:
    """A table for the terminal and the UI, under ``HEADINGS``. ``*``: clearly worse; ``few``: a small cell."""
    return [
        (
            line.arm,
            line.label,
            line.view,
            disturbance_words(line.disturbance),
            *(
                " ".join(
                    filter(None, (text + "*" * is_worse, between if "−" in between else between.replace(" to ", "–")))
                )
                for (text, between), is_worse in zip(map(figures, line.cells), line.worse, strict=True)
            ),
            f"{line.n_runs} of {line.n_tasks} tasks{', few' * line.is_small}",
        )
        for line in lines
    ]


HEADINGS = ("successor", "points", "view", "disturbance", *(heading for _, heading, _, _ in MEASURES), "runs")
"""Of ``as_rows``."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """What one searched run costs to take over, along its steps."""

    title: str
    places: tuple[Spot, ...]
    worst: str | None


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """One step of it (``plots.Place``)."""

    point_id: str
    h: int
    mean: float | None
    low: float | None
    high: float | None


def curves(rows: Iterable[Mapping[str, Any]], most: int = 3) -> tuple[Curve, ...]:
    """The cost curves of searched runs, from rows of ``worst_points``: the first by id."""
    by_run: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["how"] == "searched":
            by_run.setdefault((row["trajectory_id"], row["arm"], row["view"]), []).append(row)
    return tuple(
        Curve(
            title=f"{arm}, {view}: {trajectory_id[:10]}",
            places=tuple(
                Spot(point_id=r["point_id"], h=r["h"], mean=r["excess_cost"], low=r["low"], high=r["high"])
                for r in sorted(own, key=lambda r: r["h"])
            ),
            worst=next((row["point_id"] for row in own if row["is_worst"]), None),
        )
        for (trajectory_id, arm, view), own in sorted(by_run.items())[:most]
    )


def worst_steps(rows: Iterable[Mapping[str, Any]], most: int = 12) -> tuple[Mapping[str, Any], ...]:
    """Rows of ``worst_points`` that are the worst of their run, searched ones first, the costliest first."""
    own = [row for row in rows if row["is_worst"]]
    own.sort(key=lambda row: (row["how"] != "searched", -_cost(row), row["trajectory_id"], row["h"]))
    return tuple(own[:most])


def _cost(row: Mapping[str, Any]) -> float:
    cost = row["confirmed_cost"] if row["confirmed_cost"] is not None else row["excess_cost"]
    return float(cost or 0.0)
