"""Contrasts in words. Each sentence names both arms, the view, the interval and the number of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from handoff.diagnosis.contrast import Contrast

_NAMES = {
    "steps": "steps",
    "prompt_tokens": "prompt tokens",
    "hrs": "HRS",
    "si_f1": "state-inference F1",
    "destroyed_fixes": "destroyed fixes",
    "solve_rate": "solve rate",
}


def sentence(contrasts: Sequence[Contrast]) -> str:
    """All metrics of one pair of arms under one view as one sentence."""
    first = contrasts[0]
    parts = [_part(contrast) for contrast in contrasts]
    return (
        f"{first.arm} against {first.other}, {first.view} view ({first.n_points} points of {first.n_tasks} tasks): "
        f"{'; '.join(parts)}."
    )


def _part(contrast: Contrast) -> str:
    name = _NAMES.get(contrast.metric, contrast.metric)
    if contrast.change is None:
        return f"{name}: nothing to compare"
    if contrast.is_relative:
        value, bounds = f"{contrast.change:+.0%}", [f"{b:+.0%}" for b in (contrast.low, contrast.high) if b is not None]
    else:
        value, bounds = f"{contrast.change:+.2f}", [f"{b:+.2f}" for b in (contrast.low, contrast.high) if b is not None]
    interval = f" ({bounds[0]} to {bounds[1]})" if bounds else ""
    return f"{name} {value}{interval}" + ("" if contrast.is_clear or not bounds else ", within chance")
