"""What answers of commands show: variables, processes, the system, versions of interpreters.

Each reader takes a whole output and gives pairs of name and value; nothing is read into text that merely looks alike,
so a reader is asked only for the output of its own command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MOST = 200
_LONGEST = 100_000

_ASSIGNED = re.compile(r"^(?P<name>[A-Za-z_]\w*)=(?P<value>.*?)\r?$", re.M)


def variables(text: str) -> Iterator[tuple[str, str]]:
    """Variables that ``env`` printed."""
    for count, match in enumerate(_ASSIGNED.finditer(text, 0, _LONGEST)):
        if count == _MOST:
            return
        yield match["name"], match["value"]


_HEADER = re.compile(r"^[ \t]*(?:USER|UID|PID|F)\b[^\r\n]*\b(?P<column>COMMAND|CMD)[ \t]*\r?$", re.M)
_SHELLS = frozenset(("bash", "sh", "-bash", "zsh", "ps", "/bin/bash", "/bin/sh", "/usr/bin/bash"))


def processes(text: str) -> list[tuple[str, str]] | None:
    """(command, number) of every process in a table of ``ps``, without shells and the kernel's own; ``None`` when it
    has no heading, so that nobody knows what its columns are."""
    heading = _HEADER.search(text, 0, _LONGEST)
    if heading is None:
        return None
    names = heading.group().split()
    if "PID" not in names:
        return None
    number, columns = names.index("PID"), len(names) - 1
    found: list[tuple[str, str]] = []
    for line in text[heading.end() : _LONGEST].splitlines():
        fields = line.split(None, columns)
        if len(fields) <= columns or not fields[number].isdigit():
            continue
        command = fields[columns].strip()
        program = command.split(None, 1)[0] if command else ""
        if not command or command.startswith("[") or command in _SHELLS or program == "ps":
            continue
        found.append((command, fields[number]))
        if len(found) == _MOST:
            break
    return found


_RELEASE = re.compile(r'^PRETTY_NAME="?(?P<name>[^"\r\n]{1,200})"?\r?$', re.M)
_KERNEL = re.compile(r"^(?:Linux|Darwin|FreeBSD|MINGW\w*|CYGWIN\w*)\b[^\r\n]{0,300}$", re.M)
_VERSIONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.M))
    for name, pattern in (
        ("python", r"^Python (\d[\w.+]*)"),
        ("pypy", r"^\[PyPy (\d[\w.]*)"),
        ("pip", r"^pip (\d[\w.]*) from "),
        ("conda", r"^conda (\d[\w.]*)"),
        ("git", r"^git version (\d[\w.]*)"),
        ("go", r"^go version go(\d[\w.]*)"),
        ("rustc", r"^rustc (\d[\w.-]*)"),
        ("cargo", r"^cargo (\d[\w.-]*)"),
        ("java", r'^(?:openjdk|java) (?:version )?"?(\d[\w.+]*)'),
        ("gcc", r"^gcc \([^)\n]*\) (\d[\w.]*)"),
        ("ruby", r"^ruby (\d[\w.]*)"),
        ("php", r"^PHP (\d[\w.]*)"),
        ("bash", r"^GNU bash, version (\d[\w.()-]*)"),
        ("cmake", r"^cmake version (\d[\w.]*)"),
        ("make", r"^GNU Make (\d[\w.]*)"),
        ("poetry", r"^Poetry \(?version (\d[\w.]*)"),
        ("uv", r"^uv (\d[\w.]*)"),
        ("docker", r"^Docker version (\d[\w.]*)"),
    )
)
_BARE = re.compile(r"\A\s*v?(?P<version>\d+\.\d+[\w.+-]*)\s*\Z")
_ASKS = frozenset(("--version", "-V", "-v", "version", "-version"))
_BARE_PROGRAMS = frozenset(("node", "npm", "yarn", "pnpm", "bun", "deno", "tsc"))


def asks_version(words: Sequence[str]) -> bool:
    """Whether a command only asks a program for its version."""
    return len(words) == 2 and words[1] in _ASKS


def system(text: str, asked: Sequence[Sequence[str]] = ()) -> Iterator[tuple[str, str]]:
    """What the output says of the system. ``asked``: the commands that asked for a version, when nothing else spoke."""
    text = text[:_LONGEST]
    if "PRETTY_NAME=" in text and (match := _RELEASE.search(text)):
        yield "distribution", match["name"].strip()
    if asked:
        for name, pattern in _VERSIONS:
            if match := pattern.search(text):
                yield name, match[1]
        program = asked[0][0].rsplit("/", 1)[-1]
        if len(asked) == 1 and program in _BARE_PROGRAMS and (match := _BARE.match(text)):
            yield program, match["version"]


def kernel(text: str) -> str | None:
    """What ``uname`` printed, when it names a kernel."""
    match = _KERNEL.search(text, 0, 4_000)
    return match.group().strip() if match else None


_PYTEST = re.compile(
    r"^platform (?P<platform>\w+) -- Python (?P<python>\d[\w.+]*)[^,\n]{0,60}, pytest-(?P<pytest>\d[\w.]*)"
    r"(?:, py-[\w.]+)?(?:, pluggy-(?P<pluggy>\d[\w.]*))?",
    re.M,
)


def test_heading(text: str) -> Iterator[tuple[str, str, str]]:
    """(kind, name, value) from the line that pytest prints above its tests."""
    start = text.find("platform ", 0, _LONGEST)
    match = _PYTEST.search(text, start, start + 2_000) if start >= 0 else None
    if match is None:
        return
    yield "system", "python", match["python"]
    yield "package", "pip pytest", match["pytest"]
    if match["pluggy"]:
        yield "package", "pip pluggy", match["pluggy"]
