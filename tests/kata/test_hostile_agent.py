"""An agent of the embedded world may be any model on an endpoint: what it leaves never leads out of its work tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.kata import store
from handoff.kata.environment import KataEnvironment
from handoff.kata.lab import KataLab
from handoff.kata.world import Task, World
from handoff.trajectory import Action

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture(scope="module")
def lab(recorded: Path) -> Iterator[KataLab]:
    with KataLab(recorded, worker="hostile") as lab:
        yield lab


@pytest.fixture
def task(world: World) -> Task:
    return world.tasks[0]


@pytest.fixture
def place(lab: KataLab, task: Task) -> KataEnvironment:
    return lab.environment(task.repo, store.base_commit(task))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "key").write_text("swordfish")
    return folder


def bash(command: str) -> Action:
    return Action(call_id="c", tool="bash", arguments=json.dumps({"command": command}))


def replace(path: str) -> Action:
    arguments = {"command": "str_replace", "path": path, "old_str": "swordfish", "new_str": "bad"}
    return Action(call_id="c", tool="str_replace_editor", arguments=json.dumps(arguments))


def untouched(outside: Path) -> bool:
    return [p.name for p in outside.iterdir()] == ["key"] and (outside / "key").read_text() == "swordfish"


def test_a_tests_folder_that_leads_out_is_not_written_through(place: KataEnvironment, outside: Path) -> None:
    """The judge puts its own test files back, and never through the agent's link."""
    judging = [path.removeprefix("tests/") for path in place.files() if path.startswith("tests/")]
    for name in judging:
        (outside / name).write_text("swordfish")
    seen = place.act(bash(f"rm -rf tests && ln -s {outside} tests && ls -l"))
    assert seen.exit_code == 0 and str(outside) in seen.text
    verdict = place.verdict()
    assert verdict.total and judging
    assert {p.name: p.read_text() for p in outside.iterdir()} == dict.fromkeys([*judging, "key"], "swordfish")
    assert not any(path.startswith("tests") for path in place.files())


def test_a_verdict_on_files_that_were_tampered_with_leaves_the_agents_state(place: KataEnvironment) -> None:
    """What it wrote into test files does not count, and is in the tree all the same."""
    place.act(bash("for f in tests/*.py; do echo 'def test_nothing(): pass' > $f; done; echo x > extra.txt"))
    before = place.files()
    tree = place.tree()
    assert place.verdict().solved is False
    assert place.files() == before and place.tree() == tree


@pytest.mark.parametrize("path", ["out/key", "linked", "/etc/passwd", "../key", "./.git/config", "a/../../key", "\0"])
def test_the_editor_never_leaves_the_work_tree(place: KataEnvironment, outside: Path, path: str) -> None:
    place.act(bash(f"ln -s {outside} out; ln -s {outside}/key linked"))
    assert place.act(replace(path)).exit_code == 1
    assert untouched(outside)


def test_a_deep_or_large_or_unreadable_tree_ends_nothing(lab: KataLab, task: Task, place: KataEnvironment) -> None:
    """It is left out of the state, and the next environment starts clean."""
    place.act(
        bash(
            "python3 -c \"import os\nfor i in range(1200): os.mkdir('folder'); os.chdir('folder')\nopen('x','w')\"; "
            "mkfifo pipe; ln -s loop loop; truncate -s 5M big; mkdir shut; touch shut/x; chmod 000 shut; chmod 555 ."
        )
    )
    place.tree()
    assert not set(place.files()) & {"pipe", "loop", "big"}
    clean = lab.environment(task.repo, store.base_commit(task))
    assert clean.tree() == store.tree_id(clean.files())
    assert "folder" not in clean.act(bash("ls")).text
