"""Handoff tax (docs/science.md §9): against figures computed by hand, and what holds for all runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.studies.front import Offer, pareto, recommend
from handoff.studies.tax import ALL, Cell, Single, Switched, tax_cells


def singles(low: dict[str, tuple[bool, float]], high: dict[str, tuple[bool, float]]) -> list[Single]:
    return [
        Single(task, 0, is_high, solved, cost)
        for is_high, own in ((False, low), (True, high))
        for task, (solved, cost) in own.items()
    ]


def switched(task: str, solved: bool | None, cost: float | None = 10, **more: str) -> Switched:
    named = {"direction": "escalation", "timing": "p10", "interface": "trace", **more}
    run = more.get("run", f"{task} {named['direction']} {named['timing']}")
    return Switched(task, 0, named["direction"], named["timing"], named["interface"], solved, cost, run)


def cell_of(cells: list[Cell], timing: str = "p10", interface: str = "trace", direction: str = "escalation") -> Cell:
    (found,) = [c for c in cells if (c.direction, c.timing, c.interface) == (direction, timing, interface)]
    return found


LOW = {"a": (False, 10.0), "b": (False, 10.0), "c": (True, 10.0), "d": (False, 10.0)}
HIGH = {"a": (True, 50.0), "b": (True, 50.0), "c": (True, 50.0), "d": (False, 50.0)}


def test_the_figures_of_four_tasks_by_hand() -> None:
    """q = 2/4, q_LC = 1/4, q_HC = 3/4: QRec = 1/2. c = 30: CSRet = 20/40."""
    runs = [switched(task, task in "ac", 30) for task in "abcd"]
    cell = cell_of(tax_cells(singles(LOW, HIGH), runs, seed=0))
    assert (cell.quality, cell.quality_low, cell.quality_high) == (0.5, 0.25, 0.75)
    assert (cell.cost, cell.cost_low, cell.cost_high) == (30, 10, 50)
    assert cell.qrec.value == pytest.approx(0.5) and cell.tax == pytest.approx(0.5)
    assert cell.csret.value == pytest.approx(0.5) and cell.csret_interval == pytest.approx((0.5, 0.5))
    assert (cell.n_runs, cell.n_tasks, cell.unmatched) == (4, 4, 0)
    assert cell.qrec_interval is None and "nothing to keep" in cell.note, "in many resamples both models are alike"


def test_both_models_are_taken_on_the_switched_tasks_alone() -> None:
    """Without d, q_HC = 1; a task whose outcome is unknown is counted as unmatched."""
    cell = cell_of(
        tax_cells(singles(LOW, HIGH), [switched("a", True), switched("b", False), switched("d", None)], seed=0)
    )
    assert (cell.quality, cell.quality_low, cell.quality_high) == (0.5, 0, 1)
    assert (cell.n_tasks, cell.unmatched) == (2, 1)
    assert cell_of(tax_cells(singles(LOW, {"a": (True, 1.0)}), [switched("b", True)], seed=0)).unmatched == 1


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        ({"a": (True, 10), "b": (False, 10)}, {"a": (True, 50), "b": (False, 50)}, "equally much"),
        ({"a": (True, 10), "b": (True, 10)}, {"a": (True, 50), "b": (False, 50)}, "solves less"),
    ],
)
def test_without_a_lead_there_is_no_value_but_a_reason(low, high, why) -> None:  # type: ignore[no-untyped-def]
    cell = cell_of(tax_cells(singles(low, high), [switched("a", True), switched("b", False)], seed=0))
    assert cell.qrec.value is None and cell.tax is None and why in (cell.qrec.reason or "")
    assert cell.csret.value is not None, "the saving does not hang on the lead"


def test_a_low_model_that_costs_more_saves_nothing() -> None:
    low, high = {"a": (False, 90.0)}, {"a": (True, 50.0)}
    cell = cell_of(tax_cells(singles(low, high), [switched("a", True, 60)], seed=0))
    assert cell.csret.value is None and "costs more" in (cell.csret.reason or "")
    assert cell.qrec.value == 1 and cell.qrec_interval is None, "one task gives no interval"


def test_an_unknown_cost_is_no_cost_of_nothing() -> None:
    cell = cell_of(tax_cells(singles(LOW, HIGH), [switched("a", True, None), switched("b", True, 5)], seed=0))
    assert cell.cost is None and cell.csret.value is None and cell.csret.reason == "the cost of some run is not known"
    assert cell.qrec.value == 1


outcomes = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.booleans(), st.floats(1, 99)), min_size=1)


@given(outcomes, outcomes)
def test_a_switched_run_like_the_high_model_pays_no_tax_and_one_like_the_low_model_pays_all(low, high) -> None:  # type: ignore[no-untyped-def]
    """QRec is 1 and 0, exactly and in every resample; CSRet is 0 and 1."""
    tasks = sorted(low.keys() & high.keys())
    for own, kept, saved in ((high, 1, 0), (low, 0, 1)):
        runs = [switched(task, *own[task]) for task in tasks]
        for cell in tax_cells(singles(low, high), runs, seed=0):
            if cell.qrec.value is not None:
                assert cell.qrec.value == pytest.approx(kept)
                assert cell.qrec_interval is None or cell.qrec_interval == pytest.approx((kept, kept))
            if cell.csret.value is not None:
                assert cell.csret.value == pytest.approx(saved, abs=1e-9)
                assert cell.csret_interval is None or cell.csret_interval == pytest.approx((saved, saved), abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.floats(1, 99)), min_size=1), st.randoms())
def test_the_order_of_runs_changes_nothing_and_intervals_hold_the_value_of_whole_tasks(runs, rng) -> None:  # type: ignore[no-untyped-def]
    low = dict.fromkeys("abcdef", (False, 1.0))
    high = dict.fromkeys("abcdef", (True, 99.0))
    made = [switched(*run, run=f"k_{n}") for n, run in enumerate(runs)]
    cells = tax_cells(singles(low, high), made, seed=1)
    rng.shuffle(made)
    assert tax_cells(singles(low, high), made, seed=1) == cells
    cell = cell_of(cells, ALL)
    if cell.qrec_interval is not None:
        assert cell.qrec_interval[0] - 1e-9 <= (cell.qrec.value or 0) <= cell.qrec_interval[1] + 1e-9


def test_more_runs_of_one_task_weigh_no_more_than_one() -> None:
    runs = [switched("a", True)] * 9 + [switched("b", False)]
    assert cell_of(tax_cells(singles(LOW, HIGH), runs, seed=0)).quality == 0.5


def offer(interface: str, quality: float, cost: float, solved: str = "") -> Offer:
    return Offer(
        interface=interface, quality=quality, cost=cost, solved_by_task={t: float(t in solved) for t in "abcdef"}
    )


def test_the_front_holds_what_nothing_beats() -> None:
    offers = [offer("a", 0.9, 9), offer("b", 0.9, 10), offer("c", 0.5, 1), offer("d", 0.4, 2), offer("e", 0.5, 1)]
    assert pareto(offers) == {"a", "c", "e"}, "equals do not beat each other"


def test_the_best_affordable_quality_is_recommended_and_open_choices_are_said() -> None:
    rich, fair, poor = offer("rich", 1.0, 90, "abcdef"), offer("fair", 0.8, 40, "abcde"), offer("poor", 0.0, 10)
    chosen = recommend([rich, fair, poor], budget=50, seed=0)
    assert chosen.interface == "fair"
    assert chosen.not_separated == ("rich",), "poor is clearly worse, rich is not clearly worse"
    assert recommend([rich, fair, poor], budget=None, seed=0).interface == "rich"
    nothing = recommend([rich], budget=50, seed=0)
    assert nothing.interface is None and "costs more" in nothing.reason
    assert recommend([], budget=None, seed=0).interface is None


def test_a_run_that_serves_two_timings_counts_once_over_all() -> None:
    """Where a short session is cut at one place for both, one takeover stands in two cells, and is one run."""
    both = [switched("a", True, 30, timing=timing, run="k_1") for timing in ("p10", "p20")]
    other = switched("b", False, 10, timing="p10", run="k_2")
    again = [run._replace(interface="drop") for run in both]  # the same run under another interface is another's
    cells = tax_cells(singles(LOW, HIGH), [*both, other, *again], seed=0)
    assert [cell_of(cells, at).n_runs for at in (ALL, "p10", "p20")] == [2, 2, 1]
    assert cell_of(cells, ALL).quality == 0.5 and cell_of(cells, ALL).cost == 20
    assert cell_of(cells, ALL, "drop").n_runs == 1


def test_a_direction_has_one_recommendation_over_all_timings() -> None:
    runs = [
        switched(task, interface == "trace" or task == "a", 30, interface=interface, timing=timing)
        for task in "abc"
        for interface in ("trace", "drop")
        for timing in ("p10", "p50")
    ]
    cells = tax_cells(singles(LOW, HIGH), runs, seed=0)
    assert [(c.timing, c.interface) for c in cells if c.is_recommended] == [(ALL, "trace")]
    assert cell_of(cells, ALL).n_runs == 6 and cell_of(cells, ALL).is_on_front
    assert not cell_of(cells, ALL, "drop").is_on_front
