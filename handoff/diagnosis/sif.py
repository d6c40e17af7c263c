"""State inference: does the successor know what is done? (``docs/science.md §6``)

V̂ is what it answered to the probe, or, named apart, what its behaviour implies. The graph and V_done come from
``points.py``, the probe itself from ``takeover.py``. ``skipped_prerequisites`` is the failure signal that behaviour
shows on the same graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from handoff.diagnosis.crf import CHANGES, Key
from handoff.diagnosis.measure import Measure, share

Edge: TypeAlias = tuple[str, str]
"""(node before, node after)."""

NOTHING_DONE = "nothing is done at the point, so there is nothing to recall"


def p_si(claimed: Collection[str], done: Collection[str]) -> Measure:
    """``|V̂_done ∩ V_done| / |V_done|``: a recall, so that claiming everything scores 1."""
    done = set(done)
    return share(len(done.intersection(claimed)), len(done), NOTHING_DONE)


def precision(claimed: Collection[str], done: Collection[str]) -> Measure:
    """The share of what was claimed that is done. Decoys of the probe are wrong claims like any other."""
    claimed = set(claimed)
    return share(len(claimed.intersection(done)), len(claimed), "nothing was claimed to be done")


def f1(claimed: Collection[str], done: Collection[str]) -> Measure:
    """``2·|V̂ ∩ V| / (|V̂| + |V|)``. Nothing done and nothing claimed is right: 1, the one 0/0 that has a value."""
    claimed, done = set(claimed), set(done)
    if not claimed and not done:
        return Measure(1.0, 0, 0)
    both = 2 * len(claimed & done)
    return Measure(both / (len(claimed) + len(done)), both, len(claimed) + len(done))


def diff_rule(nodes: Iterable[str], changed: Collection[str]) -> set[str]:
    """The chance answer "everything that shows in git diff is done": location and edit of every changed file."""
    return {
        node for node in nodes if node.partition(":")[0] in ("locate", "edit") and node.partition(":")[2] in changed
    }


def node_of(key: Key, has_changed: bool) -> tuple[str, ...]:
    """The nodes that an action works on, whether they exist in the graph or not.

    A test run is an attempt to reproduce until something was changed (``has_changed``), and a validation after.
    """
    kind, target = key
    if kind == "read":
        return (f"locate:{target}",)
    if kind in CHANGES:
        return (f"edit:{target}",)
    if kind in ("test", "build", "lint"):
        return (f"validate:{target}",) if has_changed else ("reproduce", f"validate:{target}")
    return ("reproduce",) if kind == "run" and not has_changed else ()


def worked_on(steps: Sequence[Sequence[Key]], nodes: Collection[str]) -> list[str]:
    """The nodes of the graph that the successor worked on, each once, in order of its first action on it."""
    order: dict[str, None] = {}
    has_changed = False
    for step in steps:
        for key in step:
            for node in node_of(key, has_changed):
                if node in nodes:
                    order[node] = None
            has_changed = has_changed or key[0] in CHANGES
    return list(order)


def claimed_by_behaviour(worked: Collection[str], nodes: Iterable[str], edges: Iterable[Edge]) -> set[str]:
    """Nodes that the successor treats as done: not redone by it, while something that depends on them is started."""
    leaned_on = {before for before, after in edges if after in worked}
    return {node for node in nodes if node in leaned_on and node not in worked}


def skipped_prerequisites(worked: Sequence[str], done: Collection[str], edges: Iterable[Edge]) -> Measure:
    """The share of nodes worked on before a node that they depend on was done or at least worked on."""
    before: dict[str, list[str]] = {}
    for prerequisite, node in edges:
        before.setdefault(node, []).append(prerequisite)
    seen = set(done)
    skipped = 0
    for node in worked:
        skipped += any(prerequisite not in seen for prerequisite in before.get(node, ()))
        seen.add(node)
    return share(skipped, len(worked), "the successor worked on no subtask of the graph")
