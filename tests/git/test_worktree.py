"""A laid-out state is exact, holds no later history, and comes back as a tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handoff.errors import StateError
from handoff.git import worktree
from handoff.git.objects import format_tree, is_safe_name, write_loose
from handoff.git.repositories import Repositories, Repository, git_environment, run_git
from handoff.git.worktree import WorkTree, lay_out
from tests.states.conftest import FILES, commit

Prepare = Callable[[Repository, str, str, Path], Repository]


@pytest.fixture(params=["overlay", "copy"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "copy":
        monkeypatch.setattr(worktree, "overlay_reason", lambda: "not wanted")
    elif worktree.overlay_reason() is not None:
        pytest.skip(str(worktree.overlay_reason()))
    return str(request.param)


@pytest.fixture
def state(repository: Repository, base: str) -> str:
    changes: dict[str, bytes | None] = {"src/pager.py": b"new\n", "README.md": None, "src": None, "added/x.txt": b"x"}
    del changes["src"]
    return repository.write_tree(repository.tree_of(base), changes)


@pytest.fixture
def laid(repository: Repository, base: str, state: str, tmp_path: Path, how: str) -> Iterator[WorkTree]:
    with lay_out(repository, base, state, tmp_path / "wt") as made:
        assert made.is_overlay == (how == "overlay")
        yield made


def shell(tree: WorkTree, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], cwd=tree.path, capture_output=True, text=True, env=git_environment())
    return done.stdout + done.stderr


def test_the_bytes_are_those_of_the_state(laid: WorkTree, state: str) -> None:
    assert (laid.path / "src/pager.py").read_bytes() == b"new\n"
    assert (laid.path / "src/crlf.txt").read_bytes() == FILES["src/crlf.txt"]
    assert (laid.path / "src/deep/data.bin").read_bytes() == FILES["src/deep/data.bin"]
    assert not (laid.path / "README.md").exists()
    assert laid.tree() == state


def test_the_predecessors_changes_are_uncommitted(laid: WorkTree) -> None:
    assert shell(laid, "git status --porcelain") == " D README.md\n M src/pager.py\n?? added/\n"
    assert "+new" in shell(laid, "git diff")


LATER = "fix off-by-one in pager"


def _plain(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    repository.git("tag", "v2", later)
    repository.git("branch", "other", later)
    repository.git("tag", "-a", "-m", LATER, "v3", later, extra=_PERSON)
    return repository


def _packed(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    _plain(repository, base, later, folder)
    repository.git("repack", "-adq")
    repository.git("pack-refs", "--all")
    repository.git("commit-graph", "write", "--reachable")
    return repository


def _borrowing(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    """The base's own store has no later object; the store that it borrows from has."""
    run_git("clone", "--quiet", "--shared", "--bare", "--template=", repository.git_dir, folder / "borrowing.git")
    return Repository(folder / "borrowing.git")


def _loosened(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    """No ref holds the fix any more: a reflog, FETCH_HEAD, ORIG_HEAD and dangling objects do."""
    repository.git("update-ref", "-d", "refs/heads/main")
    repository.git("update-ref", "refs/heads/main", base)
    (repository.git_dir / "logs/refs/heads").mkdir(parents=True)
    for name in ("logs/HEAD", "logs/refs/heads/main"):
        (repository.git_dir / name).write_text(
            f"{base} {later} A <a@example.invalid> 1700000000 +0000\tcommit: {LATER}\n"
        )
    (repository.git_dir / "FETCH_HEAD").write_text(f"{later}\t\tbranch 'main' of https://example.invalid/o/pager\n")
    (repository.git_dir / "ORIG_HEAD").write_text(f"{later}\n")
    return repository


def _noted(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    """A note on the base, a replacement of the base by the fix, and the fix in a stash and a remote's branch."""
    repository.git("notes", "add", "-m", LATER, base, extra=_PERSON)
    repository.git("replace", base, later)
    for ref in ("refs/stash", "refs/remotes/origin/main", "refs/pull/7/head"):
        repository.git("update-ref", ref, later)
    return repository


def _with_worktree(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    repository.git("worktree", "add", "--quiet", folder / "elsewhere", later)
    return repository


def _bundled(repository: Repository, base: str, later: str, folder: Path) -> Repository:
    repository.git("bundle", "create", repository.git_dir / "all.bundle", "--all")
    (repository.git_dir / "objects/info").mkdir(exist_ok=True)
    return repository


_PERSON = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
SOURCES = (_plain, _packed, _borrowing, _loosened, _noted, _with_worktree, _bundled)


@pytest.mark.parametrize("prepare", SOURCES, ids=lambda prepare: prepare.__name__.strip("_"))
@pytest.mark.parametrize("is_mirrored", [False, True], ids=["used", "mirrored"])
def test_no_later_history_is_visible(
    repository: Repository, base: str, tmp_path: Path, how: str, prepare: Prepare, is_mirrored: bool
) -> None:
    """CASES S7: the fix, a later commit, shows nowhere, wherever the source keeps it."""
    later = commit(repository.git_dir, {**FILES, "src/pager.py": b"fixed\n"}, LATER, parent=base)
    blob = repository.entry(repository.tree_of(later), "src/pager.py")
    assert blob is not None
    store = prepare(repository, base, later, tmp_path)
    repositories = Repositories(tmp_path / "mirrors", {"o/pager": store.git_dir})
    if is_mirrored:
        store = repositories.open("o/pager", base)
    state = store.write_tree(store.tree_of(base), {"README.md": b"changed\n"})
    with repositories, store, lay_out(store, base, state, tmp_path / "wt") as laid:
        assert shell(laid, "git rev-list --all --reflog HEAD").split() == [base]
        for command in (
            *("git tag", "git remote", "git fsck --lost-found", "git stash list", "git notes list", "git replace -l"),
            *(
                "git for-each-ref refs/remotes",
                "git for-each-ref --count=9 refs/pull",
                "ls .git/lost-found 2>/dev/null",
            ),
        ):
            assert shell(laid, command) == "", command
        assert shell(laid, "git branch -a --format='%(refname)'") == "refs/heads/main\n"
        assert shell(laid, "git worktree list").split() == [str(laid.path), base[:7], "[main]"]
        for name in (
            "FETCH_HEAD",
            "ORIG_HEAD",
            "objects/info/alternates",
            "shallow",
            "packed-refs",
            "logs",
            "worktrees",
        ):
            assert not (laid.path / ".git" / name).exists(), name
        for id_ in (later, blob[1], store.tree_of(later) if store.has(later) else later):
            assert shell(laid, f"git cat-file -t {id_}").startswith("fatal"), id_
        here = shell(laid, "git cat-file --batch-all-objects --batch-check='%(objectname)'").split()
        ancestors = repository.git("rev-list", "--objects", "--no-object-names", base).decode().split()
        assert sorted(here) == sorted(ancestors)
        every = b"".join(file.read_bytes() for file in laid.path.rglob("*") if file.is_file())
        for secret in (LATER.encode(), later.encode(), bytes.fromhex(later), str(tmp_path / "mirrors").encode()):
            assert secret not in every


def test_what_the_successor_leaves_is_stored(laid: WorkTree, repository: Repository, base: str) -> None:
    """New, changed, removed, renamed, linked and executable files count; ignored new files and sockets do not."""
    shell(laid, "mv src lib; rm run.sh; echo v > README.md; mkdir build; echo o > build/o; echo c > a.pyc; mkfifo pipe")
    shell(
        laid, "ln -s /etc/passwd link; printf '#!/bin/sh' > go; chmod +x go; rm -r added; mkdir added; echo 2 > added/y"
    )
    files = repository.files(laid.tree())
    assert sorted(files) == [
        *(".gitignore", "README.md", "added/y", "go"),
        *("lib/crlf.txt", "lib/deep/data.bin", "lib/pager.py", "link"),
    ]
    assert files["link"][0] == "120000" and files["go"][0] == "100755"
    assert repository.read(laid.tree(), "link") == b"/etc/passwd"
    assert repository.read(laid.tree(), "lib/pager.py") == b"new\n"


def test_the_successors_git_configuration_runs_nothing(laid: WorkTree, state: str, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.external", "core.hooksPath"):
        shell(laid, f"git config {key} 'touch {proof}'")
    hook = ".git/hooks/post-index-change"
    shell(laid, f"mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch {proof}\\n' > {hook}; chmod +x {hook}")
    (laid.path / ".gitattributes").write_text("* filter=x diff=x\n")
    (laid.path / "new.txt").write_text("n")
    laid.tree()
    assert not proof.exists()


def test_two_layouts_of_one_base_do_not_touch_each_other(
    repository: Repository, base: str, tmp_path: Path, how: str
) -> None:
    tree = repository.tree_of(base)
    with lay_out(repository, base, tree, tmp_path / "a") as a, lay_out(repository, base, tree, tmp_path / "b") as b:
        with (a.path / "run.sh").open("ab") as file:  # in place: a shared inode would show it in b
            file.write(b"more\n")
        shell(a, "git add -A; git -c user.name=a -c user.email=a@example.invalid commit -qm x")
        assert b.tree() == tree and shell(b, "git log --format=%H").split() == [base]
    assert not (tmp_path / "a").exists()


def test_what_an_interrupted_layout_left_is_removed(
    repository: Repository, base: str, tmp_path: Path, how: str
) -> None:
    lay_out(repository, base, repository.tree_of(base), tmp_path / "wt")  # never closed
    with lay_out(repository, base, repository.tree_of(base), tmp_path / "wt") as again:
        assert again.tree() == repository.tree_of(base)
    assert not (tmp_path / "wt").exists()


@pytest.mark.parametrize(
    "name", [b".git", b"..", b".", b".GIT", b"git~1", b".git ", b"a\0b", b"", ".g\u200cit".encode()]
)
def test_names_that_could_climb_out_are_unsafe(name: bytes) -> None:
    assert not is_safe_name(name)


@pytest.mark.parametrize("name", [b".git", b"..", b".Git"])
def test_a_hostile_tree_is_refused(repository: Repository, base: str, tmp_path: Path, name: bytes) -> None:
    blob = write_loose(repository.git_dir, "blob", b"x")
    body = format_tree({name: ("100644", blob)})
    tree = write_loose(repository.git_dir, "tree", body)
    with pytest.raises(StateError, match="refused"):
        lay_out(repository, base, tree, tmp_path / "wt")
    with pytest.raises(StateError):
        repository.write_tree(repository.tree_of(base), {f"a/{os.fsdecode(name)}/b": b"x"})


def test_a_state_is_never_written_through_a_link(repository: Repository, base: str, tmp_path: Path, how: str) -> None:
    """The base holds a link that leads out; the state has a folder of that name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    blob = write_loose(repository.git_dir, "blob", os.fsencode(outside))
    linked = repository.write_entries(repository.tree_of(base), {"out": ("120000", blob)})
    with_link = (
        repository.git(
            "commit-tree",
            linked,
            "-m",
            "x",
            extra={
                "GIT_AUTHOR_NAME": "a",
                "GIT_AUTHOR_EMAIL": "a",
                "GIT_COMMITTER_NAME": "a",
                "GIT_COMMITTER_EMAIL": "a",
            },
        )
        .decode()
        .strip()
    )
    state = repository.write_tree(linked, {"out": None, "out/f": b"f"})
    with lay_out(repository, with_link, state, tmp_path / "wt") as laid:
        assert laid.tree() == state and list(outside.iterdir()) == []
