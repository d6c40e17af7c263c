"""Submodules and LFS pointers of a tree are stated, as git sees them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.git.objects import write_loose
from handoff.git.repositories import Repository, git_environment
from handoff.git.unheld import Submodule, Unheld, unheld
from handoff.git.worktree import lay_out

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"
MODULES = b"""[submodule "vendor/lib"]
\tpath = vendor/lib
\turl = https://example.invalid/lib.git
[submodule "odd"]
\turl = "../odd"
\tpath = odd name
"""


def tree_with(repository: Repository, files: dict[str, bytes], submodules: dict[str, str] | None = None) -> str:
    entries: dict[str, tuple[str, str] | None] = {
        path: ("100644", write_loose(repository.git_dir, "blob", data)) for path, data in files.items()
    }
    entries.update({path: ("160000", id_) for path, id_ in (submodules or {}).items()})
    return repository.write_entries("4b825dc642cb6eb9a060e54bf8d69288fbee4904", entries)


def test_submodules_are_listed_with_their_urls(repository: Repository) -> None:
    links = {"vendor/lib": "d" * 40, "odd name": "e" * 40, "unnamed": "f" * 40}
    tree = tree_with(repository, {".gitmodules": MODULES}, links)
    assert unheld(repository, tree).submodules == (
        Submodule("odd name", "e" * 40, "../odd"),
        Submodule("unnamed", "f" * 40, None),
        Submodule("vendor/lib", "d" * 40, "https://example.invalid/lib.git"),
    )


def test_pointers_count_where_the_attributes_say_lfs(repository: Repository) -> None:
    tree = tree_with(
        repository,
        {
            ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n/data/** filter=lfs\ndata/own.txt -filter\n",
            "a.bin": POINTER,
            "deep/b.bin": POINTER,
            "checked-in.bin": b"not a pointer\n",
            "note.md": POINTER,
            "data/x/y": POINTER,
            "data/own.txt": POINTER,
            "sub/.gitattributes": b"*.bin !filter\n",
            "sub/c.bin": POINTER,
        },
    )
    assert unheld(repository, tree).lfs_pointers == ("a.bin", "data/x/y", "deep/b.bin")


def test_a_layout_says_what_it_does_not_hold(repository: Repository, base: str, tmp_path: Path) -> None:
    tree = tree_with(repository, {".gitattributes": b"*.bin filter=lfs\n", "a.bin": POINTER}, {"lib": "d" * 40})
    with lay_out(repository, base, tree, tmp_path / "wt") as laid:
        assert laid.unheld == Unheld((Submodule("lib", "d" * 40, None),), ("a.bin",))
        assert (laid.path / "a.bin").read_bytes() == POINTER and list((laid.path / "lib").iterdir()) == []


PATTERN = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?", "[ab]", "*.b"]), min_size=1, max_size=3)
PLACE = st.lists(st.sampled_from(["a", "b", "ab", "a.b"]), min_size=1, max_size=3)


@given(pattern=PATTERN, is_rooted=st.booleans(), paths=st.lists(PLACE, min_size=1, max_size=6))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_patterns_match_as_in_git(
    repository: Repository, tmp_path: Path, pattern: list[str], is_rooted: bool, paths: list[list[str]]
) -> None:
    line = ("/" if is_rooted else "") + "/".join(pattern)
    names = sorted({"/".join(["d", *path]) + ".f" for path in paths})
    tree = tree_with(repository, {".gitattributes": f"{line} filter=lfs\n".encode(), **dict.fromkeys(names, POINTER)})
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True, exist_ok=True)
    (work / ".gitattributes").write_text(f"{line} filter=lfs\n")
    told = subprocess.run(
        [
            "git",
            "--git-dir",
            repository.git_dir,
            "--work-tree",
            work,
            "-c",
            "core.bare=false",
            "check-attr",
            "filter",
            *names,
        ],
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
        env=git_environment(),
    ).stdout
    wanted = tuple(said.split(": ")[0] for said in told.splitlines() if said.endswith(": lfs"))
    assert unheld(repository, tree).lfs_pointers == wanted


@pytest.mark.parametrize(
    "attributes",
    [
        b"/".join([b"**"] * 60) + b"/x filter=lfs\n",
        b"*a" * 40 + b"b filter=lfs\n",
        b"\xff\0[[[ filter=lfs\n",
        b"[attr]x filter=lfs\n",
    ],
)
def test_hostile_attributes_cost_little(repository: Repository, attributes: bytes) -> None:
    deep = "/".join(["a" * 60] * 60)
    tree = tree_with(repository, {".gitattributes": attributes, f"{deep}/y": POINTER})
    began = time.process_time()
    assert unheld(repository, tree).lfs_pointers == ()
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "modules",
    [
        b"[submodule",
        b"\xff\xfe",
        b"path = x\nurl = y\n" * 9,
        b'[submodule "' + b"\\" * 50_000,
        b"path = " + b" " * 300_000 + b"x",
    ],
)
def test_hostile_modules_are_survived(repository: Repository, modules: bytes) -> None:
    tree = tree_with(repository, {".gitmodules": modules}, {"lib": "d" * 40})
    assert [found.path for found in unheld(repository, tree).submodules] == ["lib"]
