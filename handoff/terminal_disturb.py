"""What ``handoff disturb`` prints. Text of recordings is hostile, and is made safe (``terminal.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from handoff.adversary import DISTURBANCES, Noise, Scene, tree_changes
from handoff.adversary.kinds import said_of
from handoff.terminal import line, out, print_pairs, print_text, print_wide, table

if TYPE_CHECKING:
    from handoff.stages.disturbances import Disturbed, Measured

_COLOURS = {"preserved": "green", "broken": "red", "not_run": "yellow"}


def print_kinds() -> None:
    """Every kind of disturbance, by family."""
    listed = table("kind", "family", "what happens")
    for each in DISTURBANCES:
        listed.add_row(each.kind, each.family.replace("_", " "), escape(said_of(each)))
    out.print(listed)


def print_disturbed(disturbed: Disturbed) -> None:
    """One disturbed point: its recipes, what they change of tree, view and task, and what the oracle check says."""
    variant, row = disturbed.variant, disturbed.row
    listed = table("kind", "severity", "seed", "file", "parts", "what it writes")
    for recipe in variant.recipes:
        parts = ", ".join(map(str, recipe.parts[:12])) + (" …" if len(recipe.parts) > 12 else "")
        listed.add_row(
            recipe.kind,
            f"{recipe.severity:g}",
            str(recipe.seed),
            escape(line(recipe.path, 80)),
            parts,
            escape(line(recipe.text, 80)),
        )
    out.print(listed)
    changes = tree_changes(variant.before, variant.after)
    for path, text in changes.items():
        print_difference(f"tree: {path}", _text(variant.before.files.get(path)), _text(text))
    print_difference("view", variant.before.view_text, variant.after.view_text)
    print_difference("task", variant.before.task, variant.after.task)
    for noise in variant.after.noise[len(variant.before.noise) :]:
        out.print(f"[bold]while the takeover runs[/bold] {_said(noise)}")
    unchanged = [name for name, same in _same(variant.before, variant.after).items() if same]
    outcome = f"[{_COLOURS[row['oracle']]}]{row['oracle'].replace('_', ' ')}[/{_COLOURS[row['oracle']]}]"
    out.print(f"[bold]oracle[/bold] {outcome}: {escape(line(row['oracle_detail'], 300))}")
    print_pairs(
        "",
        [
            ("point, view", f"{variant.point_id}, {variant.before.view}"),
            ("variant", variant.variant_id),
            ("tree", row["tree"] or "unknown"),
            ("unchanged", ", ".join(unchanged) or "nothing"),
        ],
    )


def print_measured(measured: Measured) -> None:
    """What each kind costs a successor under each view."""
    title = f"change of excess cost, {measured.arm}, severity {measured.severity:g}, 95 % by task"
    listed = table("kind", "view", "change", "95 %", "", "solved", "obeyed", "pairs", "tasks", title=title)
    for own in measured.lines:
        limits = "no interval" if own.low is None or own.high is None else f"{own.low:+.3f} … {own.high:+.3f}"
        harder = {True: "[red]harder[/red]", False: "not shown", None: "unknown"}[own.is_harder]
        listed.add_row(
            own.kind,
            own.view,
            f"{own.change:+.3f}",
            limits,
            harder,
            f"{own.solved:.2f} → {own.solved_disturbed:.2f}",
            "" if own.obeyed is None else f"{own.obeyed:.2f} ({own.obeyed_low:.2f} … {own.obeyed_high:.2f})",
            str(own.n_pairs),
            str(own.n_tasks),
        )
    print_wide(listed)
    out.print(f"{measured.rejected} disturbed points failed the oracle check, {measured.unfit} had nothing to disturb")


def print_tiers(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as of table ``tiers``: how hard each tier is, and against the tier before."""
    listed = table("successor", "tier", "HRS", "95 %", "solved", "excess cost", "runs", "tasks", "", title=title)
    for row in rows:
        listed.add_row(
            row["arm"],
            row["tier"],
            _figure(row["hrs"]),
            "" if row["hrs_low"] is None else f"{row['hrs_low']:.2f} … {row['hrs_high']:.2f}",
            _figure(row["solve_rate"]),
            _figure(row["excess_cost"]),
            str(row["n_runs"]),
            str(row["n_tasks"]),
            {"harder": "[green]harder[/green]", "first": ""}.get(row["order"], f"[yellow]{row['order']}[/yellow]"),
        )
    print_wide(listed)
    for row in rows:
        if row["order"] != "first":
            out.print(f"[bold]{row['arm']} {row['tier']}[/bold] {escape(row['why'])}")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def print_difference(what: str, before: str, after: str) -> None:
    """What is different, as a diff; nothing where nothing is."""
    if before == after:
        return
    out.print(f"[bold]{escape(line(what))}[/bold]")
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    print_text("\n".join(lines) or "only white space at the end of lines differs")


def _same(before: Scene, after: Scene) -> dict[str, bool]:
    return {
        "tree": not tree_changes(before, after),
        "view": before.view_text == after.view_text,
        "task": before.task == after.task,
        "surroundings": before.noise == after.noise,
    }


def _said(noise: Noise) -> str:
    if noise.tools:
        return f"these tools are offered and lead nowhere: {', '.join(noise.tools)}"
    return f"{noise.severity:.0%} of the answers are noisy (seed {noise.seed})"


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")
