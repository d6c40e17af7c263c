"""Programs that show files or look for something: ``cat``, ``head``, ``ls``, ``grep``, ``find``, ``awk``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from handoff.actions.operations import ListFiles, Opaque, Operation, Read, Run, Search
from handoff.actions.paths import is_outside
from handoff.actions.programs.call import Call, after_options, anywhere, listed, plain

_COUNTED = frozenset(("-n", "-c", "--lines", "--bytes"))
_COUNT = re.compile(r"(?:-n|--lines=|-)(\d+)")


def cat(call: Call) -> list[Operation]:
    """``cat``, ``nl``, ``less`` …: whole files, perhaps with line numbers."""
    paths = call.plain(("-v", "-w", "-s", "-b", "-h") if call.name == "nl" else ())
    options = [a for a in call.arguments if a[:1] == "-" and a != "-"]
    is_numbered = call.name == "nl" or any("n" in a or "b" in a for a in options)
    is_alone = call.is_alone and len(paths) == 1 and options in ([], ["-n"]) and all(w.is_literal for w in call.words)
    return [
        Read(path=call.path(path), form="numbered" if is_numbered else "plain", is_alone=is_alone)
        for path in paths
        if path != "-"
    ]


def head(call: Call) -> list[Operation]:
    """The first lines of files."""
    paths, count = call.plain(_COUNTED), 10
    for text in call.values("-n", "--lines"):
        count = int(text[:9]) if text.isdecimal() else count
    for text in call.arguments:
        if match := _COUNT.fullmatch(text):
            count = int(match[1][:9])
        elif text.startswith("-") and text not in ("-q", "-n", "--lines"):
            return [Read(path=call.path(path)) for path in paths]
    is_alone = call.is_alone and len(paths) == 1
    return [Read(path=call.path(path), first=1, last=count, is_alone=is_alone) for path in paths]


def tail(call: Call) -> list[Operation]:
    """The last lines of files; which lines those are the call does not say."""
    return [Read(path=call.path(path)) for path in call.plain(_COUNTED)]


_READ_VALUED = {
    "stat": ("-c", "-f", "--printf", "--format"),
    "strings": ("-n", "-t", "-e"),
    "diff": ("-U", "-x", "-I", "-W"),
    "od": ("-A", "-j", "-N", "-t"),
    "xxd": ("-c", "-l", "-s"),
    "hexdump": ("-n", "-s", "-e"),
}


def reads(call: Call) -> list[Operation]:
    """Programs that say something about the files they are given."""
    return [Read(path=call.path(path)) for path in call.plain(_READ_VALUED.get(call.name, ())) if path != "-"]


_FILTER_VALUED = frozenset(("-d", "-f", "-c", "-k", "-t", "-o", "-n", "--arg", "--argjson", "--indent"))


def filters(call: Call) -> list[Operation]:
    """``sort``, ``cut``, ``jq`` …: files named are read; in the middle of a pipe there are none."""
    paths = call.plain(_FILTER_VALUED)
    if call.name in ("jq", "yq"):
        paths = paths[1:]
        if call.name == "yq" and call.has("-i", "--inplace"):
            return [Opaque(reason="yq -i", paths=(path,)) for path in map(call.path, paths) if not is_outside(path)]
    return [Read(path=call.path(path)) for path in paths if path != "-"]


def ls(call: Call) -> list[Operation]:
    """``ls``, ``tree``, ``du``: names of files."""
    valued = ("-L", "-I", "-P", "-d", "--max-depth") if call.name in ("tree", "du") else ("-I", "-w", "-T")
    return [ListFiles(path=call.path(path)) for path in call.plain(valued) or ["."]]


_GREP_VALUED = listed(
    """
    -A -B -C -m -e -f -g -t -T -d -D -j -M --include --exclude --exclude-dir --color --glob --iglob --type
    --type-not --max-count --max-depth --regexp --context --after-context --before-context --sort --engine
    """
)
"""Options of ``grep`` and ``rg`` that take a value."""


def grep(call: Call) -> list[Operation]:
    """``grep`` and its kin; as the filter of a pipe it searches nothing."""
    plain = call.plain(_GREP_VALUED)
    if call.name == "rg" and "--files" in call.arguments:
        return [ListFiles(path=call.path(path)) for path in plain or ["."]]
    patterns = call.values("-e", "--regexp")
    if plain and not patterns and "-f" not in call.arguments:
        patterns, plain = plain[:1], plain[1:]
    if not plain and not call.is_alone and not (call.name in ("grep", "egrep", "fgrep") and call.has("-r", "-R")):
        return []
    if plain == ["-"]:
        return []
    return [Search(path=call.path(path), pattern=patterns[0] if patterns else "") for path in plain or ["."]]


def git_grep(call: Call) -> list[Operation]:
    """``git grep``: the words after ``git``."""
    patterns = call.values("-e")
    plain = call.plain(_GREP_VALUED)
    if not patterns:
        patterns, plain = plain[:1], plain[1:]
    return [Search(path=call.path(path), pattern=pattern) for pattern in patterns[:1] for path in plain or ["."]]


_HARMLESS = listed(
    """
    grep egrep fgrep rg cat head tail wc ls echo printf file stat basename dirname md5sum sha1sum sha256sum nl
    test du readlink realpath
    """
)
_EXECUTING = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def find(call: Call) -> list[Operation]:
    """``find``: a search when something is matched, else a list; ``-delete`` and ``-exec`` may edit."""
    arguments = call.arguments
    if call.name in ("fd", "fdfind"):
        names = call.plain(("-e", "-t", "-d", "-E", "-x", "--extension", "--type", "--exclude", "--max-depth"))
        return [Search(path=call.path(path), pattern=names[0] if names else "") for path in names[1:] or ["."]]
    start = 0
    while start < len(arguments) and arguments[start] in ("-L", "-H", "-P"):
        start += 1
    places = list(takewhile(lambda text: not text.startswith(("-", "(", "!", ")")), arguments[start:]))
    named = ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex")
    pattern = next(iter(call.values(*named)), "")
    paths = [call.path(place) for place in places or ["."]]
    is_search = bool(pattern) or not _EXECUTING.isdisjoint(arguments)
    made: list[Operation] = [
        Search(path=path, pattern=pattern) if is_search else ListFiles(path=path) for path in paths
    ]
    if all(is_outside(path) for path in paths):
        return made
    if "-delete" in arguments:
        made.append(_perhaps_anywhere("find -delete"))
    for place, text in enumerate(arguments):
        if text in _EXECUTING and may_write(command := arguments[place + 1 :]):
            program = command[0].rsplit("/", 1)[-1] if command else ""
            is_certain = program in ("sed", "perl") and edits(command)
            made.append(anywhere("find -exec") if is_certain else _perhaps_anywhere(f"find -exec {program}"))
    return made


def _perhaps_anywhere(reason: str) -> Operation:
    return Opaque(reason=reason, paths=(".",), is_possible=True)


def may_write(arguments: Sequence[str]) -> bool:
    """Whether the command ``arguments`` may write files."""
    program = arguments[0].rsplit("/", 1)[-1] if arguments else ""
    return program not in _HARMLESS and not (program == "sed" and "-n" in arguments and not edits(arguments))


_EDITING = frozenset(("rm", "mv", "cp", "touch", "chmod", "git", "unlink", "truncate", "tee", "ln"))


def edits(arguments: Sequence[str]) -> bool:
    """Whether the command ``arguments`` is one that edits the files it is given."""
    program = arguments[0].rsplit("/", 1)[-1] if arguments else ""
    if program in ("sed", "perl"):
        return any(re.match(r"-\w*i|--in-place", text) for text in arguments[1:])
    return program in _EDITING


def xargs(call: Call) -> list[Operation]:
    """``xargs``: the command it runs, on files that only the pipe knows."""
    rest = [word.text for word in after_options(call.words[1:], ("-n", "-I", "-P", "-L", "-d", "-a", "-s", "-E"))]
    if not rest:
        return []
    program = rest[0].rsplit("/", 1)[-1]
    if program in ("grep", "egrep", "fgrep", "rg"):
        return [Search(path=".", pattern=next(iter(plain(rest[1:], _GREP_VALUED)), ""))]
    if not may_write(rest) or (program == "sed" and not edits(rest)):
        return []
    return [anywhere(f"xargs {program}")] if edits(rest) else [Run(target=f"xargs {program}")]
