"""State inference (docs/science.md §6)."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis import sif

NODES = ["reproduce", "locate:a.py", "edit:a.py", "locate:b.py", "edit:b.py", "validate:tests"]
EDGES = [("locate:a.py", "edit:a.py"), ("locate:b.py", "edit:b.py"), ("edit:a.py", "validate:tests")]
node_lists = st.lists(st.sampled_from([*NODES, "decoy"]), max_size=8)


@given(node_lists, node_lists, st.randoms(use_true_random=False))
def test_claims_are_sets(claimed, done, rng: random.Random):
    """Neither order nor repetition matters, and every value lies between 0 and 1."""
    for measure in (sif.p_si, sif.precision, sif.f1):
        value = measure(claimed, done)
        assert measure(rng.sample(claimed, len(claimed)) * 2, rng.sample(done, len(done))) == value
        assert value.value is None or 0 <= value.value <= 1


@given(node_lists, node_lists)
def test_f1_is_the_harmonic_mean_of_recall_and_precision(claimed, done):
    recall, precision, f1 = (m(claimed, done).value for m in (sif.p_si, sif.precision, sif.f1))
    if recall and precision:
        assert abs(f1 - 2 * recall * precision / (recall + precision)) < 1e-12


def test_claiming_everything_scores_1_by_recall_and_not_by_f1():
    """P_SI is a recall; data is gated on F1."""
    assert sif.p_si(NODES, ["reproduce"]).value == 1
    assert sif.f1(NODES, ["reproduce"]).value == 2 / 7


def test_with_nothing_done_recall_has_no_value_and_f1_says_whether_nothing_was_claimed():
    assert sif.p_si([], []).value is None
    assert sif.p_si([], []).reason == sif.NOTHING_DONE
    assert sif.f1([], []).value == 1
    assert sif.f1(["reproduce"], []).value == 0
    assert sif.precision([], ["reproduce"]).value is None


def test_a_decoy_is_a_wrong_claim():
    assert sif.precision(["decoy", "reproduce"], ["reproduce"]).value == 0.5


def test_the_diff_rule_claims_location_and_edit_of_changed_files():
    assert sif.diff_rule(NODES, {"a.py"}) == {"locate:a.py", "edit:a.py"}


def test_a_test_run_reproduces_before_the_first_change_and_validates_after():
    steps = [[("test", "tests")], [("edit", "a.py")]]
    assert sif.worked_on(steps, NODES) == ["reproduce", "validate:tests", "edit:a.py"]
    assert sif.worked_on(steps[::-1], NODES) == ["edit:a.py", "validate:tests"]


def test_behaviour_claims_what_it_leans_on_without_redoing_it():
    """Validating without an edit of a.py treats that edit as done; reading b.py again does not claim it."""
    worked = sif.worked_on([[("read", "b.py")], [("edit", "b.py")], [("test", "tests")]], NODES)
    assert sif.claimed_by_behaviour(worked, NODES, EDGES) == {"edit:a.py"}


def test_working_on_a_node_before_its_prerequisite_is_skipping():
    skipped = sif.skipped_prerequisites(["edit:a.py", "locate:b.py", "edit:b.py"], [], EDGES)
    assert skipped[:3] == (1 / 3, 1, 3)
    assert sif.skipped_prerequisites(["edit:a.py"], ["locate:a.py"], EDGES).value == 0
    assert sif.skipped_prerequisites([], [], EDGES).value is None
