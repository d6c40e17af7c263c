"""Any agent that is started by a command line: in a jail over the work tree, with the view as its prompt.

::

    /repo                     the work tree; it starts there
    /agent/given/prompt.md    preamble, view, task           ({prompt})
    /agent/given/prompt.json  the same as one JSON string    ({prompt_json})
    /agent/out/               where its trajectory goes      ({trajectory})
    http://127.0.0.1:41080    its one model, when it has one ({base_url})

Its installation is shown read-only. The network is closed but for that model (``endpoints/gateway.py``), the key stays
outside, and what it asks is counted and written down (``broker.py``). What it prints is bounded and told only when it
failed. Its trajectory is read by the adapters like any recording, from a file that is no link and not too long; where
there is none, the transcript is what passed on the way to its model.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from handoff.adapters import convert
from handoff.endpoints import Client, Ledger
from handoff.endpoints.gateway import BASE_URL, LISTEN, Gateway
from handoff.endpoints.wire import writable
from handoff.errors import InputError, RecordError, SandboxError
from handoff.framing import Damaged, SourceFile
from handoff.identity import canonical_json, identify
from handoff.sandbox import Completed, Limits, Mount, Sandbox, shown_folders
from handoff.sandbox.files import read_file
from handoff.successors import Briefing, Budget, Question, Status
from handoff.successors import broker as brokers
from handoff.successors.acting import Acted, Ground
from handoff.successors.broker import Broker
from handoff.successors.settings import FIELD, Command
from handoff.tokens import MESSAGE_OVERHEAD, count_tokens
from handoff.trajectory import Ending, Step, Trajectory

GIVEN = "/agent/given"
OUT = "/agent/out"
GRACE_S = 20.0
"""How long an agent that is answered nothing more may take to end and to write its trajectory."""
LARGEST_TRAJECTORY = 32 << 20
DISK_MB = 4096
_TOLD = 600
"""Characters of its output that are told when it failed."""
_ENDED: dict[Ending, Status] = {
    "submitted": "submitted",
    "step_limit": "step_limit",
    "cost_limit": "money_limit",
    "context_limit": "context_limit",
    "time_limit": "time_limit",
    "error": "stopped",  # it ended in order all the same, such as after replies that it could not read
    "aborted": "stopped",
    "cut_off": "stopped",
}
VERSION = 1
"""Raise it when the same command is given something else."""


class CommandSuccessor:
    """An agent that is a command. Implements ``ActingSuccessor``."""

    kind = "command"

    def __init__(self, command: Command, *, name: str, client: Client | None) -> None:
        """``client``: of the endpoint that ``command`` names; ``None`` when it names none."""
        self._command = command
        self._client = client
        self.name = name
        self.digest = digest_of(command, client.endpoint.digest if client is not None else "")

    def act(
        self, briefing: Briefing, ground: Ground, ledger: Ledger, budget: Budget, seed: int, question: Question | None
    ) -> Acted:
        """See ``ActingSuccessor.act``. A command that cannot be started at all is an ``InputError``."""
        folder = ground.annex()
        given, out = folder / "given", folder / "out"
        given.mkdir()
        out.mkdir()
        _write_prompts(given, briefing)
        (given / "command.sh").write_text(self._script(seed), "utf-8")
        done, broker = self._run(ground, given, out, ledger, budget, seed, question)
        _check_started(self.name, done, broker)
        run, problem = _read_trajectory(out, self._command.trajectory, self._command.format)
        return _acted(done, broker, run, problem, briefing)

    def _script(self, seed: int) -> str:
        values = {
            "prompt": f"{GIVEN}/prompt.md",
            "prompt_json": f"{GIVEN}/prompt.json",
            "trajectory": f"{OUT}/{self._command.trajectory}",
            "base_url": BASE_URL,
            "model": self._client.endpoint.model if self._client is not None else "",
            "seed": str(seed),
        }
        return FIELD.sub(lambda field: shlex.quote(values[field[1]]), self._command.command) + "\n"

    def _run(
        self,
        ground: Ground,
        given: Path,
        out: Path,
        ledger: Ledger,
        budget: Budget,
        seed: int,
        question: Question | None,
    ) -> tuple[Completed, Broker | None]:
        stop, closing = threading.Event(), threading.Event()
        mounts = [Mount(given, GIVEN), Mount(out, OUT, is_writable=True)]
        with ExitStack() as opened:
            gateway = broker = None
            if self._client is not None:
                grace = _Grace(stop)
                opened.callback(grace.end)
                broker = Broker(
                    self._client,
                    ledger,
                    budget,
                    seed,
                    question,
                    is_wanted=lambda: not closing.is_set(),
                    on_over=grace.begin,
                )
                gateway = Gateway(given / "door", self._client.endpoint.model, broker.answer, on_fault=stop.set)
                opened.callback(gateway.close)
                opened.callback(closing.set)
                mounts += _interpreter()
            sandbox = ground.jail(
                read_only=shown_folders(self._command.programs),
                mounts=mounts,
                env={"OPENAI_BASE_URL": BASE_URL, "OPENAI_API_KEY": "none", **self._command.env},
                limits=Limits(memory_mb=self._command.memory_mb, processes=self._command.processes, disk_mb=DISK_MB),
            )
            opened.callback(sandbox.close)
            if gateway is not None:
                _open_door(sandbox, given, gateway)
            done = sandbox.run(f"bash {GIVEN}/command.sh", self._command.timeout_s, stop=stop)
        if gateway is not None and gateway.fault is not None:
            raise gateway.fault
        if broker is not None and not broker.over:
            closing.clear()
            broker.probe()
        return done, broker


def digest_of(command: Command, endpoint: str) -> str:
    """What identifies such a successor: its command and what is seen of it, and its model (``Endpoint.digest``)."""
    decisive = (
        command.command,
        command.programs,
        command.trajectory,
        command.format,
        command.timeout_s,
        sorted(command.env.items()),
        command.memory_mb,
        command.processes,
        command.version,
    )
    return identify("m", "command", VERSION, brokers.VERSION, endpoint, canonical_json(decisive))


class _Grace:
    """Ends the command some time after it was told that nothing more is answered."""

    def __init__(self, stop: threading.Event) -> None:
        self._timer = threading.Timer(GRACE_S, stop.set)
        self._timer.daemon = True

    def begin(self) -> None:
        self._timer.start()

    def end(self) -> None:
        self._timer.cancel()


# -- what it is given -------------------------------------------------------------------------------


def _write_prompts(folder: Path, briefing: Briefing) -> None:
    text = str(writable("\n\n".join(message.text for message in briefing.messages())))
    (folder / "prompt.md").write_bytes(text.encode())
    (folder / "prompt.json").write_bytes(json_string(text).encode())


def json_string(text: str) -> str:
    """The text as a JSON string that is a YAML string too: what YAML does not take as it is is escaped."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", canonical_json(text).decode())


_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _interpreter() -> list[Mount]:
    """What the jail needs to run our Python for a moment, where the system's folders do not hold it."""
    home = Path(sys.base_prefix).resolve()
    return [] if home.is_relative_to("/usr") else [Mount(home, str(home))]


def _open_door(sandbox: Sandbox, given: Path, gateway: Gateway) -> None:
    (given / "listen.py").write_text(LISTEN)
    call = f"-I {GIVEN}/listen.py {GIVEN}/door"
    program = shlex.quote(os.path.realpath(sys.executable))
    # In an image, ours may not run.
    done = sandbox.run(f"{program} {call} 2>/dev/null || python3 {call}", 30.0)
    if done.exit_code != 0:
        raise SandboxError(f"the jail opens no listener for the agent's model: {done.text.strip()[-_TOLD:]}")
    gateway.receive({os.geteuid(), (given.parent / "out").stat().st_uid})


# -- what it leaves ---------------------------------------------------------------------------------


def _check_started(name: str, done: Completed, broker: Broker | None) -> None:
    if done.exit_code in (126, 127) and (broker is None or not broker.steps):
        raise InputError(
            f"the command of [successors.{name}] cannot be run: {_tail(done.output)}; correct command or programs"
        )


def _read_trajectory(out: Path, name: str, format: str) -> tuple[Trajectory | None, str]:
    """The run in the agent's file, or why there is none. The file is hostile."""
    try:
        data = read_file(out, name, limit=LARGEST_TRAJECTORY)
    except FileNotFoundError:
        return None, "the agent wrote no trajectory"
    except (SandboxError, OSError) as error:
        return None, f"the agent's trajectory is not read: {error}"
    place = out.parent / "read"
    place.mkdir()
    (place / name).write_bytes(data)
    try:
        for record in SourceFile(place / name):
            if isinstance(record, Damaged):
                raise record.error
            run = convert(record)[0]
            if format and run.format != format:
                return None, f"the agent's trajectory is of the format {run.format}, not {format}"
            return run, ""
    except (RecordError, InputError) as error:
        return None, f"the agent's trajectory cannot be read: {_tail(str(error))}"
    return None, "the agent's trajectory is empty"


def _acted(done: Completed, broker: Broker | None, run: Trajectory | None, problem: str, briefing: Briefing) -> Acted:
    notes = [problem] if problem else []
    notes += broker.remarks() if broker is not None else ["no model of ours: steps and tokens are those it tells"]
    if done.exit_code != 0 or done.notice:
        notes.append(_how_it_ended(done))
    transcript = run.steps if run is not None else broker.transcript() if broker is not None else ()
    if run is not None and broker is not None and len(run.steps) != len(broker.steps):
        notes.append(f"its trajectory has {len(run.steps)} steps, and {len(broker.steps)} calls were answered")
    prompts, completion = _told(briefing, transcript) if broker is None else ([], 0)
    return Acted(
        status=_status(done, broker, run),
        transcript=transcript,
        steps=len(broker.steps) if broker is not None else len(transcript),
        first_prompt_tokens=broker.first if broker is not None else next(iter(prompts), 0),
        prompt_tokens=broker.prompt if broker is not None else sum(prompts),
        completion_tokens=broker.completion if broker is not None else completion,
        answer=broker.asked if broker is not None else None,
        notes=tuple(notes),
        is_passing=broker is not None and broker.lost is not None,
    )


def _status(done: Completed, broker: Broker | None, run: Trajectory | None) -> Status:
    if broker is not None and broker.over is not None:
        return broker.over
    if done.timed_out:
        return "time_limit"
    if broker is not None and broker.is_full and done.exit_code != 0:
        return "context_limit"
    if done.exit_code != 0:
        return "error"
    if run is not None and run.outcome.ended is not None:
        return _ENDED[run.outcome.ended]
    # In words that nobody knows: at least it does not say that it is done.
    return "stopped" if run is not None and run.outcome.exit_status else "submitted"


def _how_it_ended(done: Completed) -> str:
    how = f"it ended with exit code {done.exit_code}" if done.exit_code is not None else "it was stopped"
    said = _tail(done.text)
    return f"{how}: {said}" if said else how


def _tail(output: str) -> str:
    """The end of an output, on one line, without anything that a terminal obeys."""
    plain = "".join(letter if letter.isprintable() else " " for letter in output[-4 * _TOLD :])
    return " ".join(plain.split())[-_TOLD:]


def _told(briefing: Briefing, transcript: Sequence[Step]) -> tuple[list[int], int]:
    """Tokens of each prompt and of all replies, as far as the agent's own trajectory tells."""
    length = sum(count_tokens(message.text) + MESSAGE_OVERHEAD for message in briefing.messages())
    prompts, completion = [], 0
    for step in transcript:
        own = count_tokens(step.text) + count_tokens(step.thought)
        own += sum(count_tokens(action.tool) + count_tokens(action.arguments) for action in step.actions)
        prompts.append(length)
        completion += own
        length += own + MESSAGE_OVERHEAD
        length += sum(count_tokens(seen.text) + MESSAGE_OVERHEAD for seen in step.observations)
    return prompts, completion
