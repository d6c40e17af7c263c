"""The round report: one self-contained HTML file, no script, no request to anywhere.

Text from trajectories is hostile: Jinja escapes all of it, and control characters are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2
import msgspec

from handoff.plots import Bar, cost_curve, interval_chart
from handoff.report import breaks as breaking
from handoff.report.breaks import Breaking, Curve
from handoff.report.tables import ARMS, MEASURES, Against, Line, contrast_text

PLOTTED = (
    ("steps", "Steps to finish, median view of cost"),
    ("prompt_tokens", "Prompt tokens"),
    ("hrs", "HRS"),
    ("si_f1", "State inference F1"),
)


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """One handoff shown in full: the four views of one point side by side."""

    point_id: str
    task_id: str
    h: int
    n_steps: int
    labels: tuple[str, ...]
    state_status: str
    views: tuple[tuple[str, int, str], ...]
    """(view, tokens, text)."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a round's page shows, already counted elsewhere."""

    round: str
    seed: int
    sandbox: str
    corpus: tuple[tuple[str, int], ...]
    """(what, how many)."""
    labels: tuple[tuple[str, int], ...]
    """(point label, points); labels that never occurred are there with 0."""
    states: tuple[tuple[str, int], ...]
    """(state status, trajectories)."""
    lines: tuple[Line, ...]
    tiers: tuple[Line, ...]
    """Lines whose ``arm`` is ``arm · tier``."""
    tier_order: tuple[Mapping[str, Any], ...]
    """Rows of table ``tiers``: of test points, and of validation points where they steer the next round."""
    curated: tuple[tuple[str, str, int, int], ...]
    """(kind, view, rows, trained tokens)."""
    funnel: tuple[tuple[str, str, int], ...]
    """(gate, verdict, candidates)."""
    quarantine: tuple[Mapping[str, Any], ...]
    variants: tuple[tuple[str, str, int], ...]
    """(disturbance, oracle, variants)."""
    policies: tuple[Mapping[str, Any], ...]
    exports: tuple[Mapping[str, Any], ...]
    handoffs: tuple[Handoff, ...]
    contrasts: tuple[Against, ...]
    """Arm against arm on matched points."""
    breaks: tuple[Breaking, ...] = ()
    worst_steps: tuple[Mapping[str, Any], ...] = ()
    """Rows of ``worst_points``: the worst of their run."""
    curves: tuple[Curve, ...] = ()
    """Of searched runs."""


def render_report(report: Report) -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("handoff.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.filters["contrast"] = contrast_text
    environment.filters["figures"] = breaking.figures
    environment.filters["shown"] = breaking.shown
    environment.filters["shade"] = breaking.shade
    environment.filters["words"] = breaking.disturbance_words
    environment.filters["worst"] = breaking.worst_lines
    return environment.get_template("round.html").render(
        r=report,
        measures=MEASURES,
        headings={m: h for m, h, _ in MEASURES},
        arms=dict(ARMS),
        plots=list(_plots(report.lines)),
        breaks=_by_arm(report.breaks),
        break_measures=breaking.MEASURES,
        few_runs=breaking.FEW_RUNS,
        few_tasks=breaking.FEW_TASKS,
        curves=[cost_curve(curve.title, curve.places, curve.worst, width=480) for curve in report.curves],
    )


def _by_arm(lines: Sequence[Breaking]) -> list[tuple[str, list[Breaking]]]:
    """Lines of each arm, the one that handoff data taught first."""
    found: dict[str, list[Breaking]] = {}
    for line in lines:
        found.setdefault(line.arm, []).append(line)
    names = [name for name, _ in ARMS]
    return sorted(
        found.items(), key=lambda arm: (arm[0] != "E", names.index(arm[0]) if arm[0] in names else 99, arm[0])
    )


def _plots(lines: Sequence[Line]) -> Iterable[str]:
    for metric, title in PLOTTED:
        bars = [
            Bar(group=f"view: {line.view}", name=line.arm, value=cell.value, low=cell.low, high=cell.high)
            for line in lines
            for cell in line.cells
            if cell.metric == metric
        ]
        if bars:
            yield interval_chart(title.split(",")[0], bars)


def visible(text: str, limit: int = 20_000) -> str:
    """Text with control and bidirectional characters shown as symbols, cut at ``limit`` characters (and saying so)."""
    shown = "".join(c if c in "\n\t" or c.isprintable() else _symbol(c) for c in text[:limit])
    return shown if len(text) <= limit else f"{shown}\n… {len(text) - limit:,} more characters"


def _symbol(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
