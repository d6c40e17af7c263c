"""Carries a shell line out on the state: lists and pipelines, exit codes, redirections, branches, loops.

Whether a command succeeded may not be known. Where that decides what runs next, both ways are tried, and ``run_line``
keeps those that the recorded exit code allows; where they leave different files, those files are not known. What single
programs do is in ``programs``, ``printing``, ``git`` and ``inline``; every other program is carried out as its static
reading says (``actions.programs``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeAlias

from handoff.actions import Install, Opaque, Operation, Run, Validate, changed_paths
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs import NO_EFFECT, operations_of
from handoff.actions.programs.call import Call
from handoff.actions.programs.wrappers import unwrapped
from handoff.editors.plain import Misfit, Unknowable, encoded
from handoff.shell import Word as PlainWord
from handoff.states.effects import Effects, Snapshot
from handoff.states.shell.disk import Disk, Place
from handoff.states.shell.streams import (
    Buffer,
    FileSink,
    Leave,
    Oracle,
    Refused,
    Result,
    Sink,
    Status,
    Streams,
    Unsupported,
    _Use,
    ordered,
)
from handoff.states.shell.syntax import read_line
from handoff.states.shell.tree import (
    Beyond,
    Block,
    Case,
    Chain,
    Command,
    For,
    Function,
    Heredoc,
    If,
    Literal_,
    Pipeline,
    Redirect,
    Script,
    Simple,
    While,
)
from handoff.states.shell.words import Arg, Expander
from handoff.states.versions import EVERYTHING, UNSURE

_MOST_COMMANDS = 3_000
_MOST_LOOPS = 300
_INNER = frozenset(("bash", "sh", "zsh", "dash", "ash"))
_LOCK_FILES = (
    *("package-lock.json", "package.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "Cargo.lock"),
    *("Cargo.toml", "go.mod", "go.sum", "poetry.lock", "uv.lock", "pdm.lock", "Gemfile.lock", "composer.lock"),
)
_SINKS = frozenset(("/dev/null", "/dev/tty", "/dev/stdin"))


class Machine:
    """One way of carrying one line out."""

    def __init__(
        self,
        effects: Effects,
        context: Context,
        oracle: Oracle,
        builtins: Mapping[str, Builtin],
        changing: Collection[str],
        text: str,
        *,
        is_bash: bool,
        was_killed: bool,
    ) -> None:
        self.effects = effects
        self._builtins = builtins
        self._changing = changing
        self.disk = Disk(effects)
        self.context = context
        self.text = text
        """What the line printed, as recorded."""
        self.is_bash = is_bash
        self.words = Expander(self.disk, self._substituted)
        self.words.has_braces = is_bash
        self.has_run_programs = False
        self.suspicion: str | None = None
        self.is_opaque = False
        """Whether a program said to change files, in a way that is not derived, was among those run."""
        self.temporaries = 0
        """Files and folders of which only their being outside the repository is known."""
        self.has_waited = False
        """Whether the command has read all of its input before it did anything."""
        self.missing: list[str] = []
        """Files of the repository that a command needed, and that are surely absent."""
        self.misfit: Misfit | None = None
        """A patch that must have been applied and does not fit."""
        self._oracle = oracle
        self._was_killed = was_killed
        self._functions: dict[str, Command] = {}
        self.left: list[Context] = []
        """Folders that ``pushd`` remembers."""
        self._errexit = False
        self._pipefail = False
        self._conditions = 0
        self._count = 0
        self._depth = 0

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
            is_checked = self._errexit and not self._conditions and not is_tested
            if is_checked and not self.decided(status, chain.text):
                raise Leave(False)
            self.words.status = status
        return status

    def decided(self, status: Status, about: str) -> bool:
        """The status, where it must be known: one of the ways that are tried."""
        return self._oracle.ask(about) if status is None else status

    def _background(self, chain: Chain, streams: Streams) -> Status:
        """A chain that runs beside the rest: when its files change is not known."""
        before = self.effects.snapshot()
        self._subshell((chain._replace(is_background=False),), streams._replace(stdin=b""))
        for path in changed_since(self.effects, before):
            self.effects.forget_place(path, f"{chain.text} runs in the background")
        return True

    def _pipeline(self, pipeline: Pipeline, streams: Streams) -> Status:
        if len(pipeline.commands) == 1:
            status = self._command(pipeline.commands[0], streams)
        else:
            statuses: list[Status] = []
            given = streams.stdin
            used: list[_Use] = []
            for number, command in enumerate(pipeline.commands):
                is_last = number == len(pipeline.commands) - 1
                out = streams.out if is_last else Buffer()
                inner = Streams(given, out, streams.err, is_piped=number > 0)
                outside, self.has_waited = self.disk.watch(), False
                statuses.append(self._in_subshell(partial(self._command, command, inner)))
                used.append(_Use(*self.disk.unwatch(outside), self.has_waited))
                given = out.data if isinstance(out, Buffer) else None
            self._part(used)
            status = statuses[-1]
            if self._pipefail:
                status = False if False in statuses else None if None in statuses else True
        return status if not pipeline.is_negated or status is None else not status

    def _part(self, used: list[_Use]) -> None:
        """The commands of a pipeline run at once: a file that one writes and another uses is not known."""
        for number, use in enumerate(used):
            others = [other for n, other in enumerate(used) if n > number or (n < number and not use.has_waited)]
            for place in sorted(use.written):
                if any(place in other.read | other.written for other in others):
                    self.disk.write(place, None, "written by one command of a pipeline and used by another")

    def _in_subshell(self, run: Callable[[], Status]) -> Status:
        """Run what changes neither folder nor variables out here."""
        context, values, functions = self.context, dict(self.words.values), dict(self._functions)
        modes = self._errexit, self._pipefail
        try:
            return run()
        except Leave as leave:
            if leave.args[1:] == ("killed",):
                raise
            status: Status = leave.args[0]
            return status
        finally:
            self.context, self.words.values, self._functions = context, values, functions
            self._errexit, self._pipefail = modes

    def _subshell(self, script: Script, streams: Streams) -> Status:
        return self._in_subshell(lambda: self.script(script, streams))

    def _substituted(self, script: Script) -> bytes | None:
        buffer = Buffer()
        self._subshell(script, Streams(None, buffer, Sink()))
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
                self._functions[name] = body
                return True
        try:
            opened = self._opened(command.redirects, streams, command_name="a block")
        except _NotOpened:
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

    # -- redirections ---------------------------------------------------------------------------

    def _opened(self, redirects: tuple[Redirect, ...], streams: Streams, command_name: str) -> Streams:
        """The streams after redirections, in order. ``_NotOpened`` when one fails, and the command does not run."""
        source: Arg | None = None
        for redirect in redirects:
            operator, target = redirect.operator, redirect.target
            if isinstance(target, Heredoc):
                given = self.words.single(target.word)
                if redirect.fd not in (None, 0):
                    raise Beyond("a heredoc for another descriptor")
                streams = streams._replace(stdin=encoded(given.text) if given.is_known else None)
                source = None
                continue
            arg = self.words.single(target) if operator == "<<<" else self._target(target)
            if operator == "<<<":
                streams = streams._replace(stdin=encoded(arg.text + "\n") if arg.is_known else None)
                source = None
            elif operator == "<":
                if redirect.fd not in (None, 0):
                    raise Beyond("another descriptor")
                is_doubtful = self._read(arg) is None and self.disk.kind(self.place(arg.text)) == "unknown"
                if is_doubtful and not self.decided(None, f"reading {arg.text}"):
                    raise _NotOpened
                source = arg
            elif operator in (">&", "<&") and re.fullmatch(r"\d|-", arg.text):
                streams = self._copied(redirect.fd, operator, arg.text, streams)
            elif operator in (">", ">>", ">|", "&>", "&>>", ">&"):
                sink = self._file_sink(arg, operator in (">>", "&>>"), f"output of {command_name}")
                if operator in ("&>", "&>>", ">&"):
                    streams = streams._replace(out=sink, err=sink)
                elif redirect.fd in (None, 1):
                    streams = streams._replace(out=sink)
                elif redirect.fd == 2:
                    streams = streams._replace(err=sink)
                else:
                    raise Beyond("another descriptor")
            else:
                raise Beyond(f"the redirection {operator}")
        # A file is read when the program runs: an output to the same file has emptied it by then.
        return streams if source is None else streams._replace(stdin=self._read(source), source=self.place(source.text))

    def _target(self, word: object) -> Arg:
        args = self.words.args((word,), self.context)  # type: ignore[arg-type]
        if len(args) != 1:
            raise Beyond("a redirection to several files")
        return args[0]

    def _copied(self, fd: int | None, operator: str, text: str, streams: Streams) -> Streams:
        if operator == "<&" or text not in ("1", "2", "-"):
            raise Beyond("another descriptor")
        sink = Sink() if text == "-" else streams.out if text == "1" else streams.err
        if fd in (None, 1):
            return streams._replace(out=sink)
        if fd == 2:
            return streams._replace(err=sink)
        raise Beyond("another descriptor")

    def _read(self, arg: Arg) -> bytes | None:
        if not arg.is_known:
            return None
        if arg.text == "/dev/null":
            return b""
        place = self.place(arg.text)
        data = self.disk.read(place)
        if self.disk.kind(place) == "folder":
            return None
        if data is None:
            raise _NotOpened
        return None if data is UNSURE else data

    def _file_sink(self, arg: Arg, appends: bool, reason: str) -> Sink:
        if arg.text in _SINKS:
            return Sink()
        if arg.text.startswith("/dev/"):
            return Sink()
        place = self.place(arg.text)
        if not arg.is_known:
            if not is_outside(resolve(arg.text, self.context)) or arg.text.startswith("$"):
                self.effects.forget(f"{reason} to an unknown file", ())
            return Sink()
        if appends:
            old = self.disk.read(place)
            if self.disk.kind(place) == "folder":
                raise _NotOpened
            data = None if old is UNSURE else old or b""
        else:
            data = b""
        if self.disk.write(place, data, reason) is False:
            raise _NotOpened
        return FileSink(self.disk, place, reason)

    # -- simple commands ------------------------------------------------------------------------

    def _simple(self, command: Simple, streams: Streams) -> Status:
        self.words.is_order_sure = True
        args = self.words.args(command.words, self.context)
        if not args:
            return self._assign(command, streams)
        name = args[0].text if args[0].is_known else ""
        try:
            opened = self._opened(command.redirects, streams, name or "a program")
        except _NotOpened:
            return False
        if name in self._functions and args[0].is_known:
            return self._call(self._functions[name], args, opened)
        for variable, _ in command.assignments:
            if variable in ("PATH", "LC_ALL", "LANG", "LC_COLLATE", "IFS") and name not in ("git", "python", "python3"):
                return self._finish(self._static(args, opened.stdin), opened, name)
        return self.program(args, opened)

    def _assign(self, command: Simple, streams: Streams) -> Status:
        try:
            self._opened(command.redirects, streams, "nothing")
        except _NotOpened:
            return False
        for name, word in command.assignments:
            arg = self.words.single(word)
            self.words.values[name] = arg.text if arg.is_known else None
        return (
            None
            if any(not word.parts or word.text.startswith(("$(", "`")) for _, word in command.assignments)
            else True
        )

    def _call(self, body: Command, args: list[Arg], streams: Streams) -> Status:
        if len(args) > 1 or self._depth > 10:
            raise Beyond("a function with arguments")
        self._depth += 1
        status = self._command(body, streams)
        self._depth -= 1
        return status

    def program(self, args: list[Arg], streams: Streams) -> Status:
        """One program with its words, wrappers taken off."""
        plain = tuple(PlainWord(arg.text, arg.is_known) for arg in args)
        inner = unwrapped(plain)
        if inner is not plain:
            args = args[len(args) - len(inner) :] if plain[-len(inner) :] == inner else _as_args(inner)
            if plain[0].text in ("env", "sudo") and any(not arg.is_known for arg in args[:1]):
                return self._finish(self._static(args, streams.stdin), streams, "env")
        name = args[0].text.rsplit("/", 1)[-1] if args[0].text.startswith(("/bin/", "/usr/bin/")) else args[0].text
        if name in _INNER or name == "eval":
            line = self._inner_line(name, args, streams.stdin)
            if line is not None:
                return self._inner(line, streams, name)
            if any(arg.text == "-c" for arg in args) or (streams.is_piped and len(args) < 3):
                self.is_opaque = self.has_run_programs = self.effects.has_run_programs = True
                self.effects.forget_place(EVERYTHING, f"{name} ran what the line does not tell")
                return self._finish(Result(None, None, False), streams, name)
        builtin = self._builtins.get(name)
        if builtin is not None and args[0].is_known:
            try:
                return self._finish(builtin(self, args, streams), streams, name)
            except Refused:
                return self._finish(Result(False, b""), streams, name)
            except Unsupported:
                if name in self._changing:
                    return self._finish(self._forgotten(name, args), streams, name)
        return self._finish(self._static(args, streams.stdin), streams, name)

    def _finish(self, result: Result, streams: Streams, name: str) -> Status:
        streams.out.write(result.out)
        if result.status is not True or not result.is_quiet:
            streams.err.write(None)
        return result.status

    def _inner_line(self, name: str, args: list[Arg], stdin: bytes | None) -> str | None:
        """The line that ``bash -c`` or ``eval`` runs."""
        if name == "eval":
            return " ".join(arg.text for arg in args[1:]) if all(arg.is_known for arg in args) else None
        for place, arg in enumerate(args[1:], 1):
            if arg.text.startswith("-") and not arg.text.startswith("--") and "c" in arg.text:
                following = args[place + 1 : place + 2]
                is_simple = bool(following) and following[0].is_known and len(args) == place + 2
                return following[0].text if is_simple else None
            if not arg.text.startswith(("-", "+")) or arg.text == "-":
                return None
        if len(args) == 2 and args[1].is_known:
            script = self.place(args[1].text)
            is_own = script.path in (self.effects.files.differing if script.is_inside else self.effects.outside)
            data = self.disk.read(script) if is_own else None
            return data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else None
        return stdin.decode("utf-8", "surrogateescape") if stdin and len(args) == 1 else None

    def _inner(self, line: str, streams: Streams, name: str) -> Status:
        self._depth += 1
        if self._depth > 8:
            raise Beyond("lines within lines")
        script = read_line(line)
        if name == "eval":
            status = self.script(script, streams)
        else:
            before = self.is_bash
            self.is_bash = self.words.has_braces = name == "bash"
            status = self._subshell(script, streams)
            self.is_bash = self.words.has_braces = before
        self._depth -= 1
        return status

    # -- for programs ---------------------------------------------------------------------------

    def place(self, text: str, *, follows: bool = True) -> Place:
        """Where a path as typed leads."""
        return self.disk.locate(text, self.context, follows=follows)

    def _static(self, args: list[Arg], stdin: bytes | None) -> Result:
        """What the program's static reading says. Whether it succeeded, and what it printed, is not known."""
        words = tuple(PlainWord(arg.text, arg.is_known) for arg in args)
        if words[0].text in NO_EFFECT:
            return Result(None, None, False)
        if self._was_killed and not self._oracle.ask(f"{words[0].text} before the line was stopped"):
            raise Leave(None, "killed")
        text = stdin.decode("utf-8", "surrogateescape") if stdin is not None else None
        operations = operations_of(Call(words, text, self.context, is_alone=False))
        for operation in operations:
            changed = changed_paths(operation)
            if changed and words[0].text in self._builtins and not isinstance(operation, Opaque):
                for path in changed:
                    is_named = all(word.is_literal for word in words)
                    self.effects.forget(f"{words[0].text} that is not carried out", (path,) if is_named else ())
            else:
                self.carry_out(operation)
        return Result(None, None, False)

    def _forgotten(self, name: str, args: list[Arg]) -> Result:
        """A program that changes the files it is given, in a way that is not carried out."""
        reason = f"{name} that is not carried out"
        for arg in args[-1:] if name == "cp" else args[1:]:
            place = self.place(arg.text.partition("=")[2] if name == "dd" else arg.text, follows=False)
            if not place.is_inside:
                self.effects.outside.pop(place.path, None)
                if not arg.is_known and not place.is_certain:
                    self.effects.forget_place(EVERYTHING, reason)
            elif not arg.is_known:
                self.effects.forget_place(EVERYTHING, reason)
            elif not arg.text.startswith("-"):
                target = self.place(arg.text)
                for each in (place, target) if target.is_inside else (place,):
                    self.effects.forget_place(each.path, reason, with_mode=True)
        return Result(None, None, False)

    def carry_out(self, operation: Operation) -> None:
        """One operation of a static reading."""
        if isinstance(operation, Run | Validate | Install):
            self.has_run_programs = True
            self.effects.has_run_programs = True
        if isinstance(operation, Install):
            self._lock_files()
        if isinstance(operation, Opaque):
            self.is_opaque = self.is_opaque or not operation.is_possible
            self.effects.has_run_programs = True
            if operation.is_possible:
                self.suspicion = self.suspicion or operation.reason
                if operation.paths:
                    self.effects.forget(operation.reason, operation.paths)
        try:
            self.effects.carry_out(operation)
        except (Misfit, Unknowable) as problem:  # it failed, or acted on a file that the state does not hold
            for path in changed_paths(operation):
                self.effects.forget(str(problem.args[0]), (path,))

    def _lock_files(self) -> None:
        """An installation may write the files in which versions are pinned, where there are any."""
        folder = self.context.cwd
        while not is_outside(folder):
            for name in _LOCK_FILES:
                path = f"{folder}/{name}" if folder else name
                if self.disk.files.exists(path):
                    self.effects.forget_place(path, "an installation may have written it")
            if not folder:
                break
            folder = folder.rpartition("/")[0]

    def lacks(self, place: Place) -> bool:
        """Note that a command fails for want of a file; always false."""
        if place.is_inside:
            self.missing.append(place.path)
        return False

    def set_mode(self, name: str, is_on: bool) -> None:
        """``set -e``, ``set -o pipefail``."""
        if name == "e":
            self._errexit = is_on
        else:
            self._pipefail = is_on


class _NotOpened(Exception):
    """A redirection fails: the command does not run."""


def _as_args(words: tuple[PlainWord, ...]) -> list[Arg]:
    return [Arg(word.text, word.is_literal) for word in words]


Builtin: TypeAlias = Callable[[Machine, list[Arg], Streams], Result]
"""A program carried out exactly. It raises ``Unsupported`` before it changes anything."""


def changed_since(effects: Effects, snapshot: Snapshot) -> list[str]:
    """Files of the repository that differ from a snapshot, sorted; folders of which nothing is known, too."""
    old, now, base = snapshot.files, effects.files.differing, effects.files.base
    found = {
        path
        for path in now.keys() | old.keys()
        if (now[path] if path in now else base(path)) != (old[path] if path in old else base(path))
    }
    return sorted(found | (effects.unknown.keys() ^ snapshot.unknown.keys()))
