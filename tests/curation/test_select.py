"""Selection: outcome and cost before imitation, and a reason for every candidate."""

from __future__ import annotations

import json
import random

import msgspec

from handoff.curation import Candidate, Rules, select

BASE = Candidate(
    takeover_id="k_1",
    point_id="p_1",
    view_id="v_1",
    task_id="task",
    repo="r",
    split="train",
    purpose="collect",
    solved=True,
    destroyed_fixes=0,
    steps=5,
    prompt_tokens=100,
    remaining_steps=5,
    excess_cost=0.0,
    hrs=0.5,
    is_grounded=True,
)


def candidate(takeover_id: str, **changes: object) -> Candidate:
    return msgspec.structs.replace(BASE, takeover_id=takeover_id, **changes)


def gates(*candidates: Candidate, rules: Rules | None = None) -> dict[str, tuple[str, str]]:
    return {row["takeover_id"]: (row["gate"], row["verdict"]) for row in select(candidates, rules).funnel}


def test_each_gate_drops_and_says_why() -> None:
    """Every candidate leaves one row with the first gate it fails."""
    found = gates(
        candidate("k_a"),
        candidate("k_b", purpose="evaluate"),
        candidate("k_c", split="test"),
        candidate("k_d", solved=False),
        candidate("k_e", solved=None),
        candidate("k_f", destroyed_fixes=2),
        candidate("k_g", steps=16),
        candidate("k_h", is_grounded=False),
        candidate("k_i", is_grounded=None),
        candidate("k_j", hrs=0.1),
        candidate("k_k", leak="the recorded run, step 3: saw: git log --all", solved=None),
        candidate("k_l", is_injected=True),
        rules=Rules(min_hrs=0.2),
    )
    assert found == {
        "k_a": ("selected", "kept"),
        "k_b": ("purpose", "dropped"),
        "k_c": ("split", "dropped"),
        "k_d": ("outcome", "dropped"),
        "k_e": ("outcome", "dropped"),
        "k_f": ("destroyed_fixes", "dropped"),
        "k_k": ("history", "dropped"),
        "k_g": ("cost", "dropped"),
        "k_h": ("groundedness", "dropped"),
        "k_i": ("groundedness", "dropped"),
        "k_j": ("robustness", "dropped"),
        "k_l": ("injection", "dropped"),
    }


def test_the_cheaper_run_is_kept_even_when_the_other_imitates_better() -> None:
    """Data is selected on outcome and cost first."""
    selection = select([candidate("k_a", excess_cost=0.4, hrs=0.9), candidate("k_b", excess_cost=0.1, hrs=0.3)])
    assert [c.takeover_id for c in selection.choices] == ["k_b"]
    assert json.loads(selection.funnel[0]["evidence"]) == {"better": "k_b"}


def test_caps_bound_a_task_and_a_repository() -> None:
    """One task cannot fill the set."""
    many = [candidate(f"k_{n}", point_id=f"p_{n}", view_id=f"v_{n}", task_id=f"t{n % 2}") for n in range(8)]
    assert sum(v == "kept" for _, v in gates(*many, rules=Rules(per_task=3)).values()) == 6
    assert sum(v == "kept" for _, v in gates(*many, rules=Rules(per_repository=5)).values()) == 5


def test_pairs_join_the_best_run_with_one_that_fails_or_costs_more() -> None:
    """Same point, same view; failing first."""
    selection = select(
        [
            candidate("k_a"),
            candidate("k_b", excess_cost=0.9),
            candidate("k_c", solved=False, excess_cost=2.0),
            candidate("k_d", point_id="p_2", view_id="v_2"),
        ]
    )
    assert [(p.chosen, p.rejected) for p in selection.pairs] == [("k_a", "k_c")]
    assert "fails" in selection.pairs[0].because


def test_the_order_of_candidates_does_not_matter() -> None:
    """Same rows, same set."""
    many = [
        candidate(f"k_{n:02d}", point_id=f"p_{n % 5}", excess_cost=(n * 7 % 10) / 10, solved=n % 3 > 0)
        for n in range(30)
    ]
    expected = select(many)
    shuffled = list(many)
    random.Random(1).shuffle(shuffled)
    assert select(shuffled) == expected
