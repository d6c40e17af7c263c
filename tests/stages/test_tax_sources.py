"""Sessions that are carried out again: their states, as far as there are any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from handoff.errors import StateError
from handoff.stages.tax_sources import carry_out
from handoff.trajectory import Action, Observation, Step


class Place:
    """An environment whose states are counted; some are none."""

    def __init__(self, broken: frozenset[int]) -> None:
        self._broken = broken
        self.acts = 0
        self.is_closed = False

    def act(self, action: Action) -> Observation:
        self.acts += 1
        return Observation()

    def tree(self) -> str:
        if self.acts in self._broken:
            raise StateError("more than 200,000 files")
        return f"tree-{self.acts}"

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("broken", "trees"),
    [(frozenset[int](), ["tree-1", "tree-2", "tree-3"]), (frozenset({2}), []), (frozenset({3}), [])],
)
def test_a_session_that_left_no_state_on_its_way_has_none(broken: frozenset[int], trees: list[str]) -> None:
    """It is left out of a study, and does not end it."""
    place = Place(broken)
    lab: Any = SimpleNamespace(environment=lambda *where: place)
    job: Any = SimpleNamespace(repo="kata/a", base_commit="b", tree="t")
    step = Step(actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(),))
    assert carry_out(lab, (job, (step, step, step))) == trees
    assert place.is_closed
