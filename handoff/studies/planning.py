"""What a study will cost, before it starts: runs, steps, tokens and money, cell by cell.

Expected figures are medians of runs that are there already; where a model has none, a run is charged its whole budget,
which is the most it can spend. Each line says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import msgspec

from handoff.errors import InputError
from handoff.takeover import Budget

SINGLE = "single session"
"""What a line says in place of a view for a run that is no takeover."""

AGREE = (
    "this study asks endpoints that cost money, or whose prices are not known; start it with `handoff study … --yes`"
)

Price: TypeAlias = Callable[[str, float, float], float | None]
"""(model, prompt tokens, completion tokens) → US dollars; ``None``: nobody knows its prices."""


class Wanted(NamedTuple):
    """One run that a study will make."""

    arm: str
    """Who acts."""
    view: str
    """What it is given; ``SINGLE`` for a session from the beginning."""
    cell: str
    """Where it counts, in words: a label, or direction and timing."""
    is_known: bool = False
    """It is recorded already, and will not be run again."""
    tokens: tuple[float, float] | None = None
    """Of a single call that writes notes, which is no run: prompt and reply, as far as they can be told beforehand."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one model under one view in one cell."""

    arm: str
    view: str
    cell: str
    runs: int
    known: int
    """Of these, recorded already: they cost nothing again and are in no sum."""
    steps: float
    """Of the runs still to make, together; as are the next three."""
    prompt_tokens: float
    completion_tokens: float
    dollars: float | None
    """``None``: the prices are not known."""
    basis: str
    is_call: bool = False
    """Calls that write notes: they are no runs."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a study will cost."""

    lines: tuple[Line, ...]
    is_exact: bool
    """False while runs hang on others that were not made yet: then the number of runs is the most there can be."""
    costs_money: bool
    """Some run still to make asks an endpoint that is not free, or whose prices nobody knows."""
    note: str = ""

    @property
    def runs(self) -> int:
        """All runs of the study."""
        return sum(line.runs for line in self.lines if not line.is_call)

    @property
    def to_make(self) -> int:
        """Runs that are not recorded yet."""
        return sum(line.runs - line.known for line in self.lines if not line.is_call)

    @property
    def dollars(self) -> float | None:
        """What they cost; ``None`` where some price is not known."""
        known = [line.dollars for line in self.lines if line.dollars is not None]
        return sum(known) if len(known) == len(self.lines) else None

    def require_free(self) -> None:
        """``InputError`` when the study would cost money: nobody was asked."""
        if self.costs_money:
            raise InputError(AGREE)


class Past(NamedTuple):
    """What one earlier run spent."""

    arm: str
    view: str
    steps: float
    prompt_tokens: float
    completion_tokens: float


class _Expected(NamedTuple):
    steps: float
    prompt_tokens: float
    completion_tokens: float
    basis: str


def plan_of(
    wanted: Iterable[Wanted],
    past: Sequence[Past],
    *,
    budget: Budget,
    reply_tokens: Mapping[str, int],
    price: Price,
    is_exact: bool,
    note: str = "",
) -> Plan:
    """The plan of these runs, one line for each model, view and cell in order of first appearance.

    ``reply_tokens``: the longest reply of models on endpoints, for the bound of what they write; others write as much
    as they need, which costs nothing.
    """
    groups: dict[tuple[str, str, str], list[Wanted]] = {}
    for run in wanted:
        groups.setdefault((run.arm, run.view, run.cell), []).append(run)
    lines = []
    for (arm, view, cell), own in groups.items():
        left = [run for run in own if not run.is_known]
        is_call = own[0].tokens is not None
        one = _call(left) if is_call else _expected(arm, view, past, budget, reply_tokens.get(arm))
        cost = 0.0 if not left else price(arm, one.prompt_tokens, one.completion_tokens)
        if cost is not None and budget.dollars is not None and arm in reply_tokens and not is_call:
            cost = min(cost, budget.dollars)
        lines.append(
            Line(
                arm=arm,
                view=view,
                cell=cell,
                runs=len(own),
                known=len(own) - len(left),
                steps=len(left) * one.steps,
                prompt_tokens=len(left) * one.prompt_tokens,
                completion_tokens=len(left) * one.completion_tokens,
                dollars=None if cost is None else len(left) * cost,
                basis=one.basis if left else "recorded",
                is_call=is_call,
            )
        )
    return Plan(
        lines=tuple(lines),
        is_exact=is_exact,
        costs_money=any(line.dollars is None or line.dollars > 0 for line in lines),
        note=note,
    )


def _call(left: Sequence[Wanted]) -> _Expected:
    tokens = [run.tokens for run in left if run.tokens is not None]
    prompt, reply = (sum(part) / max(1, len(tokens)) for part in zip(*tokens, strict=True)) if tokens else (0.0, 0.0)
    return _Expected(1, prompt, reply, "what it reads, and the longest reply")


def _expected(arm: str, view: str, past: Sequence[Past], budget: Budget, reply_tokens: int | None) -> _Expected:
    own = [run for run in past if run.arm == arm]
    alike = [run for run in own if run.view == view] or [run for run in own if view != SINGLE and run.view != SINGLE]
    if alike:
        where = "" if alike[0].view == view else " under other views"
        runs = f"{len(alike)} runs" if len(alike) > 1 else "one run"
        return _Expected(
            median(run.steps for run in alike),
            median(run.prompt_tokens for run in alike),
            median(run.completion_tokens for run in alike),
            f"median of {runs}{where}",
        )
    written = budget.steps * (reply_tokens or 0)
    return _Expected(budget.steps, budget.prompt_tokens, written, "the whole budget: an upper bound")


def past_of(rows: Iterable[Mapping[str, Any]]) -> list[Past]:
    """Earlier runs from rows of ``takeover_runs``, ``debt_runs`` or ``tax_runs``; an undisturbed run each."""
    return [
        Past(row["arm"], row["view"], row["steps"], row["prompt_tokens"], row["completion_tokens"] or 0)
        for row in rows
        if row.get("variant_id") is None
    ]
