"""Tables and pages show rows of the lake, and hostile text stays text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.plots import Bar, interval_chart
from handoff.report.page import Handoff, Report, render_report, visible
from handoff.report.tables import markdown, plain, takeover_table

ROW = {
    "split": "test",
    "arm": "E",
    "view": "repo",
    "label": "all",
    "tier": "none",
    "metric": "hrs",
    "value": 0.71,
    "low": 0.6,
    "high": 0.8,
    "n_runs": 40,
    "n_points": 40,
    "n_tasks": 16,
    "coverage": 1.0,
    "reason": None,
}
HOSTILE = "<script>alert(1)</script>\x1b[31m\x00‮|`[x](javascript:1)"


def _report(**changes: object) -> Report:
    empty: dict[str, object] = dict.fromkeys(
        (
            "corpus",
            "labels",
            "states",
            "lines",
            "tiers",
            "tier_order",
            "curated",
            "funnel",
            "quarantine",
            "variants",
            "policies",
            "exports",
            "handoffs",
            "contrasts",
        ),
        (),
    )
    return Report(**{**empty, "round": "r001", "seed": 0, "sandbox": "bubblewrap", **changes})  # type: ignore[arg-type]


def test_a_figure_is_the_row_it_came_from() -> None:
    (line,) = takeover_table([ROW])
    cell = next(c for c in line.cells if c.metric == "hrs")
    assert (cell.text, cell.interval) == (".71", ".60–.80")


def test_a_figure_without_a_value_is_a_dash_with_its_reason() -> None:
    (line,) = takeover_table([{**ROW, "value": None, "low": None, "high": None, "reason": "no gold"}])
    cell = next(c for c in line.cells if c.metric == "hrs")
    assert (cell.text, cell.interval, cell.reason) == ("–", "", "no gold")


def test_runs_that_nobody_judged_are_counted_beside_the_others() -> None:
    (line,) = takeover_table([ROW, {**ROW, "metric": "solve_rate", "coverage": 0.75}])
    assert (line.n_runs, line.not_judged, line.runs) == (40, 10, "40 (10 not judged)")
    assert "40 (10 not judged)" in render_report(_report(lines=(line,)))
    (judged,) = takeover_table([{**ROW, "metric": "solve_rate"}])
    assert judged.runs == "40"


def test_other_splits_and_disturbed_runs_are_not_in_the_main_table() -> None:
    assert takeover_table([{**ROW, "split": "train"}, {**ROW, "tier": "hard"}, {**ROW, "label": "error"}]) == ()


def test_the_page_escapes_whatever_a_trajectory_says() -> None:
    handoff = Handoff(
        point_id="p_1",
        task_id=HOSTILE,
        h=3,
        n_steps=9,
        labels=("error",),
        state_status="verified",
        views=(("trace", 5, HOSTILE),),
    )
    quarantined = {"file": HOSTILE, "record": 1, "field": HOSTILE, "problem": HOSTILE, "remedy": HOSTILE}
    page = render_report(_report(handoffs=(handoff,), quarantine=(quarantined,), lines=takeover_table([ROW])))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x00" not in page
    assert "‮" not in page
    assert ".71" in page


def test_the_page_asks_nobody_for_anything() -> None:
    page = render_report(_report(lines=takeover_table([ROW])))
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


@given(st.text())
def test_a_markdown_cell_cannot_leave_its_cell(text: str) -> None:
    row = markdown(["a"], [[text]]).splitlines()
    assert len(row) == 3
    assert row[2].count("|") == 2
    assert "<" not in row[2]


def test_long_text_is_cut_and_says_so() -> None:
    assert plain("x" * 300).endswith("…")
    assert "10 more characters" in visible("x" * 110, 100)


def test_a_missing_bar_says_that_it_has_no_value() -> None:
    assert "no value" in interval_chart("t", [Bar(group="g", name="A", value=None)])
