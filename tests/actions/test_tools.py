"""Structured tools: the same edit means the same, whichever agent's tool made it (``docs/science.md §4``)."""

from __future__ import annotations

import pytest

from handoff import actions
from handoff.actions import Dialect, context_of
from handoff.actions.operations import (
    AppendFile,
    ApplyPatch,
    EditLines,
    InsertLines,
    ListFiles,
    Opaque,
    Other,
    Read,
    Replace,
    ReplaceEach,
    Undo,
    WriteFile,
)
from handoff.trajectory import Action
from tests.actions.calls import bash, call, keys, operations, text


def test_structured_editors_keep_what_a_replay_needs() -> None:
    """Texts, lines and counts of the editors come through exactly."""
    edit = "str_replace_editor"
    assert operations(call(edit, command="create", path="/testbed/a.py", file_text="x\n")) == (
        WriteFile(path="a.py", text="x\n", must_be_new=True, dialect="str_replace"),
    )
    assert operations(call(edit, command="str_replace", path="/repo/a.py", old_str="a", new_str="b")) == (
        Replace(path="a.py", old="a", new="b", dialect="str_replace"),
    )
    assert operations(call(edit, command="insert", path="/workspace/x/a.py", insert_line=3, new_str="t")) == (
        InsertLines(path="a.py", line=3, text="t", dialect="str_replace"),
    )
    assert operations(call(edit, command="undo_edit", path="a.py")) == (Undo(path="a.py", dialect="str_replace"),)
    assert operations(call(edit, command="view", path="a.py", view_range=[2, -1])) == (
        Read(path="a.py", first=2, form="numbered", is_alone=True),
    )
    assert operations(call("Edit", file_path="a.py", old_string="x", new_string="y", replace_all=True)) == (
        Replace(path="a.py", old="x", new="y", count="all", dialect="some_edit"),
    )
    assert operations(call("Write", file_path="a.py", content="z")) == (
        WriteFile(path="a.py", text="z", dialect="some_edit"),
    )


def test_rendered_calls_of_swe_agent_mean_the_same_as_structured_ones() -> None:
    """SWE-agent 1.x writes the call as a command line."""
    line = "str_replace_editor str_replace /testbed/a.py --old_str 'x = 1' --new_str 'x = 2'"
    assert operations(Action(tool="str_replace_editor", arguments=line, is_text=True)) == (
        Replace(path="a.py", old="x = 1", new="x = 2", dialect="str_replace"),
    )


def replace_by(dialect: Dialect) -> Replace:
    return Replace(path="a.py", old="x", new="y", dialect=dialect)


SOME = replace_by("some_edit")
BLOCKS = "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n\n------- SEARCH\nu\n=======\n+++++++ REPLACE\n"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (call("Edit", file_path="a.py", old_string="x", new_string="y", replace_all=False), (SOME,)),
        (call("MultiEdit", file_path="a.py", edits=[{"old_string": "x", "new_string": "y"}] * 2), (SOME, SOME)),
        (call("edit", path="a.py", oldText="x", newText="y"), (replace_by("pi"),)),
        (
            call("edit", path="a.py", edits=[{"oldText": "x", "newText": "y"}, {"oldText": "u", "newText": ""}]),
            (ReplaceEach(path="a.py", pairs=(("x", "y"), ("u", "")), dialect="pi"),),
        ),
        (call("editor", path="a.py", old_text="x", new_text="y"), (SOME,)),
        (call("replace", file_path="a.py", old_string="x", new_string="y", instruction="i"), (replace_by("gemini"),)),
        (
            call("replace", file_path="a.py", old_string="x", new_string="y", expected_replacements=2),
            (Replace(path="a.py", old="x", new="y", count="all", dialect="gemini"),),
        ),
        (call("edit_block", path="a.py", search="x", replace="y"), (replace_by("aider"),)),
        (call("edit_block", path="a.py", search="", replace="y"), (AppendFile(path="a.py", text="y"),)),
        (
            call("replace_in_file", path="a.py", diff=BLOCKS),
            (ReplaceEach(path="a.py", pairs=(("x\n", "y\n"), ("u\n", "")), dialect="cline"),),
        ),
        (call("write_to_file", path="a.py", content="z"), (WriteFile(path="a.py", text="z", dialect="some_edit"),)),
        (call("editor", path="a.py", new_text="z"), (WriteFile(path="a.py", text="z"),)),
        (
            call("edit", path="a.py", command="create", file_text="z", content=None, start=1, end=-1),
            (WriteFile(path="a.py", text="z", must_be_new=True, dialect="str_replace"),),
        ),
        (
            call(
                "edit",
                path="a.py",
                content="",
                translated_ipython_code="print(file_editor(**{'command': 'insert', 'path': 'a.py', "
                "'insert_line': 2, 'new_str': 'z'}))",
            ),
            (InsertLines(path="a.py", line=2, text="z", dialect="str_replace"),),
        ),
        (
            call("edit_file", path="a.py", start=2, end=3, content="z"),
            (EditLines(path="a.py", first=2, last=3, text="z"),),
        ),
        (
            call("NotebookEdit", notebook_path="a.ipynb", new_source="z"),
            (Opaque(reason="a cell of a notebook", paths=("a.ipynb",)),),
        ),
        (call("edit_file", path="a.py", code_edit="# ... z"), (Opaque(reason="edit_file", paths=("a.py",)),)),
        (text("udiff", "--- a.py\n+++ a.py\n@@ ... @@\n-x\n+y\n"), (Opaque(reason="udiff", paths=("a.py",)),)),
    ],
)
def test_every_agents_edit_is_exact_or_says_that_it_is_not(
    action: Action, expected: tuple[actions.Operation, ...]
) -> None:
    """A replacement keeps whose editor made it: they differ in what they take for the text."""
    assert operations(action) == expected


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"


@pytest.mark.parametrize(
    "action",
    [
        text("apply_patch", PATCH),
        call("apply_patch", input=PATCH),
        call("shell", command=["apply_patch", PATCH]),
        call("shell", command=["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]),
        call("exec_command", cmd=f"apply_patch <<'EOF'\n{PATCH}\nEOF"),
    ],
)
def test_a_codex_patch_is_one_however_it_is_sent(action: Action) -> None:
    (patch,) = operations(action)
    assert isinstance(patch, ApplyPatch)
    assert patch.paths == ("a.py",)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (call("Read", file_path="a.py", offset=3, limit=2), [("read", "a.py")]),
        (
            call("read_files", files=[{"path": "a.py", "start_line": 1}, {"path": "b.py"}]),
            [("read", "a.py"), ("read", "b.py")],
        ),
        (call("read_many_files", paths=["docs/*.md"]), [("read", "docs/*.md")]),
        (call("str_replace_editor", command="view", path="/testbed/Makefile"), [("read", "Makefile")]),
        (call("str_replace_editor", command="view", path="/testbed/src"), [("list", "src")]),
        (call("str_replace_editor", command="view", path="a.py", view_range="[3, 9]"), [("read", "a.py")]),
        (call("Grep", pattern="x", path="src"), [("search", "src")]),
        (call("Glob", pattern="**/*.py"), [("search", ".")]),
        (call("search_file_content", pattern="x"), [("search", ".")]),
        (call("list_directory", dir_path="/testbed/"), [("list", ".")]),
        (call("run_commands", commands=["cat a.py", "cat b.py"]), [("read", "a.py"), ("read", "b.py")]),
        (call("bash_command", keystrokes="cat a.py\n", duration=1.0), [("read", "a.py")]),
        (call("TodoWrite", todos=[]), []),
        (call("update_plan", plan=[]), []),
        (call("think", thought="rm a.py"), []),
        (call("write_stdin", session_id=1, chars=""), []),
        (call("execute_bash", command="", is_input="true"), []),
        (call("execute_bash", command="C-c", is_input=True), []),
        (call("WebFetch", url="u"), [("other", "webfetch")]),
        (call("mcp__tracker__create_issue", title="t"), [("other", "mcp__tracker__create_issue")]),
    ],
)
def test_looking_planning_and_polling(action: Action, expected: list[tuple[str, str]]) -> None:
    """Reads of several files have several keys; plans and polls have none."""
    assert keys(action) == expected


@pytest.mark.parametrize(
    "action",
    [
        call("Task", prompt="fix it", subagent_type="general"),
        call("spawn_agent", message="fix it"),
        call("delegate_to_agent", agent_name="a", objective="o"),
        call("write_stdin", session_id=1, chars="y\n"),
        call("bash_command", keystrokes="iabc", duration=1.0),
        call("mcp__files__write", path="a.py"),
        call("a_tool_of_tomorrow"),
    ],
)
def test_what_may_edit_the_tree_unseen_says_so(action: Action) -> None:
    """Subagents, keys typed into a program and unknown tools: a suspicion, never an edit and never nothing."""
    other, possible = operations(action)
    assert isinstance(other, Other)
    assert isinstance(possible, Opaque)
    assert possible.is_possible
    assert not actions.changed_paths(possible)


def test_a_recorded_folder_is_the_repository() -> None:
    """Where a run worked is a fact of its recording; files beside it are outside."""
    context = context_of("claude_code", '{"cwd": "/home/me/proj", "other": [1]}')
    assert keys(call("Edit", file_path="/home/me/proj/a.py", old_string="x", new_string="y"), context) == [
        ("edit", "a.py")
    ]
    assert keys(call("Write", file_path="/home/me/other.py", content=""), context) == [("other", "/home/me/other.py")]
    for facts in ('{"cwd": "/home/me"}', '{"cwd": "/"}', '{"cwd": 3}', "[]", "{", '{"cwds": ["/a/b", "/a/c"]}'):
        assert context_of("claude_code", facts).prefixes == ()


def test_a_call_says_where_it_runs() -> None:
    """Codex names the folder of every command; the first one that can be a checkout is the repository."""
    (read,) = operations(call("exec_command", cmd="cat a.py", workdir="/home/me/proj"))
    assert read == Read(path="a.py", is_alone=True)
    _, context = actions.interpret(call("exec_command", cmd="ls", workdir="/home/me/proj"), context_of("codex"))
    assert operations(call("exec_command", cmd="ls", workdir="/home/me/proj/src"), context) == (ListFiles(path="src"),)
    assert operations(bash("ls"), context) == (ListFiles(path="."),)


@pytest.mark.parametrize(
    "arguments",
    ["", "[]", "{", "null", '{"path": 3}', '{"command": "view"}', '{"command": ["a", 1]}', "\ud800", "{" * 5000],
)
def test_broken_arguments_are_never_an_edit_and_never_an_error(arguments: str) -> None:
    """Whatever a model wrote, reading it does not raise."""
    for tool in ("str_replace_editor", "Edit", "Write", "edit", "insert", "apply_patch", "Read", "goto", "nothing", ""):
        for is_text in (False, True):
            for operation in operations(Action(tool=tool, arguments=arguments, is_text=is_text)):
                assert not actions.changed_paths(operation)
