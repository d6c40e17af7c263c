"""Replay: a recorded trajectory into one git tree per step, and a verdict on each (``docs/science.md §2``).

A recording is carried out in memory on its base commit (``walk``), what no text tells is taken from later evidence
(``recovery``), the verdicts are given (``judge``), and the trees of many trajectories are written at once
(``importer``). Nothing is guessed, and nothing is executed unless the caller brings a way to do so:

- ``verified``: the end is the recorded patch (or, without one, what the recording shows whole of every changed file),
  nothing disagrees, and every file changed so far is proven as it was at that step;
- ``divergent``: from the first step whose result contradicts the recording, which the reason names with the file;
- ``partial``: while some file is unknown or covered by no evidence; the reason lists the files;
- ``unverifiable``: nothing in the recording confirms the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from handoff.errors import StateError
from handoff.git.importer import Chain, FileState, write_chains
from handoff.git.repositories import Repository
from handoff.git.unheld import unheld
from handoff.states.base import Base, find_base, find_result
from handoff.states.family import merged
from handoff.states.proof.judge import Judgement, judge
from handoff.states.proof.recovery import recovered
from handoff.states.proof.verdict import Category, OpaqueStep, Recovery, Replay, unverifiable
from handoff.states.walk import Gap, Pin, Rerunner, Walk
from handoff.trajectory import Trajectory

__all__ = ["Reruns", "replay", "replay_all"]

Reruns = Callable[[Repository, str, Trajectory], Rerunner | None]
"""Gives, for the repository, the base commit and the run, a way to execute its steps again; ``None``: there is none."""

_BATCH_BYTES = 32 << 20
_BATCH_RUNS = 500
"""What is held in memory before it is written: bytes of changed files, and runs."""


def replay(
    trajectory: Trajectory,
    trajectory_id: str,
    repository: Repository,
    base_commit: str | Base | None = None,
    *,
    reruns: Reruns | None = None,
) -> Replay:
    """The states of one trajectory, stored in ``repository``.

    ``base_commit``: overrides the recording's. ``StateError`` when the repository lacks it.
    """
    if isinstance(base_commit, str):
        base_commit = repository.commit_id(base_commit)
    bases = {trajectory_id: base_commit}
    return next(replay_all([(trajectory_id, trajectory)], repository, base_commits=bases, reruns=reruns))


def replay_all(
    pairs: Iterable[tuple[str, Trajectory]],
    repository: Repository,
    *,
    base_commits: Mapping[str, str | Base | None] | None = None,
    reruns: Reruns | None = None,
    children: Mapping[str, Sequence[Trajectory]] | None = None,
) -> Iterator[Replay]:
    """The states of many (id, trajectory) of one repository, in order, written in batches of bounded size.

    A trajectory whose base commit is neither named, given in ``base_commits`` nor found comes out ``unverifiable``
    without trees; it stops no other. With ``reruns``, steps whose effect no text tells are executed again.
    ``children``: session of a run → its subagents' runs, whose edits belong to its states (``family``); a run whose
    ``parent`` is a key there has no states of its own.
    """
    drafts: list[_Draft | _Unbegun] = []
    held = 0
    for trajectory_id, trajectory in pairs:
        given = (base_commits or {}).get(trajectory_id)
        if children and trajectory.parent in children:
            reason = f"the run of a subagent: its edits are part of the states of session {trajectory.parent}"
            drafts.append(_Unbegun(trajectory_id, trajectory, "subagent", reason))
            continue
        if children and (own := children.get(trajectory.session or "")):
            trajectory = merged(trajectory, own)
        drafts.append(_draft(trajectory_id, trajectory, repository, given, reruns))
        held += drafts[-1].size
        if held > _BATCH_BYTES or len(drafts) >= _BATCH_RUNS:
            yield from _written(repository, drafts)
            drafts, held = [], 0
    yield from _written(repository, drafts)


def _written(repository: Repository, drafts: Sequence[_Draft | _Unbegun]) -> Iterator[Replay]:
    chains = [chain for draft in drafts if (chain := draft.chain()) is not None]
    refused: dict[str, str] = {}
    written: dict[str, list[tuple[str, str]]] = {}
    try:
        written = {item.trajectory_id: item.states for item in write_chains(repository, chains)} if chains else {}
    except StateError:
        for chain in chains:
            try:
                written[chain.trajectory_id] = write_chains(repository, [chain])[0].states
            except StateError as error:
                write_chains(repository, [chain._replace(changes=[])])  # raises when it is not the run's fault
                refused[chain.trajectory_id] = f"git cannot store these states: {error}"
    for draft in drafts:
        if draft.trajectory_id in refused:
            yield draft.refused(refused[draft.trajectory_id])
        else:
            yield draft.finish(written.get(draft.trajectory_id))


class _Draft:
    """One replay between walking and writing: all of it but the ids of trees."""

    def __init__(
        self,
        trajectory_id: str,
        trajectory: Trajectory,
        base: Base,
        judgement: Judgement,
        walk: Walk,
        recoveries: tuple[Recovery, ...],
        unheld_counts: tuple[int, int],
    ) -> None:
        self.trajectory_id = trajectory_id
        self._format = trajectory.format
        self._repo = trajectory.repo
        self._steps = len(trajectory.steps)
        self._base = base
        self._changes: list[dict[str, FileState]] = walk.changes
        self._judgement = judgement
        self._divergence = walk.divergence
        self._opaque = tuple(sorted(set(walk.opaque), key=_in_order))
        self._recoveries = recoveries
        self._checked = tuple(walk.checked_steps)
        self._full_reads = walk.full_reads
        self._unheld = unheld_counts
        self.size = sum(len(state[1]) for change in walk.changes for state in change.values() if state is not None)
        """Bytes of changed files that it holds."""

    @property
    def _starts_elsewhere(self) -> bool:
        """Whether the recording shows that it did not begin at its base: what else was changed before is not told."""
        found = self._divergence
        return found is not None and found.step == 0 and found.category != "edit_misfit"

    def chain(self) -> Chain:
        """What is to be written."""
        return Chain(self.trajectory_id, self._base.commit, list(self._changes))

    def refused(self, reason: str) -> Replay:
        """The replay without states, because they cannot be stored."""
        return unverifiable(self.trajectory_id, self._format, self._repo, self._steps, "no_repository", reason)

    def finish(self, written: list[tuple[str, str]] | None) -> Replay:
        """The finished replay, with the ids of what was written."""
        assert written is not None
        states = self._judgement.states
        found = f"base commit {self._base.evidence}; " if self._base.evidence.startswith("found") else ""
        return Replay(
            trajectory_id=self.trajectory_id,
            format=self._format,
            repo=self._repo,
            base=self._base.commit,
            base_evidence=self._base.evidence,
            status=self._judgement.status,
            category=self._judgement.category,
            reason=found + self._judgement.reason,
            commits=tuple(written[state.position][0] for state in states),
            trees=tuple(written[state.position][1] for state in states),
            statuses=tuple(state.status for state in states),
            reasons=tuple(found + state.reason for state in states),
            derived=tuple(state.is_derived for state in states),
            divergence=self._divergence,
            is_derivable=not self._opaque and self._judgement.is_watched and not self._starts_elsewhere,
            opaque=self._opaque,
            recoveries=self._recoveries,
            checkpoints=len(self._checked),
            checked_steps=self._checked,
            full_reads=self._full_reads,
            submodules=self._unheld[0],
            lfs_pointers=self._unheld[1],
        )


def _in_order(item: OpaqueStep) -> tuple[int, tuple[str, ...], str]:
    return item.step, item.paths, item.reason


class _Unbegun:
    """A run that could not be replayed."""

    def __init__(self, trajectory_id: str, trajectory: Trajectory, category: Category, reason: str) -> None:
        self.trajectory_id = trajectory_id
        self.size = 0
        """It holds nothing."""
        steps = len(trajectory.steps)
        self._replay = unverifiable(trajectory_id, trajectory.format, trajectory.repo, steps, category, reason)

    def chain(self) -> Chain | None:
        """Nothing is to be written."""
        return None

    def refused(self, reason: str) -> Replay:
        """As ``finish``: there was nothing to store."""
        return self._replay

    def finish(self, written: list[tuple[str, str]] | None) -> Replay:
        """Why it could not be begun."""
        return self._replay


def _draft(
    trajectory_id: str,
    trajectory: Trajectory,
    repository: Repository,
    given: str | Base | None,
    reruns: Reruns | None,
) -> _Draft | _Unbegun:
    if isinstance(given, str):
        given = Base(repository.commit_id(given), "given")
    base = given or find_base(trajectory, repository)
    if base is None:
        return _Unbegun(trajectory_id, trajectory, "no_base", _why_no_base(trajectory))
    tree = repository.tree_of(base.commit)
    rerun = reruns(repository, base.commit, trajectory) if reruns is not None else None
    rerun_at: set[int] = set()

    def walked(pins: Sequence[Pin], late: Sequence[Gap]) -> tuple[Walk, Judgement]:
        walk = Walk(
            trajectory,
            repository,
            tree,
            base_commit=base.commit,
            pins=pins,
            late=late,
            rerun=rerun,
            rerun_at=rerun_at,
        )
        return walk, judge(walk, result)

    try:
        repository.prefetch(tree)
        result = _result(trajectory, repository)
        missing = unheld(repository, tree)
        walk, judgement, recoveries = recovered(*walked((), ()), walked)
        if rerun is not None and (still_open := {gap.step for gap in walk.gaps if walk.unknown[gap.step]}):
            rerun_at |= still_open  # only what no evidence of the recording tells
            walk, judgement, recoveries = recovered(*walked((), ()), walked)
    except StateError as error:  # files that this store lacks and that cannot be fetched
        return _Unbegun(trajectory_id, trajectory, "no_repository", str(error))
    counts = (len(missing.submodules), len(missing.lfs_pointers))
    return _Draft(trajectory_id, trajectory, base, judgement, walk, recoveries, counts)


def _result(trajectory: Trajectory, repository: Repository) -> str | None:
    """The tree of the commit that the run led to, where it is known."""
    commit = find_result(trajectory, repository)
    return None if commit is None else repository.tree_of(commit)


def _why_no_base(trajectory: Trajectory) -> str:
    named = trajectory.base_commit
    if named:
        return (
            f"{trajectory.repo or 'the repository'} has no commit {named!r}, and the recorded patch fits no commit of "
            "it; map the repository to one that has the base commit"
        )
    return "the recording names no base commit, and its patch pins none; name it in a file for --instances"
