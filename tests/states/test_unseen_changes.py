"""What may have changed files beside the recorded edits keeps a state from being verified, until something shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from handoff.git.repositories import Repository
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay
from handoff.trajectory import Action, Boundary, Message, Missing, Observation, Step
from tests.states.conftest import FILES, bash, recording
from tests.states.truths import diff

PAGER = FILES["src/pager.py"].decode()
EDITED = PAGER.replace("items[-1]", "items[-2]")
LOOK = bash("cat README.md", "A pager.\n")
"""Something is shown whole, so that there is evidence at all."""
SHOWN = bash("cat src/pager.py", EDITED)
STATUS = bash("git status --short", " M src/pager.py\n")


def call(
    tool: str, text: str = "ok", *, error: bool | None = None, missing: Missing | None = None, **args: Any
) -> Step:
    return Step(
        actions=(Action(tool=tool, arguments=json.dumps(args)),),
        observations=(Observation(text=text, error=error, missing=missing),),
    )


EDIT = call(
    "Edit",
    "The file /testbed/src/pager.py has been updated.",
    file_path="/testbed/src/pager.py",
    old_string="items[-1]",
    new_string="items[-2]",
)


def replayed(repository: Repository, base: str, *steps: Step, **fields: Any) -> Replay:
    fields = {"format": "claude_code", "source": '{"cwd":"/testbed"}', **fields}
    return replay(with_fields(recording(*steps, base=base), **fields), "t", repository)


@pytest.mark.parametrize(
    "step",
    [
        call("Task", "[Request interrupted by user for tool use]", error=True, prompt="x"),
        call("Task", "API Error: overloaded", error=True, prompt="x"),
        call("Task", "", missing="aborted", prompt="x"),
        call("mcp__editor__rename", "timed out", error=True, name="x"),
        call("refactor", "", missing="aborted", name="x"),
    ],
    ids=lambda step: step.actions[0].tool,
)
def test_a_call_of_unknown_effect_that_ended_badly_may_have_begun(
    repository: Repository, base: str, step: Step
) -> None:
    found = replayed(repository, base, LOOK, step, LOOK)
    assert found.statuses == ("verified", "verified", "partial", "partial")
    assert found.is_derivable is False


NEW = {"file_path": "/testbed/src/new.py", "content": "x\n"}


@pytest.mark.parametrize(
    "step",
    [
        call("Write", "EIO: the disk did not answer", error=True, **NEW),
        call("Write", "", missing="aborted", **NEW),
        call("bash", "", missing="aborted", command="echo x > src/new.py"),
        call("bash", "", missing="aborted", command="for f in src/*.py; do cp $f $f.bak; done"),
        call("bash", "", missing="aborted", command="black ."),
    ],
    ids=lambda step: step.actions[0].tool + step.actions[0].arguments[:30],
)
def test_a_call_that_was_stopped_may_have_made_a_file(repository: Repository, base: str, step: Step) -> None:
    found = replayed(repository, base, LOOK, step, LOOK)
    assert found.statuses == ("verified", "verified", "partial", "partial")
    clean = bash("git status --short", "")
    assert replayed(repository, base, LOOK, step, LOOK, clean).status == "verified"


def test_what_puts_a_file_back_proves_nothing_of_what_it_was_before(repository: Repository, base: str) -> None:
    """Whether the line was carried out in part cannot be told from the file that git then puts back."""
    stopped = call("bash", "", missing="aborted", command="echo more >> README.md")
    clean = bash("git status --short", "")
    for back in ("git checkout .", "git checkout -- README.md", "printf 'A pager.\\n' > README.md"):
        found = replayed(repository, base, LOOK, stopped, bash("pwd"), bash(back), clean)
        assert found.statuses == ("verified", "verified", "partial", "partial", "verified", "verified"), back


@pytest.mark.parametrize("said", ["<tool_use_error>no", "The user doesn't want to proceed with this tool use."])
def test_a_call_that_the_harness_did_not_run_changed_nothing(repository: Repository, base: str, said: str) -> None:
    found = replayed(repository, base, LOOK, call("Task", said, error=True, prompt="x"), LOOK)
    assert found.status == "verified"
    assert found.is_derivable


@pytest.mark.parametrize(
    "step",
    [
        call("write_file", filepath="/testbed/src/pager.py", content="x"),
        call("edit_file", target="src/pager.py", code_edit="x"),
        call("apply_patch", foo="*** Begin Patch"),
        call("str_replace_editor", command="rename", path="/testbed/src/pager.py"),
        call("str_replace_editor", command="create", file_text="x"),
        call("delete_file", name="src/pager.py"),
        call("bash", cmdline="rm src/pager.py"),
        call("bash"),
    ],
    ids=lambda step: step.actions[0].tool,
)
def test_a_call_of_an_editor_that_cannot_be_read_may_have_edited(repository: Repository, base: str, step: Step) -> None:
    assert replayed(repository, base, LOOK, step, LOOK).status == "partial"


def test_an_unreadable_look_and_a_refused_call_change_nothing(repository: Repository, base: str) -> None:
    refused = call("write_file", "InputValidationError: path", error=True, filepath="x", content="x")
    assert replayed(repository, base, LOOK, call("Read", name="x"), refused, LOOK).status == "verified"


NOTE = "Note: /testbed/src/pager.py was modified, either by the user or by a linter. Take it into account."
NOTES = {
    "reminder": with_fields(bash("pwd", "/testbed\n"), after=(Message(role="harness", text=NOTE),)),
    "in an answer": bash("pwd", f"/testbed\n<system-reminder>\n{NOTE}\n</system-reminder>"),
    "attachment": with_fields(
        bash("pwd", "/testbed\n"),
        after=(Message(role="harness", text="/testbed/src/pager.py was modified outside of this session.\n1 x"),),
    ),
}


@pytest.mark.parametrize("told", list(NOTES.values()), ids=list(NOTES))
def test_a_file_that_someone_else_changed_is_not_known_until_it_is_shown(
    repository: Repository, base: str, told: Step
) -> None:
    found = replayed(repository, base, EDIT, SHOWN, told, LOOK)
    assert found.statuses == ("verified", "verified", "verified", "partial", "partial")
    assert "src/pager.py" in found.reason
    other = bash("cat src/pager.py", "rewritten\n")
    found = replayed(repository, base, EDIT, SHOWN, told, other)
    assert found.divergence is None
    assert found.trees[-1] is not None
    assert repository.read(found.trees[-1], "src/pager.py") == b"rewritten\n"


def test_what_nothing_showed_since_its_edit_may_have_been_changed_right_then(repository: Repository, base: str) -> None:
    found = replayed(repository, base, LOOK, EDIT, LOOK, NOTES["reminder"])
    assert found.statuses[2:] == ("partial", "partial", "partial")


def test_a_note_about_another_file_says_nothing(repository: Repository, base: str) -> None:
    for path in ("/elsewhere/pager.py", "/testbed/../x", "/testbed/.git/config"):
        told = with_fields(
            LOOK, after=(Message(role="harness", text=f"Note: {path} was modified by the user or by a linter"),)
        )
        assert replayed(repository, base, EDIT, SHOWN, told, LOOK).status == "verified"


@pytest.mark.parametrize("boundary", ["resume", "commit"])
def test_between_two_sittings_anyone_may_have_edited(repository: Repository, base: str, boundary: Boundary) -> None:
    last = with_fields(SHOWN, boundary=boundary)
    assert replayed(repository, base, EDIT, last).status == "verified"
    found = replayed(repository, base, EDIT, last, LOOK)
    assert found.statuses == ("verified", "verified", "verified", "partial")


def test_a_session_that_goes_on_from_another_began_in_a_tree_that_nobody_shows(
    repository: Repository, base: str
) -> None:
    steps = (EDIT, SHOWN)
    assert replayed(repository, base, *steps, session="b", continues="a").status == "partial"
    assert replayed(repository, base, *steps, session="b", continues="a", copied_steps=1).status == "verified"


def test_a_program_that_says_what_it_rewrote_leaves_only_that_unknown(repository: Repository, base: str) -> None:
    told = bash("python -m tools", "reformatted src/pager.py\nAll done!\n1 file reformatted.\n")
    found = replayed(repository, base, EDIT, SHOWN, told, LOOK)
    assert found.status == "partial"
    assert found.opaque[-1].paths == ("src/pager.py",)
    listed = bash("cat /tmp/notes.txt", "reformatted src/pager.py\n")
    assert replayed(repository, base, EDIT, SHOWN, listed).status == "verified", "a text is no program"


@pytest.mark.parametrize(
    "line",
    [
        *(
            "python tools/gen.py",
            "python manage.py makemigrations",
            "./run.sh",
            "make",
            "npm run build",
            "node build.js",
        ),
        *("docker exec c sed -i s/a/b/ /testbed/src/pager.py", "ssh host rm src/pager.py", "vim src/pager.py"),
        *("pip install -e .", "python -m tools.gen", "alembic revision", "claude -p 'mend it'", "unheard_of x"),
    ],
)
def test_a_program_of_unknown_effect_is_answered_by_a_look_at_the_whole_tree(
    repository: Repository, base: str, line: str
) -> None:
    ran = bash(line)
    found = replayed(repository, base, EDIT, SHOWN, ran, LOOK)
    assert found.statuses == ("verified", "verified", "verified", "partial", "partial")
    assert not found.is_derivable and all(found.derived[:3])
    found = replayed(repository, base, EDIT, SHOWN, ran, SHOWN, STATUS)
    assert set(found.statuses) == {"verified"}
    assert found.is_derivable is not line.startswith("vim")  # the file of an editor is taken from the later look
    found = replayed(repository, base, EDIT, SHOWN, STATUS, ran, LOOK)
    assert found.statuses[-2:] == ("partial", "partial"), "the look came before"


@pytest.mark.parametrize(
    "line",
    [
        *(
            "pytest -q",
            "go test ./...",
            "go build ./cmd/x",
            "mypy .",
            "python -c 'import x; print(x.f())'",
            "gh pr view",
        ),
        *("npm --version", "pip list", "ps aux", "python -m json.tool x.json", "cargo check", "pip install requests"),
    ],
)
def test_tests_linters_compilers_and_looks_leave_files_alone(repository: Repository, base: str, line: str) -> None:
    assert replayed(repository, base, EDIT, SHOWN, bash(line), LOOK).status == "verified"


LONG = """On branch main
Your branch is up to date with 'origin/main'.

Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
  (use "git restore <file>..." to discard changes in working directory)
\tmodified:   src/pager.py

no changes added to commit (use "git add" and/or "git commit -a")
"""


@pytest.mark.parametrize(
    ("line", "text", "status"),
    [
        ("git status", LONG, "verified"),
        ("git status --porcelain", " M src/pager.py\n", "verified"),
        ("git status -uno --short", " M src/pager.py\n", "partial"),
        ("git status --short src", " M src/pager.py\n", "partial"),
        ("git status --short | head -1", " M src/pager.py\n", "partial"),
        ("git -C ../other status --short", " M src/pager.py\n", "partial"),
        ("cd ../other && git status --short", " M src/pager.py\n", "partial"),
        ("git status --short", " M src/pager.py\n?? made.txt\n", "partial"),
        ("git status --short", " M src/pager.py\n?? made/\n", "partial"),
        ("git status --short", " M src/pager.py\n M README.md\n", "partial"),
        ("git status", LONG.replace("src/pager.py", "src/pager.py\n\tmodified:   README.md"), "partial"),
        ("git status", LONG.replace("On branch main\n", ""), "partial"),
        ("git status", LONG + "more\n", "partial"),
    ],
)
def test_only_all_that_git_lists_is_a_look_at_the_whole_tree(
    repository: Repository, base: str, line: str, text: str, status: str
) -> None:
    assert replayed(repository, base, EDIT, SHOWN, bash("make"), SHOWN, bash(line, text)).status == status


@pytest.mark.parametrize(
    "line",
    ["git update-index --assume-unchanged README.md", "git sparse-checkout set src", "git config core.fileMode false"],
)
def test_git_may_be_told_to_overlook_changes(repository: Repository, base: str, line: str) -> None:
    assert replayed(repository, base, EDIT, bash(line), SHOWN, bash("make"), SHOWN, STATUS).status == "partial"


def test_what_was_changed_before_the_run_is_taken_from_the_diff_that_shows_it(
    repository: Repository, base: str
) -> None:
    """The list says that a file is not the base's, and the diff brings its bytes: they are known from there on."""
    text = diff({"src/pager.py": PAGER}, {"src/pager.py": EDITED})
    found = replayed(repository, base, bash("git status", LONG), bash("git diff", text), LOOK)
    assert found.statuses[1:] == ("partial", "verified", "verified")
    assert found.trees[2] is not None
    assert repository.read(found.trees[2], "src/pager.py") == EDITED.encode()


def test_what_was_put_back_since_may_have_been_another_file_meanwhile(repository: Repository, base: str) -> None:
    """A program changes the README, git puts it back: the tree of the step between was not as derived."""
    back = bash("git checkout -- README.md")
    found = replayed(repository, base, LOOK, bash("make"), bash("pwd"), back, LOOK, bash("git status --short", ""))
    assert found.statuses == ("verified", "verified", "partial", "partial", "verified", "verified", "verified")
