"""What a user's instance files say about the runs of a shard, and keeping their answers sealed.

The recording is believed: a repository or base commit that it names, and that can be had, is used whatever an instance
says, and the contradiction is stated as evidence of the run's base. An instance helps where the recording is silent,
or names a commit that no repository has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from handoff import corpus
from handoff.errors import RecordError
from handoff.git.names import canonical
from handoff.git.repository import Repository
from handoff.instances.answers import write_answers
from handoff.instances.reading import (
    NONE,
    Instance,
    Read,
    contradiction,
    named_base,
    original_of,
    planted_branch,
    read_answers,
    read_instances,
)
from handoff.project import Project
from handoff.states.base import Base
from handoff.states.proof.verdict import Replay
from handoff.trajectory import Trajectory


class Known:
    """The instances of a shard's runs, by trajectory id.

    ``heads``: rows of ``raw_trajectories`` with ``trajectory_id``, ``task_id``, ``repo`` and ``base_commit``. ``repo``:
    where runs worked for which neither a recording nor an instance names a repository.
    """

    def __init__(self, heads: Sequence[Mapping[str, Any]], read: Read, repo: str | None = None) -> None:
        self.problems: tuple[RecordError, ...] = read.problems
        self._repo = repo
        self._heads = {head["trajectory_id"]: head for head in heads}
        self._instances: dict[str, Instance] = {
            head["trajectory_id"]: read.by_id[head["task_id"]] for head in heads if head["task_id"] in read.by_id
        }

    def counted(self) -> tuple[int, int]:
        """Runs that have an instance, and all runs."""
        return len(self._instances), len(self._heads)

    def ids(self) -> list[str]:
        """Ids of the instances in use, sorted."""
        return sorted({instance.instance_id for instance in self._instances.values()})

    def repo(self, trajectory_id: str) -> str | None:
        """The repository of a run: as recorded, else as its instance says, else as the user says of the shard."""
        instance = self._instances.get(trajectory_id)
        recorded: str | None = self._heads[trajectory_id]["repo"]
        if recorded and instance and original_of(instance.repo) == canonical(recorded):
            return instance.repo  # the recording names what a copy with planted bugs was made of
        return recorded or (instance.repo if instance else None) or self._repo

    def base(self, trajectory_id: str) -> Base | None:
        """The base commit that a run's instance names."""
        instance = self._instances.get(trajectory_id)
        return named_base(instance, self._heads[trajectory_id]["repo"]) if instance else None

    def base_for(self, trajectory_id: str, repository: Repository) -> Base | None:
        """The instance's base commit where it is to be used: the recording names none that ``repository`` has."""
        recorded, named = self._heads[trajectory_id]["base_commit"], self.base(trajectory_id)
        if recorded and repository.has(recorded):
            return None
        instance = self._instances.get(trajectory_id)
        branch = planted_branch(instance) if instance else None
        if instance and branch and (commit := repository.branch(branch)):
            return Base(commit, f"the branch of instance {instance.instance_id} of {instance.file}")
        if named is None or not repository.has(named.commit):
            return None
        return Base(repository.commit_id(named.commit), named.evidence)

    def stated(self, replay: Replay) -> Replay:
        """A replay that says who named its repository, if not the recording, and what its instance contradicts."""
        instance, head = self._instances.get(replay.trajectory_id), self._heads[replay.trajectory_id]
        parts = [replay.base_evidence]
        if instance is not None:
            parts.append(contradiction(instance, head["repo"], head["base_commit"]) or "")
        if head["repo"] is None and replay.repo is not None and (instance is None or instance.repo is None):
            parts.append("repository named by the user")
        return msgspec.structs.replace(replay, base_evidence="; ".join(part for part in parts if part))


def known_instances(project: Project, shard: str, heads: Sequence[Mapping[str, Any]]) -> Known:
    """The instances of a shard's runs. ``InputError``: a file of the settings is missing."""
    wanted = {head["task_id"] for head in heads if head["task_id"]}
    files = project.instance_files(shard)
    return Known(heads, read_instances(files, wanted) if files and wanted else NONE, project.shard(shard).repo)


def known_of(trajectory_id: str, run: Trajectory, files: Sequence[Path]) -> Known:
    """What instance files say about one run. ``InputError``: a file is missing."""
    head = {
        "trajectory_id": trajectory_id,
        "task_id": run.task_id,
        "repo": run.repo,
        "base_commit": run.base_commit,
    }
    return Known([head], read_instances(files, {run.task_id} if run.task_id else ()) if files else NONE)


def instances_of(project: Project, shard: str) -> Known | None:
    """``known_instances`` of a shard in the lake; ``None`` when no file explains any."""
    heads = project.lake.rows("raw_trajectories", ["trajectory_id", "task_id", "repo", "base_commit"], shard=shard)
    return known_instances(project, shard, heads) if project.instance_files(shard) else None


def instances_version(project: Project, shard: str) -> str:
    """What the user says about a shard's runs: a hash of the instance files by content, and the shard's repository."""
    files = project.instance_files(shard)
    return f"{corpus.fingerprint(files) if files else ''} {project.shard(shard).repo or ''}".strip()


def seal_answers(project: Project, shard: str, known: Known) -> None:
    """Keep the answers of the instances in use where only judges read."""
    ids = known.ids()
    write_answers(project.sealed, shard, read_answers(project.instance_files(shard), ids) if ids else {})
