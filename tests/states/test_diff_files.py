"""``git diff`` that goes into a file: git's own bytes, where the recording tells how many digits of an id it prints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from handoff.git.repositories import Repository
from handoff.states.shell.git_diff import digits_shown
from tests.states.shell_bed import Bed

EXACT = {
    "an edit": "echo x >> a.txt; git diff > ../f; cat ../f > f",
    "one file of two": "echo x >> a.txt; sed -i s/x/y/ src/b.py; git diff -- src/b.py > f",
    "a folder": "echo x >> a.txt; sed -i s/x/y/ src/b.py; git diff src > f",
    "no end of the last line": "printf 'x' >> nonl; git diff -- nonl > f",
    "modes": "chmod +x a.txt; chmod -x run.sh; git diff > f",
    "a file that is gone": "rm a.txt; git diff > f",
    "a file that is new": "echo x > new.txt; git add new.txt; git diff --cached > f; git diff HEAD > g; git diff > h",
    "index and work tree": "echo x > a.txt; git add a.txt; echo y > a.txt; git diff > f; git diff --staged > g",
    "against HEAD": "echo x > a.txt; git add a.txt; echo y > a.txt; git diff HEAD -- a.txt > f",
    "bytes that are no text": "printf '\\0z' > bin.dat; git diff > f",
    "where a link leads": "ln -sfn nonl link; git diff > f",
    "nothing": "git diff > f",
    "to be applied again": "echo x >> a.txt; git diff > ../p; git checkout a.txt; git apply ../p",
    "in a pipe": "echo x >> a.txt; git diff | tee f | head -2 > g",
}
UNTOLD = {
    "a rename": "git mv a.txt c.txt; git diff --cached > f",
    "figures": "echo x >> a.txt; git diff --stat > f",
    "another algorithm": "echo x >> a.txt; git diff --patience > f",
    "an attribute": "echo '*.txt diff=x' > .gitattributes; echo x >> a.txt; git diff > f",
    "a file that is not known": "sort a.txt > a.txt; git diff > f",
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if not shutil.which("bash") or not shutil.which("git"):
        pytest.skip("needs bash and git")
    made = Bed(tmp_path_factory.mktemp("diffs") / "root")
    yield made
    made.close()


@pytest.mark.parametrize("name", sorted(EXACT))
def test_a_diff_is_gits_own(bed: Bed, name: str) -> None:
    verdict = bed.compare([EXACT[name]], with_codes=True)
    assert (verdict.wrong, verdict.unknown) == ([], 0)


@pytest.mark.parametrize("name", sorted(UNTOLD))
def test_another_diff_is_not_guessed(bed: Bed, name: str) -> None:
    verdict = bed.compare([UNTOLD[name]], with_codes=True)
    assert not verdict.wrong and verdict.unknown


def test_the_digits_are_those_of_files_of_the_run(repository: Repository, base: str) -> None:
    """A diff of anything else, or two that disagree, tell nothing."""
    tree = repository.tree_of(base)
    entry = repository.entry(tree, "README.md")
    assert entry is not None

    def shown(digits: int, id_: str = entry[1], path: str = "README.md") -> str:
        return f"diff --git a/{path} b/{path}\nindex {id_[:digits]}..{'ab' * 20:.{digits}} 100644\n--- a/{path}\n"

    assert digits_shown(["", shown(9)], repository, tree) == 9
    assert digits_shown([shown(9), shown(7)], repository, tree) is None
    assert digits_shown([shown(9, "cd" * 20)], repository, tree) is None
    assert digits_shown([shown(9, path="other.md")], repository, tree) is None
    assert digits_shown([], repository, tree) is None
