"""Shell lines carried out on the state of a repository, without running anything (``docs/science.md §2``).

``syntax`` reads a line, ``control`` carries it out on ``Effects`` with ``machine``, ``disk`` and ``words``. Carried out
exactly are the programs of ``programs``, ``transfer``, ``printing``, ``finding``, ``builtins``, ``git`` and ``inline``.
Of a line that is beyond it, the static reading of ``actions.lines`` is used.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from handoff.actions import Install, Opaque, Run, Validate, changed_paths
from handoff.actions.lines import interpret_line
from handoff.actions.paths import NOWHERE, Context, resolve
from handoff.editors.plain import Misfit
from handoff.shell import commands
from handoff.states import rewrites
from handoff.states.effects import Effects, Snapshot
from handoff.states.shell import builtins, finding, git, inline, lasting, printing, programs, transfer
from handoff.states.shell.control import Control, changed_since
from handoff.states.shell.lasting import ODD
from handoff.states.shell.streams import Leave, Oracle, Status, Streams
from handoff.states.shell.syntax import read_line
from handoff.states.shell.tree import Beyond, Script
from handoff.trajectory import Observation

__all__ = ["Ran", "run_line"]

_FILES = {**programs.PROGRAMS, **transfer.PROGRAMS}
_PROGRAMS = {**printing.PROGRAMS, **builtins.PROGRAMS, **finding.PROGRAMS, **_FILES, **inline.PROGRAMS, **git.PROGRAMS}
_CHANGING = _FILES.keys() - {"sed", "gsed"}  # the words of sed are no files alone
_MOST_WAYS = 24
_KILLED = frozenset((-1, 124, 130, 137, 143))
"""Exit codes of lines that were stopped."""


_GIT = re.compile(r"\bgit\s(?!(?:-\S+\s+)*(?:status|log|diff|show|grep|blame|ls-files|rev-parse|branch)\b)")


class Ran(NamedTuple):
    """What a line did beside its changes. ``suspicion``: why it may have changed files that nothing names."""

    has_run_programs: bool = False
    suspicion: str | None = None
    is_opaque: bool = False
    """Whether it ran a program that changes files in a way that is not derived."""
    context: Context | None = None
    """What the next line of a shell that lives on begins in."""


class _Way(NamedTuple):
    """One way that a line may have gone."""

    state: Snapshot
    status: Status
    ran: Ran
    asked: tuple[str, ...]
    missing: tuple[str, ...]
    context: Context


def run_line(effects: Effects, line: str, context: Context, observation: Observation) -> Ran:
    """Carry a line out. ``context``: before it. ``Misfit``: the recording says that it applied a patch, which does not
    fit; nothing of the line is then carried out."""
    before = effects.snapshot()
    if not context.shell_persists:
        effects.lasting = frozenset()
    try:
        if ODD in effects.lasting:
            raise Beyond("a shell in a mode under which lines are not carried out")
        script = read_line(line)
        ways = _ways(effects, script, context, observation)
    except (Beyond, RecursionError):
        ran = _static(effects, line, context)
        _hear(effects, line, context, ran, observation)
        effects.lasting = _lasting(effects, line, context, observation)
        return ran._replace(context=_folder_read(line, context, observation))
    code = observation.exit_code
    fitting = [way for way in ways if code is None or code in _KILLED or way.status in (None, code == 0)]
    if not fitting:  # it did not go as derived: what it may have touched is not known
        fitting, reason = ways, f"the recorded exit code {code} is not the derived one"
        effects.go_back(fitting[0].state)
        for way in ways:
            _blur(effects, way, reason)
        for path in changed_since(effects, before):
            effects.forget_place(path, reason)
        missing = [path for way in ways for path in way.missing]
        for path in missing:
            effects.forget_place(path, reason)
        if code == 0 and missing and len(ways) == 1:
            raise Misfit("the line succeeded, and a file that it needs does not exist", missing[0])
    else:
        effects.go_back(fitting[0].state)
        for way in fitting[1:]:
            _blur(effects, way, f"it hangs on whether {way.asked[-1] if way.asked else 'a command'!r} succeeded")
    suspicions = [way.ran.suspicion for way in fitting if way.ran.suspicion]
    ran = Ran(
        any(way.ran.has_run_programs for way in fitting),
        suspicions[0] if suspicions else None,
        any(way.ran.is_opaque for way in fitting),
        _folder_of(fitting, context),
    )
    _hear(effects, line, context, ran, observation)
    effects.lasting = _lasting(effects, line, context, observation)
    effects.has_run_programs = effects.has_run_programs or ran.has_run_programs or bool(ran.suspicion)
    return ran


def _hear(effects: Effects, line: str, context: Context, ran: Ran, observation: Observation) -> None:
    """A program that says that it changed files did so, whatever its name."""
    if ran.is_opaque or not (ran.has_run_programs or "commit" in line):
        return
    said = rewrites.said(observation.text)
    if said is not None:
        places = [effects.files.locate(resolve(path, context)) for path in said.paths]
        is_named = bool(places) and all(place and effects.files.exists(place) for place in places)
        named = tuple(place for place in places if place) if is_named else ()
        effects.forget(f"the output says that files were changed: {said.words!r}", named)


def _ways(effects: Effects, script: Script, context: Context, observation: Observation) -> list[_Way]:
    """Every way that the line may have gone, the one where all went well first. The state is as before."""
    before = effects.snapshot()
    oracle = Oracle()
    found: list[_Way] = []
    misfit: Misfit | None = None
    try:
        while True:
            machine = Control(
                effects,
                context,
                oracle,
                _PROGRAMS,
                _CHANGING,
                observation.text,
                is_bash=context.shell_persists,
                may_be_zsh=context.harness.startswith(_ANY_SHELL),
                was_killed=observation.exit_code in _KILLED,
            )
            try:
                status = machine.script(script, Streams(None, machine.screen, machine.screen))
            except Leave as leave:
                status = leave.args[0]
            ran = Ran(machine.has_run_programs, machine.suspicion, machine.is_opaque)
            asked, missing = tuple(oracle.asked), tuple(machine.missing)
            found.append(_Way(effects.snapshot(), status, ran, asked, missing, machine.context))
            misfit = misfit or machine.misfit
            effects.go_back(before)
            if len(found) == _MOST_WAYS:
                raise Beyond("a line that may go too many ways")
            if not oracle.next_way():
                break
    except (Beyond, RecursionError):
        effects.go_back(before)
        raise
    if misfit is not None and len(found) == 1 and observation.exit_code in (None, 0):
        raise misfit
    return found


def _folder_of(ways: list[_Way], before: Context) -> Context:
    """Where the next line begins, as the ways that the line may have gone leave it."""
    if not before.shell_persists:
        return before
    after = ways[0].context
    is_sure = all(way.context.cwd == after.cwd for way in ways)
    return after if is_sure else msgspec.structs.replace(after, cwd=NOWHERE)


_BACKGROUND = re.compile(r"(?<![&>|<\\])&(?![&>\d-])")
"""A command that runs beside the rest."""
_ANY_SHELL = ("claude", "codex")
"""Harnesses that run lines in the shell of their user."""
_MOVES = frozenset(("cd", "pushd", "popd", "source", ".", "eval"))


def _folder_read(line: str, context: Context, observation: Observation) -> Context:
    """The same of a line that is not carried out."""
    if not context.shell_persists:
        return context
    moves = [command for command in commands(line) if command.words and command.words[0].text in _MOVES]
    if not moves:
        return context
    is_plain = all(move.words[0].text == "cd" and move.is_certain and not move.is_conditional for move in moves)
    after = interpret_line(line, context)[1]
    has_failed = observation.exit_code not in (None, 0) or " cd: " in observation.text
    return after if is_plain and not has_failed else msgspec.structs.replace(after, cwd=NOWHERE)


def _lasting(effects: Effects, line: str, context: Context, observation: Observation) -> frozenset[str]:
    """What the shell keeps of this line. One that ends at a failure begins anew."""
    if not context.shell_persists:
        return frozenset()
    found = lasting.after(line, effects.lasting)
    has_ended = lasting.ERREXIT in found and observation.exit_code not in (None, 0)
    return frozenset() if has_ended else found


def _blur(effects: Effects, way: _Way, reason: str) -> None:
    """What another way leaves differently is not known."""
    for path in changed_since(effects, way.state):
        here = effects.files.get(path)
        there = way.state.files.get(path, effects.files.base(path))
        has_one_mode = here is not None and there is not None and here[0] == there[0]
        effects.forget_place(path, reason, with_mode=not has_one_mode)
    outside = way.state.outside
    for path in sorted(effects.outside.keys() | outside.keys()):
        if path not in effects.outside or path not in outside or effects.outside[path] != outside[path]:
            effects.outside.pop(path, None)
    if not effects.versions.same_as(way.state.versions):
        effects.versions.lose(reason)


def _static(effects: Effects, line: str, context: Context) -> Ran:
    """A line that is not carried out: what its static reading says it may have changed is not known."""
    has_run_programs, suspicion, is_opaque = False, None, False
    reason = "a line that is not carried out"
    if _GIT.search(line):
        effects.versions.lose(f"git in {reason}")
    if not all(command.is_certain for command in commands(line)):
        effects.forget(reason, ())
    names = {command.words[0].text for command in commands(line) if command.words}
    if "trap" in names:
        effects.forget("a trap", ())
    if names & {"cd", "pushd"} and ("CDPATH" in line or ODD in effects.lasting):
        effects.forget("the folder of the shell is not known", ())
    for operation in interpret_line(line, context)[0]:
        has_run_programs = has_run_programs or isinstance(operation, Run | Validate | Install)
        if isinstance(operation, Run):
            effects.carry_out(operation)  # a script of the run's own
        if isinstance(operation, Opaque):
            is_opaque = is_opaque or not operation.is_possible
            suspicion = suspicion or (operation.reason if operation.is_possible else None)
            if not operation.is_possible:
                effects.forget(operation.reason, operation.paths)
        for path in changed_paths(operation):
            effects.forget(reason, (path,))
    if _BACKGROUND.search(line) is not None:
        effects.moving.update(effects.unknown)
    effects.outside.clear()
    effects.has_run_programs = effects.has_run_programs or has_run_programs or suspicion is not None
    return Ran(has_run_programs, suspicion, is_opaque)
