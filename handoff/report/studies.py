"""The pages of the two studies: self-contained HTML. Every figure comes from the tables, none is made here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2

from handoff.plots import Bar, Spot, front_chart, interval_chart
from handoff.report.page import visible

Row = Mapping[str, Any]

NAMES = {
    "prompt_tokens": "prompt tokens",
    "first_prompt_tokens": "first prompt",
    "completion_tokens": "written",
    "total_tokens": "all tokens",
}
"""Measures as people read them, where their column is named otherwise."""
LABELS = {
    "first_meaningful_modification": "first modification",
    "post_first_validation_result": "first validation",
    "post_failed_repair_edit": "failed repair",
}
"""Point labels that are too long for the margin of a plot."""
DIRECTIONS = {"escalation": "low → high", "downshift": "high → low"}
SHOWN_COSTS = ("events", "prompt_tokens", "first_prompt_tokens", "completion_tokens", "total_tokens")
"""Measures of debt that people look at first; the others are in the table."""


class Ratio(NamedTuple):
    """One figure with its interval, as people read it."""

    text: str
    interval: str


def number(value: float | None) -> str:
    """A figure in few characters; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.2f}" if abs(value) < 100 else f"{value / 1000:,.1f}k" if abs(value) >= 10_000 else f"{value:,.0f}"


def ratio(row: Row, value: str, low: str, high: str) -> Ratio:
    """A value with its interval from a row."""
    known = row[low] is not None and row[high] is not None
    return Ratio(number(row[value]), f"{number(row[low])} to {number(row[high])}" if known else "")


def debt_plots(rows: Iterable[Row]) -> list[str]:
    """For each successor, the ratio of median prompt tokens against the bare repository, view by view and label."""
    chosen = [row for row in rows if row["metric"] == "prompt_tokens"]
    return [
        interval_chart(
            f"{arm}: median prompt tokens against repo",
            [
                Bar(
                    group=row["view"],
                    name=str(LABELS.get(row["label"], row["label"]))[:22],
                    value=row["ratio_of_medians"],
                    low=row["ratio_low"],
                    high=row["ratio_high"],
                )
                for row in chosen
                if row["arm"] == arm
            ],
            unit="1 is repo",
        )
        for arm in dict.fromkeys(row["arm"] for row in chosen)
    ]


def tax_plots(rows: Sequence[Row]) -> list[str]:
    """For each direction the cost and quality of every interface over all timings, and of both models alone."""
    plots = []
    for direction, words in DIRECTIONS.items():
        own = [row for row in rows if row["direction"] == direction and row["timing"] == "all"]
        spots = [
            Spot(name=row["interface"], x=row["cost"], y=row["quality"], is_on_front=row["is_on_front"])
            for row in own
            if row["cost"] is not None and row["quality"] is not None
        ]
        alone = next((row for row in own if row["n_tasks"]), None)
        if alone is not None and spots:
            marks = [
                (f"{alone[name]} alone", alone[f"cost_{short}"], alone[f"quality_{short}"])
                for name, short in (("low", "lc"), ("high", "hc"))
                if alone[f"cost_{short}"] is not None
            ]
            title = f"{direction} ({words}): solve rate against cost of a task"
            plots.append(front_chart(title, spots, marks, unit=alone["unit"]))
    return plots


def recommendations(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(direction, what to take there and why), from rows of ``handoff_tax``."""
    found = []
    for direction in DIRECTIONS:
        own = [row for row in rows if row["direction"] == direction and row["timing"] == "all"]
        chosen = next((row for row in own if row["is_recommended"]), None)
        if chosen is not None:
            rest = ", ".join(chosen["not_separated"])
            text = chosen["interface"] + (f"; at 95 % not separated from {rest}" if rest else "; clearly the best")
        elif own:
            text = next((part for row in own for part in row["note"].split("; ") if part.startswith("none")), "none")
        else:
            continue
        found.append((direction, text))
    return found


def render_debt(name: str, rows: Sequence[Row], runs: int) -> str:
    """The page of a debt study."""
    return (
        _environment()
        .get_template("debt.html")
        .render(
            name=name,
            rows=[row for row in rows if row["metric"] in (*SHOWN_COSTS, "solved")],
            runs=runs,
            plots=debt_plots(rows),
            names=NAMES,
        )
    )


def render_tax(name: str, rows: Sequence[Row], runs: int) -> str:
    """The page of a tax study."""
    return (
        _environment()
        .get_template("tax.html")
        .render(
            name=name,
            rows=rows,
            runs=runs,
            plots=tax_plots(rows),
            recommended=recommendations(rows),
            directions=DIRECTIONS,
        )
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("handoff.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(visible=visible, number=number)
    environment.globals.update(ratio=ratio)
    return environment
