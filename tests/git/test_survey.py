"""The doctor says which mirrors there are, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.doctor import examine
from handoff.git.importer import Chain, write_chains
from handoff.git.repositories import Repositories, Repository, run_git
from handoff.git.survey import survey
from handoff.git.worktree import lay_out


@pytest.fixture
def data(repository: Repository, base: str, tmp_path: Path) -> Path:
    """A data folder with one mirror that was used."""
    with Repositories(tmp_path / "data" / "git", {"o/pager": repository.git_dir}) as repositories:
        mirror = repositories.open("o/pager", base)
        write_chains(mirror, [Chain("t_a", base, [{"a": ("100644", b"1")}])])
        lay_out(mirror, base, mirror.tree_of(base), tmp_path / "wt").close()
    return tmp_path / "data"


def told(data: Path) -> dict[str, tuple[str, str]]:
    return {f.what: (f.state, f.detail) for f in examine(data, {}) if "mirror" in f.what}


def test_a_sound_mirror_is_described(data: Path) -> None:
    (mirror,) = survey(data / "git")
    assert (mirror.name, mirror.packs, mirror.own_packs, mirror.loose) == ("o__pager", 1, 1, 10)
    assert mirror.size > 0 and mirror.templates > 0 and not mirror.is_partial and mirror.problems == ()
    state, detail = told(data)["mirror o__pager"]
    assert state == "ok" and "packs: 1 (1 of states), loose objects: 10" in detail and "checkouts" in detail


def _not_a_repository(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def _no_index(mirror: Path) -> None:
    for path in (mirror / "objects/pack").glob("*.idx"):
        path.unlink()


def _dangling_branch(mirror: Path) -> None:
    (mirror / "refs/heads").mkdir(parents=True, exist_ok=True)
    (mirror / "refs/heads/gone").write_text("d" * 40 + "\n")


def _borrowing(mirror: Path) -> None:
    (mirror / "objects/info/alternates").parent.mkdir(exist_ok=True)
    (mirror / "objects/info/alternates").write_text("/nowhere/objects\n")


def _no_history(mirror: Path) -> None:
    for ref in run_git("--git-dir", mirror, "for-each-ref", "--format=%(refname)").decode().split():
        run_git("--git-dir", mirror, "update-ref", "-d", ref)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (_not_a_repository, "does not take it for a repository"),
        (_no_index, "without an index"),
        (_dangling_branch, "that are not there"),
        (_borrowing, "borrows"),
        (_no_history, "no branch or tag"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_mirror_with_a_problem_is_described_with_a_remedy(data: Path, damage: object, word: str) -> None:
    assert callable(damage)
    damage(data / "git" / "o__pager.git")
    state, detail = told(data)["mirror o__pager"]
    assert state == "limited" and word in detail


def test_many_mirrors_are_summed_up(data: Path) -> None:
    for number in range(15):
        run_git(
            "clone", "--quiet", "--mirror", "--template=", data / "git/o__pager.git", data / f"git/x{number:02}.git"
        )
    listed = told(data)
    assert len(listed) == 11 and listed["other mirrors"][1].startswith("6 with ")


def test_a_folder_without_mirrors_has_none(tmp_path: Path) -> None:
    assert list(survey(tmp_path / "nothing")) == [] and told(tmp_path) == {}
