"""A work tree that an attacker leaves: read back safely or refused, and always removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff import folders
from handoff.errors import InputError, StateError
from handoff.git import readback
from handoff.git.repositories import Repository
from handoff.git.worktree import WorkTree, lay_out
from tests.git.test_worktree import how, laid, state

__all__ = ["how", "laid", "state"]


def nest(root: Path, depth: int) -> None:
    """Folders one in the other, deeper than any path can name."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("folder", dir_fd=here)
        below = os.open("folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


def test_a_tree_deeper_than_paths_is_refused_and_removed(laid: WorkTree) -> None:
    """Neither Python's recursion nor the longest path ends the round."""
    nest(laid.path, 1_100)
    with pytest.raises(StateError, match="deep"):
        laid.tree()
    laid.close()
    assert not laid.path.parent.exists()


@pytest.mark.parametrize("name", [".gitignore", "src/.gitignore"])
@pytest.mark.parametrize("kind", ["pipe", "link", "loop", "folder", "large", "binary"])
def test_ignore_rules_that_are_none_do_not_hold_anybody(laid: WorkTree, name: str, kind: str) -> None:
    """Git opens what it finds there, and would wait for a pipe's other end for ever."""
    place = laid.path / name
    place.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "link":
            place.symlink_to("/etc/passwd")
        case "loop":
            place.symlink_to(place.name)
        case "folder":
            place.mkdir()
        case "large":
            place.write_bytes(b"new*\n" * (1 << 20))
        case "binary":
            place.write_bytes(bytes(range(256)) * 50)
    (laid.path / "src" / "new.txt").write_text("n")
    assert laid.tree()


def test_ignore_rules_that_take_for_ever_are_refused(laid: WorkTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "_RULES_S", 0.5)
    (laid.path / ".gitignore").write_text("**/*a*a*a*a*a*a*a*a*/**/*a*a*a*a*a*b/**/*a*a*c\n")
    deep = laid.path / "/".join(["a" * 100] * 12)
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    with pytest.raises(StateError, match="ignore rules"):
        laid.tree()


def test_rules_of_every_kind_mean_what_they_mean_in_the_work_tree(laid: WorkTree, repository: Repository) -> None:
    """Nested rules, negation, folders and anchors, laid out afresh."""
    (laid.path / ".gitignore").write_text("*.log\n!keep.log\nout/\n/top\n")
    for folder in ("a/out", "a/top", "b"):
        (laid.path / folder).mkdir(parents=True)
    (laid.path / "a" / ".gitignore").write_text("*.txt\n!good.txt\n.gitignore\n")
    for name in ("x.log", "keep.log", "top", "a/y.txt", "a/good.txt", "a/out/z", "a/top/z", "b/y.txt", "b/x.log"):
        (laid.path / name).write_text("x")
    new = set(repository.files(laid.tree())) & {p.relative_to(laid.path).as_posix() for p in laid.path.rglob("*")}
    assert {"keep.log", "a/good.txt", "a/top/z", "b/y.txt"} <= new
    assert not new & {"x.log", "top", "a/y.txt", "a/out/z", "b/x.log", "a/.gitignore"}


def test_lengths_that_take_no_disk_are_bounded(laid: WorkTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "MOST_BYTES", 64 << 20)
    for number in range(5):
        with (laid.path / f"hole{number}").open("wb") as file:
            file.truncate(16 << 20)
    with pytest.raises(StateError, match="more than"):
        laid.tree()


def test_files_without_number_are_bounded(laid: WorkTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "MOST_FILES", 50)
    for number in range(60):
        (laid.path / f"f{number}").symlink_to("x")
    with pytest.raises(StateError, match="more than 50 files"):
        laid.tree()


@pytest.mark.parametrize("swapped", ["a folder", "a file"])
def test_what_is_swapped_for_a_link_while_it_is_read_shows_nothing_of_the_host(
    laid: WorkTree, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """What still runs in the sandbox may do so at any moment: here, just after it was looked at."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("swordfish")
    fresh = laid.path / "fresh"
    fresh.mkdir()
    (fresh / "key").write_text("mine")
    place, target = (fresh, secret) if swapped == "a folder" else (fresh / "key", secret / "key")
    scan = readback._scan

    def swap(folder: int, prefix: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        listed = list(scan(folder, prefix))
        if any(name == os.fsencode(place.name) for name, _ in listed) and not place.is_symlink():
            place.rename(laid.path / "aside")
            place.symlink_to(target)
        yield from listed

    monkeypatch.setattr(readback, "_scan", swap)
    try:
        tree = laid.tree()
    except StateError as error:
        assert "cannot be read back" in str(error)
        return
    assert place.is_symlink()
    assert all(repository.read(tree, path) != b"swordfish" for path in repository.files(tree))


def test_a_layout_is_closed_to_other_users(repository: Repository, base: str, tmp_path: Path, how: str) -> None:
    """An agent may leave a set-user-id program of ours in it; nobody else can come near it, and no state keeps it."""
    with lay_out(repository, base, repository.tree_of(base), tmp_path / "wt") as made:
        assert stat.S_IMODE((tmp_path / "wt").stat().st_mode) == 0o700
        (made.path / "run.sh").chmod(0o4777)
        assert repository.files(made.tree())["run.sh"][0] == "100755"


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o555])
def test_a_tree_without_rights_is_removed(laid: WorkTree, mode: int) -> None:
    deep = laid.path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "c").write_text("x")
    deep.chmod(mode)
    deep.parent.chmod(mode)
    laid.close()
    assert not laid.path.parent.exists()


def test_removing_never_leaves_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("safe")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    os.link(outside / "x", inside / "hard")
    folders.remove(inside)
    folders.remove(inside)
    assert not inside.exists()
    assert (outside / "x").read_text() == "safe"
    (tmp_path / "alias").symlink_to(outside)
    with pytest.raises((OSError, InputError)):
        folders.remove(tmp_path / "alias")
    assert (outside / "x").read_text() == "safe"


def test_a_walk_sees_each_thing_once(tmp_path: Path) -> None:
    """Also below what no path can name."""
    nest(tmp_path, 1_100)
    found = [(one.name, one.depth) for one in folders.walk(tmp_path)]
    assert len(found) == 1_101
    assert ("bottom", 1_100) in found
    folders.remove(tmp_path)
