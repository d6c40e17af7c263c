"""SWE-agent's windowed editor: commands that act on the open file, the lines it shows, or a pair of cursors.

Generations differ in more than syntax. 0.x: ``edit a:b`` or, with cursors, a bare ``edit`` over the selection. 1.x:
the same range, search and replace among the shown lines, an insertion at a line or at the end, the shown lines
rewritten. What the window shows and where the cursors are is known from the screens that the editor printed, so it is
read from observations and not computed; so is which generation it was, where the call alone does not tell. The text of
an ``EditLines`` from here is what the tool was given to read: each line of it ends in a line feed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from handoff.actions.operations import (
    LAST_LINE,
    Dialect,
    EditLines,
    InsertLines,
    Opaque,
    Operation,
    Other,
    Read,
    Replace,
    Search,
    WriteFile,
)
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs.call import listed
from handoff.trajectory import Observation

Result: TypeAlias = tuple[tuple[Operation, ...], Context]

COMMANDS = listed(
    """
    open goto scroll_up scroll_down set_cursors edit create insert search_file search_dir find_file
    """
)
"""First words of the editor's commands."""

_RANGE = re.compile(r"edit[ \t]+(\d{1,9}):(\d{1,9})[ \t]*\n(.*)\Z", re.S)
_SELECTION = re.compile(r"edit[ \t]*\n(.*)\Z", re.S)
_AFTER_LINE = re.compile(r"(?:insert|append)[ \t]+(\d{1,9})[ \t]*\n(.*)\Z", re.S)
_END = re.compile(r"(?:\A|(?<=\n))end_of_(?:edit|insert)[ \t]*\n?\Z")


def command(word: str, text: str, context: Context) -> Result:
    """A command kept as text; ``word`` is its first word."""
    if word in ("edit", "insert"):
        return _edit_text(word, text, context)
    parts = split(text)
    rest = parts[1:] if parts is not None else []
    match word:
        case "open" if rest:
            return _opened(resolve(rest[0], context), context)
        case "open":
            return _shown_again(context)
        case "goto" | "scroll_up" | "scroll_down" | "set_cursors":
            return _shown_again(context)
        case "create" if rest:
            return _created(resolve(rest[0], context), "\n", context)
        case "search_dir" | "find_file" if rest:
            return (Search(path=resolve(rest[1], context) if len(rest) > 1 else ".", pattern=rest[0]),), context
        case "search_file" if rest:
            path = resolve(rest[1], context) if len(rest) > 1 else context.open_file or "."
            return (Search(path=path, pattern=rest[0]),), context
        case _:
            return (Other(tool=word),), context


def call(name: str, values: Mapping[str, Any], context: Context) -> Result:
    """A call with named arguments. Raises ``KeyError``, ``TypeError`` or ``ValueError`` when it cannot be read."""
    match name:
        case "open" if "path" in values:
            return _opened(resolve(bare(values["path"]), context), context)
        case "open" | "goto" | "scroll_up" | "scroll_down" | "set_cursors":
            return _shown_again(context)
        case "create":
            return _created(resolve(bare(values["filename"]), context), _of_type(values.get("content", "\n")), context)
        case "insert":
            line = values.get("line")
            return _inserted(_of_type(values["text"]), None if line is None else number(line), context)
    if "search" in values:
        # The released tool takes any value for "replace all", even "False".
        is_every = any(values.get(key) not in (None, "") for key in ("replace_all", "replace-all"))
        return _replaced(_of_type(values["search"]), _of_type(values["replace"]), is_every, context)
    if "start_line" in values or "line_number" in values:
        first = number(values.get("start_line", values.get("line_number")))
        last = number(values.get("end_line", first))
        text = _of_type(values.get("replacement_text", values.get("text", values.get("content"))))
        return _lines(first, last, f"{text}\n", context, "windowed_1")
    return _rewritten(_of_type(values.get("text", values.get("replace"))), context)


def _of_type(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def bare(value: object) -> str:
    """A file's name; models put quotes around some."""
    text = _of_type(value)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def number(value: object) -> int:
    """A whole number, as number or text. Raises ``TypeError`` or ``ValueError``."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return int(value) if isinstance(value, int) else int(value[:10])


def split(text: str) -> list[str] | None:
    """The words of a rendered command line; ``None`` when its quotes do not match."""
    try:
        return shlex.split(text)
    except ValueError:
        return None


# -- reading ------------------------------------------------------------------------------------


def _opened(path: str, context: Context) -> Result:
    return (Read(path=path, form="windowed"),), msgspec.structs.replace(
        context, open_file=path, shown=None, cursors=None
    )


def _shown_again(context: Context) -> Result:
    if context.open_file is None:
        return (), context
    return (Read(path=context.open_file, form="windowed"),), msgspec.structs.replace(context, shown=None, cursors=None)


def _created(path: str, text: str, context: Context) -> Result:
    if is_outside(path):
        made: Operation = Other(tool="create", target=path)
    else:
        made = WriteFile(path=path, text=text, must_be_new=True)
    return (made,), msgspec.structs.replace(context, open_file=path, shown=None, cursors=None)


# -- editing ------------------------------------------------------------------------------------


def _edit_text(word: str, text: str, context: Context) -> Result:
    if match := _RANGE.match(text):
        return _lines(int(match[1]), int(match[2]), _typed(_END.sub("", match[3])), context, "windowed")
    if match := _SELECTION.match(text):
        return _selection(_typed(_END.sub("", match[1])), context)
    if match := _AFTER_LINE.match(text):
        return _inserted(_END.sub("", match[2]), int(match[1]), context)
    parts = split(text)
    if parts is None or len(parts) < 2:
        return _unclear(word, context)
    if word == "insert":
        line = parts[2] if len(parts) > 2 else None
        if line is not None and not line.isdecimal():
            return _unclear(word, context)
        return _inserted(parts[1], None if line is None else number(line), context)
    if ":" in parts[1] and len(parts) == 3 and parts[1].replace(":", "").isdecimal():
        first, _, last = parts[1].partition(":")
        return _lines(number(first), number(last), _typed(parts[2]), context, "windowed_1")
    if len(parts) == 2:
        return _rewritten(parts[1], context)
    return _replaced(parts[1], parts[2], len(parts) > 3, context)


def _on_open_file(operation: Replace | EditLines | InsertLines | Opaque, context: Context) -> Result:
    """The edit, placed in the open file."""
    path = context.open_file
    if path is None:
        return (Other(tool="edit"),), context
    if is_outside(path):
        return (Other(tool="edit", target=path),), context
    if isinstance(operation, Opaque):
        return (msgspec.structs.replace(operation, paths=(path,)),), context
    return (msgspec.structs.replace(operation, path=path),), context


def _unclear(word: str, context: Context) -> Result:
    return _on_open_file(Opaque(reason=word), context)


def _typed(text: str) -> str:
    """The lines of a text, each with its line feed."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _lines(first: int, last: int, text: str, context: Context, dialect: Dialect) -> Result:
    return _on_open_file(EditLines(path="", first=first, last=last, text=text, dialect=dialect), context)


def _selection(text: str, context: Context) -> Result:
    """0.x with cursors: the lines from one cursor to the other."""
    if context.cursors is None:
        return _unclear("edit at cursors that no screen shows", context)
    first, last = context.cursors
    return _lines(max(first, 1), max(last, 0), text, context, "windowed_0")


def _inserted(text: str, line: int | None, context: Context) -> Result:
    """1.x: one line feed at the end of the text does not count; no text is no insertion."""
    if not text:
        return (Other(tool="insert"),), context
    text = text.removesuffix("\n")
    return _on_open_file(InsertLines(path="", line=line, text=text, dialect="windowed_1"), context)


def _replaced(old: str, new: str, is_every: bool, context: Context) -> Result:
    """1.x: everywhere in the file, or once among the lines shown."""
    if is_every:
        return _on_open_file(Replace(path="", old=old, new=new, count="all", dialect="windowed_1"), context)
    if context.shown is None:
        return _unclear("edit among the lines of a screen that is not known", context)
    first, last = context.shown
    return _on_open_file(Replace(path="", old=old, new=new, first=first, last=last, dialect="windowed_1"), context)


def _rewritten(text: str, context: Context) -> Result:
    """1.x: the lines shown become ``text``, and no screen tells which lines are shown then."""
    if context.shown is None:
        return _unclear("edit of the lines that a screen shows", context)
    first, last = context.shown
    operations, context = _lines(first, LAST_LINE if last is None else last, f"{text}\n", context, "windowed_1")
    return operations, msgspec.structs.replace(context, shown=None)


# -- screens ------------------------------------------------------------------------------------

_HEADER = re.compile(r"^\[File: .{1,1000} \((\d{1,9}) lines total\)\]\r?$", re.M)
_NUMBERED = re.compile(r"^(\d{1,9}):([^\r\n]*)", re.M)
_UPDATED = "File updated."
_START, _STOP = "<<<<< START CURSOR >>>>>", "<<<<< END CURSOR >>>>>"
_REFUSED = ("Your proposed edit has introduced", "Your changes have NOT been applied")


def on_screen(operations: tuple[Operation, ...], context: Context, observation: Observation) -> Result:
    """``operations`` and ``context`` with what the editor's screen in the observation adds to them."""
    if context.open_file is None or "[File: " not in observation.text:
        return operations, context
    text = observation.text
    is_refused = any(words in text for words in _REFUSED)
    headers = list(_HEADER.finditer(text))
    if not headers or (is_refused and _START in text):  # the last screen is no longer the real window
        return operations, context
    screen = text[headers[-1].end() :]
    total = int(headers[-1][1])
    lines = {int(match[1]): match[2] for match in _NUMBERED.finditer(screen)}
    if lines:
        last = max(lines)
        context = msgspec.structs.replace(context, shown=(min(lines), last if last < total else None))
    else:
        context = msgspec.structs.replace(context, shown=None if total else (1, None))
    if _START in screen:
        context = msgspec.structs.replace(context, cursors=_cursors(screen))
    if not is_refused:
        is_first = _UPDATED in text[: headers[0].start()]
        operations = tuple(_told(operation, lines, total, is_first, _UPDATED in screen) for operation in operations)
    return operations, context


def _told(operation: Operation, lines: Mapping[int, str], total: int, is_first: bool, is_last: bool) -> Operation:
    """An operation with what the screen after it tells: the generation (1.x speaks before its screen, 0.x behind it),
    where an insertion went, and how ``create`` left the file (empty since 1.1, one empty line before)."""
    match operation:
        case EditLines(dialect="windowed") if is_first != is_last:
            return msgspec.structs.replace(operation, dialect="windowed_1" if is_first else "windowed_0")
        case InsertLines(dialect="windowed_1", line=int() as line, text=text) if line > 0:
            brought = text.split("\n")
            behind, before = (
                all(lines.get(place + offset) in (piece, None) for offset, piece in enumerate(brought))
                for place in (line + 1, line)
            )
            if behind == before or not lines:
                return operation
            return msgspec.structs.replace(operation, dialect="windowed_1_after" if behind else "windowed_1_before")
        case WriteFile(text="\n") if not total:
            return msgspec.structs.replace(operation, text="")
        case _:
            return operation


def _cursors(screen: str) -> tuple[int, int] | None:
    """First and last selected line, by the marks around them."""
    before, _, after = screen.partition(_START)
    selected, mark, _ = after.partition(_STOP)
    numbers = [int(match[1]) for match in _NUMBERED.finditer(selected)]
    if not mark:
        return None
    if numbers:
        return numbers[0], numbers[-1]
    earlier = [int(match[1]) for match in _NUMBERED.finditer(before)]
    return (earlier[-1] + 1, earlier[-1]) if earlier else None
