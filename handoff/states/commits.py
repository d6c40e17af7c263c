"""States of a branch: the trees of its own commits. Nothing is replayed; what the record says is held against git.

Each step's state is ``verified`` when git has the commit, its first parent is the step before, and the recorded diff
names exactly the files that differ between the two trees, with their blobs. From the first step where the record
says something else on, states are ``divergent``; where git lacks a commit, nothing is known of any state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from handoff.actions.commits import file_changes
from handoff.adapters.git_branch import commit_of
from handoff.errors import StateError
from handoff.git.objects import EMPTY_TREE
from handoff.git.repositories import Repository
from handoff.trajectory import Step, Trajectory

_ID = re.compile(r"[0-9a-f]{40}")
_NO_BLOB = "0" * 40


class CommitObject(NamedTuple):
    """What a commit object says, as bytes: its first lines by name, and the message."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: bytes
    encoding: str
    message: bytes


def read_commit(repository: Repository, id_: str) -> CommitObject:
    """One commit. ``StateError`` when it is missing or damaged."""
    found = repository.find(f"{id_}^{{commit}}") if _ID.fullmatch(id_) else None
    if found is None:
        raise StateError(f"{repository.name!r} has no commit {id_}; map it to a repository that has the whole branch")
    head, _, message = found[2].partition(b"\n\n")
    lines: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):  # a line that begins with a blank goes on with a signature
        name, _, value = line.partition(b" ")
        lines.setdefault(name, []).append(value)
    tree = lines.get(b"tree", [b""])[0].decode("ascii", "replace")
    parents = tuple(parent.decode("ascii", "replace") for parent in lines.get(b"parent", []))
    if not all(map(_ID.fullmatch, (tree, *parents))):
        raise StateError(f"commit {id_} of {repository.name!r} is damaged; fetch the repository again")
    encoding = lines.get(b"encoding", [b"utf-8"])[0].decode("ascii", "replace")
    return CommitObject(found[0], tree, parents, lines.get(b"author", [b""])[0], encoding, message)


def commit_states(trajectory: Trajectory, trajectory_id: str, repository: Repository) -> Iterator[dict[str, Any]]:
    """Rows of table ``repository_states``, step 0 first. ``StateError``: a commit is missing or cannot be laid out."""
    previous = trajectory.base_commit
    tree = EMPTY_TREE if previous is None else repository.tree_of(previous)
    rows = [("verified", "the base commit" if previous else "before the root commit there is no file", previous, tree)]
    problem = ""
    for number, step in enumerate(trajectory.steps, 1):
        commit = read_commit(repository, commit_of(step) or "")
        problem = problem or _contradiction(number, step, commit, previous, tree, repository)
        verdict = ("divergent", problem) if problem else ("verified", "the commit's own tree")
        rows.append((*verdict, commit.id, commit.tree))
        previous, tree = commit.id, commit.tree
    for number, (status, reason, id_, state) in enumerate(rows):
        yield {
            "trajectory_id": trajectory_id,
            "step": number,
            "repo": trajectory.repo,
            "commit": id_,
            "tree": state,
            "status": status,
            "is_derived": status == "verified",
            "reason": reason,
        }


def _contradiction(
    number: int, step: Step, commit: CommitObject, previous: str | None, tree: str, repository: Repository
) -> str:
    """What git says differently from the record; empty when nothing."""
    try:
        real = {
            path: (old[1] if old else _NO_BLOB, new[1] if new else _NO_BLOB)
            for path, old, new in repository.differences(tree, commit.tree)
        }
    except RecursionError as error:
        raise StateError(f"the folders of commit {commit.id} are nested too deeply; it is refused") from error
    if commit.parents[:1] != (() if previous is None else (previous,)):
        return f"step {number}: commit {commit.id} does not follow the commit of the step before"
    told = {c.path: (c.before, c.after) for c in file_changes(step.actions[0].arguments)}
    for path in sorted(real.keys() | told.keys()):
        blobs = told.get(path)
        is_mode = blobs == (None, None) and path in real and real[path][0] == real[path][1]
        if blobs != real.get(path) and not is_mode:
            return f"step {number}, {path!r}: the recorded diff is not the one between the two commits"
    return ""
