"""Plan continuation (docs/science.md §7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis import pcf

plans = st.lists(st.sampled_from(["read a", "edit a", "test t", "read b", "\ud800", ""]), max_size=12)


def by_hand(plan: list[str], other: list[str]) -> int:
    """Longest common subsequence by the textbook table."""
    row = [0] * (len(other) + 1)
    for step in plan:
        above = row[:]
        for j, theirs in enumerate(other, 1):
            row[j] = above[j - 1] + 1 if step == theirs else max(above[j], row[j - 1])
    return row[-1]


@given(plans, plans)
def test_p_pc_is_symmetric_and_equals_the_textbook_value(plan, other):
    """2·LCS/(|P| + |P̂|); both empty gives no value."""
    measure = pcf.p_pc(plan, other)
    assert pcf.p_pc(other, plan) == measure
    if plan or other:
        assert measure.value == 2 * by_hand(plan, other) / (len(plan) + len(other))
    else:
        assert measure.value is None and measure.reason == pcf.BOTH_EMPTY


@given(plans, plans)
def test_p_pc_is_1_exactly_when_the_plans_are_equal(plan, other):
    if plan or other:
        assert (pcf.p_pc(plan, other).value == 1) == (plan == other)


@given(plans, plans)
def test_p_pc_is_never_above_dice(plan, other):
    """Dice forgives reordering, so it is an upper bound."""
    if plan or other:
        assert 0 <= pcf.p_pc(plan, other).value <= pcf.dice(plan, other).value <= 1


def test_exactly_one_empty_plan_is_0():
    assert pcf.p_pc([], ["read a"]).value == 0
    assert pcf.p_pc(["read a"], []).value == 0


def test_reordering_shows_as_the_gap_between_dice_and_p_pc():
    assert pcf.dice(["a", "b"], ["b", "a"]).value == 1
    assert pcf.p_pc(["a", "b"], ["b", "a"]).value == 0.5


def test_runs_of_one_key_are_one_plan_step():
    assert pcf.plan_of([("read", "a"), ("read", "a"), ("edit", "a"), ("read", "a")]) == ["read a", "edit a", "read a"]


def test_repeating_without_a_change_is_a_loop_and_after_one_it_is_not():
    read, edit = [("read", "a")], [("edit", "a")]
    assert pcf.loops([read, read, edit, read])[:3] == (0.25, 1, 4)
    assert pcf.loops([[], []]).value is None


def test_a_window_without_any_plan_step_is_a_strategy_switch():
    assert pcf.strategy_switch(["edit a"], ["read b"]).value == 1
    assert pcf.strategy_switch(["edit a"], ["read b", "edit a"]).value == 0
    assert pcf.strategy_switch([], ["read b"]).value is None
    assert pcf.strategy_switch(["edit a"], []).value is None
