"""Instance files say where a task begins; their answers stay sealed; their rows are hostile input like any other."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.errors import InputError, RecordError, StateError
from handoff.git.repositories import Repository
from handoff.git.worktree import lay_out
from handoff.instances.answers import load_answers, with_reference, with_tests, write_answers
from handoff.instances.reading import Answer, Instance, contradiction, named_base, read_answers, read_instances
from tests.states.conftest import FILES, commit

BASE = "1f" * 20
TEST_PATCH = "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-assert 1\n+assert 2\n"
ROW: dict[str, Any] = {
    "instance_id": "o__pager-7",
    "repo": "o/pager",
    "base_commit": BASE,
    "version": "2.1",
    "patch": "GOLD",
    "test_patch": "TESTS",
    "problem_statement": "Fix it.",
    "hints_text": "HINT",
    "FAIL_TO_PASS": '["tests/test_a.py::test_b"]',
    "PASS_TO_PASS": "[]",
    "environment_setup_commit": "2e" * 20,
}
MULTI: dict[str, Any] = {
    "org": "o",
    "repo": "pager",
    "number": 7,
    "base": {"label": "o:main", "ref": "main", "sha": BASE},
    "fix_patch": "GOLD",
    "test_patch": "TESTS",
    "f2p_tests": {"tests/test_a.py::test_b": {"run": "NONE"}},
    "p2p_tests": {"never": None},
    "fix_patch_result": {"passed_count": 1},
}
PRO = {key.lower(): value for key, value in ROW.items()}
GYM = {**ROW, "FAIL_TO_PASS": ["tests/test_a.py::test_b"], "PASS_TO_PASS": []}
POLY = {**{k: v for k, v in ROW.items() if "_TO_" not in k}, "F2P": ["tests/test_a.py::test_b"], "P2P": []}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_lines(path: Path, row: Any) -> Path:
    return lines(path / "i.jsonl", row, {**row, "instance_id": "o__other-1"})


def as_array(path: Path, row: Any) -> Path:
    (path / "i.json").write_text(json.dumps([row], indent=2))
    return path / "i.json"


def as_object(path: Path, row: Any) -> Path:
    (path / "i.json").write_text(json.dumps({"o__pager-7": {k: v for k, v in row.items() if k != "instance_id"}}))
    return path / "i.json"


def as_server_rows(path: Path, row: Any) -> Path:
    (path / "i.json").write_text(json.dumps({"features": [], "rows": [{"row_idx": 0, "row": row}]}))
    return path / "i.json"


def as_gzip(path: Path, row: Any) -> Path:
    (path / "i.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode() + b"\n"))
    return path / "i.jsonl.gz"


def as_parquet(path: Path, row: Any) -> Path:
    pq.write_table(pa.Table.from_pylist([row]), path / "i.parquet")
    return path / "i.parquet"


def as_folder(path: Path, row: Any) -> Path:
    (path / "set" / "data").mkdir(parents=True)
    as_parquet(path / "set" / "data", row)
    (path / "set" / "README.md").write_text("A set.")
    return path / "set"


SHAPES: tuple[Callable[[Path, Any], Path], ...] = (
    *(as_lines, as_array, as_object, as_server_rows, as_gzip, as_parquet, as_folder),
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("row", [ROW, MULTI, PRO, GYM, POLY], ids=["bench", "multi", "pro", "gym", "poly"])
def test_instances_are_read_as_people_have_them(
    tmp_path: Path, shape: Callable[[Path, Any], Path], row: dict[str, Any]
) -> None:
    read = read_instances([shape(tmp_path, row)], {"o__pager-7"})
    assert read.problems == ()
    found = read.by_id["o__pager-7"]
    assert (found.repo, found.base_commit) == ("o/pager", BASE)
    answers = read_answers(list(tmp_path.rglob("i.*")), {"o__pager-7"})
    assert answers["o__pager-7"] == Answer(
        instance_id="o__pager-7", patch="GOLD", test_patch="TESTS", fail_to_pass=("tests/test_a.py::test_b",)
    )


def test_what_a_run_may_know_holds_nothing_of_the_answer(tmp_path: Path) -> None:
    known = read_instances([lines(tmp_path / "i.jsonl", ROW)]).by_id["o__pager-7"]
    assert known == Instance(
        instance_id="o__pager-7",
        repo="o/pager",
        base_commit=BASE,
        environment_setup_commit="2e" * 20,
        version="2.1",
        file="i.jsonl",
    )


def test_the_patch_of_smith_is_the_planted_bug(tmp_path: Path) -> None:
    row = {
        "instance_id": "oauthlib__oauthlib.1fd52536.combine_file__0fceycuu",
        "repo": "swesmith/oauthlib__oauthlib.1fd52536",
        "patch": "BUG",
        "FAIL_TO_PASS": ["t"],
        "image_name": "x",
    }
    file = lines(tmp_path / "i.jsonl", row)
    answer = read_answers([file], {row["instance_id"]})[str(row["instance_id"])]
    assert (answer.patch, answer.planted, answer.fail_to_pass) == ("", "BUG", ("t",))
    assert read_instances([file]).by_id[str(row["instance_id"])].base_commit is None


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"install_config": {"test_cmd": "pytest -rA"}}, "pytest -rA {files}"),
        ({"install_config": json.dumps({"test_cmd": ["make", "make test"]})}, "make\nmake test"),
        ({"test_cmds": ["pytest -rA"]}, "pytest -rA"),
        ({"test_command": "npm test"}, "npm test"),
        ({"test_cmd": "", "install_config": None}, ""),
        ({"install_config": "[" * 9999, "test_cmd": ["a", 1], "test_command": "x\0y", "test_cmds": {"a": 1}}, ""),
    ],
)
def test_how_tests_are_run_is_the_judges_to_know(tmp_path: Path, fields: dict[str, Any], command: str) -> None:
    file = lines(tmp_path / "i.jsonl", {**ROW, **fields})
    assert read_answers([file], {"o__pager-7"})["o__pager-7"].command == command
    assert read_instances([file]).problems == ()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest", True),
        ("ghcr.io:443/o/Name@sha256:" + "a" * 64, True),
        ("--privileged", False),
        ("/bin/sh", False),
        ("a b", False),
        ("a\n", False),
        ("", False),
        (7, False),
        ("x" * 500, False),
    ],
)
def test_an_image_is_a_name_and_no_option(tmp_path: Path, name: Any, is_one: bool) -> None:
    for field in ("image_name", "docker_image"):
        found = read_instances([lines(tmp_path / "i.jsonl", {**ROW, field: name})]).by_id["o__pager-7"]
        assert found.image == (name if is_one else None)


def test_several_tries_of_an_instance_are_one_task(tmp_path: Path) -> None:
    """Runs carry the task's id without the number of the try (``values.task_of``), and so do rows."""
    read = read_instances([lines(tmp_path / "i.jsonl", {**ROW, "instance_id": "o__pager-7_3"})], {"o__pager-7"})
    assert read.by_id["o__pager-7"].base_commit == BASE


def test_an_id_with_two_meanings_is_not_used(tmp_path: Path) -> None:
    files = [
        lines(tmp_path / "a.jsonl", ROW, {**ROW, "instance_id": "o__pager-8"}),
        lines(tmp_path / "b.jsonl", {**ROW, "base_commit": "3d" * 20}, {**ROW, "instance_id": "o__pager-8"}),
    ]
    read = read_instances(files)
    assert sorted(read.by_id) == ["o__pager-8"]
    (problem,) = read.problems
    assert "a.jsonl" in str(problem) and problem.remedy


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    for place in (tmp_path / "no.jsonl", tmp_path):
        with pytest.raises(InputError, match="name a JSON lines"):
            read_instances([place])


# -- hostile rows ---------------------------------------------------------------------------------

HOSTILE: tuple[dict[str, Any], ...] = (
    {"instance_id": 7},
    {"instance_id": None, "repo": "o/r"},
    {"instance_id": "x" * 10_000},
    {"instance_id": "a\x1b[2Jb"},
    {"instance_id": "a", "repo": ["o/r"]},
    {"instance_id": "a", "repo": "../.."},
    {"instance_id": "a", "repo": {"a": 1}},
    {"instance_id": "a", "base_commit": [BASE], "repo": 1},
)


@pytest.mark.parametrize("row", HOSTILE, ids=range(len(HOSTILE)))
def test_a_row_that_cannot_be_used_stops_no_other(tmp_path: Path, row: dict[str, Any]) -> None:
    read = read_instances([lines(tmp_path / "i.jsonl", row, ROW)])
    assert sorted(read.by_id) == ["o__pager-7"]
    (problem,) = read.problems
    assert (problem.record, problem.file.endswith("i.jsonl"), bool(problem.remedy)) == (1, True, True)


@pytest.mark.parametrize(
    "commit", ["main", "HEAD", "--upload-pack=x", "refs/heads/x", "1f2e; rm -rf", "z" * 40, 17, ""]
)
def test_what_is_no_commit_pins_nothing(tmp_path: Path, commit: Any) -> None:
    assert (
        read_instances([lines(tmp_path / "i.jsonl", {**ROW, "base_commit": commit})]).by_id["o__pager-7"].base_commit
        is None
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**70) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "instance_id",
    "repo",
    "org",
    "number",
    "base_commit",
    "base",
    "version",
    "patch",
    "test_patch",
    "FAIL_TO_PASS",
    "f2p_tests",
)


@given(rows=st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), max_size=4), as_list=st.booleans())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_gives_instances_or_reasons(tmp_path: Path, rows: list[dict[str, Any]], as_list: bool) -> None:
    path = tmp_path / "i.json"
    path.write_text(json.dumps(rows) if as_list else "\n".join(map(json.dumps, rows)))
    read = read_instances([path])
    assert all(isinstance(problem, RecordError) and problem.remedy for problem in read.problems)
    assert all(len(found.base_commit or "") in (0, *range(7, 41)) for found in read.by_id.values())
    read_answers([path], set(read.by_id))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"no json", b'{"instance_id": "a"', b'{"instance_id": 1e999}\n{}', b"[1, 2]", b"\xff\xfe\0"),
        *(b'"a"\n"b"\n', b"[" * 9999, b'{"a": ' * 9999),
    ],
    ids=range(9),
)
def test_a_file_that_is_no_json_gives_reasons_or_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "i.json").write_bytes(data)
    read = read_instances([tmp_path / "i.json", lines(tmp_path / "j.jsonl", ROW)])
    assert sorted(read.by_id) == ["o__pager-7"]
    assert all(problem.remedy for problem in read.problems)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 100, b"\0" * 4096])
def test_a_damaged_parquet_file_is_a_problem(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "i.parquet").write_bytes(data)
    read = read_instances([tmp_path / "i.parquet", lines(tmp_path / "i.jsonl", ROW)])
    assert sorted(read.by_id) == ["o__pager-7"] and len(read.problems) == 1


# -- what it has to do with a recording -----------------------------------------------------------


def test_a_base_is_named_only_for_its_own_repository() -> None:
    known = Instance(instance_id="o__pager-7", repo="o/pager", base_commit=BASE, file="i.jsonl")
    for repo in (None, "o/pager", "https://github.com/O/Pager.git"):
        base = named_base(known, repo)
        assert base is not None and base.commit == BASE and "i.jsonl" in base.evidence
    assert named_base(known, "o/other") is None


def test_contradictions_are_worded() -> None:
    known = Instance(instance_id="o__pager-7", repo="o/pager", base_commit=BASE, file="i.jsonl")
    assert contradiction(known, "o/pager", BASE[:9]) is None
    assert contradiction(known, None, None) is None
    assert "'o/other'" in str(contradiction(known, "o/other", None))
    assert "begins at 1f1f1f1f1f1f" in str(contradiction(known, "o/pager", "3d" * 20))


# -- the judge ------------------------------------------------------------------------------------

TESTED = {**FILES, "tests/test_a.py": b"assert 1\n"}


@pytest.fixture
def tested(repository: Repository) -> str:
    return commit(repository.git_dir, TESTED, "Tested")


def answer(test_patch: str) -> Answer:
    return Answer(instance_id="o__pager-7", test_patch=test_patch)


def test_the_judge_sees_the_tests_and_the_work(repository: Repository, tested: str, tmp_path: Path) -> None:
    """Whatever the successor did to a test file, the judge has the task's; its other work stays."""
    own = {"tests/test_a.py": b"assert True\n", "src/pager.py": b"mended\n", "tests/test_new.py": b"mine\n"}
    state = repository.write_tree(repository.tree_of(tested), own)
    new = "--- /dev/null\n+++ b/tests/test_new.py\n@@ -0,0 +1 @@\n+theirs\n"
    judged = with_tests(tmp_path / "sealed", repository, tested, state, answer(TEST_PATCH + new))
    with judged.repository as store:
        assert store.read(judged.tree, "tests/test_a.py") == b"assert 2\n"
        assert store.read(judged.tree, "tests/test_new.py") == b"theirs\n"
        assert store.read(judged.tree, "src/pager.py") == b"mended\n"
        blob = store.entry(judged.tree, "tests/test_a.py")
    assert blob is not None and repository.lacking([judged.tree, blob[1]]) == [judged.tree, blob[1]]


def test_the_judges_tree_can_be_laid_out(repository: Repository, tested: str, tmp_path: Path) -> None:
    judged = with_tests(tmp_path / "sealed", repository, tested, repository.tree_of(tested), answer(TEST_PATCH))
    with judged.repository, lay_out(judged.repository, tested, judged.tree, tmp_path / "wt") as laid:
        assert (laid.path / "tests/test_a.py").read_bytes() == b"assert 2\n"
        assert (laid.path / "src/pager.py").read_bytes() == FILES["src/pager.py"]


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-other\n+assert 2\n",
        "--- a/../../x\n+++ b/../../x\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n",
        "no patch at all",
        "\0\0",
    ],
    ids=["misfit", "climbs", "git", "none", "nul"],
)
def test_a_test_patch_that_does_not_fit_is_refused(
    repository: Repository, tested: str, tmp_path: Path, patch: str
) -> None:
    with pytest.raises(StateError, match="o__pager-7"):
        with_tests(tmp_path / "sealed", repository, tested, repository.tree_of(tested), answer(patch))
    assert not (tmp_path / "x").exists()


def test_files_that_decide_how_tests_run_are_the_bases_unless_the_solution_changes_them(
    repository: Repository, tested: str, tmp_path: Path
) -> None:
    base = repository.tree_of(tested)
    own = dict.fromkeys(
        (
            *("conftest.py", "tests/conftest.py", "setup.cfg", "pyproject.toml", "sitecustomize.py"),
            *("pytest.py", "pytest/__init__.py", "_pytest/x.py", "unittest/__init__.py", "src/pytest.py"),
        ),
        b"mine\n",
    )
    kept = dict.fromkeys(("tox.ini", "tests/util.py", "src/deep/pytest.py", "docs/unittest.txt"), b"mine\n")
    gold = "--- /dev/null\n+++ b/tox.ini\n@@ -0,0 +1 @@\n+theirs\n"
    known = Answer(instance_id="i", patch=gold, test_patch=TEST_PATCH)
    state = repository.write_tree(base, {**own, **kept})
    judged = with_tests(tmp_path / "sealed", repository, tested, state, known)
    with judged.repository as store:
        present = {path for path, _, new in store.differences(base, judged.tree) if new is not None}
    assert present == {*kept, "tests/test_a.py"}


def test_what_a_solution_may_change_stays_changed(repository: Repository, tmp_path: Path) -> None:
    """A module whose documentation is run as tests, and the work on a test runner itself."""
    tests = dict.fromkeys(("src/pager_test.py", "app/tests.py", "test.js", "a/spec/b.rb", "x/a.spec.ts"), b"1\n")
    base = commit(repository.git_dir, {**TESTED, **tests, "_pytest/a.py": b"1\n"}, "Base")
    work = dict.fromkeys(("src/pager.py", "_pytest/a.py", "_pytest/b.py"), b"mended\n")
    state = repository.write_tree(repository.tree_of(base), {**work, **dict.fromkeys(tests, b"mine\n")})
    names = tuple(f"{path}::test" for path in ("src/pager.py", *tests))
    judged = with_tests(tmp_path / "s", repository, base, state, Answer(instance_id="i", pass_to_pass=names))
    with judged.repository as store:
        assert {path for path, _, _ in store.differences(repository.tree_of(base), judged.tree)} == set(work)


def test_the_reference_of_a_planted_bug_is_the_bug_taken_back(
    repository: Repository, tested: str, tmp_path: Path
) -> None:
    clean = repository.read(repository.tree_of(tested), "src/pager.py")
    assert clean is not None
    buggy = commit(repository.git_dir, {**TESTED, "src/pager.py": b"broken\n"}, "Plant", tested)
    planted = repository.diff(repository.tree_of(tested), repository.tree_of(buggy))
    reference = with_reference(tmp_path / "s", repository, buggy, Answer(instance_id="i", planted=planted))
    assert reference is not None
    with reference.repository as store:
        assert store.read(reference.tree, "src/pager.py") == clean
    assert with_reference(tmp_path / "s", repository, buggy, Answer(instance_id="i")) is None
    with pytest.raises(StateError, match="does not fit"):
        with_reference(tmp_path / "s", repository, tested, Answer(instance_id="i", planted=planted))


def test_without_tests_the_state_is_judged_as_it_is(repository: Repository, tested: str, tmp_path: Path) -> None:
    tree = repository.tree_of(tested)
    judged = with_tests(tmp_path / "sealed", repository, tested, tree, answer(""))
    judged.repository.close()
    assert judged.tree == tree


def test_answers_come_back_as_they_were_kept(tmp_path: Path) -> None:
    kept = {"o__pager-7": answer(TEST_PATCH), "a": Answer(instance_id="a", patch="p", fail_to_pass=("x",))}
    write_answers(tmp_path, "s", kept)
    assert load_answers(tmp_path, "s") == kept and list(load_answers(tmp_path, "s")) == ["a", "o__pager-7"]
    write_answers(tmp_path, "s", {})
    assert load_answers(tmp_path, "s") == {}
