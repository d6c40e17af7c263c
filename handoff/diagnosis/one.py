"""All measures of one takeover: from a point, a run and the run's action keys to the rows of ``diagnostics``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from handoff.diagnosis import crf, pcf, sif
from handoff.diagnosis.cost import Cap, excess_cost
from handoff.diagnosis.crf import Gold, Key
from handoff.diagnosis.hrs import THIRDS, hrs
from handoff.diagnosis.measure import Measure, count, missing

METRICS = (
    "e_cr",
    "e_cr_w5",
    "e_cr_w20",
    "e_cr_all",
    "e_cr_necessary",
    "e_cr_multiset",
    "cr_precision",
    "rediscovery",
    "p_si",
    "si_precision",
    "si_f1",
    "p_si_behaviour",
    "si_f1_behaviour",
    "si_chance_none",
    "si_chance_all",
    "si_chance_diff",
    "skipped_prerequisites",
    "p_pc",
    "p_pc_elicited",
    "pc_dice",
    "loops",
    "strategy_switch",
    "hrs",
    "hrs_f1",
    "hrs_coverage",
    "excess_cost",
    "destroyed_fixes",
    "preservation",
)
"""Every measure, in the order of the rows. ``p_pc`` and ``pc_dice`` are enacted; ``*_behaviour`` tells V̂'s source."""

_FROM_GOLD = METRICS[: METRICS.index("rediscovery")]

NO_PROBE = "the successor gave no valid answer to the probe"
NO_GRAPH = "the point has no task-state graph: the recorded run is not known to be resolved"


def diagnose(
    point: dict[str, Any] | object,
    run: Mapping[str, Any],
    successor_keys: Sequence[Sequence[Any]],
    *,
    continuations: Sequence[Gold] = (),
    changed: Collection[str] | None = None,
    start_tree: str | None = None,
    cap: Cap | None = None,
    weights: tuple[float, float, float] = THIRDS,
) -> list[dict[str, Any]]:
    """The rows of ``diagnostics`` for one takeover, one per name in ``METRICS``.

    ``point``: a row of ``injected_handoffs`` as a dict, or a ``Point``; ``run``: a row of ``takeover_runs``;
    ``successor_keys``: per step of the run, its (kind, target) keys in order. ``continuations``: further resolved
    runs of the same task from the same state, the nearest of which counts for E_CR. ``changed``: files that differ
    from the base commit at h, for the chance level of the diff rule. ``start_tree``: where the run began, when a
    disturbance changed the point's own tree. ``cap``: the run's budget, by which a failure is charged.
    """
    measures = measure_all(
        point,
        run,
        successor_keys,
        continuations=continuations,
        changed=changed,
        start_tree=start_tree,
        cap=cap,
        weights=weights,
    )
    takeover_id = run["takeover_id"]
    return [
        {
            "takeover_id": takeover_id,
            "metric": name,
            "value": value,
            "numerator": numerator,
            "denominator": denominator,
            "reason": reason,
        }
        for name, (value, numerator, denominator, reason) in measures.items()
    ]


def measure_all(
    point: dict[str, Any] | object,
    run: Mapping[str, Any],
    successor_keys: Sequence[Sequence[Any]],
    *,
    continuations: Sequence[Gold] = (),
    changed: Collection[str] | None = None,
    start_tree: str | None = None,
    cap: Cap | None = None,
    weights: tuple[float, float, float] = THIRDS,
) -> dict[str, Measure]:
    """The same as ``diagnose``, as measures by name, in the order of ``METRICS``."""
    steps = [[as_key(key) for key in step] for step in successor_keys]
    found = _context(point, steps, continuations)
    found |= _state(point, run, steps, changed)
    found |= _plan(point, run, steps)
    e_cr, p_pc = found["e_cr"].value, found["p_pc"].value
    found["hrs"], found["hrs_coverage"] = hrs(e_cr, found["p_si"].value, p_pc, weights)
    found["hrs_f1"], _ = hrs(e_cr, found["si_f1"].value, p_pc, weights)
    found["excess_cost"] = excess_cost(
        solved=run.get("solved"),
        steps=run["steps"],
        prompt_tokens=run["prompt_tokens"],
        remaining_steps=_field(point, "remaining_steps"),
        remaining_prompt_tokens=_field(point, "remaining_prompt_tokens"),
        cap=cap,
    )
    destroyed = run.get("destroyed_fixes")
    found["destroyed_fixes"] = (
        missing("the final state was not compared with the solution") if destroyed is None else count(destroyed)
    )
    found["preservation"] = _preservation(point, run, start_tree)
    return {name: found[name] for name in METRICS}


def as_key(key: Any) -> Key:
    """A key as the pair that all measures compare, from a pair (a ``Key`` is one), a lake row or its JSON."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, dict):
        return key["kind"], key["target"]
    if isinstance(key, list):
        return key[0], key[1]
    raise TypeError(f"{key!r} is no action key")


def gold_of(point: dict[str, Any] | object) -> Gold | None:
    """The recorded continuation of a point; ``None`` when the recorded run is not resolved."""
    entries = _field(point, "gold")
    if entries is None:
        return None
    h = _field(point, "h")
    if entries and not isinstance(entries[0], dict):
        keys = tuple((e.step - h, e.kind, e.target, e.necessary) for e in entries)
    else:
        keys = tuple((e["step"] - h, e["kind"], e["target"], e["necessary"]) for e in entries)
    return Gold(_field(point, "n_steps") - h, keys)


def _context(point: object, steps: list[list[Key]], others: Sequence[Gold]) -> dict[str, Measure]:
    """§5. Of several golds E_CR takes the nearest one, and what stands beside it is about the same one."""
    recorded = gold_of(point)
    golds = [recorded, *others] if recorded is not None else list(others)
    rediscovery = crf.rediscovery(steps, map(as_key, _field(point, "prefix_keys") or ()))
    if not golds:
        return {**dict.fromkeys(_FROM_GOLD, missing(crf.NO_GOLD)), "rediscovery": rediscovery}
    # Small integers instead of pairs: each pair is hashed once, not in every set it enters.
    codes: dict[Key, int] = {}
    done = [codes.setdefault(key, len(codes)) for step in steps for key in step]
    wanted = [[codes.setdefault((kind, target), len(codes)) for _, kind, target, _ in gold.keys] for gold in golds]

    def until(w: int | None) -> list[int]:
        return done if w is None else done[: sum(map(len, steps[:w]))]

    def compare(w: int | None) -> list[Measure]:
        widths = [None if w is None else gold.window(w) for gold in golds]
        each = zip(golds, wanted, widths, strict=True)
        return [crf.e_cr(until(width), keys[: gold.count(width)]) for gold, keys, width in each]

    headlines = compare(crf.WINDOW)
    headline = crf.best(headlines)
    at = headlines.index(headline)
    gold, keys = golds[at], wanted[at]
    within = keys[: gold.count(gold.window())]
    theirs = until(gold.window())
    return {
        "e_cr": headline,
        "e_cr_w5": crf.best(compare(5)),
        "e_cr_w20": crf.best(compare(20)),
        "e_cr_all": crf.best(compare(None)),
        "e_cr_necessary": crf.e_cr(theirs, [k for k, entry in zip(within, gold.keys, strict=False) if entry[3]]),
        "e_cr_multiset": crf.e_cr_multiset(theirs, within),
        "cr_precision": crf.precision(theirs, within),
        "rediscovery": rediscovery,
    }


def _state(
    point: object, run: Mapping[str, Any], steps: list[list[Key]], changed: Collection[str] | None
) -> dict[str, Measure]:
    """§6."""
    nodes, done, edges = _graph(point)
    names = ("p_si", "si_precision", "si_f1")
    others = ("p_si_behaviour", "si_f1_behaviour", "si_chance_none", "si_chance_all", "si_chance_diff")
    if not nodes:
        return dict.fromkeys((*names, *others, "skipped_prerequisites"), missing(NO_GRAPH))
    claimed = run.get("probe_done")
    if claimed is None:
        found = dict.fromkeys(names, missing(NO_PROBE))
    else:
        found = {
            "p_si": sif.p_si(claimed, done),
            "si_precision": sif.precision(claimed, done),
            "si_f1": sif.f1(claimed, done),
        }
    in_window = sif.worked_on(steps[: crf.WINDOW], nodes)
    implied = sif.claimed_by_behaviour(in_window, nodes, edges)
    found["p_si_behaviour"] = sif.p_si(implied, done)
    found["si_f1_behaviour"] = sif.f1(implied, done)
    found["si_chance_none"] = sif.f1((), done)
    found["si_chance_all"] = sif.f1(nodes, done)
    if changed is None:
        found["si_chance_diff"] = missing("the files changed at h are not known")
    else:
        found["si_chance_diff"] = sif.f1(sif.diff_rule(nodes, changed), done)
    worked = in_window if len(steps) <= crf.WINDOW else sif.worked_on(steps, nodes)
    found["skipped_prerequisites"] = sif.skipped_prerequisites(worked, done, edges)
    return found


def _graph(point: object) -> tuple[dict[str, bool], list[str], list[sif.Edge]]:
    nodes = {}
    for entry in _field(point, "nodes") or ():
        if isinstance(entry, dict):
            nodes[entry["node"]] = bool(entry["done"])
        else:
            nodes[entry.node] = bool(entry.done)
    edges = [
        (entry["before"], entry["after"]) if isinstance(entry, dict) else (entry.before, entry.after)
        for entry in _field(point, "edges") or ()
    ]
    return nodes, [node for node, is_done in nodes.items() if is_done], edges


def _plan(point: object, run: Mapping[str, Any], steps: list[list[Key]]) -> dict[str, Measure]:
    """§7. The plan is hindsight from the gold continuation, so without one there is nothing to compare with."""
    loops = pcf.loops(steps)
    if _field(point, "gold") is None:
        nothing = missing(crf.NO_GOLD)
        return {**dict.fromkeys(("p_pc", "p_pc_elicited", "pc_dice", "strategy_switch"), nothing), "loops": loops}
    plan = list(_field(point, "plan") or ())
    enacted = pcf.plan_of([key for step in steps for key in step])
    elicited = run.get("probe_plan")
    window = pcf.plan_of([key for step in steps[: crf.WINDOW] for key in step])
    return {
        "p_pc": pcf.p_pc(plan, enacted),
        "p_pc_elicited": missing(NO_PROBE) if elicited is None else pcf.p_pc(plan, list(elicited)),
        "pc_dice": pcf.dice(plan, enacted),
        "loops": loops,
        "strategy_switch": pcf.strategy_switch(plan, window),
    }


def _preservation(point: object, run: Mapping[str, Any], start_tree: str | None) -> Measure:
    """At a point that is already solved the task is to leave it alone (§1)."""
    if _field(point, "state_class") != "already_solved":
        return missing("the point is not already solved")
    tree = start_tree or _field(point, "tree")
    if run.get("solved") is None or run.get("final_tree") is None or tree is None:
        return missing("the final state or its tests are unknown")
    kept = bool(run["solved"]) and run["final_tree"] == tree
    return Measure(float(kept), float(kept), 1.0)


def _field(point: object, name: str) -> Any:
    return point.get(name) if isinstance(point, dict) else getattr(point, name, None)
