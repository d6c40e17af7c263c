"""The bench where mirrors are not whole, and where the sandbox cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.errors import InputError, SandboxError
from handoff.git.repositories import Repositories, run_git
from handoff.instances.reading import Answer
from handoff.judging.bench import Bench
from handoff.judging.settings import TestRule
from handoff.sandbox import python_paths
from handoff.workplace import Surroundings, shown_folders
from tests.states.histories import Made, make

PLAIN = Surroundings(programs=tuple(str(path) for path in python_paths()))
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-VALUE = 0\n+VALUE = 1\n"
TEST_PATCH = """\
--- /dev/null
+++ b/test_x.py
@@ -0,0 +1,5 @@
+from x import VALUE
+def test_a():
+    assert VALUE
+def test_b():
+    pass
"""
ANSWER = Answer(
    instance_id="o__x-1",
    patch=PATCH,
    test_patch=TEST_PATCH,
    fail_to_pass=("test_x.py::test_a",),
    pass_to_pass=("test_x.py::test_b",),
)


@pytest.fixture
def source(tmp_path: Path) -> tuple[Path, list[str]]:
    """A repository whose history holds files that its base no longer has."""
    place = tmp_path / "source.git"
    commits = [
        Made({b"old.bin": ("100644", bytes(range(256)) * 40), b"x.py": ("100644", b"VALUE = 0\n")}),
        Made({b"old.bin": None, b"README": ("100644", b"x\n")}),
    ]
    made = make(place, commits, {"main": 1})
    run_git("--git-dir", place, "config", "uploadpack.allowFilter", "true")
    run_git("--git-dir", place, "config", "uploadpack.allowAnySHA1InWant", "true")
    return place, made


@pytest.mark.slow
def test_a_partial_clone_is_judged(tmp_path: Path, source: tuple[Path, list[str]], bubblewrap: None) -> None:
    """As mirrors from a URL are: the content of files comes when it is needed."""
    place, commits = source
    with Repositories(tmp_path / "git", {"o/x": f"file://{place}"}) as repositories:
        repository = repositories.open("o/x", commits[1])
        assert repository.is_partial
        bench = Bench(
            sealed=tmp_path / "sealed",
            repository=repository,
            base_commit=commits[1],
            answer=ANSWER,
            rule=TestRule(),
            surroundings=PLAIN,
        )
        base = repository.tree_of(commits[1])
        assert (bench.judge(base).verdict.solved, bench.judge(base).state) == (False, "needs_completion")
        mended = repository.write_tree(base, {"x.py": b"VALUE = 2\n"})
        assert bench.judge(mended).verdict.solved is True
        assert bench.judge(None).verdict.solved is False and bench.judge(None).state == "invalid"
        exact = repository.write_tree(base, {"x.py": b"VALUE = 1\n"})
        assert bench.destroyed(exact, base).value == 1
        assert bench.destroyed(base, mended).value == 0


@pytest.mark.parametrize("sandbox", ["host", "nowhere"])
def test_nothing_runs_where_no_sandbox_is(tmp_path: Path, source: tuple[Path, list[str]], sandbox: str) -> None:
    place, commits = source
    with Repositories(tmp_path / "git", {"o/x": str(place)}) as repositories:
        repository = repositories.open("o/x", commits[1])
        bench = Bench(
            sealed=tmp_path / "sealed",
            repository=repository,
            base_commit=commits[1],
            answer=ANSWER,
            rule=TestRule(),
            surroundings=Surroundings(sandbox=sandbox),
        )
        with pytest.raises((InputError, SandboxError)):
            bench.judge(repository.tree_of(commits[1]))
    assert not list((tmp_path / "sealed" / "layouts").iterdir())


def test_the_folder_of_an_interpreter_is_shown_with_its_environment(tmp_path: Path) -> None:
    home = tmp_path / "py"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3.11").touch()
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(home / "bin" / "python3.11")
    assert shown_folders([str(tmp_path / "venv")]) == (tmp_path / "venv", home)
    with pytest.raises(InputError, match="there is no folder"):
        shown_folders([str(tmp_path / "none")])
