"""Where a source run is cut in the tax study (``docs/science.md §9``).

====== ====================================================================================================
p5     after 5 % of its steps: the smallest h ≥ 1 with h ≥ 0.05·n
stuck:N the first h whose last N steps, h included, made no progress
tail:20 the first h after which less than 20 % of the steps are left
====== ====================================================================================================

A run that is too short for a timing, or never stuck, has no point there; it is counted and never imputed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from handoff.actions.history import history
from handoff.actions.operations import Key
from handoff.actions.paths import context_of
from handoff.errors import InputError
from handoff.trajectory import Trajectory

DEFAULT_TIMINGS = ("p5", "p10", "p20", "p30", "p50", "stuck:4", "tail:20")

_NAME = re.compile(r"(p|stuck:|tail:)([1-9][0-9]{0,3})", re.ASCII)


class Timing(NamedTuple):
    """One rule for the place of a cut."""

    kind: Literal["percentile", "stuck", "tail"]
    number: int
    """Per cent of the steps, or steps without progress."""


def read_timing(name: str) -> Timing:
    """``p10``, ``stuck:4`` or ``tail:20``. ``InputError`` for anything else."""
    found = _NAME.fullmatch(name)
    if found is None or (found[1] != "stuck:" and int(found[2]) > 99):
        raise InputError(f"no timing {name[:40]!r}; write p5 (per cent of the steps), stuck:4 (steps) or tail:20")
    kinds: dict[str, Literal["percentile", "stuck", "tail"]] = {"p": "percentile", "stuck:": "stuck", "tail:": "tail"}
    return Timing(kinds[found[1]], int(found[2]))


def cut_at(timing: Timing, trajectory: Trajectory) -> int | None:
    """The handoff index h of a run at a timing, 1 ≤ h < n; ``None`` when it has none."""
    n = len(trajectory.steps)
    match timing.kind:
        case "percentile":
            h = max(1, math.ceil(n * timing.number / 100))
        case "tail":
            h = next((h for h in range(1, n) if (n - h) * 100 < timing.number * n), n)
        case "stuck":
            h = _stuck(progress(trajectory), timing.number) or n
    return h if h < n else None


def cuts(names: Sequence[str], trajectory: Trajectory) -> dict[int, tuple[str, ...]]:
    """h → the timings that cut there, in the order of ``names``. A timing that has no place is in none."""
    found: dict[int, list[str]] = {}
    for name in names:
        h = cut_at(read_timing(name), trajectory)
        if h is not None:
            found.setdefault(h, []).append(name)
    return {h: tuple(found[h]) for h in sorted(found)}


def progress(trajectory: Trajectory) -> list[bool]:
    """Whether each step made progress [ours].

    It did when one of its actions has a key (kind, target) that the run did not have before, or when a validation
    came out better than every earlier one of the same target: passed where none had, or with fewer failures.
    Repeating a search, editing the same file once more and a test run no better than before are no progress.
    """
    made = [False] * len(trajectory.steps)
    seen: set[Key] = set()
    best: dict[str, float] = {}
    for event in history(trajectory.steps, context_of(trajectory.format, trajectory.source)):
        is_new = any(key not in seen for key in event.keys)
        seen.update(event.keys)
        result = event.result
        if result is not None and result.outcome is not None:
            left = 0.0 if result.outcome == "passed" else math.inf if result.failed is None else max(1.0, result.failed)
            is_new = is_new or left < best.get(result.target, math.inf)
            best[result.target] = min(left, best.get(result.target, math.inf))
        made[event.step - 1] = made[event.step - 1] or is_new
    return made


def _stuck(made: Sequence[bool], steps: int) -> int | None:
    run = 0
    for h, is_progress in enumerate(made, start=1):
        run = 0 if is_progress else run + 1
        if run == steps:
            return h
    return None
