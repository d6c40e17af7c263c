"""What one shell line does to the world outside the repository, and what its output shows of it.

Nothing is executed or expanded but variables that the run itself set to plain words.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from handoff.actions.paths import Context, is_outside, resolve, with_folder
from handoff.actions.programs.wrappers import unwrapped
from handoff.environment import outputs, packages
from handoff.environment.certainty import Course, courses
from handoff.shell import Command, Word, commands
from handoff.trajectory import Observation

if TYPE_CHECKING:
    from handoff.environment.follow import Walk

_TELLS = re.compile(
    r"cd\b|pushd|popd|export|unset|declare|activate|pip|npm|yarn|pnpm|apt|conda|mamba|cargo|\bgo |gem |poetry|\buv |apk|"
    r"yum|dnf|brew|dpkg|(?<![&>|<\\])&(?![&>])|docker|kill|\benv\b|printenv|\bps\b|uname|release|-version|"
    r" -[vV]\b| version\b|pwd|echo \$|mktemp|/tmp|/home|/root|/var|/opt|/usr|/etc|/app|~|\$HOME|\.\./|[>/]/"
)
"""Lines with none of this change nothing that is followed here, and show nothing."""
_COMPLAINT = re.compile(
    r"(?m)^[^\n]{0,200}?(?:No such file or directory|Permission denied|Not a directory|Read-only file system|"
    r"Is a directory|cannot |can't cd|command not found|No space left)"
)
_NEVER_FILES = ("/dev/", "/proc/", "/sys/")
_OUTPUTS = frozenset((">", ">>", ">|", "&>", "&>>"))
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>[A-Za-z_]\w*))")
_ECHOES = re.compile(r"\s*(?:echo|printenv) +\"?\$?\{?(?P<name>[A-Za-z_]\w*)\}?\"?\s*\Z")
_JOB = re.compile(r"^\[(?P<job>\d+)\][+-]? +(?P<pid>\d+)\s*$", re.M)
_QUIET = frozenset(("cd", "export", "unset", "source", ".", "set", "true", ":", "sleep", "mkdir", "touch", "rm"))


class Shell:
    """Reads lines into facts of a ``Walk``."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._variables: dict[str, str] = {}
        """Variables whose values are known, in a shell that keeps them."""
        self._jobs: list[str] = []
        """Processes in the background, in the order in which they were started."""

    def lose(self, line: str | None) -> None:
        """A line of which nobody knows whether it ran."""
        if line and self._walk.context.shell_persists and any(_is_cd(part) for part in commands(line)):
            self._walk.stand(None, "inferred")

    def read(self, line: str, folder: str | None, observation: Observation, *, is_late: bool) -> None:
        """A line that ran, with its answer. ``folder``: where it was asked to be run."""
        text = observation.text
        if "platform " in text:
            for kind, name, value in outputs.test_heading(text):
                self._walk.say("package" if kind == "package" else "system", name, value, "observed")
        if _TELLS.search(line) is None:
            return
        parts = commands(line)
        is_quiet = _COMPLAINT.search(text[:4_000]) is None and "cd: " not in text[:4_000]
        sure = courses(line, parts, observation.exit_code, is_quiet)
        _Line(self, self._walk, parts, sure, observation, folder, is_late=is_late).read()

    # -- state that outlives a line ---------------------------------------------------------------

    def expanded(self, word: Word) -> str | None:
        """A word with the variables that are known; ``None`` when the shell would make something else of it."""
        if word.is_literal:
            return word.text
        text = _VARIABLE.sub(self._value, word.text)
        return None if any(mark in text for mark in "$`*?[{") else text

    def _value(self, match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"]
        return self._variables.get(name, "~" if name == "HOME" else match.group())

    def assign(self, name: str, value: str | None) -> None:
        """A variable is exported; ``None``: with a value that is not known."""
        if value is None:
            self._variables.pop(name, None)
            self._walk.say("variable", name, None, holds=False)
        else:
            self._variables[name] = value
            self._walk.say("variable", name, value)

    def start(self, command: str, pid: str | None) -> None:
        """A process begins in the background."""
        name = " ".join(command.split())
        self._jobs.append(name[:200])
        self._walk.say("process", name, pid)

    def stop(self, word: str) -> None:
        """``kill`` of one target: a job, a number, or something that nobody knows, which may be any of them."""
        processes = self._walk.known("process")
        if word.startswith("%") and word[1:].isdigit():
            place = int(word[1:]) - 1
            names = {self._jobs[place]} if place < len(self._jobs) else set()
        elif word == "$!":
            names = set(self._jobs[-1:])
        elif word.isdigit():
            by_number = {fact.name for fact in processes if fact.value == word}
            names = by_number or ({self._jobs[-1]} if len(self._jobs) == 1 else set())
        else:
            names = {fact.name for fact in processes}
        for fact in processes:
            if fact.name in names:
                self._walk.say("process", fact.name, fact.value, holds=False)

    def stop_named(self, pattern: str) -> None:
        """``pkill`` and its like: every process whose command holds the name."""
        for fact in self._walk.known("process"):
            if not pattern or pattern in fact.name:
                self._walk.say("process", fact.name, fact.value, holds=False)


def _is_cd(part: Command) -> bool:
    return bool(part.words) and part.words[0].text in ("cd", "pushd", "popd")


class _Line:
    """One line, command by command."""

    def __init__(
        self,
        shell: Shell,
        walk: Walk,
        parts: Sequence[Command],
        sure: Sequence[Course],
        observation: Observation,
        folder: str | None,
        *,
        is_late: bool,
    ) -> None:
        self._shell = shell
        self._walk = walk
        self._parts = parts
        self._sure = sure
        self._text = observation.text
        self._code = observation.exit_code
        self._keeps = walk.context.shell_persists and not is_late and folder is None
        """Whether the line's folder and variables are those of the lines after it."""
        self._context = with_folder(walk.context, folder) if folder else walk.context
        self._is_placed = walk.is_folder_known or folder is not None or not walk.context.shell_persists
        self._speaking = [n for n, part in enumerate(parts) if part.words and part.words[0].text not in _QUIET]
        self._changes_own = any(
            part.assignments or (part.words and part.words[0].text in ("export", "source", ".", "env", "conda"))
            for part in parts
        )

    def read(self) -> None:
        """All of it."""
        for number, part in enumerate(self._parts):
            sure = self._sure[number]
            words = unwrapped(part.words)
            program = words[0].text.rsplit("/", 1)[-1] if words else ""
            if sure.is_background:
                if self._ends_background(number) and words:
                    job = _JOB.search(self._text)
                    self._shell.start(" ".join(word.text for word in words), job["pid"] if job else None)
            elif program in ("cd", "pushd", "popd"):
                self._cd(part, words, sure)
            else:
                self._files(part, words, program, sure)
                self._state(words, program, sure)
                self._packages(number, words, sure)
        self._outputs()
        context = self._context
        if not self._keeps:
            context = context if self._walk.context.shell_persists else context
            self._walk.context = _with_prefixes(self._walk.context, context)
        else:
            self._walk.context = context

    def _ends_background(self, number: int) -> bool:
        """Whether this command is what runs on: the last of its list."""
        part, after = self._parts[number], self._parts[number + 1 : number + 2]
        return part.position == part.length - 1 and not (after and after[0].connector in ("&&", "||", "|"))

    # -- where it stands ------------------------------------------------------------------------

    def _cd(self, part: Command, words: tuple[Word, ...], sure: Course) -> None:
        if part.length > 1 or part.scope or not part.owns_status:
            return
        if "cd: " in self._text[:4_000] or "can't cd to" in self._text[:4_000]:
            return  # the shell complained: it stands where it stood
        arguments = [word for word in words[1:] if word.text not in ("-P", "-L", "--")]
        is_plain = words[0].text == "cd" and len(arguments) <= 1 and sure.ran and sure.succeeded
        target = "~" if not arguments else self._shell.expanded(arguments[0])
        if not is_plain or target is None or target == "-":
            self._is_placed = False
            self._tell_folder(None)
            return
        if not target.startswith(("/", "~")) and not self._is_placed:
            self._context = with_folder(self._context, target)
            return
        self._context = with_folder(self._context, target)
        self._is_placed = True
        self._tell_folder(resolve(".", self._context) if self._context.cwd else ".")

    def _tell_folder(self, path: str | None) -> None:
        if self._keeps and not self._walk.is_folder_told:
            self._walk.stand(path, "inferred")

    # -- variables and processes ----------------------------------------------------------------

    def _state(self, words: tuple[Word, ...], program: str, sure: Course) -> None:
        if program in ("export", "unset", "source", ".", "deactivate", "conda"):
            if self._keeps:
                self._variables(words, program, sure)
        elif program in ("kill", "pkill", "killall"):
            self._kill(words, program, sure)
        elif program in ("docker", "podman") and sure.succeeded:
            self._docker(words)

    def _variables(self, words: tuple[Word, ...], program: str, sure: Course) -> None:
        texts = [word.text for word in words[1:]]
        if program == "export":
            for word in words[1:]:
                name, equals, value = word.text.partition("=")
                if equals and name.isidentifier():
                    plain = self._shell.expanded(_unquoted(value)) if sure.ran else None
                    self._shell.assign(name, plain)
        elif program == "unset":
            for name in texts:
                if name.isidentifier():
                    self._shell.assign(name, None)
        elif program == "conda" and texts[:1] == ["activate"]:
            name = texts[1] if len(texts) > 1 else "base"
            self._shell.assign("CONDA_DEFAULT_ENV", name if sure.succeeded else None)
        elif program == "deactivate" or (program == "conda" and texts[:1] == ["deactivate"]):
            self._shell.assign("VIRTUAL_ENV" if program == "deactivate" else "CONDA_DEFAULT_ENV", None)
        elif texts and texts[0].endswith("/bin/activate"):
            folder = resolve(texts[0].removesuffix("/bin/activate"), self._context)
            self._shell.assign("VIRTUAL_ENV", folder if sure.succeeded else None)

    def _kill(self, words: tuple[Word, ...], program: str, sure: Course) -> None:
        texts = [word.text for word in words[1:]]
        targets = [text for text in texts if not text.startswith("-")]
        if texts[:1] == ["-0"] or not targets:
            return
        if program == "kill" and sure.ran:
            for target in targets:
                self._shell.stop(target)
        elif program != "kill":
            self._shell.stop_named(targets[-1] if sure.ran and words[-1].is_literal else "")

    def _docker(self, words: tuple[Word, ...]) -> None:
        texts = [word.text for word in words[1:]]
        is_detached = "-d" in texts or "--detach" in texts
        if is_detached and ("run" in texts[:1] or "up" in texts):
            self._shell.start(" ".join(word.text for word in words), None)
        elif texts[:1] in (["stop"], ["kill"], ["rm"]) or "down" in texts:
            self._shell.stop_named("docker")

    # -- files outside --------------------------------------------------------------------------

    def _files(self, part: Command, words: tuple[Word, ...], program: str, sure: Course) -> None:
        if not sure.ran:
            return
        for redirect in part.redirects:
            if redirect.operator in _OUTPUTS:
                self._made(redirect.target)
        arguments = [word for word in words[1:] if not word.text.startswith("-")]
        if program == "tee":
            for word in arguments:
                self._made(word)
        elif program in ("touch", "mkdir"):
            for word in arguments:
                self._made(word, is_folder=program == "mkdir")
        elif program in ("cp", "mv", "ln") and len(arguments) > 1:
            self._moved(arguments, program)
        elif program in ("rm", "rmdir", "unlink", "shred"):
            for word in arguments:
                self._removed(word)
        elif program in ("curl", "wget"):
            for option, value in zip(words, words[1:], strict=False):
                if option.text in ("-o", "-O", "--output", "--output-document"):
                    self._made(value)
        elif program == "git" and arguments[:1] and arguments[0].text == "clone" and len(arguments) > 2:
            self._made(arguments[-1], is_folder=True)
        elif program == "mktemp" and len(self._speaking) == 1 and self._text.strip().startswith("/"):
            name = self._text.strip().splitlines()[0]
            self._walk.say("file", name, "folder" if any(w.text == "-d" for w in words) else None, "observed")

    def _made(self, word: Word, *, is_folder: bool = False) -> None:
        path = self._outside(word)
        if path is None or self._is_complained_of(word.text):
            return
        self._walk.say("file", path, "folder" if is_folder else None)

    def _moved(self, words: list[Word], program: str) -> None:
        target = self._outside(words[-1])
        if target is not None and not self._is_complained_of(words[-1].text):
            known = self._walk.current.get(("file", target))
            is_folder = words[-1].text.endswith("/") or len(words) > 2
            is_folder = is_folder or (known is not None and known.value == "folder" and known.seen <= self._walk.number)
            for word in words[:-1]:
                name = posixpath.basename(word.text.rstrip("/"))
                self._walk.say("file", f"{target}/{name}" if is_folder else target)
        if program == "mv":
            for word in words[:-1]:
                self._removed(word)

    def _removed(self, word: Word) -> None:
        text = self._shell.expanded(word)
        files = self._walk.known("file")
        if text is not None:
            path = resolve(text, self._context)
            gone = [fact for fact in files if fact.name == path or fact.name.startswith(path + "/")]
        elif "$" in word.text or "`" in word.text:
            gone = files  # it may be any of them
        else:
            pattern = resolve(word.text, self._context)
            gone = [fact for fact in files if fnmatchcase(fact.name, pattern) or fnmatchcase(fact.name, pattern + "/*")]
        for fact in gone:
            self._walk.say("file", fact.name, fact.value, holds=False)

    def _outside(self, word: Word) -> str | None:
        """Where a word lies outside the repository; ``None`` when inside, or nobody knows."""
        text = self._shell.expanded(word)
        if text is None or (not self._is_placed and not text.startswith(("/", "~"))):
            return None
        path = resolve(text, self._context)
        if not is_outside(path) or path.startswith(("$", *_NEVER_FILES)) or "\0" in path or ".git" in path.split("/"):
            return None
        return path

    def _is_complained_of(self, text: str) -> bool:
        return text in self._text and _COMPLAINT.search(self._text[:4_000]) is not None

    # -- packages -------------------------------------------------------------------------------

    def _packages(self, number: int, words: tuple[Word, ...], sure: Course) -> None:
        request = packages.request_of([word.text for word in words]) if words else None
        if request is None:
            return
        if request.verb in ("install", "remove"):
            found = packages.installed(request, self._text, sure.succeeded)
        else:
            part = self._parts[number]
            tails = {self._program(n) for n in range(number + 1, number + part.length - part.position)}
            if not tails <= {"grep", "head", "tail", "egrep", "sort"} or not self._is_only_speaker(number):
                return
            found = packages.listed(request, self._text)
        for package in found:
            self._walk.say("package", package.name, package.version, package.basis, holds=package.is_there)

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
                self._walk.say("system", name, value, "observed")
            return
        first = self._parts[speakers[0]].words
        program = first[0].text
        if "PRETTY_NAME=" in self._text:
            for name, value in outputs.system(self._text):
                self._walk.say("system", name, value, "observed")
        if not self._is_only_speaker(speakers[0]):
            if any(self._program(n) == "uname" for n in speakers) and (kernel := outputs.kernel(self._text)):
                self._walk.say("system", "kernel", kernel, "observed")
            return
        match program:
            case "uname":
                if kernel := outputs.kernel(self._text):
                    self._walk.say("system", "kernel", kernel, "observed")
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
        cds = any(_is_cd(part) for part in self._parts)
        if len(lines) != 1 or not lines[0].startswith("/") or "\0" in lines[0] or self._walk.is_folder_told:
            return
        if cds and not self._keeps:
            return
        path = lines[0].strip()
        self._context = with_folder(self._context, path) if self._keeps else self._context
        self._walk.stand(resolve(path, self._context), "observed")

    def _printed_variables(self, *, whole: bool) -> None:
        if not self._walk.context.shell_persists and any(self._program(n) == "export" for n in range(len(self._parts))):
            return
        for name, value in outputs.variables(self._text):
            if name not in ("_", "SHLVL", "OLDPWD", "PWD") and (whole or len(value) < 200):
                self._walk.say("variable", name, value, "observed")

    def _echoed(self, word: Word) -> None:
        match = _ECHOES.match(f"{self._program(0)} {word.text}")
        lines = self._text.strip("\r\n").splitlines()
        if match is None or len(lines) > 1 or (self._program(0) == "echo" and "$" not in word.text):
            return
        if not lines or not lines[0]:
            self._walk.say("variable", match["name"], None, "observed", holds=False)
        else:
            self._walk.say("variable", match["name"], lines[0], "observed")

    def _listed_processes(self, *, whole: bool) -> None:
        found = outputs.processes(self._text)
        if found is None:
            return
        if whole and {"aux", "-ef", "-A", "-e", "ax", "-aux", "auxww"} & {w.text for w in self._parts[0].words}:
            for fact in self._walk.known("process"):
                if not any(fact.name in command or command in fact.name for command, _ in found):
                    self._walk.say("process", fact.name, fact.value, holds=False)
        for command, number in found:
            self._walk.say("process", command, number, "observed")


def _with_prefixes(context: Context, after: Context) -> Context:
    """``context`` with the roots that a line made known: where it stood is forgotten with its shell."""
    import msgspec

    return context if context.prefixes == after.prefixes else msgspec.structs.replace(context, prefixes=after.prefixes)


def _unquoted(value: str) -> Word:
    """The value of an ``export`` as a word."""
    if len(value) > 1 and value[0] == value[-1] == "'":
        return Word(value[1:-1], True)
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    elif "'" in value or '"' in value:
        return Word("$", False)  # quoted in parts
    return Word(value, not any(mark in value for mark in "$`~*?["))
