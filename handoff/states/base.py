"""The base commit of a trajectory whose recording does not name it, found by the content it shows.

The recorded patch states the blob ids its files had before (``index a..b``). A commit is the base only if every one
of those files has that blob there. Several neighbouring commits may fit; the newest of the main history is taken and
said to be *found*, with the evidence.
"""

from __future__ import annotations

from typing import NamedTuple

from handoff.states.editors import Misfit
from handoff.states.patches import parse_unified, stripped
from handoff.states.repositories import Repository
from handoff.trajectory import Trajectory


class Base(NamedTuple):
    """A base commit and how it is known."""

    commit: str
    evidence: str


def find_base(trajectory: Trajectory, repository: Repository) -> Base | None:
    """The base commit: as recorded when the repository has it, else by pre-image blobs; ``None`` when neither works."""
    named = trajectory.base_commit
    if named and repository.has(named):
        return Base(repository.commit_id(named), "named by the recording")
    wanted = preimages(trajectory.outcome.patch)
    if not wanted:
        return None
    for commit in _history(repository):
        tree = repository.tree_of(commit)
        if all((entry := repository.entry(tree, path)) and entry[1].startswith(blob) for path, blob in wanted.items()):
            return Base(commit, f"found: the patch's {len(wanted)} pre-image blob(s) are the files of this commit")
    return None


def preimages(patch: str | None) -> dict[str, str]:
    """Path → abbreviated blob id before the recorded patch, for files that existed."""
    try:
        files = parse_unified(patch or "")
    except Misfit:
        return {}
    found = {}
    for file in files:
        path = stripped(file.old_path, 1) if file.old_path and "/" in file.old_path else None
        if path and file.before and set(file.before) != {"0"}:
            found[path] = file.before
    return found


def _history(repository: Repository) -> list[str]:
    """Commits newest first, the main history before everything else. States of ours are no history."""
    main = repository.git("rev-list", "--first-parent", "HEAD") if _has_head(repository) else b""
    rest = repository.git("rev-list", "--exclude=refs/handoff/*", "--all")
    return list(dict.fromkeys((main + rest).decode("ascii").split()))


def _has_head(repository: Repository) -> bool:
    return repository.find("HEAD^{commit}") is not None
