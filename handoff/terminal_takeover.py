"""What ``handoff takeover`` prints. Text of models and of commands is hostile, and is made safe (``terminal.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from handoff.takeover import read_transcript
from handoff.terminal import line, out, print_pairs, table


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
