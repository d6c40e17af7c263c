"""Programs whose output the state tells, and the shell's own commands."""

from __future__ import annotations

import re

from handoff.actions.lines import changed_folder
from handoff.actions.programs.call import Call
from handoff.actions.programs.reading import may_write
from handoff.shell import Word
from handoff.states.editors import encoded, lines_of
from handoff.states.shell.disk import Place
from handoff.states.shell.ignored import glob_pattern
from handoff.states.shell.machine import (
    Builtin,
    FileSink,
    Leave,
    Machine,
    Result,
    Status,
    Streams,
    Unordered,
    Unsupported,
    ordered,
)
from handoff.states.shell.programs import both, options_of
from handoff.states.shell.syntax import Beyond
from handoff.states.shell.words import Arg
from handoff.states.versions import UNSURE

_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|0[0-7]{0,3}|[1-7][0-7]{0,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|.|\Z)", re.S
)
_NAMED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
}


def _unescaped(text: str, *, octal_needs_zero: bool) -> str | None:
    """Backslashes as ``echo -e`` (octal numbers begin with 0) and ``printf`` resolve them; ``None``: beyond."""
    is_beyond = False

    def one(match: re.Match[str]) -> str:
        nonlocal is_beyond
        code = match[1]
        if code[:1] in ("u", "U", "c") or (code[:1] in "1234567" and code and octal_needs_zero):
            is_beyond = is_beyond or code != "" and code[0] in "uUc1234567"
            return ""
        if code[:1] == "x" and len(code) > 1:
            number = int(code[1:], 16)
        elif code[:1].isdigit():
            number = int(code[1:] or "0", 8) if code[0] == "0" and octal_needs_zero else int(code, 8)
            if not octal_needs_zero and len(code) > 3:
                is_beyond = True
        else:
            return _NAMED.get(code, "\\" + code)
        number &= 255
        return chr(number) if number < 128 else chr(0xDC00 + number)

    found = _ESCAPE.sub(one, text)
    return None if is_beyond else found


def _texts(machine: Machine, args: list[Arg]) -> list[str] | None:
    """The arguments, when all are known and in a known order."""
    if not machine.words.is_order_sure or any(not arg.is_known for arg in args):
        return None
    return [arg.text for arg in args[1:]]


def echo(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``echo``, as bash has it; another shell may read backslashes itself."""
    texts = _texts(machine, args)
    if texts is None:
        return Result(True, None)
    end, resolves = "\n", False
    while texts and re.fullmatch(r"-[neE]+", texts[0]):
        if not machine.is_bash and texts[0] != "-n":
            return Result(True, None)
        for letter in texts[0][1:]:
            end = "" if letter == "n" else end
            resolves = letter == "e" if letter in "eE" else resolves
        texts = texts[1:]
    text = " ".join(texts)
    if "\\" in text:
        if not machine.is_bash:
            return Result(True, None)
        if resolves:
            found = _unescaped(text, octal_needs_zero=True)
            if found is None:
                return Result(True, None)
            text = found
    return Result(True, encoded(text + end))


_DIRECTIVE = re.compile(r"%(?:%|(-?)(\d{0,3})([sdbqciu])|(.))", re.S)


def printf(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``printf`` with texts and whole numbers."""
    texts = _texts(machine, args)
    if texts is None:
        return Result(True, None)
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or (texts[0].startswith("-") and len(texts[0]) > 1):
        return Result(None, None)
    form, values = texts[0], texts[1:]
    parts: list[str] = []
    while True:
        taken = 0
        place = 0
        for match in _DIRECTIVE.finditer(form):
            literal = _unescaped(form[place : match.start()], octal_needs_zero=False)
            if literal is None or match[4] is not None or match[3] in ("q", "c"):
                return Result(None, None)
            parts.append(literal)
            place = match.end()
            if match[0] == "%%":
                parts.append("%")
                continue
            value = values[taken] if taken < len(values) else ""
            taken += 1
            shown = _formatted(match[3], value)
            if shown is None:
                return Result(None, None)
            width = int(match[2] or 0)
            if width and not shown.isascii():
                return Result(None, None)
            parts.append(shown.ljust(width) if match[1] else shown.rjust(width))
        literal = _unescaped(form[place:], octal_needs_zero=False)
        if literal is None or form.endswith("%") != form.endswith("%%") and form.endswith("%"):
            return Result(None, None)
        parts.append(literal)
        values = values[taken:]
        if not values or not taken:
            break
    return Result(True, encoded("".join(parts)))


def _formatted(letter: str, value: str) -> str | None:
    if letter == "s":
        return value
    if letter == "b":
        return _unescaped(value, octal_needs_zero=True) if not re.search(r"\\[1-7]", value) else None
    if value == "":
        return "0"
    return str(int(value)) if re.fullmatch(r"-?[1-9]\d{0,15}|0", value) else None


def _contents(machine: Machine, words: list[str], stdin: bytes | None) -> tuple[list[bytes | None], Status]:
    """The texts of files (no word: the input), ``None`` for one not known; whether all could be read."""
    if not machine.words.is_order_sure:
        return [None], None
    found: list[bytes | None] = []
    statuses: list[Status] = []
    for word in words or ["-"]:
        if word in ("-", "/dev/stdin"):
            found.append(ordered(stdin))
            statuses.append(True)
            continue
        data = machine.disk.read(machine.place(word))
        statuses.append(False if data is None else None if data is UNSURE else True)
        if data is not None:
            found.append(data if isinstance(data, bytes) else None)
    return found, both(statuses)


def _joined(parts: list[bytes | None]) -> bytes | None:
    return None if None in parts else b"".join(part for part in parts if part is not None)


def cat(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``cat``: files one after the other."""
    _, words = options_of(args, "u", (), "AbeEnstTv")
    if not machine.words.is_order_sure:
        return Result(None, None)
    target = streams.out.place if isinstance(streams.out, FileSink) else None
    statuses: list[Status] = []
    for word in words or ["-"]:
        is_input = word in ("-", "/dev/stdin")
        place = streams.source if is_input else machine.place(word)
        if place is not None and place == target:
            there = machine.disk.read(place)
            if there != b"":  # "input file is output file", unless it is empty
                statuses.append(False if isinstance(there, bytes) else None)
                continue
        parts, status = _contents(machine, [word], streams.stdin)
        streams.out.write(_joined(parts))
        statuses.append(status)
    return Result(both(statuses))


def head(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``head``: the first lines or bytes of one file."""
    return _part(machine, args, streams, is_head=True)


def tail(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``tail``: the last lines or bytes of one file, or all from one on."""
    return _part(machine, args, streams, is_head=False)


def _part(machine: Machine, args: list[Arg], streams: Streams, *, is_head: bool) -> Result:
    texts = _texts(machine, args)
    if texts is None:
        raise Unsupported
    unit, number, words = "n", "10", []
    while texts:
        text = texts.pop(0)
        match = re.fullmatch(r"-([nc])(.*)|--(lines|bytes)=(.*)", text, re.S)
        if match is not None:
            unit = match[1] or match[3][0].replace("l", "n").replace("b", "c")
            number = match[2] or match[4] or (texts.pop(0) if texts else "")
        elif re.fullmatch(r"-\d+", text):
            unit, number = "n", text[1:]
        elif text.startswith("-") and text not in ("-", "-q"):
            raise Unsupported
        elif text != "-q":
            words.append(text)
    match = re.fullmatch(r"([+-]?)(\d{1,9})", number)
    if match is None or len(words) > 1:
        raise Unsupported
    parts, status = _contents(machine, words, streams.stdin)
    data = _joined(parts)
    if data is None:
        return Result(status, None)
    pieces: list[bytes] | bytes = lines_of(data) if unit == "n" else data
    count = int(match[2])
    if is_head:
        if match[1] == "+":
            raise Unsupported
        kept = pieces[:count] if not match[1] else pieces[: max(len(pieces) - count, 0)]
    elif match[1] == "+":
        kept = pieces[max(count - 1, 0) :]
    else:
        kept = pieces[max(len(pieces) - count, 0) :]
    return Result(status, kept if isinstance(kept, bytes) else b"".join(kept))


def tr(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``tr -d`` of single characters, and of one for another."""
    texts = _texts(machine, args)
    data = ordered(streams.stdin)
    if texts is None or len(texts) != 2 or data is None:
        raise Unsupported
    deletes = texts[0] == "-d"
    sets = [_unescaped(text, octal_needs_zero=False) for text in texts[1 if deletes else 0 :]]
    if any(text is None or not text.isascii() or re.search(r"[-\[\]\\]", text) or not text for text in sets):
        raise Unsupported
    raw = [encoded(text or "") for text in sets]
    if deletes:
        return Result(True, data.translate(None, raw[0]))
    if len(raw[0]) != len(raw[1]):
        raise Unsupported
    return Result(True, data.translate(bytes.maketrans(raw[0], raw[1])))


def sequence(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``seq`` of whole numbers."""
    texts = _texts(machine, args)
    if texts is None or not 1 <= len(texts) <= 2 or not all(re.fullmatch(r"-?[1-9]\d{0,4}|0", text) for text in texts):
        raise Unsupported
    first, last = (1, int(texts[0])) if len(texts) == 1 else (int(texts[0]), int(texts[1]))
    return Result(True, b"".join(b"%d\n" % number for number in range(first, last + 1)))


def named(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``basename`` and ``dirname`` of one path."""
    texts = _texts(machine, args)
    if texts is None or not texts or texts[0].startswith("-") or len(texts) > (2 if args[0].text == "basename" else 1):
        raise Unsupported
    path = texts[0].rstrip("/") or "/"
    if args[0].text == "dirname":
        parent = path.rpartition("/")[0].rstrip("/") if "/" in path else "."
        return Result(True, encoded((parent or "/") + "\n"))
    name = path.rsplit("/", 1)[-1] or "/"
    if len(texts) == 2 and name != texts[1]:
        name = name.removesuffix(texts[1])
    return Result(True, encoded(name + "\n"))


# -- the shell's own ----------------------------------------------------------------------------


def succeed(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """A command that succeeds and prints nothing."""
    return Result(True, b"")


def fail(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``false``."""
    return Result(False, b"")


def says(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """A command that succeeds and prints what the state does not tell."""
    return Result(True, None)


def leave(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``exit``."""
    if len(args) == 1:
        raise Leave(machine.words.status)
    raise Leave(args[1].text == "0" if args[1].is_known else None)


def beyond(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """Commands that change how the rest of the line is read."""
    raise Beyond(args[0].text)


def export(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``export A=b``: variables of the rest of the line."""
    for arg in args[1:]:
        name, equals, value = arg.text.partition("=")
        if equals:
            machine.words.values[name] = value if arg.is_known else None
            if name in ("PATH", "IFS", "LC_ALL", "LANG"):
                machine.words.values[name] = None
    return Result(True, b"")


def unset(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``unset``: what a variable was before the line is not known, so the value is none either."""
    for arg in args[1:]:
        machine.words.values[arg.text] = ""
    return Result(True, b"")


def modes(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``set -e`` and its kin."""
    texts = [arg.text for arg in args[1:]]
    while texts:
        text = texts.pop(0)
        if text in ("-o", "+o") and texts:
            name = texts.pop(0)
            if name not in ("pipefail", "errexit", "nounset", "xtrace"):
                raise Beyond("set -o")
            if name in ("pipefail", "errexit"):
                machine.set_mode("e" if name == "errexit" else "pipefail", text == "-o")
        elif re.fullmatch(r"[-+][euxv]*o?", text) and len(text) > 1:
            if "e" in text:
                machine.set_mode("e", text[0] == "-")
            if text.endswith("o"):
                texts.insert(0, text[0] + "o")
        else:
            raise Beyond("set")
    return Result(True, b"")


def change_folder(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``cd``, ``pushd``, ``popd``."""
    name = args[0].text
    words = [arg for arg in args[1:] if arg.text not in ("-P", "-L", "--")]
    before = machine.context
    if name == "popd":
        if not machine.left:
            raise Beyond("popd to a folder of an earlier line")
        machine.context = machine.left.pop()
        return Result(True, None)
    plain = (Word(name), *(Word(arg.text, arg.is_known) for arg in words))
    after = changed_folder(plain, before)
    if words and words[0].is_known and words[0].text != "-":
        place = machine.place(words[0].text)
        kind = machine.disk.kind(place)
        if words[0].text == "":
            return Result(True, b"")
        if kind == "none" or kind == "file":
            return Result(False, b"")
        if kind == "unknown":
            shown = re.escape(words[0].text)
            if re.search(rf"cd: (?:can't cd to )?[\"']?{shown}[\"']?(?:: No such|: Not a dir|\n|\Z)", machine.text):
                return Result(False, b"")
    machine.left += [before] if name == "pushd" else []
    machine.context = after
    return Result(True, b"" if name == "cd" else None)


def test(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``test`` and ``[``, with one condition."""
    words = args[1:]
    if args[0].text == "[":
        if not words or words[-1].text != "]":
            return Result(False, b"")
        words = words[:-1]
    is_negated = False
    while len(words) > 1 and words[0].text == "!" and words[0].is_known:
        is_negated, words = not is_negated, words[1:]
    if any(not word.is_known for word in words):
        return Result(None, b"")
    status = _tested(machine, [word.text for word in words])
    return Result(status if status is None or not is_negated else not status, b"")


def _tested(machine: Machine, words: list[str]) -> Status:
    match words:
        case []:
            return False
        case [text]:
            return bool(text)
        case ["-n", text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case [("-e" | "-f" | "-d" | "-s" | "-r" | "-w") as option, path]:
            place = machine.place(path)
            kind = machine.disk.kind(place)
            if kind == "unknown":
                return None
            if option == "-s":
                data = machine.disk.read(place)
                return kind == "folder" or (bool(data) if isinstance(data, bytes) else kind != "none" and None)
            wanted = {"-f": ("file",), "-d": ("folder",)}.get(option, ("file", "folder", "link"))
            return kind in wanted
        case [("-L" | "-h"), path]:
            kind = machine.disk.kind(machine.place(path, follows=False))
            return None if kind == "unknown" else kind == "link"
        case [a, ("=" | "=="), b]:
            return a == b
        case [a, "!=", b]:
            return a != b
        case [a, ("-eq" | "-ne" | "-gt" | "-ge" | "-lt" | "-le") as sign, b]:
            if not re.fullmatch(r"-?\d{1,9}", a) or not re.fullmatch(r"-?\d{1,9}", b):
                return None
            x, y = int(a), int(b)
            holds = {"-eq": x == y, "-ne": x != y, "-gt": x > y, "-ge": x >= y, "-lt": x < y, "-le": x <= y}
            return holds[sign]
        case _:
            return None


# -- finding ------------------------------------------------------------------------------------

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
    statuses = [machine.program([Arg(text) for text in run], quiet) for run in runs]
    return Result(both(statuses), b"")


def static_call(args: list[Arg], machine: Machine) -> Call:
    """The call as its static reading takes it."""
    return Call(tuple(Word(arg.text, arg.is_known) for arg in args), None, machine.context, is_alone=False)


PROGRAMS: dict[str, Builtin] = {
    "echo": echo,
    "printf": printf,
    "cat": cat,
    "head": head,
    "tail": tail,
    "tr": tr,
    "seq": sequence,
    "basename": named,
    "dirname": named,
    "true": succeed,
    ":": succeed,
    "false": fail,
    "sleep": succeed,
    "wait": succeed,
    "umask": beyond,
    "pwd": says,
    "date": says,
    "whoami": says,
    "hostname": says,
    "export": export,
    "local": export,
    "declare": export,
    "readonly": export,
    "unset": unset,
    "set": modes,
    "exit": leave,
    "return": beyond,
    "break": beyond,
    "continue": beyond,
    "shopt": beyond,
    "trap": beyond,
    "alias": beyond,
    "exec": beyond,
    "read": beyond,
    "cd": change_folder,
    "pushd": change_folder,
    "popd": change_folder,
    "test": test,
    "[": test,
    "grep": grep,
    "fgrep": grep,
    "find": find,
    "xargs": xargs,
}
"""Programs by name."""
