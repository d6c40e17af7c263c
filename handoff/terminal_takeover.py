"""What ``handoff takeover`` and ``handoff worst-point`` print.

Text of models and of commands is hostile, and is made safe (``terminal.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from handoff.takeover import read_transcript
from handoff.terminal import line, out, print_pairs, table
from handoff.views.written import read_writing

if TYPE_CHECKING:
    from handoff.adversary.search import Confirmation, Visited
    from handoff.stages.branching import Searched
    from handoff.stages.worst_points import WorstPoint


def print_takeover(row: Mapping[str, Any]) -> None:
    """One takeover: what was done at each step, how it ended, what it cost."""
    listed = table("step", "calls", "exit", "what came back")
    for number, step in enumerate(read_transcript(row["transcript"]), start=1):
        codes = ["–" if seen.exit_code is None else str(seen.exit_code) for seen in step.observations]
        listed.add_row(
            str(number),
            "\n".join(escape(line(f"{action.tool} {action.arguments}", 90)) for action in step.actions)
            or "[dim]none[/dim]",
            "\n".join(codes),
            "\n".join(escape(line(seen.text, 60)) for seen in step.observations),
        )
    out.print(listed)
    solved = {True: "yes", False: "no", None: "unknown"}[row["solved"]]
    tests = "" if row["tests_total"] is None else f", {row['tests_passed']} of {row['tests_total']} tests pass"
    counted = (row["endpoint_prompt_tokens"], row["endpoint_completion_tokens"])
    pairs = [
        ("takeover", row["takeover_id"]),
        ("successor, view", f"{row['arm']}, {row['view']}"),
        ("ended", row["status"]),
        ("solved", solved + tests),
        ("steps, events", f"{row['steps']}, {row['events']}"),
        ("prompt tokens", f"{row['prompt_tokens']}, the first {row['first_prompt_tokens']} ({row['tokenizer']})"),
        (
            "as the endpoint counts",
            "it did not say" if None in counted else f"{counted[0]} prompt, {counted[1]} completion",
        ),
        ("cost", "unknown" if row["dollars"] is None else f"${row['dollars']:.4f}"),
        (
            "believed done",
            "no valid answer" if row["probe_done"] is None else ", ".join(row["probe_done"]) or "nothing",
        ),
    ]
    print_pairs("", [*pairs, *([("note", row["note"])] if row["note"] else [])])


def print_worst_point(worst: WorstPoint) -> None:
    """One search: the cost curve as a table, and the worst step with what confirms it."""
    found = worst.found
    if found.visited:
        listed = table("step", "runs", "mean excess cost", "95 %", "guess", "", title="from the first step to the last")
        for own in found.visited:
            limits = "" if own.low is None or own.high is None else f"{own.low:.2f} … {own.high:.2f}"
            guess = "" if own.surrogate is None else f"{own.surrogate:.2f}"
            cost = "no value" if own.mean is None else f"{own.mean:.2f}"
            listed.add_row(str(own.h), str(len(own.costs)), cost, limits, guess, _mark(own, found.worst))
        out.print(listed)
    winner = next((own for own in found.visited if own.point_id == found.worst), None)
    again = found.confirmation
    pairs = [
        ("run", f"{worst.trajectory_id}, {worst.n_steps} steps"),
        ("successor, view", f"{worst.arm}, {worst.view}"),
        ("worst step", _worst_step(worst, None if winner is None else f"{winner.h} ({winner.point_id})")),
        ("confirmed by fresh runs", "no" if again is None else _confirmed(again, len(found.confirmed))),
        ("takeovers", f"{found.runs} chose; running every step as often as the worst takes {found.uniform_runs}"),
        ("solvable", f"{worst.trials} takeovers with the whole trace"),
        ("guess", f"proxy: {worst.surrogate}" + (f" ({worst.surrogate_note})" if worst.surrogate_note else "")),
    ]
    seldom = [own.h for own in found.visited if own.is_near_worst is None and own.costs]
    if seldom:
        pairs.append(("marked ?", "run too seldom to say whether they are as bad"))
    if worst.unsolvable:
        pairs.append(("no candidates", f"never solved so: {_steps(worst.unsolvable)}"))
    if worst.unjudged:
        pairs.append(("not known", f"not all takeovers there could be judged: {_steps(worst.unjudged)}"))
    print_pairs("", pairs)


def _mark(own: Visited, worst: str | None) -> str:
    if own.point_id == worst:
        return "[red]worst[/red]"
    return {True: "near", False: "", None: "?" if own.costs else ""}[own.is_near_worst]


def _worst_step(worst: WorstPoint, found: str | None) -> str:
    if found is not None:
        return found
    if not worst.found.visited:
        return f"none: {worst.arm} solves the task from no step, even with the whole trace, so nothing was searched"
    return "none: no takeover has a cost"


def _steps(steps: Sequence[int]) -> str:
    return f"step{'s' * (len(steps) > 1)} {', '.join(map(str, steps))}"


def _confirmed(again: Confirmation, n: int) -> str:
    limits = again.confirmed_low, again.confirmed_high
    between = "" if None in limits else f" ({limits[0]:.2f} … {limits[1]:.2f})"
    return f"{again.confirmed_cost:.2f}{between}, {n} runs"


def print_branches(found: Searched) -> None:
    """A takeover and its branches: where it could have gone otherwise, and what came of that."""
    listed = table("step", "instead of what was done", "chance", "entropy", "solved", "tests", "steps", "")
    tried = [branch for branch in found.branches if branch.verdict == "tried"]
    for place, (branch, row) in enumerate(zip(tried, found.tried, strict=True)):
        listed.add_row(
            str(branch.step),
            escape(line(branch.text, 70)),
            f"{branch.chance:.2f}",
            f"{branch.entropy:.2f}",
            *_ended(row),
            "[green]best[/green]" if place == found.best else "",
        )
    if tried:
        out.print(listed)
    solved, tests, steps = _ended(found.base)
    pairs = [
        ("the takeover itself", f"solved {solved}, {tests} tests, {steps} steps ({found.base['takeover_id']})"),
        ("branches", f"{len(found.tried)} executed, {sum(bool(row['solved']) for row in found.tried)} solved the task"),
        ("left out", _left_out(found)),
    ]
    if not found.branches:
        pairs.append(("why none", "at every step the policy was all but sure"))
    print_pairs("", pairs)


def _left_out(found: Searched) -> str:
    counted = {verdict: sum(b.verdict == verdict for b in found.branches) for verdict in ("pruned", "over budget")}
    return f"{counted['pruned']} near-duplicates, and {counted['over budget']} for want of runs"


def _ended(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """(solved, tests, steps) of a takeover."""
    solved = {True: "yes", False: "no", None: "unknown"}[row["solved"]]
    tests = "–" if row["tests_total"] is None else f"{row['tests_passed']} of {row['tests_total']}"
    return solved, tests, str(row["steps"])


def print_writing(row: Mapping[str, Any]) -> None:
    """What a model's writing of one view took, and what became of its claims; a row of ``view_renderings``."""
    writing = read_writing(row)
    assert writing is not None, "rules wrote it"
    counted = (writing.prompt_tokens, writing.completion_tokens)
    if writing.claims is None:
        claims = f"not verified; {writing.contradicted_claims} sentences contradict the recording"
    else:
        claims = f"{writing.claims}; left out, since the recording does not bear them out: {writing.rejected_claims}"
    pairs = [
        ("view, author", f"{row['view']}, {row['author']}"),
        ("answers", str(writing.attempts)),
        ("claims", claims),
        ("writing tokens", f"{row['writing_tokens']} ({row['tokenizer']})"),
        (
            "as the endpoint counts",
            "it did not say" if None in counted else f"{counted[0]} prompt, {counted[1]} completion",
        ),
        ("cost", "unknown" if writing.dollars is None else f"${writing.dollars:.4f}"),
    ]
    print_pairs("", pairs)
