"""SWE-agent's windowed editor in its generations: what a command does to the open file (``docs/science.md §4``)."""

from __future__ import annotations

from typing import Literal

import pytest

from handoff import actions
from handoff.actions import Context, Dialect, interpret
from handoff.actions.operations import (
    EditLines,
    InsertLines,
    Opaque,
    Other,
    Read,
    Replace,
    Search,
    WriteFile,
)
from handoff.trajectory import Action, Observation
from tests.actions.calls import call, keys, operations, text

OPEN = Context(open_file="a.py", shown=(11, 110), cursors=(3, 5))
SCREEN = "[File: /testbed/a.py (300 lines total)]\n(10 more lines above)\n11:x\n12:y\n110:z\n(190 more lines below)"
CURSORS = """\
[File: /testbed/a.py (6 lines total)]
1:a
2:b
<<<<< START CURSOR >>>>>
3:c
4:d
<<<<< END CURSOR >>>>>
5:e
6:f
"""


def lines(first: int, last: int, new: str, dialect: Dialect = "windowed_1") -> EditLines:
    return EditLines(path="a.py", first=first, last=last, text=new, dialect=dialect)


def inserted(new: str, line: int | None) -> InsertLines:
    return InsertLines(path="a.py", line=line, text=new, dialect="windowed_1")


def replaced(old: str, new: str, *, is_every: bool = False) -> Replace:
    first, last = (None, None) if is_every else (11, 110)
    count: Literal["all", "one"] = "all" if is_every else "one"
    return Replace(path="a.py", old=old, new=new, count=count, first=first, last=last, dialect="windowed_1")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (text("edit", "edit 3:4\n    x = 1\nend_of_edit\n"), lines(3, 4, "    x = 1\n", "windowed")),
        (text("edit", "edit 3:4\n\nend_of_edit"), lines(3, 4, "\n", "windowed")),
        (text("edit", "edit 3:4\nend_of_edit"), lines(3, 4, "", "windowed")),
        (text("bash", "edit 3:4\nx\nend_of_edit"), lines(3, 4, "x\n", "windowed")),
        (text("edit", "edit 5:3\nx\nend_of_edit"), lines(5, 3, "x\n", "windowed")),
        (text("edit", "edit\nx = 'a b'\nend_of_edit"), lines(3, 5, "x = 'a b'\n", "windowed_0")),
        (text("edit", "edit\nend_of_edit"), lines(3, 5, "", "windowed_0")),
        (text("edit", "edit 'x' 'y z'"), replaced("x", "y z")),
        (text("edit", "edit 'x' 'y z' False"), replaced("x", "y z", is_every=True)),
        (text("edit", "edit 'all of it'"), lines(11, 110, "all of it\n")),
        (text("edit", "edit 3:4 'x'"), lines(3, 4, "x\n")),
        (text("edit", "edit 3:4 'x\n'"), lines(3, 4, "x\n")),
        (text("insert", "insert 'x\n'"), inserted("x", None)),
        (text("insert", "insert '\n' 7"), inserted("", 7)),
        (text("insert", "insert 'x' 7"), inserted("x", 7)),
        (text("insert", "insert ''"), Other(tool="insert")),
        (call("edit", search="x", replace="y"), replaced("x", "y")),
        (call("edit", **{"search": "x", "replace": "y", "replace-all": False}), replaced("x", "y", is_every=True)),
        (call("edit", start_line="3", end_line="4", replacement_text="x\n"), lines(3, 4, "x\n\n")),
        (call("edit", text="all of it"), lines(11, 110, "all of it\n")),
        (call("insert", text="x\n"), inserted("x", None)),
        (call("insert", text="x", line=7), inserted("x", 7)),
        (call("create", filename='"b.py"'), WriteFile(path="b.py", text="\n", must_be_new=True)),
        (call("goto", line_number=12), Read(path="a.py", form="windowed")),
        (text("search_file", 'search_file "def x"'), Search(path="a.py", pattern="def x")),
        (text("search_file", 'search_file "def x" b.py'), Search(path="b.py", pattern="def x")),
    ],
)
def test_a_command_acts_on_the_open_file(action: Action, expected: actions.Operation) -> None:
    """Ranges, cursors, the lines shown, the end: each generation has its own, and the released tools' own quirks."""
    assert operations(action, OPEN) == (expected,)


def test_without_an_open_file_nothing_is_edited() -> None:
    for action in (text("edit", "edit 3:4\nx\nend_of_edit"), call("insert", text="x"), call("edit", text="x")):
        assert operations(action) == (Other(tool="edit"),)
    assert operations(call("edit", text="x"), Context(open_file="/etc/passwd")) == (
        Other(tool="edit", target="/etc/passwd"),
    )


def test_lines_and_cursors_are_read_from_the_screen() -> None:
    """Never computed: the editor clips both to the file and its window, and the screen shows the result."""
    _, context = interpret(text("open", "open a.py 40"), Context(), Observation(text=SCREEN))
    assert (context.open_file, context.shown) == ("a.py", (11, 110))
    _, context = interpret(text("set_cursors", "set_cursors 3 4"), context, Observation(text=CURSORS))
    assert (context.shown, context.cursors) == ((1, None), (3, 4))
    _, context = interpret(text("bash", "ls"), context, Observation(text="a.py"))
    assert context.cursors == (3, 4)


def test_a_refused_edit_leaves_the_cursors_where_they_were() -> None:
    """It prints two screens: what the edit would have made, and the code around it."""
    refusal = f"Your proposed edit has introduced new syntax error(s).\n{CURSORS}\nYour changes have NOT been applied."
    _, context = interpret(text("edit", "edit\nx\nend_of_edit"), OPEN, Observation(text=refusal))
    assert (context.shown, context.cursors) == (OPEN.shown, OPEN.cursors)


def test_what_no_screen_shows_is_opaque() -> None:
    """The key is still the open file's."""
    for action in (text("edit", "edit\nx\nend_of_edit"), call("edit", text="x")):
        (operation,) = operations(action, Context(open_file="a.py"))
        assert isinstance(operation, Opaque)
        assert keys(action, Context(open_file="a.py")) == [("edit", "a.py")]


def test_the_screen_tells_how_create_left_the_file() -> None:
    """Empty since 1.1, one empty line before."""
    for screen, content in (("[File: b.py (1 lines total)]\n1:", "\n"), ("[File: b.py (0 lines total)]\n", "")):
        (made,), _ = interpret(call("create", filename="b.py"), Context(), Observation(text=screen))
        assert made == WriteFile(path="b.py", text=content, must_be_new=True)


def test_the_screen_tells_which_generation_edited() -> None:
    """1.x says that the file was updated before it shows it, 0.x behind it."""
    edit = text("edit", "edit 12:12\nq\nend_of_edit")
    for answer, dialect in (
        (f"File updated. Please review the changes.\n{SCREEN}", "windowed_1"),
        (f"{SCREEN}\nFile updated. Please review the changes.", "windowed_0"),
        (SCREEN, "windowed"),
    ):
        (operation,), _ = interpret(edit, OPEN, Observation(text=answer))
        assert isinstance(operation, EditLines)
        assert operation.dialect == dialect


@pytest.mark.parametrize(
    ("shown", "dialect"),
    [
        ({11: "x", 12: "y", 13: "new", 14: "z"}, "windowed_1_after"),
        ({11: "x", 12: "new", 13: "y", 14: "z"}, "windowed_1_before"),
        ({11: "x", 12: "new", 13: "new", 14: "z"}, "windowed_1"),
        ({}, "windowed_1"),
    ],
)
def test_the_screen_tells_where_an_insertion_went(shown: dict[int, str], dialect: str) -> None:
    """Up to 1.0.1 a line before the one that is named, later behind it."""
    screen = "\n".join(["[File: /testbed/a.py (300 lines total)]", *(f"{n}:{line}" for n, line in shown.items())])
    (operation,), _ = interpret(call("insert", text="new", line=12), OPEN, Observation(text=screen))
    assert isinstance(operation, InsertLines)
    assert operation.dialect == dialect


def test_after_a_rewrite_no_screen_is_known() -> None:
    """That tool does not print its window, and the window has moved with the text."""
    _, context = interpret(call("edit", text="a\nb"), OPEN, Observation(text="Edit successful."))
    assert context.shown is None
    assert isinstance(operations(call("edit", search="a", replace="b"), context)[0], Opaque)


def test_keys_do_not_depend_on_observations() -> None:
    """What was attempted is in the call alone."""
    for action in (text("edit", "edit 'x' 'y'"), call("create", filename="b.py"), text("edit", "edit\nx\nend_of_edit")):
        for screen in ("", SCREEN, CURSORS, "[File: b.py (0 lines total)]\n"):
            found, _ = interpret(action, OPEN, Observation(text=screen))
            assert [key for o in found for key in actions.keys_of(o)] == keys(action, OPEN)
