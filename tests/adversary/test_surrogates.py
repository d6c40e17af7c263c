"""Guesses at difficulty: what they count, and that nothing after h moves them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adversary.surrogates import HEURISTICS, combined, heuristics
from handoff.evidence import gather_evidence
from handoff.trajectory import Action, Observation, Step, Trajectory


def bash(command: str, text: str, code: int = 0) -> Step:
    action = Action(tool="bash", arguments=msgspec.json.encode({"command": command}).decode())
    return Step(actions=(action,), observations=(Observation(text=text, exit_code=code),))


RUN = Trajectory(
    format="swe-agent",
    task="Mend it.",
    steps=(
        bash("cat a.py", "one\ntwo\n"),
        bash("python -m pytest -q", "1 failed, 2 passed in 0.1s", 1),
        bash("sed -i s/one/1/ a.py", ""),
        bash("sed -i s/two/2/ b.py", ""),
        bash("python -m pytest -q", "3 passed in 0.1s"),
    ),
)


def at(h: int, diff: str | None = None) -> dict[str, float]:
    return heuristics(RUN, h, gather_evidence(RUN, h, None), diff)


def test_each_guess_counts_what_it_says() -> None:
    assert set(at(1)) == set(HEURISTICS)
    assert [at(h)["unvalidated_edits"] for h in (1, 2, 3, 4, 5)] == [0, 0, 1, 2, 0]
    assert [at(h)["open_failure"] for h in (1, 2, 3, 4, 5)] == [0, 1, 1, 1, 0]
    assert [at(h)["reads_not_in_diff"] for h in (1, 3)] == [1, 0]
    assert (
        at(1)["unrecoverable_bytes"] == 6
        and at(1, "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n")["unrecoverable_bytes"] == 0
    )


def test_nothing_after_h_moves_a_guess() -> None:
    other = msgspec.structs.replace(RUN, steps=(*RUN.steps[:3], bash("rm -rf .", "gone")))
    assert heuristics(other, 3, gather_evidence(other, 3, None), None) == at(3)


@given(st.lists(st.tuples(*[st.integers(0, 5)] * len(HEURISTICS)), max_size=8))
def test_ranks_are_shares_and_follow_the_guesses(values: list[tuple[int, ...]]) -> None:
    guesses = [dict(zip(HEURISTICS, map(float, own), strict=True)) for own in values]
    ranks = combined(guesses)
    assert all(0 <= rank <= 1 for rank in ranks) and len(ranks) == len(values)
    if len(values) > 1:
        assert sum(ranks) == pytest.approx(len(values) / 2)
    for first, rank in zip(values, ranks, strict=True):
        for second, other in zip(values, ranks, strict=True):
            assert rank >= other or not all(a >= b for a, b in zip(first, second, strict=True))
