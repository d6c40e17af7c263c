"""A shell line as a tree: lists, pipelines, branches, loops, words with their parts. ``syntax`` reads it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias


class Beyond(Exception):
    """The line holds something that is not carried out here. ``str`` names it."""


class Literal_(NamedTuple):
    """Text of a word. Quoted text is neither split nor matched against names of files."""

    text: str
    is_quoted: bool


class Variable(NamedTuple):
    """``$name`` or ``${name}``; ``default``: the word of ``${name:-word}``; ``trim``: what ``${name%pattern}`` and its
    kin take off (operator, pattern)."""

    name: str
    is_quoted: bool
    default: Word | None = None
    trim: tuple[str, str] | None = None


class Substitution(NamedTuple):
    """``$(…)``."""

    script: Script
    is_quoted: bool


class Arithmetic(NamedTuple):
    """``$((…))``: the expression."""

    text: str


class Unread(NamedTuple):
    """An expansion whose value is never known: arrays, ``~`` and their kin."""

    text: str


Part: TypeAlias = Literal_ | Variable | Substitution | Arithmetic | Unread


class Word(NamedTuple):
    """One word, its parts in order."""

    parts: tuple[Part, ...]
    text: str
    """As written."""


class Heredoc:
    """The text of a here-document, which the line only gives after the command."""

    __slots__ = ("delimiter", "is_raw", "strips_tabs", "word")

    def __init__(self, delimiter: str, is_raw: bool, strips_tabs: bool) -> None:
        self.delimiter = delimiter
        self.is_raw = is_raw
        self.strips_tabs = strips_tabs
        self.word = Word((), "")


class Redirect(NamedTuple):
    """One redirection: descriptor, operator, where to."""

    fd: int | None
    operator: str
    target: Word | Heredoc


class Simple(NamedTuple):
    """Assignments, a program with its arguments, redirections."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Block(NamedTuple):
    """``{ …; }``, or ``( … )`` with ``is_subshell``."""

    script: Script
    is_subshell: bool
    redirects: tuple[Redirect, ...]


class If(NamedTuple):
    """Conditions with their branches in order; the last condition is empty for ``else``."""

    branches: tuple[tuple[Script, Script], ...]
    redirects: tuple[Redirect, ...]


class For(NamedTuple):
    """A loop over words."""

    name: str
    words: tuple[Word, ...]
    body: Script
    redirects: tuple[Redirect, ...]


class While(NamedTuple):
    """``while``, or ``until`` with ``is_until``."""

    condition: Script
    body: Script
    is_until: bool
    redirects: tuple[Redirect, ...]


class Case(NamedTuple):
    """``case``: patterns with their scripts."""

    word: Word
    items: tuple[tuple[tuple[Word, ...], Script], ...]
    redirects: tuple[Redirect, ...]


class Function(NamedTuple):
    """A definition."""

    name: str
    body: Command


Command: TypeAlias = Simple | Block | If | For | While | Case | Function


class Pipeline(NamedTuple):
    """Commands joined by ``|``."""

    commands: tuple[Command, ...]
    is_negated: bool


class Chain(NamedTuple):
    """Pipelines joined by ``&&`` and ``||``; the first has no connector."""

    items: tuple[tuple[Literal["", "&&", "||"], Pipeline], ...]
    is_background: bool
    text: str
    """As written, shortened."""


Script: TypeAlias = tuple[Chain, ...]
