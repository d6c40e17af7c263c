"""Replay: a recorded trajectory into one git tree per step, and a verdict on each (``docs/science.md §2``).

Edits are carried out in memory on the base commit (``effects``); what the recording shows of files on the way is
compared (``checkpoints``); the end is compared with the recorded patch. Then all trajectories of a repository are
written at once (``importer``). Nothing is executed and nothing is guessed:

- ``verified``: the end is the recorded patch (or, without one, what full reads show of every changed file), no
  checkpoint disagrees, and every file changed so far is covered by that evidence;
- ``divergent``: from the first step whose result contradicts the recording, which the reason names with the file;
- ``partial``: while some file is unknown or covered by no evidence; the reason lists the files;
- ``unverifiable``: nothing in the recording confirms the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from handoff.actions import (
    Install,
    Opaque,
    Operation,
    Run,
    Validate,
    context_of,
    did_not_happen,
    interpret,
    resolve,
)
from handoff.states.base import Base, find_base, preimages
from handoff.states.checkpoints import agrees, shown
from handoff.states.editors import Misfit
from handoff.states.effects import EVERYTHING, Effects
from handoff.states.importer import Chain, FileState, write_chains
from handoff.states.objects import object_id
from handoff.states.patches import FilePatch, apply_file, parse_unified, stripped
from handoff.states.repositories import Repository
from handoff.states.verdict import Category, Divergence, OpaqueStep, Replay, Status, StepState, unverifiable
from handoff.states.working import WorkingFiles
from handoff.trajectory import Action, Observation, Step, Trajectory

_LISTED = 5
"""Files named in a reason."""
_NO_OBSERVATION = Observation(missing="none")
_PICKED_PATHS = re.compile(r"git diff\b[^|;&\n]*(?: -- |\s[\w./-]+\.\w+)")


def replay(
    trajectory: Trajectory, trajectory_id: str, repository: Repository, base_commit: str | None = None
) -> Replay:
    """The states of one trajectory, stored in ``repository``.

    ``base_commit``: overrides the recording's. ``StateError`` when the repository lacks it.
    """
    if base_commit is not None:
        base_commit = repository.commit_id(base_commit)
    return replay_all([(trajectory_id, trajectory)], repository, base_commits={trajectory_id: base_commit})[0]


def replay_all(
    pairs: Iterable[tuple[str, Trajectory]],
    repository: Repository,
    *,
    base_commits: Mapping[str, str | None] | None = None,
) -> list[Replay]:
    """The states of many (id, trajectory) of one repository, in order, written by one ``git fast-import``.

    A trajectory whose base commit is neither named, given in ``base_commits`` nor found comes out ``unverifiable``
    without trees; it stops no other.
    """
    drafts: list[_Draft] = []
    for trajectory_id, trajectory in pairs:
        given = (base_commits or {}).get(trajectory_id)
        base = Base(repository.commit_id(given), "given") if given else find_base(trajectory, repository)
        drafts.append(_Draft(trajectory_id, trajectory, repository, base))
    chains = [draft.chain() for draft in drafts if draft.base is not None]
    written = {item.trajectory_id: item.states for item in write_chains(repository, chains)} if chains else {}
    return [draft.finish(written.get(draft.trajectory_id)) for draft in drafts]


class _Draft:
    """One trajectory between replaying and writing."""

    def __init__(self, trajectory_id: str, trajectory: Trajectory, repository: Repository, base: Base | None) -> None:
        self.trajectory_id = trajectory_id
        self.trajectory = trajectory
        self.base = base
        self._changes: list[dict[str, FileState]] = []
        self._states: list[StepState] = []
        self._run: _Run | None = None
        if base is not None:
            self._run = _Run(trajectory, repository, repository.tree_of(base.commit))
            self._changes = self._run.changes
            self._states = list(self._run.verdicts())

    def chain(self) -> Chain:
        """What is to be written."""
        assert self.base is not None
        return Chain(self.trajectory_id, self.base.commit, list(self._changes))

    def finish(self, written: list[tuple[str, str]] | None) -> Replay:
        """The finished replay, with the ids of what was written."""
        count = len(self.trajectory.steps) + 1
        if self.base is None or written is None or self._run is None:
            named = self.trajectory.base_commit
            reason = (
                f"the repository has no commit {named!r}, and the recorded patch fits no commit of it; "
                "map the repository to one that has the base commit"
                if named
                else "the recording names no base commit, and its patch pins none; give the commit"
            )
            format, repo = self.trajectory.format, self.trajectory.repo
            return unverifiable(self.trajectory_id, format, repo, count - 1, "no_base", reason)
        run = self._run
        last = self._states[-1]
        status: Status = "divergent" if run.divergence else last.status
        found = f"base commit {self.base.evidence}; " if self.base.evidence.startswith("found") else ""
        return Replay(
            trajectory_id=self.trajectory_id,
            format=self.trajectory.format,
            repo=self.trajectory.repo,
            base=self.base.commit,
            base_evidence=self.base.evidence,
            status=status,
            category=run.category(status),
            reason=found + last.reason,
            commits=tuple(written[state.position][0] for state in self._states),
            trees=tuple(written[state.position][1] for state in self._states),
            statuses=tuple(state.status for state in self._states),
            reasons=tuple(found + state.reason for state in self._states),
            divergence=run.divergence,
            is_derivable=not run.opaque,
            opaque=run.opaque,
            checkpoints=run.checkpoints,
            full_reads=run.full_reads,
        )


class _Run:
    """Carries out every step and collects evidence."""

    def __init__(self, trajectory: Trajectory, repository: Repository, base_tree: str) -> None:
        self._trajectory = trajectory
        self._files = WorkingFiles(repository, base_tree)
        self._effects = Effects(self._files)
        self._context = context_of(trajectory.format, trajectory.source)
        self.changes: list[dict[str, FileState]] = []
        self._position: list[int] = [0]
        """By step: how many changing steps there were."""
        self._unknown: list[dict[str, str]] = [{}]
        self._changed_at: dict[str, int] = {}
        """Path → last step that changed it."""
        self._first_change: dict[str, int] = {}
        self._read_at: dict[str, int] = {}
        """Path → last step where a full read agreed."""
        self.divergence: Divergence | None = None
        self._suspicions: dict[int, str] = {}
        """Step → why it may, or may not, have changed files in a way the text does not tell."""
        self.checkpoints = 0
        self.full_reads = 0
        self._has_patch = False
        self._is_over = False
        self._programs: list[int] = []
        """Steps that ran a program."""
        stated = preimages(trajectory.outcome.patch)
        self._known_at_base = {path for path, blob in stated.items() if self._is_base(path, blob)}
        for number, step in enumerate(trajectory.steps, 1):
            self._step(number, step)
        self._is_over = True
        self._confirmed = self._confirm_end()
        self._blame_suspicions()

    # -- going forward --------------------------------------------------------------------------

    def _step(self, number: int, step: Step) -> None:
        before = dict(self._files.differing)
        for place, action in enumerate(step.actions):
            observation = step.observations[place] if place < len(step.observations) else _NO_OBSERVATION
            self._act(number, action, observation, before)
        change = self._note_changes(number, before)
        if change:
            self.changes.append(change)
        self._position.append(len(self.changes))
        self._unknown.append(dict(self._effects.unknown))

    def _act(self, number: int, action: Action, observation: Observation, before: dict[str, FileState]) -> None:
        operations, self._context = interpret(action, self._context, observation)
        happened = observation.missing != "not_executed" and not did_not_happen(action, observation)
        if happened:
            for operation in operations:
                if isinstance(operation, Run | Validate | Install):
                    self._programs.append(number)
                if isinstance(operation, Opaque) and operation.is_possible:
                    self._suspicions.setdefault(number, operation.reason)
                try:
                    self._effects.carry_out(operation)
                except Misfit as misfit:
                    path = str(misfit.args[1]) if len(misfit.args) > 1 else ""
                    self._diverge(number, path, f"the recorded edit does not fit: {misfit.args[0]}")
            if observation.missing in ("aborted", "none"):
                touched = [p for p, s in self._files.differing.items() if p not in before or before[p] != s]
                if touched:
                    self._effects.forget("nothing says whether this edit was carried out", tuple(sorted(touched)))
        self._note_changes(number, before)
        self._check(number, operations, observation)

    def _note_changes(self, number: int, before: dict[str, FileState]) -> dict[str, FileState]:
        change: dict[str, FileState] = {}
        for path, state in self._files.differing.items():
            old = before[path] if path in before else self._files.base(path)
            if state != old:
                change[path] = state
                self._changed_at[path] = number
                self._first_change.setdefault(path, number)
        return change

    def _check(self, number: int, operations: tuple[Operation, ...], observation: Observation) -> None:
        if observation.exit_code not in (None, 0) or not observation.text or observation.is_orphan:
            return
        for seen in shown(operations, observation.text):
            path = self._inside(seen.path)
            if not path or self._effects.is_unknown(path):
                continue
            data = self._files.read(path)
            if data is None:
                continue  # a file the repository does not track: built, or ignored
            verdict = agrees(seen, data)
            if verdict is None:
                continue
            if not verdict:
                self._diverge(self._changed_at.get(path, 0), path, f"the file shown at step {number} is another one")
                continue
            self.checkpoints += 1
            if seen.is_whole:
                self.full_reads += 1
                self._read_at[path] = number

    def _is_base(self, path: str, blob: str) -> bool:
        return self._is_blob(self._base_bytes(path), blob)

    def _inside(self, path: str) -> str | None:
        """A shown path as one of the repository: relative to the working folder, or below a known prefix."""
        return self._files.locate(resolve(path, self._context))

    def _diverge(self, step: int, path: str, problem: str) -> None:
        now = len(self._position) - 1 + (not self._is_over)
        proven = self._proven(path)
        ran = [number for number in self._programs if proven is not None and proven < number <= now]
        if ran:  # the file was right, then programs ran, then it was another: one of them changed it
            reason = f"changed by a program run between step {proven} and step {now}"
            for unknown in self._unknown[ran[0] :]:
                unknown.setdefault(path, reason)
            self._effects.unknown.setdefault(path, reason)
            return
        if self.divergence is None or step < self.divergence.step:
            self.divergence = Divergence(step, path, problem, now)

    def _proven(self, path: str) -> int | None:
        """The last step where the recording proves the whole content of ``path``, if nothing was derived since."""
        changed = self._changed_at.get(path, 0)
        if (read := self._read_at.get(path, -1)) >= changed:
            return read
        return 0 if changed == 0 and path in self._known_at_base else None

    # -- the end --------------------------------------------------------------------------------

    def _confirm_end(self) -> frozenset[str]:
        """Files whose final content the recording confirms. Contradictions become divergences."""
        by_reads = {path for path, step in self._read_at.items() if step >= self._changed_at.get(path, 0)}
        patch = self._trajectory.outcome.patch or ""
        try:
            files = parse_unified(patch) if patch.strip() else []
        except Misfit:
            files = []
        named = {path: file for file in files for path in _paths(file)}
        final = self._files.changed()
        if not named or (final and not named.keys() & (final.keys() | self._effects.unknown.keys())):
            return frozenset(by_reads)  # no patch, or the patch of another task
        self._has_patch = True
        confirmed = set(by_reads)
        for file in files:
            confirmed |= self._compare(file)
        picked = any(_PICKED_PATHS.search(a.arguments) for step in self._trajectory.steps for a in step.actions)
        for path in sorted(self._changed_at.keys() - named.keys()):
            state = self._files.get(path)
            if state == self._files.base(path):
                confirmed.add(path)  # back to what the base holds, as the patch says
            elif self._files.base(path) is not None and not picked and not self._effects.is_unknown(path):
                self._diverge(self._changed_at[path], path, "the recorded patch leaves this file as it was")
        return frozenset(confirmed)

    def _blame_suspicions(self) -> None:
        """A contradiction after a step that may have changed files says that it did: nothing is known from there on."""
        found = self.divergence
        earlier = [step for step in sorted(self._suspicions) if found and step <= found.seen_at]
        if found is None or not earlier:
            return
        self.divergence = None
        for step in range(earlier[0], len(self._unknown)):
            reason = f"{self._suspicions[earlier[0]]} at step {earlier[0]}; later {found.path} is not what was derived"
            self._unknown[step].setdefault(EVERYTHING, reason)
        self._effects.unknown.setdefault(EVERYTHING, self._unknown[-1][EVERYTHING])

    def _compare(self, file: FilePatch) -> set[str]:
        """Hold one file of the recorded patch against the final state."""
        paths = _paths(file)
        if any(self._effects.is_unknown(path) for path in paths):
            return set()
        path = paths[-1]
        try:
            wanted = {change.path: change.data for change in apply_file(file, self._base_bytes)}
        except Misfit as misfit:
            if file.after is None or set(file.after) == {"0"}:
                self._diverge(0, path, f"the recorded patch does not fit the base commit: {misfit.args[0]}")
                return set()
            wanted = {}
        if file.before and set(file.before) != {"0"} and not self._is_blob(self._base_bytes(paths[0]), file.before):
            self._diverge(0, paths[0], "the base commit holds another version of this file than the recorded patch")
            return set()
        state = self._files.get(path)
        data = None if state is None else state[1]
        if path in wanted and wanted[path] == data and file.after is None:
            same = True
        elif file.after is not None and data is not None:
            same = self._is_blob(data, file.after)
        else:
            same = path in wanted and wanted[path] == data
        if same and state is not None and file.mode is not None:
            same = state[0] == file.mode
        if not same:
            step = self._changed_at.get(path, len(self._trajectory.steps))
            self._diverge(step, path, "the final content is not that of the recorded patch")
            return set()
        return set(paths)

    def _base_bytes(self, path: str) -> bytes | None:
        state = self._files.base(path)
        return None if state is None else state[1]

    @staticmethod
    def _is_blob(data: bytes | None, prefix: str) -> bool:
        return data is not None and object_id("blob", data).startswith(prefix)

    # -- the verdict ----------------------------------------------------------------------------

    @property
    def opaque(self) -> tuple[OpaqueStep, ...]:
        """Steps whose effect cannot be derived."""
        found = []
        for step in range(1, len(self._unknown)):
            new = {p: why for p, why in self._unknown[step].items() if p not in self._unknown[step - 1]}
            if new:
                paths = () if EVERYTHING in new else tuple(sorted(new))
                found.append(OpaqueStep(step, new[min(new)], paths))
        return tuple(found)

    def category(self, status: Status) -> Category:
        """Why the run has this verdict."""
        if status == "verified":
            return "verified"
        if self.divergence:
            return self.divergence.category
        if status == "partial":
            return "opaque_step" if self.opaque else "unconfirmed"
        return "no_evidence"

    def verdicts(self) -> Iterator[StepState]:
        """One verdict per step, 0 to n."""
        unconfirmed = sorted(self._first_change.keys() - self._confirmed, key=lambda p: (self._first_change[p], p))
        everything = EVERYTHING in self._effects.unknown
        has_evidence = self._has_patch or bool(self._read_at)
        proof = "the recorded patch is reproduced" if self._has_patch else "full reads show every changed file"
        for step, position in enumerate(self._position):
            unknown = self._unknown[step]
            if self.divergence and step >= self.divergence.step:
                d = self.divergence
                yield StepState(position, "divergent", f"step {d.step}, {d.path or 'no file named'}: {d.problem}")
            elif unknown:
                yield StepState(position, "partial", _unknown_reason(unknown))
            elif self.divergence:
                d = self.divergence
                reason = f"the run diverges at step {d.step} ({d.path}); nothing proves the steps before it"
                yield StepState(position, "unverifiable", reason)
            elif not has_evidence or everything:
                reason = (
                    "a later step may have changed any file, so the end proves nothing"
                    if everything
                    else "the recording offers neither a patch of these files nor a full read"
                )
                yield StepState(position, "unverifiable", reason)
            else:
                open_files = [path for path in unconfirmed if self._first_change[path] <= step]
                if open_files:
                    reason = f"nothing in the recording confirms {_listed(open_files)}"
                    yield StepState(position, "partial" if self._has_patch else "unverifiable", reason)
                else:
                    reason = f"{proof}; {self.checkpoints} texts of files agree, {self.full_reads} of whole files"
                    yield StepState(position, "verified", reason)


def _paths(file: FilePatch) -> list[str]:
    """The old and new path of a patched file, without ``a/`` and ``b/``; the last one is where it ends."""
    found: list[str] = []
    for path in (file.old_path, file.new_path):
        if path is not None and "/" in path:
            plain = stripped(path, 1)
            if plain and plain not in found:
                found.append(plain)
    return found


def _unknown_reason(unknown: Mapping[str, str]) -> str:
    why = unknown[min(unknown)]
    if EVERYTHING in unknown:
        return f"any file may have changed: {unknown[EVERYTHING]}"
    return f"content not known of {_listed(sorted(unknown))}: {why}"


def _listed(paths: list[str]) -> str:
    more = len(paths) - _LISTED
    return ", ".join(paths[:_LISTED]) + (f" and {more} more" if more > 0 else "")
