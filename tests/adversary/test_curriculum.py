"""Whether tiers are as hard as named, and how much of each the next round practises (docs/science.md §10)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adversary.curriculum import NAMES, TierResult, allot, tier_shares
from handoff.adversary.ordering import TierRun, tier_lines
from handoff.errors import InputError

_result = st.integers(0, 60).flatmap(lambda n: st.builds(TierResult, solved=st.integers(0, n), n=st.just(n)))
_results = st.dictionaries(st.sampled_from(NAMES), _result)
_reached = st.one_of(st.none(), st.floats(0, 1))


@given(_results, _reached, st.integers(0, 200), st.integers(0, 5))
def test_shares_and_places_add_up_keep_the_floors_and_depend_on_nothing_else(
    results: dict[str, TierResult], reached: float | None, total: int, seed: int
) -> None:
    shares = tier_shares(results, reached)
    assert [share.tier for share in shares] == list(NAMES)
    assert sum(share.share for share in shares) == pytest.approx(1)
    assert shares[0].share >= 0.1 - 1e-12 and min(share.share for share in shares) >= 0.05 - 1e-12
    assert shares == tier_shares(dict(reversed(results.items())), reached)
    by_tier = {share.tier: share.share for share in shares}
    places = allot(by_tier, total, seed)
    assert sum(places.values()) == total and places == allot(by_tier, total, seed)
    assert all(abs(places[share.tier] - share.share * total) <= 1 for share in shares)


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0, 1))
def test_the_tier_nearer_to_the_aim_gets_more(one: int, other: int, reached: float) -> None:
    results = {"medium": TierResult(solved=one, n=40), "hard": TierResult(solved=other, n=40)}
    found = {share.tier: share for share in tier_shares(results, reached)}
    distance = {tier: abs(found[tier].success - found[tier].aim) for tier in results}
    if distance["medium"] < distance["hard"] - 1e-9:
        assert found["medium"].share > found["hard"].share


@given(st.floats(0, 1), st.floats(0, 1))
def test_better_scores_move_practice_to_where_less_succeeds(low: float, high: float) -> None:
    low, high = sorted((low, high))
    results = {tier: TierResult(solved=solved, n=40) for tier, solved in zip(NAMES, (36, 28, 18, 8), strict=True)}
    before, after = tier_shares(results, low), tier_shares(results, high)
    assert after[0].aim <= before[0].aim

    def hardness(shares: tuple) -> float:  # type: ignore[type-arg]
        return sum(place * share.share for place, share in enumerate(shares))

    assert hardness(after) >= hardness(before) - 1e-12


def test_before_anything_is_measured_all_tiers_but_the_floor_are_equal() -> None:
    shares = tier_shares({}, None)
    assert {round(share.share, 6) for share in shares[1:]} == {round(shares[1].share, 6)}
    assert all("not measured yet" in share.why for share in shares)


@pytest.mark.parametrize(("floor", "easy", "reached"), [(0.4, 0.1, None), (-0.1, 0.1, None), (0.05, 0.1, 1.5)])
def test_what_is_no_share_is_refused(floor: float, easy: float, reached: float | None) -> None:
    with pytest.raises(InputError):
        tier_shares({}, reached, floor=floor, easy_floor=easy)


# -- order ----------------------------------------------------------------------------------------------


def runs(tier: str, hrs: float, *, tasks: int = 10, noise: float = 0.02, solved: bool | None = True) -> list[TierRun]:
    rng = np.random.default_rng(len(tier) * 1000 + int(hrs * 100))
    made = []
    for place in range(2 * tasks):
        score = hrs + float(rng.normal(0, noise))
        made.append(
            TierRun(
                tier=tier,
                arm="E",
                task=f"t{place // 2}",
                solved=solved,
                hrs=score,
                excess_cost=1 - score,
                e_cr=1 - score,
                p_si=score,
                p_pc=score,
            )
        )
    return made


def test_tiers_that_differ_are_ordered_and_say_which_term_falls() -> None:
    lines = tier_lines([*runs("hard", 0.3), *runs("easy", 0.7), *runs("medium", 0.5)], seed=1)
    assert [(line.tier, line.order) for line in lines] == [("easy", "first"), ("medium", "harder"), ("hard", "harder")]
    assert lines[1].fall.low is not None and 0.15 < lines[1].fall.low < 0.2 < (lines[1].fall.high or 0)
    assert "HRS is 0.20 below easy" in lines[1].why and "context -0.2" in lines[1].why


def test_an_order_that_is_not_there_is_said_so() -> None:
    up = tier_lines([*runs("easy", 0.4), *runs("medium", 0.6), *runs("hard", 0.6, noise=0.2)], seed=1)
    assert [line.order for line in up] == ["first", "easier", "not told apart"]
    assert "above easy" in up[1].why and "within chance" in up[2].why
    apart = [*runs("easy", 0.4), *(run for run in runs("medium", 0.2, tasks=1))]
    assert tier_lines(apart, seed=1)[1].order == "not compared"
    unjudged = tier_lines(runs("easy", 0.5, solved=None), seed=1)[0]
    assert unjudged.solve_rate == (None, None, None) and unjudged.hrs.value == pytest.approx(0.5, abs=0.02)
