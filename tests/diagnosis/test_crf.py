"""Context reconstruction (docs/science.md §5)."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis import crf
from handoff.diagnosis.crf import Gold

keys = st.tuples(
    st.sampled_from(["read", "edit", "test", "search"]), st.sampled_from(["a.py", "b.py", "c.py", "tests"])
)
key_lists = st.lists(keys, max_size=12)


@given(key_lists, key_lists)
def test_e_cr_lies_between_0_and_1_or_has_a_reason(done, wanted):
    """A value, or a reason; the value is what was missed over what was wanted."""
    for measure in (crf.e_cr(done, wanted), crf.e_cr_multiset(done, wanted), crf.precision(done, wanted)):
        assert (measure.value is None) == (measure.reason is not None)
        if measure.value is not None:
            assert 0 <= measure.value <= 1
            assert measure.value == measure.numerator / measure.denominator


@given(key_lists, key_lists, st.randoms(use_true_random=False))
def test_the_order_of_actions_never_matters_to_e_cr(done, wanted, rng: random.Random):
    """Sets and multisets have no order."""
    for measure in (crf.e_cr, crf.e_cr_multiset, crf.precision):
        before = measure(done, wanted)
        assert measure(rng.sample(done, len(done)), rng.sample(wanted, len(wanted))) == before


@given(key_lists, key_lists, keys)
def test_doing_more_never_raises_e_cr(done, wanted, more):
    """What was reconstructed stays reconstructed."""
    assert (crf.e_cr([*done, more], wanted).value or 0) <= (crf.e_cr(done, wanted).value or 0)


def test_an_empty_gold_side_gives_no_value_and_never_0_or_1():
    assert crf.e_cr([("read", "a.py")], []) == (None, 0, 0, crf.EMPTY_GOLD)


def test_a_key_wanted_twice_counts_twice_in_the_multiset_variant_only():
    wanted = [("test", "tests"), ("test", "tests"), ("edit", "a.py")]
    assert crf.e_cr([("test", "tests"), ("edit", "a.py")], wanted).value == 0
    assert crf.e_cr_multiset([("test", "tests"), ("edit", "a.py")], wanted).value == 1 / 3


def test_the_window_is_no_wider_than_the_recorded_continuation():
    """Both sides are cut at w = min(10, n − h)."""
    gold = Gold(3, ((1, "read", "a.py", True), (3, "edit", "a.py", False)))
    assert gold.window() == 3
    assert Gold(40, ()).window() == 10
    assert [gold.count(w) for w in (0, 1, 2, 3, None)] == [0, 1, 1, 2, 2]


def test_the_nearest_of_several_continuations_counts():
    far, near, none = crf.e_cr([], [("read", "a")]), crf.e_cr([("read", "a")], [("read", "a")]), crf.e_cr([], [])
    assert crf.best([none, far, near]) is near
    assert crf.best([none]) is none
    assert crf.best([]).reason == crf.NO_GOLD


def test_rereading_what_the_predecessor_read_is_rediscovery():
    steps = [[("read", "a.py")], [("read", "b.py")]]
    assert crf.rediscovery(steps, [("read", "a.py"), ("test", "tests")])[:3] == (0.5, 1, 2)


def test_reading_again_what_the_successor_itself_changed_is_no_rediscovery():
    """Its edit made the content news; a test run after any edit is news as well, another file's content is not."""
    prefix = [("read", "a.py"), ("read", "b.py"), ("test", "tests")]
    steps = [[("edit", "a.py")], [("read", "a.py")], [("test", "tests")], [("read", "b.py")]]
    assert crf.rediscovery(steps, prefix)[:3] == (0.25, 1, 4)


def test_rediscovery_counts_the_first_w_actions_not_steps():
    steps = [[("read", "a.py")] * 10, [("read", "new.py")] * 10]
    assert crf.rediscovery(steps, [("read", "a.py")]).value == 1
    assert crf.rediscovery([], [("read", "a.py")]).value is None
