"""Cost (docs/science.md §9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis.cost import (
    Cap,
    Matched,
    cost_saved,
    excess_cost,
    handoff_debt,
    quality_recovered,
    require_same_tokenizer,
)
from handoff.diagnosis.fixes import destroyed_fixes
from handoff.editors.hunks import hunks_present
from handoff.errors import InputError

RUN = {"remaining_steps": 10, "remaining_prompt_tokens": 1000, "cap": Cap(steps=40, prompt_tokens=4000)}


def test_a_run_as_cheap_as_the_source_has_no_excess():
    assert excess_cost(solved=True, steps=10, prompt_tokens=1000, **RUN).value == 0


def test_a_failure_is_charged_twice_the_cap_so_that_quitting_early_is_not_cheap():
    """(2·40/10 − 1)/3 + (2·4000/1000 − 1)/3 + 1/3, whatever it spent."""
    quit_early = excess_cost(solved=False, steps=1, prompt_tokens=10, **RUN)
    assert quit_early.value == pytest.approx(7 / 3 + 7 / 3 + 1 / 3)
    assert quit_early == excess_cost(solved=False, steps=40, prompt_tokens=4000, **RUN)


@pytest.mark.parametrize(
    "change", [{"solved": None}, {"remaining_prompt_tokens": None}, {"solved": False, "cap": None}]
)
def test_what_is_unknown_gives_no_value_and_says_what(change):
    measure = excess_cost(**{"solved": True, "steps": 1, "prompt_tokens": 1, **RUN, **change})
    assert measure.value is None and measure.reason


def test_a_remaining_cost_of_nothing_is_floored_at_1():
    free = {**RUN, "remaining_steps": 0, "remaining_prompt_tokens": 0}
    assert excess_cost(solved=True, steps=1, prompt_tokens=1, **free).value == 0


def test_handoff_debt_compares_medians_on_matched_points():
    pairs = [
        Matched(task_id=f"t{n % 5}", cost=10 + n, cost_reference=20 + 2 * n, solved=True, solved_reference=n % 3 > 0)
        for n in range(15)
    ]
    debt = handoff_debt(pairs, seed=0)
    assert debt.ratio_of_medians.value == pytest.approx(0.5)
    assert debt.median_of_ratios.value == pytest.approx(0.5)
    assert debt.interval is not None and debt.interval[0] <= 0.5 + 1e-12 and debt.interval[1] >= 0.5 - 1e-12
    assert debt.p_solved == pytest.approx(2 * 0.5**5)
    assert debt == handoff_debt(pairs[::-1], seed=0), "the order of pairs does not matter"
    assert handoff_debt([], seed=0).ratio_of_medians.value is None


def test_the_tax_terms_have_no_value_when_the_two_models_are_alike():
    assert quality_recovered(0.7, 0.5, 0.9).value == pytest.approx(0.5)
    assert cost_saved(3, 1, 5).value == pytest.approx(0.5)
    assert quality_recovered(0.7, 0.5, 0.5).value is None


def test_counts_of_two_tokenizers_are_never_compared():
    require_same_tokenizer(["a", "a"])
    with pytest.raises(InputError, match="a and b"):
        require_same_tokenizer(["b", "a"])


BASE = b"one\ntwo\nthree\nfour\nfive\n"
FIXED = b"one\nTWO\nthree\nfour\nFIVE\n"
HALF = b"one\nTWO\nthree\nfour\nfive\n"


def test_a_hunk_is_present_when_its_lines_stand_in_its_place():
    assert hunks_present(BASE, FIXED, FIXED) == {0, 1}
    assert hunks_present(BASE, FIXED, HALF) == {0}
    assert hunks_present(BASE, FIXED, b"zero\n" + HALF) == {0}, "lines added elsewhere do not hide it"
    assert hunks_present(BASE, FIXED, BASE) == set()
    assert hunks_present(BASE, FIXED, HALF.replace(b"one\n", b"1\n").replace(b"TWO\n", b"TWO\nmore\n")) == {0}
    assert hunks_present(BASE, BASE.replace(b"two\n", b""), BASE.replace(b"two\n", b"")) == {0}, "a deletion"
    assert hunks_present(BASE, BASE.replace(b"two\n", b""), BASE) == set()
    assert hunks_present(BASE, FIXED, None) == set()
    assert hunks_present(None, b"new\n", b"new\n") == {0}


def test_only_hunks_that_were_there_can_be_destroyed():
    def destroyed(at_h: bytes | None, final: bytes | None) -> tuple[float | None, ...]:
        return destroyed_fixes(base={"a": BASE}, reference={"a": FIXED}, at_h={"a": at_h}, final={"a": final})[:3]

    assert destroyed(HALF, FIXED) == (0, 0, 1)
    assert destroyed(HALF, BASE) == (1, 1, 1)
    assert destroyed(FIXED, None) == (2, 2, 2)
    assert destroyed(BASE, BASE) == (0, 0, 0)


lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d"]), max_size=8).map(b"".join)


@given(lines, lines)
def test_the_reference_has_all_of_its_hunks_and_the_base_has_none_that_it_could_lose(base, reference):
    """Doing nothing to the solution destroys nothing, and the count never exceeds what was there."""
    whole = destroyed_fixes(base={"a": base}, reference={"a": reference}, at_h={"a": reference}, final={"a": reference})
    assert whole.value == 0
    undone = destroyed_fixes(base={"a": base}, reference={"a": reference}, at_h={"a": reference}, final={"a": base})
    assert undone.denominator == whole.denominator >= undone.value >= 0
    assert (whole.denominator > 0) == (base != reference)
