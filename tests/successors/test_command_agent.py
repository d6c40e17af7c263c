"""Agents that are commands: what they are given, what they can reach, what their runs come to."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tiny_agent
from fault_server import message
from scripted_endpoint import Scripted, client

from handoff.endpoints import Client, Prices
from handoff.errors import EndpointError, InputError
from handoff.journal import Journal
from handoff.sandbox import Limits, Mount, Sandbox, available, open_sandbox, python_paths
from handoff.successors import Briefing, Budget, Question, command
from handoff.successors.command import CommandSuccessor, digest_of
from handoff.successors.settings import Command
from handoff.takeover import Takeover, Verdict, run_takeover
from handoff.trajectory import Action, Observation

pytestmark = pytest.mark.usefixtures("bubblewrap")

QUESTION = Question(nodes=(("q01", "edit:pager.py"), ("q02", "reproduce")))
BRIEFING = Briefing(task="Mend “it”.\x07", view="summary", view_text="It was read.", preamble="You take over.")
AMPLE = Budget(steps=20, prompt_tokens=100_000)


class Tree:
    """A work tree in a folder. Implements ``takeover.Environment``."""

    is_over = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self.path = folder / "repo"
        self.path.mkdir(parents=True)
        (self.path / "pager.py").write_text("x = 1\n")

    def act(self, action: Action) -> Observation:
        raise AssertionError("a command acts by itself")

    def annex(self) -> Path:
        folder = self._folder / "annex"
        folder.mkdir()
        return folder

    def jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        shown = [*python_paths(), *read_only]
        return open_sandbox("bubblewrap", self.path, limits=limits, read_only=shown, mounts=mounts, env=env)

    def tree(self) -> str:
        return json.dumps({p.name: p.read_text() for p in sorted(self.path.iterdir()) if p.is_file()})

    def verdict(self) -> Verdict:
        return Verdict(solved="x = 2" in (self.path / "pager.py").read_text())

    def close(self) -> None:
        shutil.rmtree(self._folder)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    reason = available()["bubblewrap"]
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path / "agent"
    folder.mkdir()
    shutil.copy(tiny_agent.__file__, folder)
    return folder


@pytest.fixture
def take(tmp_path: Path, programs: Path) -> Iterator[Callable[..., Takeover]]:
    """Runs one takeover by a command; nothing is left behind."""

    def run(
        transport: Scripted | None = None,
        *moods: str,
        line: str = "",
        budget: Budget = AMPLE,
        endpoint: Mapping[str, Any] | None = None,
        question: Question | None = None,
        name: str = "k",
        **settings: Any,
    ) -> Takeover:
        plain = f"{sys.executable} {programs}/tiny_agent.py {{prompt}} {{trajectory}} {{base_url}} {' '.join(moods)}"
        own = Command(command=line or plain, **{"programs": (str(programs),), "timeout_s": 60.0, **settings})
        asked: Client | None = None if transport is None else client(transport, **(endpoint or {}))
        return run_takeover(
            takeover_id="k_1",
            briefing=BRIEFING,
            successor=CommandSuccessor(own, name="mini", client=asked),
            environment=lambda: Tree(tmp_path / name / "work"),
            budget=budget,
            seed=5,
            question=question,
            journal=Journal(tmp_path / name / "journal", sync="paid"),
        )

    yield run
    assert not list(tmp_path.glob("*/work"))


def bash(text: str) -> dict[str, Any]:
    return message("", ("bash", {"command": text}))


MENDING = (bash("cat pager.py"), bash("echo 'x = 2' > pager.py"))
COUNTED = {"usage": "counted"}


def counted(*answers: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**answer, **COUNTED} for answer in answers]


# -- a whole run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("moods", [(), ("stream",)])
def test_an_agent_works_by_itself_and_its_run_is_a_row_like_any_other(
    take: Callable[..., Takeover], moods: tuple[str, ...]
) -> None:
    transport = Scripted(counted(*MENDING), lambda number: {**message("", ("submit", {})), **COUNTED})
    takeover = take(transport, *moods, endpoint={"temperature": 0.5})
    assert (takeover.status, takeover.solved, takeover.note) == ("submitted", True, "")
    assert (takeover.successor, takeover.successor_name, takeover.provenance) == ("command", "mini", "executed")
    assert takeover.steps == len(takeover.transcript) == len(transport.requests) == 3
    assert next(a.arguments for s in takeover.transcript for a in s.actions) == '{"command": "cat pager.py"}'
    assert takeover.transcript[0].observations[0].text == "x = 1\n"
    assert takeover.endpoint_prompt_tokens is not None and takeover.endpoint_prompt_tokens > 0
    assert takeover.prompt_tokens > takeover.first_prompt_tokens > 0
    assert json.loads(takeover.final_tree) == {"pager.py": "x = 2\n"}
    first = transport.requests[0]
    assert (first["model"], first["temperature"], first["seed"], "stream" in first) == ("stub-1", 0.5, 5, False)
    assert first["messages"][1]["content"] == "You take over.\n\nIt was read.\n\nMend “it”.\x07"


def test_nothing_is_run_again_once_it_is_over(take: Callable[..., Takeover]) -> None:
    transport = Scripted(MENDING)
    once = take(transport)
    assert take(transport) == once
    assert len(transport.requests) == 3


def test_the_prompt_is_given_as_text_and_as_a_json_string_that_yaml_reads_too(take: Callable[..., Takeover]) -> None:
    line = "cp {prompt} {prompt_json} {trajectory}* /tmp; cat {prompt} > seen; cat {prompt_json} > json"
    files = json.loads(take(line=line).final_tree)
    assert files["seen"] == "You take over.\n\nIt was read.\n\nMend “it”.\x07"
    assert json.loads(files["json"]) == files["seen"]
    assert command.json_string("\x85\u2028\x7f\ufeff😀\n") == '"\\u0085\\u2028\\u007f\\ufeff😀\\n"'


def test_fields_are_filled_in_where_they_stand_alone(take: Callable[..., Takeover]) -> None:
    line = "prompt=p; echo ${prompt} {model} {seed} {other} > said; : {prompt}"
    takeover = take(Scripted(), line=line, endpoint={"model": "a b'c"})
    assert json.loads(takeover.final_tree)["said"] == "p a b'c 5 {other}\n"
    assert takeover.steps == 0


# -- the probe ------------------------------------------------------------------------------------------

ANSWER = {"done": ["q02"], "plan": [{"kind": "edit", "target": "/repo/pager.py"}]}


def test_the_probe_is_put_beside_the_conversation_before_the_first_change(take: Callable[..., Takeover]) -> None:
    transport = Scripted([bash("ls"), bash("echo 'x = 2' > pager.py"), message(json.dumps(ANSWER))])
    takeover = take(transport, question=QUESTION)
    assert (takeover.probe_done, takeover.probe_plan) == (("reproduce",), ("edit pager.py",))
    assert takeover.steps == 3 and len(transport.requests) == 4
    reply, probe, after = transport.requests[1:]
    assert probe["messages"][:-1] == reply["messages"] and probe["tool_choice"] == "none"
    assert "response_format" in probe and "A question beside the work" in probe["messages"][-1]["content"]
    assert not any("A question beside" in str(m) for m in after["messages"])


def test_an_agent_that_never_changes_anything_is_asked_at_the_end(take: Callable[..., Takeover]) -> None:
    transport = Scripted([bash("ls"), message("Nothing to do."), message(json.dumps(ANSWER))])
    assert take(transport, question=QUESTION).probe_done == ("reproduce",)


@pytest.mark.parametrize("said", [["response_format is not supported"], ["'maxLength' is not permitted"] * 2])
def test_an_endpoint_without_schemas_is_asked_in_words(take: Callable[..., Takeover], said: list[str]) -> None:
    """At once, or after it has refused the schema without bounds as well."""
    transport = Scripted([message("Nothing."), *((400, text) for text in said), message(json.dumps(ANSWER))])
    assert take(transport, question=QUESTION).probe_done == ("reproduce",)
    assert "fits this schema" in transport.requests[-1]["messages"][-1]["content"]
    assert len(transport.requests) == 2 + len(said)


def test_an_answer_of_another_form_is_missing_and_not_wrong(take: Callable[..., Takeover]) -> None:
    takeover = take(Scripted([message("Nothing."), message("all done!")]), question=QUESTION)
    assert takeover.probe_done is None and "not of the form" in takeover.note


# -- what ends a run ------------------------------------------------------------------------------------

PRICES = {"prices": Prices(prompt=1000.0, completion=1000.0), "max_completion_tokens": 100}


@pytest.mark.parametrize(
    ("budget", "endpoint", "status", "asked"),
    [
        (Budget(steps=2, prompt_tokens=100_000), {}, "step_limit", 2),
        (Budget(steps=9, prompt_tokens=130), {}, "token_limit", 2),
        (Budget(steps=9, prompt_tokens=100_000, dollars=0.35), PRICES, "money_limit", 2),
        (AMPLE, {"context_window": 100, "max_completion_tokens": 20}, "context_limit", 3),
    ],
)
def test_a_budget_is_held_and_the_agent_is_told(
    take: Callable[..., Takeover], budget: Budget, endpoint: dict[str, Any], status: str, asked: int
) -> None:
    """It can still write its trajectory and end."""
    transport = Scripted(then=lambda number: {**bash("echo again"), **COUNTED})
    takeover = take(transport, budget=budget, endpoint=endpoint)
    assert (takeover.status, takeover.steps, len(transport.requests)) == (status, asked, asked)
    assert len(takeover.transcript) == asked and "refused" in takeover.note
    assert takeover.prompt_tokens <= budget.prompt_tokens
    assert budget.dollars is None or (takeover.dollars is not None and takeover.dollars <= budget.dollars)


def test_a_budget_in_money_needs_prices(take: Callable[..., Takeover]) -> None:
    with pytest.raises(InputError, match="prices"):
        take(Scripted(MENDING), budget=Budget(steps=9, prompt_tokens=10_000, dollars=1.0))


def test_an_agent_that_goes_on_after_its_budget_is_ended(
    take: Callable[..., Takeover], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "GRACE_S", 0.2)
    line = "curl() { :; }; : {prompt}; while true; do " + ASK + "; done"
    takeover = take(Scripted(then=lambda number: message("hm")), line=line, budget=Budget(steps=2, prompt_tokens=9_000))
    assert (takeover.status, takeover.steps) == ("step_limit", 2)


ASK = (
    'python -c \'import urllib.request as r; r.urlopen(r.Request("{base_url}/chat/completions", '
    'b"{\\"messages\\": [{\\"role\\": \\"user\\", \\"content\\": \\"x\\"}]}"))\' 2>/dev/null'
)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Submitted", "submitted"),
        ("LimitsExceeded", "stopped"),  # of two limits it does not say which
        ("TimeExceeded", "time_limit"),
        ("RepeatedFormatError", "stopped"),
        ("", "submitted"),
    ],
)
def test_an_agent_that_ends_in_order_may_say_how(
    take: Callable[..., Takeover], programs: Path, said: str, status: str
) -> None:
    """In its trajectory, in its own words."""
    line = f"{sys.executable} {programs}/tiny_agent.py {{prompt}} {{trajectory}} {{base_url}}"
    line += f'; sed -i \'s/"exit_status": "Submitted"/"exit_status": "{said}"/\' {{trajectory}}'
    takeover = take(Scripted(MENDING), line=line)
    assert (takeover.status, takeover.solved, takeover.note) == (status, True, "")


def test_a_prompt_that_the_model_does_not_take_is_the_agents_to_shorten(take: Callable[..., Takeover]) -> None:
    """One that cannot ends there."""
    takeover = take(Scripted([bash("ls"), (400, "maximum context length is 10 tokens")]))
    assert (takeover.status, takeover.steps) == ("context_limit", 1)


@pytest.mark.parametrize(
    ("said", "status"), [("maximum context length is 10 tokens", "context_limit"), ("filtered", "step_limit")]
)
def test_requests_that_are_declined_use_up_the_budget_of_calls(
    take: Callable[..., Takeover], monkeypatch: pytest.MonkeyPatch, said: str, status: str
) -> None:
    """An agent that asks the same again and again comes to an end, and they are no steps of it."""
    monkeypatch.setattr(command, "GRACE_S", 0.2)
    transport = Scripted([message("hm")], then=lambda number: (400, said))
    line = ": {prompt}; while true; do " + ASK + "; done"
    takeover = take(transport, line=line, budget=Budget(steps=4, prompt_tokens=90_000))
    assert (takeover.status, takeover.steps, len(transport.requests)) == (status, 1, 4)


def test_a_model_that_answers_nothing_ends_a_run_that_can_be_gone_on_with(take: Callable[..., Takeover]) -> None:
    """What it answered before is not asked again."""
    transport = Scripted(
        [MENDING[0], (503, "down"), (503, "down"), (503, "down")], lambda n: message("", ("submit", {}))
    )
    lost = take(transport)
    assert (lost.status, lost.steps) == ("error", 1) and "no answer in 3 attempts" in lost.note
    again = take(transport)
    assert (again.status, again.steps, len(transport.requests)) == ("submitted", 2, 5)
    assert transport.requests[4]["messages"] == transport.requests[1]["messages"]


def test_an_endpoint_that_is_slow_to_fail_does_not_make_the_end_of_the_time_another_end(
    take: Callable[..., Takeover],
) -> None:
    """What is asked when the time is over is asked once, and then nobody waits any more."""
    transport = Slow(then=lambda number: (503, "down"))
    takeover = take(transport, timeout_s=2.0)
    assert (takeover.status, takeover.steps, len(transport.requests)) == ("time_limit", 0, 1)
    assert take(transport, timeout_s=2.0) == takeover


class Slow(Scripted):
    """Answers after the agent's time is over."""

    def send(self, body: Mapping[str, Any], label: str) -> Any:
        time.sleep(3.0)
        return super().send(body, label)


def test_a_wrong_key_is_the_users_to_mend(take: Callable[..., Takeover]) -> None:
    with pytest.raises(EndpointError, match="key"):
        take(Scripted([MENDING[0], (401, "no")]))


# -- killed and started again ---------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone."""


class Dying(Scripted):
    """Dies right after the answers with these numbers."""

    def __init__(self, *arguments: Any, last: tuple[int, ...]) -> None:
        super().__init__(*arguments)
        self.last = last

    def send(self, body: Mapping[str, Any], label: str) -> Any:
        received = super().send(body, label)
        if len(self.requests) in self.last:
            raise Killed
        return received


@pytest.mark.parametrize("last", [1, 2, 3])
@pytest.mark.parametrize("moods", [(), ("clock",)])
def test_killed_and_started_again_it_repeats_no_request_that_was_answered(
    take: Callable[..., Takeover], moods: tuple[str, ...], last: int
) -> None:
    """Only the one that was under way. What came back for actions may differ by then: a note tells."""
    transport = Dying(
        [*MENDING[:last], MENDING[last - 1] if last < 3 else message("", ("submit", {})), *MENDING[last:]], last=(last,)
    )
    with pytest.raises(Killed):
        take(transport, *moods)
    takeover = take(transport, *moods)
    assert (takeover.status, takeover.solved, takeover.steps) == ("submitted", True, 3)
    assert len(transport.requests) == 4
    assert "was under way when the run was cut off" in takeover.note
    assert ("differed in what came back" in takeover.note) == (bool(moods) and last == 3)
    if not moods:
        assert transport.labels[last - 1] == transport.labels[last]
    else:  # another request has another label
        assert transport.labels[last - 1] != transport.labels[last] or last == 1


def test_an_agent_that_asks_other_things_pays_again_and_it_is_said(take: Callable[..., Takeover]) -> None:
    transport = Dying(last=(2,))
    prices = {"prices": Prices(prompt=1.0, completion=1.0)}
    transport.answers = counted(*MENDING, *MENDING)
    with pytest.raises(Killed):
        take(transport, "other", endpoint=prices)
    transport.answers = counted(*MENDING)
    takeover = take(transport, "other", endpoint=prices)
    assert (takeover.status, takeover.steps) == ("submitted", 3)
    assert len(transport.requests) == 5
    assert "asked other things than before: 1 answers were paid for and not used" in takeover.note
    assert len(set(transport.labels)) == 5
    assert take(transport, "other", endpoint=prices) == takeover


# -- a hostile agent --------------------------------------------------------------------------------------


def test_the_key_and_the_host_are_out_of_reach(
    take: Callable[..., Takeover], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither in its environment nor in any file or process that it can see; nobody else answers on the network."""
    monkeypatch.setenv("SECRET_KEY", "sk-swordfish-1234567")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        line = (
            "env > env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' >> env; "
            f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo host >> reached; "
            "(exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null && echo net >> reached; "
            "python -c 'import socket; socket.getaddrinfo(\"example.org\", 80)' 2>/dev/null && echo names >> reached; "
            f"cat {tmp_path}/secret >> reached 2>/dev/null; "
            "ls /agent/given/door 2>/dev/null >> reached; "
            "(echo > /agent/given/x) 2>/dev/null && echo wrote >> reached; "
            "(exec 3<>/dev/tcp/127.0.0.1/41080) && echo model >> reached; : {prompt}"
        )
        (tmp_path / "secret").write_text("a file of the user")
        files = json.loads(take(Scripted(), line=line, endpoint={"key_env": "SECRET_KEY"}).final_tree)
    assert files["reached"] == "model\n"
    assert "swordfish" not in files["env"] and str(tmp_path / "k") not in files["env"]


def test_what_it_leaves_running_is_ended_before_the_tree_is_read(take: Callable[..., Takeover]) -> None:
    line = ": {prompt}; for n in 1 2; do setsid bash -c 'while :; do date +%N > busy; done' & done; echo over > state"
    takeover = take(line=line)
    assert takeover.status == "submitted"
    assert json.loads(takeover.final_tree)["state"] == "over\n"
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"date +%N > busy" in _bytes(p)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        ("sleep 60", "time_limit", "took too long"),
        ("yes flood", "error", "MB of output"),
        ("python -c 'x = bytearray(1 << 30); import time; time.sleep(9)'", "error", "memory|MemoryError"),
        ("exit 3", "error", "exit code 3"),
        ("printf '\\033]0;bad\\007out of \\tcheese\\n'; exit 1", "error", "exit code 1: ]0;bad out of cheese"),
        ("kill -9 $$", "error", "137"),
        ("kill -9 $PPID; sleep 9", "error", "it was stopped|exit code"),
        ("true", "submitted", "wrote no trajectory"),
    ],
)
def test_however_it_ends_the_run_is_recorded(take: Callable[..., Takeover], line: str, status: str, told: str) -> None:
    takeover = take(line=f": {{prompt}}; echo 'x = 2' > pager.py; {line}", timeout_s=3.0, memory_mb=256)
    assert (takeover.status, takeover.solved, takeover.transcript) == (status, True, ())
    assert re.search(told, takeover.note), takeover.note
    assert "\x1b" not in takeover.note and len(takeover.note) < 2000


@pytest.mark.parametrize(
    ("making", "told"),
    [
        ("", "wrote no trajectory"),
        ("echo '{{' > {trajectory}", "cannot be read"),
        ("echo '{\"a\": 1}' > {trajectory}", "cannot be read"),
        (": > {trajectory}", "empty"),
        ("ln -s /etc/passwd {trajectory}", "symbolic link"),
        ("rm -r /agent/out/* ; mkdir {trajectory}", "not a regular file"),
        ("mkfifo {trajectory}", "not a regular file"),
        ("truncate -s 100M {trajectory}", "not read"),
        ("head -c 1000000 /dev/zero | tr '\\0' '[' > {trajectory}", "cannot be read"),
    ],
)
def test_a_trajectory_of_no_use_leaves_the_transcript_that_its_model_saw(
    take: Callable[..., Takeover], programs: Path, making: str, told: str
) -> None:
    work = f"{sys.executable} {programs}/tiny_agent.py {{prompt}} {{trajectory}} {{base_url}} silent"
    takeover = take(Scripted(MENDING), line=f"{work}; {making or 'true'}")
    assert (takeover.status, takeover.solved, takeover.steps) == ("submitted", True, 3)
    assert told in takeover.note
    assert len(takeover.transcript) == 3 and takeover.transcript[0].observations[0].text == "x = 1\n"
    assert [s.observations[0].missing for s in takeover.transcript] == [None, None, "none"]
    assert takeover.events == 5


def test_a_trajectory_of_another_format_than_said_is_not_taken(take: Callable[..., Takeover]) -> None:
    takeover = take(Scripted(MENDING), format="claude_code")
    assert "of the format mini_swe_agent, not claude_code" in takeover.note and takeover.steps == 3


def test_a_trajectory_that_tells_less_than_the_model_answered_is_noted(
    take: Callable[..., Takeover], programs: Path
) -> None:
    shorter = "python - {trajectory} <<'E'\nimport json, sys\nv = json.load(open(sys.argv[1]))\n"
    shorter += "v['messages'] = v['messages'][:4]\njson.dump(v, open(sys.argv[1], 'w'))\nE\n"
    line = f"{sys.executable} {programs}/tiny_agent.py {{prompt}} {{trajectory}} {{base_url}}\n{shorter}"
    takeover = take(Scripted(MENDING), line=line)
    assert takeover.steps == 3 and "1 steps, and 3 calls were answered" in takeover.note


@pytest.mark.parametrize("line", ["no-such-agent {prompt}", "/etc/hostname {prompt}", ": {prompt}; exec /nowhere"])
def test_a_command_that_cannot_be_started_is_the_users_to_mend(take: Callable[..., Takeover], line: str) -> None:
    with pytest.raises(InputError, match=r"successors\.mini.* cannot be run.*correct command or programs"):
        take(Scripted(), line=line)


def test_an_installation_that_is_not_there_is_the_users_to_mend(take: Callable[..., Takeover]) -> None:
    with pytest.raises(InputError, match="no folder /nowhere"):
        take(Scripted(), programs=("/nowhere",))


def test_two_at_once_do_not_mix(take: Callable[..., Takeover]) -> None:
    scripts = [Scripted([bash(f"echo 'x = {n}' > pager.py; sleep 0.5"), bash("cat pager.py")]) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda n: take(scripts[n], name=f"k{n}"), range(4)))
    for number, takeover in enumerate(runs):
        assert json.loads(takeover.final_tree) == {"pager.py": f"x = {number}\n"}
        assert takeover.transcript[1].observations[0].text == f"x = {number}\n"
        assert len(scripts[number].requests) == takeover.steps == 3


# -- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"command": "mini"}, "names neither"),
        ({"command": "mini {prompt}", "trajectory": "../x"}, "plain file name"),
        ({"command": "mini {prompt}", "trajectory": ".."}, "plain file name"),
        ({"command": "mini {prompt}", "env": {"A B": "x"}}, "no variable"),
        ({"command": "mini {prompt}\0"}, "NUL"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Command(**settings)


def test_the_digest_names_what_decides_and_nothing_else() -> None:
    plain = Command(command="mini {prompt}")
    same = Command(command="mini {prompt}", concurrency=9, endpoint="x")
    others = [
        Command(command="mini {prompt} -v"),
        Command(command="mini {prompt}", version="2"),
        Command(command="mini {prompt}", env={"A": "b"}),
        Command(command="mini {prompt}", timeout_s=9.0),
    ]
    assert digest_of(plain, "e") == digest_of(same, "e")
    assert len({digest_of(c, "e") for c in [plain, *others]} | {digest_of(plain, "f")}) == 6
