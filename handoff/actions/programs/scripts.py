"""Interpreters: scripts by name, modules, and code given in the line itself.

Inline code that writes files is an edit of the files it names; what it writes is not derived.
"""

from __future__ import annotations

import re
from typing import Literal

from handoff.actions.operations import Install, Opaque, Operation, Other, Run, Validate
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs.call import Call
from handoff.actions.programs.packages import PIPS
from handoff.actions.programs.runners import FORMATTERS, LINTERS, RUNNERS, django
from handoff.shell import Word

_DJANGO_SCRIPTS = frozenset(("runtests.py", "runtests"))
_INNER_MODULES = frozenset((*RUNNERS, *LINTERS, *FORMATTERS, *PIPS, "py_compile", "compileall", "coverage"))


def python(call: Call) -> list[Operation] | Call:
    """``python``: a script, a module (which may be a program of its own), or code."""
    words = call.words
    place = 1
    while place < len(words) and words[place].text.startswith("-") and words[place].text not in ("-c", "-m", "-"):
        if words[place].text in ("--version", "-V", "--help"):
            return [Run(target="python")]
        place += 2 if words[place].text in ("-W", "-X") else 1
    if place >= len(words) or words[place].text == "-":
        if call.stdin is not None:
            return script_of("python -", call.stdin, call.context)
        return [Run(target="python -"), *([] if call.is_alone else [Opaque(reason="python -", is_possible=True)])]
    text, rest = words[place].text, words[place + 1 :]
    if text == "-c":
        return script_of("python -c", rest[0].text if rest else "", call.context)
    if text == "-m":
        return _module(call, rest)
    return _python_script(call, text, rest)


def _module(call: Call, rest: tuple[Word, ...]) -> list[Operation] | Call:
    if not rest:
        return [Run(target="python -m")]
    if rest[0].text in _INNER_MODULES:
        return call.inner(rest)
    return [Run(target=f"python -m {rest[0].text}")]


def _python_script(call: Call, text: str, rest: tuple[Word, ...]) -> list[Operation] | Call:
    script = call.path(text)
    name = script.rsplit("/", 1)[-1]
    verb = rest[0].text if rest else ""
    if name in _DJANGO_SCRIPTS or text.endswith(("/bin/pytest", "/bin/py.test")):
        return call.inner((Word(name), *rest))
    if name == "manage.py" and verb == "test":
        return django(call.inner(rest))
    if name == "setup.py" and verb in ("develop", "install"):
        return [Install(target=".")]
    if name == "setup.py" and verb:
        kind: Literal["test", "build"] = "test" if verb == "test" else "build"
        target = "." if kind == "test" else verb
        return [Validate(kind=kind, target=target, command=call.shown, runner="setup.py")]
    return [Run(target=script)]


_INLINE = frozenset(("-e", "--eval", "-p", "--print", "-pe", "-c", "-r"))


_PERL_WRITES = re.compile(
    r"""\bopen\b[^;]*?["']\s*\+?>|\bopen\b[^;]*?,\s*["']\+?[>|]|\b(?:unlink|rename|system|exec|symlink|link|mkdir|rmdir|chmod|"""
    r"""truncate)\b|`|\bqx\b|\bFile::|\|\s*["']"""
)


def perl_writes(code: str) -> bool:
    """Whether Perl code may change files by itself."""
    return _PERL_WRITES.search(code) is not None


def other_script(call: Call) -> list[Operation]:
    """``node``, ``ruby``, ``php``, ``deno run`` …: a script by name, or code."""
    name, arguments = call.name, call.arguments
    for place, text in enumerate(arguments):
        if text in _INLINE and not (name in ("node", "ruby") and text == "-r") and place + 1 < len(arguments):
            return script_of(f"{name} {text}", arguments[place + 1], call.context)
    plain = call.plain(("-r", "--require", "--import", "--loader", "-I"))
    if not plain and call.stdin is not None:
        return script_of(f"{name} -", call.stdin, call.context)
    return [Run(target=call.path(plain[0]) if plain else name)]


def shell_script(call: Call) -> list[Operation]:
    """``bash script.sh``."""
    plain = call.plain(("-o", "-O"))
    if plain and call.has("-n"):  # a look at the syntax
        paths = [call.path(text) for text in plain]
        return [Validate(kind="lint", target=" ".join([call.name, *paths]), command=call.shown, runner=call.name)]
    return [Run(target=call.path(plain[0]) if plain else call.name)]


def source(call: Call) -> list[Operation]:
    """``source``: activating an environment is no action."""
    path = next(iter(call.plain()), "")
    if not path or "activate" in path or path.endswith((".bashrc", ".profile", ".zshrc", ".nvm/nvm.sh", "conda.sh")):
        return []
    return [Run(target=call.path(path))]


# -- what inline code writes --------------------------------------------------------------------

_MODE = r"""[^)\n]{0,200}?['"](?:[wax]b?\+?|r\+)['"]"""
_LITERAL = r"""(?:[rbu]?(?P<q>['"])(?P<path>[^'"\n]{1,300})(?P=q))"""
_TOUCHING = r"(?:write_text|write_bytes|unlink|touch|rename|replace)\("
_PLACES = (
    re.compile(rf"\bopen\(\s{{0,20}}(?:{_LITERAL}|(?P<name>\w{{1,80}}))\s{{0,20}},{_MODE}"),
    re.compile(rf"\bPath\(\s{{0,20}}(?:{_LITERAL}|(?P<name>\w{{1,80}}))\s{{0,20}}\)\.{_TOUCHING}"),
    re.compile(rf"\bos\.(?:remove|unlink)\(\s{{0,20}}(?:{_LITERAL}|(?P<name>\w{{1,80}}))\s{{0,20}}\)"),
    re.compile(rf"\b(?:writeFileSync|writeFile|appendFileSync|File\.write|file_put_contents)\(\s{{0,20}}{_LITERAL}"),
    re.compile(rf"\bPath\(\s{{0,20}}(?:{_LITERAL}|(?P<name>\w{{1,80}}))\s{{0,20}}\)\.open\(\s{{0,20}}['\"][wax]"),
    re.compile(r"\b(?P<name>[A-Za-z_]\w{0,80})\.open\(\s{0,20}['\"][wax](?P<path>)"),
    re.compile(r"\b(?P<name>[A-Za-z_]\w{0,80})\.(?:write_text|write_bytes|unlink|touch)\((?P<path>)"),
)
"""Where a file is opened for writing: by a literal ``path``, or by the ``name`` of a variable."""
_ASSIGNED = re.compile(
    rf"""^[ \t]{{0,80}}(?P<name>\w{{1,80}})[ ]?=[ ]?(?:(?:pathlib\.)?Path\([ ]?)?{_LITERAL}[ ]?\)?[ \t]{{0,20}};?$""",
    re.M,
)
_UNNAMED = re.compile(
    rf"""\bopen\([^,)\n]{{1,200}},{_MODE}|\.write_(?:text|bytes)\(|writeFile|appendFile|\bFile\.write|file_put_contents"""
    r"""|\.(?:unlink|touch)\(|\bos\.(?:remove|unlink)\(|\.open\(\s{0,20}['"][wax]"""
)
"""A write, with or without a file that can be told."""
_WRITE_HINTS = (
    "open(",
    ".write_",
    "writeFile",
    "appendFile",
    "File.write",
    "file_put",
    ".unlink(",
    ".touch(",
    "os.remove(",
)
_BEYOND_HINTS = (
    *(
        "shutil",
        "subprocess",
        "os.",
        "fileinput",
        "child_process",
        "Sync(",
        "createWriteStream",
        "fs.",
        "fs/",
        ".rename(",
    ),
    *(
        ".rename(",
        ".replace(",
        "_to(",
        ".rmdir(",
        ".chmod(",
        "exec(",
        "eval(",
        "__import__",
        "runpy",
        "importlib",
        "FileUtils",
    ),
    *("File.", "Dir.", "IO.write"),
)
_LONGEST = 100_000
"""Characters of code that are looked at."""
_BEYOND = re.compile(
    r"\bshutil\b|subprocess|\bos\.(?:system|rename|replace|makedirs|mkdir|popen|chmod|chdir|link|symlink|truncate|exec|"
    r"spawn|rmdir|removedirs|posix_spawn|open|fdopen)|fileinput|child_process|createWriteStream|fs/promises|"
    r"\b(?:exec|spawn|unlink|rm|rename|copyFile|cp|rmdir|mkdir|chmod|symlink|link|truncate|write)Sync\(|"
    r"\bfs(?:\.promises)?\.(?:unlink|rm|rename|copyFile|cp|rmdir|chmod|symlink|link|truncate)\(|"
    r"\.(?:rename|symlink_to|hardlink_to|rmdir|chmod)\(|\.replace\(\s{0,9}(?:\w+|'[^'\n]*'|\"[^\"\n]*\")\s{0,9}\)|"
    r"(?<![.\w])(?:exec|eval|__import__)\(|\brunpy\b|\bimportlib\b|\bFileUtils\b|"
    r"\bFile\.(?:delete|rename|unlink|open|chmod|symlink)\b|\bDir\.(?:mkdir|rmdir|delete)\b|\bIO\.write\b"
)
"""Code that may touch any file."""


def script_of(name: str, code: str, context: Context) -> list[Operation]:
    """An inline script: an edit of the files that it opens for writing, else a run of ``name``."""
    if len(code) > _LONGEST:
        return [Run(target=name), Opaque(reason=name, is_possible=True)]
    is_beyond = any(hint in code for hint in _BEYOND_HINTS) and _BEYOND.search(code) is not None
    writes, known, found = _written(code)
    if not writes:
        return [Run(target=name), *([Opaque(reason=name, is_possible=True)] if is_beyond else [])]
    made: list[Operation] = []
    for text in found:
        path = resolve(text, context)
        made.append(Other(tool="write", target=path) if is_outside(path) else Opaque(reason=name, paths=(path,)))
    if not found:
        return [Opaque(reason=name, paths=(".",), is_possible=True)]
    return [*made, Opaque(reason=name, is_possible=True)] if is_beyond or known < writes else made


def _written(code: str) -> tuple[int, int, dict[str, None]]:
    """Writes in the code, how many of them name their file, and those files, each once."""
    found: dict[str, None] = {}
    if not any(hint in code for hint in _WRITE_HINTS):
        return 0, 0, found
    writes = sum(1 for _ in _UNNAMED.finditer(code))
    if not writes:
        return 0, 0, found
    named = {match["name"]: match["path"] for match in _ASSIGNED.finditer(code)}
    known = 0
    for pattern in _PLACES:
        for match in pattern.finditer(code):
            path = match["path"] or named.get(match.groupdict().get("name") or "")
            if path is not None and "{" not in path:
                known += 1
                found[path] = None
    return writes, known, found


def has_unnamed_writes(code: str) -> bool:
    """Whether the code writes a file that it does not name in a literal."""
    writes, known, _ = _written(code[:_LONGEST])
    return known < writes or len(code) > _LONGEST
