"""Answers of instances: kept in the sealed folder, and their tests laid over a state for the judge.

A state that a successor left is judged with the task's own tests: files that hold tests, or decide how tests are run,
are put back to what the base holds, so that nothing the successor wrote into them counts, then the test patch is
applied. What the reference solution itself changes is left as the successor has it. Objects of such trees
are written into a store inside the sealed folder that borrows the mirror's; the mirror never holds them, and
no layout for a successor is made from that store. Reading instance files is in ``reading``, running tests in
``judging``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from handoff.editors.patches import parse_unified, stripped
from handoff.editors.plain import Misfit
from handoff.errors import StateError
from handoff.git.locks import locked
from handoff.git.objects import byte_path, is_safe_path
from handoff.git.program import run_git
from handoff.git.repository import Repository
from handoff.identity import identify
from handoff.instances.reading import Answer
from handoff.lake import write_file


def answers_path(sealed: Path, shard: str) -> Path:
    """Where the answers of a shard's instances are kept. Only judges read it."""
    return sealed / "instances" / f"{shard}.jsonl"


def write_answers(sealed: Path, shard: str, answers: Mapping[str, Answer]) -> None:
    """Keep answers, in order of their ids; an old file goes when there are none."""
    path = answers_path(sealed, shard)
    if answers:
        write_file(path, b"".join(msgspec.json.encode(answers[id_]) + b"\n" for id_ in sorted(answers)))
    else:
        path.unlink(missing_ok=True)


def load_answers(sealed: Path, shard: str) -> dict[str, Answer]:
    """The answers kept of a shard, by instance id."""
    path = answers_path(sealed, shard)
    if not path.is_file():
        return {}
    decoder = msgspec.json.Decoder(Answer)
    with path.open("rb") as lines:
        return {answer.instance_id: answer for answer in map(decoder.decode, lines)}


class Judged(NamedTuple):
    """A state with the task's tests: a tree, and the store that has it. Close the repository after use."""

    repository: Repository
    tree: str


_DECIDING = frozenset(
    (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
        *("pyproject.toml", "sitecustomize.py", "usercustomize.py", "noxfile.py", ".coveragerc"),
    )
)
"""Names of files that decide how tests are run, in any folder."""
_RUNNERS = frozenset(("pytest", "_pytest", "unittest", "pluggy"))
"""Modules that would take a test runner's place if they lay at the root, or in a folder there that is searched."""
_TEST = re.compile(
    r"(?:.*/)?(?:(?:tests?|testing|specs?|__tests__)/.*|tests?[_.][^/]*|[^/]*[_.-](?:test|spec)s?\.[^/]*)"
)
"""Files of tests, by their name or folder. Names of tests may also begin with a module whose documentation is run."""


def with_tests(sealed: Path, repository: Repository, base_commit: str, tree: str, answer: Answer) -> Judged:
    """``tree`` with the files of the tests as the tests want them. ``StateError``: the test patch does not fit."""
    store = Repository(_store(sealed, repository), name=repository.name)
    try:
        base_tree = repository.tree_of(base_commit)
        repository.ensure(base_tree)
        restored = {path: repository.entry(base_tree, path) for path in _named(answer.test_patch, answer)}
        own = frozenset(_named(answer.patch or answer.planted, answer))
        tests = frozenset(path for path in test_files(answer) if _TEST.fullmatch(path))
        for path, old, _ in store.differences(base_tree, tree):
            if path in tests or (path not in own and _decides(path, repository, base_tree)):
                restored.setdefault(path, old)
        restored = {path: entry for path, entry in restored.items() if is_safe_path(byte_path(path))}
        return Judged(store, _apply(store, store.write_entries(tree, restored), answer.test_patch, answer))
    except BaseException:
        store.close()
        raise


def with_reference(sealed: Path, repository: Repository, base_commit: str, answer: Answer) -> Judged | None:
    """The base commit with the reference solution; ``None`` when that is not known. ``StateError``: it does not fit."""
    if not answer.patch.strip() and not answer.planted.strip():
        return None
    store = Repository(_store(sealed, repository), name=repository.name)
    try:
        base_tree = repository.tree_of(base_commit)
        repository.ensure(base_tree)
        if answer.patch.strip():
            return Judged(store, _apply(store, base_tree, answer.patch, answer))
        return Judged(store, _apply(store, base_tree, answer.planted, answer, "--reverse"))
    except BaseException:
        store.close()
        raise


def test_files(answer: Answer) -> tuple[str, ...]:
    """The files that hold a task's tests, sorted: those that names of tests begin with, else Python files of the test
    patch. Only paths inside the repository."""
    ids = (*answer.fail_to_pass, *answer.pass_to_pass)
    named = {name.partition("::")[0] for name in ids if "::" in name}
    if not named:
        try:
            named = {path for path in _named(answer.test_patch, answer) if path.endswith(".py")}
        except StateError:
            named = set()
    return tuple(sorted(path for path in named if path and is_safe_path(byte_path(path))))


def _decides(path: str, repository: Repository, base_tree: str) -> bool:
    """Whether a file has a say in how tests run: by its name, or as a module in a runner's place where none was."""
    parts = path.split("/")
    if parts[-1] in _DECIDING:
        return True
    for depth, name in enumerate(parts[:2]):
        module = name if depth < len(parts) - 1 else name.removesuffix(".py")
        if module in _RUNNERS:
            place = "/".join((*parts[:depth], module))
            return all(repository.entry(base_tree, there) is None for there in (place, f"{place}.py"))
    return False


def _named(patch: str, answer: Answer) -> list[str]:
    """Files that a patch names, on either side."""
    try:
        files = parse_unified(patch)
    except Misfit as error:
        raise StateError(f"a patch of {answer.instance_id} cannot be read: {error}; correct the file") from error
    found = dict.fromkeys(
        stripped(path, 1) for file in files for path in (file.old_path, file.new_path) if path and "/" in path
    )
    return [path for path in found if path and is_safe_path(byte_path(path))]


def _apply(store: Repository, tree: str, patch: str, answer: Answer, *more: str) -> str:
    if not patch.strip():
        return tree
    with tempfile.TemporaryDirectory(dir=store.git_dir) as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        try:
            store.git("read-tree", tree, extra=index)
            how = ("apply", "--cached", "--whitespace=nowarn", *more, "-")
            store.git(*how, stdin=patch.encode("utf-8", "surrogatepass"), extra=index)
        except StateError as error:
            raise StateError(
                f"a patch of {answer.instance_id} does not fit its base commit: {error}; correct the file"
            ) from error
        return store.git("write-tree", extra=index).decode("ascii").strip()


def sealed_store(sealed: Path, repository: Repository) -> Repository:
    """The store that judges alone read, with all that ``repository`` has. Close it after use."""
    return Repository(_store(sealed, repository), name=repository.name)


def _store(sealed: Path, repository: Repository) -> Path:
    """The sealed store beside one mirror: its own objects, and the mirror's by reference."""
    mirror = repository.git_dir.resolve()
    store = sealed / "git" / f"{identify('g', str(mirror))}.git"
    sealed.joinpath("git").mkdir(parents=True, exist_ok=True)
    with locked(sealed / "git" / "handoff.lock"):
        if not (store / "HEAD").is_file():
            run_git("init", "--quiet", "--bare", "--template=", store)
            write_file(store / "objects" / "info" / "alternates", f"{mirror / 'objects'}\n".encode())
    return store
