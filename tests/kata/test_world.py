"""The generated world and its git store."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from handoff.git.repository import Repository
from handoff.kata import store, templates
from handoff.kata.mutations import functions
from handoff.kata.world import World, generate, generate_task

ROOT = Path(__file__).resolve().parents[2]


def test_a_task_depends_on_seed_split_and_number_only(world: World) -> None:
    """More tasks change none of the others."""
    assert generate(3, 1, 1, 0).tasks == (world.tasks[0], world.tasks[3])
    assert generate_task(3, "test", 0) == world.of("test")[0]
    assert generate_task(4, "test", 0) != world.of("test")[0]


def test_bugs_and_fixes_are_inverse(world: World) -> None:
    """Applying all fixes to the buggy files and all bugs to the fixed ones gives the files again."""
    for task in world.tasks:
        assert 2 <= len(task.bugs) <= 4
        fixed = {**task.files, **task.reference}
        for bug in task.bugs:
            fixed[bug.path] = bug.apply(fixed[bug.path])
        assert fixed == task.files


def test_held_out_repositories_share_no_function_with_training(world: World) -> None:
    """Validation and test use templates that training never saw, by name and by body."""
    train, held = templates.TRAIN, templates.HELD_OUT
    assert not {t.name for t in train} & {t.name for t in held}
    assert not {(t.kind, t.body) for t in train} & {(t.kind, t.body) for t in held}
    names = {
        name
        for path, text in world.of("test")[0].files.items()
        if path.endswith(".py") and not path.startswith("tests/") and not path.endswith("flows.py")
        for name, _, _ in functions(text)
    }
    assert names <= {t.name for t in held}


def test_the_statement_names_no_place_of_a_bug(world: World) -> None:
    """Users report features; which function is wrong has to be found."""
    for task in world.tasks:
        for bug in task.bugs:
            assert bug.path not in task.statement


def test_git_agrees_with_our_object_ids(world: World, tmp_path: Path) -> None:
    """Commits are root commits with the ids we compute; writing again changes nothing."""
    git_dir = tmp_path / "kata.git"
    store.write_repositories(world, git_dir)
    refs = store.git(git_dir, "for-each-ref", "--format=%(refname:strip=2) %(objectname)")
    store.write_repositories(world, git_dir)
    assert store.git(git_dir, "for-each-ref", "--format=%(refname:strip=2) %(objectname)") == refs
    assert dict(line.split() for line in refs.decode().splitlines()) == {
        task.name: store.base_commit(task) for task in world.tasks
    }
    task = world.tasks[0]
    assert store.git(git_dir, "rev-list", "--count", task.name).strip() == b"1"
    changed = {**task.files, **task.reference, "new/deep/näme.txt": "ä\r\n\0"}
    tree = store.write_tree(git_dir, changed)
    with Repository(git_dir) as repository:
        assert store.read_tree(repository, tree) == dict(sorted(changed.items()))
    store.git(git_dir, "fsck", "--strict")


def test_the_reference_patch_applies_with_git(world: World, tmp_path: Path) -> None:
    """The sealed patch is one that git accepts, and leads to the reference files."""
    task = world.tasks[0]
    for path, text in task.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=task.reference_patch.encode(), check=True)
    assert {path: (tmp_path / path).read_text() for path in task.reference} == task.reference


_PROGRAM = """
import hashlib
from handoff.identity import canonical_json
from handoff.kata.record import fit_prior
from handoff.kata.world import generate
world = generate(5, 2, 1, 1)
print(hashlib.sha256(canonical_json(world)).hexdigest(), fit_prior(world).digest)
"""


def test_the_world_does_not_depend_on_the_hash_seed() -> None:
    """Two interpreters with different hash seeds make the same bytes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_threads_that_write_the_same_tree_at_once_do_not_meet(tmp_path: Path) -> None:
    """Takeovers on endpoints run on threads of one process, and often end in the same state."""
    store.write_repositories(World(seed=0, tasks=()), tmp_path / "kata.git")
    files = {f"module_{n}.py": f"x = {n}\n" * 200 for n in range(40)}
    barrier = threading.Barrier(8)

    def write(_: int) -> str:
        barrier.wait()
        return store.write_tree(tmp_path / "kata.git", files)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(write, range(8))) == {store.tree_id(files)}
    with Repository(tmp_path / "kata.git") as repository:
        assert store.read_tree(repository, store.tree_id(files)) == files
    assert not list((tmp_path / "kata.git" / "objects").rglob("tmp_obj_*"))
