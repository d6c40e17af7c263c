"""The states of one run, whoever asks: a shard's stage, or a person who looks at one run.

How edits are replayed is in ``states/replay.py``. Here is what a run comes out as that is not replayed (a branch of
commits, a run whose repository cannot be had), and one run found by its id or in a file, with its trees at hand.
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc

from handoff import corpus
from handoff.adapters import read_record
from handoff.adapters.git_branch import FORMAT
from handoff.environment import Surroundings, environment
from handoff.errors import InputError, StateError
from handoff.git.repositories import Repositories, Repository
from handoff.lake import SCHEMAS, make_folder
from handoff.project import Project
from handoff.stages.instances import known_of
from handoff.states.commits import commit_states
from handoff.states.family import merged
from handoff.states.proof.verdict import Category, Divergence, Replay, unverifiable
from handoff.states.replay import Reruns, replay
from handoff.trajectory import Trajectory, trajectory_id


def without_repository(trajectory: Trajectory, trajectory_id: str, reason: str) -> Replay:
    """A run of which no state is known, for ``reason``: its repository cannot be had."""
    return _unverifiable(trajectory, trajectory_id, "no_repository", reason)


def branch_replay(trajectory: Trajectory, trajectory_id: str, repository: Repository) -> Replay:
    """The states of a branch of commits: git's own trees, held against the recorded diffs."""
    try:
        rows = list(commit_states(trajectory, trajectory_id, repository))
    except StateError as error:
        return _unverifiable(trajectory, trajectory_id, "no_base", str(error))
    last = rows[-1]
    wrong = next((row for row in rows if row["status"] == "divergent"), None)
    found = None
    if wrong is not None:
        step = int(wrong["step"])
        found = Divergence(step, "", str(wrong["reason"]), step, "patch_mismatch")
    return Replay(
        trajectory_id=trajectory_id,
        format=trajectory.format,
        repo=trajectory.repo,
        base=trajectory.base_commit,
        base_evidence="the parent of the branch's first commit" if trajectory.base_commit else "",
        status=last["status"],
        category="patch_mismatch" if found else "verified",
        reason=last["reason"],
        commits=tuple(row["commit"] for row in rows),
        trees=tuple(row["tree"] for row in rows),
        statuses=tuple(row["status"] for row in rows),
        reasons=tuple(row["reason"] for row in rows),
        derived=tuple(row["is_derived"] for row in rows),
        divergence=found,
        is_derivable=True,
    )


def _unverifiable(trajectory: Trajectory, trajectory_id: str, category: Category, reason: str) -> Replay:
    return unverifiable(trajectory_id, trajectory.format, trajectory.repo, len(trajectory.steps), category, reason)


@contextmanager
def rerunning(wanted: bool, below: Path | None = None) -> Iterator[Reruns | None]:
    """A way to execute steps again, in a folder that is gone afterwards; ``None`` where it is not wanted.

    ``below``: where that folder is made; the system's place for such by default.
    """
    if not wanted:
        yield None
        return
    from handoff.sandbox.rerun import reruns

    if below is not None:
        make_folder(below)
    with tempfile.TemporaryDirectory(prefix="rerun-", dir=below) as folder:
        yield reruns(Path(folder))


# -- one run, looked at ---------------------------------------------------------------------------


class StepView(NamedTuple):
    """The state after one step."""

    step: int
    status: str
    reason: str
    tree: str | None
    files: tuple[str, ...] | None
    """What the step changed, sorted; ``None`` when it cannot be told."""
    checkpoints: int | None
    """Texts of files in its answers that agree with the state; ``None`` when they were not counted step by step."""


class RunStates(NamedTuple):
    """One run with its states, while its repository is open."""

    id: str
    trajectory: Trajectory
    rows: Sequence[Mapping[str, Any]]
    """Of table ``repository_states``, step 0 first."""
    verdict: Mapping[str, Any] | None
    """Of table ``state_verdicts``; ``None`` in a lake that was made before there was one."""
    repository: Repository | None
    """``None`` when it cannot be had; trees are then only names."""

    def steps(self) -> list[StepView]:
        """Every step, from 0."""
        checked = (self.verdict or {}).get("checked_steps")
        return [
            StepView(
                step=number,
                status=row["status"],
                reason=row["reason"],
                tree=row["tree"],
                files=self._files(number),
                checkpoints=None if checked is None else checked.count(number),
            )
            for number, row in enumerate(self.rows)
        ]

    def diff(self, step: int) -> str:
        """What one step changed, as git shows it; empty for step 0, and where a tree is missing."""
        self.check(step)
        before, after = self._trees(step)
        if self.repository is None or before is None or after is None or before == after:
            return ""
        return self.repository.diff(before, after)

    def surroundings(self, step: int) -> Surroundings:
        """What is known of the world outside the repository after a step."""
        self.check(step)
        return environment(self.trajectory).at(min(step, len(self.trajectory.steps)))

    def check(self, step: int) -> None:
        """``InputError`` when the run has no such step."""
        if not 0 <= step < len(self.rows):
            raise InputError(f"{self.id} has steps 0 to {len(self.rows) - 1}; there is no step {step}")

    def _files(self, step: int) -> tuple[str, ...] | None:
        before, after = self._trees(step)
        if before == after:
            return () if after is not None else None
        if self.repository is None or before is None or after is None:
            return None
        return self.repository.changed(before, after)

    def _trees(self, step: int) -> tuple[str | None, str | None]:
        return self.rows[max(step - 1, 0)]["tree"], self.rows[step]["tree"]


@contextmanager
def stored_run(project: Project, name: str) -> Iterator[RunStates]:
    """A run of the data folder by its id, or the beginning of one. ``InputError`` names the nearest when there is none.

    A repository that cannot be had is no error: its states are still told.
    """
    shard, id_ = _find(project, name)
    trajectory = next(run for _, run in corpus.trajectories(project.lake, shard, [id_]))
    where = pc.field("trajectory_id") == id_
    rows = sorted(project.lake.rows("repository_states", where=where, shard=shard), key=lambda row: int(row["step"]))
    if not rows:
        raise InputError(f"the states of {id_} are not made yet; run `handoff ingest` on its files again")
    verdicts = project.lake.rows("state_verdicts", SCHEMAS["state_verdicts"].names, where, shard=shard)
    with project.repositories(shard) as repositories:
        yield RunStates(id_, trajectory, rows, next(iter(verdicts), None), _opened(repositories, rows))


def _opened(repositories: Repositories, rows: Sequence[Mapping[str, Any]]) -> Repository | None:
    if rows[0]["repo"] is None or rows[-1]["tree"] is None:
        return None
    try:
        return repositories.open(rows[0]["repo"])
    except StateError:
        return None


def _find(project: Project, name: str) -> tuple[str, str]:
    """(shard, id) of the one run whose id begins with ``name``."""
    listed = project.lake.rows("raw_trajectories", ["trajectory_id", "shard"])
    fitting = {row["trajectory_id"]: row["shard"] for row in reversed(listed) if row["trajectory_id"].startswith(name)}
    if name in fitting:
        return fitting[name], name
    if len(fitting) == 1:
        ((id_, shard),) = fitting.items()
        return shard, id_
    if fitting:
        some = ", ".join(sorted(fitting)[:4])
        raise InputError(f"{name!r} begins {len(fitting)} ids ({some} …); give more of it")
    if not listed:
        raise InputError(f"no run is in {project.root}; ingest some first, or name a file")
    near = difflib.get_close_matches(name, sorted({row["trajectory_id"] for row in listed}), n=3, cutoff=0.0)
    raise InputError(f"no run, and no file, is called {name!r}; the nearest ids are {', '.join(near)}")


@contextmanager
def file_run(
    project: Project,
    path: Path,
    record: int,
    part: int,
    given: Mapping[str, str],
    *,
    base: str | None = None,
    instances: Sequence[Path] = (),
    reruns: Reruns | None = None,
) -> Iterator[RunStates]:
    """A run of a file, replayed through mirrors that are gone afterwards; nothing is written to the data folder.
    Subagents that its record holds belong to it.

    ``given``: repository name → path or URL, beside those of the settings. ``instances``: files that may name
    repository and base commit of its task. ``InputError`` says which one is wanted.
    """
    found = read_record(path, record)
    trajectory = found.run(part)
    id_ = trajectory_id(trajectory)
    mapping = {**project.settings.repositories, **given}
    known = known_of(id_, trajectory, instances)
    repo = known.repo(id_)
    if repo is None and len(given) == 1:
        repo = next(iter(given))  # the recording names none, and the caller means this one
    if repo is None:
        raise InputError(
            f"{path}, record {record} names no repository; say which with --repository NAME=PATH, or in --instances"
        )
    kata = project.git / "kata.git"
    with (
        tempfile.TemporaryDirectory() as folder,
        Repositories(
            Path(folder),
            {"kata/*": str(kata), **mapping},
            is_offline=project.settings.offline,
            is_passing=True,
        ) as mirrors,
    ):
        try:
            repository = mirrors.open(repo)
            with suppress(StateError):  # without the commit, what the recording shows may tell
                mirrors.open(repo, base or trajectory.base_commit)
            wanted = None if base else known.base(id_)
            with suppress(StateError):
                mirrors.open(repo, wanted.commit if wanted else None)
        except StateError as error:
            raise InputError(str(error)) from error
        placed = merged(msgspec.structs.replace(trajectory, repo=repo), found.runs)
        if trajectory.format == FORMAT:
            done = branch_replay(placed, id_, repository)
        else:
            done = replay(placed, id_, repository, base or known.base_for(id_, repository), reruns=reruns)
        done = known.stated(done)
        yield RunStates(id_, trajectory, list(done.rows()), done.verdict_row(), repository)
