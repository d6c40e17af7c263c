"""Looking at later history: what counts as looking, as meaning to, as seeing (``docs/science.md §14``)."""

from __future__ import annotations

import pytest

from handoff.quality import Signal, assess
from handoff.trajectory import Step, Trajectory
from tests.quality.build import bash, call, run

BASE = "b45e1230" + "0" * 32
FIX = "f00dfee1" + "0" * 32
PLAIN = f"{BASE[:7]} base\na1a1a1a older\na2a2a2a oldest"
ALL = f"{FIX[:7]} fix off-by-one in pager\n{PLAIN}"


def peeks(*steps: Step, base: str | None = BASE, repo: str | None = "o/pager", task: str = "Fix it.") -> list[Signal]:
    return [s for s in assess(run(*steps, base=base, repo=repo, task=task)).signals if s.name == "peek"]


def kinds(*steps: Step, base: str | None = BASE, task: str = "Fix it.") -> list[tuple[int, str]]:
    return [(s.step, s.rule) for s in peeks(*steps, base=base, task=task)]


def leak(trajectory: Trajectory) -> str | None:
    found = assess(trajectory).leak
    return None if found is None else found.rule


def test_the_run_that_listed_every_ref_and_was_shown_the_fix_is_leaked() -> None:
    """CASES S7: the commit stands above the base, so it came later."""
    found = assess(run(bash("ls"), bash("cd /testbed && git log --all --oneline", ALL), base=BASE))
    assert found.leak is not None
    assert (found.leak.step, found.leak.rule, found.leak.paths) == (2, "saw", ("--all",))
    assert FIX[:7] in found.leak.reason
    row = found.run_row("t_1")
    assert (row["leak_step"], str(row["leak"])[:5]) == (2, "saw: ")


def test_a_session_without_a_task_has_no_solution_to_leak() -> None:
    """The signal stays; nothing is taken from the run."""
    found = assess(run(bash("git log --all --oneline", ALL), base=BASE, task_id=None))
    assert ([s.rule for s in found.signals], found.leak) == (["saw"], None)


def test_reading_the_past_is_no_peek() -> None:
    """What HEAD descends from may be read as one likes, also by name."""
    assert not peeks(
        bash("git log --oneline -5", PLAIN),
        bash("git log -p -S pager -- src/pager.py", f"commit {'a1' * 20}\n"),
        bash("git show a1a1a1a", f"commit {'a1' * 20}\n\ndiff --git a/x b/x"),
        bash("git show HEAD~2:src/pager.py", "text"),
        bash("git diff HEAD~1 -- src", "diff --git a/x b/x"),
        bash("git blame src/pager.py", "a2a2a2a (dev 2020-01-01 1) x"),
        bash("git status && git branch && git stash && git stash pop", "On branch main"),
        bash("git diff origin/main...HEAD", "diff --git a/x b/x"),
        bash("git log origin/main..HEAD --oneline", ""),
        bash("git tag v1.0.0 && git checkout -b work", ""),
    )


@pytest.mark.parametrize(
    "line",
    [
        "git log --all --oneline",
        "git log --branches",
        "git log origin/main --oneline -3",
        "git log -g",
        "git reflog",
        "git branch -a",
        "git branch -av",
        "git tag",
        "git tag --sort=-creatordate",
        "git for-each-ref",
        "git ls-remote origin",
        "git fsck",
        "git fetch --all",
        "git show v2.1.0",
        "git show 1234567",
        "git -C /testbed --no-pager show origin/HEAD:src/pager.py",
        "cat .git/packed-refs",
        "ls .git/refs/remotes",
        "timeout 10 bash -c 'git log --remotes'",
    ],
)
def test_what_could_have_shown_it_is_a_look_and_no_leak(line: str) -> None:
    """Without an answer that shows it, nothing was seen."""
    trajectory = run(bash(line, ""), base=BASE)
    assert [(s.rule, s.step) for s in assess(trajectory).signals if s.name == "peek"] == [("looked", 1)]
    assert leak(trajectory) is None


@pytest.mark.parametrize(
    "line",
    [
        "git log --all --grep=pager",
        "git log --all -S page_count --oneline",
        "git log --all --oneline | grep -i pager",
        "git log --all -p -- src/pager.py",
        "git reflog | grep fix",
        "git fsck --lost-found",
        "git checkout origin/main -- src/pager.py",
        "git cherry-pick origin/fix",
        "pip download pager --no-deps",
        "python -m pip download pager==2.0",
        "curl -s https://raw.githubusercontent.com/o/pager/main/src/pager.py",
        "curl https://api.github.com/repos/o/pager/pulls/12",
    ],
)
def test_searching_there_is_meant_whatever_it_found(line: str) -> None:
    assert kinds(bash(line, "")) == [(1, "meant")]
    assert leak(run(bash(line, ""), base=BASE, repo="o/pager")) == "meant"


def test_a_named_commit_counts_when_an_earlier_list_showed_that_it_is_later() -> None:
    """The list alone is cut by the pipe; what it showed is remembered."""
    shown = f"commit {FIX}\n\ndiff --git a/x b/x"
    assert kinds(bash("git log --all --oneline | head -20", ALL), bash(f"git show {FIX[:9]}", shown)) == [
        (1, "saw"),
        (2, "saw"),
    ]
    assert kinds(bash(f"git show {FIX[:9]}", shown)) == [(1, "looked")]
    assert not kinds(bash(f"git show {FIX[:9]}", shown), task=f"Broken since {FIX[:10]}.")


def test_head_may_be_known_from_the_run_itself() -> None:
    """The base is not given: a plain list tells HEAD, and it may come later than the other one."""
    wide, plain = bash("git log --all --oneline", ALL), bash("git log --oneline", PLAIN)
    assert kinds(wide, base=None) == [(1, "looked")]
    assert kinds(plain, wide, base=None) == [(2, "saw")]
    assert kinds(wide, plain, base=None) == [(1, "saw")]
    assert kinds(bash("git rev-parse HEAD", BASE), wide, base=None) == [(2, "saw")]
    decorated = ALL.replace(" base", " (HEAD -> main) base")
    assert kinds(bash("git log --all --oneline --decorate", decorated), base=None) == [(1, "saw")]


def test_the_runs_own_commits_and_the_harness_commit_are_not_later_history() -> None:
    own = "c0ffee1 mine\n" + PLAIN
    assert kinds(bash("git commit -am mine", "[main c0ffee1] mine"), bash("git log --all --oneline", own)) == [
        (2, "looked")
    ]
    assert kinds(bash("git log --all --oneline", "ca11ab1 SWE-bench\n" + PLAIN)) == [(1, "looked")]


def test_dates_after_head_show_it_where_order_does_not() -> None:
    head = f"commit {BASE}\nAuthor: a\nDate:   Fri May 7 13:54:08 2021 +0200\n\n    base\n"
    later = f"commit {FIX}\nAuthor: a\nDate:   Sat May 8 00:00:00 2021 +0200\n\n    fix\n\ndiff --git a/x b/x"
    earlier = later.replace("2021 ", "2020 ")
    assert kinds(bash("git log -1", head), bash(f"git show {FIX}", later)) == [(2, "saw")]
    assert kinds(bash("git log -1", head), bash(f"git show {FIX}", earlier)) == [(2, "looked")]
    assert kinds(bash("git log -1", head), bash("git show v2.0", later.replace("Sat May 8", "Sun May 99"))) == [
        (2, "looked")
    ]


def test_a_range_beyond_head_and_a_pull_show_it() -> None:
    assert kinds(bash("git log HEAD..origin/main --oneline", FIX[:7] + " fix")) == [(1, "saw")]
    assert kinds(bash("git diff HEAD..origin/main", "diff --git a/x b/x")) == [(1, "saw")]
    assert kinds(bash("git pull", f"Updating {BASE[:7]}..{FIX[:7]}\nFast-forward")) == [(1, "saw")]
    assert kinds(bash("git pull", "Already up to date.")) == [(1, "looked")]
    assert kinds(bash("git reset --hard origin/main", f"HEAD is now at {FIX[:7]} fix")) == [(1, "saw")]


def test_a_list_that_is_cut_before_head_is_later_only_when_head_is_in_it() -> None:
    """Of all refs HEAD is one; a remote branch may well be behind it, and so may what a filter leaves."""
    newest = "f00dfee fix\nf00dfed more"
    assert kinds(bash("git log --all --oneline | head -2", newest)) == [(1, "saw")]
    assert kinds(bash("git log origin/main --oneline -2", newest)) == [(1, "looked")]
    assert kinds(bash("git log --all --oneline --author=dev -2", newest)) == [(1, "looked")]


def test_two_lists_in_one_answer_are_not_told_apart() -> None:
    """Where one list ends and the next begins cannot be seen, so nothing is claimed."""
    line = "git log --oneline -3; git log --all --oneline"
    assert kinds(bash(line, PLAIN + "\n" + ALL)) == [(1, "looked")]


def test_the_project_on_the_web_and_in_the_index() -> None:
    url = "https://github.com/o/pager/pull/12"
    assert kinds(call("WebFetch", "diff", url=url)) == [(1, "saw")]
    assert not kinds(call("WebFetch", "diff", url=url), task=f"See {url}.")
    assert not kinds(call("WebFetch", "text", url="https://docs.python.org/3/library/re.html"))
    assert kinds(bash("git clone https://github.com/o/pager.git /tmp/p", "Cloning")) == [(1, "looked")]
    got = bash("pip install --target /tmp/x pager", "Successfully installed pager-2.0")
    assert kinds(got, bash("cat /tmp/site-packages/pager/core.py", "x = 1")) == [(1, "meant"), (2, "saw")]
    assert not kinds(bash("pip install -e . && pip install pagerduty", "Successfully installed"))
    assert not peeks(bash("pip install pager", "ok"), repo=None)


def test_a_tool_that_reads_gits_own_files_looks() -> None:
    assert kinds(call("Read", "text", file_path="/testbed/.git/packed-refs")) == [(1, "looked")]
    assert not kinds(call("Read", "text", file_path="/testbed/.git/HEAD"))


def test_a_refused_command_shows_nothing() -> None:
    assert kinds(bash("git show 1234567", "fatal: bad object 1234567", 128)) == [(1, "looked")]
    assert kinds(bash("git log --all --oneline", ALL, 128)) == [(1, "looked")]
