"""Sessions that are carried out again: their states, as far as there are any."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from handoff.errors import StateError
from handoff.git.repositories import Repository, run_git
from handoff.sandbox import available
from handoff.stages import tax_sources
from handoff.stages.tax_sources import carry_out
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
    lab: Any = SimpleNamespace(environment=lambda *where: place)
    job: Any = SimpleNamespace(repo="kata/a", base_commit="b", tree="t")
    step = Step(actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(),))
    assert carry_out(lab, (job, (step, step, step))) == trees
    assert place.is_closed


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
