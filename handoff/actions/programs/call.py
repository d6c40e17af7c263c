"""One command as its program sees it, and what the families of programs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from handoff.actions.operations import Opaque, Operation, Other
from handoff.actions.paths import Context, is_outside, is_unknown, resolve
from handoff.shell import Word

_LONGEST_SHOWN = 200


def listed(text: str) -> frozenset[str]:
    """A table of names, written as words."""
    return frozenset(text.split())


class Call:
    """One command without its wrappers."""

    __slots__ = ("arguments", "context", "is_alone", "name", "stdin", "typed", "words")

    def __init__(
        self, words: tuple[Word, ...], stdin: str | None, context: Context, is_alone: bool, typed: tuple[Word, ...] = ()
    ) -> None:
        self.words = words
        """Program and arguments."""
        self.stdin = stdin
        """What it reads from its standard input, when the line itself says it."""
        self.context = context
        self.is_alone = is_alone
        """Whether its output reaches the observation, and not a pipe or a file."""
        self.typed = typed or words
        """The command as typed: another one when ``words`` is what it runs in turn (``python -m pytest``)."""
        name = words[0].text
        self.name = name.rsplit("/", 1)[-1] if "/" in name else name
        """The program's name without its folder."""
        self.arguments = [word.text for word in words[1:]]
        """The words after the program's name, as text."""

    @property
    def shown(self) -> str:
        """The command as typed, shortened for display."""
        text = " ".join(word.text for word in self.typed)
        return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"

    def path(self, text: str) -> str:
        """Where ``text`` lies."""
        return resolve(text, self.context)

    def plain(self, valued: Iterable[str] = ()) -> list[str]:
        """Arguments that are no options; ``valued``: options that take the next word."""
        return plain(self.arguments, valued)

    def has(self, *options: str) -> bool:
        """Whether one of ``options`` is given, by itself or, for a single letter, in a cluster such as ``-rf``."""
        for text in self.arguments:
            if text[:1] == "-":
                for option in options:
                    if _is_option(text, option):
                        return True
        return False

    def values(self, *options: str) -> list[str]:
        """The words after ``options``."""
        return [value for option, value in pairwise(self.arguments) if option in options]

    def inner(self, words: tuple[Word, ...]) -> Call:
        """The command that this one runs."""
        return Call(words, self.stdin, self.context, self.is_alone, self.typed)


Program: TypeAlias = Callable[[Call], "list[Operation] | Call"]
"""What a command does, or the command that it runs in turn."""


def _is_option(text: str, option: str) -> bool:
    if text == option or text.startswith(option + "="):
        return True
    return len(option) == 2 and text[:1] == "-" and text[1:].isalpha() and text[1:2] != "-" and option[1] in text


def plain(arguments: Sequence[str], valued: Iterable[str] = ()) -> list[str]:
    """``arguments`` without options and their values."""
    found, skips, has_ended = [], False, False
    for text in arguments:
        if skips:
            skips = False
        elif has_ended or not text.startswith("-") or text == "-":
            found.append(text)
        elif text == "--":
            has_ended = True
        else:
            skips = text in valued
    return found


def after_options(words: tuple[Word, ...], valued: Iterable[str] = ()) -> tuple[Word, ...]:
    """``words`` from the first that is no option."""
    place = 0
    while place < len(words) and words[place].text.startswith("-"):
        if words[place].text == "--":
            place += 1
            break
        place += 2 if words[place].text in valued else 1
    return words[place:]


def anywhere(reason: str) -> Opaque:
    """An edit of files that the line does not name."""
    return Opaque(reason=reason, paths=(".",))


def guarded(path: str, operation: Operation, tool: str) -> Operation:
    """``operation`` on ``path`` if that lies in the repository."""
    if is_unknown(path):
        return anywhere(f"{tool} of files not named")
    return Other(tool=tool, target=path) if is_outside(path) else operation


def is_wild(call: Call, text: str) -> bool:
    """Whether the shell would expand the argument ``text``."""
    return any(word.text == text and not word.is_literal for word in call.words)
