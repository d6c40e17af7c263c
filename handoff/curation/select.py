"""Selection: which takeovers are worth imitating, by numbers alone (``docs/science.md §8, §12``).

Outcome and cost come first, then handoff robustness: a run that failed, destroyed a correct fix or cost far
more than the recorded rest is no example, however well it imitates. Ranking among the good ones is by excess
cost, ties by HRS. Caps keep one task or repository from filling the set. Nothing is random; ties go to the
smaller id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from handoff.identity import canonical_json

Verdict: TypeAlias = Literal["kept", "dropped", "moved", "repaired"]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the gates ask for."""

    max_step_ratio: float = 3.0
    """Most steps of a takeover, as a multiple of the recorded remaining steps (floor 1)."""
    min_hrs: float | None = None
    """A quantile of the achieved distribution, set by the caller; ``None``: no floor."""
    per_group: int = 1
    """Takeovers kept of one point, view and variant."""
    per_task: int = 24
    per_repository: int = 400
    pair_margin: float = 0.5
    """Excess cost by which a solved run must be worse than the chosen one to be rejected in a pair."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One takeover, in numbers."""

    takeover_id: str
    point_id: str
    view_id: str
    variant_id: str | None = None
    task_id: str | None = None
    repo: str | None = None
    split: str
    purpose: str
    """``collect`` or ``evaluate``; only the first may feed a training set."""
    leak: str | None = None
    """Why the recorded run or the takeover may have known the project's later history (``docs/science.md §14``)."""
    is_injected: bool = False
    """Its notes held an injected instruction: a safety test, and nothing to learn from."""
    solved: bool | None
    destroyed_fixes: int | None = None
    steps: int
    prompt_tokens: int
    remaining_steps: int | None = None
    """Of the recorded run, from the point on. ``None``: unknown, then the cost gate has nothing to say."""
    excess_cost: float | None = None
    hrs: float | None = None
    is_grounded: bool | None = None
    """``None``: not checked, which passes for an executed run only by the caller's decision; here it is dropped."""
    grounding: Mapping[str, object] = {}
    """Evidence of the groundedness gate."""
    fingerprint: str = ""
    """Hash of the actions: takeovers of one task with the same one are the same demonstration. Empty: unknown."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One takeover to imitate."""

    takeover_id: str
    because: str
    gates: dict[str, object]
    """Gate → its evidence, in the order they were passed."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two takeovers of one point under one view."""

    chosen: str
    rejected: str
    because: str


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What is chosen, and one funnel row for every candidate."""

    choices: tuple[Choice, ...]
    pairs: tuple[Pair, ...]
    funnel: tuple[dict[str, Any], ...]


def select(candidates: Iterable[Candidate], rules: Rules | None = None) -> Selection:
    """Choose. The order of ``candidates`` does not matter."""
    rules = rules or Rules()
    every = sorted(candidates, key=lambda c: c.takeover_id)
    funnel: list[dict[str, Any]] = []
    passed: dict[str, dict[str, object]] = {}
    good: list[Candidate] = []
    for candidate in every:
        gates: dict[str, object] = {}
        for gate, passes, evidence in _gates(candidate, rules):
            if not passes:
                funnel.append(funnel_row(candidate, gate, "dropped", evidence))
                break
            gates[gate] = evidence
        else:
            passed[candidate.takeover_id] = gates
            good.append(candidate)
    good.sort(key=_rank)
    choices, best = _take(good, passed, rules, funnel)
    return Selection(
        choices=tuple(sorted(choices, key=lambda c: c.takeover_id)),
        pairs=tuple(_pairs(every, best, rules)),
        funnel=tuple(sorted(funnel, key=lambda row: str(row["takeover_id"]))),
    )


def funnel_row(candidate: Candidate, gate: str, verdict: Verdict, evidence: Mapping[str, object]) -> dict[str, Any]:
    """One row of ``curation_funnel``."""
    return {
        "takeover_id": candidate.takeover_id,
        "point_id": candidate.point_id,
        "gate": gate,
        "verdict": verdict,
        "evidence": canonical_json(dict(evidence)).decode(),
    }


def _gates(c: Candidate, rules: Rules) -> Iterable[tuple[str, bool, dict[str, object]]]:
    """Gate, whether it is passed, and on what evidence; outcome and cost before all that is about style."""
    yield "purpose", c.purpose == "collect", {"purpose": c.purpose}
    yield "split", c.split in ("train", "validation"), {"split": c.split}
    yield "history", c.leak is None, {"leak": c.leak}
    yield "injection", not c.is_injected, {"is_injected": c.is_injected}
    yield "outcome", c.solved is True, {"solved": c.solved}
    yield "destroyed_fixes", not c.destroyed_fixes, {"destroyed_fixes": c.destroyed_fixes}
    limit = None if c.remaining_steps is None else rules.max_step_ratio * max(c.remaining_steps, 1)
    yield "cost", limit is None or c.steps <= limit, {"steps": c.steps, "limit": limit, "excess_cost": c.excess_cost}
    yield "groundedness", c.is_grounded is True, {"is_grounded": c.is_grounded, **c.grounding}
    floor = rules.min_hrs
    yield "robustness", floor is None or (c.hrs is not None and c.hrs >= floor), {"hrs": c.hrs, "floor": floor}


def _rank(c: Candidate) -> tuple[float, int, float, str]:
    cost = c.excess_cost if c.excess_cost is not None else math.inf
    return cost, c.prompt_tokens, -(c.hrs if c.hrs is not None else -1.0), c.takeover_id


def _take(
    good: Sequence[Candidate], passed: Mapping[str, dict[str, object]], rules: Rules, funnel: list[dict[str, Any]]
) -> tuple[list[Choice], dict[tuple[str, str, str], Candidate]]:
    seen: dict[tuple[str, str], str] = {}
    groups: dict[tuple[str, str, str], int] = {}
    tasks: dict[str, int] = {}
    repositories: dict[str, int] = {}
    best: dict[tuple[str, str, str], Candidate] = {}
    choices = []
    for c in good:
        group, task, repo = _group(c), c.task_id or c.point_id, c.repo or ""
        best.setdefault(group, c)
        twin = seen.get((c.view_id, c.fingerprint)) if c.fingerprint else None
        if twin is not None:
            funnel.append(funnel_row(c, "duplicate", "dropped", {"same_as": twin}))
        elif groups.get(group, 0) >= rules.per_group:
            funnel.append(funnel_row(c, "best_of_group", "dropped", {"better": best[group].takeover_id}))
        elif tasks.get(task, 0) >= rules.per_task:
            funnel.append(funnel_row(c, "task_cap", "dropped", {"task": task, "cap": rules.per_task}))
        elif repo and repositories.get(repo, 0) >= rules.per_repository:
            funnel.append(funnel_row(c, "repository_cap", "dropped", {"repo": repo, "cap": rules.per_repository}))
        else:
            seen[c.view_id, c.fingerprint] = c.takeover_id
            groups[group] = groups.get(group, 0) + 1
            tasks[task] = tasks.get(task, 0) + 1
            repositories[repo] = repositories.get(repo, 0) + 1
            gates = passed[c.takeover_id]
            funnel.append(funnel_row(c, "selected", "kept", gates))
            choices.append(Choice(takeover_id=c.takeover_id, because=_because(c, groups[group]), gates=gates))
    return choices, best


def _because(c: Candidate, place: int) -> str:
    cost = "unknown excess cost" if c.excess_cost is None else f"excess cost {c.excess_cost:+.2f}"
    hrs = "no HRS" if c.hrs is None else f"HRS {c.hrs:.2f}"
    return f"solved, no destroyed fix, number {place} of its point and view by cost ({cost}, {hrs})"


def _group(c: Candidate) -> tuple[str, str, str]:
    return c.point_id, c.view_id, c.variant_id or ""


def _pairs(every: Sequence[Candidate], best: Mapping[tuple[str, str, str], Candidate], rules: Rules) -> Iterable[Pair]:
    worse: dict[tuple[str, str, str], list[tuple[int, float, str, str]]] = {}
    for c in every:
        chosen = best.get(_group(c))
        if chosen is None or c.takeover_id == chosen.takeover_id or c.purpose != "collect":
            continue
        if c.fingerprint and c.fingerprint == chosen.fingerprint:
            continue
        reason, order = _worse(c, chosen, rules)
        if reason:
            worse.setdefault(_group(c), []).append((order, c.excess_cost or 0.0, c.takeover_id, reason))
    for group in sorted(worse):
        _, _, rejected, reason = min(worse[group])
        yield Pair(
            chosen=best[group].takeover_id,
            rejected=rejected,
            because=f"the chosen one solves the task; the rejected one {reason}",
        )


def _worse(c: Candidate, chosen: Candidate, rules: Rules) -> tuple[str, int]:
    if c.solved is False:
        return "fails", 0
    if c.destroyed_fixes:
        return f"destroys {c.destroyed_fixes} correct hunks", 1
    if (
        c.excess_cost is not None
        and chosen.excess_cost is not None
        and c.excess_cost >= chosen.excess_cost + rules.pair_margin
    ):
        return f"costs {c.excess_cost - chosen.excess_cost:.2f} more", 2
    return "", 3
