"""The tables people read, built from lake rows: the same numbers for the terminal, the page and the UI.

Nothing is computed here. A cell is one row of ``robustness``; a figure that has no value shows its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from handoff.diagnosis.contrast import Contrast

MEASURES: tuple[tuple[str, str, int], ...] = (
    # metric, heading, decimals
    ("solve_rate", "solved", 2),
    ("steps", "steps", 1),
    ("prompt_tokens", "tokens", 0),
    ("e_cr", "E_CR", 2),
    ("p_si", "P_SI", 2),
    ("si_precision", "precision", 2),
    ("si_f1", "F1", 2),
    ("p_pc", "P_PC", 2),
    ("hrs", "HRS", 2),
    ("destroyed_fixes", "fixes lost", 2),
)
"""What the takeover table shows, in order (docs/science.md §5–§9)."""

ARMS: tuple[tuple[str, str], ...] = (
    ("A", "single-session data"),
    ("A+opening", "A, forced to look first (control)"),
    ("B", "A + as many single-session labels (control)"),
    ("E", "expert takeovers: handoff data"),
    ("expert", "reference: the ideal cold successor"),
    ("resampled", "reference: the predecessor goes on"),
    ("oracle", "reference: knows the remaining bugs"),
    ("replay", "reference: the recorded suffix, executed again"),
)
"""Successors in the order of the table, with what each is (docs/science.md §13). Unknown arms follow by name."""

VIEWS = ("repo", "trace", "summary", "structured")


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One figure with its interval."""

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n_runs: int
    n_tasks: int
    reason: str | None
    decimals: int

    @property
    def text(self) -> str:
        """The value, or a dash."""
        return "–" if self.value is None else self._figure(self.value)

    @property
    def interval(self) -> str:
        """The 95 % interval, or nothing."""
        if self.low is None or self.high is None:
            return ""
        return f"{self._figure(self.low)}–{self._figure(self.high)}"

    def _figure(self, value: float) -> str:
        if self.decimals == 0 and abs(value) >= 1000:
            return f"{value / 1000:,.3g}k"
        text = f"{value:,.{self.decimals}f}"
        return text.removeprefix("0") if self.decimals == 2 and text.startswith("0.") else text


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One successor under one view."""

    arm: str
    view: str
    n_runs: int
    n_points: int
    n_tasks: int
    cells: tuple[Cell, ...]
    not_judged: int = 0
    """Runs of which nobody knows whether they solved the task; they are in no solve rate."""

    @property
    def runs(self) -> str:
        """The number of runs, and how many of them were not judged."""
        return f"{self.n_runs} ({self.not_judged} not judged)" if self.not_judged else str(self.n_runs)


def takeover_table(
    rows: Iterable[Mapping[str, Any]], *, split: str = "test", label: str = "all", tier: str = "none"
) -> tuple[Line, ...]:
    """The lines of the takeover table from rows of ``robustness``; ``tier='none'`` is undisturbed."""
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["split"] == split and row["label"] == label and row["tier"] == tier and row["view"] in VIEWS:
            found.setdefault((row["arm"], row["view"]), {})[row["metric"]] = row
    lines = []
    for arm, view in sorted(found, key=_line_order):
        measures = found[arm, view]
        lines.append(
            Line(
                arm=arm,
                view=view,
                n_runs=max(row["n_runs"] for row in measures.values()),
                n_points=max(row["n_points"] for row in measures.values()),
                n_tasks=max(row["n_tasks"] for row in measures.values()),
                cells=tuple(cell_of(metric, decimals, measures.get(metric)) for metric, _, decimals in MEASURES),
                not_judged=_without_value(measures.get("solve_rate")),
            )
        )
    return tuple(lines)


def _without_value(row: Mapping[str, Any] | None) -> int:
    return 0 if row is None else round(row["n_runs"] * (1 - row["coverage"]))


def cell_of(metric: str, decimals: int, row: Mapping[str, Any] | None) -> Cell:
    """The figure in a row of ``robustness``; one without a value where there is no row."""
    if row is None:
        return Cell(
            metric=metric,
            value=None,
            low=None,
            high=None,
            n_runs=0,
            n_tasks=0,
            reason="not measured",
            decimals=decimals,
        )
    return Cell(
        metric=metric,
        value=row["value"],
        low=row["low"],
        high=row["high"],
        n_runs=row["n_runs"],
        n_tasks=row["n_tasks"],
        reason=row["reason"],
        decimals=decimals,
    )


def _line_order(key: tuple[str, str]) -> tuple[int, int, str]:
    arm, view = key
    names = [name for name, _ in ARMS]
    return (VIEWS.index(view), names.index(arm) if arm in names else len(names), arm)


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against another under one view: a line of the contrast table."""

    view: str
    arm: str
    other: str
    n_points: int
    n_tasks: int
    contrasts: tuple[Contrast, ...]


def contrast_table(contrasts: Iterable[Contrast]) -> tuple[Against, ...]:
    """Contrasts grouped by view and pair, in the order given."""
    lines: dict[tuple[str, str, str], list[Contrast]] = {}
    for contrast in contrasts:
        lines.setdefault((contrast.view, contrast.arm, contrast.other), []).append(contrast)
    return tuple(
        Against(
            view=view,
            arm=arm,
            other=other,
            n_points=max(c.n_points for c in own),
            n_tasks=max(c.n_tasks for c in own),
            contrasts=tuple(own),
        )
        for (view, arm, other), own in lines.items()
    )


def contrast_text(contrast: Contrast) -> tuple[str, str]:
    """(the change, its interval), as people read them."""
    if contrast.change is None:
        return "–", ""

    def said(value: float) -> str:
        text = f"{value:+.0%}" if contrast.is_relative else f"{value:+.2f}"
        return text.replace("-", "−")

    if contrast.low is None or contrast.high is None:
        return said(contrast.change), ""
    return said(contrast.change), f"{said(contrast.low)} to {said(contrast.high)}"


def count_by(rows: Iterable[Mapping[str, Any]], *keys: str) -> list[tuple[tuple[str, ...], int]]:
    """How many rows have each combination of values, sorted; ``None`` shows as a dash."""
    counts: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = tuple("–" if row[k] is None else str(row[k]) for k in keys)
        counts[key] = counts.get(key, 0) + 1
    return sorted(counts.items())


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table whose cells cannot break out of it, whatever text they hold."""
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    lines += ["| " + " | ".join(plain(str(cell)) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def plain(text: str, limit: int = 200) -> str:
    """Text of unknown origin as one harmless line: no control characters, markup or table bars."""
    kept = "".join(c if c.isprintable() else "·" for c in text[: limit + 1])
    for character, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "&#124;"),
        ("`", "&#96;"),
        ("[", "&#91;"),
    ):
        kept = kept.replace(character, entity)
    return kept if len(text) <= limit else kept + "…"
