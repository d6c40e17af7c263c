"""Rounds (docs/science.md §12)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.coevolution import (
    Rate,
    Score,
    cell_name,
    decide_promotion,
    diversity_losses,
    entropy,
    failure_rates,
    find_drift,
    hrs_threshold,
    next_mixture,
    read_cell,
)
from handoff.errors import InputError

VIEWS = ("repo", "trace", "summary", "structured")
MODES = ("crf_failed", "sif_failed", "pcf_failed")


def row(value: float | None, n: int = 40, mode="crf_failed", view="repo", **changes):
    plain = {"split": "validation", "arm": "E", "view": view, "label": "error", "tier": "none", "metric": mode,
             "value": value, "n_tasks": n, "n_effective": float(n)}  # fmt: skip
    return {**plain, **changes}


def a_round(rng: np.random.Generator, rate: float, n: int = 40, worse: dict[tuple[str, str], float] | None = None):
    return [
        row(rng.binomial(n, (worse or {}).get((mode, view), rate)) / n, n, mode, view)
        for mode in MODES
        for view in VIEWS
    ]


def test_without_drift_a_false_alarm_is_as_rare_as_was_set():
    """Over all twelve mode × cell tests together: at most 5 % of the rounds."""
    rng = np.random.default_rng(0)
    alarms = sum(bool(find_drift(a_round(rng, 0.3), a_round(rng, 0.3))) for _ in range(200))
    assert alarms / 200 <= 0.05


def test_a_planted_drift_is_found_in_its_cell_within_one_round():
    rng = np.random.default_rng(1)
    planted = {("pcf_failed", "trace"): 0.75}
    found = [find_drift(a_round(rng, 0.2), a_round(rng, 0.2, worse=planted)) for _ in range(200)]
    hits = [
        drift for drift in found if drift and (drift[0].mode, drift[0].cell) == ("pcf_failed", "E:trace/error/none")
    ]
    assert len(hits) / 200 >= 0.95


def test_getting_better_is_no_drift():
    assert find_drift([row(0.9)], [row(0.1)]) == []


def test_evidence_is_named_by_the_figures_compared():
    """The same figures are never answered twice; other figures are other evidence."""
    (one,), (again,) = find_drift([row(0.1)], [row(0.9)]), find_drift([row(0.1)], [row(0.9)])
    (other,) = find_drift([row(0.1)], [row(0.8)])
    assert one.evidence == again.evidence != other.evidence
    assert (one.before, one.now) == (0.1, 0.9)


def test_the_clearest_drift_comes_first_and_the_order_of_rows_does_not_matter():
    before = [row(0.1, view=view) for view in VIEWS]
    now = [row(value, view=view) for view, value in zip(VIEWS, (0.1, 0.6, 0.9, 0.7), strict=True)]
    drifts = find_drift(before, now)
    assert [read_cell(d.cell)[1] for d in drifts] == ["summary", "structured", "trace"]
    assert find_drift(before[::-1], now[::-1]) == drifts


def test_test_points_feed_no_choice():
    with pytest.raises(InputError, match="validation"):
        failure_rates([], split="test")
    assert failure_rates([row(0.5, split="test"), row(0.5, split="train")]) == []


def test_references_controls_and_pooled_tiers_are_not_compared():
    assert failure_rates([row(0.5, arm="expert"), row(0.5, arm="A"), row(0.5, tier="all"), row(None)]) == []
    assert len(failure_rates([row(0.5, arm="A")], arms=["A"])) == 1


def test_a_cell_that_only_one_round_has_is_not_compared():
    assert find_drift([row(0.1, view="repo")], [row(0.9, view="trace")]) == []


def test_rows_without_an_effective_number_count_tasks():
    (rate,) = failure_rates([row(0.5, n_effective=None, n_tasks=7)])
    assert rate.n == 7


@given(st.text("abE+", min_size=1), *[st.sampled_from(["repo", "error", "all", "none"])] * 3)
def test_a_cells_name_can_be_read_back(arm, view, label, tier):
    assert read_cell(cell_name(arm, view, label, tier)) == (arm, view, label, tier)


@pytest.mark.parametrize("name", ["", "repo", "E:repo", "E:a/b", "E:a//c", "a/b/c"])
def test_a_name_of_no_cell_is_an_error(name):
    with pytest.raises(InputError, match="arm:view/label/tier"):
        read_cell(name)


one_rate = st.builds(
    Rate, mode=st.sampled_from(MODES), cell=st.sampled_from("abcdef"), value=st.floats(0, 1), n=st.integers(1, 99)
)
rates = st.lists(one_rate, min_size=1, max_size=12, unique_by=lambda r: (r.mode, r.cell))


@given(rates, st.floats(0, 1))
def test_a_mixture_sums_to_1_and_starves_no_cell(rates, floor):
    mixture = next_mixture(rates, floor=floor)
    assert sum(mixture.values()) == pytest.approx(1)
    assert min(mixture.values()) >= floor / len(mixture) - 1e-12
    assert list(mixture) == sorted(mixture)
    assert next_mixture(rates[::-1], floor=floor) == pytest.approx(mixture)


def test_a_cell_that_fails_more_gets_more_and_few_runs_are_not_believed():
    """Two failures of two say less than thirty of forty."""
    cells = [("a", 0.75, 40), ("b", 0.1, 40), ("c", 1.0, 2)]
    often, rarely, luck = (Rate(mode="crf_failed", cell=cell, value=value, n=n) for cell, value, n in cells)
    mixture = next_mixture([often, rarely, luck])
    assert mixture["crf_failed", "a"] > mixture["crf_failed", "c"] > mixture["crf_failed", "b"]
    assert next_mixture([]) == {}
    with pytest.raises(InputError, match="floor"):
        next_mixture([often], floor=2)


@given(st.lists(st.none() | st.floats(0, 1)), st.none() | st.floats(0, 1))
def test_the_threshold_never_falls_and_says_when_it_was_kept(scores, previous):
    threshold = hrs_threshold(scores, previous)
    if previous is not None:
        assert threshold.value >= previous
    if threshold.achieved is not None and threshold.value != threshold.achieved:
        assert "kept" in threshold.reason


def scores(solved: float, hrs: float | None, n: int = 20) -> dict[str, Score]:
    return {f"t{i}": Score(solved=solved, hrs=None if hrs is None else hrs + 0.01 * (i % 3)) for i in range(n)}


def test_promotion_needs_a_solve_rate_not_worse_and_a_better_hrs():
    assert decide_promotion(scores(0.9, 0.7), scores(0.9, 0.5), seed=0).is_promoted
    worse = decide_promotion(scores(0.7, 0.9), scores(0.9, 0.5), seed=0)
    assert not worse.is_promoted and "solve rate" in worse.reason
    same = decide_promotion(scores(0.9, 0.5), scores(0.9, 0.5), seed=0)
    assert not same.is_promoted and "HRS" in same.reason
    assert decide_promotion(scores(0.88, 0.7), scores(0.9, 0.5), seed=0).is_promoted, "within the margin"


def test_without_enough_to_compare_nothing_is_promoted_but_the_first_policy():
    assert decide_promotion(scores(0.1, None), None, seed=0).is_promoted
    assert not decide_promotion(scores(1, 1, 1), scores(0, 0, 1), seed=0).is_promoted
    assert "HRS" in decide_promotion(scores(1, None), scores(0, 0.5), seed=0).reason


def test_entropy_is_in_bits_and_a_fall_beyond_the_bound_is_named():
    assert entropy(["a", "b", "c", "d"]) == 2
    assert entropy(["a", "a"]) == 0
    assert entropy([]) is None
    fell = diversity_losses({"views": 2.0, "labels": 1.0, "repos": None, "gone": 1.0}, {"views": 1.5, "labels": 0.9})
    assert fell == ["gone", "views"]
