"""Files → ``sources``, ``raw_trajectories``, ``steps``, ``quarantine`` → ``repository_states``, ``state_verdicts``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from handoff import corpus
from handoff.adapters.git_branch import FORMAT, Branch
from handoff.errors import StateError
from handoff.git.repositories import Repositories, Repository
from handoff.identity import identify
from handoff.lake import Written, write_file
from handoff.project import Project
from handoff.stages import CODE_VERSIONS, inputs_of
from handoff.stages.instances import Known, instances_version, known_instances, seal_answers
from handoff.stages.states import branch_replay, rerunning, without_repository
from handoff.states.base import Base
from handoff.states.branches import read_branch
from handoff.states.proof.verdict import Replay
from handoff.states.replay import Reruns, replay_all
from handoff.trajectory import Trajectory

Progress = Callable[[int, int], None]


def content_key(paths: tuple[str, ...]) -> str:
    """A hash of a shard's files by content: the same bytes under another name are the same shard."""
    return corpus.fingerprint([Path(path) for path in paths])


def add_branches(
    project: Project,
    shard: str,
    source: Path,
    branches: Sequence[str],
    *,
    repo: str,
    base: str | None = None,
    task: str | None = None,
) -> list[Branch]:
    """Make a shard of branches of a local repository: one record each, written down in the data folder.

    ``repo``: its name in the tables. The commits decide the file's bytes, so the shard is read again when the branches
    have moved and this is called again. Errors: see ``read_branch``.
    """
    path = project.branch_file(shard)
    with Repositories(project.git, {repo: source}) as repositories:
        records = [read_branch(repositories, repo, source, branch, base=base, task=task) for branch in branches]
    write_file(path, b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    project.add_shard(shard, (str(path),), {repo: str(source.resolve())})
    return records


def raw_trajectories(project: Project, shard: str, progress: Progress | None = None) -> Written:
    """Read one shard's files. The other three tables of this stage are written before it, so that a
    ``raw_trajectories`` partition on disk means that all four are complete."""
    source = project.shard(shard)
    paths = [Path(path) for path in source.paths]
    names = [corpus.stored_name(file, project.root) for file in corpus.files(paths)]
    version, limit = CODE_VERSIONS["raw_trajectories"], project.settings.record_limit
    inputs = identify("i", "raw_trajectories", version, content_key(source.paths), str(limit), *names)
    if current := project.lake.current("raw_trajectories", inputs=inputs, shard=shard):
        return current
    corpus.ingest(
        project.lake,
        shard,
        paths,
        inputs=inputs,
        progress=progress,
        record_limit=limit,
        relative_to=project.root,
        workers=project.settings.ingest_workers,
    )
    written = project.lake.current("raw_trajectories", inputs=inputs, shard=shard)
    assert written is not None  # ingest wrote it
    return msgspec.structs.replace(written, is_new=True)


def repository_states(project: Project, shard: str) -> Written:
    """Replay every trajectory of a shard on its base commit: one pass per repository.

    A trajectory whose repository is not given, missing or lacks the commit gets one ``unverifiable`` row per
    step that says why; it still has handoff points, but nobody can be started from them. The verdicts on whole runs,
    table ``state_verdicts``, are written before, so that a partition of states on disk means that both are complete.
    """
    with project.repositories(shard) as repositories:
        heads = project.lake.rows("raw_trajectories", _HEAD, shard=shard)
        known = known_instances(project, shard, heads)
        opened = _Opened(repositories, heads, known)
        named = {**project.settings.repositories, **project.shard(shard).repositories}
        inputs = inputs_of(
            "repository_states",
            project.lake,
            ("raw_trajectories", {"shard": shard}),
            settings=(
                sorted(named.items()),
                opened.versions(),
                opened.lacking,
                instances_version(project, shard),
                project.settings.rerun_steps,
            ),
        )
        if current := project.lake.current("repository_states", inputs=inputs, shard=shard):
            return current
        seal_answers(project, shard, known)
        with rerunning(project.settings.rerun_steps, project.root / "sandboxes") as reruns:
            found = _replays(project, shard, opened, known, reruns)
        in_order = [found[id_] for id_ in opened.order]
        project.lake.write("state_verdicts", (run.verdict_row() for run in in_order), inputs=inputs, shard=shard)
        rows = (row for run in in_order for row in run.rows())
        return project.lake.write("repository_states", rows, inputs=inputs, shard=shard)


_HEAD = ("trajectory_id", "task_id", "repo", "base_commit", "format", "session", "parent")


class _Opened:
    """The repositories that a shard's trajectories name, each opened once; why the others cannot be had."""

    def __init__(self, repositories: Repositories, heads: Sequence[Mapping[str, Any]], known: Known) -> None:
        self._repositories = repositories
        self._by_name: dict[str, Repository | StateError] = {}
        self.order = [head["trajectory_id"] for head in heads]
        self.branches = frozenset(head["trajectory_id"] for head in heads if head["format"] == FORMAT)
        self.stores: dict[Path, tuple[Repository, list[str]]] = {}
        """Git folder → the repository and its trajectories."""
        self.missing: dict[str, str] = {}
        """Trajectory → why it has no repository."""
        self.bases: dict[str, Base] = {}
        """Trajectory → base commit that its instance names, where it is to be used."""
        self.sessions = {head["trajectory_id"]: (head["session"], head["parent"]) for head in heads}
        """Trajectory → its session, and that of the run that started it as its subagent."""
        self.lacking: list[tuple[str, str]] = []
        """(repository, commit) that a run begins at and no source has; sorted."""
        for head in heads:
            id_ = head["trajectory_id"]
            found = self._find(known.repo(id_))
            if isinstance(found, StateError):
                self.missing[id_] = str(found)
                continue
            self.stores.setdefault(found.git_dir, (found, []))[1].append(id_)
            named = known.base(id_)
            self._look_for(found, known.repo(id_) or "", head["base_commit"], named.commit if named else None)
            if (base := known.base_for(id_, found)) is not None:
                self.bases[id_] = base
        self.lacking = sorted(set(self.lacking))

    def _find(self, repo: str | None) -> Repository | StateError:
        if not repo:
            return StateError("the recording does not name its repository; if you know it, ingest with --of NAME")
        if repo not in self._by_name:
            try:
                self._by_name[repo] = self._repositories.open(repo)
            except StateError as error:
                self._by_name[repo] = error
        return self._by_name[repo]

    def _look_for(self, repository: Repository, repo: str, *commits: str | None) -> None:
        """Ask the source when the mirror lacks a commit; without it, the content shown may tell."""
        for commit in dict.fromkeys(commits):
            if commit and not repository.has(commit):
                with suppress(StateError):
                    self._repositories.open(repo, commit)
                if not repository.has(commit):
                    self.lacking.append((repo, commit))

    def versions(self) -> list[tuple[str, str]]:
        """What each repository holds, so that a mended one is replayed again. Stores of many are this project's own."""
        return [
            (repo, found.version() if isinstance(found, Repository) else "missing")
            for repo, found in sorted(self._by_name.items())
            if not self._repositories.is_shared(repo)
        ]


def _replays(project: Project, shard: str, opened: _Opened, known: Known, reruns: Reruns | None) -> dict[str, Replay]:
    """Every run of the shard, by id."""
    found: dict[str, Replay] = {}
    for repository, ids in opened.stores.values():
        runs = _runs(project, shard, set(ids) - opened.branches)
        placed = ((id_, msgspec.structs.replace(run, repo=known.repo(id_))) for id_, run in runs)
        children = _children(project, shard, opened, ids)
        for replayed in replay_all(placed, repository, base_commits=opened.bases, reruns=reruns, children=children):
            found[replayed.trajectory_id] = known.stated(replayed)
        for id_, trajectory in _runs(project, shard, opened.branches & set(ids)):
            found[id_] = branch_replay(trajectory, id_, repository)
    for id_, trajectory in corpus.trajectories(project.lake, shard, opened.missing):
        found[id_] = without_repository(trajectory, id_, opened.missing[id_])
    return found


def _children(project: Project, shard: str, opened: _Opened, ids: Collection[str]) -> dict[str, list[Trajectory]]:
    """Session of a run with subagents among ``ids`` → their runs, and those that they started in turn."""
    named = descendants({id_: opened.sessions[id_] for id_ in ids})
    runs = dict(_runs(project, shard, {id_ for below in named.values() for id_ in below}))
    return {session: [runs[id_] for id_ in below] for session, below in named.items()}


def descendants(runs: Mapping[str, tuple[str | None, str | None]]) -> dict[str, list[str]]:
    """Session → the runs that it started, and those that they started in turn; in order of ids.

    ``runs``: id → (session, session of the run that started it).
    """
    parents = {session: parent for session, parent in runs.values() if session is not None}
    found: dict[str, list[str]] = {}
    for id_, (session, parent) in sorted(runs.items()):
        seen: set[str] = set()
        while parent is not None and parent in parents and parent not in seen and parent != session:
            seen.add(parent)
            found.setdefault(parent, []).append(id_)
            session, parent = parent, parents[parent]
    return found


def _runs(project: Project, shard: str, ids: Collection[str]) -> Iterable[tuple[str, Trajectory]]:
    return corpus.trajectories(project.lake, shard, ids) if ids else ()
