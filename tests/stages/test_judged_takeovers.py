"""Takeovers of real repositories, judged by the tests of their task: from a recording and an instance to verdicts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fault_server as server
import pytest
from fault_server import message, serving
from typer.testing import CliRunner

from handoff import cli
from handoff.corpus import split_of
from handoff.kata.world import unified_diff
from handoff.project import Project
from handoff.sandbox import python_paths
from handoff.stages import is_real
from handoff.stages.adversary import adversarial_variants
from handoff.stages.coevolution import policy, round_report
from handoff.stages.curation import curated_training_set
from handoff.stages.diagnosis import diagnostics, robustness
from handoff.stages.exports import exports
from handoff.stages.one_takeover import one_takeover
from handoff.stages.takeovers import takeover_runs
from handoff.views import VIEWS
from tests.sandbox.conftest import docker_image
from tests.states.histories import Made, make

__all__ = ["docker_image"]

REPO = next(name for number in range(99) if split_of(name := f"acme/pager{number}", None) == "test")
ID = f"{REPO.replace('/', '__')}-1"
BASE = {
    "pager.py": "def page(items, size):\n    return items[1:size]\n\n\ndef count(items):\n    return len(items)\n",
    "tests/test_pager.py": "from pager import count\n\n\ndef test_count():\n    assert count([1, 2]) == 2\n",
    "conftest.py": "",
    ".gitignore": "__pycache__/\n",
}
MENDED = BASE["pager.py"].replace("items[1:size]", "items[:size]")
TESTS = (
    BASE["tests/test_pager.py"].replace("import count", "import count, page")
    + "\n\ndef test_sealedmark():\n    assert page([1, 2, 3], 2) == [1, 2]\n"
)
PATCH = unified_diff("pager.py", BASE["pager.py"], MENDED)
TEST_PATCH = unified_diff("tests/test_pager.py", BASE["tests/test_pager.py"], TESTS)
INSTANCE: dict[str, Any] = {
    "instance_id": ID,
    "repo": REPO,
    "patch": PATCH,
    "test_patch": TEST_PATCH,
    "FAIL_TO_PASS": ["tests/test_pager.py::test_sealedmark"],
    "PASS_TO_PASS": ["tests/test_pager.py::test_count"],
}
EDIT: tuple[str, dict[str, Any]] = (
    "str_replace_editor",
    {"command": "str_replace", "path": "pager.py", "old_str": "items[2:size]", "new_str": "items[:size]"},
)
Call = tuple[str, dict[str, Any]]
FIXED: Call = ("bash", {"command": "sed -i 's/items.[12]:/items[:/' pager.py"})
SUBMIT: Call = ("submit", {})


def recording() -> dict[str, Any]:
    """A run that begins to work: a wrong edit, seen by the run itself, and its end."""
    wrong = BASE["pager.py"].replace("items[1:size]", "items[2:size]")
    commands = (
        ("cat pager.py", BASE["pager.py"]),
        ("sed -i 's/items.1:/items[2:/' pager.py", ""),
        ("cat pager.py", wrong),
        ("python -m pytest -q", "1 passed in 0.01s\n"),
        ("ls", "conftest.py\npager.py\ntests\n"),
    )
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Pages begin too late."}]
    for n, (command, said) in enumerate(commands):
        call = {"id": f"c{n}", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
        messages.append({"role": "assistant", "content": f"Step {n}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": said})
    return {"messages": messages, "instance_id": ID}


class World:
    """A repository with a bug, an instance that says so, and a recorded run, ingested."""

    def __init__(self, folder: Path, url: str, base: Mapping[str, str] = BASE) -> None:
        self.url = url
        self.script: list[dict[str, Any]] = []
        self.folder = folder
        self.said = ""
        self.data = folder / "data"
        files = {path.encode(): ("100644", text.encode()) for path, text in base.items()}
        self.source = folder / "pager.git"
        (self.base,) = make(self.source, [Made(files)], {"main": 0})

    def ingest(self, *more: str, **fields: Any) -> list[dict[str, Any]]:
        """The points of the run, with the instance changed as ``fields`` say."""
        row = {**INSTANCE, "base_commit": self.base, **fields}
        (self.folder / "instances.jsonl").write_text(json.dumps(row) + "\n")
        (self.folder / "runs.jsonl").write_text(json.dumps(recording()) + "\n")
        arguments = ["ingest", str(self.folder / "runs.jsonl"), "--repository", f"{REPO}={self.source}"]
        arguments += ["--instances", str(self.folder / "instances.jsonl"), "--shard", "real", "--data", str(self.data)]
        done = CliRunner().invoke(cli.app, [*arguments, *more])
        assert done.exit_code == 0, done.output
        self.said = " ".join(done.output.split())
        return Project(self.data).lake.rows("injected_handoffs", shard="real")

    def set(self, url: str | None = None, *, tests: str = "", head: str = "", programs: bool = True) -> Project:
        self.data.mkdir(exist_ok=True)
        shown = [str(path) for path in python_paths()] if programs else []
        (self.data / "handoff.toml").write_text(
            f'{head}\n[successors.stub]\nbase_url = "{url or self.url}"\nmodel = "stub-1"\nretries = 0\n'
            f'[tests."{REPO}"]\nprograms = {json.dumps(shown)}\n{tests}\n'
        )
        return Project(self.data)

    def point(self) -> dict[str, Any]:
        points = Project(self.data).lake.rows("injected_handoffs", shard="real")
        return next(p for p in points if is_real(p) and "first_meaningful_modification" in p["labels"])

    def takeover(self, *calls: Call, seed: int = 0, tests: str = "") -> Any:
        """The row of a takeover by a model that makes these calls and submits."""
        self.script[:] = [message("", call) for call in (*calls, SUBMIT)]
        project = self.set(tests=tests)
        return one_takeover(project, self.point()["point_id"], "repo", "stub", seed)

    def next(self, handler: Any, body: dict[str, Any]) -> None:
        """What the model says next."""
        server.answer(self.script.pop(0))(handler, body)


@pytest.fixture
def world(tmp_path: Path, bubblewrap: None) -> Iterator[World]:
    with serving() as at:
        made = World(tmp_path, at.url)
        at.then = made.next
        made.set()
        yield made


def test_a_takeover_that_mends_it_is_solved(world: World) -> None:
    """By the task's tests, though the recording never saw them; and one that does not, is not."""
    world.ingest()
    row = world.takeover(("bash", {"command": "cat pager.py; ls tests; python -m pytest -q"}), FIXED)
    assert (row["solved"], row["tests_passed"], row["tests_total"], row["status"]) == (True, 2, 2, "submitted")
    assert row["destroyed_fixes"] == 0 and row["note"] == ""
    assert "1 passed" in row["transcript"], "the agent has the programs, and only the base's tests"
    other = world.takeover(("bash", {"command": "echo '# done' >> pager.py"}), seed=1)
    assert (other["solved"], other["tests_passed"], other["tests_total"]) == (False, 1, 2)
    broken = world.takeover(FIXED, ("bash", {"command": "sed -i 's/len(items)/0/' pager.py"}), seed=2)
    assert (broken["solved"], broken["tests_passed"]) == (False, 1)


@pytest.mark.slow
def test_nothing_sealed_is_where_an_agent_looks(world: World) -> None:
    """While it works and afterwards: its answers, layouts and journals lie in the sealed folder alone."""
    world.ingest()
    word = "sealedmark"
    look = "grep -rs 'sealed[m]ark' /repo /tmp /home /root /var /run /etc /dev/shm; git log -p; git fsck --lost-found"
    row = world.takeover(("bash", {"command": look}), FIXED)
    assert row["solved"] is True and word not in row["transcript"]
    found = [path for path in world.data.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]
    assert found and {path.relative_to(world.data).parts[0] for path in found} == {"sealed"}
    assert not list((world.data / "sealed" / "layouts").iterdir())
    assert not list((world.data / "sandboxes").rglob("*"))


def test_an_unfit_environment_is_unknown_until_it_is_mended(world: World) -> None:
    """No request is made again for the verdict that could not be had."""
    world.ingest()
    row = world.takeover(FIXED, tests='command = "python3 -m no_such_runner {files}"')
    assert row["solved"] is None and row["status"] == "submitted"
    assert row["note"].startswith("not judged: the environment is unfit: 1 of 1 tests that pass at the base fail there")
    assert "sealedmark" not in row["note"]
    world.set()
    again = one_takeover(Project(world.data), world.point()["point_id"], "repo", "stub", 0)
    assert again["solved"] is True and again["takeover_id"] == row["takeover_id"]


def test_without_an_instance_or_a_command_the_reason_is_said(world: World) -> None:
    world.ingest(FAIL_TO_PASS=["page (pager.Case)"], PASS_TO_PASS=[])
    assert f'write [tests."{REPO}"] with a command' in world.takeover(FIXED)["note"]
    world.ingest(instance_id=f"{ID}0", repo=REPO)
    (world.folder / "instances.jsonl").unlink()


@pytest.mark.slow
def test_the_instance_says_how_its_tests_run(world: World) -> None:
    """SWE-rebench's form: the test files are put after the line."""
    world.ingest(install_config={"test_cmd": "python -m pytest -rA --no-header"})
    assert world.takeover(FIXED)["solved"] is True


HOSTILE = {
    "conftest": "printf 'import os\\nos._exit(0)\\n' | tee conftest.py tests/conftest.py > sitecustomize.py",
    "tests": "printf 'def test_sealedmark(): pass\\ndef test_count(): pass\\n' > tests/test_pager.py",
    "runner": "printf 'print(1)' > pytest.py; mkdir unittest; touch unittest/__init__.py",
    "options": "printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini; printf '[tool:pytest]\\nx=1' > setup.cfg",
    "link": "rm -r tests; ln -s /etc tests; ln -s /proc/self/environ environ",
    "link_file": "rm tests/test_pager.py; ln -s ../pager.py tests/test_pager.py",
    "hooks": "git config core.fsmonitor 'touch /tmp/x'; printf 'exit 1' > .git/hooks/post-checkout; git commit -qam x",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", HOSTILE)
def test_what_a_successor_does_to_the_judge_changes_nothing(world: World, how: str) -> None:
    """Neither for one that mended the code, nor for one that did not."""
    world.ingest()
    attack = ("bash", {"command": HOSTILE[how]})
    assert world.takeover(FIXED, attack)["solved"] is True
    row = world.takeover(attack, seed=1)
    assert (row["solved"], row["tests_passed"]) == (False, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.kill(0, signal.SIGKILL)",
        "while True: pass",
        "import subprocess, time; subprocess.Popen(['sleep', '1000'], start_new_session=True); time.sleep(1000)",
        "while True: print('x' * 99999)",
        "import sys; sys.exit('3 passed in 0.01s')",
    ],
    ids=["exits", "kills", "spins", "sleeps", "floods", "lies"],
)
def test_code_that_attacks_its_tests_is_bounded(world: World, code: str) -> None:
    """A verdict comes all the same, in time."""
    world.ingest()
    begun = time.monotonic()
    write = ("bash", {"command": f"cat > pager.py <<'E'\n{code}\nE"})
    row = world.takeover(write, tests="timeout_s = 12")
    assert time.monotonic() - begun < 60
    assert row["solved"] in (False, None) and not row["tests_passed"]
    assert row["solved"] is False or "output was lost" in row["note"]
    assert not list((world.data / "sealed" / "layouts").iterdir())


@pytest.mark.slow
def test_states_are_classed_where_asked(world: World) -> None:
    """And only there: tests take time."""
    assert {p["state_class"] for p in world.ingest()} == {None}
    points = world.ingest("--test")
    assert points and {p["state_class"] for p in points} == {"needs_completion"}
    untold = world.ingest("--test", PASS_TO_PASS=[], FAIL_TO_PASS=[])
    assert {(p["state_class"], p["state_class_reason"]) for p in untold} == {
        (None, "the instance names no tests that decide it")
    }
    assert "unknown (the instance names no tests that decide it)" in world.said


def test_nothing_is_tested_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even by another successor that leaves the same tree, or in another process."""
    from handoff.judging import bench

    world.ingest()
    tested: list[str] = []
    real = bench.Bench._executed

    def counted(self: Any, store: Any, judged: Any, place: Path) -> Any:
        tested.append(judged.tree)
        return real(self, store, judged, place)

    monkeypatch.setattr(bench.Bench, "_executed", counted)
    for seed in range(2):
        assert world.takeover(FIXED, seed=seed)["solved"] is True
    assert len(tested) == len(set(tested)) <= 3


@pytest.mark.slow
def test_any_interface_serves_and_a_second_asking_reads_the_journal(world: World) -> None:
    world.ingest()
    world.script[:] = [message("", FIXED, SUBMIT)]
    arguments = ["takeover", world.point()["point_id"], "--successor", "stub", "--view", "window:2"]
    shown = [CliRunner().invoke(cli.app, [*arguments, "--data", str(world.data)]) for _ in range(2)]
    assert [result.exit_code for result in shown] == [0, 0], shown[0].output
    assert shown[0].stdout == shown[1].stdout and not world.script
    said = " ".join(shown[0].stdout.split())
    assert "stub, window:2" in said and "solved yes, 2 of 2 tests pass" in said


@pytest.mark.slow
def test_an_agent_that_is_a_command_is_judged_like_a_model(world: World) -> None:
    """On what it left in the work tree, by the same tests; the verdict is not the agent's to give."""
    world.ingest()
    text = (world.data / "handoff.toml").read_text()
    mending = FIXED[1]["command"].replace("\\", "\\\\")
    more = f'[successors.mends]\nkind = "command"\ncommand = "cat {{prompt}}; {mending}"\n'
    more += '[successors.claims]\nkind = "command"\ncommand = "cat {prompt}; echo 2 passed"\n'
    (world.data / "handoff.toml").write_text(f"{text}\n{more}")
    point = world.point()["point_id"]
    rows = [one_takeover(Project(world.data), point, "repo", name, 0) for name in ("mends", "claims")]
    assert [(row["solved"], row["tests_passed"], row["successor"]) for row in rows] == [
        (True, 2, "command"),
        (False, 1, "command"),
    ]


# -- rounds ---------------------------------------------------------------------------------------


def test_a_round_evaluates_at_points_of_real_repositories(world: World) -> None:
    """From the takeovers to the round's page: solved, not solved and unknown are three things."""
    world.ingest()
    with serving(then=server.answer(message("", FIXED, SUBMIT))) as at:
        world.url = at.url
        project = world.set(at.url, head='evaluate = ["stub"]')
        takeover_runs(project, "r000", "real")
        assert project.lake.rows("takeover_runs", round="r000") == [], "nobody is run before the second round"
        takeover_runs(project, "r001", "real")
        asked = len(at.requests)
        takeover_runs(project, "r001", "real")
        assert len(at.requests) == asked
        rows = project.lake.rows("takeover_runs", round="r001")
        assert {row["view"] for row in rows} == set(VIEWS)
        assert {(row["arm"], row["solved"], row["purpose"]) for row in rows} == {("stub", True, "evaluate")}
        unfit = world.set(at.url, head='evaluate = ["stub"]', tests='command = "false"')
        takeover_runs(unfit, "r001", "real")
        assert len(at.requests) == asked, "judged anew, not run anew"
        assert {row["solved"] for row in unfit.lake.rows("takeover_runs", round="r001")} == {None}
        for state in ("needs_completion", None):
            world.ingest(*(["--test"] if state else []))
            project = world.set(world.url, head='evaluate = ["stub"]', tests="" if state else 'command = "false"')
            adversarial_variants(project, "r001", "real")
            takeover_runs(project, "r001", "real")
            diagnostics(project, "r001", "real")
            for stage in (robustness, curated_training_set, exports, policy, round_report):
                stage(project, "r001")
            cells = [row for row in project.lake.rows("robustness", round="r001") if row["metric"] == "solve_rate"]
            assert cells and {row["value"] for row in cells} == {1.0 if state else None}
            assert all(row["reason"] for row in cells if row["value"] is None)
            page = (project.reports / "r001" / "index.html").read_text()
            assert ("not judged" in page) == (state is None)
            assert project.lake.count("curated_training_set", round="r001") == 0, (
                "nothing of a test point is trained on"
            )


# -- endings --------------------------------------------------------------------------------------


def test_a_dead_endpoint_is_an_error_with_a_remedy(world: World) -> None:
    world.ingest()
    world.set("http://127.0.0.1:9/v1")
    arguments = ["takeover", world.point()["point_id"], "--successor", "stub", "--data", str(world.data)]
    result = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "handoff doctor" in result.output
    assert "solved" in result.output and "unknown" in result.output, "a run that was lost is none that failed"


@pytest.mark.slow
def test_a_successor_that_is_killed_before_its_verdict_is_judged_and_not_paid_again(world: World) -> None:
    """kill -9 while the tests run, then once more: the same row, and no request."""
    world.ingest()
    with serving(then=server.answer(message("", FIXED, SUBMIT))) as at:
        world.set(at.url, tests='command = "sleep 3; python -m pytest -rap -p no:cacheprovider {files}"')
        program = [sys.executable, "-m", "handoff.cli", "takeover", world.point()["point_id"], "--successor", "stub"]
        program += ["--view", "repo", "--data", str(world.data)]
        process = subprocess.Popen(program, stdout=subprocess.DEVNULL, start_new_session=True)
        layouts = world.data / "sealed" / "layouts"
        end = time.monotonic() + 60
        while not (layouts.is_dir() and list(layouts.iterdir())) and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        asked = len(at.requests)
        assert asked
        row = one_takeover(Project(world.data), world.point()["point_id"], "repo", "stub", 0)
        assert (row["solved"], len(at.requests)) == (True, asked)


@pytest.mark.slow
def test_tests_that_need_all_their_time_where_nothing_is_wrong_say_nothing(world: World) -> None:
    """Nor is that remembered: the machine may have been busy. With more time the same run is judged."""
    world.ingest()
    slow = "sleep 4; python -m pytest -rap -p no:cacheprovider {files}"
    row = world.takeover(FIXED, tests=f'command = "{slow}"\ntimeout_s = 3')
    assert row["solved"] is None and "unfit: the tests were stopped after 3 s" in row["note"]
    hang = ("bash", {"command": "echo 'while True: pass' > pager.py"})
    row = world.takeover(hang, seed=1, tests=f'command = "{slow}"\ntimeout_s = 9')
    assert row["solved"] in (None, False)
    assert "set a longer timeout_s" in row["note"] or row["solved"] is False


# -- docker ---------------------------------------------------------------------------------------


@pytest.mark.docker
def test_a_takeover_and_its_judge_in_containers_of_the_tasks_image(tmp_path: Path, docker_image: str) -> None:
    """Its programs are the image's: nothing of this machine's is shown."""
    case = (
        BASE["tests/test_pager.py"]
        .replace("def test", "class Case(unittest.TestCase):\n    def test")
        .replace("    assert", "        assert")
    )
    old = "import unittest\n\n" + case
    new = old.replace("import count", "import count, page") + (
        "\n    def test_sealedmark(self):\n        assert page([1, 2, 3], 2) == [1, 2]\n"
    )
    old, new = (text.replace("_count()", "_count(self)") for text in (old, new))
    with serving() as at:
        world = World(tmp_path, at.url, {**BASE, "tests/test_pager.py": old, "tests/__init__.py": ""})
        at.then = world.next
        world.set(head='sandbox = "docker"', tests='command = "python3 -m unittest -v {modules}"', programs=False)
        world.ingest(
            test_patch=unified_diff("tests/test_pager.py", old, new),
            FAIL_TO_PASS=["test_sealedmark (tests.test_pager.Case)"],
            PASS_TO_PASS=["test_count (tests.test_pager.Case)"],
            image_name=docker_image,
        )
        world.script[:] = [message("", call) for call in (EDIT, SUBMIT)]
        row = one_takeover(Project(world.data), world.point()["point_id"], "repo", "stub", 0)
        assert (row["solved"], row["tests_passed"], row["note"]) == (True, 2, ""), row
        world.script[:] = [message("", SUBMIT)]
        row = one_takeover(Project(world.data), world.point()["point_id"], "repo", "stub", 1)
        assert (row["solved"], row["tests_passed"]) == (False, 1)
