"""Handoff debt of views (docs/science.md §9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.errors import InputError
from handoff.studies.debt import COSTS, SOLVED, Point, debt_rows

POINTS = {f"p{n}": Point(task=f"t{n // 2}", labels=("error",) if n % 2 else ("milestone", "error")) for n in range(8)}


def made(
    point: str, view: str, tokens: int, *, solved: bool | None = True, arm: str = "A", **more: Any
) -> dict[str, Any]:
    counts = {"events": tokens // 10, "steps": tokens // 20, "prompt_tokens": tokens, "completion_tokens": 5}
    rest = {"first_prompt_tokens": 7, "cached_tokens": None, "note_tokens": 0, "tokenizer": "one", "seed": 0}
    return {"point_id": point, "view": view, "arm": arm, "solved": solved, **counts, **rest, **more}


def row(
    rows: list[dict[str, Any]], metric: str, label: str = "all", view: str = "trace", arm: str = "A"
) -> dict[str, Any]:
    (found,) = [r for r in rows if (r["metric"], r["label"], r["view"], r["arm"]) == (metric, label, view, arm)]
    return found


def test_medians_of_matched_points_by_hand() -> None:
    """Under trace 100, 200, 300; under repo 400, 400, 200: medians 200 and 400; ratios 1/4, 1/2, 3/2."""
    runs = [made(f"p{n}", "trace", t) for n, t in enumerate((100, 200, 300))]
    runs += [made(f"p{n}", "repo", t, solved=n != 1) for n, t in enumerate((400, 400, 200))]
    rows = debt_rows(runs, POINTS, seed=0)
    tokens = row(rows, "prompt_tokens")
    assert (tokens["value"], tokens["reference"]) == (200, 400)
    assert (tokens["ratio_of_medians"], tokens["median_of_ratios"]) == (0.5, 0.5)
    assert tokens["ratio_low"] <= 0.5 <= tokens["ratio_high"] and tokens["median_low"] <= tokens["median_high"]
    assert (tokens["n_points"], tokens["n_tasks"], tokens["unmatched"], tokens["note"]) == (3, 2, 0, "")
    solved = row(rows, SOLVED)
    assert (solved["value"], solved["reference"]) == (1, pytest.approx(2 / 3))
    assert (solved["gained"], solved["lost"], solved["p_value"]) == (1, 0, 1.0)
    assert row(rows, "total_tokens")["value"] == 205
    assert {r["view"] for r in rows} == {"trace"}, "repo is what the others are held against"
    assert {r["label"] for r in rows} == {"all", "milestone", "error"}
    assert row(rows, "events", "milestone")["n_points"] == 2, "p0 and p2 are milestones"


def test_what_has_no_counterpart_is_counted_and_said_why() -> None:
    runs = [
        made("p0", "trace", 100),
        made("p1", "trace", 100),
        made("p1", "repo", 100, solved=None),
        made("p2", "repo", 1),
    ]
    rows = debt_rows(runs, POINTS, seed=0)
    assert row(rows, "steps")["unmatched"] == 2
    assert row(rows, "steps")["note"] == "1 without a run under repo; 1 without a run under trace"
    assert row(rows, SOLVED)["value"] is None and row(rows, SOLVED)["reason"]
    assert row(rows, SOLVED)["note"].endswith("1 with unknown outcome") and row(rows, SOLVED)["unmatched"] == 3
    cached = row(rows, "cached_tokens")
    assert cached["value"] is None and cached["reason"] == "no matched points" and "1 without a count" in cached["note"]
    notes = row(rows, "note_tokens")
    assert notes["ratio_of_medians"] is None and notes["value"] == 0 and notes["reason"]


def test_successors_are_never_matched_with_each_other() -> None:
    rows = debt_rows([made("p0", "trace", 10), made("p0", "repo", 20, arm="E")], POINTS, seed=0)
    assert all(r["n_points"] == 0 for r in rows)


def test_token_counts_of_two_tokenizers_are_refused() -> None:
    with pytest.raises(InputError, match="one and two"):
        debt_rows([made("p0", "trace", 10), made("p0", "repo", 20, tokenizer="two")], POINTS, seed=0)


views = st.sampled_from(["repo", "trace", "summary"])
runs_ = st.lists(
    st.tuples(st.sampled_from(sorted(POINTS)), views, st.integers(0, 500), st.sampled_from([True, False, None]))
)


@given(runs_, st.randoms())
def test_every_point_is_matched_or_counted_and_the_order_changes_nothing(drawn: list[Any], rng: Any) -> None:
    runs = {(point, view): made(point, view, tokens, solved=solved) for point, view, tokens, solved in drawn}
    rows = debt_rows(runs.values(), POINTS, seed=3, resamples=50)
    for view in {r["view"] for r in rows}:
        own = {p for p, v in runs if v == view} | {p for p, v in runs if v == "repo"}
        for metric in (*COSTS, SOLVED):
            found = row(rows, metric, view=view)
            assert found["n_points"] + found["unmatched"] == len(own)
            assert (found["value"] is None) <= (found["reason"] is not None)
    shuffled = list(runs.values())
    rng.shuffle(shuffled)

    def key(r: dict[str, Any]) -> str:
        return repr([r[name] for name in ("arm", "view", "label", "metric")])

    assert sorted(debt_rows(shuffled, POINTS, seed=3, resamples=50), key=key) == sorted(rows, key=key)


@given(st.lists(st.tuples(st.sampled_from(sorted(POINTS)), st.integers(20, 500)), min_size=1, unique_by=lambda x: x[0]))
def test_a_view_that_costs_the_same_everywhere_owes_nothing(drawn: list[tuple[str, int]]) -> None:
    runs = [made(point, view, tokens) for point, tokens in drawn for view in ("repo", "trace")]
    for found in debt_rows(runs, POINTS, seed=0, resamples=50):
        if found["metric"] in ("prompt_tokens", "steps") and found["n_points"]:
            assert found["ratio_of_medians"] == found["median_of_ratios"] == 1
            assert found["ratio_low"] in (None, 1) and found["median_high"] in (None, 1)
