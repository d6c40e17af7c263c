"""Sessions that are carried out again: their states, as far as there are any."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from handoff.endpoints import Endpoint, Prices
from handoff.errors import InputError, SandboxError, StateError
from handoff.git.repositories import Repository, run_git
from handoff.sandbox import available
from handoff.stages import tax_sources
from handoff.stages.study_runs import Agent
from handoff.stages.tax_crossing import left_of
from handoff.stages.tax_sources import Spent, carry_out
from handoff.successors import Budget
from handoff.trajectory import Action, Observation, Step
from handoff.workplace import Surroundings, open_workplace
from tests.states.conftest import commit


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
    lab: Any = SimpleNamespace(environment=lambda *where: place, is_unwalled=False)
    job: Any = SimpleNamespace(repo="kata/a", base_commit="b", tree="t", named="mine")
    step = Step(actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(),))
    assert carry_out(lab, (job, (step, step, step))) == trees
    assert place.is_closed


@pytest.mark.parametrize("named", [None, "mine"])
def test_a_model_s_commands_are_not_carried_out_again_on_a_host_that_nobody_asked_for(named: str | None) -> None:
    place = Place(frozenset())
    lab: Any = SimpleNamespace(environment=lambda *where: place, is_unwalled=True)
    job: Any = SimpleNamespace(repo="kata/a", base_commit="b", tree="t", named=named)
    step = Step(actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(),))
    if named is None:
        assert carry_out(lab, (job, (step,))) == ["tree-1"]
        return
    with pytest.raises(SandboxError, match="run in a sandbox"):
        carry_out(lab, (job, (step,)))
    assert place.acts == 0


@pytest.mark.parametrize(
    ("told", "prices", "left"),
    [
        (0.4, Prices(prompt=1.0, completion=2.0), 0.6),
        (None, Prices(prompt=1.0, completion=2.0), 1 - (125_000 + 2 * 62_500) / 1e6),
        (5.0, Prices(prompt=1.0, completion=2.0), 0.0),
        (None, None, None),
    ],
)
def test_what_a_source_spent_and_nobody_told_is_charged_at_its_most(
    told: float | None, prices: Prices | None, left: float | None
) -> None:
    """A policy of the embedded world spends no money; without prices nobody knows."""
    budget, spent = Budget(steps=30, prompt_tokens=400_000, dollars=1.0), Spent(100_000, 50_000, told)
    endpoint = Endpoint(base_url="http://stub/v1", model="m", prices=prices)
    if left is None:
        with pytest.raises(InputError, match="needs prices"):
            left_of(budget, 3, spent, Agent("mine", "m_1", None, True, endpoint))
        return
    found = left_of(budget, 3, spent, Agent("mine", "m_1", None, True, endpoint))
    assert (found.steps, found.prompt_tokens) == (27, 300_000) and found.dollars == pytest.approx(left)
    assert left_of(budget, 3, spent, Agent("B", "p_1", "policy", False, None)).dollars == 1.0


def test_a_step_of_a_real_session_finds_the_folder_and_variables_of_the_one_before(tmp_path: Path) -> None:
    """Reading a tree ends the shell; folders and exported variables are those of the session all the same."""
    if missing := available()["bubblewrap"]:
        pytest.skip(missing)
    run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", tmp_path / "r.git")
    base = commit(tmp_path / "r.git", {"src/b.py": b"x = 1\n"}, "Base")
    lines = ("cd src && export NEW='2 \"3'", "sed -i s/1/2/ b.py", 'printf "%s" "$NEW" > c.txt; cd ..', "rm src/b.py")
    steps = [
        Step(
            actions=(Action(tool="bash", arguments=msgspec.json.encode({"command": line}).decode()),),
            observations=(Observation(exit_code=0),),
        )
        for line in lines
    ]
    with Repository(tmp_path / "r.git", name="o/r") as repository:
        place = open_workplace(repository, base, repository.tree_of(base), tmp_path / "place", Surroundings())
        trees = tax_sources._carried_out(place, steps, ends_shell=True)
        assert [repository.read(tree, "src/b.py") for tree in trees] == [b"x = 1\n", b"x = 2\n", b"x = 2\n", None]
        assert [repository.read(tree, "src/c.txt") for tree in trees[1:]] == [None, b'2 "3', b'2 "3']
