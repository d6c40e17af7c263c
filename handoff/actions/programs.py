"""What the common programs do, by their arguments.

One function per family, found by the program's name. An unknown program is ``Run``. Options are skipped by a small
table of those that take a value; a wrong guess there costs a key's target, never an edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from handoff.actions.operations import (
    AppendFile,
    ApplyPatch,
    Copy,
    Delete,
    EditLines,
    Install,
    ListFiles,
    MakeDirectory,
    Move,
    Opaque,
    Operation,
    Other,
    Read,
    Replace,
    Restore,
    Run,
    Search,
    SetMode,
    Validate,
    Vcs,
    WriteFile,
    patch_paths,
)
from handoff.actions.paths import Context, is_outside, is_unknown, resolve
from handoff.shell import Word


class Call(msgspec.Struct, frozen=True, gc=False):
    """One command as its program sees it."""

    words: tuple[Word, ...]
    stdin: str | None
    context: Context
    is_alone: bool

    @property
    def arguments(self) -> list[str]:
        """The words after the program's name, as text."""
        return [w.text for w in self.words[1:]]

    def path(self, text: str) -> str:
        """Where ``text`` lies."""
        return resolve(text, self.context)


# -- wrappers -----------------------------------------------------------------------------------

_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi"))
_VALUED = {
    "env": {"-u", "-C", "-S", "--unset", "--chdir"},
    "sudo": {"-u", "-g", "-C", "--user"},
    "timeout": {"-s", "-k", "--signal", "--kill-after"},
    "nice": {"-n"},
    "stdbuf": {"-i", "-o", "-e"},
    "ionice": {"-c", "-n"},
    "time": {"-f", "-o"},
    "conda": {"-n", "-p", "--name", "--prefix", "--cwd"},
    "uv": {"--with", "--python", "-p", "--extra", "--group", "--directory", "--project", "--with-requirements"},
    "strace": {"-e", "-o"},
}
_PLAIN_WRAPPERS = frozenset(
    ("sudo", "env", "timeout", "nice", "nohup", "time", "stdbuf", "ionice", "command", "exec", "builtin", "xvfb-run")
)


def unwrapped(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The command without what only wraps it: ``timeout 60``, ``env A=1``, ``sudo``, ``uv run``, ``conda run -n x``."""
    for _ in range(8):
        if len(words) < 2:
            return words
        name = words[0].text.rsplit("/", 1)[-1]
        if name in _PLAIN_WRAPPERS:
            rest = _after_options(words[1:], _VALUED.get(name, set()))
            if name == "timeout":
                rest = rest[1:]
            while rest and name in ("env", "sudo") and re.match(r"[A-Za-z_]\w*=", rest[0].text):
                rest = rest[1:]
        elif name in _RUNNERS and words[1].text == "run":
            rest = _after_options(words[2:], _VALUED["uv"])
        elif name in ("conda", "mamba", "micromamba") and words[1].text == "run":
            rest = _after_options(words[2:], _VALUED["conda"])
        elif name == "coverage" and words[1].text == "run":
            rest = words[2:]
            while rest and rest[0].text.startswith("-") and rest[0].text != "-m":
                rest = rest[1:]
            if rest:
                rest = (Word("python"), *rest)
        else:
            return words
        if not rest:
            return words
        words = rest
    return words


def _after_options(words: tuple[Word, ...], valued: set[str]) -> tuple[Word, ...]:
    n = 0
    while n < len(words) and words[n].text.startswith("-"):
        if words[n].text == "--":
            n += 1
            break
        n += 2 if words[n].text in valued else 1
    return words[n:]


def _plain(arguments: Sequence[str], valued: frozenset[str] = frozenset()) -> list[str]:
    """Arguments that are no options."""
    found, skip, ended = [], False, False
    for text in arguments:
        if skip:
            skip = False
        elif ended or not text.startswith("-") or text == "-":
            found.append(text)
        elif text == "--":
            ended = True
        elif text in valued:
            skip = True
    return found


# -- reading ------------------------------------------------------------------------------------


def _cat(call: Call) -> list[Operation]:
    paths = _plain(call.arguments)
    options = [a for a in call.arguments if a.startswith("-") and a != "-"]
    numbered = any(set("nb") & set(a) for a in options) or call.words[0].text == "nl"
    alone = call.is_alone and len(paths) == 1 and all(w.is_literal for w in call.words) and options in ([], ["-n"])
    form = "numbered" if numbered else "plain"
    return [Read(path=call.path(p), form=form, is_alone=alone) for p in paths if p != "-"]  # type: ignore[arg-type]


_COUNTED = frozenset(("-n", "-c", "--lines", "--bytes"))


def _head(call: Call) -> list[Operation]:
    paths = _plain(call.arguments, _COUNTED)
    count = 10
    for n, text in enumerate(call.arguments):
        match = re.fullmatch(r"(?:-n|--lines=|-)(\d+)", text)
        if match:
            count = int(match[1])
        elif text in ("-n", "--lines") and n + 1 < len(call.arguments) and call.arguments[n + 1].isdigit():
            count = int(call.arguments[n + 1])
        elif text.startswith("-") and text not in ("-q",):
            return [Read(path=call.path(p)) for p in paths]
    if call.words[0].text == "tail":
        return [Read(path=call.path(p), first=-count) if False else Read(path=call.path(p)) for p in paths]
    alone = call.is_alone and len(paths) == 1
    return [Read(path=call.path(p), first=1, last=count, is_alone=alone) for p in paths]


def _reads(call: Call) -> list[Operation]:
    return [Read(path=call.path(p)) for p in _plain(call.arguments)]


_SED_RANGE = re.compile(r"(\d+)(?:,\s*(\d+|\$))?\s*p;?")
_SED_LITERAL = re.compile(r"s([/|#@,:!~])((?:\\.|(?!\1)[^\\\n])*)\1((?:\\.|(?!\1)[^\\\n])*)\1(g?)")
_SED_DELETE = re.compile(r"(\d+)(?:,(\d+|\$))?d")
_REGEX_CHARACTERS = re.compile(r"[.*\[\]^$]")
_AMPERSAND = re.compile(r"&")
_SED_ESCAPE = re.compile(r"\\(.)")


def _sed(call: Call) -> list[Operation]:
    scripts: list[str] = []
    files: list[str] = []
    quiet = in_place = extended = is_known = False
    takes = ""
    is_known = True
    for word in call.words[1:]:
        text = word.text
        if takes:
            if takes == "e":
                scripts.append(text)
            else:
                is_known = False
            takes = ""
        elif text in ("-e", "--expression"):
            takes = "e"
        elif text in ("-f", "--file"):
            takes = "f"
        elif text.startswith(("-i", "--in-place")):
            in_place = True
            is_known = is_known and text in ("-i", "--in-place")
        elif text in ("-n", "--quiet", "--silent"):
            quiet = True
        elif text in ("-E", "-r", "--regexp-extended"):
            extended = True
        elif text in ("-ni", "-in", "-Ei", "-ri"):
            in_place = True
            is_known = False
        elif text.startswith("-") and len(text) > 1:
            is_known = False
        elif not scripts and not files:
            scripts.append(text)
            is_known = is_known and word.is_literal
        else:
            files.append(text)
            is_known = is_known and word.is_literal
    if takes == "f":
        is_known = False
    paths = [call.path(f) for f in files]
    if not in_place:
        found = _SED_RANGE.fullmatch(scripts[0]) if len(scripts) == 1 and quiet else None
        if found is None:
            return [Read(path=p) for p in paths]
        first = int(found[1])
        last = first if found[2] is None else None if found[2] == "$" else int(found[2])
        alone = call.is_alone and len(paths) == 1
        return [Read(path=p, first=first, last=last, is_alone=alone) for p in paths]
    made: list[Operation] = []
    for path, file in zip(paths, files, strict=True):
        if is_unknown(path):
            made.append(_whole("sed -i on files not named"))
        elif is_outside(path):
            made.append(Other(tool="sed", target=path))
        elif any(c in file for c in "*?[{$"):
            made.append(_whole("sed -i on files not named"))
        else:
            exact = [_sed_edit(path, s, extended) for s in scripts] if is_known and not quiet else [None]
            known = [e for e in exact if e is not None]
            made += known if len(known) == len(exact) == 1 else [Opaque(reason="sed -i", paths=(path,))]
    return made


def _sed_edit(path: str, script: str, extended: bool) -> Operation | None:
    """The same edit without sed, for the scripts where that is exact."""
    script = script.strip()
    if match := _SED_LITERAL.fullmatch(script):
        _, pattern, replacement, everywhere = match.groups()
        old, new = _sed_text(pattern, _REGEX_CHARACTERS), _sed_text(replacement, _AMPERSAND)
        if everywhere and old and new is not None and not extended:
            return Replace(path=path, old=old, new=new, count="all")
        return None
    if (match := _SED_DELETE.fullmatch(script)) and match[2] != "$":
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        return EditLines(path=path, first=first, last=max(first, last), text="") if first else None
    return None


def _sed_text(text: str, special: re.Pattern[str]) -> str | None:
    """The literal text of one side of ``s/…/…/``; ``None`` when it is no literal text."""
    if special.search(_SED_ESCAPE.sub("", text)) or any(c not in "./[]*^$&#@,:!~" for c in _SED_ESCAPE.findall(text)):
        return None
    return _SED_ESCAPE.sub(lambda m: m[1], text)


# -- searching ----------------------------------------------------------------------------------

_GREP_VALUED = frozenset(
    [
        "-A",
        "-B",
        "-C",
        "-m",
        "-e",
        "-f",
        "--include",
        "--exclude",
        "--exclude-dir",
        "--color",
        "-g",
        "--glob",
        "-t",
        "--type",
        "-T",
        "--max-count",
        "-d",
        "-D",
        "-j",
    ]
)


def _grep(call: Call) -> list[Operation]:
    arguments = call.arguments
    pattern = next((arguments[n + 1] for n, a in enumerate(arguments[:-1]) if a in ("-e", "--regexp")), None)
    plain = _plain(arguments, _GREP_VALUED)
    if pattern is None and plain:
        pattern, plain = plain[0], plain[1:]
    is_filter = not plain and call.stdin is None and not any(re.match(r"-\w*[rR]", a) for a in arguments)
    if call.words[0].text not in ("rg", "ag", "ack") and is_filter and not call.is_alone:
        return []  # the tail of a pipeline
    return [Search(path=call.path(p), pattern=pattern or "") for p in plain or ["."]]


def _find(call: Call) -> list[Operation]:
    arguments = call.arguments
    places: list[str] = []
    for text in arguments:
        if text.startswith(("-", "(", "!", ")")):
            break
        places.append(text)
    pattern = next(
        (arguments[n + 1] for n, a in enumerate(arguments[:-1]) if a in ("-name", "-iname", "-path", "-regex")), ""
    )
    paths = [call.path(p) for p in places or ["."]]
    made: list[Operation] = [
        Search(path=p, pattern=pattern) if pattern or "-exec" in arguments else ListFiles(path=p) for p in paths
    ]
    if all(is_outside(p) for p in paths):
        return made
    if "-delete" in arguments:
        made.append(Opaque(reason="find -delete", is_possible=True))
    for n, text in enumerate(arguments[:-1]):
        if text in ("-exec", "-execdir", "-ok") and _may_write(arguments[n + 1 :]):
            made.append(Opaque(reason="find -exec", is_possible=True))
    return made


_HARMLESS = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "cat",
        "head",
        "tail",
        "wc",
        "ls",
        "echo",
        "file",
        "stat",
        "basename",
        "dirname",
        "md5sum",
        "sha1sum",
        "rg",
        "nl",
    ]
)


def _may_write(arguments: Sequence[str]) -> bool:
    program = arguments[0].rsplit("/", 1)[-1] if arguments else ""
    return program not in _HARMLESS and not (program == "sed" and "-n" in arguments and "-i" not in arguments)


def _xargs(call: Call) -> list[Operation]:
    valued = {"-n", "-I", "-P", "-L", "-d", "-a", "-s"}
    rest = _after_options(call.words[1:], valued)
    if not rest:
        return []
    if rest[0].text in ("grep", "egrep", "rg"):
        return [Search(path=".", pattern=next(iter(_plain([w.text for w in rest[1:]])), ""))]
    if rest[0].text in ("cat", "head", "tail"):
        return []
    if not _may_write([w.text for w in rest]):
        return []
    if rest[0].text in ("sed", "rm", "mv", "cp", "touch", "perl", "git"):
        return [_whole(f"xargs {rest[0].text}")]
    return [Run(target=f"xargs {rest[0].text}")]


def _ls(call: Call) -> list[Operation]:
    return [ListFiles(path=call.path(p)) for p in _plain(call.arguments, frozenset(("-L", "-I"))) or ["."]]


# -- files --------------------------------------------------------------------------------------


def _tee(call: Call) -> list[Operation]:
    made: list[Operation] = []
    for word in call.words[1:]:
        if word.text.startswith("-") or word.text.startswith("/dev/"):
            continue
        path = call.path(word.text)
        if is_unknown(path):
            made.append(_whole("tee to an unknown file"))
        elif is_outside(path):
            made.append(Other(tool="write", target=path))
        elif not word.is_literal:
            made.append(_whole("tee to an unknown file"))
        elif call.stdin is None:
            made.append(Opaque(reason="output of a pipe", paths=(path,)))
        elif any(a in ("-a", "--append") for a in call.arguments):
            made.append(AppendFile(path=path, text=call.stdin))
        else:
            made.append(WriteFile(path=path, text=call.stdin))
    return made


def _literal_paths(call: Call, valued: frozenset[str] = frozenset()) -> list[str] | None:
    """The paths of the call, resolved; ``None`` when the shell would expand one inside the repository."""
    plain = _plain(call.arguments, valued)
    wild = {w.text for w in call.words if not w.is_literal}
    paths = [call.path(p) for p in plain]
    if any(
        (text in wild and not is_outside(path)) or is_unknown(path) for text, path in zip(plain, paths, strict=True)
    ):
        return None
    return paths


def _move_or_copy(call: Call) -> list[Operation]:
    name = call.words[0].text
    paths = _literal_paths(call)
    if paths is None or any(a in ("-t", "--target-directory") for a in call.arguments):
        return [_whole(f"{name} of files not named")]
    if len(paths) < 2:
        return []
    *sources, target = paths
    into = len(sources) > 1 or _plain(call.arguments)[-1].endswith("/") or target == "."
    made: list[Operation] = []
    for source in sources:
        end = _under(target, source) if into else target
        if is_outside(source) and is_outside(end):
            made.append(Other(tool=name, target=end))
        elif is_outside(source):
            made.append(Opaque(reason=f"{name} from outside the repository", paths=(end,)))
        elif is_outside(end):
            made.append(Delete(path=source, is_recursive=True) if name == "mv" else Read(path=source))
        else:
            made.append(Move(source=source, target=end) if name == "mv" else Copy(source=source, target=end))
    return made


def _under(folder: str, source: str) -> str:
    name = source.rsplit("/", 1)[-1]
    return name if folder == "." else f"{folder}/{name}"


def _rm(call: Call) -> list[Operation]:
    recursive = any(re.match(r"-\w*[rR]", a) or a == "--recursive" for a in call.arguments)
    wild = {w.text for w in call.words if not w.is_literal}
    made: list[Operation] = []
    for text in _plain(call.arguments):
        path = call.path(text)
        if is_unknown(path):
            made.append(_whole("rm of files not named"))
        elif is_outside(path):
            made.append(Other(tool="rm", target=path))
        elif text in wild:
            made.append(_whole("rm of files not named"))
        else:
            made.append(Delete(path=path, is_recursive=recursive))
    return made


def _guarded(path: str, operation: Operation, tool: str) -> Operation:
    if is_unknown(path):
        return _whole(f"{tool} of files not named")
    return Other(tool=tool, target=path) if is_outside(path) else operation


def _mkdir(call: Call) -> list[Operation]:
    paths = _literal_paths(call, frozenset(("-m",))) or []
    return [_guarded(p, MakeDirectory(path=p), "mkdir") for p in paths]


def _touch(call: Call) -> list[Operation]:
    paths = _literal_paths(call, frozenset(("-t", "-d", "-r"))) or []
    return [_guarded(p, AppendFile(path=p, text=""), "touch") for p in paths]


def _chmod(call: Call) -> list[Operation]:
    plain = [a for a in call.arguments if not re.fullmatch(r"-[Rvfc]+|--\w+", a)]
    if len(plain) < 2:
        return []
    mode = plain[0]
    made: list[Operation] = []
    for text in plain[1:]:
        path = call.path(text)
        if is_outside(path):
            made.append(Other(tool="chmod", target=path))
        elif re.fullmatch(r"[ua]*\+x|0?7[0-7]{2}", mode):
            made.append(SetMode(path=path, is_executable=True))
        elif re.fullmatch(r"[ua]*-x|0?6[0-7]{2}", mode):
            made.append(SetMode(path=path, is_executable=False))
    return made


def _patch(call: Call) -> list[Operation]:
    strip = 0
    reverse = False
    valued = frozenset(("-i", "-d", "-p", "--input", "--directory"))
    if any(a in ("--dry-run", "--check") for a in call.arguments):
        return [Run(target="patch --dry-run")]
    for n, text in enumerate(call.arguments):
        if match := re.fullmatch(r"(?:-p|--strip=)(\d+)", text):
            strip = int(match[1])
        elif text == "-p" and n + 1 < len(call.arguments) and call.arguments[n + 1].isdigit():
            strip = int(call.arguments[n + 1])
        elif text in ("-R", "--reverse"):
            reverse = True
    if call.stdin is None or any(a in ("-i", "-d") for a in call.arguments):
        named = [call.path(p) for p in _plain(call.arguments, valued)[:1]]
        return [Opaque(reason="patch", paths=tuple(p for p in named if not is_outside(p)) or (".",))]
    return [patch_of(call.stdin, strip, call.context, reverse)]


def patch_of(text: str, strip: int, context: Context, reverse: bool = False) -> Operation:
    """A patch with the files it touches inside the repository."""
    paths = [resolve(p, context) for p in patch_paths(text, strip)]
    inside = tuple(dict.fromkeys(p for p in paths if not is_outside(p) and p != "."))
    if not inside:
        return Other(tool="patch", target=paths[0] if paths else "")
    root = context.cwd if context.cwd and not is_outside(context.cwd) else ""
    return ApplyPatch(text=text, strip=strip, root=root, is_reversed=reverse, paths=inside)


# -- git ----------------------------------------------------------------------------------------

_QUIET_GIT = frozenset(
    [
        "add",
        "commit",
        "tag",
        "fetch",
        "push",
        "remote",
        "config",
        "init",
        "branch",
        "notes",
        "gc",
        "fsck",
        "reflog",
        "rev-parse",
        "describe",
        "rev-list",
        "cat-file",
        "ls-remote",
        "shortlog",
        "var",
        "worktree",
        "bisect",
        "help",
        "version",
        "check-ignore",
        "merge-base",
    ]
)


def _git(call: Call) -> list[Operation]:
    words = list(call.words[1:])
    context = call.context
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in ("-C", "-c", "--git-dir", "--work-tree") and words:
            value = words.pop(0).text
            if option == "-C":
                folder = resolve(value, context)
                context = msgspec.structs.replace(context, cwd="" if folder == "." else folder)
    if not words:
        return [Vcs(verb="help")]
    verb, rest = words[0].text, words[1:]
    inner = Call(words=tuple(words), stdin=call.stdin, context=context, is_alone=call.is_alone)
    if context.cwd and is_outside(context.cwd):
        return [Vcs(verb=verb)]
    match verb:
        case "diff" | "status" | "log" | "blame" | "show":
            return [Vcs(verb=verb)]
        case "ls-files" | "ls-tree":
            return [ListFiles(path=".")]
        case "grep":
            plain = _plain(inner.arguments, _GREP_VALUED)
            return [Search(path=inner.path(p), pattern=plain[0]) for p in plain[1:] or ["."]] if plain else []
        case "checkout" | "restore":
            return _git_restore(verb, rest, inner)
        case "reset":
            if any(w.text in ("--hard", "--merge", "--keep") for w in rest):
                ref = next((w.text for w in rest if not w.text.startswith("-")), "HEAD")
                return [Restore(paths=(".",), ref=ref)] if ref == "HEAD" else [_whole("git reset --hard")]
            return [Vcs(verb=verb)]
        case "stash":
            sub = next((w.text for w in rest if not w.text.startswith("-")), "push")
            return [Vcs(verb="stash")] if sub in ("list", "show", "drop", "clear") else [_whole(f"git stash {sub}")]
        case "clean":
            dry = any(w.text in ("-n", "--dry-run") for w in rest)
            return [Vcs(verb=verb)] if dry else [_whole("git clean")]
        case "apply" | "am":
            if any(w.text in ("--check", "--stat", "--numstat", "--summary") for w in rest):
                return [Vcs(verb=verb)]
            reverse = any(w.text in ("-R", "--reverse") for w in rest)
            strip = next((int(m[1]) for w in rest if (m := re.fullmatch(r"-p(\d+)", w.text))), 1)
            if inner.stdin is not None and not _plain([w.text for w in rest if w.text != "-"]):
                return [patch_of(inner.stdin, strip, context, reverse)]
            return [_whole(f"git {verb}")]
        case "rm":
            cached = any(w.text == "--cached" for w in rest)
            return [Vcs(verb=verb)] if cached else _rm(Call(inner.words, inner.stdin, context, False))
        case "mv":
            return _move_or_copy(Call((Word("mv"), *rest), inner.stdin, context, False))
        case "revert" | "merge" | "rebase" | "cherry-pick" | "pull" | "switch" | "bisect" | "submodule":
            return [_whole(f"git {verb}")]
        case _ if verb in _QUIET_GIT:
            return [Vcs(verb=verb)]
        case "clone":
            return [Vcs(verb=verb)]
        case _:
            return [Vcs(verb=verb)]


def _whole(reason: str) -> Operation:
    return Opaque(reason=reason, paths=(".",))


def _git_restore(verb: str, rest: Sequence[Word], call: Call) -> list[Operation]:
    texts = [w.text for w in rest]
    ref, paths, only_index = "HEAD", [], False
    if verb == "restore":
        skip = False
        for n, text in enumerate(texts):
            if skip:
                skip = False
            elif text in ("-s", "--source"):
                ref, skip = (texts[n + 1] if n + 1 < len(texts) else "HEAD"), True
            elif text.startswith("--source="):
                ref = text.partition("=")[2]
            elif text in ("--staged", "-S"):
                only_index = True
            elif text in ("--worktree", "-W"):
                only_index = False
            elif not text.startswith("-"):
                paths.append(text)
        if only_index:
            return [Vcs(verb=verb)]
    elif any(t in ("-b", "-B", "--orphan", "--detach") for t in texts):
        return [Vcs(verb=verb)]
    elif "--" in texts:
        at = texts.index("--")
        before = [t for t in texts[:at] if not t.startswith("-")]
        ref, paths = (before[0] if before else "HEAD"), texts[at + 1 :]
    else:
        plain = [t for t in texts if not t.startswith("-")]
        looks_like_path = [t for t in plain if "." in t.strip(".") or "/" in t or t == "."]
        if len(plain) >= 2 and plain[0] not in looks_like_path:
            ref, paths = plain[0], plain[1:]
        elif plain and plain[0] in ("HEAD",):
            return [Vcs(verb=verb)]
        elif plain and plain == looks_like_path:
            paths = plain
        else:
            return [_whole("git checkout")]
    if any(not w.is_literal for w in rest):
        return [_whole(f"git {verb}")]
    made: list[Operation] = []
    for text in paths:
        path = call.path(text)
        made.append(_guarded(path, Restore(paths=(path,), ref=ref), verb))
    return made or [Vcs(verb=verb)]


# -- running ------------------------------------------------------------------------------------

_PYTEST_VALUED = frozenset(
    [
        "-k",
        "-m",
        "-n",
        "-p",
        "-c",
        "-o",
        "-W",
        "--tb",
        "--maxfail",
        "--rootdir",
        "--deselect",
        "--ignore",
        "--timeout",
        "--cov",
        "--cov-report",
        "--durations",
        "--color",
        "--capture",
        "--basetemp",
        "--dist",
        "--override-ini",
        "--import-mode",
        "--confcutdir",
        "--junitxml",
        "--log-level",
    ]
)
_UNITTEST_VALUED = frozenset(("-k", "-s", "-p", "-t", "--settings", "-j", "--parallel", "--tag", "-v2"))
_TEST_PROGRAMS = frozenset(
    [
        "pytest",
        "py.test",
        "tox",
        "nox",
        "nosetests",
        "unittest",
        "jest",
        "vitest",
        "mocha",
        "ctest",
        "rspec",
        "runtests.py",
        "behave",
        "trial",
    ]
)
_LINTERS = frozenset(
    [
        "mypy",
        "flake8",
        "pylint",
        "pyflakes",
        "eslint",
        "tsc",
        "pyright",
        "shellcheck",
        "pycodestyle",
        "pydocstyle",
        "bandit",
    ]
)
_FORMATTERS = frozenset(
    ["black", "isort", "autopep8", "yapf", "prettier", "gofmt", "rustfmt", "autoflake", "pyupgrade", "docformatter"]
)
_BUILDERS = frozenset(["make", "cmake", "ninja", "gcc", "g++", "clang", "rustc", "javac", "bazel", "msbuild", "meson"])
_PIPS = frozenset(["pip", "pip3", "pipx", "conda", "mamba", "apt", "apt-get", "yum", "dnf", "apk", "brew", "gem"])


def _shown(call: Call) -> str:
    text = " ".join(w.text for w in call.words)
    return text if len(text) <= 200 else text[:199] + "…"


def test_target(call: Call, valued: frozenset[str], names: Sequence[str] | None = None) -> str:
    """What a test run covers, as given: files and test names, ``-k`` expressions; ``.`` for everything."""
    arguments = call.arguments
    plain = list(names) if names is not None else _plain(arguments, valued)
    targets = []
    for text in plain:
        path, colons, test = text.partition("::")
        targets.append(call.path(path) + colons + test if "/" in path or path.endswith(".py") or not colons else text)
    chosen = [arguments[n + 1] for n, a in enumerate(arguments[:-1]) if a == "-k"]
    return " ".join([*(targets or ["."]), *(f"-k {k}" for k in chosen)])


def _validate(call: Call, runner: str, valued: frozenset[str]) -> list[Operation]:
    if any(a in ("--version", "--help", "-h", "--fixtures", "--markers") for a in call.arguments):
        return [Run(target=f"{runner} --help")]
    if runner == "pytest" and any(a in ("--collect-only", "--co") for a in call.arguments):
        return [ListFiles(path=test_target(call, valued))]
    return [Validate(kind="test", target=test_target(call, valued), command=_shown(call), runner=runner)]


def _test(call: Call) -> list[Operation]:
    name = call.words[0].text.rsplit("/", 1)[-1]
    runner = "pytest" if name in ("pytest", "py.test") else name
    return _validate(call, runner, _PYTEST_VALUED if runner == "pytest" else _UNITTEST_VALUED)


def _python(call: Call) -> list[Operation]:
    words = call.words
    n = 1
    while n < len(words) and words[n].text.startswith("-") and words[n].text not in ("-c", "-m", "-"):
        n += 2 if words[n].text in ("-W", "-X") else 1
    if n >= len(words) or words[n].text == "-":
        if call.stdin is not None:
            return script_of("python -", call.stdin, call.context)
        return [Run(target="python -")] if call.is_alone else [Opaque(reason="python -", is_possible=True)]
    text = words[n].text
    if text == "-c":
        code = words[n + 1] if n + 1 < len(words) else Word("")
        return script_of("python -c", code.text, call.context)
    if text == "-m" and n + 1 < len(words):
        module = words[n + 1].text
        inner = Call((words[n + 1], *words[n + 2 :]), call.stdin, call.context, call.is_alone)
        if module in ("pytest", "py.test"):
            return _validate(inner, "pytest", _PYTEST_VALUED)
        if module in ("unittest", "nose", "tox", "nox", "trial", "behave"):
            plain = [p for p in _plain(inner.arguments, _UNITTEST_VALUED) if p != "discover"]
            target = test_target(inner, _UNITTEST_VALUED, plain)
            return [Validate(kind="test", target=target, command=_shown(call), runner=module)]
        if module == "coverage":
            return operations_of("", Call(unwrapped(inner.words), call.stdin, call.context, False))
        if module == "pip":
            return _install(inner)
        if module in _FORMATTERS or module in _LINTERS or module in ("ruff", "py_compile", "compileall"):
            return operations_of(module, inner)
        return [Run(target=f"python -m {module}")]
    script = call.path(text)
    name = script.rsplit("/", 1)[-1]
    rest = [w.text for w in words[n + 1 :]]
    if name in ("runtests.py", "runtests") or (name == "manage.py" and rest[:1] == ["test"]):
        plain = _plain(rest[1:] if name == "manage.py" else rest, _UNITTEST_VALUED)
        target = " ".join(plain) or "."
        return [Validate(kind="test", target=target, command=_shown(call), runner="unittest")]
    if name == "setup.py" and rest[:1] in (["develop"], ["install"]):
        return [Install(target=".")]
    if name == "setup.py" and rest[:1] == ["test"]:
        return [Validate(kind="test", target=".", command=_shown(call), runner="unittest")]
    if name == "setup.py" and rest:
        return [Validate(kind="build", target=" ".join(rest[:1]), command=_shown(call), runner="setup.py")]
    return [Run(target=script)]


_PY_OPEN = re.compile(
    r"""open\(\s*(?:[rf]?(?P<q>['"])(?P<path>[^'"\n]+)(?P=q)|(?P<name>\w+))[^)\n]*?['"][wax]b?\+?['"]"""
)
_PY_PATH_WRITE = re.compile(
    r"""Path\(\s*(?P<q>['"])(?P<path>[^'"\n]+)(?P=q)\s*\)\s*\.\s*(?:write_text|write_bytes|unlink|touch)"""
)
_PY_VARIABLE = re.compile(
    r"""^\s*(?P<name>\w+)\s*=\s*(?:\w+\.)?(?:Path\()?\s*(?P<q>['"])(?P<path>[^'"\n]+)(?P=q)\)?\s*$""", re.M
)
_PY_METHOD_WRITE = re.compile(r"\b(?P<name>\w+)\.(?:write_text|write_bytes|unlink|touch)\(")
_PY_REMOVE = re.compile(r"""os\.(?:remove|unlink)\(\s*(?P<q>['"])(?P<path>[^'"\n]+)(?P=q)""")
_PY_WRITES = re.compile(
    r"""open\([^)\n]*['"][wax]b?\+?['"]|\.write_(?:text|bytes)\(|writeFileSync|shutil\.|os\.(?:remove|unlink|rename|replace|system)"""
    r"""|\.unlink\(|subprocess|fileinput|\.touch\("""
)


def script_of(name: str, code: str, context: Context) -> list[Operation]:
    """An inline script: opaque for the files that it opens for writing, else a plain run."""
    if _PY_WRITES.search(code) is None:
        return [Run(target=name)]
    named = {m["name"]: m["path"] for m in _PY_VARIABLE.finditer(code)}
    found: dict[str, None] = {}
    unknown = 0
    for match in _PY_OPEN.finditer(code):
        path = match["path"] or named.get(match["name"] or "")
        if path is None:
            unknown += 1
        else:
            found[path] = None
    for match in _PY_METHOD_WRITE.finditer(code):
        if match["name"] in named:
            found[named[match["name"]]] = None
        else:
            unknown += 1
    for pattern in (_PY_PATH_WRITE, _PY_REMOVE):
        for match in pattern.finditer(code):
            found[match["path"]] = None
    if not found or unknown:
        is_lost = True
    else:
        is_lost = re.search(r"shutil\.|subprocess|os\.system|os\.(?:rename|replace)|fileinput", code) is not None
    made: list[Operation] = []
    for text in found:
        path = resolve(text, context)
        if is_outside(path):
            made.append(Other(tool="write", target=path))
        else:
            made.append(Opaque(reason=name, paths=(path,)))
    if is_lost:
        made.append(Opaque(reason=name, is_possible=True))
    return made


def _perl(call: Call) -> list[Operation]:
    in_place = any(re.match(r"-\w*i", a) for a in call.arguments)
    if not in_place:
        return [Run(target="perl")]
    files = _plain(call.arguments, frozenset(("-e", "-pe", "-pie", "-i", "-ne", "-0pe", "-0777pe", "-0777")))
    wild = {w.text for w in call.words if not w.is_literal}
    files = [f for f in files if f not in wild and ("." in f or "/" in f) and " " not in f]
    paths = [call.path(f) for f in files]
    inside = [p for p in paths if not is_outside(p)]
    return [Opaque(reason="perl -i", paths=(p,)) for p in inside] or [Opaque(reason="perl -i", is_possible=bool(paths))]


def _lint(call: Call) -> list[Operation]:
    name = call.words[0].text.rsplit("/", 1)[-1]
    targets = [call.path(p) for p in _plain(call.arguments)]
    if name == "ruff" and call.arguments[:1] in (["check"], ["format"]):
        writes = "--fix" in call.arguments or (call.arguments[0] == "format" and "--check" not in call.arguments)
        if writes:
            return _formatter(Call(call.words[1:], call.stdin, call.context, False))
        targets = targets[1:]
    if "--fix" in call.arguments:
        return _formatter(call)
    target = " ".join([name, *targets]) if targets else name
    return [Validate(kind="lint", target=target, command=_shown(call), runner=name)]


def _formatter(call: Call) -> list[Operation]:
    name = call.words[0].text.rsplit("/", 1)[-1]
    plain = [call.path(p) for p in _plain(call.arguments, frozenset(("-l", "--line-length", "--config")))]
    if any(a in ("--check", "--diff", "--check-only", "-c", "-l") for a in call.arguments):
        return [Validate(kind="lint", target=" ".join([name, *plain]), command=_shown(call), runner=name)]
    if name in ("prettier", "gofmt", "autopep8", "yapf") and not any(
        a in ("-w", "--write", "-i", "--in-place") for a in call.arguments
    ):
        return [Read(path=p) for p in plain]
    return [Opaque(reason=name, paths=(p,)) for p in plain if not is_outside(p)] or [Opaque(reason=name)]


def _compile(call: Call) -> list[Operation]:
    paths = [call.path(p) for p in _plain(call.arguments)]
    name = call.words[0].text
    return [Validate(kind="build", target=" ".join(paths) or name, command=_shown(call), runner=name)]


def _build(call: Call) -> list[Operation]:
    name = call.words[0].text.rsplit("/", 1)[-1]
    targets = _plain(call.arguments, frozenset(("-C", "-f", "-o", "-B", "-S")))
    if name == "make" and any(re.match(r"(?:unit[-_]?)?(?:tests?|check)\b", t) for t in targets):
        return [Validate(kind="test", target=" ".join(["make", *targets]), command=_shown(call), runner="make")]
    if name == "make" and any("lint" in t for t in targets):
        return [Validate(kind="lint", target=" ".join(["make", *targets]), command=_shown(call), runner="make")]
    target = " ".join([name, *targets])
    return [Validate(kind="build", target=target, command=_shown(call), runner=name)]


def _package_manager(call: Call) -> list[Operation]:
    """npm, cargo, go, mvn, gradle and their like: the subcommand decides."""
    name = call.words[0].text.rsplit("/", 1)[-1]
    own = call.arguments[: call.arguments.index("--")] if "--" in call.arguments else call.arguments
    plain = _plain(own, frozenset(("--prefix", "-C", "--manifest-path", "-p", "--package", "-run")))
    if name in ("npx", "pnpx", "bunx"):
        return operations_of(plain[0], Call(call.words[1:], call.stdin, call.context, False)) if plain else []
    verb = plain[0] if plain else ""
    if verb == "run" and len(plain) > 1 and name in ("npm", "pnpm", "yarn", "bun", "mise"):
        plain = plain[1:]
        verb = plain[0]
    rest = plain[1:]
    if verb in ("test", "t", "check") or (verb.startswith("test") and name not in ("go", "cargo")):
        kind = "build" if verb == "check" and name == "cargo" else "test"
        target = " ".join(rest) or "."
        return [Validate(kind=kind, target=target, command=_shown(call), runner=name)]  # type: ignore[arg-type]
    if verb in ("install", "i", "ci", "add", "get", "sync", "update", "remove", "uninstall"):
        made: list[Operation] = [Install(target=" ".join(rest) or ".")]
        if verb != "ci":
            made.append(Opaque(reason=f"{name} {verb}", is_possible=True))
        return made
    if verb in ("build", "compile", "package", "vet", "tsc"):
        return [Validate(kind="build", target=f"{name} {verb}", command=_shown(call), runner=name)]
    if verb in ("lint", "clippy", "typecheck"):
        return [Validate(kind="lint", target=f"{name} {verb}", command=_shown(call), runner=name)]
    if verb in ("fmt", "format", "generate", "mod"):
        return [Opaque(reason=f"{name} {verb}", is_possible=True)]
    return [Run(target=f"{name} {verb}".strip())]


def _install(call: Call) -> list[Operation]:
    plain = _plain(call.arguments, frozenset(("-r", "-i", "--index-url", "-c", "-n", "--name", "-t", "--target")))
    if plain and plain[0] in ("install", "uninstall", "create", "remove", "upgrade", "update"):
        names = plain[1:]
        files = [f"-r {a}" for n, a in enumerate(call.arguments) if n and call.arguments[n - 1] == "-r"]
        return [Install(target=" ".join([*names, *files]) or ".")]
    return [Run(target=" ".join(["pip" if "pip" in call.words[0].text else call.words[0].text, *plain[:1]]))]


def _source(call: Call) -> list[Operation]:
    paths = _plain(call.arguments)
    if paths and ("activate" in paths[0] or paths[0].endswith(("conda.sh", ".bashrc", ".profile"))):
        return []
    return [Run(target=call.path(p)) for p in paths[:1]]


def _node(call: Call) -> list[Operation]:
    arguments = call.arguments
    if arguments[:1] and arguments[0] in ("-e", "--eval", "-p"):
        return script_of("node -e", arguments[1] if len(arguments) > 1 else "", call.context)
    plain = _plain(arguments)
    if not plain and call.stdin is not None:
        return script_of("node -", call.stdin, call.context)
    return [Run(target=call.path(plain[0]) if plain else "node")]


def _shell_script(call: Call) -> list[Operation]:
    plain = _plain(call.arguments)
    return [Run(target=call.path(plain[0]))] if plain else [Run(target="bash")]


def _ln(call: Call) -> list[Operation]:
    paths = _literal_paths(call) or []
    return [_guarded(paths[-1], Opaque(reason="ln", paths=(paths[-1],)), "ln")] if len(paths) > 1 else []


def _awk(call: Call) -> list[Operation]:
    files = _plain(call.arguments, frozenset(("-F", "-v", "-f")))[1:]
    if "inplace" in call.arguments:
        return [Opaque(reason="awk -i inplace", paths=(call.path(f),)) for f in files if not is_outside(call.path(f))]
    return [Read(path=call.path(f)) for f in files]


def _download(call: Call) -> list[Operation]:
    name = call.words[0].text
    out = next(
        (b for a, b in zip(call.arguments, call.arguments[1:], strict=False) if a in ("-o", "-O", "--output")), None
    )
    if out is None or out.startswith(("-", "http")):
        return [Run(target=name)] if name == "curl" and "-O" not in call.arguments else [Opaque(reason=name)]
    path = call.path(out)
    return [Run(target=name), _guarded(path, Opaque(reason=name, paths=(path,)), name)]


Program = Callable[[Call], list[Operation]]


def _nothing(call: Call) -> list[Operation]:
    return []


_PROGRAMS: dict[str, Program] = {
    **dict.fromkeys(("cat", "nl", "less", "more", "bat"), _cat),
    **dict.fromkeys(("head", "tail"), _head),
    **dict.fromkeys(("wc", "file", "stat", "diff", "cmp", "od", "xxd", "hexdump", "strings", "md5sum"), _reads),
    **dict.fromkeys(("jq", "sort", "uniq", "cut", "tr", "column", "fold"), _nothing),
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "perl": _perl,
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag", "ack"), _grep),
    **dict.fromkeys(("find", "fd"), _find),
    "xargs": _xargs,
    **dict.fromkeys(("ls", "tree", "ll", "dir", "du"), _ls),
    "tee": _tee,
    **dict.fromkeys(("mv", "cp"), _move_or_copy),
    "rm": _rm,
    "unlink": _rm,
    "rmdir": _nothing,
    "mkdir": _mkdir,
    "touch": _touch,
    "chmod": _chmod,
    "ln": _ln,
    "patch": _patch,
    "git": _git,
    **dict.fromkeys(_TEST_PROGRAMS, _test),
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3"), _python),
    **dict.fromkeys(("node", "deno", "ruby"), _node),
    **dict.fromkeys(_LINTERS, _lint),
    "ruff": _lint,
    **dict.fromkeys(_FORMATTERS, _formatter),
    **dict.fromkeys(("py_compile", "compileall"), _compile),
    **dict.fromkeys(_BUILDERS, _build),
    **dict.fromkeys(
        [
            "npm",
            "pnpm",
            "yarn",
            "bun",
            "npx",
            "pnpx",
            "bunx",
            "go",
            "cargo",
            "mvn",
            "mvnw",
            "gradle",
            "gradlew",
            "dotnet",
            "mix",
            "mise",
            "composer",
            "uv",
            "poetry",
            "pdm",
            "rye",
            "pipenv",
            "hatch",
        ],
        _package_manager,
    ),
    **dict.fromkeys(_PIPS, _install),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("bash", "sh", "zsh"), _shell_script),
    **dict.fromkeys(("curl", "wget"), _download),
    **dict.fromkeys(
        ("pwd", "whoami", "date", "env", "printenv", "uname", "id", "history", "hostname", "nproc"), _nothing
    ),
}
_VERSIONED = re.compile(r"(python|pip|pypy)[\d.]+")


def operations_of(program: str, call: Call) -> list[Operation]:
    """What one command does. ``program`` is its name without folder; empty: take it from the call."""
    name = program or (call.words[0].text.rsplit("/", 1)[-1] if call.words else "")
    found = _PROGRAMS.get(name)
    if found is None and "/" in name:
        base = name.rsplit("/", 1)[-1]
        found = _PROGRAMS.get(base) if base in _TEST_PROGRAMS or base in ("mvnw", "gradlew") else None
    if found is None and (match := _VERSIONED.fullmatch(name)):
        found = _PROGRAMS.get(match[1])
    if found is not None:
        return found(call)
    if not call.words or not call.words[0].is_literal:
        return [Run(target="unknown")]
    return [Run(target=call.path(name) if "/" in name else name)]
