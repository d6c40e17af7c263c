"""The world outside the repository: what a run shows of it, as observed or inferred, and nothing from later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff import adapters
from handoff.environment import KINDS, MASKED, environment, from_rows
from handoff.lake import Lake
from handoff.trajectory import Action, Message, Observation, Step, Trajectory, prefix


def ran(
    command: str, output: str = "", code: int | None = 0, *, arrived: int | None = None, missing: object = None
) -> Step:
    return Step(
        actions=(Action(tool="bash", arguments=json.dumps({"command": command})),),
        observations=(Observation(text=output, exit_code=code, arrived=arrived, missing=missing),),  # type: ignore[arg-type]
    )


def called(tool: str, output: str = "Done.", **arguments: object) -> Step:
    return Step(actions=(Action(tool=tool, arguments=json.dumps(arguments)),), observations=(Observation(text=output),))


def run(*steps: Step, format: str = "claude_code", source: object = None, said: str = "") -> Trajectory:
    preamble = (Message(role="user", text=said),) if said else ()
    return Trajectory(
        format=format, task="t", steps=steps, preamble=preamble, source=json.dumps(source or {"cwd": "/testbed"})
    )


def known(trajectory: Trajectory, kind: str, h: int | None = None) -> dict[str, tuple[str | None, str]]:
    """Name → (value, basis)."""
    there = environment(trajectory).at(len(trajectory.steps) if h is None else h)
    return {item.name: (item.value, item.basis) for item in there.known if item.kind == kind}


# -- packages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output", "code", "expected"),
    [
        ("pip install Foo_Bar==1.2", "", 0, {"pip foo-bar": ("1.2", "inferred")}),
        (
            "pip install -q a 'b>=2' c[x]==3",
            "",
            0,
            {"pip a": (None, "inferred"), "pip b": (None, "inferred"), "pip c": ("3", "inferred")},
        ),
        (
            "python -m pip install a",
            "Successfully installed a-1.0 dep-2.0.1\n",
            None,
            {"pip a": ("1.0", "observed"), "pip dep": ("2.0.1", "observed")},
        ),
        ("pip install a", "Requirement already satisfied: a in /x (1.4)\n", 0, {"pip a": ("1.4", "observed")}),
        ("pip install -e .", "Successfully installed mine-0.1\n", 0, {"pip mine": ("0.1", "observed")}),
        ("pip install -r requirements.txt", "", 0, {}),
        ("pip install nope", "ERROR: No matching distribution found for nope\n", 1, {}),
        ("pip install nope", "ERROR: No matching distribution found for nope\n", None, {}),
        ("pip install nope | tail -1", "ERROR: no\n", 0, {}),
        ("pip install nope; echo done", "ERROR: no\ndone\n", 0, {}),
        ("pip install a && pytest", "1 failed", 1, {}),
        ("false || pip install a", "", 0, {}),
        ("cd /testbed && pip install a", "", 0, {"pip a": (None, "inferred")}),
        (
            "sudo apt-get install -y curl",
            "curl is already the newest version (7.8-1).\n",
            0,
            {"apt curl": ("7.8-1", "observed")},
        ),
        (
            "apt-get update && apt-get install -y jq",
            "Setting up jq (1.6-2) ...\n",
            0,
            {"apt jq": ("1.6-2", "observed")},
        ),
        ("apt-get install -y nope", "E: Unable to locate package nope\n", 100, {}),
        (
            "npm install left-pad@1.3.0 @a/b",
            "added 2 packages in 1s\n",
            0,
            {"npm left-pad": ("1.3.0", "inferred"), "npm @a/b": (None, "inferred")},
        ),
        ("npm ci", "added 300 packages\n", 0, {}),
        ("cargo add serde", "      Adding serde v1.0.2 to dependencies\n", 0, {"cargo serde": ("1.0.2", "observed")}),
        ("go get a.b/c@v1.2.3", "go: added a.b/c v1.2.3\n", 0, {"go a.b/c": ("1.2.3", "observed")}),
        ("uv pip install ruff", "Installed 1 package in 5ms\n + ruff==0.5.1\n", 0, {"pip ruff": ("0.5.1", "observed")}),
        ("conda install -y -n dev numpy=1.26", "", 0, {"conda numpy": ("1.26", "inferred")}),
        ("pip freeze", "a==1.0\nB==2\n", 0, {"pip a": ("1.0", "observed"), "pip b": ("2", "observed")}),
        ("pip list | grep -i num", "numpy      1.26.4\n", 0, {"pip numpy": ("1.26.4", "observed")}),
        ("pip list > /tmp/l; cat x", "numpy   1.2\n", 0, {}),
        ("pip show a", "Name: a\nVersion: 3.1\nSummary: x\n", 0, {"pip a": ("3.1", "observed")}),
        (
            "dpkg -l curl",
            "ii  curl   7.81.0-1ubuntu1   amd64  tool\n",
            0,
            {"apt curl": ("7.81.0-1ubuntu1", "observed")},
        ),
        (
            "npm ls",
            "x@1 /a\n├── react@18.2.0\n└── zod@3.1.0\n",
            0,
            {"npm react": ("18.2.0", "observed"), "npm zod": ("3.1.0", "observed")},
        ),
        (
            "pytest -q",
            "platform linux -- Python 3.9.2, pytest-7.4.0, pluggy-1.3.0\n",
            1,
            {"pip pytest": ("7.4.0", "observed"), "pip pluggy": ("1.3.0", "observed")},
        ),
    ],
)
def test_packages_are_known_by_what_succeeded_or_was_shown(
    command: str, output: str, code: int | None, expected: dict[str, tuple[str | None, str]]
) -> None:
    assert known(run(ran(command, output, code)), "package") == expected


def test_a_removed_package_is_gone_and_an_upgrade_replaces_it() -> None:
    steps = [
        ran("pip install a==1 b", "Successfully installed a-1 b-5\n"),
        ran(
            "pip install -U a",
            "  Attempting uninstall: a\n      Successfully uninstalled a-1\nSuccessfully installed a-2\n",
        ),
        ran("pip uninstall -y b", ""),
    ]
    assert known(run(*steps), "package", 1) == {"pip a": ("1", "observed"), "pip b": ("5", "observed")}
    assert known(run(*steps), "package") == {"pip a": ("2", "observed")}


# -- folder -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([ran("ls")], (".", "observed")),
        ([ran("cd src")], ("src", "inferred")),
        ([ran("cd src"), ran("cd ../docs && ls")], ("docs", "inferred")),
        ([ran("cd /tmp")], ("/tmp", "inferred")),
        ([ran("(cd /tmp && ls)")], (".", "observed")),
        ([ran("cd nowhere", "bash: cd: nowhere: No such file or directory", 1)], (".", "observed")),
        ([ran("cd src && false", "", 1)], ("src", "inferred")),
        ([ran("cd src"), ran("pwd", "/testbed/src\n")], ("src", "observed")),
        ([ran("pwd", "/elsewhere\n")], ("/elsewhere", "observed")),
        ([ran("make && cd src", "Error 2", 2)], None),
        ([ran("cd $SOMEWHERE")], None),
        ([ran("cd -")], None),
        ([ran("cd src", missing="none")], None),
        ([ran("cd src", missing="not_executed")], (".", "observed")),
        ([ran("cd src &")], (".", "observed")),
        ([ran("export D=/tmp/x"), ran("cd $D")], ("/tmp/x", "inferred")),
    ],
    ids=lambda value: None,
)
def test_the_folder_follows_a_shell_that_is_kept(steps: list[Step], expected: tuple[str, str] | None) -> None:
    assert known(run(*steps), "folder").get("shell") == expected


def test_a_shell_that_begins_anew_at_each_call_stays_where_it_is() -> None:
    found = run(ran("cd /tmp && export A=1"), ran("pwd", "/testbed\n"), format="mini_swe_agent")
    assert known(found, "folder") == {"shell": (".", "observed")}
    assert known(found, "variable") == {}


def test_what_the_harness_says_of_the_folder_wins() -> None:
    source = {"states": [[0, "/o__r", None], [2, "/o__r/src", "/o__r/src/a.py"], [3, "/o__r", None]]}
    found = run(ran("cd /tmp", "", None), ran("cd src"), ran("ls"), format="sweagent", source=source)
    assert [known(found, "folder", h).get("shell") for h in range(4)] == [
        (".", "observed"),
        (".", "observed"),
        ("src", "observed"),
        (".", "observed"),
    ]


# -- variables ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            [ran("export A=1 B='x y' C=\"z\"")],
            {"A": ("1", "inferred"), "B": ("x y", "inferred"), "C": ("z", "inferred")},
        ),
        ([ran("A=1 make")], {}),
        ([ran("export A=1"), ran("unset A")], {}),
        ([ran("export A=1"), ran("export A=$(date)")], {}),
        ([ran("export A=/x"), ran('export P="$A/bin"')], {"A": ("/x", "inferred"), "P": ("/x/bin", "inferred")}),
        ([ran("env", "A=1\nHOME=/root\nmore\n")], {"A": ("1", "observed"), "HOME": ("/root", "observed")}),
        ([ran("A=1 env", "A=1\n")], {}),
        ([ran("printenv | grep PY", "PYTHONPATH=/x\n")], {"PYTHONPATH": ("/x", "observed")}),
        ([ran("echo $A", "7\n")], {"A": ("7", "observed")}),
        ([ran("export A=1"), ran("echo $A", "\n")], {}),
        ([ran("echo A", "A\n")], {}),
        ([ran("source venv/bin/activate")], {"VIRTUAL_ENV": ("venv", "inferred")}),
        ([ran("source venv/bin/activate"), ran("deactivate")], {}),
        ([ran("source nope/bin/activate", "bash: nope/bin/activate: No such file or directory", 1)], {}),
        ([ran("conda activate dev")], {"CONDA_DEFAULT_ENV": ("dev", "inferred")}),
        ([ran("false || export A=1")], {}),
    ],
    ids=lambda value: None,
)
def test_variables_are_those_that_outlive_their_line(
    steps: list[Step], expected: dict[str, tuple[str | None, str]]
) -> None:
    assert known(run(*steps), "variable") == expected


@pytest.mark.parametrize(
    ("command", "output", "name"),
    [
        ("export API_KEY=abc123", "", "API_KEY"),
        ("export DB_PASSWORD=hunter2", "", "DB_PASSWORD"),
        ("env", "GITHUB_TOKEN=whatever\n", "GITHUB_TOKEN"),
        ("env", "URL=https://user:s3cretpw@host/\n", "URL"),
        ("echo $X", "ghp_" + "a" * 36 + "\n", "X"),
    ],
)
def test_no_secret_gets_into_a_fact(command: str, output: str, name: str) -> None:
    found = environment(run(ran(command, output)))
    assert known(run(ran(command, output)), "variable") == {
        name: (MASKED, known(run(ran(command, output)), "variable")[name][1])
    }
    text = msgspec.json.encode(list(found.rows("t"))).decode()
    for secret in ("abc123", "hunter2", "whatever", "s3cretpw", "ghp_"):
        assert secret not in text


# -- processes and files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([ran("python -m http.server 80 &")], {"python -m http.server 80"}),
        ([ran("nohup ./serve > /dev/null 2>&1 &\nsleep 1")], {"./serve"}),
        ([ran("cd a && ./serve &")], {"./serve"}),
        ([ran("./a & ./b &"), ran("kill %1")], {"./b"}),
        ([ran("./a &", "[1] 4242\n"), ran("kill -9 4242")], set()),
        ([ran("./a &"), ran("kill $!")], set()),
        ([ran("./a &"), ran("./b &"), ran("pkill -f ./a")], {"./b"}),
        ([ran("./a &"), ran("kill $(lsof -ti :80)")], set()),
        ([ran("./a &"), ran("ps aux", "USER PID %CPU COMMAND\nroot 7 0.0 ./b --x\nroot 9 0 [kworker]\n")], {"./b --x"}),
        ([ran("docker run -d redis")], {"docker run -d redis"}),
        ([ran("docker run -d redis", "", 125)], set()),
        ([ran("ls && pwd", "/testbed")], set()),
        ([ran("make 2>&1 | tail", "")], set()),
        ([ran("npm start", "Command running in background with ID: b1"), called("KillShell", shell_id="b1")], set()),
        ([ran("npm start", "Command running in background with ID: b1")], {"npm start"}),
    ],
    ids=lambda value: None,
)
def test_processes_run_until_something_ends_them(steps: list[Step], expected: set[str]) -> None:
    assert set(known(run(*steps), "process")) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([ran("cat > /tmp/r.py <<'EOF'\nx\nEOF\npython /tmp/r.py", "boom", 1)], {"/tmp/r.py"}),
        ([ran("echo x > out.txt")], set()),
        ([ran("echo x > /testbed/out.txt")], set()),
        ([ran("echo x > ../beside")], {"../beside"}),
        ([ran("echo x > /dev/null")], set()),
        ([ran("touch /nope/x", "touch: cannot touch '/nope/x': No such file or directory", 1)], set()),
        ([ran("mkdir -p /tmp/d && cp a.py /tmp/d")], {"/tmp/d", "/tmp/d/a.py"}),
        ([ran("touch /tmp/a /tmp/b"), ran("rm /tmp/a")], {"/tmp/b"}),
        ([ran("touch /tmp/a.py /tmp/b.txt"), ran("rm -f /tmp/*.py")], {"/tmp/b.txt"}),
        ([ran("mkdir /tmp/d && touch /tmp/d/x"), ran("rm -rf /tmp/d")], set()),
        ([ran("touch /tmp/a"), ran("mv /tmp/a /tmp/b")], {"/tmp/b"}),
        ([ran("touch /tmp/a"), ran("rm -rf $T")], set()),
        ([ran("false && touch /tmp/a", "", 1)], set()),
        ([ran("if x; then touch /tmp/a; fi")], set()),
        ([ran("touch ~/.config")], {"~/.config"}),
        (
            [called("Write", "File created successfully at: /tmp/x.py", file_path="/tmp/x.py", content="1")],
            {"/tmp/x.py"},
        ),
        ([called("Read", "1\tx", file_path="/tmp/x.py")], set()),
        ([called("Write", "File created", file_path="/testbed/x.py", content="1")], set()),
    ],
    ids=lambda value: None,
)
def test_files_outside_the_repository_are_there_until_they_are_removed(steps: list[Step], expected: set[str]) -> None:
    assert set(known(run(*steps), "file")) == expected


# -- system -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("python --version", "Python 3.11.5\n", {"python": "3.11.5"}),
        ("python3 -V && node -v", "Python 3.9\nv18.1.0\n", {"python": "3.9"}),
        ("node -v", "v18.1.0\n", {"node": "18.1.0"}),
        ("go version", "go version go1.21.3 linux/amd64\n", {"go": "1.21.3"}),
        ("uname -a", "Linux box 6.1 #1 SMP x86_64\n", {"kernel": "Linux box 6.1 #1 SMP x86_64"}),
        (
            "cat /etc/os-release",
            'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
            {"distribution": "Debian GNU/Linux 12"},
        ),
        ("cat notes.txt", "Python 3.11.5\n", {}),
        ("pytest", "platform linux -- Python 3.9.2, pytest-7.4.0, pluggy-1.3.0\n", {"python": "3.9.2"}),
    ],
)
def test_the_system_is_what_its_programs_say(command: str, output: str, expected: dict[str, str]) -> None:
    assert known(run(ran(command, output)), "system") == {k: (v, "observed") for k, v in expected.items()}


def test_what_the_prompt_says_of_the_system_holds_from_the_start() -> None:
    found = run(ran("ls"), said="x <system_information>\nLinux 6.12 aarch64\n</system_information>")
    assert known(found, "system", 0) == {"kernel": ("Linux 6.12 aarch64", "observed")}


def test_kinds_of_which_nothing_is_known_are_named() -> None:
    there = environment(run(ran("pip install a"), source={"x": 1})).at(1)
    assert set(there.unknown) == set(KINDS) - {"package"}
    assert environment(run(ran("ls"), source={"x": 1})).at(0).unknown == KINDS


# -- time ---------------------------------------------------------------------------------------


def test_a_late_answer_is_not_known_before_it_came() -> None:
    """Until then the command is a process that runs."""
    found = run(ran("pip install a", "Successfully installed a-1\n", arrived=3), ran("ls"), ran("ls"), ran("ls"))
    assert [set(known(found, "process", h)) for h in range(5)] == [
        set(),
        {"pip install a"},
        {"pip install a"},
        set(),
        set(),
    ]
    assert [set(known(found, "package", h)) for h in range(5)] == [set(), set(), set(), {"pip a"}, {"pip a"}]


_LINES: Sequence[tuple[str, str]] = (
    ("cd src", ""),
    ("cd /tmp", ""),
    ("cd ..", ""),
    ("cd x", "bash: cd: x: No such file or directory"),
    ("pwd", "/testbed/src\n"),
    ("export A=1", ""),
    ("export A=$B B=2", ""),
    ("export P=$A/x", ""),
    ("unset A", ""),
    ("env", "A=9\nZ=1\n"),
    ("echo $A", "\n"),
    ("pip install a", "Successfully installed a-1\n"),
    ("pip install a", "Requirement already satisfied: a in /x (1)\n"),
    ("pip install a==2", ""),
    ("pip uninstall -y a", ""),
    ("pip list", "a  1\nb  2\n"),
    ("python --version", "Python 3.1\n"),
    ("./a &", "[1] 77\n"),
    ("./b &", ""),
    ("kill %1", ""),
    ("kill $!", ""),
    ("kill 77", ""),
    ("pkill a", ""),
    ("kill $X", ""),
    ("ps aux", "USER PID COMMAND\nr 77 ./a\nr 78 ./c\n"),
    ("touch /tmp/a", ""),
    ("mkdir /tmp/d", ""),
    ("cp x /tmp/d", ""),
    ("rm -rf /tmp/d", ""),
    ("rm /tmp/*", ""),
    ("mv /tmp/a $P", ""),
    ("echo 1 > $P/z", ""),
    ("cd /srv/app && touch ../q", ""),
    ("conda activate e", ""),
    ("sleep 1", "Command running in background with ID: s1"),
    ("rm -rf $Q", ""),
    ("cd $A", ""),
)


@st.composite
def _runs(draw: st.DrawFn) -> Trajectory:
    count = draw(st.integers(1, 9))
    steps = []
    for number in range(1, count + 1):
        command, output = draw(st.sampled_from(_LINES))
        late = draw(st.none() | st.none() | st.integers(number + 1, count + 1))
        missing = draw(st.sampled_from((None, None, None, None, "none", "aborted", "not_executed")))
        code = draw(st.sampled_from((0, 0, 0, 1, None)))
        if missing:
            steps.append(ran(command, "", None, missing=missing))
        else:
            steps.append(ran(command, output, code, arrived=late if late and late <= count else None))
    format = draw(st.sampled_from(("claude_code", "mini_swe_agent", "openhands_events")))
    source = draw(st.sampled_from(({"cwd": "/testbed"}, {"x": 1}, {"folders": [[0, "/testbed"], [2, "/testbed/src"]]})))
    return run(*steps, format=format, source=source)


def test_a_folder_that_is_told_late_moves_no_later_line() -> None:
    """``pwd`` in the background says where the shell stood; a line before its answer came knows nothing of it."""
    lost = ran("cd src", "", None, missing="none")
    found = environment(run(lost, ran("pwd", "/testbed/src\n", arrived=4), ran("cd deep"), ran("ls")))
    assert all(item.kind != "folder" for h in range(1, 5) for item in found.at(h).known)


@pytest.mark.parametrize("examples", [120, pytest.param(1000, marks=pytest.mark.slow)])
def test_what_is_known_at_a_step_is_what_the_run_cut_there_knows(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(_runs())
    def check(trajectory: Trajectory) -> None:
        whole = environment(trajectory)
        for h in range(len(trajectory.steps) + 1):
            cut = msgspec.structs.replace(trajectory, steps=prefix(trajectory.steps, h))
            assert environment(cut).at(h) == whole.at(h)

    check()


@settings(max_examples=150)
@given(st.text(max_size=120), st.text(max_size=200), st.sampled_from(("bash", "Write", "KillShell", "apply_patch")))
def test_no_text_breaks_it(command: str, output: str, tool: str) -> None:
    steps = (
        Step(actions=(Action(tool=tool, arguments=command, is_text=True),), observations=(Observation(text=output),)),
        ran(command, output),
        called(tool, output, path=command, file_path=command),
    )
    found = environment(run(*steps))
    for h in range(4):
        assert all(len(item.name) <= 200 and len(item.value or "") <= 300 for item in found.at(h).known)


def test_rows_give_the_facts_again(tmp_path: Path) -> None:
    """Through the lake, in another order."""
    found = environment(run(*(ran(*line) for line in _LINES[:9])))
    lake = Lake(tmp_path)
    lake.write("environment_facts", list(found.rows("t"))[::-1], inputs="i", shard="a")
    assert from_rows(lake.rows("environment_facts"), found.n_steps) == found or {
        h: from_rows(lake.rows("environment_facts"), found.n_steps).at(h) for h in range(10)
    } == {h: found.at(h) for h in range(10)}


def test_a_step_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no step 2"):
        environment(run(ran("ls"))).at(2)


def test_real_recordings_hold_the_same_at_every_cut(corpus: Path) -> None:
    """One run of every format."""
    for path in ("mini_swe_agent_v2", "sweagent_v1", "openhands_v0_output", "claude_code"):
        file = next(file for file in sorted((corpus / path).rglob("*")) if file.suffix in (".traj", ".json", ".jsonl"))
        trajectory = adapters.read_record(file, 1).runs[0]
        whole = environment(trajectory)
        for h in range(0, len(trajectory.steps) + 1, 7):
            cut = msgspec.structs.replace(trajectory, steps=prefix(trajectory.steps, h))
            assert environment(cut).at(h) == whole.at(h)
