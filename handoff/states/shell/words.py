"""Words as the shell expands them: braces, variables, substitutions, splitting, names of files.

A word whose value is not known comes out as it was written and says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from handoff.actions.paths import Context
from handoff.states.shell.arithmetic import evaluated
from handoff.states.shell.disk import Disk, Place
from handoff.states.shell.ignored import glob_pattern
from handoff.states.shell.tree import Arithmetic, Beyond, Literal_, Script, Substitution, Unread, Variable, Word

_MOST = 2_000
"""Words that one may become."""

_MOST_LETTERS = 2_000_000
"""Of one word; the text of a longer one is not known."""


class Arg(NamedTuple):
    """One word that a program gets."""

    text: str
    is_known: bool = True


class _Unknown(NamedTuple):
    """An expansion without a known value, among the characters of a word."""

    is_quoted: bool


_Piece = tuple[str, bool] | _Unknown
"""A character (or a longer quoted text) and whether it is quoted."""
_SPECIAL = frozenset("*?[{~")
_UNEVEN = re.compile(r"[*?\[\]{}~\\]")
"""Characters that mean something in an unquoted value in some places, and nothing in others."""


class Expander:
    """Expands words for one machine."""

    def __init__(self, disk: Disk, run: Callable[[Script], bytes | None]) -> None:
        self._disk = disk
        self._run = run
        self.values: dict[str, str | None] = {}
        """Variables: their value, ``None`` when it is not known."""
        self.status: bool | None = True
        self.is_unset_used = False
        """Whether a variable without a known value was used."""
        self.may_be_zsh = False
        """Whether the shell may be one that neither splits values nor keeps patterns that match nothing."""
        self.has_braces = True
        """Whether the shell is one that expands braces."""
        self.is_order_sure = True
        """Whether the names that the last pattern matched come in the same order everywhere, and are all there are."""

    def args(self, words: tuple[Word, ...], context: Context) -> list[Arg]:
        """The words of a command."""
        found: list[Arg] = []
        for word in words:
            if self.may_be_zsh and word.text.startswith("=") and len(word.text) > 1:
                raise Beyond("a word that zsh takes for a program")
            found += self._arg(word, context)
            if len(found) > _MOST:
                raise Beyond("too many words")
        return found

    def single(self, word: Word) -> Arg:
        """A word that is neither split nor matched: a value, a here-document."""
        pieces = list(self._pieces(word))
        if pieces and pieces[0] == ("~", False):
            return Arg(word.text, False)
        if any(isinstance(piece, _Unknown) for piece in pieces):
            return Arg(word.text, False)
        texts = [piece[0] for piece in pieces if not isinstance(piece, _Unknown)]
        return Arg("".join(texts)) if sum(map(len, texts)) <= _MOST_LETTERS else Arg(word.text, False)

    def _arg(self, word: Word, context: Context) -> list[Arg]:
        part = word.parts[0] if len(word.parts) == 1 else None
        if isinstance(part, Literal_) and (part.is_quoted or not _SPECIAL & set(part.text)):
            return [Arg(part.text)]
        found: list[Arg] = []
        for pieces in self._braced(list(self._pieces(word))):
            for field in _split(pieces):
                found += self._named(field, word, context)
        return found

    def _pieces(self, word: Word) -> Iterator[_Piece]:
        for part in word.parts:
            match part:
                case Literal_(text=text, is_quoted=True):
                    yield text, True
                case Literal_(text=text):
                    for character in text:
                        yield character, False
                case Unread():
                    yield _Unknown(True)
                case Arithmetic(text=text):
                    found = evaluated(text, self.values)
                    yield _Unknown(True) if found is None else (found, True)
                case Variable() | Substitution():
                    value = self._value(part)
                    if value is None:
                        yield _Unknown(part.is_quoted)
                    elif part.is_quoted:
                        yield value, True
                    elif _UNEVEN.search(value) or (
                        self.may_be_zsh and isinstance(part, Variable) and (not value or re.search(r"\s", value))
                    ):
                        yield _Unknown(False)
                    else:
                        yield from ((character, False) for character in value)

    def _value(self, part: Variable | Substitution) -> str | None:
        if isinstance(part, Substitution):
            out = self._run(part.script)
            if out is None or b"\0" in out:
                return None
            return out.decode("utf-8", "surrogateescape").rstrip("\n")
        if part.name == "?":
            return None if self.status is None else ("0" if self.status else None)
        value = self.values.get(part.name)
        self.is_unset_used = self.is_unset_used or (part.default is None and not value)
        if part.default is not None:
            is_unset = part.name in self.values and value == ""
            return self.single(part.default).text if is_unset else value
        return value if value is None or part.trim is None else _trimmed(value, *part.trim)

    # -- braces ---------------------------------------------------------------------------------

    def _braced(self, pieces: list[_Piece]) -> list[list[_Piece]]:
        if not self.has_braces:
            if ("{", False) in pieces and ("}", False) in pieces:
                raise Beyond("braces in a shell that may not expand them")
            return [pieces]
        for start, piece in enumerate(pieces):
            if piece != ("{", False) or (start and pieces[start - 1] == ("$", False)):
                continue
            commas: list[int] = []
            depth = 0
            for at in range(start, len(pieces)):
                depth += (pieces[at] == ("{", False)) - (pieces[at] == ("}", False))
                if depth == 1 and pieces[at] == (",", False):
                    commas.append(at)
                if depth == 0:
                    made = self._alternatives(pieces, start, at, commas)
                    if made is None:
                        break
                    found = [item for each in made for item in self._braced([*pieces[:start], *each])]
                    if len(found) > _MOST:
                        raise Beyond("too many words")
                    return found
        return [pieces]

    def _alternatives(self, pieces: list[_Piece], start: int, end: int, commas: list[int]) -> list[list[_Piece]] | None:
        """What stands for the braces, each with the rest of the word."""
        rest = pieces[end + 1 :]
        if commas:
            edges = [start, *commas, end]
            return [[*pieces[a + 1 : b], *rest] for a, b in pairwise(edges)]
        inside = "".join(piece[0] for piece in pieces[start + 1 : end] if not isinstance(piece, _Unknown))
        numbers = re.fullmatch(r"(-?\d{1,4})\.\.(-?\d{1,4})", inside)
        if numbers is None:
            if ".." in inside:
                raise Beyond("a sequence in braces")
            return None
        if any(re.fullmatch(r"-?0\d+", number) for number in numbers.groups()):
            raise Beyond("a sequence in braces")
        first, last = int(numbers[1]), int(numbers[2])
        count = range(first, last + 1) if first <= last else range(first, last - 1, -1)
        return [[*((c, False) for c in str(number)), *rest] for number in count]

    # -- names of files -------------------------------------------------------------------------

    def _named(self, field: list[_Piece], word: Word, context: Context) -> list[Arg]:
        if any(isinstance(piece, _Unknown) for piece in field) or field[:1] == [("~", False)]:
            return [Arg(word.text, False)]
        text = "".join(piece[0] for piece in field if not isinstance(piece, _Unknown))
        if not any(piece in (("*", False), ("?", False), ("[", False)) for piece in field):
            return [Arg(text)]
        pattern = "".join(
            piece[0] if not piece[1] else re.sub(r"([*?\[\\\]])", r"\\\1", piece[0])
            for piece in field
            if not isinstance(piece, _Unknown)
        )
        if "[:" in pattern:
            return [Arg(word.text, False)]
        names = self._matches(pattern, context)
        if names is None:
            return [Arg(word.text, False)]
        if not names:
            return [Arg(word.text, False) if self.may_be_zsh else Arg(text)]
        return [Arg(name) for name in names]

    def _matches(self, pattern: str, context: Context) -> list[str] | None:
        """Names that match, as typed and in order; ``None`` when the files are not known."""
        found = [""]
        if pattern.startswith("/"):
            found, pattern = ["/"], pattern.lstrip("/")
        parts = pattern.split("/")
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            following: list[str] = []
            for prefix in found:
                if not _has_magic(part):
                    following.append(prefix + re.sub(r"\\(.)", r"\1", part) + ("" if is_last else "/"))
                    continue
                place = self._disk.locate(prefix or ".", context)
                names = self._names(place)
                wanted = re.compile(glob_pattern(part))
                links = [".", "..", *([] if place.path else [".git"])]
                if part.startswith((".", "\\.")) and any(wanted.match(name) for name in links):
                    return None  # which of these a shell lists hangs on its version
                if names is None or any(wanted.match(name) for name in self._doubtful(place)):
                    return None
                if re.search(r"\?|\[[!^]", part) and any(
                    _may_match(part, name) for name in names if not name.isascii()
                ):
                    return None  # one character or one byte: that hangs on the shell and its locale
                for name in sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape")):
                    is_hidden = name.startswith(".") and not part.startswith((".", "\\."))
                    if not is_hidden and wanted.match(name) and (is_last or names[name]):
                        following.append(prefix + name + ("" if is_last else "/"))
            found = following
        if not _has_magic(parts[-1]):
            kinds = {name: self._disk.kind(self._disk.locate(name, context, follows=False)) for name in found}
            if "unknown" in kinds.values():
                return None
            found = [name for name in found if kinds[name] != "none" and (parts[-1] or kinds[name] == "folder")]
        loose = sorted(found, key=lambda name: re.sub(r"[^\w/]", "", name).casefold())
        if loose != found or self._disk.effects.has_run_programs:
            self.is_order_sure = False
        return found

    def _names(self, place: Place) -> dict[str, bool] | None:
        """The names in a folder and whether each is (a link to) a folder."""
        if not place.is_inside or self._disk.effects.is_unknown(place.path):
            return None
        prefix = f"{place.path}/" if place.path else ""
        names = dict(self._disk.files.names(place.path))
        for name in names:
            target = self._disk.files.locate(prefix + name)
            names[name] = names[name] or (target is not None and self._disk.files.is_folder(target))
        return names

    def _doubtful(self, place: Place) -> list[str]:
        """Names in a folder that are there or not: nothing is known of them."""
        prefix = f"{place.path}/" if place.path else ""
        inner = (path[len(prefix) :] for path in self._disk.effects.unknown if path.startswith(prefix))
        return [name for name in inner if "/" not in name]


def _trimmed(value: str, operator: str, pattern: str) -> str:
    """``${name%pattern}`` and its kin: the shortest (one sign) or longest match at an end goes."""
    wanted = re.compile(glob_pattern(pattern, crosses=True))
    is_end = operator[0] == "%"
    lengths = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for length in lengths:
        if wanted.match(value[len(value) - length :] if is_end else value[:length]):
            return value[: len(value) - length] if is_end else value[length:]
    return value


def _may_match(part: str, name: str) -> bool:
    return re.match(glob_pattern(re.sub(r"\?|\[[^\]]*\]", "*", part)), name) is not None


def _has_magic(part: str) -> bool:
    return re.search(r"(?<!\\)[*?\[]", part) is not None


def _split(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Fields: unquoted white space, which only a value can hold, divides them."""
    fields: list[list[_Piece]] = []
    field: list[_Piece] | None = None
    for piece in pieces:
        if not isinstance(piece, _Unknown) and not piece[1] and piece[0] in " \t\n":
            if field is not None:
                fields.append(field)
            field = None
            continue
        field = field if field is not None else []
        if isinstance(piece, _Unknown) or piece[0]:
            field.append(piece)
    if field is not None:
        fields.append(field)
    return fields
