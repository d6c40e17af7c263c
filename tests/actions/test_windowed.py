"""SWE-agent's windowed editor in its generations: what a command does to the open file (``docs/science.md §4``)."""

from __future__ import annotations

import pytest

from handoff import actions
from handoff.actions import Context, interpret
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


def lines(first: int, last: int, new: str, *, closes_file: bool = False) -> EditLines:
    return EditLines(path="a.py", first=first, last=last, text=new, closes_file=closes_file)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (text("edit", "edit 3:4\n    x = 1\nend_of_edit\n"), lines(3, 4, "    x = 1\n", closes_file=True)),
        (text("edit", "edit 3:4\n\nend_of_edit"), lines(3, 4, "\n", closes_file=True)),
        (text("edit", "edit 3:4\nend_of_edit"), lines(3, 4, "", closes_file=True)),
        (text("bash", "edit 3:4\nx\nend_of_edit"), lines(3, 4, "x\n", closes_file=True)),
        (text("edit", "edit\nx = 'a b'\nend_of_edit"), lines(3, 5, "x = 'a b'\n", closes_file=True)),
        (text("edit", "edit\nend_of_edit"), lines(3, 5, "", closes_file=True)),
        (text("edit", "edit 'x' 'y z'"), Replace(path="a.py", old="x", new="y z", first=11, last=110)),
        (text("edit", "edit 'x' 'y z' False"), Replace(path="a.py", old="x", new="y z", count="all")),
        (text("edit", "edit 'all of it'"), lines(11, 110, "all of it")),
        (text("edit", "edit 3:4 'x'"), lines(3, 4, "x")),
        (text("edit", "edit 5:3\nx\nend_of_edit"), Opaque(reason="edit of lines that are no range", paths=("a.py",))),
        (text("insert", "insert 'x\n'"), InsertLines(path="a.py", line=None, text="x")),
        (text("insert", "insert 'x' 7"), InsertLines(path="a.py", line=7, text="x")),
        (call("edit", search="x", replace="y"), Replace(path="a.py", old="x", new="y", first=11, last=110)),
        (
            call("edit", **{"search": "x", "replace": "y", "replace-all": False}),
            Replace(path="a.py", old="x", new="y", count="all"),
        ),
        (call("edit", start_line="3", end_line="4", replacement_text="x\n"), lines(3, 4, "x")),
        (call("edit", text="all of it"), lines(11, 110, "all of it")),
        (call("insert", text="x\n"), InsertLines(path="a.py", line=None, text="x")),
        (call("insert", text="x", line=7), InsertLines(path="a.py", line=7, text="x")),
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


def test_keys_do_not_depend_on_observations() -> None:
    """What was attempted is in the call alone."""
    for action in (text("edit", "edit 'x' 'y'"), call("create", filename="b.py"), text("edit", "edit\nx\nend_of_edit")):
        for screen in ("", SCREEN, CURSORS, "[File: b.py (0 lines total)]\n"):
            found, _ = interpret(action, OPEN, Observation(text=screen))
            assert [key for o in found for key in actions.keys_of(o)] == keys(action, OPEN)
