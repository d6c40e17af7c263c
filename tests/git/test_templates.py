"""Templates of bases are shared, bounded on disk, never taken from under a layout, and whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handoff.errors import StateError
from handoff.git import templates
from handoff.git.repositories import Repository
from handoff.git.templates import take_template, trim
from handoff.git.worktree import lay_out
from tests.states.conftest import FILES, commit

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bases(repository: Repository, base: str) -> list[str]:
    found = [base]
    for number in range(3):
        found.append(commit(repository.git_dir, {**FILES, "n": bytes([number]) * 9000}, f"{number}", parent=found[-1]))
    return found


def made(repository: Repository) -> set[str]:
    return {path.name for path in (repository.git_dir / "handoff-templates").iterdir() if path.is_dir()}


def used(repository: Repository, base: str, at: int) -> None:
    """Make and let go; last used at a moment that is given."""
    take_template(repository, base).close()
    os.utime(repository.git_dir / "handoff-templates" / f"{base}.lock", (at, at))


def test_the_longest_unused_go_first(repository: Repository, bases: list[str]) -> None:
    for base, at in zip(bases, (30, 10, 40, 20), strict=True):
        used(repository, base, at)
    root = repository.git_dir.parent
    each = trim(root, 10**12) // 4
    assert trim(root, 3 * each + each // 2) <= 3 * each + each // 2 and made(repository) == set(bases) - {bases[1]}
    trim(root, 2 * each + each // 2)
    assert made(repository) == {bases[0], bases[2]}
    trim(root, 0)
    assert made(repository) == set()


def test_a_template_in_use_is_never_removed(repository: Repository, bases: list[str], tmp_path: Path) -> None:
    tree = repository.tree_of(bases[0])
    with lay_out(repository, bases[0], tree, tmp_path / "wt") as laid:
        used(repository, bases[1], 10)
        trim(repository.git_dir.parent, 0)
        assert made(repository) == {bases[0]} and laid.tree() == tree
    trim(repository.git_dir.parent, 0)
    assert made(repository) == set()


def test_another_process_holds_what_it_uses(repository: Repository, bases: list[str]) -> None:
    program = (
        "import sys, pathlib\nfrom handoff.git.repositories import Repository\n"
        "from handoff.git.templates import take_template\n"
        "held = take_template(Repository(pathlib.Path(sys.argv[1])), sys.argv[2])\nprint('held', flush=True)\ninput()"
    )
    command = [sys.executable, "-c", program, str(repository.git_dir), bases[0]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        trim(repository.git_dir.parent, 0)
        assert made(repository) == {bases[0]}
        holder.kill()  # and lets go by dying
        holder.wait()
    trim(repository.git_dir.parent, 0)
    assert made(repository) == set()


def test_a_new_template_makes_room_for_itself(repository: Repository, bases: list[str], tmp_path: Path) -> None:
    repository.kept_bytes = 1
    for base in bases:
        lay_out(repository, base, repository.tree_of(base), tmp_path / "wt").close()
    assert made(repository) == {bases[-1]}


def test_a_template_that_was_removed_is_made_again(repository: Repository, base: str, tmp_path: Path) -> None:
    for _ in range(2):
        with lay_out(repository, base, repository.tree_of(base), tmp_path / "wt") as laid:
            assert laid.tree() == repository.tree_of(base)
        trim(repository.git_dir.parent, 0)


def test_what_killed_makers_and_removers_left_goes(repository: Repository, bases: list[str]) -> None:
    take_template(repository, bases[0]).close()
    folder = repository.git_dir / "handoff-templates"
    for name in (f".{bases[1]}.partial", f".{bases[2]}.evicted"):
        (folder / name / "repo").mkdir(parents=True)
    (folder / f"{bases[3]}.lock").touch()  # killed between the lock and the checkout
    take_template(repository, bases[1]).close()
    assert made(repository) == {bases[0], bases[1]}
    take_template(repository, bases[3]).close()
    assert bases[3] in made(repository)


_LAYER = """
import sys
from pathlib import Path
from handoff.git.repositories import Repository
from handoff.git.worktree import lay_out
git_dir, place, *bases = sys.argv[1:]
with Repository(Path(git_dir), kept_bytes=1) as repository:
    for base in bases * 4:
        tree = repository.tree_of(base)
        with lay_out(repository, base, tree, Path(place)) as laid:
            assert laid.tree() == tree and (laid.path / ".git/HEAD").is_file() and (laid.path / "README.md").is_file()
"""


def test_many_that_lay_out_and_make_room_do_not_disturb_each_other(
    repository: Repository, bases: list[str], tmp_path: Path
) -> None:
    """Each removes what the others do not hold, so that templates are made and removed all the time."""
    command = [sys.executable, "-c", _LAYER, str(repository.git_dir)]
    running = [
        subprocess.Popen([*command, str(tmp_path / f"wt{n}"), *bases[n:], *bases[:n]], cwd=ROOT, stderr=subprocess.PIPE)
        for n in range(3)
    ]
    for process in running:
        _, said = process.communicate()
        assert process.returncode == 0, said.decode()[-2000:]


def test_an_unsafe_base_leaves_nothing(
    repository: Repository, base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise StateError("no")

    monkeypatch.setattr(templates, "_make_git", refuse)
    with pytest.raises(StateError):
        lay_out(repository, base, repository.tree_of(base), tmp_path / "wt")
    monkeypatch.undo()
    with lay_out(repository, base, repository.tree_of(base), tmp_path / "wt") as laid:
        assert laid.tree() == repository.tree_of(base)
