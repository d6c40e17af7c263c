"""Files → ``sources``, ``raw_trajectories``, ``steps``, ``quarantine`` → ``repository_states``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from handoff import corpus
from handoff.errors import StateError
from handoff.identity import identify
from handoff.lake import Written
from handoff.project import Project
from handoff.stages import CODE_VERSIONS, inputs_of
from handoff.states.replay import replay_all
from handoff.trajectory import Trajectory

Progress = Callable[[int, int], None]


def content_key(paths: tuple[str, ...]) -> str:
    """A hash of a shard's files by content: the same bytes under another name are the same shard."""
    digests = []
    for path in corpus.files([Path(p) for p in paths]):
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return identify("i", "content", *sorted(digests))


def raw_trajectories(project: Project, shard: str, progress: Progress | None = None) -> Written:
    """Read one shard's files. The other three tables of this stage are written before it, so that a
    ``raw_trajectories`` partition on disk means that all four are complete."""
    source = project.shard(shard)
    inputs = identify("i", "raw_trajectories", CODE_VERSIONS["raw_trajectories"], content_key(source.paths))
    if current := project.lake.current("raw_trajectories", inputs=inputs, shard=shard):
        return current
    corpus.ingest(project.lake, shard, [Path(p) for p in source.paths], inputs=inputs, progress=progress)
    written = project.lake.current("raw_trajectories", inputs=inputs, shard=shard)
    assert written is not None  # ingest wrote it
    return written


def repository_states(project: Project, shard: str) -> Written:
    """Replay every trajectory of a shard on its base commit: one pass per repository.

    A trajectory whose repository is not given, missing or lacks the commit gets one ``unverifiable`` row per
    step that says why; it still has handoff points, but nobody can be started from them.
    """
    source = project.shard(shard)
    inputs = inputs_of(
        "repository_states",
        project.lake,
        ("raw_trajectories", {"shard": shard}),
        settings={**project.settings.repositories, **source.repositories},
    )
    if current := project.lake.current("repository_states", inputs=inputs, shard=shard):
        return current
    return project.lake.write("repository_states", _state_rows(project, shard), inputs=inputs, shard=shard)


def _state_rows(project: Project, shard: str) -> Iterator[dict[str, Any]]:
    repositories = project.repositories(shard)
    heads = project.lake.read("raw_trajectories", ["trajectory_id", "repo", "base_commit"], shard=shard)
    order = {id_: n for n, id_ in enumerate(heads["trajectory_id"].to_pylist())}
    by_repository: dict[str, list[str]] = {}
    for row in heads.to_pylist():
        by_repository.setdefault(row["repo"] or "", []).append(row["trajectory_id"])
    rows: dict[str, list[dict[str, Any]]] = {}
    for repo in sorted(by_repository):
        ids = by_repository[repo]
        try:
            if not repo:
                raise StateError("the recording does not name its repository; give it with --repository NAME=PATH")
            repository = repositories.open(repo)
        except StateError as error:
            for id_, trajectory in corpus.trajectories(project.lake, shard, ids):
                rows[id_] = list(_unverifiable(id_, trajectory, str(error)))
            continue
        with repository:
            for replayed in replay_all(corpus.trajectories(project.lake, shard, ids), repository):
                rows[replayed.trajectory_id] = list(replayed.rows())
    for id_ in sorted(rows, key=order.__getitem__):
        yield from rows[id_]


def _unverifiable(id_: str, trajectory: Trajectory, reason: str) -> Iterator[dict[str, Any]]:
    for step in range(len(trajectory.steps) + 1):
        yield {
            "trajectory_id": id_,
            "step": step,
            "repo": trajectory.repo,
            "commit": None,
            "tree": None,
            "status": "unverifiable",
            "reason": reason,
        }


def state_rows(project: Project, shard: str, trajectory_id: str) -> list[dict[str, Any]]:
    """The states of one trajectory, step 0 first."""
    return project.lake.rows("repository_states", where=pc.field("trajectory_id") == trajectory_id, shard=shard)
