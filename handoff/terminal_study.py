"""What ``handoff study`` prints: the plan, and the tables of both studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from handoff.report.studies import NAMES, SHOWN_COSTS, Row, number, ratio, recommendations
from handoff.studies.planning import Plan
from handoff.terminal import line, out, print_wide, table


def print_plan(name: str, plan: Plan) -> None:
    """Runs, steps, tokens and money, cell by cell, and what the figures rest on."""
    listed = table("who", "is given", "where", "runs", "there", "steps", "tokens", "written", "dollars", "basis")
    for entry in plan.lines:
        listed.add_row(
            escape(line(entry.arm)),
            escape(line(entry.view)),
            escape(line(entry.cell)),
            f"{entry.runs:,}",
            f"{entry.known:,}" if entry.known else "",
            f"{entry.steps:,.0f}" if entry.steps else "–",
            number(entry.prompt_tokens) if entry.prompt_tokens else "–",
            number(entry.completion_tokens) if entry.completion_tokens else "–",
            _dollars(entry.dollars),
            entry.basis,
        )
    print_wide(listed)
    runs = f"{plan.runs:,} runs" if plan.is_exact else f"at most {plan.runs:,} runs"
    done = f", {plan.runs - plan.to_make:,} of them recorded" if plan.runs > plan.to_make else ""
    tokens = sum(entry.prompt_tokens for entry in plan.lines)
    out.print(
        f"[bold]{escape(name)}[/bold]: {runs}{done}; about {tokens:,.0f} prompt tokens; {_money(plan)}", soft_wrap=True
    )
    if plan.note:
        out.print(escape(plan.note), soft_wrap=True)


def _dollars(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"{dollars:,.2f}" if dollars else "–"


def _money(plan: Plan) -> str:
    if plan.dollars is None:
        return "the cost in dollars is unknown: an endpoint has no prices"
    return f"about ${plan.dollars:,.2f}" if plan.dollars else "nothing to pay"


def print_debt(rows: Sequence[Row], page: Path, *, label: str = "all") -> None:
    """Each view against the bare repository, over the points of one label."""
    listed = table(
        "successor", "view", "measure", "view", "repo", "ratio of medians", "median of ratios", "solved p", "n"
    )
    for row in rows:
        if row["label"] != label or row["metric"] not in (*SHOWN_COSTS, "solved"):
            continue
        medians = ratio(row, "ratio_of_medians", "ratio_low", "ratio_high")
        matched = ratio(row, "median_of_ratios", "median_low", "median_high")
        listed.add_row(
            escape(line(row["arm"])),
            escape(line(row["view"])),
            NAMES.get(row["metric"], row["metric"]),
            number(row["value"]),
            number(row["reference"]),
            f"{medians.text}\n[dim]{medians.interval}[/dim]",
            f"{matched.text}\n[dim]{matched.interval}[/dim]",
            "" if row["gained"] is None else f"{number(row['p_value'])}\n[dim]+{row['gained']} −{row['lost']}[/dim]",
            f"{row['n_points']} points\n[dim]{row['n_tasks']} tasks[/dim]",
        )
    print_wide(listed)
    labels = list(dict.fromkeys(row["label"] for row in rows if row["label"] != label))
    if labels:
        out.print(f"By point label ({', '.join(labels)}): on the page.", soft_wrap=True)
    _print_page(page)


def print_tax(rows: Sequence[Row], page: Path) -> None:
    """Quality and cost of every interface over all timings, QRec by timing, and what to take."""
    if not rows:
        out.print("No task could be worked on, so there is nothing to compare.")
        return
    out.print(
        f"low {escape(line(rows[0]['low']))}, high {escape(line(rows[0]['high']))}, cost in {rows[0]['unit']}; "
        "below solved and cost: low and high alone on the same tasks",
        soft_wrap=True,
    )
    listed = table("direction", "interface", "solved", "cost", "QRec", "tax", "CSRet", "n", "")
    for row in rows:
        if row["timing"] != "all":
            continue
        kept = ratio(row, "qrec", "qrec_low", "qrec_high")
        saved = ratio(row, "csret", "csret_low", "csret_high")
        listed.add_row(
            row["direction"],
            escape(line(row["interface"])),
            f"{number(row['quality'])}\n[dim]{number(row['quality_lc'])}, {number(row['quality_hc'])}[/dim]",
            f"{number(row['cost'])}\n[dim]{number(row['cost_lc'])}, {number(row['cost_hc'])}[/dim]",
            f"{kept.text}\n[dim]{kept.interval}[/dim]",
            number(row["tax"]),
            f"{saved.text}\n[dim]{saved.interval}[/dim]",
            f"{row['n_runs']} runs\n[dim]{row['n_tasks']} tasks[/dim]",
            "front" if row["is_on_front"] else "",
        )
    print_wide(listed)
    reasons = {(name, row[f"{name.lower()}_reason"]): None for row in rows for name in ("QRec", "CSRet")}
    for name, reason in reasons:
        if reason is not None:
            out.print(f"[dim]no {name}: {reason}[/dim]", soft_wrap=True)
    _print_timings(rows)
    for direction, text in recommendations(rows):
        out.print(f"[bold]{direction}[/bold]: {escape(line(text, 400))}", soft_wrap=True)
    _print_page(page)


def _print_timings(rows: Sequence[Row]) -> None:
    timings = list(dict.fromkeys(row["timing"] for row in rows if row["timing"] != "all"))
    listed = table("QRec", "interface", *timings)
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["direction"], row["interface"]), {})[row["timing"]] = row
    for (direction, interface), own in found.items():
        cells = [f"{number(own[t]['qrec'])}" if t in own else "–" for t in timings]
        listed.add_row(direction, escape(line(interface)), *cells)
    print_wide(listed)


def _print_page(page: Path) -> None:
    out.print(f"[bold]page[/bold]: {escape(str(page))}", soft_wrap=True)
