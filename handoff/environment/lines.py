"""What one shell line does to the world outside the repository, and what its output shows of it.

Nothing is executed or expanded but variables that the run itself set to plain words.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

import msgspec

from handoff.actions.paths import Context, is_outside, resolve, with_folder
from handoff.actions.programs.call import listed
from handoff.actions.programs.wrappers import unwrapped
from handoff.environment import outputs, packages
from handoff.environment.certainty import Course, complains, courses, unknown
from handoff.environment.ledger import Ledger
from handoff.environment.session import Session
from handoff.shell import Command, Word, commands
from handoff.trajectory import Observation

_MARKS = (
    "> /",
    "tee /",
    "rm ",
    *sorted(
        listed(
            """
            export unset activate pip npm yarn pnpm bun apt conda mamba cargo poetry yum dnf brew dpkg docker podman
            kill env ps uname release version -V -v pwd mktemp /tmp /home /root /var /opt /usr /etc /app ~ $HOME ../
            go gem uv apk & echo curl wget clone >/
            """
        )
    ),
)
"""Lines with none of these change nothing that is followed here, and show nothing, unless the shell is kept."""
_HEAD = 20_000
_SETTING = listed("export unset declare typeset readonly local read source . eval conda deactivate")
_MOVES = re.compile(r"\b(?:cd|pushd|popd|source|eval)\b")
_SETS = re.compile(r"=|\b(?:unset|source|eval|deactivate|conda)\b")
_ENDS = re.compile(r"\b(?:rm|rmdir|unlink|mv|kill|pkill|killall|find|xargs)\b")
"""Words of a line that may move its shell, set its variables, and end files and processes."""
_NEVER_FILES = ("/dev/", "/proc/", "/sys/")
_OUTPUTS = frozenset((">", ">>", ">|", "&>", "&>>"))
_ECHOES = re.compile(r"\s*(?:echo|printenv) +\"?\$?\{?(?P<name>[A-Za-z_]\w*)\}?\"?\s*\Z")
_JOB = re.compile(r"^\[(?P<job>\d+)\][+-]? +(?P<pid>\d+)\s*$", re.M)
_QUIET = frozenset(("cd", "export", "unset", "source", ".", "set", "true", ":", "sleep", "mkdir", "touch", "rm"))


def read_line(
    line: str, observation: Observation, ledger: Ledger, session: Session, *, folder: str | None, is_late: bool
) -> None:
    """A line that ran, with its answer. ``folder``: where it was asked to be run."""
    if "platform " in observation.text:
        for kind, name, value in outputs.test_heading(observation.text):
            ledger.say("package" if kind == "package" else "system", name, value, "observed")
    if _tells(line, ledger.context.shell_persists):
        parts = commands(line)
        sure = courses(line, parts, observation)
        reader = _Line(session, ledger, parts, sure, observation, folder, is_late=is_late)
        reader.read()
        if not all(part.is_certain for part in parts):
            reader.doubt(line)


def doubt_line(line: str, ledger: Ledger, session: Session) -> None:
    """A line of which nobody knows whether it ran: what it may have ended is not known any more."""
    if _tells(line, ledger.context.shell_persists):
        parts = commands(line)
        _Line(session, ledger, parts, unknown(parts), Observation(missing="none"), None, is_late=False).read()


def _tells(line: str, is_kept: bool) -> bool:
    """A cheap look: whether the line is worth reading."""
    for mark in _MARKS:
        if mark in line:
            return True
    if not is_kept:
        return False
    return "cd" in line or "pushd" in line or "popd" in line or "=" in line or "eval" in line or "source" in line


def _is_cd(part: Command) -> bool:
    return bool(part.words) and part.words[0].text in ("cd", "pushd", "popd")


class _Place(NamedTuple):
    """Where a shell, or one of its subshells, stands."""

    context: Context
    is_known: bool
    """False: a relative path may lie anywhere."""


class _Line:
    """One line, command by command."""

    def __init__(
        self,
        session: Session,
        ledger: Ledger,
        parts: Sequence[Command],
        sure: Sequence[Course],
        observation: Observation,
        folder: str | None,
        *,
        is_late: bool,
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._parts = parts
        self._sure = sure
        self._text = observation.text
        self._code = observation.exit_code
        self._is_late = is_late
        self._keeps = ledger.context.shell_persists and not is_late and folder is None
        """Whether the line's folder and variables are those of the lines after it."""
        begin = with_folder(ledger.context, folder) if folder else ledger.context
        is_known = ledger.is_folder_known or folder is not None or not ledger.context.shell_persists
        self._places: dict[tuple[int, ...], _Place] = {(): _Place(begin, is_known)}
        """By the subshells that a command runs in."""
        self._place = self._places[()]
        """That of the command that is read."""
        self._speaking = [n for n, part in enumerate(parts) if part.words and part.words[0].text not in _QUIET]

    def read(self) -> None:
        """All of it."""
        for number, part in enumerate(self._parts):
            sure = self._sure[number]
            words = unwrapped(part.words)
            program = words[0].text.rsplit("/", 1)[-1] if words else ""
            self._place = self._place_of(part.scope)
            if program in ("cd", "pushd", "popd"):
                if part.length == 1 and not sure.is_background:
                    self._cd(part, words, sure)
                elif any(other.connector in ("&&", "||") for other in self._parts):
                    self._stand(part.scope, None)  # the grammar draws some lists into the pipeline behind them
                continue
            if sure.is_background and words and sure.ran and self._ends_background(number):
                job = _JOB.search(self._text)
                command = " ".join(word.text for word in words)
                self._session.start(command, job["pid"] if job else None, is_late=self._is_late)
            self._files(part, words, program, sure)
            self._state(part, words, program, sure)
            self._packages(number, words, sure)
        self._remove_at_last()
        self._outputs()
        context = self._places[()].context
        if self._keeps:
            self._ledger.context = context
        elif not self._is_late:  # the shell is gone; that it found a root there stays
            self._ledger.context = msgspec.structs.replace(self._ledger.context, prefixes=context.prefixes)

    def _remove_at_last(self) -> None:
        """Commands of a pipeline, and in the background, run beside others: what they remove may go after the rest."""
        for part, sure in zip(self._parts, self._sure, strict=True):
            if part.length > 1 or sure.is_background:
                words = unwrapped(part.words)
                self._place = self._place_of(part.scope)
                program = words[0].text.rsplit("/", 1)[-1] if words else ""
                self._removes(words, program, [word for word in words[1:] if not word.text.startswith("-")])

    def doubt(self, line: str) -> None:
        """What a line that cannot be read in full may have ended, by the words in it."""
        if self._keeps and _MOVES.search(line) and not self._ledger.is_folder_told:
            self._ledger.stand(None, "inferred")
        if self._keeps and _SETS.search(line):
            self._session.forget_variables()
        if _ENDS.search(line):
            self._removed(Word("$", False))
            self._session.stop("")

    def _place_of(self, scope: tuple[int, ...]) -> _Place:
        while scope not in self._places:
            scope = scope[:-1]
        return self._places[scope]

    def _ends_background(self, number: int) -> bool:
        """Whether this command is what runs on: the last of its list."""
        part, after = self._parts[number], self._parts[number + 1 : number + 2]
        return part.position == part.length - 1 and not (after and after[0].connector in ("&&", "||", "|"))

    # -- where it stands ------------------------------------------------------------------------

    def _cd(self, part: Command, words: tuple[Word, ...], sure: Course) -> None:
        if "cd: " in self._text[:_HEAD] or "can't cd to" in self._text[:_HEAD]:
            if sum(_is_cd(other) for other in self._parts) > 1:
                self._stand(part.scope, None)  # one of them failed
            return  # it stands where it stood
        arguments = [word for word in words[1:] if word.text not in ("-P", "-L", "--")]
        target = "~" if not arguments else self._session.expanded(arguments[0])
        is_plain = words[0].text == "cd" and len(arguments) <= 1 and sure.succeeded
        if not is_plain or target is None or target == "-":
            self._stand(part.scope, None)
        else:
            self._stand(part.scope, target)

    def _stand(self, scope: tuple[int, ...], target: str | None) -> None:
        """A ``cd`` to ``target``; ``None``: to somewhere, or perhaps not."""
        is_known = target is not None and self._is_placed(target)
        context = self._place.context if target is None else with_folder(self._place.context, target)
        self._places[scope] = _Place(context, is_known)
        if not scope and self._keeps and not self._ledger.is_folder_told:
            self._ledger.stand(self._named(resolve(".", context)) if is_known else None, "inferred")

    def _is_placed(self, path: str) -> bool:
        """Whether it is known where ``path`` lies: a relative one where the shell is, but not above a home."""
        if path.startswith(("/", "~")):
            return True
        return self._place.is_known and not (self._place.context.cwd.startswith("~") and ".." in path.split("/"))

    def _named(self, path: str) -> str:
        """A path beside the repository by its whole name, where the root's is known."""
        roots = self._place.context.prefixes
        if roots and (path == ".." or path.startswith("../")):
            return posixpath.normpath(f"{roots[-1]}/{path}")
        return path

    # -- variables and processes ----------------------------------------------------------------

    def _state(self, part: Command, words: tuple[Word, ...], program: str, sure: Course) -> None:
        if program in ("kill", "pkill", "killall"):
            self._kill(words, program, sure)
        elif program in ("docker", "podman"):
            self._docker(words, sure)
        elif self._keeps and not part.scope and part.length == 1 and not sure.is_background:
            self._variables(part, words, program, sure)

    def _variables(self, part: Command, words: tuple[Word, ...], program: str, sure: Course) -> None:
        texts = [word.text for word in words[1:]]
        if not words:
            for name, word in part.assignments:
                if self._session.is_exported(name):
                    self._session.assign(name, self._session.expanded(word) if sure.ran else None)
        elif program in ("export", "declare", "typeset", "readonly", "local", "read"):
            for text in texts:
                name, equals, value = text.partition("=")
                is_set = program == "export" and texts[0] != "-n" and sure.ran
                if equals and is_set and name.isidentifier():
                    self._session.assign(name, self._session.expanded(_unquoted(value)))
                elif equals or program != "export" or texts[0] == "-n":
                    self._session.assign(name, None)
        elif program == "unset":
            for name in texts:
                self._session.assign(name, None)
        elif program == "conda" and texts[:1] == ["activate"]:
            name = texts[1] if len(texts) > 1 else "base"
            self._session.assign("CONDA_DEFAULT_ENV", name if sure.succeeded else None)
        elif program == "deactivate" or (program == "conda" and texts[:1] == ["deactivate"]):
            self._session.assign("VIRTUAL_ENV" if program == "deactivate" else "CONDA_DEFAULT_ENV", None)
        elif program in ("source", ".") and texts and texts[0].endswith("/bin/activate"):
            folder = self._named(resolve(texts[0].removesuffix("/bin/activate"), self._place.context))
            self._session.assign("VIRTUAL_ENV", folder if sure.succeeded and words[1].is_literal else None)
        elif program in ("source", ".", "eval"):
            self._session.forget_variables()

    def _kill(self, words: tuple[Word, ...], program: str, sure: Course) -> None:
        texts = [word.text for word in words[1:]]
        targets = [text for text in texts if not text.startswith("-")]
        if texts[:1] == ["-0"] or not targets:
            return
        if program == "kill":
            for target in targets:
                self._session.stop(target)
        else:
            self._session.stop_named(targets[-1] if words[-1].is_literal else "")

    def _docker(self, words: tuple[Word, ...], sure: Course) -> None:
        texts = [word.text for word in words[1:]]
        is_detached = "-d" in texts or "--detach" in texts
        if is_detached and ("run" in texts[:1] or "up" in texts):
            if sure.succeeded:
                self._session.start(" ".join(word.text for word in words), None, is_late=self._is_late)
        elif texts[:1] in (["stop"], ["kill"], ["rm"]) or "down" in texts:
            self._session.stop_named("docker")

    # -- files outside --------------------------------------------------------------------------

    def _files(self, part: Command, words: tuple[Word, ...], program: str, sure: Course) -> None:
        if sure.redirected:
            for redirect in part.redirects:
                if redirect.operator in _OUTPUTS:
                    self._made(redirect.target)
        arguments = [word for word in words[1:] if not word.text.startswith("-")]
        self._removes(words, program, arguments)
        if not sure.succeeded:
            return
        if program in ("touch", "mkdir", "tee"):
            for word in arguments:
                self._made(word, is_folder=program == "mkdir")
        elif program in ("cp", "mv", "ln") and len(arguments) > 1:
            self._moved(arguments)
        elif program in ("curl", "wget"):
            for option, value in pairwise(words):
                if option.text in ("-o", "-O", "--output", "--output-document"):
                    self._made(value)
        elif program == "git" and arguments[:1] and arguments[0].text == "clone" and len(arguments) > 2:
            self._made(arguments[-1], is_folder=True)
        elif program == "mktemp" and len(self._speaking) == 1 and self._text.strip().startswith("/"):
            name = self._text.strip().splitlines()[0]
            self._ledger.say("file", name, "folder" if any(w.text == "-d" for w in words) else None, "observed")

    def _removes(self, words: tuple[Word, ...], program: str, arguments: Sequence[Word]) -> None:
        if program in ("rm", "rmdir", "unlink", "shred", "mv"):
            for word in arguments[:-1] if program == "mv" else arguments:
                self._removed(word)
        elif (program == "find" and any(word.text in ("-delete", "-exec") for word in words)) or program == "xargs":
            self._removed(Word("$", False))  # it may be any of them

    def _made(self, word: Word, *, is_folder: bool = False) -> None:
        path = self._outside(word)
        if path is not None:
            self._ledger.say("file", path, "folder" if is_folder else None)

    def _moved(self, words: list[Word]) -> None:
        """Copies and moves: into a folder where the target is known to be one."""
        target = self._outside(words[-1])
        if target is None:
            return
        is_folder = dict(self._ledger.held("file")).get(target) == "folder"
        self._ledger.say("file", target, "folder" if is_folder else None)
        for word in words[:-1] if is_folder else ():
            name = posixpath.basename(word.text.rstrip("/"))
            if word.is_literal and name not in ("", ".", ".."):
                self._ledger.say("file", f"{target}/{name}")

    def _removed(self, word: Word) -> None:
        """What a command may have removed is not known any more."""
        text = self._session.expanded(word)
        files = [name for name, _ in self._ledger.held("file")]
        if text is None and ("$" in word.text or "`" in word.text):
            gone = files  # it may be any of them
        elif not self._is_placed(text if text is not None else word.text):
            gone = [name for name in files if posixpath.basename(name) == posixpath.basename(word.text.rstrip("/"))]
            gone = gone if text is not None else files
        elif text is not None:
            path = self._named(resolve(text, self._place.context))
            gone = [name for name in files if _is_at(name, path)]
        else:
            pattern = self._named(resolve(word.text, self._place.context))
            gone = [name for name in files if fnmatchcase(name, pattern) or fnmatchcase(name, pattern + "/*")]
        for name in gone:
            self._ledger.drop("file", name)

    def _outside(self, word: Word) -> str | None:
        """Where a word lies outside the repository; ``None`` when inside, or nobody knows."""
        text = self._session.expanded(word)
        if text is None or not self._is_placed(text):
            return None
        path = resolve(text, self._place.context)
        if not is_outside(path) or path.startswith(("$", *_NEVER_FILES)) or "\0" in path or ".git" in path.split("/"):
            return None
        return self._named(path)

    # -- packages -------------------------------------------------------------------------------

    def _packages(self, number: int, words: tuple[Word, ...], sure: Course) -> None:
        request = packages.request_of([word.text for word in words]) if words else None
        if request is None:
            return
        if request.verb in ("install", "remove"):
            found = packages.installed(request, self._text, sure.succeeded)
            if not sure.succeeded and self._code in (None, 0):
                for name in packages.named(request):  # it may be another version now, or gone
                    self._ledger.drop("package", name)
        else:
            part = self._parts[number]
            tails = {self._program(n) for n in range(number + 1, number + part.length - part.position)}
            if not tails <= {"grep", "head", "tail", "egrep", "sort"} or not self._is_only_speaker(number):
                return
            found = packages.listed(request, self._text)
        for package in found:
            self._ledger.say("package", package.name, package.version, package.basis, holds=package.is_there)

    def _program(self, number: int) -> str:
        words = self._parts[number].words
        return words[0].text if words else ""

    def _is_only_speaker(self, number: int) -> bool:
        """Whether the answer is the output of the pipeline that command ``number`` begins."""
        part = self._parts[number]
        end = number + part.length - part.position
        return all(number <= speaker < end for speaker in self._speaking)

    # -- what it shows --------------------------------------------------------------------------

    def _outputs(self) -> None:
        """What the answer shows, where one command alone speaks."""
        speakers = self._speaking
        if not speakers or not self._text:
            return
        texts = [[word.text for word in unwrapped(self._parts[n].words)] for n in speakers]
        if all(outputs.asks_version(words) for words in texts):
            for name, value in outputs.system(self._text, texts):
                self._ledger.say("system", name, value, "observed")
            return
        first = self._parts[speakers[0]].words
        program = first[0].text
        if "PRETTY_NAME=" in self._text:
            for name, value in outputs.system(self._text):
                self._ledger.say("system", name, value, "observed")
        if not self._is_only_speaker(speakers[0]):
            if any(self._program(n) == "uname" for n in speakers) and (kernel := outputs.kernel(self._text)):
                self._ledger.say("system", "kernel", kernel, "observed")
            return
        match program:
            case "uname":
                if kernel := outputs.kernel(self._text):
                    self._ledger.say("system", "kernel", kernel, "observed")
            case "pwd" if len(speakers) == 1:
                self._pwd()
            case "env" | "printenv" if len(first) == 1 and not any(p.assignments for p in self._parts):
                self._printed_variables(whole=len(speakers) == 1)
            case "echo" | "printenv" if len(self._parts) == 1 and len(first) == 2:
                self._echoed(first[1])
            case "ps":
                self._listed_processes(whole=len(speakers) == 1)

    def _pwd(self) -> None:
        lines = self._text.strip().splitlines()
        if len(lines) != 1 or not lines[0].startswith("/") or "\0" in lines[0] or self._ledger.is_folder_told:
            return
        if self._is_late or self._code not in (None, 0) or complains(self._text):
            return
        cds = [part for part in self._parts if _is_cd(part)]
        if cds and (not self._keeps or any(part.scope or part.length > 1 for part in cds)):
            return
        if self._parts[self._speaking[0]].scope or _is_cd(self._parts[-1]):
            return
        context = self._places[()].context
        place = resolve(lines[0].strip(), context)
        if self._keeps:
            context = msgspec.structs.replace(context, cwd="" if place == "." else place)
            self._places[()] = _Place(context, True)
        self._ledger.stand(place, "observed")

    def _printed_variables(self, *, whole: bool) -> None:
        if any(part.assignments or self._program(n) in _SETTING for n, part in enumerate(self._parts)):
            return  # they may be of this line alone, or others by now
        for name, value in outputs.variables(self._text):
            if name not in ("_", "SHLVL", "OLDPWD", "PWD") and (whole or len(value) < 200):
                self._ledger.say("variable", name, value, "observed")

    def _echoed(self, word: Word) -> None:
        match = _ECHOES.match(f"{self._program(0)} {word.text}")
        lines = self._text.strip("\r\n").splitlines()
        if match is None or len(lines) > 1 or (self._program(0) == "echo" and "$" not in word.text):
            return
        if not lines or not lines[0]:
            self._ledger.say("variable", match["name"], None, "observed", holds=False)
        else:
            self._ledger.say("variable", match["name"], lines[0], "observed")

    def _listed_processes(self, *, whole: bool) -> None:
        found = outputs.processes(self._text)
        if found is None:
            return
        if whole and {"aux", "-ef", "-A", "-e", "ax", "-aux", "auxww"} & {w.text for w in self._parts[0].words}:
            for name, _ in self._ledger.held("process"):
                if not any(name in command or command in name for command, _ in found):
                    self._ledger.drop("process", name)
        for command, number in found:
            self._ledger.say("process", command, number, "observed")


def _is_at(name: str, path: str) -> bool:
    """Whether a file is the removed path or below it; names from the home or beside the root may be another's."""
    if name == path or name.startswith(path + "/"):
        return True
    if name.startswith(("~", "..")) == path.startswith(("~", "..")):
        return False
    return posixpath.basename(name) == posixpath.basename(path) or f"/{posixpath.basename(path)}/" in name


def _unquoted(value: str) -> Word:
    """The value of an ``export`` as a word."""
    if len(value) > 1 and value[0] == value[-1] == "'":
        return Word(value[1:-1], True)
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    elif "'" in value or '"' in value:
        return Word("$", False)  # quoted in parts
    return Word(value, not any(mark in value for mark in "$`~*?["))
