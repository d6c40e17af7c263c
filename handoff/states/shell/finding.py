"""``grep``, ``find`` and ``xargs``: which files a line is about, where the state tells."""

from __future__ import annotations

import re

from handoff.actions.programs.reading import may_write
from handoff.editors.plain import encoded
from handoff.states.shell.disk import Place
from handoff.states.shell.ignored import glob_pattern
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.programs import both
from handoff.states.shell.streams import Result, Status, Streams, Unordered, Unsupported, ordered
from handoff.states.shell.words import Arg

_PLAIN_PATTERN = re.compile(r"(?:[\w \"'/=,:;<>@%&!#~-]|\\[.*\[\]$^/\\])+", re.A)


def grep(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``grep -l``, ``-q`` and ``-r`` for plain text: which files hold it."""
    if any(not arg.is_known for arg in args):
        raise Unsupported
    letters, words, includes = "", [], []
    for arg in args[1:]:
        if arg.text.startswith("--include="):
            includes.append(arg.text[10:])
        elif re.fullmatch(r"-[rRlqnsFHIhE]+", arg.text):
            letters += arg.text[1:]
        elif arg.text.startswith("-"):
            raise Unsupported
        else:
            words.append(arg.text)
    if not words or not words[0] or "\n" in words[0]:
        raise Unsupported
    text = words[0]
    if "F" not in letters:
        if not _PLAIN_PATTERN.fullmatch(text):
            raise Unsupported
        text = re.sub(r"\\(.)", r"\1", text)
    wanted = encoded(text)
    names = words[1:] or (["."] if set(letters) & set("rR") else [])
    if not names:
        data = ordered(streams.stdin)
        return Result(None if data is None else _holds(data, wanted), None)
    found: list[str] = []
    statuses: list[Status] = []
    for name in names:
        for shown, path in _files_of(machine, name, bool(set(letters) & set("rR"))):
            base = path.path.rsplit("/", 1)[-1]
            if includes and not any(re.match(glob_pattern(include), base) for include in includes):
                continue
            data = machine.disk.read(path)
            if not isinstance(data, bytes):
                raise Unsupported
            if _holds(data, wanted):
                found.append(shown)
    del statuses
    if "l" not in letters:
        return Result(bool(found), b"" if "q" in letters or not found else None)
    out = Unordered(b"".join(encoded(name + "\n") for name in found))
    return Result(bool(found), out if not machine.effects.has_run_programs or found else None)


def _holds(data: bytes, wanted: bytes) -> bool:
    return wanted in data


def _files_of(
    machine: Machine, name: str, is_recursive: bool, *, takes_unknown: bool = False
) -> list[tuple[str, Place]]:
    """Files below a name, each as a program would print it; with ``takes_unknown`` those that may be there, too."""
    place = machine.place(name)
    kind = machine.disk.kind(place)
    if kind == "file":
        return [(name, place)]
    if kind != "folder" or not is_recursive or not place.is_inside:
        raise Unsupported
    prefix = f"{place.path}/" if place.path else ""
    unknown = [item for item in machine.effects.unknown if item.startswith(prefix) or item == place.path]
    is_folder = any(not item or machine.effects.files.is_folder(item) for item in unknown)
    if is_folder or machine.effects.is_unknown(place.path) or (unknown and not takes_unknown):
        raise Unsupported
    shown = name.rstrip("/")
    items = sorted({*machine.disk.below(place.path), *unknown})
    states = ((path, machine.disk.kind(Place(path))) for path in items)
    return [(f"{shown}/{path[len(prefix) :]}", Place(path)) for path, kind in states if kind in ("file", "unknown")]


def find(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``find`` for files by name, with ``-delete`` and ``-exec``."""
    if any(not arg.is_known for arg in args):
        raise Unsupported
    texts = [arg.text for arg in args[1:]]
    names: list[str] = []
    while texts and not texts[0].startswith(("-", "(", "!")):
        names.append(texts.pop(0))
    tests: list[re.Pattern[str]] = []
    deepest, deletes = 99, False
    command: list[str] = []
    is_many = is_file = False
    while texts:
        text = texts.pop(0)
        if text == "-type" and texts[:1] == ["f"]:
            texts.pop(0)
            is_file = True
        elif text == "-name" and texts:
            tests.append(re.compile(glob_pattern(texts.pop(0))))
        elif text == "-maxdepth" and texts and texts[0].isdecimal():
            deepest = int(texts.pop(0)[:3])
        elif text == "-print" and not texts:
            pass
        elif text == "-delete" and not texts:
            deletes = True
        elif text == "-exec" and texts and texts[-1] in (";", "+"):
            command, is_many, texts = texts[:-1], texts[-1] == "+", []
        else:
            raise Unsupported
    if not is_file and (deletes or command or not tests):
        raise Unsupported
    if command and (not may_write(command) or ("{}" not in command) or (is_many and command[-1] != "{}")):
        raise Unsupported
    found: list[str] = []
    for name in names or ["."]:
        for shown, place in _files_of(machine, name, True, takes_unknown=deletes):
            depth = shown.count("/") - name.rstrip("/").count("/")
            base = place.path.rsplit("/", 1)[-1]
            if depth <= deepest and all(test.match(base) for test in tests):
                found.append(shown)
    if not is_file and any(True for _ in machine.effects.files.folders_below("")) and not (deletes or command):
        return Result(None, None)
    if deletes:
        for name in found:
            machine.disk.remove(machine.place(name, follows=False).path)
        return Result(True, b"")
    if command:
        quiet = streams._replace(stdin=b"")
        runs = [[*command[:-1], *found]] if is_many and found else []
        runs += [] if is_many else [[part.replace("{}", name) for part in command] for name in found]
        for run in runs:
            machine.program([Arg(text) for text in run], quiet)
        return Result(None if is_many else True, b"")
    is_sure = not machine.effects.has_run_programs or len(found) > 0
    return Result(True, Unordered(b"".join(encoded(name + "\n") for name in found)) if is_sure else None)


def xargs(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``xargs``: the command it runs, on words that the pipe brings."""
    if streams.stdin is None or any(not arg.is_known for arg in args):
        raise Unsupported
    texts = [arg.text for arg in args[1:]]
    runs_none, replaced = False, ""
    while texts and texts[0].startswith("-"):
        text = texts.pop(0)
        if text in ("-r", "--no-run-if-empty"):
            runs_none = True
        elif text == "-I" and texts:
            replaced = texts.pop(0)
        elif text.startswith("-I") and len(text) > 2:
            replaced = text[2:]
        else:
            raise Unsupported
    given = streams.stdin.decode("utf-8", "surrogateescape")
    if not texts or re.search(r"['\"\\]", given) or len(given) > 20_000:
        raise Unsupported
    words = given.split("\n") if replaced else given.split()
    words = [word for word in words if word]
    if not words and (runs_none or replaced):
        return Result(True, b"")
    quiet = streams._replace(stdin=b"")
    if replaced:
        runs = [[part.replace(replaced, word) for part in texts] for word in words]
    else:
        runs = [[*texts, *words]]
    machine.has_waited = not replaced
    statuses = [machine.program([Arg(text) for text in run], quiet) for run in runs]
    return Result(both(statuses), b"")


PROGRAMS: dict[str, Builtin] = {
    "grep": grep,
    "fgrep": grep,
    "find": find,
    "xargs": xargs,
}
"""Programs by name."""
