"""What a structured edit leaves of a file, by the editor that carried it out (``Dialect``).

``edited`` chooses among ``editors`` (plain bytes), ``str_replace``, ``windows`` and ``lenient``. Where it is not known
which release of an editor ran, those that cannot have made the edit are set aside, and the rest must agree; else the
file is ``Unknowable``. ``History`` is what ``undo_edit`` goes back to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias, assert_never

from handoff.actions import (
    AppendFile,
    Dialect,
    EditLines,
    InsertLines,
    Replace,
    ReplaceEach,
    Undo,
    WriteFile,
)
from handoff.editors import lenient, str_replace, windows
from handoff.editors import plain as editors
from handoff.editors.plain import Misfit, Unknowable, encoded
from handoff.editors.str_replace import OPENHANDS_0_2, VERSIONS

TextEdit: TypeAlias = AppendFile | Replace | ReplaceEach | InsertLines | EditLines


def edited(operation: TextEdit, data: bytes) -> bytes:
    """The file after an edit that the recording says was made. ``Misfit``: it cannot have been made on ``data``."""
    match operation:
        case AppendFile(text=text):
            return data + encoded(text)
        case Replace():
            return _replaced(operation, data)
        case ReplaceEach(pairs=pairs, dialect=dialect):
            return _replaced_each(pairs, dialect, data)
        case InsertLines():
            return _inserted(operation, data)
        case EditLines():
            return _lines_edited(operation, data)
        case _:
            assert_never(operation)


def written(operation: WriteFile, before: bytes | None) -> bytes:
    """The file after its whole text was set; ``before`` is what it held (``None``: there was none)."""
    if before is not None and b"\r" in before and operation.dialect in ("claude_code", "gemini"):
        raise Unknowable("the editor writes some files with the line ends that they had, and releases differ in which")
    return encoded(operation.text)


def _agreed(makers: Iterable[Callable[[], bytes]]) -> bytes:
    """What all that can have happened come to."""
    results: dict[bytes, None] = {}
    refusal: Misfit | None = None
    for make in makers:
        try:
            results[make()] = None
        except Misfit as misfit:
            refusal = refusal or misfit
    if not results:
        raise refusal or Misfit("no editor of this name can have made the edit")
    if len(results) > 1:
        raise Unknowable("releases of the editor differ in what this edit leaves, and nothing tells which one ran")
    return next(iter(results))


def _replaced(edit: Replace, data: bytes) -> bytes:
    old, new, is_every = edit.old, edit.new, edit.count == "all"
    match edit.dialect:
        case "windowed" | "windowed_0" | "windowed_1" | "windowed_1_before" | "windowed_1_after":
            if is_every:
                return windows.replaced_everywhere(data, old, new)
            return windows.replaced(data, old, new, edit.first or 1, edit.last)
        case "claude_code":
            return lenient.claude_code(data, old, new, is_every=is_every)
        case "some_edit":
            return lenient.some_edit(data, old, new, is_every=is_every)
        case "gemini":
            return lenient.gemini(data, old, new, is_every=is_every)
        case "aider":
            return lenient.aider(data, old, new, edit.path.rsplit("/", 1)[-1])
        case "pi" | "cline":
            return _replaced_each(((old, new),), edit.dialect, data)
        case "":
            return editors.replace(data, old, new, edit.count, edit.first, edit.last)
        case _:
            return _agreed(
                lambda version=version: str_replace.replaced(data, old, new, version)  # type: ignore[misc]
                for version in VERSIONS[edit.dialect]
            )


def _replaced_each(pairs: tuple[tuple[str, str], ...], dialect: Dialect, data: bytes) -> bytes:
    match dialect:
        case "pi":
            return lenient.pi(data, pairs)
        case "cline":
            return lenient.cline(data, pairs)
        case "claude_code" | "some_edit":
            change = lenient.claude_code if dialect == "claude_code" else lenient.some_edit
            for old, new in pairs:
                data = change(data, old, new, is_every=False)
            return data
        case _:
            for old, new in pairs:
                data = editors.replace(data, old, new, "loose")
            return data


def _inserted(edit: InsertLines, data: bytes) -> bytes:
    line, text = edit.line, edit.text
    if edit.dialect.startswith("windowed"):
        places = {"windowed_1_before": (True,), "windowed_1_after": (False,)}.get(edit.dialect, (True, False))
        return _agreed(
            lambda is_before=is_before: windows.inserted(data, line, text, is_before=is_before)  # type: ignore[misc]
            for is_before in places
        )
    if edit.dialect in VERSIONS and line is not None:
        return _agreed(
            lambda version=version: str_replace.inserted(data, line, text, version)  # type: ignore[misc]
            for version in VERSIONS[edit.dialect]
        )
    return editors.insert_lines(data, line, text)


def _lines_edited(edit: EditLines, data: bytes) -> bytes:
    first, last, text = edit.first, edit.last, edit.text
    match edit.dialect:
        case "windowed_0":
            return windows.shell_edited(data, first, last, text)
        case "windowed_1" | "windowed_1_before" | "windowed_1_after":
            return windows.lines_edited(data, first, last, text)
        case "windowed":
            return _agreed(
                (
                    lambda: windows.shell_edited(data, first, last, text),
                    lambda: windows.lines_edited(data, first, last, text),
                )
            )
        case _:
            return editors.edit_lines(data, first, last, text)


class _Kept(NamedTuple):
    """What an edit's undoing needs."""

    data: bytes | None
    """The file before it, or the whole new text of a file that was written; ``None``: not known."""
    edit: Literal["replace", "insert", "write"]


_MOST_KEPT = 10
"""Edits of a file that can be undone: as many as OpenHands' editor keeps."""


class History:
    """What ``undo_edit`` goes back to: per file, the texts before each edit by an editor of the ``str_replace`` kind.

    Edits by other means are not in it: they are lost when an earlier text is written back.
    """

    def __init__(self) -> None:
        self._kept: dict[str, deque[_Kept]] = {}
        self._dropped: set[str] = set()
        """Files with more edits than are kept."""
        self._undone: set[str] = set()
        """Files whose last edit by such an editor was an undoing."""

    def note(self, operation: TextEdit | WriteFile, place: str, before: bytes | None) -> None:
        """An edit of the file at ``place`` was made. ``before``: what it held; ``None``: that is not known."""
        if getattr(operation, "dialect", "") not in VERSIONS:
            return
        self._undone.discard(place)
        kept = self._kept.setdefault(place, deque(maxlen=_MOST_KEPT))
        if len(kept) == _MOST_KEPT:
            self._dropped.add(place)
        match operation:
            case WriteFile(text=text):  # the new text itself is what is kept
                kept.append(_Kept(encoded(text), "write"))
            case InsertLines():
                kept.append(_Kept(before, "insert"))
            case _:
                kept.append(_Kept(before, "replace"))

    def undo(self, operation: Undo, place: str) -> bytes:
        """What the last edit's undoing writes. ``Misfit``: there is nothing to undo."""
        versions = VERSIONS.get(operation.dialect, ())
        if place in self._undone and OPENHANDS_0_2 in versions:
            raise Unknowable("some releases of the editor undo the same edit again")
        if not self._kept.get(place):
            if place in self._dropped:
                raise Unknowable("editors differ in how many edits they can undo")
            raise Misfit("there is no edit to undo")
        self._undone.add(place)
        data, edit = self._kept[place].pop()
        if data is None:
            raise Unknowable("the text before the edit that is undone is not known")
        if edit == "write":
            return data
        is_insert = edit == "insert"
        texts = {str_replace.remembered(data, version, is_insert=is_insert): None for version in versions}
        if len(texts) > 1:
            raise Unknowable("releases of the editor differ in what undoing leaves, and nothing tells which one ran")
        return next(iter(texts), data)
