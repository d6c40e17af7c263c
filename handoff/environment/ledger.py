"""The facts of a run as they are collected: clipped, without secrets, and said once.

What later lines are read by (where the shell stands, which processes were started) depends only on answers that came
in time: an answer that came late must not change how the steps before its arrival are read.
"""

from __future__ import annotations

import re

from handoff.actions import Context
from handoff.environment.facts import Basis, Fact, Kind
from handoff.secrets import RULES

_LONGEST_NAME = 200
_LONGEST_VALUE = 300
MOST_FACTS = 20_000
"""Facts of one run; a recording with more is cut there, which only makes less known."""

MASKED = "<masked>"
"""Stands for a value that is, or may be, a secret."""
_TELLING = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|secret|token|credential|private|cookie|auth|session|(?:^|_)(?:api|access)?_?key)"
    r"(?:s|_|\b|$)"
)


class Ledger:
    """Facts so far, and where the walk stands."""

    def __init__(self, context: Context, *, is_folder_told: bool) -> None:
        self.facts: list[Fact] = []
        self.context = context
        """How paths are read, and whether the shell outlives its line."""
        self.is_folder_told = is_folder_told
        """The harness says where the shell stands, so nothing has to be inferred."""
        self.is_folder_known = False
        self.number = 0
        """The step that is read."""
        self.seen = 0
        """The step by whose end its answer had come."""
        self._last: dict[tuple[Kind, str], Fact] = {}
        self._held: dict[Kind, dict[str, str | None]] = {}
        """Kind → every name that ever held → the last value that was shown in time."""

    def say(
        self,
        kind: Kind,
        name: str,
        value: str | None = None,
        basis: Basis = "inferred",
        *,
        holds: bool = True,
        until: int | None = None,
    ) -> None:
        """One more fact. What the last one of its name says already is not said again."""
        if len(self.facts) >= MOST_FACTS or not name:
            return
        is_secret = kind == "variable" and value and _TELLING.search(name)
        name = masked(name[:_LONGEST_NAME])
        value = value if value is None else MASKED if is_secret else masked(value[:_LONGEST_VALUE])
        names = self._held.setdefault(kind, {})
        if holds:
            names[name] = value if self.seen <= self.number else names.get(name)
        elif name not in names:
            return
        fact = Fact(kind, name, value if holds else None, basis, self.number, self.seen, holds, until)
        last = self._last.get((kind, name))
        if last is not None and _says(last) == _says(fact) and last.seen == last.step and until is None:
            return
        self.facts.append(fact)
        self._last[kind, name] = fact

    def stand(self, path: str | None, basis: Basis) -> None:
        """The shell's folder from here on; ``None``: it is not known any more."""
        self.is_folder_known = path is not None
        self.say("folder", "shell", path and (path or "."), basis, holds=path is not None)

    def held(self, kind: Kind) -> list[tuple[str, str | None]]:
        """(name, value) of everything of a kind that ever held, whether it still does or not."""
        return list(self._held.get(kind, {}).items())

    def drop(self, kind: Kind, name: str) -> None:
        """Something is not there any more, or nobody knows whether it is."""
        self.say(kind, name, holds=False)


def _says(fact: Fact) -> tuple[str | None, Basis, bool, int | None]:
    return fact.value, fact.basis, fact.holds, fact.until


_MARKS = re.compile("|".join(sorted({re.escape(mark) for _, marks, _ in RULES for mark in marks})))


def masked(text: str) -> str:
    """``text``, or a mark in its place when a secret is in it."""
    if _MARKS.search(text) is not None and any(rule.search(text) for _, _, rule in RULES):
        return MASKED
    return text
