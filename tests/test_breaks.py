"""Where successors break: figures with intervals, small cells marked, nothing called worse that may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.report.breaks import Breaking, as_rows, break_table, curves, figures, shade, worst_lines, worst_steps
from handoff.report.page import render_report
from handoff.report.tables import cell_of
from tests.test_report import HOSTILE
from tests.test_report import _report as report


def row(label: str = "all", tier: str = "none", metric: str = "solve_rate", **more: Any) -> dict[str, Any]:
    plain = {"split": "test", "arm": "E", "view": "repo", "value": 0.8, "low": 0.7, "high": 0.9, "reason": None}
    return {**plain, "label": label, "tier": tier, "metric": metric, "n_runs": 40, "n_tasks": 12, **more}


def line(*rows: Mapping[str, Any]) -> Breaking:
    return break_table(rows)[-1]


@pytest.mark.parametrize(
    ("worse", "change"),
    [
        (True, {"value": 0.3, "low": 0.2, "high": 0.6}),
        (False, {"value": 0.5, "low": 0.2, "high": 0.75}),  # the intervals meet
        (False, {"value": 0.3, "low": 0.2, "high": 0.6, "n_runs": 9}),  # few runs
        (False, {"value": 0.3, "low": 0.2, "high": 0.6, "n_tasks": 4}),  # few tasks
        (False, {"value": 0.99, "low": 0.95, "high": 1.0}),  # better is not worse
        (False, {"value": 0.3, "low": None, "high": None}),
        (False, {"value": None, "low": None, "high": None, "reason": "nobody judged"}),
    ],
)
def test_only_intervals_that_do_not_meet_make_a_cell_worse(worse: bool, change: dict[str, Any]) -> None:
    found = line(row(), row("error", "reverted_edit", **change))
    assert found.worse[0] is worse and found.is_small is (found.n_runs < 10 or found.n_tasks < 5)
    assert bool(worst_lines([found], "E")) is worse
    assert ("*" in as_rows([found])[0][4]) is worse and ("few" in as_rows([found])[0][-1]) is found.is_small


def test_a_cell_is_held_against_its_own_view_and_successor() -> None:
    """And a measure of which a high value is bad is looked at the other way round."""
    others = row(view="trace", metric="crf_failed", value=0.0, low=0.0, high=0.1), row(arm="A", metric="crf_failed")
    cell = row("error", metric="crf_failed", value=0.8, low=0.6, high=0.9)
    assert not any(own.worse[1] for own in break_table([*others, cell]) if own.label == "error")
    assert line(row(metric="crf_failed", value=0.1, low=0.0, high=0.3), cell).worse[1]


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["solve_rate", "crf_failed", "excess_cost"]))
def test_what_is_not_known_is_not_dark(low: float, high: float, metric: str) -> None:
    """A wider interval is never drawn darker."""
    low, high = sorted((low, high))
    narrow = cell_of(metric, 2, row(metric=metric, low=low, high=high))
    wide = cell_of(metric, 2, row(metric=metric, low=low / 2, high=(1 + high) / 2))
    assert 0 <= shade(wide) <= shade(narrow) <= 1
    assert shade(cell_of(metric, 2, None)) == 0


def test_figures_have_one_sign_and_no_negative_nothing() -> None:
    assert figures(cell_of("excess_cost", 1, row(value=-0.01, low=-0.26, high=0.04))) == ("0.0", "−0.3 to 0.0")
    assert figures(cell_of("solve_rate", 2, row(value=0.5, low=-0.04, high=1.0))) == (".50", "−0.04 to 1.00")
    assert figures(cell_of("solve_rate", 2, None)) == ("–", "")


WORST = {
    "trajectory_id": "t_0123456789abcdef",
    "point_id": "p_1",
    "h": 3,
    "n_steps": 9,
    "arm": HOSTILE,
    "view": "repo",
    "how": "searched",
    "excess_cost": 4.0,
    "low": 1.0,
    "high": 7.0,
    "n_runs": 9,
    "is_worst": True,
    "confirmed_cost": 2.5,
    "confirmed_low": 2.0,
    "confirmed_high": 3.0,
    "search_runs": 60,
}


def test_the_page_tells_it_and_escapes_what_it_is_told() -> None:
    lines = break_table(
        [
            row(),
            row("error", HOSTILE, value=0.3, low=0.2, high=0.6),
            row("error", n_runs=3),
            row("natural", arm=HOSTILE),
        ]
    )
    measured = {**WORST, "how": "measured", "is_worst": True, "confirmed_cost": None, "search_runs": None}
    rows = [{**WORST, "is_worst": False, "point_id": "p_0", "h": 2}, WORST, measured]
    page = render_report(report(breaks=lines, worst_steps=worst_steps(rows), curves=curves(rows)))
    assert "Where successors break" in page and ".20 to .60" in page and 'few"' in page
    assert "Clearly worse" in page and "<b>.30</b>" in page
    assert "3 of 9" in page and "2.0 to 3.0" in page and "<svg" in page and "takeovers of the round before" in page
    assert "<script" not in page and not {"\x1b", "\x00", "\u202e"} & set(page)
    assert "Where successors break" not in render_report(report())
