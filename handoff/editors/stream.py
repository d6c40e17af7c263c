"""A file taken line by line through ``sed``'s commands, with the same bytes as GNU ``sed`` leaves.

Where the result would hang on the locale (a pattern with sets on a line that is not ASCII) or would cost too much to
derive, it is ``Unknowable`` rather than guessed.
"""

from __future__ import annotations

import re

from handoff.actions.operations import LAST_LINE, LineEdit
from handoff.editors.plain import Unknowable, encoded, lines_of

_MOST_WORK = 50_000_000
"""Steps of matching that one edit of one file may cost."""


def stream_edit(data: bytes, edits: tuple[LineEdit, ...]) -> bytes:
    """``data`` after ``sed -i``: every line goes through all ``edits`` in order. Raises ``Unknowable``."""
    running = [_Running(edit) for edit in edits]
    lines = lines_of(data)
    written: list[bytes] = []
    budget = _Budget()
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\n")
        after: list[bytes] = []
        is_kept = True
        for edit in running:
            if not edit.chooses(number, text, number == len(lines), budget):
                continue
            match edit.kind:
                case "substitute":
                    text = edit.substituted(text, budget)
                case "insert":
                    written.append(edit.text + b"\n")
                case "append":
                    after.append(edit.text + b"\n")
                case "change":
                    if edit.closes_range:
                        written.append(edit.text + b"\n")
                    is_kept = False
                    break
                case "delete":
                    is_kept = False
                    break
        if is_kept:
            ends_open = not line.endswith(b"\n") and not after
            written.append(text if ends_open else text + b"\n")
        written += after
    return b"".join(written)


class _Budget:
    """Bounds the work of one edit of one file."""

    def __init__(self) -> None:
        self._left = _MOST_WORK

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise Unknowable("matching this pattern on this file would take too long")


_BRACKETS = re.compile(r"\[\^?(?:\\.|[^\]\\])*\]")
_NO_TEXT = re.compile(r"\(\?[<=]{1,2}[^)]*\)|\\[A-Za-z]")
_TEXT = re.compile(r"((?:\\[^A-Za-z0-9]|[^\\.()*+?^$])+)([*?]?)")
_ESCAPE = re.compile(r"\\(.)")


def _needle(pattern: str) -> bytes:
    """The longest text that every match holds; empty when there is none."""
    if pattern.startswith("(?i)"):
        return b""
    found = [b""]
    for text, times in _TEXT.findall(_NO_TEXT.sub(".", _BRACKETS.sub(".", pattern))):
        characters = _ESCAPE.sub(r"\1", text)
        found.append(encoded(characters[:-1] if times else characters))
    return max(found, key=len)


class _Matcher:
    """A pattern, its cost, and what it needs of a line."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(encoded(pattern))
        self._needle = _needle(pattern)
        stars = len(re.findall(r"(?<!\\)[*+]", pattern))
        optional = len(re.findall(r"(?<!\\)\?", pattern))
        self._degree = stars + (not pattern.startswith(("^", ".*")))
        self._factor = 2 ** min(optional, 24)
        self._is_plain = re.search(r"(?<!\\)(?:\\\\)*[.\[*+?]|\\b|\(\?i\)", pattern) is None

    def search(self, text: bytes, budget: _Budget) -> re.Match[bytes] | None:
        pattern = self.ready(text, budget)
        return pattern.search(text) if pattern is not None else None

    def ready(self, text: bytes, budget: _Budget) -> re.Pattern[bytes] | None:
        """The pattern, when it may be run on ``text``; ``None`` when it cannot match."""
        if self._needle not in text:
            return None
        if not self._is_plain and not text.isascii():
            raise Unknowable("what this pattern matches on a line that is not ASCII depends on the locale")
        budget.spend(len(text) if self._degree < 2 else self._factor * len(text) ** self._degree)
        return self._pattern


class _Running:
    """One command, with the state of its range."""

    def __init__(self, edit: LineEdit) -> None:
        self.kind = edit.kind
        self._edit = edit
        self._start = _Matcher(edit.start) if isinstance(edit.start, str) else None
        self._end = _Matcher(edit.end) if isinstance(edit.end, str) else None
        self._matcher = _Matcher(edit.pattern) if edit.kind == "substitute" else None
        self._parts = [encoded(part) if isinstance(part, str) else part for part in edit.replacement]
        self._last: int | None = None
        """Last line of the range that is open; 0: where its pattern matches."""
        self.closes_range = True
        """Whether the line chosen last is the last of its range: ``c`` writes its text there."""

    @property
    def text(self) -> bytes:
        """The lines that the command brings."""
        return b"".join(part for part in self._parts if isinstance(part, bytes))

    def chooses(self, number: int, text: bytes, is_last: bool, budget: _Budget) -> bool:
        """Whether the command is for this line."""
        return self._is_in(number, text, is_last, budget) != self._edit.is_negated

    def _is_in(self, number: int, text: bytes, is_last: bool, budget: _Budget) -> bool:
        edit = self._edit
        if self._last is not None:
            return self._goes_on(number, text, is_last, budget)
        if not self._begins(number, text, is_last, budget):
            return False
        if edit.extra is not None:
            self._open_until(number + edit.extra, number)
        elif isinstance(edit.end, str):
            self._last, self.closes_range = 0, False
        elif edit.end == LAST_LINE:
            self._last, self.closes_range = (None, True) if is_last else (LAST_LINE, False)
        elif edit.end is not None:
            self._open_until(edit.end, number)
        return True

    def _begins(self, number: int, text: bytes, is_last: bool, budget: _Budget) -> bool:
        start = self._edit.start
        if self._start is not None:
            return self._start.search(text, budget) is not None
        return start is None or start == number or (start == LAST_LINE and is_last)

    def _open_until(self, last: int, number: int) -> None:
        self.closes_range = last <= number
        self._last = None if self.closes_range else last

    def _goes_on(self, number: int, text: bytes, is_last: bool, budget: _Budget) -> bool:
        if self._end is not None:
            is_end = self._end.search(text, budget) is not None
        else:
            is_end = is_last if self._last == LAST_LINE else number == self._last
        self.closes_range = is_end
        if is_end:
            self._last = None
        return True

    def substituted(self, text: bytes, budget: _Budget) -> bytes:
        """The line with its match, or every one, replaced."""
        assert self._matcher is not None
        pattern = self._matcher.ready(text, budget)
        if pattern is None:
            return text
        if self._edit.is_every:
            return pattern.sub(self._filled, text)
        for count, match in enumerate(pattern.finditer(text), 1):
            if count == self._edit.nth:
                return text[: match.start()] + self._filled(match) + text[match.end() :]
        return text

    def _filled(self, match: re.Match[bytes]) -> bytes:
        return b"".join(part if isinstance(part, bytes) else match[part] for part in self._parts)
