"""Intervals and tests."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from handoff.diagnosis import stats


@given(st.integers(1, 200), st.data())
def test_wilson_is_scipys_wilson(n, data):
    """And it also takes effective numbers of runs, which are not whole."""
    k = data.draw(st.integers(0, n))
    theirs = scipy.stats.binomtest(k, n).proportion_ci(method="wilson")
    assert stats.wilson(k, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert stats.wilson(0, 0) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 100))
def test_effective_runs_lie_between_tasks_and_runs(means, more):
    runs = len(means) + more
    assert len(means) <= stats.effective_runs(np.array(means), runs) <= runs


def test_tasks_that_all_agree_on_success_count_as_the_runs():
    """Nothing can be learnt there about how alike the runs of a task are."""
    assert stats.effective_runs(np.ones(5), 50) == 5


@given(st.integers(2, 12), st.integers(0, 5))
def test_the_bootstrap_is_decided_by_its_seed(tasks, seed):
    values = np.random.default_rng(seed).random((tasks, 3))
    first, again = (stats.bootstrap_means(values, seed=seed, resamples=100) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_the_vectorised_bootstrap_equals_one_written_as_a_loop():
    """Missing values are left out of each resample's mean, and resamples without any value are left out."""
    rng = np.random.default_rng(3)
    values = rng.random((6, 2))
    values[:4, 1] = np.nan
    mean, low, high = stats.bootstrap_means(values, seed=7, resamples=400)
    draws = np.random.default_rng([7, 6]).multinomial(6, np.full(6, 1 / 6), size=400)
    for column in range(2):
        has = ~np.isnan(values[:, column])
        drawn = [np.average(values[has, column], weights=row[has]) for row in draws if row[has].sum() > 0]
        assert mean[column] == pytest.approx(values[has, column].mean())
        assert (low[column], high[column]) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


def test_one_task_has_a_mean_and_no_interval():
    mean, low, high = stats.bootstrap_means(np.array([[0.5, np.nan]]), seed=0)
    assert mean[0] == 0.5 and np.isnan(mean[1])
    assert np.isnan(low).all() and np.isnan(high).all()


def test_the_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for n in range(300):
        _, low, high = stats.bootstrap_means(rng.normal(size=(30, 1)), seed=n, resamples=300)
        hits += low[0] <= 0 <= high[0]
    assert 0.89 <= hits / 300 <= 0.98


def test_mcnemar_is_the_exact_binomial_test_on_discordant_pairs():
    assert stats.mcnemar(0, 0) is None
    assert stats.mcnemar(1, 7) == pytest.approx(scipy.stats.binomtest(1, 8).pvalue)


@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_the_drift_test_is_fishers_one_sided_exact_test(n, m, data):
    k, j = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    theirs = scipy.stats.fisher_exact([[k, n - k], [j, m - j]], alternative="greater").pvalue
    assert stats.rate_rose(k, n, j, m) == pytest.approx(theirs, abs=1e-9)


def test_holm_rejects_step_by_step_and_stops_at_the_first_that_is_not_small_enough():
    assert stats.holm([0.04, 0.01, 0.03], 0.05) == [False, True, False]
    assert stats.holm([0.01, 0.02, 0.05], 0.05) == [True, True, True]
    assert stats.holm([], 0.05) == []


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 100)), min_size=1, max_size=20))
def test_resampled_medians_are_numpys_median_of_the_drawn_tasks(drawn):
    """Against the plain way: each resample's values written out."""
    tasks = sorted({task for task, _ in drawn})
    task = np.array([tasks.index(t) for t, _ in drawn])
    values = np.array([value for _, value in drawn])
    found = stats.resampled_medians(values, task, seed=5, resamples=20)
    counts = np.random.default_rng([5, len(tasks)]).multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), 20)
    plain = [np.median(np.repeat(values, row[task])) for row in counts]
    assert found == pytest.approx(plain)
