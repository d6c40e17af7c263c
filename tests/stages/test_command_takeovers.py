"""Agents that are commands take over kata points and states of real repositories: command line, rounds, a kill -9."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fault_server as server
import llama_server
import mini_agent
import pytest
import tiny_agent
from fault_server import FaultServer, message, serving
from typer.testing import CliRunner

from handoff import cli
from handoff.errors import InputError
from handoff.kata.record import load_world
from handoff.project import Project
from handoff.stages import is_executable
from handoff.stages.choosing import choose_points
from handoff.stages.diagnosis import diagnostics
from handoff.stages.one_takeover import one_takeover
from handoff.stages.takeovers import takeover_runs
from handoff.successors.settings import Command
from handoff.takeover import read_transcript
from handoff.views import VIEWS
from tests.states.histories import Made, make

pytestmark = pytest.mark.usefixtures("bubblewrap")
needs_mini = pytest.mark.skipif(mini_agent.missing() is not None, reason=str(mini_agent.missing()))
needs_llama = pytest.mark.skipif(llama_server.missing() is not None, reason=str(llama_server.missing()))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    shutil.copy(tiny_agent.__file__, folder)
    return folder


def tiny(programs: Path) -> Command:
    line = f"python3 {shlex.quote(str(programs))}/tiny_agent.py {{prompt}} {{trajectory}} {{base_url}}"
    return Command(command=line, endpoint="stub", programs=(str(programs),), timeout_s=60.0)


def mini() -> Command:
    return Command(
        command=mini_agent.COMMAND,
        endpoint="stub",
        programs=(str(mini_agent.HOME),),
        env=mini_agent.ENV,
        timeout_s=120.0,
    )


def settings_for(url: str, agent: Command, head: str = "", **endpoint: object) -> str:
    lines = {"base_url": url, "model": "stub-1", "retries": 1, **endpoint}
    own = {"kind": "command", "command": agent.command, "endpoint": agent.endpoint, "programs": list(agent.programs)}
    own["timeout_s"] = agent.timeout_s
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in agent.env.items())
    return (
        f"{head}\n[successors.stub]\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
        + "[successors.agent]\n"
        + "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
        + f"env = {{{env}}}\n"
    )


def chosen_point(data: Path) -> dict[str, Any]:
    """A point of a test repository where something is left to do."""
    rows = [p for p in Project(data).lake.rows("injected_handoffs") if is_executable(p) and p["split"] == "test"]
    return dict(choose_points(rows, 1, 0)[0])


def mending(data: Path) -> list[dict[str, Any]]:
    """Replies that look around and then make a kata repository what it should be."""
    reference = load_world(data).task(chosen_point(data)["repo"]).reference
    writes = [f"cat > {path} <<'END_OF_FILE'\n{text}END_OF_FILE" for path, text in sorted(reference.items())]
    commands = ["git status --short", "git checkout .\n" + "\n".join(writes), "python -m pytest -q 2>&1 | tail -3"]
    return [message("Go on.", ("bash", {"command": command})) for command in commands]


DONE = {
    "tiny": message("", ("submit", {})),
    "mini": message("Done.", ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})),
}


@pytest.fixture(params=["tiny", pytest.param("mini", marks=[pytest.mark.slow, needs_mini])])
def agent(request: pytest.FixtureRequest, programs: Path) -> Iterator[tuple[str, Command]]:
    yield request.param, tiny(programs) if request.param == "tiny" else mini()


def counted(body: dict[str, Any]) -> server.Act:
    return server.answer({**body, "usage": "counted"})


PRICED = {"prices": {"prompt": 1.0, "completion": 2.0}}


def priced(text: str) -> str:
    """TOML of inline prices."""
    return text.replace('{"prompt": 1.0, "completion": 2.0}', "{prompt = 1.0, completion = 2.0}")


def test_a_kata_task_is_solved_by_an_agent_of_its_own(recorded: Path, agent: tuple[str, Command]) -> None:
    """Its trajectory comes back through its adapter, what it cost adds up, and asked for again nobody is asked."""
    name, command = agent
    probe = message('{"done": [], "plan": []}')
    look, mend, test = mending(recorded)
    script = [counted(look), counted(mend), counted(probe), counted(test), counted(DONE[name])]
    with serving(*script) as at:
        (recorded / "handoff.toml").write_text(priced(settings_for(at.url, command, **PRICED)))
        point = chosen_point(recorded)["point_id"]
        arguments = ["takeover", point, "--successor", "agent", "--data", str(recorded)]
        first = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "120"})
        assert first.exit_code == 0, first.output
        assert len(at.requests) == len(script)
        assert CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "120"}).stdout == first.stdout
        row = one_takeover(Project(recorded), point, "structured", "agent", 0)
        assert len(at.requests) == len(script)
        requests = at.requests
    said = " ".join(first.stdout.split())
    assert "ended submitted" in said and "solved yes" in said and "agent, structured" in said, first.output
    assert (row["successor"], row["status"], row["solved"], row["note"]) == ("command", "submitted", True, "")
    assert (row["steps"], row["probe_done"]) == (4, [])
    transcript = read_transcript(row["transcript"])
    assert len(transcript) == 4 and "passed" in transcript[2].observations[0].text
    usage = [step.usage for step in transcript]
    assert row["endpoint_prompt_tokens"] == sum(u.prompt or 0 for u in usage if u)
    assert row["endpoint_completion_tokens"] == sum(u.completion or 0 for u in usage if u)
    assert row["dollars"] > 0 and row["destroyed_fixes"] == 0
    task = json.dumps(requests[0]["messages"])
    assert "You are taking over" in task
    assert all(request["messages"][0] == requests[0]["messages"][0] for request in requests)


def test_a_state_of_a_real_repository_is_taken_over(tmp_path: Path, agent: tuple[str, Command]) -> None:
    commits = [Made({b"pager.py": ("100644", b"size = %d\n" % number)}) for number in range(4)]
    make(tmp_path / "pager", commits, {"main": 0, "fix": 3}, bare=False)
    data = tmp_path / "data"
    arguments = ["ingest", str(tmp_path / "pager"), "--branch", "fix", "--task", "Page well.", "--data", str(data)]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    name, command = agent
    work = message(
        "", ("bash", {"command": "git status --short; echo 'size = 99' > pager.py; ls -a /home /root /agent"})
    )
    with serving(counted(work), then=counted(DONE[name])) as at:
        (data / "handoff.toml").write_text(settings_for(at.url, command))
        point = Project(data).lake.rows("injected_handoffs")[0]
        row = one_takeover(Project(data), point["point_id"], "repo", "agent", 0)
    assert (row["status"], row["solved"], row["steps"]) == ("submitted", None, 2)
    seen = read_transcript(row["transcript"])[0].observations[0].text
    assert " M pager.py" in seen, "the state at h, its changes not committed"
    with Project(data).repositories(point["shard"]).open(point["repo"]) as repository:
        assert repository.read(row["final_tree"], "pager.py") == b"size = 99\n"
        assert set(repository.files(row["final_tree"])) == {"pager.py"}, "what it was given is not in the tree"
    assert not list((data / "sandboxes").rglob("*")), "nothing is left behind"


def test_a_round_runs_it_beside_the_arms(recorded: Path, programs: Path) -> None:
    """Under all four views, measured like any others; named again, nobody is asked."""
    submit = counted(message("", ("bash", {"command": "git diff"}), ("submit", {})))
    with serving(then=submit) as at:
        head = 'evaluate = ["agent", "stub"]\nworkers = 1\nseed = 9'
        (recorded / "handoff.toml").write_text(settings_for(at.url, tiny(programs), head))
        for _ in range(2):
            takeover_runs(Project(recorded), "r003", "kata-test")
            asked = len(at.requests)
        rows = Project(recorded).lake.rows("takeover_runs", round="r003")
        assert len(at.requests) == asked
        diagnostics(Project(recorded), "r003", "kata-test")
    kinds = {(row["arm"], row["successor"], row["status"]) for row in rows}
    assert kinds == {("agent", "command", "submitted"), ("stub", "openai", "submitted")}
    assert {row["view"] for row in rows if row["arm"] == "agent"} == set(VIEWS)
    assert all(row["steps"] == 1 and row["endpoint_prompt_tokens"] > 0 for row in rows)
    measured = {row["takeover_id"] for row in Project(recorded).lake.rows("diagnostics", round="r003")}
    assert measured == {row["takeover_id"] for row in rows}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[successors.a]\nkind = "command"\ncommand = "run {prompt}"\nendpoint = "b"', "describe that model under"),
        (
            '[successors.a]\nkind = "command"\ncommand = "run {prompt}"\nendpoint = "a"',
            "names the endpoint 'a'; describe that model",
        ),
        ('[successors.a]\nkind = "command"\ncommand = "run"', "names neither"),
        ('[successors.a]\nkind = "command"\ncommand = "run {prompt}"\nkey = "sk-hunter2"', "unknown field `key`"),
        ('[successors.a]\nkind = "other"\ncommand = "run {prompt}"', "Invalid value 'other'"),
    ],
)
def test_a_command_that_is_described_badly_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "handoff.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        Project(tmp_path)
    assert problem in str(caught.value) and "handoff.toml" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_doctor_tells_of_it(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "handoff.toml").write_text(settings_for("http://127.0.0.1:9/v1", tiny(programs)))
    said = CliRunner().invoke(cli.app, ["doctor", "--data", str(tmp_path)], env={"COLUMNS": "400"}).output
    assert "a command with the model of stub" in " ".join(said.split())
    shutil.rmtree(programs)
    said = CliRunner().invoke(cli.app, ["doctor", "--data", str(tmp_path)], env={"COLUMNS": "400"}).output
    assert "there is no folder" in " ".join(said.split())


# -- kill -9 --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_takeover_repeats_no_answered_request(recorded: Path, agent: tuple[str, Command]) -> None:
    """Killed after answers, and in the middle of some. What the tests print differs each time, by the clock."""
    name, command = agent
    point = chosen_point(recorded)["point_id"]
    _, mend, test = mending(recorded)
    story = [counted(body) for body in (test, mend, message('{"done": [], "plan": []}'), DONE[name])]
    program = [sys.executable, "-m", "handoff.cli", "takeover", point, "--successor", "agent", "--seed", "77"]
    program += ["--data", str(recorded)]
    running: list[subprocess.Popen[bytes]] = []

    def deadly(place: int, is_answered: bool) -> server.Act:
        def act(handler: Any, body: dict[str, Any]) -> None:
            with at.hold, contextlib.suppress(ChildProcessError):
                if is_answered:
                    before = _answers(recorded)
                    story[place](handler, body)
                    _wait_for_journal(recorded, before)
                _kill(running[-1])
            handler.close_connection = True

        return act

    # The larger agent takes long to start, so it is killed less often.
    killed = [(0, True), (1, False), (1, True), (2, False), (3, True)] if name == "tiny" else [(1, True)]
    asked = len(story) + sum(not whole for _, whole in killed)
    at = FaultServer([act for place, good in enumerate(story) for act in _acts(deadly, place, good, killed)])
    try:
        (recorded / "handoff.toml").write_text(settings_for(at.url, command))
        for attempt in range(len(killed) + 1):
            running.append(subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            output, _ = running[-1].communicate(timeout=120)
            assert (running[-1].returncode == 0) == (attempt == len(killed)), output.decode()[-2000:]
        assert len(at.requests) == asked
        said = " ".join(output.decode().split())
        assert "ended submitted" in said and "solved yes" in said and "steps, events 3" in said
        assert "was under way when the run was cut off" in said or name == "mini"
    finally:
        at.close()
    assert not _left_over(recorded)


def _acts(
    deadly: Callable[[int, bool], server.Act], place: int, good: server.Act, killed: Sequence[tuple[int, bool]]
) -> list[server.Act]:
    """What the server does about one request of the story, as often as it comes."""
    before = [deadly(place, False)] if (place, False) in killed else []
    return [*before, deadly(place, True) if (place, True) in killed else good]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and wait until its sockets are closed."""
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _wait_for_journal(data: Path, before: int) -> None:
    end = time.monotonic() + 20
    while _answers(data) == before and time.monotonic() < end:
        time.sleep(0.001)


def _answers(data: Path) -> int:
    logs = (data / "journal" / "takeovers").rglob("*.log")
    return sum(path.read_bytes().count(b'"type":"answered"') for path in logs)


def _left_over(data: Path) -> dict[Path, bytes]:
    """Processes that still work on this data, or on any agent's, and do not end by themselves within seconds."""
    found = {place: line for place in Path("/proc").glob("[0-9]*/cmdline") if _is_ours(data, line := _read(place))}
    end = time.monotonic() + 30
    while found and time.monotonic() < end:
        time.sleep(0.05)
        found = {place: line for place, line in found.items() if _read(place) == line}
    return found


def _is_ours(data: Path, line: bytes) -> bool:
    return str(data).encode() in line or b"tiny_agent.py" in line or b"/agent/given" in line


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError:
        return b""


# -- a real model -----------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_llama
def test_a_small_model_drives_an_agent_to_some_end(recorded: Path, agent: tuple[str, Command]) -> None:
    """It solves nothing; the way there works, and what it used adds up."""
    with llama_server.serving() as url:
        limits = {"model": llama_server.MODEL, "max_completion_tokens": 60, "temperature": 0.0, "probe_tokens": 200}
        (recorded / "handoff.toml").write_text(settings_for(url, agent[1], "step_budget = 4", **limits))
        row = one_takeover(Project(recorded), chosen_point(recorded)["point_id"], "repo", "agent", 0)
    assert row["status"] in ("submitted", "step_limit", "context_limit", "error", "stopped"), row["note"]
    assert 1 <= row["steps"] <= 4 and row["endpoint_prompt_tokens"] > 0
    assert len(read_transcript(row["transcript"])) >= 1
