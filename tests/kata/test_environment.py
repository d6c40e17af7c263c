"""The place agents act in: real shell, real pytest, nothing outside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.kata import store, tools
from handoff.kata.environment import KataEnvironment
from handoff.kata.lab import KataLab
from handoff.kata.mind import read_diff
from handoff.kata.testserver import Memo, TestRun
from handoff.kata.world import Task, World
from handoff.trajectory import Action


@pytest.fixture(scope="module")
def lab(recorded: Path) -> Iterator[KataLab]:
    with KataLab(recorded, worker="test") as lab:
        yield lab


@pytest.fixture
def task(world: World) -> Task:
    return world.tasks[0]


@pytest.fixture
def place(lab: KataLab, task: Task) -> KataEnvironment:
    return lab.environment(task.repo, store.base_commit(task))


def bash(command: str) -> Action:
    return Action(call_id="c", tool="bash", arguments=json.dumps({"command": command}))


def edit(path: str, old: str, new: str) -> Action:
    arguments = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
    return Action(call_id="c", tool="str_replace_editor", arguments=json.dumps(arguments))


def test_the_buggy_state_fails_and_the_reference_passes(lab: KataLab, task: Task) -> None:
    """A bug counts only because real tests fail with it; the reference solves the task."""
    commit = store.base_commit(task)
    before = lab.environment(task.repo, commit).verdict()
    after = lab.environment(task.repo, commit, changes=task.reference).verdict()
    assert before.solved is False and before.total == after.total == after.passed
    for fix in task.fixes:  # every bug alone is seen
        one_left = {**task.files, **task.reference}
        one_left[fix.path] = fix.inverse().apply(one_left[fix.path])
        assert lab.environment(task.repo, commit, changes=one_left).verdict().solved is False


def test_equal_trees_run_once(lab: KataLab, task: Task) -> None:
    """The memo answers for a (tree, target) that has run, with the same bytes."""
    place = lab.environment(task.repo, store.base_commit(task))
    first = place.act(bash(tools.TEST))
    runs = lab.test_runs
    assert place.act(bash(tools.TEST)) == first
    assert lab.test_runs == runs
    assert " in 0." not in first.text and first.exit_code == 1


def test_what_one_worker_ran_another_knows_at_once(tmp_path: Path) -> None:
    """Whole lines alone are read: one that is being written is read when it is whole."""
    mine, others = Memo(tmp_path, "0"), Memo(tmp_path, "1")
    others.put("t1", "", TestRun(1, "one"))
    assert mine.get("t1", "") == TestRun(1, "one") and mine.get("t2", "") is None
    others.put("t2", "", TestRun(0, "two"))
    path = tmp_path / "1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert mine.get("t2", "") is None
    path.write_bytes(whole)
    assert mine.get("t2", "") == TestRun(0, "two") == Memo(tmp_path, "2").get("t2", "")
    mine.put("t3", "a", TestRun(0, "three"))
    assert others.get("t3", "a") == TestRun(0, "three") and others.get("t3", "") is None


def test_the_git_folder_of_an_environment_is_small(lab: KataLab, task: Task) -> None:
    """It is copied and removed with each of them: its objects are in one pack."""
    lab.environment(task.repo, store.base_commit(task))
    found = list((lab._work / ".git").rglob("*"))
    assert len(found) <= 14 and sum(path.suffix == ".pack" for path in found) == 1


def test_git_diff_shows_the_changes_of_the_predecessor(lab: KataLab, task: Task) -> None:
    """History ends at the base commit; what was changed since is uncommitted, and its tokens can be read back."""
    place = lab.environment(task.repo, store.base_commit(task), changes=task.reference)
    hunks, code = read_diff(place.act(bash("git diff")).text)
    assert {change for own in hunks.values() for change in own or ()} == set(task.fixes)
    assert all(change.new in code[change] for change in task.fixes)
    history = place.act(bash("git log --oneline | wc -l; git tag; git remote; git reflog | wc -l"))
    assert history.text.split() == ["1", "0"]


def test_a_hung_command_and_a_wrong_one_come_back_as_text(place: KataEnvironment) -> None:
    assert place.act(bash("cat nothing_here.py")).exit_code == 1
    assert place.act(Action(tool="bash", arguments="{not json")).error is True
    assert place.act(Action(tool="teleport", arguments="{}")).error is True


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", ".git/config", "link", "a\0b", "", "tests"])
def test_edits_stay_inside_the_repository(place: KataEnvironment, path: str) -> None:
    """Paths that climb out, absolute ones, git's own files and links are no files of the repository."""
    place.act(bash("ln -s /etc/passwd link"))
    before = place.files()
    assert place.act(edit(path, "root", "x")).error is True
    assert place.files() == before and "link" not in before


def test_an_edit_needs_a_text_that_occurs_once(place: KataEnvironment, task: Task) -> None:
    path = task.bugs[0].path
    assert "occurs" in place.act(edit(path, "no such text", "x")).text
    assert "occurs" in place.act(edit(path, "", "x")).text
    assert place.act(edit(path, *_line(task.files[path]))).exit_code == 0


def _line(text: str) -> tuple[str, str]:
    line = next(line for line in text.split("\n") if text.count(line) == 1 and line)
    return line, line + "  # seen"


def test_tampering_with_the_tests_does_not_help(place: KataEnvironment) -> None:
    """The verdict is given by the tests of the base commit; the agent's state is left as it was."""
    place.act(bash("printf 'def test_a():\\n    pass\\n' > tests/test_flows.py; rm -f tests/test_[a-eg-z]*.py"))
    place.act(bash("printf 'def pytest_collection_modifyitems(items):\\n    items.clear()\\n' > conftest.py"))
    state = place.files()
    verdict = place.verdict()
    assert verdict.solved is False and verdict.total is not None and verdict.total > 3
    assert place.files() == state


def test_tests_that_never_end_or_flood_are_stopped(lab: KataLab, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung test run has no exit code, and the server goes on."""
    monkeypatch.setattr("handoff.kata.testserver.RUN_SECONDS", 1.0)
    hang = {"tests/test_flows.py": "import os\nos.fork()\nwhile True:\n    pass\n"}
    place = lab.environment(task.repo, store.base_commit(task), changes=hang)
    assert place.act(bash(tools.TEST)).exit_code is None
    monkeypatch.setattr("handoff.kata.testserver.RUN_SECONDS", 20.0)
    flood = {"tests/test_flows.py": "import os\nos.write(1, b'x' * 3_000_000)\nos._exit(9)\n"}
    place = lab.environment(task.repo, store.base_commit(task), changes=flood)
    observation = place.act(bash(tools.TEST))
    assert observation.exit_code == 9 and len(observation.text) < 300_000
