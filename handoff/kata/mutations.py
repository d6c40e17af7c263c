"""Single-token changes of Python source: how bugs are made, and what an agent may try to undo them.

The table is symmetric: for every change its inverse is in it, so each seeded bug has a fix of the same kind.
How likely a change is to be a fix is judged in ``prior.py``.
"""

from __future__ import annotations

import io
import tokenize
from functools import lru_cache

import msgspec

SWAPS: dict[str, tuple[str, ...]] = {
    "!=": ("==",),
    "%": ("//",),
    "*": ("+",),
    "+": ("-", "*"),
    "+=": ("-=",),
    "-": ("+",),
    "-=": ("+=",),
    "//": ("%",),
    "0": ("1",),
    "1": ("0",),
    "<": (">",),
    "<=": (">=",),
    "==": ("!=",),
    ">": ("<",),
    ">=": ("<=",),
    "and": ("or",),
    "max": ("min",),
    "min": ("max",),
    "or": ("and",),
}


class Change(msgspec.Struct, frozen=True, order=True):
    """One token replaced in one line of one file."""

    path: str
    line: int
    """1-based."""
    column: int
    """0-based, of the token."""
    old: str
    new: str

    def inverse(self) -> Change:
        """The change that takes this one back."""
        return Change(self.path, self.line, self.column, self.new, self.old)

    def fits(self, text: str) -> bool:
        """True when the old token is in its place."""
        return any((t.line, t.column, t.text) == (self.line, self.column, self.old) for t in code_tokens(text))

    def apply(self, text: str) -> str:
        """``text`` with the token replaced. ``ValueError`` when the old token is not there."""
        lines = text.split("\n")
        if not 0 < self.line <= len(lines) or not lines[self.line - 1].startswith(self.old, self.column):
            raise ValueError(f"{self.path}:{self.line}:{self.column}: {self.old!r} is not there")
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.column] + self.new + line[self.column + len(self.old) :]
        return "\n".join(lines)


class Token(msgspec.Struct, frozen=True):
    """One token of code with its place."""

    line: int
    column: int
    text: str
    is_name: bool
    is_number: bool


@lru_cache(maxsize=4096)
def code_tokens(text: str) -> tuple[Token, ...]:
    """Names, numbers and operators of a source in order; layout, comments and strings are left out.

    Text that does not tokenise gives the tokens before the damage.
    """
    found: list[Token] = []
    try:
        for kind, string, (line, column), _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
            if kind in (tokenize.NAME, tokenize.NUMBER, tokenize.OP):
                found.append(Token(line, column, string, kind == tokenize.NAME, kind == tokenize.NUMBER))
            elif kind == tokenize.NEWLINE:
                found.append(Token(line, column, "\n", False, False))
    except (tokenize.TokenError, SyntaxError):
        return tuple(found)
    return tuple(found)


@lru_cache(maxsize=4096)
def functions(text: str) -> tuple[tuple[str, int, int], ...]:
    """Top-level functions of a source: (name, first line, last line), 1-based, in order."""
    lines = text.split("\n")
    starts = [n for n, line in enumerate(lines, 1) if line.startswith("def ")]
    found = []
    for start in starts:
        end = start
        for number in range(start + 1, len(lines) + 1):
            if lines[number - 1] and not lines[number - 1].startswith((" ", "\t")):
                break
            if lines[number - 1].strip():
                end = number
        found.append((lines[start - 1][4:].split("(")[0].strip(), start, end))
    return tuple(found)


@lru_cache(maxsize=16_384)
def function_at(text: str, line: int) -> str | None:
    """Name of the top-level function that ``line`` (1-based) lies in."""
    for name, first, last in functions(text):
        if first <= line <= last:
            return name
    return None


@lru_cache(maxsize=4096)
def changes(path: str, text: str) -> tuple[Change, ...]:
    """Every single-token change inside the functions of a source, in order of place."""
    found: list[Change] = []
    for token in code_tokens(text):
        if token.text in SWAPS and function_at(text, token.line) is not None:
            found.extend(Change(path, token.line, token.column, token.text, new) for new in SWAPS[token.text])
    return tuple(found)


def replacement(text: str, change: Change) -> tuple[str, str]:
    """``old_str`` and ``new_str`` of an editor for one change: as many whole lines as make the old text unique."""
    lines = text.split("\n")
    after = change.apply(text).split("\n")
    first = last = change.line - 1
    while True:
        old = "\n".join(lines[first : last + 1])
        if text.count(old) == 1 or (first == 0 and last == len(lines) - 1):
            return old, "\n".join(after[first : last + 1])
        if first > 0:
            first -= 1
        else:
            last += 1


def difference(path: str, old: str, new: str) -> tuple[Change, ...] | None:
    """The single-token changes that turn ``old`` into ``new``; ``None`` when it takes more than such changes."""
    before, after = code_tokens(old), code_tokens(new)
    if len(before) != len(after):
        return None
    found = []
    shift: dict[int, int] = {}
    for a, b in zip(before, after, strict=True):
        if a.text != b.text:
            if b.text not in SWAPS.get(a.text, ()):
                return None
            found.append(Change(path, a.line, a.column + shift.get(a.line, 0), a.text, b.text))
            shift[a.line] = shift.get(a.line, 0) + len(b.text) - len(a.text)
    return tuple(found)
