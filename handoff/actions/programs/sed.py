"""``sed``: which lines it shows, and its edits in place where they are exactly understood.

A script outside of the understood part (other commands, alternation, repeated groups, intervals, back references in
the pattern, case conversion …) leaves the edit ``Opaque``. Understood patterns have one reading: with no alternation
and only single characters repeated, the leftmost greedy match is the leftmost longest one that POSIX asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypedDict

from handoff.actions.operations import (
    LAST_LINE,
    Copy,
    LineEdit,
    Opaque,
    Operation,
    Other,
    Read,
    Replace,
    StreamEdit,
)
from handoff.actions.paths import is_outside, is_unknown
from handoff.actions.programs.call import Call, anywhere
from handoff.shell import Word


class _Options:
    """A command line of ``sed``, read."""

    def __init__(self, words: tuple[Word, ...]) -> None:
        self.scripts: list[Word] = []
        self.files: list[Word] = []
        self.in_place = False
        self.suffix = ""
        """Of the backup that ``-i.bak`` leaves."""
        self.is_gnu = True
        """False for BSD's ``-i ''``."""
        self.is_quiet = False
        self.is_extended = False
        self.is_known = True
        """Whether every option was understood."""
        rest = iter(words)
        has_script = False
        for word in rest:
            text = word.text
            if text[:1] != "-" or text == "-":
                (self.files if has_script else self.scripts).append(word)
                has_script = True
            elif text[:2] == "--":
                has_script = self._long(text, word, rest) or has_script
            else:
                has_script = self._cluster(text[1:], rest) or has_script
        if self.in_place and self.scripts and self.scripts[0] == Word("") and self.files:
            self.is_gnu = False
            self.scripts = self.scripts[1:] or [self.files.pop(0)]

    def _long(self, text: str, word: Word, rest: Iterator[Word]) -> bool:
        """A long option; whether it brings the script."""
        name, _, value = text.partition("=")
        match name:
            case "--in-place":
                self.in_place, self.suffix = True, value
            case "--quiet" | "--silent":
                self.is_quiet = True
            case "--regexp-extended":
                self.is_extended = True
            case "--expression":
                self.scripts.append(Word(value, word.is_literal) if value else next(rest, Word("")))
                return True
            case "--file":
                self.is_known = False
                return True
            case _:
                self.is_known = False
        return False

    def _cluster(self, letters: str, rest: Iterator[Word]) -> bool:
        """Short options in one word; whether they bring the script."""
        for place, letter in enumerate(letters):
            match letter:
                case "n":
                    self.is_quiet = True
                case "E" | "r":
                    self.is_extended = True
                case "i":
                    self.in_place, self.suffix = True, letters[place + 1 :]
                    return False
                case "e":
                    given = letters[place + 1 :]
                    self.scripts.append(Word(given) if given else next(rest, Word("")))
                    return True
                case "f":
                    self.is_known = False
                    if not letters[place + 1 :]:
                        next(rest, None)
                    return True
                case "s" | "u":
                    pass
                case _:
                    self.is_known = False
        return False


def sed(call: Call) -> list[Operation]:
    """``sed``: reads files, or edits them with ``-i``."""
    options = _Options(call.words[1:])
    if not options.in_place:
        return [*_reads(call, options), *_beside(call, options)]
    edits = _script(options) if options.is_known and not options.is_quiet else None
    made: list[Operation] = []
    for file in options.files:
        path = call.path(file.text)
        if is_unknown(path) or (not file.is_literal and not is_outside(path)):
            made.append(anywhere("sed -i on files not named"))
        elif is_outside(path):
            made.append(Other(tool="sed", target=path))
        else:
            if options.suffix and "*" not in options.suffix:
                made.append(Copy(source=path, target=path + options.suffix))
            made.append(_edit(path, edits) if edits is not None else Opaque(reason="sed -i", paths=(path,)))
    return made if edits is not None else [*made, *_beside(call, options)]


_BESIDE = re.compile(r"(?:^|[;{}\n0-9$/!,gpIiMm|#])[ \t]*[wWeF](?:[ \t]|\Z)|(?<=.)[we]\Z")
"""Commands and flags that write other files, or run programs."""


def _beside(call: Call, options: _Options) -> list[Operation]:
    """What a script may do beside its edits: ``w`` writes a file, ``e`` runs a program, ``-f`` reads commands."""
    if options.is_known and _script(options) is not None:
        return []
    is_possible = any(_BESIDE.search(script.text) is not None for script in options.scripts)
    return [Opaque(reason=call.shown, is_possible=True)] if is_possible else []


_RANGE = re.compile(r"(\d{1,9})(?:,[ ]?(\d{1,9}|\$))?[ ]?p;?")


def _reads(call: Call, options: _Options) -> list[Operation]:
    paths = [call.path(file.text) for file in options.files]
    script = options.scripts[0].text if len(options.scripts) == 1 and options.is_quiet else ""
    found = _RANGE.fullmatch(script)
    if found is None:
        return [Read(path=path) for path in paths]
    first = int(found[1])
    last = first if found[2] is None else None if found[2] == "$" else int(found[2])
    return [Read(path=path, first=first, last=last, is_alone=call.is_alone and len(paths) == 1) for path in paths]


# -- scripts ------------------------------------------------------------------------------------


def _edit(path: str, edits: tuple[LineEdit, ...]) -> Operation:
    """The edit of one file; a plain text replaced everywhere is ``Replace``."""
    edit = edits[0]
    is_text = len(edit.replacement) < 2 and all(isinstance(part, str) for part in edit.replacement)
    if len(edits) == 1 and edit.start is None and edit.literal and edit.is_every and is_text:
        return Replace(path=path, old=edit.literal, new="".join(map(str, edit.replacement)), count="all")
    return StreamEdit(path=path, edits=edits)


def _script(options: _Options) -> tuple[LineEdit, ...] | None:
    """The commands of all scripts; ``None`` when one is not exactly understood."""
    edits: list[LineEdit] = []
    for script in options.scripts:
        found = _Reader(script.text, options.is_extended, options.is_gnu).edits() if script.is_literal else None
        if found is None:
            return None
        edits += found
    first = next((place for place, edit in enumerate(edits) if edit.kind in ("delete", "change")), len(edits))
    if any(edit.end is not None or edit.extra is not None for edit in edits[first + 1 :]):
        return None  # a range does not see the lines that an earlier command took away
    return tuple(edits) or None


class _Beyond(Exception):
    """The script holds something that is not exactly understood."""


_BLANK = re.compile(r"[ \t]*")
_SEPARATOR = re.compile(r"[ \t]*(?:[;\n]|\Z)\s*")
_NUMBER = re.compile(r"\d{1,9}")
_FLAGS = re.compile(r"[gIi0-9]{0,4}")
_TEXT_START = re.compile(r"[ \t]*(?:\\\n?)?")
_MOST_EDITS = 100


class _Address(TypedDict, total=False):
    """The lines that a command is for: the fields of ``LineEdit``."""

    start: int | str | None
    end: int | str | None
    extra: int | None
    is_negated: bool


class _Reader:
    """Reads one script from left to right."""

    def __init__(self, script: str, is_extended: bool, is_gnu: bool) -> None:
        self._script = script
        self._place = 0
        self._is_extended = is_extended
        self._is_gnu = is_gnu

    def edits(self) -> list[LineEdit] | None:
        """The commands in order; ``None`` when one is not exactly understood."""
        found: list[LineEdit] = []
        try:
            if self._script[:1] in " \t\n;":
                self._skip(_SEPARATOR if self._script[:1] in ";\n" else _BLANK)
            while self._place < len(self._script):
                if len(found) == _MOST_EDITS:
                    return None
                found.append(self._command())
        except _Beyond:
            return None
        return found

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._script, self._place)
        if match is None:
            raise _Beyond
        self._place = match.end()
        return match[0]

    def _next(self) -> str:
        character = self._script[self._place : self._place + 1]
        self._place += 1
        return character

    def _peek(self) -> str:
        return self._script[self._place : self._place + 1]

    def _command(self) -> LineEdit:
        address = self._address()
        match self._next():
            case "d":
                edit = LineEdit(kind="delete", **address)
            case "s":
                edit = self._substitution(address)
            case "i" | "a" | "c" as letter:
                return LineEdit(kind=_INSERTIONS[letter], replacement=(self._text(),), **address)
            case _:
                raise _Beyond
        if self._place < len(self._script):
            self._skip(_SEPARATOR)
        return edit

    def _address(self) -> _Address:
        if self._peek() == "s":
            return {}
        start = self._one_address()
        end: int | str | None = None
        extra = None
        self._skip(_BLANK)
        if start is not None and self._peek() == ",":
            self._place += 1
            self._skip(_BLANK)
            if self._peek() == "+":
                self._place += 1
                extra = int(self._skip(_NUMBER))
                self._need_gnu()
            else:
                end = self._one_address()
                if end is None:
                    raise _Beyond
            self._skip(_BLANK)
        is_negated = self._peek() == "!"
        if is_negated:
            self._place += 1
            self._skip(_BLANK)
        return {"start": start, "end": end, "extra": extra, "is_negated": is_negated}

    def _one_address(self) -> int | str | None:
        character = self._peek()
        if character == "$":
            self._place += 1
            return LAST_LINE
        if character.isdecimal() and character.isascii():
            number = int(self._skip(_NUMBER))
            if number == 0 or self._peek() == "~":
                raise _Beyond
            return number
        if character == "/":
            self._place += 1
            return self._pattern(self._until("/")).source
        if character == "\\":
            raise _Beyond
        return None

    def _need_gnu(self) -> None:
        if not self._is_gnu:
            raise _Beyond

    def _until(self, delimiter: str) -> str:
        """The text up to an unescaped delimiter, escapes kept except that of the delimiter."""
        end = self._script.find(delimiter, self._place)
        plain = self._script[self._place : max(end, self._place)]
        if end >= 0 and "\\" not in plain and "\n" not in plain:
            self._place = end + 1
            return plain
        parts: list[str] = []
        while True:
            character = self._next()
            if character == delimiter:
                return "".join(parts)
            if character in ("", "\n"):
                raise _Beyond
            if character == "\\":
                following = self._next()
                if following == "":
                    raise _Beyond
                if following == delimiter:
                    if delimiter in _SPECIAL:
                        raise _Beyond
                    character = ""
                character += following
            parts.append(character)

    def _pattern(self, text: str) -> _Pattern:
        if not text:
            raise _Beyond
        return _translated(text, self._is_extended, self._is_gnu)

    def _substitution(self, address: _Address) -> LineEdit:
        delimiter = self._next()
        if delimiter.isalnum() or delimiter in ("", "\n", "\\", " "):
            raise _Beyond
        pattern = self._pattern(self._until(delimiter))
        replacement = self._replacement(self._until(delimiter), pattern.groups)
        flags = self._skip(_FLAGS)
        if flags in ("", "g") and pattern.literal:
            return LineEdit(
                kind="substitute",
                pattern=pattern.source,
                literal=pattern.literal,
                replacement=replacement,
                is_every=flags == "g",
                **address,
            )
        ignores_case = "i" in flags.lower()
        if ignores_case:
            self._need_gnu()
        numbers = _NUMBER.findall(flags)
        if flags.count("g") > 1 or len(numbers) > 1 or (numbers and "g" in flags):
            raise _Beyond
        nth = int(numbers[0]) if numbers else 1
        is_every = "g" in flags
        if nth < 1 or (pattern.can_be_empty and (is_every or nth > 1)):
            if not pattern.is_bound or nth > 1:
                raise _Beyond
            is_every = False  # bound to an end of the line, it can match only once
        return LineEdit(
            kind="substitute",
            **address,
            pattern=("(?i)" if ignores_case else "") + pattern.source,
            literal="" if ignores_case else pattern.literal,
            replacement=replacement,
            is_every=is_every,
            nth=nth,
        )

    def _replacement(self, text: str, groups: int) -> tuple[str | int, ...]:
        if "&" not in text and "\\" not in text:
            return (text,) if text else ()
        parts: list[str | int] = []
        literal: list[str] = []
        place = 0
        while place < len(text):
            character = text[place]
            place += 1
            group: int | None = None
            if character == "&":
                group = 0
            elif character == "\\":
                following = text[place]
                place += 1
                if following.isdecimal() and following.isascii():
                    group = int(following)
                    if group > groups:
                        raise _Beyond
                else:
                    character = self._escaped(following)
            if group is None:
                literal.append(character)
                continue
            if literal:
                parts.append("".join(literal))
                literal = []
            parts.append(group)
        return (*parts, "".join(literal)) if literal else tuple(parts)

    def _escaped(self, character: str) -> str:
        """What a backslash and ``character`` stand for in a replacement or in inserted text."""
        if character in ("n", "t"):
            self._need_gnu()
            return "\n" if character == "n" else "\t"
        if character.isalnum():
            raise _Beyond
        return character

    def _text(self) -> str:
        """The lines of ``a``, ``i`` or ``c``, without the last line feed."""
        self._need_gnu()
        self._skip(_TEXT_START)
        parts: list[str] = []
        while (character := self._next()) not in ("", "\n"):
            if character == "\\":
                following = self._next()
                if following == "":
                    raise _Beyond
                character = self._escaped(following)
            parts.append(character)
        if not parts:
            raise _Beyond
        self._skip(_BLANK)
        return "".join(parts)


_INSERTIONS: dict[str, Literal["insert", "append", "change"]] = {"i": "insert", "a": "append", "c": "change"}


# -- patterns -----------------------------------------------------------------------------------


class _Pattern(NamedTuple):
    """A POSIX pattern in Python's syntax."""

    source: str
    literal: str
    """The text, when it is nothing but text."""
    groups: int
    can_be_empty: bool
    is_bound: bool
    """It begins at the line's start or ends at its end."""


_SPECIAL = frozenset("|+?.*[]^$(){}&")
_CLASSES = {
    "alpha": "A-Za-z",
    "digit": "0-9",
    "alnum": "A-Za-z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r" \t\n\r\f\v",
    "blank": r" \t",
    "xdigit": "0-9A-Fa-f",
}
_LETTERS = {
    "w": ("set", "[A-Za-z0-9_]"),
    "W": ("set", "[^A-Za-z0-9_]"),
    "s": ("set", r"[ \t\n\r\f\v]"),
    "S": ("set", r"[^ \t\n\r\f\v]"),
    "t": ("text", "\t"),
    "r": ("text", "\r"),
    "b": ("edge", r"\b"),
    "<": ("edge", r"\b(?=[A-Za-z0-9_])"),
    ">": ("edge", r"\b(?<=[A-Za-z0-9_])"),
}
"""GNU's escapes: kind of item, Python's form."""
_BRACKET = re.compile(r"\[(\^?)(\]?(?:\[:[a-z]+:\]|[^\]])*)\]")
_BRACKET_ITEM = re.compile(r"\[:([a-z]{1,9}):\]|([a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9])|(.)", re.S)


_WORDS = re.compile(r"[\w =:,;<>@#%!~'\"/-]+", re.A)
"""Text that is nothing but text in any grammar."""


def _translated(text: str, is_extended: bool, is_gnu: bool) -> _Pattern:
    """Python's form of a POSIX basic or extended pattern. Raises ``_Beyond`` for what has no exact one."""
    if _WORDS.fullmatch(text):
        return _Pattern(text, text, 0, False, False)
    items = _items(text, is_extended, is_gnu)
    source: list[str] = []
    groups = depth = 0
    can_be_empty = True
    for place, (kind, value) in enumerate(items):
        after = items[place + 1] if place + 1 < len(items) else ("", "")
        match kind:
            case "text" | "set":
                can_be_empty = can_be_empty and after[0] == "repeat" and after[1] != "+"
                source.append(re.escape(value) if kind == "text" else value)
            case "repeat":
                kind_before, before = items[place - 1] if place else ("", "")
                if kind_before not in ("text", "set") or not before.isascii():
                    raise _Beyond
                source.append(value)
            case "(" | ")":
                groups += kind == "("
                depth += 1 if kind == "(" else -1
                if depth < 0 or (kind == "(" and after[0] == ")"):
                    raise _Beyond
                source.append(kind)
            case _:
                source.append(value)
    if depth:
        raise _Beyond
    is_text = all(kind == "text" for kind, _ in items)
    return _Pattern(
        source="".join(source),
        literal="".join(value for _, value in items) if is_text else "",
        groups=groups,
        can_be_empty=can_be_empty,
        is_bound=items[0][0] == "start" or items[-1][0] == "end",
    )


def _items(text: str, is_extended: bool, is_gnu: bool) -> list[tuple[str, str]]:
    """The pattern's items: (kind, Python's form, or the character itself for ``text``)."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        character = text[place]
        if character == "[":
            match = _BRACKET.match(text, place)
            if match is None:
                raise _Beyond
            found.append(("set", f"[{match[1]}{_members(match[2])}]"))
            place = match.end()
            continue
        place += 1
        if character == "\\":
            escaped = text[place : place + 1]
            place += 1
            found.append(_escape(escaped, is_extended, is_gnu))
        elif character == "^" and (place == 1 or is_extended or found[-1][0] == "("):
            if place != 1:
                raise _Beyond
            found.append(("start", "^"))
        elif character == "$" and (place == len(text) or is_extended or text.startswith(r"\)", place)):
            if place != len(text):
                raise _Beyond
            found.append(("end", r"\Z"))
        elif character == ".":
            found.append(("set", "."))
        elif character == "*" or (is_extended and character in "+?"):
            found.append(("repeat", character))
        elif is_extended and character in "()":
            found.append((character, character))
        elif character == "\n" or (is_extended and character in "|{"):
            raise _Beyond
        else:
            found.append(("text", character))
    return found


def _escape(character: str, is_extended: bool, is_gnu: bool) -> tuple[str, str]:
    """The item that a backslash and ``character`` make."""
    if character in _LETTERS:
        if not is_gnu:
            raise _Beyond
        return _LETTERS[character]
    if not character or character.isalnum() or character in "`'\n":
        raise _Beyond
    if not is_extended and character in "(){}+?|":
        if character in "()":
            return character, character
        if character in "+?" and is_gnu:
            return "repeat", character
        raise _Beyond
    return "text", character


def _members(text: str) -> str:
    """The inside of a bracket expression in Python's form."""
    if text[:1] == text[-1:] == ":":
        raise _Beyond
    members: list[str] = []
    place = 0
    while place < len(text):
        match = _BRACKET_ITEM.match(text, place)
        assert match is not None
        if match[1]:
            if match[1] not in _CLASSES:
                raise _Beyond
            members.append(_CLASSES[match[1]])
        elif match[2]:
            if match[2][0] > match[2][2]:
                raise _Beyond
            members.append(match[2])
        else:
            character, following = match[3], text[place + 1 : place + 2]
            is_inner_dash = character == "-" and 0 < place < len(text) - 1
            if is_inner_dash or not character.isascii() or character == "\n":
                raise _Beyond
            if (character == "\\" and (following.isalnum() or not following)) or (
                character == "[" and following in ".=:"
            ):
                raise _Beyond
            members.append(re.escape(character))
        place = match.end()
    if not members:
        raise _Beyond
    return "".join(members)
