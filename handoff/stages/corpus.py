"""Files → ``sources``, ``raw_trajectories``, ``steps``, ``quarantine`` → ``repository_states``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from handoff import corpus
from handoff.errors import StateError
from handoff.identity import identify
from handoff.lake import Written
from handoff.project import Project
from handoff.stages import CODE_VERSIONS, inputs_of
from handoff.states.replay import replay_all
from handoff.states.repositories import Repository
from handoff.trajectory import Trajectory

Progress = Callable[[int, int], None]


def content_key(paths: tuple[str, ...]) -> str:
    """A hash of a shard's files by content: the same bytes under another name are the same shard."""
    return corpus.fingerprint([Path(path) for path in paths])


def raw_trajectories(project: Project, shard: str, progress: Progress | None = None) -> Written:
    """Read one shard's files. The other three tables of this stage are written before it, so that a
    ``raw_trajectories`` partition on disk means that all four are complete."""
    source = project.shard(shard)
    paths = [Path(path) for path in source.paths]
    names = [corpus.stored_name(file, project.root) for file in corpus.files(paths)]
    version = CODE_VERSIONS["raw_trajectories"]
    inputs = identify("i", "raw_trajectories", version, content_key(source.paths), *names)
    if current := project.lake.current("raw_trajectories", inputs=inputs, shard=shard):
        return current
    corpus.ingest(project.lake, shard, paths, inputs=inputs, progress=progress, relative_to=project.root)
    written = project.lake.current("raw_trajectories", inputs=inputs, shard=shard)
    assert written is not None  # ingest wrote it
    return written


def repository_states(project: Project, shard: str) -> Written:
    """Replay every trajectory of a shard on its base commit: one pass per repository.

    A trajectory whose repository is not given, missing or lacks the commit gets one ``unverifiable`` row per
    step that says why; it still has handoff points, but nobody can be started from them.
    """
    named = {**project.settings.repositories, **project.shard(shard).repositories}
    inputs = inputs_of(
        "repository_states", project.lake, ("raw_trajectories", {"shard": shard}), settings=sorted(named.items())
    )
    if current := project.lake.current("repository_states", inputs=inputs, shard=shard):
        return current
    return project.lake.write("repository_states", _state_rows(project, shard), inputs=inputs, shard=shard)


def _state_rows(project: Project, shard: str) -> Iterator[dict[str, Any]]:
    heads = project.lake.rows("raw_trajectories", ["trajectory_id", "repo"], shard=shard)
    rows: dict[str, list[dict[str, Any]]] = {}
    with project.repositories(shard) as repositories:
        stores: dict[Path, tuple[Repository, list[str]]] = {}
        missing: dict[str, str] = {}
        for head in heads:
            try:
                if not head["repo"]:
                    raise StateError("the recording does not name its repository")
                repository = repositories.open(head["repo"])
                stores.setdefault(repository.git_dir, (repository, []))[1].append(head["trajectory_id"])
            except StateError as error:
                missing[head["trajectory_id"]] = str(error)
        for repository, ids in stores.values():
            for replayed in replay_all(corpus.trajectories(project.lake, shard, ids), repository):
                rows[replayed.trajectory_id] = list(replayed.rows())
        for id_, trajectory in corpus.trajectories(project.lake, shard, missing):
            rows[id_] = list(_unverifiable(id_, trajectory, missing[id_]))
    for head in heads:
        yield from rows[head["trajectory_id"]]


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
