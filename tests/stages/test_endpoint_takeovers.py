"""A model on an endpoint takes over real kata points: command line, planner, doctor, keys, a kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fault_server as server
import pytest
from fault_server import FaultServer, message, serving
from typer.testing import CliRunner

from handoff import cli
from handoff.cli_options import warn_about_sandbox
from handoff.errors import EndpointError, InputError
from handoff.project import Project, Settings, with_sandbox
from handoff.stages import is_executable
from handoff.stages.choosing import choose_points
from handoff.stages.diagnosis import diagnostics
from handoff.stages.named import digest_of
from handoff.stages.one_takeover import one_takeover
from handoff.stages.takeovers import LEARNED, plan, plan_real, takeover_runs
from handoff.views import VIEWS
from tests.states.histories import Made, make

EDIT = {"command": "str_replace", "path": "/repo/pager.py", "old_str": "size = 1", "new_str": "size = 99"}
KEY = "sk-planted-0123456789abcdef"

pytestmark = pytest.mark.usefixtures("bubblewrap")


def settings_for(url: str, **more: object) -> str:
    lines = {"kind": "openai", "base_url": url, "model": "stub-1", "key_env": "PLANTED", "retries": 1, **more}
    return "[successors.stub]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in lines.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)


def chosen_point(data: Path) -> dict[str, Any]:
    """A point of a test repository where something is left to do."""
    rows = [p for p in Project(data).lake.rows("injected_handoffs") if is_executable(p) and p["split"] == "test"]
    return dict(choose_points(rows, 1, 0)[0])


def takeover(data: Path, url: str, *more: str, key: str | None = KEY, **settings: object) -> Any:
    (data / "handoff.toml").write_text(settings_for(url, **settings))
    arguments = ["takeover", chosen_point(data)["point_id"], "--successor", "stub", "--data", str(data), *more]
    return CliRunner().invoke(cli.app, arguments, env={"PLANTED": key, "COLUMNS": "120"})


WORK = (
    message(
        "Look.", ("bash", {"command": "git status --short"}), ("str_replace_editor", {"command": "view", "path": "."})
    ),
    message("", ("bash", {"command": "cat nothing.md"})),
    message("", ("str_replace_editor", {"command": "create", "path": "notes.txt", "file_text": "hello\n"})),
    message('{"done": [], "plan": []}'),  # the probe comes before a change is carried out
    message("", ("bash", {"command": "env; cat notes.txt; python -m pytest -q"})),
    message("", ("submit", {})),
)


def test_the_command_line_runs_one_and_prints_it(recorded: Path) -> None:
    """The work is really done in the repository; asked for again, nobody is asked."""
    with serving(*map(server.answer, WORK)) as at:
        first = takeover(recorded, at.url, "--seed", "1", prices={"prompt": 1.0, "completion": 2.0})
        assert first.exit_code == 0, first.output
        asked = len(at.requests)
        again = takeover(recorded, at.url, "--seed", "1", prices={"prompt": 1.0, "completion": 2.0})
        assert len(at.requests) == asked == 6
        told = [m["content"] for m in at.requests[-1]["messages"] if m["role"] == "tool"]
    assert again.stdout == first.stdout
    said = " ".join(first.stdout.split())
    assert "ended submitted" in said and "solved no" in said and "cost $" in said and "believed done nothing" in said
    assert "stub, structured" in said
    assert "tests/" in told[1]
    assert "[exit code 1]" in told[2]
    assert "notes.txt has been created" in told[3]


def test_a_key_reaches_no_file_and_no_output(recorded: Path) -> None:
    """Planted in the environment; every byte that was written and printed is searched, the agent's shell included."""
    faults = [server.status(500, f"your key {KEY}"), server.answer(message(f"key: {KEY}"))]
    good = [server.answer(body) for body in (*WORK[:2], *WORK[4:], WORK[3])]  # nothing is changed: the probe comes last
    with serving(*faults, *good, server.status(401, KEY)) as at:
        shown = [takeover(recorded, at.url, "--seed", "2").output, takeover(recorded, at.url, "--seed", "3").output]
        result = CliRunner().invoke(cli.app, ["doctor", "--data", str(recorded)], env={"PLANTED": KEY})
        assert {h.get("authorization") for h in at.headers} == {f"Bearer {KEY}"}
        sent = json.dumps(at.requests)
    assert "submitted" in shown[0] and "set a valid key in PLANTED" in shown[1]
    assert "PATH=" in sent, "the shell showed its variables"
    assert "successor stub" in result.output and "key from PLANTED" in " ".join(result.output.split())
    assert not [text for text in (*shown, result.output, sent) if KEY in text]
    files = [path for path in recorded.rglob("*") if path.is_file()]
    assert any("journal" in path.parts for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_model_gets_no_host_that_nobody_asked_for(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bubblewrap the embedded world falls back to the host for its own policies, and for them alone."""
    for place in ("handoff.kata.lab.missing", "handoff.stages.places.missing"):
        monkeypatch.setattr(place, lambda name: f"{name} is not there")
    with serving() as at:
        result = takeover(recorded, at.url, "--seed", "5")
        assert at.requests == []
        assert result.exit_code == 2 and "a model's commands run in a sandbox" in " ".join(result.output.split())
        asked_for = takeover(recorded, at.url, "--seed", "5", "--sandbox", "host")
        assert asked_for.exit_code == 0, asked_for.output
        assert "warning the sandbox is 'host'" in " ".join(asked_for.output.split())


@pytest.mark.parametrize(("repo", "said"), [("kata/a", "warning the sandbox is"), ("acme/pager", "note the code of a")])
def test_the_warning_of_a_host_is_true_where_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], repo: str, said: str
) -> None:
    """At a point of a real repository nothing runs on the host, whatever the setting says."""
    monkeypatch.setattr("handoff.stages.handoffs.find_point", lambda project, point: {"repo": repo})
    warn_about_sandbox(with_sandbox(Project(tmp_path), "host"), "p_1")
    assert " ".join(capsys.readouterr().err.split()).startswith(said)


def test_successors_of_one_behaviour_and_two_names_are_run_each_for_itself(tmp_path: Path) -> None:
    both = settings_for("http://h/v1")
    (tmp_path / "handoff.toml").write_text(both + both.replace("[successors.stub]", "[successors.twin]"))
    project = Project(tmp_path)
    assert digest_of(project, "stub") != digest_of(project, "twin")


def test_without_its_key_nothing_is_asked(recorded: Path) -> None:
    with serving() as at:
        result = takeover(recorded, at.url, "--seed", "4", key=None)
        assert at.requests == []
    assert result.exit_code == 2
    assert "export PLANTED=" in result.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("p_", "repo", "nobody"), "no successor 'nobody': describe it under [successors.nobody]"),
        (("p_", "repo", "E"), "'E' acts only in"),
        (("p_zzz", "repo", "stub"), "no handoff point begins with 'p_zzz'"),
        (("", "recorded", "stub"), "nothing was handed over"),
    ],
)
def test_what_cannot_be_run_is_said(recorded: Path, arguments: tuple[str, str, str], problem: str) -> None:
    (recorded / "handoff.toml").write_text(settings_for("http://127.0.0.1:9/v1"))
    point, view, successor = arguments
    point = point or chosen_point(recorded)["point_id"]
    with pytest.raises(InputError) as caught:
        one_takeover(Project(recorded), point, view, successor, 0)
    assert problem in str(caught.value)


# -- real repositories --------------------------------------------------------------------------

MENDING = (
    message("", ("bash", {"command": "git status --short; cat pager.py; ls /home /root; cd /tmp"})),
    message("", ("bash", {"command": "pwd; curl -s http://127.0.0.1:80; env"}), ("str_replace_editor", EDIT)),
    message('{"done": ["q01"], "plan": []}'),
    message("", ("bash", {"command": "cd /repo && git diff --stat; echo $((6*7)) > new.txt"})),
    message("", ("submit", {})),
)


def test_a_state_of_a_real_repository_is_taken_over(tmp_path: Path, bubblewrap: None) -> None:
    """A person's branch: the frozen state is laid out, commands run in bubblewrap, nobody claims that it is solved."""
    commits = [Made({b"pager.py": ("100644", b"size = %d\n" % number)}) for number in range(4)]
    make(tmp_path / "pager", commits, {"main": 0, "fix": 3}, bare=False)
    data = tmp_path / "data"
    arguments = ["ingest", str(tmp_path / "pager"), "--branch", "fix", "--task", "Page well.", "--data", str(data)]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    with serving(*map(server.answer, MENDING)) as at:
        (data / "handoff.toml").write_text(settings_for(at.url))
        point = Project(data).lake.rows("injected_handoffs")[0]
        arguments = ["takeover", point["point_id"], "--successor", "stub", "--view", "recorded", "--data", str(data)]
        result = CliRunner().invoke(cli.app, arguments, env={"PLANTED": KEY, "COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        told = [m["content"] for m in at.requests[-1]["messages"] if m["role"] == "tool"]
        row = one_takeover(Project(data), point["point_id"], "recorded", "stub", 0)
        assert len(at.requests) == len(MENDING)
    said = " ".join(result.stdout.split())
    assert "ended submitted" in said and "solved unknown" in said
    assert " M pager.py" in told[0] and "size = 1" in told[0], "the state at h, its changes not committed"
    assert told[1].startswith("/tmp\n"), "one shell for the whole run"
    assert KEY not in "".join(told) and "has been edited" in told[2] and "1 file changed" in told[3]
    with Project(data).repositories(point["shard"]).open(point["repo"]) as repository:
        assert repository.read(row["final_tree"], "pager.py") == b"size = 99\n"
        assert repository.read(row["final_tree"], "new.txt") == b"42\n"
    assert not list((data / "sandboxes").rglob("*")), "nothing is left behind"


# -- settings and plan --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[successors.A]\nbase_url = "http://h/v1"\nmodel = "m"', "embedded world has a successor 'A'"),
        ('[successors."a b"]\nbase_url = "http://h/v1"\nmodel = "m"', "'a b' cannot name a successor"),
        ('evaluate = ["m"]', "evaluate names 'm'; describe it under [successors.m]"),
        ('collect = ["m"]', "collect names 'm'; describe it under [successors.m]"),
        ('[successors.m]\nbase_url = "http://h/v1"\nmodel = "m"\napi_key = "sk-hunter2"', "unknown field `api_key`"),
        ('[successors.m]\nbase_url = "http://u:hunter2@h/v1"\nmodel = "m"', "more than an address"),
    ],
)
def test_a_successor_that_is_described_badly_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The file is named, and nothing secret in it is repeated."""
    (tmp_path / "handoff.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        Project(tmp_path)
    assert problem in str(caught.value) and "handoff.toml" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_nobody_on_an_endpoint_is_run_unless_named() -> None:
    assert Settings().evaluate == () and Settings().successors == {}
    points = [
        {"point_id": f"p_{split}", "trajectory_id": "t", "h": 2, "split": split}
        for split in ("train", "validation", "test")
    ]
    views = {(p["point_id"], view): f"v_{view}" for p in points for view in VIEWS}
    by_id = {p["point_id"]: p for p in points}
    for number in range(3):
        plain = list(plan(number, points, views, (), by_id, 7))
        more = list(plan(number, points, views, (), by_id, 7, ("stub",)))
        added = [start for start in more if start not in plain]
        assert [start for start in more if start in plain] == plain
        wanted = {("p_test", view, "evaluate") for view in VIEWS} if number else set()
        assert {(s.point_id, s.view, s.purpose) for s in added} == wanted
        assert {s.arm for s in added} <= {"stub"} and "stub" not in LEARNED
        more = list(plan(number, points, views, (), by_id, 7, (), {}, ("stub",)))
        added = [start for start in more if start not in plain]
        assert [(s.point_id, s.view, s.purpose) for s in added] == [("p_train", VIEWS[number % 4], "collect")]
        real = list(plan_real(number, points, views, 7, (), ("stub",)))
        assert [(s.point_id, s.view, s.purpose) for s in real] == [("p_train", VIEWS[number % 4], "collect")]
        assert len(list(plan_real(number, points, views, 7, ("stub",), ()))) == (len(VIEWS) if number else 0)


def test_a_round_runs_who_is_named_beside_the_arms(recorded: Path) -> None:
    """Rows like any others, measured like any others. Named again, nobody is asked; not named, nobody is run."""
    with serving(then=server.answer(message("", ("bash", {"command": "git diff"}), ("submit", {})))) as at:
        (recorded / "handoff.toml").write_text('evaluate = ["stub"]\nworkers = 1\n' + settings_for(at.url, key_env=""))
        project = Project(recorded)
        for _ in range(2):
            written = takeover_runs(project, "r001", "kata-test")
            asked = len(at.requests)
        rows = project.lake.rows("takeover_runs", round="r001")
        assert written.rows == len(rows) and len(at.requests) == asked
        diagnostics(project, "r001", "kata-test")
        (recorded / "handoff.toml").write_text("workers = 1\n" + settings_for(at.url, key_env=""))
        takeover_runs(Project(recorded), "r001", "kata-test")
        assert len(at.requests) == asked
    assert {(row["arm"], row["successor"], row["status"]) for row in rows} == {("stub", "openai", "submitted")}
    assert {row["view"] for row in rows} == set(VIEWS)
    assert all(row["endpoint_prompt_tokens"] > 0 and row["dollars"] is None for row in rows)
    measured = {row["metric"] for row in project.lake.rows("diagnostics", round="r001") if row["value"] is not None}
    assert {"e_cr", "solved"} & measured
    assert project.lake.rows("takeover_runs", round="r001") == []


def test_a_round_asks_as_many_at_once_as_allowed_and_stops_at_what_only_the_user_can_mend(recorded: Path) -> None:
    """Stopped by a refused key and run again: no answer is paid for twice, and the rows are in the plan's order."""
    good = server.answer(message("", ("bash", {"command": "git diff"})))
    lock = threading.Lock()
    answered: list[str] = []

    def slow(handler: Any, body: dict[str, Any]) -> None:
        time.sleep(0.1)
        with lock:
            is_refused = at.is_refusing and len(answered) >= 5
            if not is_refused:
                answered.append(json.dumps(body, sort_keys=True))
        (server.status(401, "no more") if is_refused else good)(handler, body)

    with serving(then=slow) as at:
        at.is_refusing = True
        text = 'evaluate = ["stub"]\nstep_budget = 3\nseed = 8\n' + settings_for(at.url, key_env="", concurrency=3)
        (recorded / "handoff.toml").write_text(text)
        with pytest.raises(EndpointError, match="key_env"):
            takeover_runs(Project(recorded), "r002", "kata-test")
        assert Project(recorded).lake.rows("takeover_runs", round="r002") == []
        at.is_refusing = False
        takeover_runs(Project(recorded), "r002", "kata-test")
        assert 1 < at.most_at_once <= 3
    rows = Project(recorded).lake.rows("takeover_runs", round="r002")
    assert {row["status"] for row in rows} == {"step_limit"}
    assert len(answered) == len(set(answered)) == sum(row["steps"] + (row["probe_prompt_tokens"] > 0) for row in rows)
    assert [row["view"] for row in rows] == [view for _ in range(len(rows) // len(VIEWS)) for view in VIEWS]


# -- kill -9 ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_takeover_repeats_no_answered_request(recorded: Path) -> None:
    """Killed by the server itself right after each of its answers was written down, and in the middle of two."""
    point = chosen_point(recorded)["point_id"]
    program = [sys.executable, "-m", "handoff.cli", "takeover", point, "--successor", "stub", "--seed", "77"]
    program += ["--data", str(recorded)]
    running: list[subprocess.Popen[bytes]] = []
    story = [server.answer(body) for body in WORK]
    answered: list[str] = []
    in_flight: list[str] = []

    def deadly(place: int, is_answered: bool) -> server.Act:
        def act(handler: Any, body: dict[str, Any]) -> None:
            if is_answered:
                before = _answers(recorded)
                story[place](handler, body)
                answered.append(json.dumps(body, sort_keys=True))
                _wait_for_journal(recorded, before)
            else:
                in_flight.append(json.dumps(body, sort_keys=True))
            os.kill(running[-1].pid, signal.SIGKILL)
            handler.close_connection = True

        return act

    cut_off = (0, 3)  # a reply and the probe
    moments = [(place, is_answered) for place in range(len(WORK)) for is_answered in (False, True)]
    script = [deadly(place, is_answered) for place, is_answered in moments if is_answered or place in cut_off]
    at = FaultServer(script)
    try:
        (recorded / "handoff.toml").write_text(settings_for(at.url))
        for attempt in range(len(script) + 1):
            running.append(subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_with_key()))
            output, _ = running[-1].communicate(timeout=120)
            assert (running[-1].returncode == 0) == (attempt == len(script)), output.decode()[-2000:]
        assert b"submitted" in output
        assert len(at.requests) == len(script)
        assert [answered[place] for place in cut_off] == in_flight, "only what was cut off came twice"
        assert len(set(answered)) == len(WORK)
    finally:
        at.close()


def _with_key() -> dict[str, str]:
    return {**os.environ, "PLANTED": KEY}


def _wait_for_journal(data: Path, before: int) -> None:
    """Until the answer that was just sent is written down: at any moment from then on, a kill costs nothing."""
    end = time.monotonic() + 20
    while _answers(data) == before and time.monotonic() < end:
        time.sleep(0.001)


def _answers(data: Path) -> int:
    logs = (data / "journal" / "takeovers").rglob("*.log")
    return sum(path.read_bytes().count(b'"type":"answered"') for path in logs)


def test_a_run_that_nobody_answered_has_no_verdict(recorded: Path) -> None:
    """What it left is the unsolved state that it found: that says nothing of who did not act."""
    (recorded / "handoff.toml").write_text(settings_for("http://127.0.0.1:9/v1", retries=0, key_env=""))
    row = one_takeover(Project(recorded), chosen_point(recorded)["point_id"], "repo", "stub", 3)
    assert (row["status"], row["solved"], row["tests_total"], row["destroyed_fixes"]) == ("error", None, None, None)
