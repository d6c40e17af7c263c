"""What of a shell outlives a line: variables that were exported, and processes in the background."""

from __future__ import annotations

import re

from handoff.environment.ledger import Ledger
from handoff.shell import Word

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>[A-Za-z_]\w*))")


class Session:
    """One run's shell, whether it is kept or begun anew at each call."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._variables: dict[str, str] = {}
        """Variables whose values are known, in a shell that keeps them."""
        self._jobs: list[str] = []
        """Processes in the background, in the order in which they were started."""

    def expanded(self, word: Word) -> str | None:
        """A word with the variables that are known; ``None`` when the shell may make something else of it."""
        if word.is_literal:
            return word.text
        text = _VARIABLE.sub(self._value, word.text)
        return None if any(mark in text for mark in "$`*?[{\0") else text

    def _value(self, match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"]
        value = self._variables.get(name, "~" if name == "HOME" else "")
        # Without quotes, which a word no longer shows, blanks would split it and nothing would leave nothing.
        return value if value and not any(c.isspace() for c in value) else "\0"

    def is_exported(self, name: str) -> bool:
        """Whether a variable is one of those that are followed."""
        return any(held == name for held, _ in self._ledger.held("variable"))

    def forget_variables(self) -> None:
        """Any variable may have become another."""
        for name, _ in self._ledger.held("variable"):
            self.assign(name, None)

    def assign(self, name: str, value: str | None) -> None:
        """A variable is exported; ``None``: with a value that is not known."""
        if value is None:
            self._variables.pop(name, None)
            self._ledger.say("variable", name, None, holds=False)
        else:
            self._variables[name] = value
            self._ledger.say("variable", name, value)

    def start(self, command: str, pid: str | None, *, is_late: bool = False) -> None:
        """A process begins in the background."""
        name = " ".join(command.split())
        if not is_late:
            self._jobs.append(name[:200])
        self._ledger.say("process", name, pid)

    def stop(self, word: str) -> None:
        """``kill`` of one target: a job, a number, or something that nobody knows, which may be any of them."""
        processes = self._ledger.held("process")
        if word.startswith("%") and word[1:].isdigit():
            place = int(word[1:]) - 1
            names = {self._jobs[place]} if place < len(self._jobs) else set()
        elif word == "$!":
            names = set(self._jobs[-1:])
        elif word.isdigit():
            by_number = {name for name, value in processes if value == word}
            names = by_number or ({self._jobs[-1]} if len(self._jobs) == 1 else set())
        else:
            names = {name for name, _ in processes}
        for name, _ in processes:
            if name in names:
                self._ledger.drop("process", name)

    def stop_named(self, pattern: str) -> None:
        """``pkill`` and its like: every process whose command holds the name."""
        for name, _ in self._ledger.held("process"):
            if not pattern or pattern in name:
                self._ledger.drop("process", name)
