"""Which editor carries an edit out, and what is not known when its release is not (``handoff/states/editing.py``)."""

from __future__ import annotations

import pytest

from handoff.actions import (
    Context,
    Dialect,
    InsertLines,
    Replace,
    Undo,
    WriteFile,
    context_of,
    did_not_happen,
    interpret,
)
from handoff.editors.editing import History, edited, written
from handoff.editors.patches import apply_patch
from handoff.editors.plain import Misfit, Unknowable
from handoff.editors.str_replace import VERSIONS
from handoff.trajectory import Observation
from tests.actions.calls import call

EDIT = call("str_replace_editor", command="str_replace", path="a.go", old_str="x", new_str="x:\n\ty")


def swap(old: str, new: str, dialect: Dialect) -> Replace:
    return Replace(path="f", old=old, new=new, dialect=dialect)


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("sweagent", "sweagent"),
        ("openhands_events", "openhands"),
        ("openhands_output", "openhands"),
        ("openhands_sdk", "openhands_keeps"),
        ("chat", "str_replace"),
        ("atif", "str_replace"),
    ],
)
def test_the_format_tells_whose_str_replace_editor_it_was(format: str, expected: str) -> None:
    (operation,), _ = interpret(EDIT, context_of(format))
    assert isinstance(operation, Replace)
    assert operation.dialect == expected
    assert expected in VERSIONS


@pytest.mark.parametrize(
    ("format", "tool", "expected"),
    [
        ("claude_code", "Edit", "claude_code"),
        ("claude_code_stream", "MultiEdit", "claude_code"),
        ("gemini_cli", "replace", "gemini"),
        ("chat", "replace", "gemini"),
        ("chat", "Edit", "some_edit"),
        ("pi", "edit", "pi"),
        ("cline", "replace_in_file", "cline"),
    ],
)
def test_the_format_and_the_name_tell_whose_edit_it_was(format: str, tool: str, expected: str) -> None:
    (operation,), _ = interpret(call(tool, file_path="f", old_string="x", new_string="y"), context_of(format))
    assert isinstance(operation, Replace)
    assert operation.dialect == expected


def test_tabs_in_an_answer_tell_the_version_for_the_rest_of_the_run() -> None:
    shown = "The file /a.go has been edited. Here's the result of running `cat -n` on /a.go:\n     1\tx:\n     2\t{}y\n"
    for indent, tabs, dialect in (("\t", "keeps", "openhands_keeps"), (" " * 8, "expands", "openhands_expands")):
        (now,), context = interpret(EDIT, context_of("openhands_events"), Observation(text=shown.format(indent)))
        assert isinstance(now, Replace)
        assert (now.dialect, context.tabs) == (dialect, tabs)
        (later,), context = interpret(EDIT, context, Observation(text="The file has been edited."))
        assert isinstance(later, Replace)
        assert later.dialect == dialect


def test_blanks_tell_nothing_when_the_call_brought_no_tab() -> None:
    shown = "Here's the result of running `cat -n` on /a.go:\n     1\t        y\n"
    view = call("str_replace_editor", command="view", path="a.go")
    assert interpret(view, context_of("openhands_events"), Observation(text=shown))[1].tabs == ""


def test_versions_that_agree_are_one() -> None:
    assert edited(swap("a", "b", "str_replace"), b"x\na\n") == b"x\nb\n"
    assert edited(InsertLines(path="f", line=1, text="b", dialect="str_replace"), b"x\na\n") == b"x\nb\na\n"


def test_versions_that_disagree_leave_the_file_unknown() -> None:
    with pytest.raises(Unknowable, match="releases of the editor differ"):
        edited(swap("a", "b", "openhands"), b"\tx\na\n")
    assert edited(swap("a", "b", "openhands_keeps"), b"\tx\na\n") == b"\tx\nb\n"
    assert edited(swap("a", "b", "sweagent"), b"\tx\na\n") == b"        x\nb\n"
    with pytest.raises(Unknowable, match="releases of the editor differ"):
        edited(InsertLines(path="f", line=1, text="b", dialect="openhands"), b"a")


def test_a_version_that_refuses_is_set_aside() -> None:
    """Only the newest strip the old text; as the edit was made, one of them made it."""
    assert edited(swap(" a ", "b", "openhands"), b"x\na\n") == b"x\nb\n"
    with pytest.raises(Misfit, match="does not occur"):
        edited(swap("q", "b", "openhands"), b"x\na\n")


def test_every_str_replace_editor_makes_line_feeds_of_carriage_returns() -> None:
    for dialect in VERSIONS:
        assert edited(swap("a", "b", dialect), b"x\r\na\r\n\rc\n") == b"x\nb\n\nc\n"


def test_a_file_that_is_not_utf8_is_known_only_to_the_editor_that_falls_back_to_latin_1() -> None:
    assert edited(swap("a", "b", "sweagent"), b"\xe9 a\n") == b"\xe9 b\n"
    for operation in (swap("a", "€", "sweagent"), swap("a", "b", "openhands"), swap("a", "b", "claude_code")):
        with pytest.raises(Unknowable):
            edited(operation, b"\xe9 a\n")


def test_undoing_goes_back_to_what_the_editor_had_read() -> None:
    """The tabs that its edit had turned to blanks stay blanks; a made file stays; other means do not count."""
    history = History()
    undo = Undo(path="f", dialect="openhands_expands")
    with pytest.raises(Misfit, match="no edit to undo"):
        history.undo(undo, "f")
    history.note(Replace(path="f", old="a", new="b", dialect="sweagent"), "f", b"\ta\r\n")
    assert history.undo(Undo(path="f", dialect="sweagent"), "f") == b"        a\n"
    history.note(WriteFile(path="f", text="new\n", dialect="openhands_keeps"), "f", None)
    history.note(Replace(path="f", old="a", new="b"), "f", b"plain bytes keep no history")
    assert history.undo(Undo(path="f", dialect="openhands_keeps"), "f") == b"new\n"


def test_undoing_twice_is_not_known_where_some_releases_undo_the_same_edit_again() -> None:
    history = History()
    for text in (b"one\n", b"two\n"):
        history.note(swap("a", "b", "openhands"), "f", text)
    assert history.undo(Undo(path="f", dialect="openhands"), "f") == b"two\n"
    with pytest.raises(Unknowable, match="undo the same edit again"):
        history.undo(Undo(path="f", dialect="openhands"), "f")


def test_more_edits_than_any_editor_keeps_are_not_known() -> None:
    history = History()
    for number in range(12):
        history.note(swap("a", "b", "sweagent"), "f", b"%d\n" % number)
    undo = Undo(path="f", dialect="sweagent")
    assert [history.undo(undo, "f") for _ in range(10)] == [b"%d\n" % number for number in range(11, 1, -1)]
    with pytest.raises(Unknowable, match="how many edits"):
        history.undo(undo, "f")


def test_undoing_an_edit_of_an_unknown_file_is_not_known() -> None:
    history = History()
    history.note(swap("a", "b", "openhands"), "f", None)
    with pytest.raises(Unknowable, match="before the edit"):
        history.undo(Undo(path="f", dialect="openhands"), "f")


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a\nb\n", "a", "", b"b\n"),
        (b"a\nb\n", "a\n", "", b"b\n"),
        (b"a = 1\n", "a", "", b" = 1\n"),
        ("it’s\n".encode(), "it's", "its", b"its\n"),
    ],
)
def test_claude_code_takes_a_line_away_whole_and_reads_curled_quotes(
    data: bytes, old: str, new: str, after: bytes
) -> None:
    assert edited(swap(old, new, "claude_code"), data) == after


@pytest.mark.parametrize(
    ("operation", "data"),
    [
        (swap("it's", "it's not", "claude_code"), "it’s\n".encode()),
        (swap("a", "b", "claude_code"), b"a\r\n"),
        (swap("a", "", "some_edit"), b"a\nb\n"),
        (swap("a", "b", "some_edit"), b"a a\n"),
        (swap("q", "b", "some_edit"), b"a\n"),
        (swap("a\n", "b", "gemini"), b"a\n"),
        (swap("a", "$&", "gemini"), b"a\n"),
        (swap("  a", "b", "gemini"), b" a\n"),
        (swap("q\n", "b\n", "cline"), b"a\n"),
    ],
)
def test_what_releases_or_harnesses_do_differently_is_not_known(operation: Replace, data: bytes) -> None:
    with pytest.raises(Unknowable):
        edited(operation, data)


def test_a_file_with_carriage_returns_is_not_known_after_some_rewrites() -> None:
    with pytest.raises(Unknowable, match="line ends"):
        written(WriteFile(path="f", text="a\n", dialect="claude_code"), b"b\r\n")
    assert written(WriteFile(path="f", text="a\r\n", dialect="sweagent"), None) == b"a\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        "Invalid `new_str` parameter: x. No replacement was performed.",
        "The parent directory /testbed/q does not exist. Please create it first.",
        "File validation failed for /a: File appears to be binary",
        "Could not find an exact match for 'old_string' in 'f'.",
        "No changes to apply. The old_string and new_string are identical in file: f",
        "edits[0] and edits[1] overlap in f. Merge them into one edit",
        "oldText must not be empty in f.",
        "Cannot create new file - file already exists.",
        "Failed to find expected lines in /w/f:",
        "Failed to find context 'x' in /w/f",
        "Invalid patch hunk on line 4: Unexpected line found in update hunk",
        "oldString not found in content",
    ],
)
def test_every_editors_refusal_is_one(answer: str) -> None:
    assert did_not_happen(EDIT, Observation(text=answer))
    assert did_not_happen(EDIT, Observation(text=f"ERROR:\n{answer}"))
    assert not did_not_happen(EDIT, Observation(text=f"The file f has been edited.\n     1\t{answer}"))


def test_a_patch_may_change_one_file_twice_and_move_it() -> None:
    patch = (
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n"
        "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n"
    )
    files = {"f": b"a\n"}
    changes = apply_patch(patch, files.get)
    assert [(change.path, change.data) for change in changes] == [
        ("f", b"b\n"),
        ("f", b"c\n"),
        ("f", None),
        ("g", b"c\n"),
    ]
    assert changes[-1].origin == "f"


def test_the_real_patch_leaves_the_original_beside_a_hunk_that_it_moved() -> None:
    patch = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n"
    files = {"f": b"x\na\n"}
    moved = apply_patch(patch, files.get, 0, program="patch")
    assert [(change.path, change.data) for change in moved] == [("f.orig", b"x\na\n"), ("f", b"x\nb\n")]
    with pytest.raises(Misfit, match="does not fit"):
        apply_patch(patch, files.get, 0)


def test_the_editor_context_is_part_of_what_is_remembered() -> None:
    """One call in two harnesses is two operations, although reading calls is cached."""
    found = {interpret(EDIT, Context(harness=name))[0] for name in ("sweagent", "openhands_sdk", "")}
    assert len(found) == 3
