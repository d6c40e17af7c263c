"""Programs whose output the state tells."""

from __future__ import annotations

import re

from handoff.editors.plain import encoded, lines_of
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.programs import both, options_of
from handoff.states.shell.streams import FileSink, Result, Status, Streams, Unsupported, ordered
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
            is_beyond = is_beyond or (code != "" and code[0] in "uUc1234567")
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
        if not machine.is_bash or (machine.words.may_be_zsh and not resolves):
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
    if texts[:1] == ["-v"]:
        for name in texts[1:2]:
            machine.assign(name, None)
        return Result(None, b"")
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
        if literal is None or (form.endswith("%") != form.endswith("%%") and form.endswith("%")):
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
}
"""Programs by name."""
