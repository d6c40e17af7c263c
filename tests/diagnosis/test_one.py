"""All measures of one takeover as rows of ``diagnostics``."""

from __future__ import annotations

from collections import namedtuple

import pytest

from handoff.diagnosis import METRICS, Cap, Gold, diagnose
from handoff.lake import SCHEMAS

POINT = {
    "point_id": "p_1",
    "h": 4,
    "n_steps": 7,
    "gold": [
        {"step": 5, "kind": "read", "target": "a.py", "necessary": True},
        {"step": 6, "kind": "edit", "target": "a.py", "necessary": True},
        {"step": 7, "kind": "test", "target": "tests", "necessary": False},
    ],
    "nodes": [
        {"node": "reproduce", "done": True},
        {"node": "locate:a.py", "done": False},
        {"node": "edit:a.py", "done": False},
        {"node": "validate:tests", "done": False},
    ],
    "edges": [{"before": "locate:a.py", "after": "edit:a.py"}, {"before": "edit:a.py", "after": "validate:tests"}],
    "plan": ["read a.py", "edit a.py", "test tests"],
    "prefix_keys": [{"kind": "test", "target": "tests"}],
    "remaining_steps": 3,
    "remaining_prompt_tokens": 300,
    "state_class": "needs_completion",
    "tree": "t",
}
RUN = {
    "takeover_id": "k_1",
    "solved": True,
    "steps": 3,
    "prompt_tokens": 300,
    "probe_done": ["reproduce"],
    "probe_plan": ["read a.py", "edit a.py", "test tests"],
    "destroyed_fixes": 0,
    "final_tree": "u",
}
STEPS = [[("read", "a.py")], [("edit", "a.py")], [("test", "tests")]]


def values(point=POINT, run=RUN, steps=STEPS, **options):
    return {row["metric"]: row["value"] for row in diagnose(point, run, steps, **options)}


def test_a_takeover_that_does_what_the_record_did_is_perfect():
    found = values()
    assert found["e_cr"] == found["e_cr_all"] == found["e_cr_necessary"] == found["rediscovery"] == 0
    assert found["p_si"] == found["si_f1"] == found["p_pc"] == found["p_pc_elicited"] == found["hrs"] == 1
    assert found["excess_cost"] == found["destroyed_fixes"] == found["strategy_switch"] == found["loops"] == 0
    assert found["si_chance_none"] == 0 and found["si_chance_all"] == 0.4


def test_every_measure_has_one_row_in_the_schema_of_the_table():
    rows = diagnose(POINT, RUN, STEPS)
    assert [row["metric"] for row in rows] == list(METRICS)
    assert all(set(row) == set(SCHEMAS["diagnostics"].names) for row in rows)
    assert all((row["value"] is None) == (row["reason"] is not None) for row in rows)


def test_an_unresolved_source_gives_no_gold_and_hrs_says_what_it_covers():
    """The score is renormalised over the one term left."""
    found = values({**POINT, "gold": None, "plan": []})
    assert found["e_cr"] is found["p_pc"] is found["cr_precision"] is None
    assert found["hrs"] == 1 and found["hrs_coverage"] == pytest.approx(1 / 3)


def test_an_invalid_probe_answer_is_missing_not_wrong():
    found = values(run={**RUN, "probe_done": None, "probe_plan": None})
    assert found["p_si"] is found["si_f1"] is found["p_pc_elicited"] is None
    assert found["si_f1_behaviour"] is not None
    assert found["hrs"] == 1 and found["hrs_coverage"] == pytest.approx(2 / 3)


def test_a_point_without_anything_to_compare_has_no_score():
    found = values({"h": 1, "n_steps": 3}, {**RUN, "probe_done": None})
    assert found["hrs"] is None and found["hrs_coverage"] == 0


def test_another_resolved_continuation_counts_when_it_is_nearer():
    other = Gold(2, ((1, "search", "x", True), (2, "edit", "b.py", True)))
    assert values(steps=[[("search", "x")], [("edit", "b.py")]])["e_cr"] == 1
    assert values(steps=[[("search", "x")], [("edit", "b.py")]], continuations=[other])["e_cr"] == 0
    assert values({**POINT, "gold": None}, steps=[[("search", "x")]], continuations=[other])["e_cr"] == 0.5


def test_a_failure_is_charged_by_the_budget():
    failed = {**RUN, "solved": False}
    assert values(run=failed)["excess_cost"] is None
    assert values(run=failed, cap=Cap(steps=3, prompt_tokens=300))["excess_cost"] == pytest.approx(1.0)


def test_at_a_solved_point_leaving_it_alone_is_what_counts():
    solved = {**POINT, "state_class": "already_solved"}
    assert values()["preservation"] is None
    assert values(solved)["preservation"] == 0
    assert values(solved, {**RUN, "final_tree": "t"})["preservation"] == 1
    assert values(solved, {**RUN, "final_tree": "d"}, start_tree="d")["preservation"] == 1


def test_the_diff_rule_needs_to_know_what_is_changed_at_h():
    assert values()["si_chance_diff"] is None
    assert values(changed=["a.py"])["si_chance_diff"] == 0


def test_keys_may_be_named_pairs_lists_or_lake_rows():
    Key = namedtuple("Key", "kind target")
    forms = (lambda k, t: Key(k, t), lambda k, t: [k, t], lambda k, t: {"kind": k, "target": t})
    for form in forms:
        assert values(steps=[[form(*key) for key in step] for step in STEPS]) == values()


def test_a_run_that_did_nothing_has_reasons_instead_of_zeros():
    found = values(run={**RUN, "steps": 0, "prompt_tokens": 0}, steps=[])
    assert found["cr_precision"] is found["rediscovery"] is found["loops"] is found["skipped_prerequisites"] is None
    assert found["e_cr"] == 1 and found["p_pc"] == 0
