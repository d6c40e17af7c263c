"""Answers of instances: kept in the sealed folder, and their tests laid over a state for the judge.

A state that a successor left is judged with the task's own tests: files that the test patch names are put back to what
the base holds, so that nothing the successor wrote into them counts, then the patch is applied. Objects of such trees
are written into a store inside the sealed folder that borrows the mirror's; the mirror never holds them, and
no layout for a successor is made from that store. Reading instance files is in ``instances``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
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


def with_tests(sealed: Path, repository: Repository, base_commit: str, tree: str, answer: Answer) -> Judged:
    """``tree`` with the files of the test patch as the tests want them. ``StateError``: the patch does not fit."""
    store = Repository(_store(sealed, repository), name=repository.name)
    try:
        base_tree = repository.tree_of(base_commit)
        repository.ensure(base_tree)
        restored = {path: repository.entry(base_tree, path) for path in _named(answer)}
        return Judged(store, _apply(store, store.write_entries(tree, restored), answer))
    except BaseException:
        store.close()
        raise


def _named(answer: Answer) -> Iterable[str]:
    """Files that the test patch names, on either side."""
    try:
        files = parse_unified(answer.test_patch)
    except Misfit as error:
        raise StateError(f"the test patch of {answer.instance_id} cannot be read: {error}; correct the file") from error
    found = dict.fromkeys(
        stripped(path, 1) for file in files for path in (file.old_path, file.new_path) if path and "/" in path
    )
    return [path for path in found if path and is_safe_path(byte_path(path))]


def _apply(store: Repository, tree: str, answer: Answer) -> str:
    if not answer.test_patch.strip():
        return tree
    with tempfile.TemporaryDirectory(dir=store.git_dir) as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        try:
            store.git("read-tree", tree, extra=index)
            how = ("apply", "--cached", "--whitespace=nowarn", "-")
            store.git(*how, stdin=answer.test_patch.encode("utf-8", "surrogatepass"), extra=index)
        except StateError as error:
            raise StateError(
                f"the test patch of {answer.instance_id} does not fit its base commit: {error}; correct the file"
            ) from error
        return store.git("write-tree", extra=index).decode("ascii").strip()


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
