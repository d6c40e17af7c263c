"""The handoff robustness score of one run (docs/science.md §8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis.hrs import check_weights, hrs
from handoff.errors import InputError

shares = st.none() | st.floats(0, 1)
weights = st.tuples(*[st.integers(0, 5)] * 3).filter(any).map(lambda w: tuple(x / sum(w) for x in w))


@given(shares, shares, shares, weights)
def test_missing_terms_are_left_out_and_the_rest_renormalised(e_cr, p_si, p_pc, w):
    """The value is the weighted mean of the present terms; coverage is their weight."""
    score, coverage = hrs(e_cr, p_si, p_pc, w)
    terms = [(a, t) for a, t in zip(w, (None if e_cr is None else 1 - e_cr, p_si, p_pc), strict=True) if t is not None]
    weight = sum(a for a, _ in terms)
    assert coverage.value == pytest.approx(weight)
    if weight == 0:
        assert score.value is None and score.reason
    else:
        assert score.value == pytest.approx(sum(a * t for a, t in terms) / weight)
        assert 0 <= score.value <= 1


def test_all_terms_perfect_is_exactly_1():
    assert hrs(0.0, 1.0, 1.0)[0].value == 1.0
    assert hrs(0.0, 1.0, 1.0)[1].value == 1.0


def test_no_term_at_all_gives_no_score_and_coverage_0():
    score, coverage = hrs(None, None, None)
    assert score.value is None
    assert coverage.value == 0


@pytest.mark.parametrize("bad", [(0.5, 0.5, 0.5), (-0.5, 1.0, 0.5)])
def test_weights_are_non_negative_and_sum_to_1(bad):
    with pytest.raises(InputError, match="sum to 1"):
        check_weights(bad)
