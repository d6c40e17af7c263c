"""The names of views: what a user may ask for, and what tables hold (``docs/science.md §3``).

A name is a kind, or ``window:N`` with the number of steps. ``drop`` is how the study of the handoff tax calls
``repo``: it may be asked for, and no table holds it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from handoff.errors import InputError

Kind: TypeAlias = Literal[
    "repo", "trace", "summary", "structured", "recorded", "window", "diff", "diet", "compact_pre", "compact_suf"
]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order in which they came into being: a row's ``view_id`` counts by it, so a new one goes to the end."""

ALIASES = {"drop": "repo"}
"""Other names of a view."""

LONGEST_WINDOW = 4095
"""Steps; a longer window is a trace."""

WRITTEN = frozenset({"summary", "structured", "compact_pre", "compact_suf"})
"""Kinds that someone has to phrase: rules, or a model."""

_OFFERED = "repo, trace, summary, structured, recorded, drop, window:N, diff, diet, compact_pre, compact_suf"


class Interface(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One view by its name."""

    kind: Kind
    steps: int | None = None
    """Of a window: how many of the last steps."""

    @property
    def name(self) -> str:
        """The one name that tables hold."""
        return self.kind if self.steps is None else f"{self.kind}:{self.steps}"

    @property
    def is_written(self) -> bool:
        """Whether someone has to phrase it."""
        return self.kind in WRITTEN


def parse_view(name: str) -> Interface:
    """The view of that name. ``InputError`` that lists the views when there is none."""
    kind, colon, steps = ALIASES.get(name, name).partition(":")
    if kind == "window":
        if steps.isascii() and steps.isdecimal() and steps[0] != "0" and len(steps) <= 4:
            if int(steps) <= LONGEST_WINDOW:
                return Interface(kind="window", steps=int(steps))
            raise InputError(f"{name} is longer than {LONGEST_WINDOW} steps; ask for the trace")
        raise InputError(f"{name!r} is no window; write window:N with the number of steps, such as window:20")
    for known in KINDS:
        if kind == known and not colon:
            return Interface(kind=known)
    raise InputError(f"no view {name!r}; views are {_OFFERED}")
