"""Programs of a shell line: wrappers taken off, those that are carried out exactly, and all others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from handoff.actions import ApplyPatch, Install, Opaque, Operation, Run, Validate, changed_paths
from handoff.actions.paths import Context, is_outside
from handoff.actions.programs import NO_EFFECT, operations_of
from handoff.actions.programs.call import Call
from handoff.actions.programs.wrappers import unwrapped
from handoff.editors.plain import Misfit, Unknowable
from handoff.git.objects import EXECUTABLE
from handoff.shell import Word as PlainWord
from handoff.states.effects import Effects
from handoff.states.shell.disk import Place
from handoff.states.shell.lasting import ERREXIT, NOUNSET, ODD, ODD_GIT, PIPEFAIL, is_strange
from handoff.states.shell.redirecting import Redirecting
from handoff.states.shell.streams import (
    Leave,
    Oracle,
    Refused,
    Result,
    Sink,
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
        may_be_zsh: bool,
        was_killed: bool,
    ) -> None:
        super().__init__(effects, context, oracle)
        self._builtins = builtins
        self._changing = changing
        self.text = text
        """What the line printed, as recorded."""
        self.is_bash = is_bash
        self.words.has_braces = is_bash
        self.words.may_be_zsh = may_be_zsh
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
        self.previous: Context | None = None
        """The folder that ``cd -`` goes back to."""
        self.screen = Sink()
        """Where what nobody redirects goes: the recording shows it."""
        self.errexit = ERREXIT in effects.lasting
        self.pipefail = PIPEFAIL in effects.lasting
        self.nounset = NOUNSET in effects.lasting
        self.has_odd_git = ODD_GIT in effects.lasting
        """Whether variables point git elsewhere."""
        self.locals: list[dict[str, str | None]] = []
        """For each function that runs: what its own variables hide."""
        self.depth = 0

    def script(self, script: Script, streams: Streams) -> Status:
        """Chains in order; the status of the last."""
        raise NotImplementedError

    def fresh_shell(self, script: Script, streams: Streams, modes: str, *, is_bash: bool) -> Status:
        """The same in another shell, which knows nothing of this one's variables, functions and modes."""
        raise NotImplementedError

    def program(self, args: list[Arg], streams: Streams) -> Status:
        """One program with its words, wrappers taken off."""
        plain = tuple(PlainWord(arg.text, arg.is_known) for arg in args)
        inner = unwrapped(plain)
        wrapper = plain[0].text if inner is not plain else ""
        if inner is not plain:
            args = args[len(args) - len(inner) :] if plain[-len(inner) :] == inner else _as_args(inner)
            if _goes_elsewhere(plain[: len(plain) - len(inner)]):
                self.effects.forget_place(EVERYTHING, f"{plain[0].text} runs a program in another folder or shell")
                return self.finish(Result(None, None, False), streams)
            if plain[0].text in ("env", "sudo") and any(not arg.is_known for arg in args[:1]):
                return self.finish(self.static(args, streams.stdin), streams)
            if not self._is_there(wrapper):
                return self.finish(Result(False, b"", False), streams)
            self.effects.has_run_programs = self.effects.has_run_programs or wrapper == "flock"  # it makes its file
        status = self._named(args, streams)
        if wrapper == "exec":
            raise Leave(status)
        return status

    def _is_there(self, name: str) -> bool:
        """Whether the machine of the recording has a program: a shell says so where it is missing."""
        shown = rf"(?:^|[\s:'\"]){re.escape(name)}['\"]?: (?:command )?not found|command not found: {re.escape(name)}\b"
        if re.search(shown, self.text) is not None or (name == "sudo" and _NO_SUDO.search(self.text)):
            return self.decided(None, f"running {name}")
        return True

    def _named(self, args: list[Arg], streams: Streams) -> Status:
        """A program by its name."""
        name = args[0].text.rsplit("/", 1)[-1] if args[0].text.startswith(("/bin/", "/usr/bin/")) else args[0].text
        if name in _INNER or name == "eval":
            inner = self._inner_line(name, args, streams.stdin)
            if inner is not None:
                return self._inner(*inner, streams, name)
            if (
                _INNER_UNTOLD.search(" ".join(arg.text for arg in args[1:]))
                or name == "eval"
                or streams.written
                or (streams.is_piped and len(args) < 3)
            ):
                self.is_opaque = self.has_run_programs = self.effects.has_run_programs = True
                self.effects.forget_place(EVERYTHING, f"{name} ran what the line does not tell")
                return self.finish(Result(None, None, False), streams)
        text = self.script_text(args[0]) if "/" in name else None
        if text is not None:
            return self._script(text, args, streams)
        builtin = self._builtins.get(name)
        if builtin is not None and args[0].is_known and self._is_there(name):
            try:
                return self.finish(builtin(self, args, streams), streams)
            except Refused:
                return self.finish(Result(False, b""), streams)
            except Unsupported:
                if name in self._changing:
                    return self.finish(self._forgotten(name, args), streams)
        return self.finish(self.static(args, streams.stdin), streams)

    def assign(self, name: str, value: str | None) -> None:
        """Give a variable its value; ``None``: not known."""
        mode = is_strange(name)
        if mode == ODD:
            raise Beyond(f"{name} is set")
        self.has_odd_git = self.has_odd_git or mode == ODD_GIT
        self.words.values[name] = value if name not in ("PATH", "LC_ALL", "LANG") else None

    def finish(self, result: Result, streams: Streams) -> Status:
        """What a program printed goes on; its status."""
        streams.out.write(result.out)
        if result.status is not True or not result.is_quiet:
            streams.err.write(None)
        return result.status

    def _inner_line(self, name: str, args: list[Arg], stdin: bytes | None) -> tuple[str, str] | None:
        """The line that another shell or ``eval`` runs, and the modes it is given."""
        if name == "eval":
            return (" ".join(arg.text for arg in args[1:]), "") if all(arg.is_known for arg in args) else None
        modes = ""
        rest = args[1:]
        while rest and rest[0].text.startswith("-") and rest[0].text != "-":
            letters = rest[0].text[1:]
            if not rest[0].is_known or letters.startswith("-") or set(letters) - set("lceuxsi"):
                if letters not in ("-norc", "-noprofile", "-login"):
                    return None
                letters = ""
            modes += letters
            rest = rest[1:]
            if "c" in letters:
                is_simple = len(rest) == 1 and rest[0].is_known
                return (rest[0].text, modes) if is_simple else None
        if not rest or (len(rest) == 1 and rest[0].text == "-"):
            return (stdin.decode("utf-8", "surrogateescape"), modes) if stdin else None
        text = self.script_text(rest[0]) if len(rest) == 1 and "s" not in modes else None
        return (text, modes) if text is not None else None

    def script_text(self, arg: Arg) -> str | None:
        """The text of a script that the run itself wrote; ``None``: it did not, or it is not known."""
        if not arg.is_known:
            return None
        script = self.place(arg.text)
        is_own = script.path in (self.effects.files.differing if script.is_inside else self.effects.outside)
        data = self.disk.read(script) if is_own else None
        return data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else None

    def _script(self, text: str, args: list[Arg], streams: Streams) -> Status:
        """A script that the run wrote, called by its path."""
        place = self.place(args[0].text)
        state = self.disk.state(place.path) if place.is_inside else None
        if isinstance(state, tuple) and state[0] != EXECUTABLE:
            return self.finish(Result(False, b"", False), streams)
        kind = _SHEBANG.match(text)
        language = "bash" if kind is None and not text.startswith("#!") else kind[1] if kind is not None else ""
        if language.startswith("python"):
            return self._named([Arg(language), *args], streams)
        if language and len(args) == 1:
            return self._inner(text, "", streams, language)
        return self.finish(self.static(args, streams.stdin), streams)

    def carry_out_here(self, text: str, streams: Streams) -> Result:
        """Carry a script out in this shell."""
        self.depth += 1
        if self.depth > 8:
            raise Beyond("lines within lines")
        status = self.script(read_line(text), streams)
        self.depth -= 1
        return Result(status, b"", status is True)

    def _inner(self, line: str, modes: str, streams: Streams, name: str) -> Status:
        self.depth += 1
        if self.depth > 8:
            raise Beyond("lines within lines")
        script = read_line(line)
        if name == "eval":
            status = self.script(script, streams)
        else:
            status = self.fresh_shell(script, streams, modes, is_bash=name == "bash")
        self.depth -= 1
        return status

    def static(self, args: list[Arg], stdin: bytes | None) -> Result:
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
        if name in ("cp", "mv", "ln") and any(_ELSEWHERE.match(arg.text) for arg in args[1:]):
            self.effects.forget_place(EVERYTHING, reason)
        if name == "cp" and any(_LINKING.match(arg.text) for arg in args[1:]):  # several names of one file
            for arg in args[1:]:
                place = self.place(arg.text, follows=False)
                self.effects.moving.setdefault(place.path if place.is_inside and arg.is_known else EVERYTHING, reason)
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
                if isinstance(operation, ApplyPatch) and operation.program == "patch":
                    self.effects.forget("patch keeps what did not fit", (f"{path}.orig", f"{path}.rej"))

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
        """``set -e``, ``set -u``, ``set -o pipefail``."""
        match name:
            case "errexit":
                self.errexit = is_on
            case "nounset":
                self.nounset = is_on
            case "pipefail":
                self.pipefail = is_on


_NO_SUDO = re.compile(r"sudo: (?:a (?:terminal|password) is required|no tty)|is not in the sudoers file")
_SHEBANG = re.compile(r"#!\s*\S*?(?:/|env )(bash|sh|dash|python3?)\b")
_LINKING = re.compile(r"-[A-Za-z]*[ls]|--(?:link|symbolic-link)")
_ELSEWHERE = re.compile(r"-[A-Za-z]*[btS]|--(?:target-directory|backup|suffix|parents)")
"""Options of ``cp`` and its kin that write files beside the target."""
_INNER_UNTOLD = re.compile(r"(?:^| )-\w*c\b|(?:^| )-\w*s\b")


def _goes_elsewhere(wrapper: tuple[PlainWord, ...]) -> bool:
    """Whether what wraps a program makes it run in another folder, or splits its words anew."""
    return wrapper[0].text in ("env", "sudo") and any(
        re.match(r"-[CSDis]|--(?:chdir|split-string|login|shell)", word.text) for word in wrapper[1:]
    )


def _as_args(words: tuple[PlainWord, ...]) -> list[Arg]:
    return [Arg(word.text, word.is_literal) for word in words]


Builtin: TypeAlias = Callable[[Machine, list[Arg], Streams], Result]
"""A program carried out exactly. It raises ``Unsupported`` before it changes anything."""
