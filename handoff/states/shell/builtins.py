"""The shell's own commands: folders, variables, conditions, modes."""

from __future__ import annotations

import re

from handoff.actions.lines import changed_folder
from handoff.shell import Word
from handoff.states.shell.disk import UNTOLD
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.streams import Leave, Result, Status, Streams, Unsupported
from handoff.states.shell.tree import Beyond
from handoff.states.shell.words import Arg


def succeed(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """A command that succeeds and prints nothing."""
    return Result(True, b"")


def fail(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``false``."""
    return Result(False, b"")


def wait(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``wait``: what ran in the background has ended, and its files can be looked at again."""
    if len(args) == 1:
        machine.effects.moving.clear()
    return Result(True if len(args) == 1 else None, b"")


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


def make_temporary(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``mktemp``: a name outside the repository that nobody knows; a text that holds it is not known either."""
    words = [arg.text for arg in args[1:] if not arg.text.startswith("-")]
    if any(not arg.is_known for arg in args) or any(not word.startswith("/tmp/") for word in words):
        raise Unsupported
    machine.temporaries += 1
    return Result(True, f"/tmp/{UNTOLD}{machine.temporaries}\n".encode())


def export(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``export A=b``: variables of the rest of the line; ``local`` and ``declare`` bind them to a function."""
    name = args[0].text
    words = args[1:]
    while words and words[0].text.startswith("-"):
        if name == "local" or set(words[0].text[1:]) - set("xg"):
            raise Beyond(f"{name} {words[0].text}")
        words = words[1:]
    if name in ("readonly", "typeset") or (name == "local" and not machine.locals):
        raise Beyond(name)
    is_own = bool(machine.locals) and name in ("local", "declare")
    for arg in words:
        variable, equals, value = arg.text.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", variable):
            raise Beyond(f"{name} of a name that is not known")
        if is_own:
            machine.locals[-1].setdefault(variable, machine.words.values.get(variable))
        if equals or is_own:
            machine.assign(variable, value if arg.is_known and equals else None)
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
            machine.set_mode(name, text == "-o")
        elif re.fullmatch(r"[-+][euxv]*o?", text) and len(text) > 1:
            for letter, name in (("e", "errexit"), ("u", "nounset")):
                if letter in text:
                    machine.set_mode(name, text[0] == "-")
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
        machine.context, machine.previous = machine.left.pop(), before
        return Result(True, None)
    if words and words[0].text == "-" and machine.previous is not None and name == "cd":
        machine.context, machine.previous = machine.previous, before
        return Result(True, None)
    plain = (Word(name), *(Word(arg.text, arg.is_known) for arg in words))
    after = changed_folder(plain, before)
    if words and words[0].is_known and words[0].text != "-":
        place = machine.place(words[0].text)
        kind = machine.disk.kind(place)
        if words[0].text == "":
            return Result(True, b"")
        if kind == "none" or kind == "file":
            return Result(False, b"", False)
        if kind == "unknown" and not _is_entered(machine, words[0].text, place.is_inside, streams):
            return Result(False, b"", False)
    machine.left += [before] if name == "pushd" else []
    machine.context, machine.previous = after, before
    return Result(True, b"" if name == "cd" else None)


def _is_entered(machine: Machine, text: str, is_inside: bool, streams: Streams) -> bool:
    """Whether ``cd`` found a folder of which nothing is known: the shell says so when it did not."""
    shown = re.escape(text)
    if re.search(rf"cd: (?:can't cd to )?[\"']?{shown}[\"']?(?:: No such|: Not a dir|\n|\Z)", machine.text):
        return False
    return not is_inside or streams.err is machine.screen or machine.decided(None, f"cd {text}")


def source(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``source``: a script that the run wrote is carried out here; of another one, variables are not known."""
    text = machine.script_text(args[1]) if len(args) == 2 else None
    if text is not None:
        return machine.carry_out_here(text, streams)
    for name in machine.words.values:
        machine.words.values[name] = None
    return machine.static(args, streams.stdin)


def kill(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``kill``: of the shell itself, of a group, or of what is not known."""
    targets = [arg.text for arg in args[1:] if not re.fullmatch(r"-[A-Z\d]+|%\d*", arg.text)]
    if any(text in ("$$", "0", "-1", "$BASHPID", "$PPID") for text in targets):
        raise Beyond("a shell that ends itself")
    return Result(None, None, False)


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
        case [a, "==", b] if machine.words.may_be_zsh:
            return None
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


PROGRAMS: dict[str, Builtin] = {
    "true": succeed,
    ":": succeed,
    "false": fail,
    "sleep": succeed,
    "wait": wait,
    "umask": beyond,
    "pwd": says,
    "date": says,
    "whoami": says,
    "hostname": says,
    "export": export,
    "local": export,
    "declare": export,
    "readonly": export,
    "typeset": export,
    "source": source,
    ".": source,
    "kill": kill,
    "ulimit": beyond,
    "let": beyond,
    "getopts": beyond,
    "mapfile": beyond,
    "readarray": beyond,
    "coproc": beyond,
    "enable": beyond,
    "suspend": beyond,
    "logout": beyond,
    "unset": unset,
    "mktemp": make_temporary,
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
}
"""Programs by name."""
