"""Peeking judged against git itself: real commands in a repository whose fix lies beyond HEAD (CASES S7)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from handoff.quality import assess
from handoff.quality.peek import LEAKING
from tests.quality.build import bash, run

FIX = "repair the off-by-one"
"""Subject of the commit that the run must not see."""
WHO = {f"GIT_{who}_{what}": "dev" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

COMMANDS = (
    "git log --oneline",
    "git log",
    "git log -2 --format='%h %ad %s'",
    "git log --oneline -- pager.py",
    "git show HEAD~1",
    "git show",
    "git blame pager.py",
    "git diff HEAD~1",
    "git status",
    "git rev-list HEAD",
    "git log --oneline --grep=pager",
    "git log -p -S page",
    "git log --all --oneline",
    "git log --all",
    "git log --all --graph --oneline",
    "git log --all --oneline --decorate",
    "git log --all --oneline -1",
    "git log --all --oneline | head -1",
    "git log --branches --oneline",
    "git log --remotes --format='%h %s'",
    "git log --tags --oneline",
    "git log origin/main --oneline",
    "git log HEAD..origin/main",
    "git log ..origin/main --oneline",
    "git log origin/main..HEAD --oneline",
    "git log master --oneline",
    "git rev-list --all --oneline",
    "git log --all --oneline --grep=off-by",
    "git log --all -p",
    "git show origin/main",
    "git show v2.0",
    "git show --stat FIX",
    "git show BASE",
    "git diff HEAD..origin/main",
    "git diff origin/main..HEAD",
    "git cat-file -p FIX",
    "git checkout origin/main -- pager.py",
    "git branch -a",
    "git branch -av",
    "git tag",
    "git reflog",
    "git for-each-ref",
    "git fsck --lost-found",
    "cat .git/packed-refs",
)


UNDATED = {"git show v2.0", "git show --stat FIX"}
"""Whether this commit is later can be told from its date alone: only a look while HEAD's is not known."""
NAMING = {"git branch -av", "git reflog", "git diff origin/main..HEAD"}
"""These name it, or show it among the run's own, in an order that says nothing: a look."""


def git(folder: Path, *arguments: str, when: str = "2021-05-07T12:00:00+0200") -> str:
    env = {**os.environ, **WHO, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A clone at the base commit, as images for evaluation had it: (folder, base, fix)."""
    folder = tmp_path_factory.mktemp("pager")
    git(folder, "init", "--quiet", "--initial-branch=master")
    for number, subject in enumerate(("first pager", "pages are counted", FIX), start=1):
        (folder / "pager.py").write_text(f"PAGE = {number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", subject, when=f"2021-05-0{number + 4}T12:00:00+0200")
    base, fix = git(folder, "rev-parse", "HEAD~1"), git(folder, "rev-parse", "HEAD")
    git(folder, "update-ref", "refs/remotes/origin/main", fix)
    git(folder, "tag", "v2.0")
    git(folder, "pack-refs", "--all")
    git(folder, "checkout", "--quiet", base)
    return folder, base, fix


@pytest.mark.parametrize("is_base_known", [True, False])
@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_shows_the_fix_is_a_leak_and_nothing_else_was_seen(
    repository: tuple[Path, str, str], command: str, is_base_known: bool
) -> None:
    """The oracle is the answer: the fix's subject stands in it, or its change. HEAD is given, or a list tells it."""
    folder, base, fix = repository
    line = command.replace("FIX", fix[:9]).replace("BASE", base)
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    git(folder, "reset", "--quiet", "--hard", base)
    shows = FIX in done.stdout or "+PAGE = 3" in done.stdout or "-PAGE = 3" in done.stdout
    steps = [bash(line, done.stdout, done.returncode)]
    if not is_base_known:
        steps.insert(0, bash("git log -3", git(folder, "log", "-3")))
    peeks = [s for s in assess(run(*steps, base=base if is_base_known else None)).signals if s.name == "peek"]
    kinds = {signal.rule for signal in peeks}
    if command in NAMING or (command in UNDATED and is_base_known):
        assert kinds == {"looked"}
    else:
        assert bool(kinds & LEAKING) >= shows, done.stdout
    assert shows or "saw" not in kinds, done.stdout


@pytest.mark.parametrize("command", ["git branch -av", "git for-each-ref", "git show-ref"])
def test_opening_the_tip_of_another_ref_is_meant(repository: tuple[Path, str, str], command: str) -> None:
    """Whatever is known of HEAD; opening HEAD itself is not."""
    folder, base, fix = repository
    named = bash(command, git(folder, *command.split()[1:]))
    found = assess(run(named, bash(f"git show {fix[:8]}", git(folder, "show", fix)))).leak
    assert found is not None
    assert (found.step, found.rule, found.shown_by) == (2, "meant", (1,))
    head = bash(f"git show {base[:8]}", git(folder, "show", base))
    assert assess(run(named, head, base=None if "branch" in command else base)).leak is None


def test_the_past_of_another_branch_is_not_that_of_the_base(repository: tuple[Path, str, str]) -> None:
    """After a move, what a plain list shows above the base is later; a move into the past shows nothing."""
    folder, base, _ = repository
    listed = git(folder, "log", "--oneline", "master")
    steps = bash("git checkout master", "Switched to branch 'master'"), bash("git log --oneline", listed)
    found = assess(run(*steps, base=base)).leak
    assert found is not None and (found.step, found.rule) == (2, "saw")
    back = (
        bash("git checkout 1234567", "HEAD is now at 1234567 first pager"),
        bash("git log --oneline", "1234567 first pager"),
    )
    assert assess(run(*back, base=base)).leak is None


def test_opening_an_older_commit_of_a_wide_list_is_no_leak(repository: tuple[Path, str, str]) -> None:
    """It stands below HEAD, or HEAD is not known."""
    folder, base, _ = repository
    older = git(folder, "rev-parse", f"{base}~1")
    wide = bash("git log --branches --oneline", git(folder, "log", "--oneline", base))
    shown = bash(f"git show {older[:8]}", git(folder, "show", older))
    assert assess(run(wide, shown, base=base)).leak is None
    assert assess(run(wide, shown)).leak is None
