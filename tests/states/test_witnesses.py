"""What looks like a proof of a file and is none: another tree's diff, an earlier version's commit, another checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from handoff.git.repositories import Repository
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay
from handoff.trajectory import Action, Observation, Step
from tests.states.conftest import FILES, bash, commit, recording
from tests.states.histories import Made, make
from tests.states.truths import diff

PAGER = FILES["src/pager.py"].decode()
EDITED = PAGER.replace("items[-1]", "items[-2]")
DIFF = diff({"src/pager.py": PAGER}, {"src/pager.py": EDITED})
LOOK = bash("cat README.md", "A pager.\n")


def edit(new: str = "items[-2]", path: str = "/testbed/src/pager.py", *, error: bool | None = None) -> Step:
    arguments = {"file_path": path, "old_string": "items[-1]", "new_string": new}
    text = "the disk did not answer" if error else f"The file {path} has been updated."
    return Step(
        actions=(Action(tool="Edit", arguments=json.dumps(arguments)),),
        observations=(Observation(text=text, error=error),),
    )


EDIT = edit()
UNSURE = edit("items[-3]", error=True)
"""Its answer does not say that the file was left as it was."""


def replayed(repository: Repository, base: str, *steps: Step, patch: str | None = None, **fields: Any) -> Replay:
    return replay(with_fields(recording(*steps, base=base, patch=patch), **fields), "t", repository)


@pytest.mark.parametrize(
    "line",
    [
        *("git diff", "git diff HEAD", "git diff origin/main", "git diff -w", "git diff -- src/pager.py"),
        *("git diff src/pager.py", "git diff | cat", "git diff HEAD~3 -- src/pager.py", "git diff 'src/*.py'"),
        *("cd src && git diff pager.py", "git --no-pager diff", "echo now; git diff"),
        *("cat README.md && git diff", "git diff; sed -n '1,9p' src/pager.py", "head -3 run.sh; git diff"),
    ],
)
def test_a_diff_of_the_work_tree_proves_a_file(repository: Repository, base: str, line: str) -> None:
    assert replayed(repository, base, LOOK, EDIT, UNSURE, bash(line, DIFF)).status == "verified"


@pytest.mark.parametrize(
    "line",
    [
        *("git diff main feature/x", "git diff v1.0 v2.0", "git diff feature/x release/y", "git diff main..x"),
        *("git --no-pager diff main feature/x", "git diff a b -- src/pager.py", "git diff --cached", "git diff -R"),
        *("git diff -pR", "git diff --no-prefix", "git diff --output=x", "git diff; cat old.patch"),
        *("cat old.patch && git diff", 'git diff --stat; echo "$OLD_DIFF"', "git show", "cat x # git diff"),
        *("cd /elsewhere && git diff", "git -C ../other diff", "git stash show -p", "head -50 old.patch; git diff"),
    ],
)
def test_a_diff_of_anything_else_proves_nothing(repository: Repository, base: str, line: str) -> None:
    assert replayed(repository, base, EDIT, UNSURE, bash(line, DIFF), LOOK).status != "verified"


def test_a_commit_proves_what_was_added_to_it(repository: Repository, base: str) -> None:
    made = commit(repository.git_dir, {**FILES, "src/pager.py": EDITED.encode()}, "x", parent=base, branch="made")
    said = f"[main {made[:9]}] x\n 1 file changed\n"
    for lines in (["git commit -am x"], ["git add -A && git commit -m x"], ["git add .", "git commit -m x"]):
        steps = [bash(line, said if "commit" in line else "") for line in lines]
        assert replayed(repository, base, EDIT, UNSURE, *steps, LOOK).status == "verified", lines
    late = replayed(repository, base, EDIT, bash("git add src/pager.py"), UNSURE, bash("git commit -m x", said), LOOK)
    assert late.status == "partial"
    assert "src/pager.py" in late.reason


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("git add src/pager.py && git diff --cached > ../p.txt", "partial"),
        ("git add src && git diff --staged > ../p.txt", "partial"),
        ("git add -A && git diff --cached > ../p.txt", "verified"),
        ("git add . && git diff --cached > ../p.txt", "verified"),
    ],
)
def test_a_patch_of_added_files_says_nothing_of_others(repository: Repository, base: str, line: str, step: str) -> None:
    rewrite = bash("black README.md")
    found = replayed(repository, base, EDIT, rewrite, bash(line), patch=DIFF)
    assert found.statuses[-1] == step


def test_a_file_of_another_checkout_is_another_file(repository: Repository, base: str) -> None:
    inside = edit(path="/workspace/a/src/pager.py")
    shown = bash("cat /workspace/a/src/pager.py", EDITED)
    other = bash("cat /workspace/b/src/pager.py", EDITED)
    same = bash("cat /testbed/src/pager.py", EDITED)
    assert replayed(repository, base, inside, shown).status == "verified"
    assert replayed(repository, base, inside, same).status == "verified"
    assert replayed(repository, base, inside, other, LOOK).status == "partial"
    assert replayed(repository, base, EDIT, bash("cd /elsewhere && cat src/pager.py", EDITED)).status != "verified"
    beside = replayed(repository, base, bash("cd /workspace/a && ls"), edit(path="/workspace/b/src/pager.py"), LOOK)
    assert beside.trees[-1] == beside.trees[0]


def test_links_to_absolute_places_are_followed_where_they_lead_inside(tmp_path: Path) -> None:
    made = Made(
        {
            b"a.txt": ("100644", b"one\n"),
            b"src/x.txt": ("100644", b"x\n"),
            b"link": ("120000", b"/testbed/a.txt"),
            b"folder": ("120000", b"/testbed/src"),
            b"away": ("120000", b"/etc/passwd"),
            b"vendor/lib": ("160000", b"d" * 40),
        }
    )
    (base,) = make(tmp_path / "r.git", [made], {"main": 0})
    with Repository(tmp_path / "r.git", name="o/r") as repository:
        begin = bash("cd /testbed && ls")
        lines = "echo two > link; echo y > folder/x.txt; echo z > away; echo z > vendor/lib/new.c"
        found = replayed(repository, base, begin, *[bash(line) for line in lines.split("; ")])
        assert found.trees[-1] is not None
        assert repository.changed(repository.tree_of(base), found.trees[-1]) == ("a.txt", "src/x.txt")
        assert repository.read(found.trees[-1], "a.txt") == b"two\n"


def test_verdicts_tell_no_secret(repository: Repository, base: str) -> None:
    token, key = "ghp_" + "a1B2" * 9, "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n"
    shown = bash("cat src/pager.py", PAGER.replace("items[-1]", f"'{token}'"))
    row = replayed(repository, base, shown).verdict_row()
    assert row["status"] == "divergent"
    assert "return '" in row["hunk"]
    lost = replayed(repository, base, bash(f"black src/{token}.py"), LOOK)
    held = json.dumps([row, lost.verdict_row(), *lost.rows()])
    assert token not in held
    assert "GITHUB_TOKEN" in held
    row = replayed(repository, base, bash("cat src/pager.py", PAGER + key)).verdict_row()
    assert row["status"] == "divergent"
    assert "MII" not in row["hunk"]


def test_a_disk_that_takes_two_names_for_one_may_have_overwritten_a_file(repository: Repository, base: str) -> None:
    """Where Macs keep homes, ``readme.md`` may be ``README.md``; in a sandbox it is another file."""
    for root, status in (("/Users/u/p", "partial"), ("/home/u/p", "verified")):
        arguments = {"file_path": f"{root}/readme.md", "content": "x\n"}
        write = Step(
            actions=(Action(tool="Write", arguments=json.dumps(arguments)),),
            observations=(Observation(text=f"File created successfully at: {root}/readme.md"),),
        )
        shown = bash("cat readme.md", "x\n")
        source = json.dumps({"cwd": root})
        assert replayed(repository, base, write, shown, format="claude_code", source=source).status == status
