"""The facts of a run, in one pass over its steps.

A command's answer that came late tells what it tells from the step on by whose end it had come; until then the command
is a process that runs, and it changes neither the shell's folder nor its variables. So what is known at a step is the
same whether the run goes on after it or not. What one shell line does is in ``lines.py``.
"""

from __future__ import annotations

import posixpath
import re

import msgspec

from handoff.actions import context_of, did_not_happen, interpret, is_outside, resolve
from handoff.actions.operations import Other
from handoff.actions.paths import with_folder
from handoff.actions.tools import SHELLS, command_line
from handoff.environment.facts import Environment
from handoff.environment.ledger import Ledger
from handoff.environment.lines import doubt_line, read_line
from handoff.environment.outputs import test_heading
from handoff.environment.session import Session
from handoff.trajectory import Action, Observation, Step, Trajectory


class _Source(msgspec.Struct):
    """Where the harness says that the shell stood."""

    cwd: str | None = None
    states: list[list[msgspec.Raw]] | None = None
    folders: list[list[msgspec.Raw]] | None = None


class _Structured(msgspec.Struct, gc=False):
    """What is read of a structured call."""

    path: str | None = None
    file_path: str | None = None
    shell_id: str | None = None
    bash_id: str | None = None
    task_id: str | None = None


_source = msgspec.json.Decoder(_Source).decode
_structured = msgspec.json.Decoder(_Structured).decode
_values = msgspec.json.Decoder(dict[str, object]).decode
_pair = msgspec.json.Decoder(int | str | None).decode
_KILLERS = frozenset(("killshell", "kill_shell", "killbash"))
_STARTED = re.compile(r"\ACommand running in background with ID: (?P<id>[\w-]{1,80})")
_SYSTEM_BLOCK = re.compile(r"<system_information>\s*(?P<kernel>[^\n<]{1,300})")
_PLATFORM = re.compile(r"<env>[^<]{0,400}?\bPlatform: (?P<platform>[\w .-]{1,60})")


def environment(trajectory: Trajectory) -> Environment:
    """What a run shows of the world outside its repository. ``Environment.at(h)`` is what is known at a step."""
    walk = _Walk(trajectory)
    for number, step in enumerate(trajectory.steps, 1):
        walk.step(number, step)
    return Environment(facts=tuple(walk.ledger.facts), n_steps=len(trajectory.steps))


class _Walk:
    """Reads steps into a ledger."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._folders = _told_folders(trajectory.source)
        context = context_of(trajectory.format, trajectory.source)
        self.ledger = Ledger(context, is_folder_told=bool(self._folders))
        self._session = Session(self.ledger)
        self._begin(trajectory)

    def _begin(self, trajectory: Trajectory) -> None:
        facts = _facts_of(trajectory.source)
        if facts.cwd and facts.cwd.startswith("/") and "\0" not in facts.cwd:
            self.ledger.stand(resolve(posixpath.normpath(facts.cwd), self.ledger.context), "observed")
        self._stand_as_told()
        for message in trajectory.preamble:
            if message.role not in ("system", "user", "harness"):
                continue
            if match := _SYSTEM_BLOCK.search(message.text):
                self.ledger.say("system", "kernel", match["kernel"].strip(), "observed")
            if match := _PLATFORM.search(message.text):
                self.ledger.say("system", "platform", match["platform"].strip(), "observed")

    def step(self, number: int, step: Step) -> None:
        """Read one step."""
        self.ledger.number = number
        for place, action in enumerate(step.actions):
            if place < len(step.observations):
                self._act(action, step.observations[place])
        self.ledger.seen = number
        self._stand_as_told()

    def _act(self, action: Action, observation: Observation) -> None:
        self.ledger.seen = self.ledger.number
        if observation.missing is not None and observation.missing != "pending":
            if observation.missing != "not_executed" and (doubtful := self._line(action)) is not None:
                doubt_line(doubtful, self.ledger, self._session)
            return
        is_late = observation.arrived is not None and observation.arrived > self.ledger.number
        line = self._line(action)
        if line is None:
            if observation.missing is None and not is_late:
                self._structured(action, observation)
            return
        if observation.missing == "pending" or is_late:
            self.ledger.say("process", " ".join(line.split()), None, until=observation.arrived if is_late else None)
            if observation.missing == "pending":
                return
            self.ledger.seen = observation.arrived or self.ledger.number
        elif match := _STARTED.match(observation.text):
            self.ledger.say("process", " ".join(line.split()), match["id"], "observed")
            return
        if did_not_happen(action, observation):
            return
        folder = self._folder_of(action)
        read_line(line, observation, self.ledger, self._session, folder=folder, is_late=is_late)

    def _line(self, action: Action) -> str | None:
        """The shell line of a call; ``None`` when it is no shell's."""
        tool = action.tool.lower()
        if tool not in SHELLS:
            return None
        if action.is_text:
            return action.arguments
        try:
            return command_line(tool, _values(action.arguments))
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return None

    def _folder_of(self, action: Action) -> str | None:
        """Where a call asks to be run, when it says so."""
        if action.is_text or not any(f'"{name}"' in action.arguments for name in ("workdir", "cwd", "dir_path")):
            return None
        values = _values(action.arguments)
        folder = values.get("workdir") or values.get("cwd") or values.get("dir_path")
        return folder if isinstance(folder, str) else None

    def _structured(self, action: Action, observation: Observation) -> None:
        tool = action.tool.lower()
        if action.is_text or ('"/' not in action.arguments and '"~' not in action.arguments and tool not in _KILLERS):
            self._test_heading(observation)
            return
        try:
            given = _structured(action.arguments)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return
        if tool in _KILLERS:
            id_ = given.shell_id or given.bash_id or given.task_id
            for name, value in self.ledger.held("process"):
                if id_ and value == id_:
                    self.ledger.drop("process", name)
            return
        path = given.path or given.file_path
        if not path or not is_outside(resolve(path, self.ledger.context)) or did_not_happen(action, observation):
            return
        if observation.error or not observation.text:
            return
        operations, _ = interpret(action, self.ledger.context)
        for operation in operations:
            if isinstance(operation, Other) and operation.target.startswith(("/", "~", "../")):
                self.ledger.say("file", operation.target)

    def _test_heading(self, observation: Observation) -> None:
        if "platform " in observation.text:
            for kind, name, value in test_heading(observation.text):
                self.ledger.say("package" if kind == "package" else "system", name, value, "observed")

    def _stand_as_told(self) -> None:
        """The folder that the harness says the shell stands in after this step."""
        while self._folders and self._folders[0][0] <= self.ledger.number:
            _, path = self._folders.pop(0)
            self.ledger.context = with_folder(self.ledger.context, path)
            self.ledger.stand(resolve(path, self.ledger.context), "observed")


def _facts_of(source: str) -> _Source:
    try:
        return _source(source)
    except (msgspec.DecodeError, RecursionError):
        return _Source()


def _told_folders(source: str) -> list[tuple[int, str]]:
    """(step, folder) wherever the harness says that the folder became another one, in order of steps."""
    facts = _facts_of(source)
    found: list[tuple[int, str]] = []
    for entry in facts.states or facts.folders or ():
        try:
            step, path = _pair(entry[0]), _pair(entry[1])
        except (msgspec.DecodeError, IndexError):
            continue
        if isinstance(step, int) and isinstance(path, str) and path.startswith("/") and "\0" not in path:
            found.append((step, path))
    return sorted(found, key=lambda item: item[0])
