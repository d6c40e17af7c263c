"""What a study will cost, before it starts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.studies.planning import SINGLE, Past, Plan, Wanted, plan_of
from handoff.takeover import Budget

BUDGET = Budget(steps=30, prompt_tokens=400_000)
PRICES = {"local": 0.0, "vendor": 2.0}


def price(arm: str, prompt: float, completion: float) -> float | None:
    if arm == "unknown":
        return None
    return PRICES.get(arm, 0.0) * (prompt + completion) / 1e6


def plan(wanted: list[Wanted], *past: Past, budget: Budget = BUDGET) -> Plan:
    return plan_of(wanted, past, budget=budget, reply_tokens={"vendor": 1000, "unknown": 1}, price=price, is_exact=True)


def test_medians_where_there_are_runs_and_the_budget_elsewhere() -> None:
    wanted = [Wanted("A", "trace", "error")] * 3 + [Wanted("vendor", "repo", "error")] * 2 + [Wanted("A", "diff", "x")]
    found = plan(wanted, Past("A", "trace", 4, 100, 9), Past("A", "trace", 6, 300, 9), Past("A", "repo", 50, 9000, 9))
    first, second, third = found.lines
    assert (first.runs, first.steps, first.prompt_tokens, first.basis) == (3, 15, 600, "median of 2 runs")
    assert (second.steps, second.prompt_tokens, second.completion_tokens) == (60, 800_000, 60_000)
    assert second.basis == "the whole budget: an upper bound" and second.dollars == 2 * 0.86
    assert third.basis == "median of 3 runs under other views" and third.steps == 6
    assert found.runs == found.to_make == 6 and found.costs_money and found.dollars == 1.72


def test_a_session_is_not_expected_to_cost_what_takeovers_do() -> None:
    (line,) = plan([Wanted("A", SINGLE, "")], Past("A", "trace", 4, 100, 9)).lines
    assert line.basis.startswith("the whole budget")


def test_what_is_recorded_costs_nothing_again() -> None:
    found = plan([Wanted("vendor", "repo", "error", True)] * 2)
    assert (found.runs, found.to_make, found.dollars, found.costs_money) == (2, 0, 0, False)
    assert found.lines[0].basis == "recorded"


def test_a_budget_in_money_bounds_each_run_and_unknown_prices_are_said() -> None:
    bounded = plan([Wanted("vendor", "repo", "")] * 4, budget=Budget(steps=30, prompt_tokens=400_000, dollars=0.1))
    assert bounded.dollars == 0.4
    unknown = plan([Wanted("unknown", "repo", ""), Wanted("A", "repo", "")])
    assert unknown.dollars is None and unknown.costs_money
    assert not plan([Wanted("A", "repo", ""), Wanted("local", "repo", "")]).costs_money


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from(["repo", SINGLE]), st.sampled_from("xy"), st.booleans()))
)
def test_every_run_is_in_exactly_one_line(drawn: list[tuple[str, str, str, bool]]) -> None:
    found = plan([Wanted(*run) for run in drawn])
    assert found.runs == len(drawn) and found.to_make == sum(not run[3] for run in drawn)
    assert len({(line.arm, line.view, line.cell) for line in found.lines}) == len(found.lines)
