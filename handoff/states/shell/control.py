"""Carries a shell line out on the state: lists and pipelines, exit codes, redirections, branches, loops.

Whether a command succeeded may not be known. Where that decides what runs next, both ways are tried, and ``run_line``
keeps those that the recorded exit code allows; where they leave different files, those files are not known. What single
programs do is in ``programs``, ``printing``, ``git`` and ``inline``; every other program is carried out as its static
reading says (``actions.programs``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import msgspec

from handoff.actions.paths import NOWHERE
from handoff.states.effects import Effects, Snapshot
from handoff.states.shell.lasting import ODD, ODD_GIT, is_strange
from handoff.states.shell.machine import Machine
from handoff.states.shell.redirecting import NotOpened
from handoff.states.shell.streams import (
    Buffer,
    Leave,
    Result,
    Status,
    Streams,
    Use,
    ordered,
)
from handoff.states.shell.tree import (
    Beyond,
    Block,
    Case,
    Chain,
    Command,
    For,
    Function,
    If,
    Literal_,
    Pipeline,
    Script,
    Simple,
    While,
)
from handoff.states.shell.words import Arg
from handoff.states.versions import EVERYTHING

_MOST_COMMANDS = 3_000
_MOST_LOOPS = 300


class Control(Machine):
    """One way of carrying one line out."""

    _conditions = 0
    """Conditions that the command is part of: there a failure does not end the line."""
    _count = 0

    # -- lists ----------------------------------------------------------------------------------

    def script(self, script: Script, streams: Streams) -> Status:
        """Chains in order; the status of the last."""
        status: Status = True
        for chain in script:
            status = self._background(chain, streams) if chain.is_background else self._chain(chain, streams)
            self.words.status = status
        return status

    def _chain(self, chain: Chain, streams: Streams) -> Status:
        status: Status = True
        last = len(chain.items) - 1
        for number, (connector, pipeline) in enumerate(chain.items):
            if connector and self.decided(status, chain.text) != (connector == "&&"):
                status = connector != "&&"
                continue
            is_tested = number < last or pipeline.is_negated
            self._conditions += is_tested
            status = self._pipeline(pipeline, streams)
            self._conditions -= is_tested
            is_checked = self.errexit and not self._conditions and not is_tested
            if is_checked and not self.decided(status, chain.text):
                raise Leave(False)
            self.words.status = status
        return status

    def _background(self, chain: Chain, streams: Streams) -> Status:
        """A chain that runs beside the rest: when its files change is not known."""
        before = self.effects.snapshot()
        self._subshell((chain._replace(is_background=False),), streams._replace(stdin=b""))
        reason = f"{chain.text} runs in the background"
        for path in changed_since(self.effects, before):
            self.effects.forget_place(path, reason)
            self.effects.moving.setdefault(path, reason)
        return True

    def _pipeline(self, pipeline: Pipeline, streams: Streams) -> Status:
        if len(pipeline.commands) == 1:
            status = self._command(pipeline.commands[0], streams)
        else:
            statuses: list[Status] = []
            given = streams.stdin
            used: list[Use] = []
            for number, command in enumerate(pipeline.commands):
                is_last = number == len(pipeline.commands) - 1
                out = streams.out if is_last else Buffer()
                inner = Streams(given, out, streams.err, is_piped=number > 0)
                outside, self.has_waited = self.disk.watch(), False
                statuses.append(self._in_subshell(partial(self._command, command, inner)))
                used.append(Use(*self.disk.unwatch(outside), self.has_waited))
                given = out.data if isinstance(out, Buffer) else None
            self._part(used)
            status = statuses[-1]
            if self.pipefail:
                status = False if False in statuses else None if None in statuses else True
        return status if not pipeline.is_negated or status is None else not status

    def _part(self, used: list[Use]) -> None:
        """The commands of a pipeline run at once: a file that one writes and another uses is not known."""
        for number, use in enumerate(used):
            others = [other for n, other in enumerate(used) if n > number or (n < number and not use.has_waited)]
            for place in sorted(use.written):
                if any(place in other.read | other.written for other in others):
                    self.disk.write(place, None, "written by one command of a pipeline and used by another")

    def _in_subshell(self, run: Callable[[], Status]) -> Status:
        """Run what changes neither folder nor variables out here."""
        context, values, functions = self.context, dict(self.words.values), dict(self.functions)
        modes = self.errexit, self.pipefail, self.nounset, self.has_odd_git
        left, previous = list(self.left), self.previous
        try:
            return run()
        except Leave as leave:
            if leave.args[1:] == ("killed",):
                raise
            status: Status = leave.args[0]
            return status
        finally:
            self.context, self.words.values, self.functions = context, values, functions
            self.errexit, self.pipefail, self.nounset, self.has_odd_git = modes
            self.left, self.previous = left, previous

    def _subshell(self, script: Script, streams: Streams) -> Status:
        return self._in_subshell(lambda: self.script(script, streams))

    def fresh_shell(self, script: Script, streams: Streams, modes: str, *, is_bash: bool) -> Status:
        """Chains in another shell, which knows nothing of this one's variables, functions and modes."""

        def run() -> Status:
            self.words.values, self.functions = {}, {}
            self.errexit, self.pipefail, self.nounset = "e" in modes, False, "u" in modes
            return self.script(script, streams)

        outer, zsh = (self.is_bash, self._conditions), self.words.may_be_zsh
        self.is_bash = self.words.has_braces = is_bash
        self.words.may_be_zsh = False
        self._conditions = 0
        try:
            return self._in_subshell(run)
        finally:
            self.is_bash, self._conditions = outer
            self.words.has_braces, self.words.may_be_zsh = self.is_bash, zsh

    def substituted(self, script: Script) -> bytes | None:
        """What a script prints; ``None``: not known."""
        buffer = Buffer()

        def run() -> Status:
            if self.errexit and not self.is_bash:
                raise Beyond("set -e in a shell that may keep it in substitutions")
            self.errexit = False
            return self.script(script, Streams(None, buffer, self.screen))

        self._in_subshell(run)
        if buffer.data is not None and ordered(buffer.data) is None:
            self.words.is_order_sure = False
        return buffer.data

    # -- commands -------------------------------------------------------------------------------

    def _command(self, command: Command, streams: Streams) -> Status:
        self._count += 1
        if self._count > _MOST_COMMANDS:
            raise Beyond("too many commands")
        match command:
            case Simple():
                return self._simple(command, streams)
            case Function(name=name, body=body):
                self.functions[name] = body
                return True
        try:
            opened = self.opened(command.redirects, streams, command_name="a block")
        except NotOpened:
            return False
        match command:
            case Block(script=script, is_subshell=True):
                return self._subshell(script, opened)
            case Block(script=script):
                return self.script(script, opened)
            case If(branches=branches):
                return self._if(branches, opened)
            case For():
                return self._for(command, opened)
            case While():
                return self._while(command, opened)
            case Case():
                return self._case(command, opened)
        raise Beyond("an unknown command")

    def _if(self, branches: tuple[tuple[Script, Script], ...], streams: Streams) -> Status:
        for condition, body in branches:
            if not condition or self._tested(condition, streams):
                return self.script(body, streams)
        return True

    def _tested(self, condition: Script, streams: Streams) -> bool:
        self._conditions += 1
        status = self.script(condition, streams)
        self._conditions -= 1
        return self.decided(status, condition[-1].text)

    def _for(self, loop: For, streams: Streams) -> Status:
        args = self.words.args(loop.words, self.context)
        if len(args) > _MOST_LOOPS or any(not arg.is_known for arg in args):
            raise Beyond("a loop over words that are not known")
        status: Status = True
        for arg in args:
            self.words.values[loop.name] = arg.text
            status = self.script(loop.body, streams)
        return status

    def _while(self, loop: While, streams: Streams) -> Status:
        for _ in range(_MOST_LOOPS):
            self._conditions += 1
            status = self.script(loop.condition, streams)
            self._conditions -= 1
            if status is None:
                break
            if status == loop.is_until:
                return True
            self.script(loop.body, streams)
        raise Beyond("a loop whose end is not known")

    def _case(self, command: Case, streams: Streams) -> Status:
        subject = self.words.single(command.word)
        if not subject.is_known:
            raise Beyond("a case whose word is not known")
        for patterns, script in command.items:
            for pattern in patterns:
                literal = "".join(part.text for part in pattern.parts if isinstance(part, Literal_))
                is_plain = all(isinstance(part, Literal_) for part in pattern.parts)
                if literal == "*" and is_plain:
                    return self.script(script, streams)
                if not is_plain or re.search(r"[*?\[\\]", literal):
                    raise Beyond("a case with patterns")
                if literal == subject.text:
                    return self.script(script, streams)
        return True

    # -- simple commands ------------------------------------------------------------------------

    def _simple(self, command: Simple, streams: Streams) -> Status:
        self.words.is_order_sure = True
        self.words.is_unset_used = False
        args = self.words.args(command.words, self.context)
        if not args:
            return self._assign(command, streams)
        name = args[0].text if args[0].is_known else ""
        self._need_set()
        try:
            opened = self.opened(command.redirects, streams, name or "a program")
        except NotOpened:
            return False
        self._need_set()
        if name in self.effects.lasting:
            self.effects.forget_place(EVERYTHING, f"{name} is a function or an alias of an earlier line")
            return self.finish(Result(None, None, False), opened)
        if name in self.functions and args[0].is_known:
            return self._call(self.functions[name], args, opened)
        modes = {is_strange(variable) for variable, _ in command.assignments}
        for variable, _ in command.assignments:
            is_python = name in ("git", "python", "python3")
            if ODD in modes and name in ("cd", "pushd"):
                self.context = msgspec.structs.replace(self.context, cwd=NOWHERE)
            if ODD in modes or (variable in ("PATH", "LC_ALL", "LANG", "LC_COLLATE") and not is_python):
                return self.finish(self.static(args, opened.stdin), opened)
        outer, self.has_odd_git = self.has_odd_git, self.has_odd_git or ODD_GIT in modes
        try:
            return self.program(args, opened)
        finally:
            self.has_odd_git = outer or (self.has_odd_git and ODD_GIT not in modes)

    def _need_set(self) -> None:
        """Under ``set -u`` a variable that is not set ends the line."""
        if self.nounset and self.words.is_unset_used and not self.decided(None, "a variable"):
            raise Leave(False)

    def _assign(self, command: Simple, streams: Streams) -> Status:
        self.words.is_unset_used = False
        try:
            self.opened(command.redirects, streams, "nothing")
        except NotOpened:
            return False
        for name, word in command.assignments:
            arg = self.words.single(word)
            self.assign(name, arg.text if arg.is_known else None)
        self._need_set()
        return (
            None
            if any(not word.parts or word.text.startswith(("$(", "`")) for _, word in command.assignments)
            else True
        )

    def _call(self, body: Command, args: list[Arg], streams: Streams) -> Status:
        if len(args) > 1 or self.depth > 10:
            raise Beyond("a function with arguments")
        self.depth += 1
        self.locals.append({})
        status = self._command(body, streams)
        for name, value in self.locals.pop().items():
            self.words.values[name] = value
        self.depth -= 1
        return status


def changed_since(effects: Effects, snapshot: Snapshot) -> list[str]:
    """Files of the repository that differ from a snapshot, sorted; folders of which nothing is known, too."""
    old, now, base = snapshot.files, effects.files.differing, effects.files.base
    found = {
        path
        for path in now.keys() | old.keys()
        if (now[path] if path in now else base(path)) != (old[path] if path in old else base(path))
    }
    return sorted(found | (effects.unknown.keys() ^ snapshot.unknown.keys()))
