"""Programs of a shell line: wrappers taken off, those that are carried out exactly, and all others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from handoff.actions import Install, Opaque, Operation, Run, Validate, changed_paths
from handoff.actions.paths import Context, is_outside
from handoff.actions.programs import NO_EFFECT, operations_of
from handoff.actions.programs.call import Call
from handoff.actions.programs.wrappers import unwrapped
from handoff.editors.plain import Misfit, Unknowable
from handoff.shell import Word as PlainWord
from handoff.states.effects import Effects
from handoff.states.shell.disk import Place
from handoff.states.shell.redirecting import Redirecting
from handoff.states.shell.streams import (
    Leave,
    Oracle,
    Refused,
    Result,
    Status,
    Streams,
    Unsupported,
)
from handoff.states.shell.syntax import read_line
from handoff.states.shell.tree import (
    Beyond,
    Command,
    Script,
)
from handoff.states.shell.words import Arg
from handoff.states.versions import EVERYTHING

_INNER = frozenset(("bash", "sh", "zsh", "dash", "ash"))
_LOCK_FILES = (
    *("package-lock.json", "package.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "Cargo.lock"),
    *("Cargo.toml", "go.mod", "go.sum", "poetry.lock", "uv.lock", "pdm.lock", "Gemfile.lock", "composer.lock"),
)


class Machine(Redirecting):
    """What programs see of the machine that runs them; lists and loops are in ``control``."""

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
        super().__init__(effects, context, oracle)
        self._builtins = builtins
        self._changing = changing
        self.text = text
        """What the line printed, as recorded."""
        self.is_bash = is_bash
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
        self.was_killed = was_killed
        self.functions: dict[str, Command] = {}
        self.left: list[Context] = []
        """Folders that ``pushd`` remembers."""
        self.errexit = False
        self.pipefail = False
        self.depth = 0

    def script(self, script: Script, streams: Streams) -> Status:
        """Chains in order; the status of the last."""
        raise NotImplementedError

    def subshell(self, script: Script, streams: Streams) -> Status:
        """The same, where neither folder nor variables change out here."""
        raise NotImplementedError

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
        self.depth += 1
        if self.depth > 8:
            raise Beyond("lines within lines")
        script = read_line(line)
        if name == "eval":
            status = self.script(script, streams)
        else:
            before = self.is_bash
            self.is_bash = self.words.has_braces = name == "bash"
            status = self.subshell(script, streams)
            self.is_bash = self.words.has_braces = before
        self.depth -= 1
        return status

    def _static(self, args: list[Arg], stdin: bytes | None) -> Result:
        """What the program's static reading says. Whether it succeeded, and what it printed, is not known."""
        words = tuple(PlainWord(arg.text, arg.is_known) for arg in args)
        if words[0].text in NO_EFFECT:
            return Result(None, None, False)
        if self.was_killed and not self.oracle.ask(f"{words[0].text} before the line was stopped"):
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
            self.errexit = is_on
        else:
            self.pipefail = is_on


def _as_args(words: tuple[PlainWord, ...]) -> list[Arg]:
    return [Arg(word.text, word.is_literal) for word in words]


Builtin: TypeAlias = Callable[[Machine, list[Arg], Streams], Result]
"""A program carried out exactly. It raises ``Unsupported`` before it changes anything."""
