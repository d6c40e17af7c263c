"""One recording carried out on its base commit, step by step.

Operations change the files (``effects``, shell lines by ``shell``), and everything that the recording shows is held
against them on the way (``watching``). ``recovery`` finds how far back a later proof holds and walks again with *pins*.
What follows from it all is decided in ``judge``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from handoff.actions import (
    Context,
    EditLines,
    InsertLines,
    Install,
    ListFiles,
    Opaque,
    Operation,
    Read,
    Replace,
    ReplaceEach,
    Run,
    Search,
    Validate,
    WriteFile,
    changed_paths,
    did_not_happen,
    interpret,
)
from handoff.actions.outcomes import may_have_begun
from handoff.actions.paths import settled
from handoff.actions.tools import shell_line
from handoff.editors.editing import edited
from handoff.editors.plain import Misfit, Unknowable
from handoff.git.importer import FileState
from handoff.git.repositories import Repository
from handoff.states import rewrites
from handoff.states.effects import EVERYTHING
from handoff.states.proof import checkpoints
from handoff.states.proof.verdict import OpaqueStep
from handoff.states.proof.watching import ABSENT, Fact, Gap, Moment, Watching
from handoff.states.shell import run_line
from handoff.states.shell.git_diff import digits_shown
from handoff.states.typed import UNCLEAR, as_typed
from handoff.states.unwatched import unwatched
from handoff.states.versions import is_covered
from handoff.trajectory import Action, Observation, Step, Trajectory

__all__ = ["NOT_TOLD", "Fact", "Gap", "Moment", "Pin", "Rerunner", "Walk"]

_NO_OBSERVATION = Observation(missing="none")
_LOOKING = (Read, Search, ListFiles)
"""Operations that leave files as they are."""
NOT_TOLD = "nothing says whether this edit was carried out"
"""The reason for a file that an unanswered call may have changed."""


class Pin(NamedTuple):
    """A content that a file has after an action. ``lifts``: ``path`` is a folder, or ``EVERYTHING``, and what is not
    known of it by itself is as it was."""

    moment: int
    path: str
    state: FileState
    fact: Fact
    lifts: bool = False


Rerunner = Callable[[Mapping[str, FileState], str, Context, Observation], Mapping[str, FileState] | None]
"""Executes a shell line again: what differs from the base before it, the line, its context, what it had answered. Gives
the files that it changed; ``None`` where it cannot be run, or answers otherwise."""


class Walk(Watching):
    """One way through a recording. Everything is there once it is made. ``rerun_at``: opaque steps to execute again."""

    def __init__(
        self,
        trajectory: Trajectory,
        repository: Repository,
        base_tree: str,
        *,
        base_commit: str | None = None,
        pins: Sequence[Pin] = (),
        late: Sequence[Gap] = (),
        rerun: Rerunner | None = None,
        rerun_at: Collection[int] = (),
    ) -> None:
        super().__init__(trajectory, repository, base_tree, base_commit)
        self._pins: dict[int, list[Pin]] = {}
        for pin in pins:
            self._pins.setdefault(pin.moment, []).append(pin)
        self.late += late
        self._rerun = rerun
        self._rerun_at = rerun_at
        if trajectory.continues is not None and not trajectory.copied_steps:
            self._suspect(f"the session {trajectory.continues!r}, which this one goes on from,")
        texts = (observation.text for step in trajectory.steps for observation in step.observations)
        self.effects.id_digits = digits_shown(texts, repository, base_tree)
        for number, step in enumerate(trajectory.steps, 1):
            self._take(number, step)
        self._step = len(trajectory.steps)

    # -- one step ---------------------------------------------------------------------------------

    def _take(self, number: int, step: Step) -> None:
        self._step = number
        steps = self.trajectory.steps
        if number > 1 and steps[number - 2].boundary in ("resume", "commit"):
            self._suspect("between two sittings, before this step,")
        before = dict(self.files.differing)
        for place, action in enumerate(step.actions):
            observation = step.observations[place] if place < len(step.observations) else _NO_OBSERVATION
            self._act(action, observation)
        for message in step.after:
            self._hear_of_changes(message.text)
        change = {}
        for path, state in self.files.differing.items():
            old = before[path] if path in before else self.files.base(path)
            if state != old:
                change[path] = state
        if change:
            self.changes.append(change)
        self.positions.append(len(self.changes))
        self.unknown.append(dict(self.effects.unknown))

    def _act(self, action: Action, observation: Observation) -> None:
        before = settled(self._context, action.arguments)
        typed = as_typed(action, observation)
        line = None if typed is None else shell_line(typed, before)
        operations, self._context = interpret(typed or action, before, observation)
        if typed is None:
            operations = (Opaque(reason=UNCLEAR),)
        happened = observation.missing != "not_executed" and not did_not_happen(action, observation)
        if line is not None and not happened:
            self._context = before
        self.moments.append(Moment(self._step, operations, happened, line is not None))
        if line is not None:
            self._heed_git(line[0])
        named = [path for operation in operations for path in changed_paths(operation)]
        if all(isinstance(operation, _LOOKING) for operation in operations):
            reads = [operation.path for operation in operations if isinstance(operation, Read)]
            self._hold(self._noted.read, action, reads, shown=False)
        else:
            self._hold(self._noted.before, action, named, shown=False)
            self._hold_deleted(action)
            known, start = dict(self.effects.unknown), dict(self.files.differing)
            if happened and line is not None:
                after = self._run_line(line, operations, observation)
                if after is not None and line[1] is before:  # a line with a folder of its own leaves the shell's alone
                    self._context = msgspec.structs.replace(self._context, cwd=after.cwd, prefixes=after.prefixes)
            elif happened:
                self._carry_out(operations)
            if happened:
                self._heed_programs(operations)
                self._heed_names(start)
            elif observation.missing != "not_executed":
                doubted = tuple(each for each in operations if not self._is_refusal_due(each))
                self._touch(start, doubted, None)
                if may_have_begun(observation):
                    self._heed_begun(doubted)
                self.histories.mark_doubtful(len(self.moments))
            if happened and observation.missing == "none":
                self._forget_changed(start, NOT_TOLD)
            if happened and _is_redacted(action):
                self._forget_changed(start, "a publisher replaced something in the text of this edit")
            self._note_gaps(known, start, line, observation)
            if happened:
                self._hold(self._noted.after, action, named, shown=True)
                self._hold_hunks(action, named, start)
                self._hold_changes(action, start)
                if line is None:
                    self._hold_answer(observation, named)
        for gap in self.late:
            if gap.moment == len(self.moments):
                if gap.suspects:
                    self._suspect(gap.reason)
                self.effects.forget(gap.reason, (gap.place or ".",))
                self._note_gap(gap)
        for pin in self._pins.get(len(self.moments), ()):
            self._apply(pin)
        if happened:  # a refusal is no text of a file
            self._look(operations, observation, line)
        self._hear_of_changes(observation.text)

    def _run_line(
        self, line: tuple[str, Context], operations: tuple[Operation, ...], observation: Observation
    ) -> Context | None:
        """The context of the shell's next line, where it is known."""
        start = dict(self.files.differing)
        after: Context | None = None
        try:
            ran = run_line(self.effects, *line, observation)
        except Misfit as misfit:
            self._misfit(misfit)
        else:
            after = ran.context
            if ran.has_run_programs:
                self._programs.append((len(self.moments), self._step))
            if ran.suspicion is not None:
                self._suspect(ran.suspicion)
        changing = [operation for operation in operations if changed_paths(operation)]
        self._touch(start, operations, changing[0] if len(changing) == 1 else None)
        return after

    def _carry_out(self, operations: tuple[Operation, ...]) -> None:
        for operation in operations:
            if isinstance(operation, Run | Validate | Install):
                self._programs.append((len(self.moments), self._step))
            if isinstance(operation, Opaque) and operation.is_possible:
                self._suspect(operation.reason)
            start = dict(self.files.differing)
            try:
                self.effects.carry_out(operation)
            except Misfit as misfit:
                self._misfit(misfit)
            self._touch(start, (operation,), operation)

    def _heed_begun(self, operations: Iterable[Operation]) -> None:
        """A call that failed, or was stopped, may have done a part of what it does: made a file, changed any."""
        for operation in operations:
            paths = changed_paths(operation)
            if isinstance(operation, Opaque) and (operation.is_possible or not paths):
                self._suspect(f"{operation.reason}, which did not end well,")
            for named in paths:
                place = self.files.locate(named)
                if place == "" or (place is not None and self.files.is_folder(place)):
                    self._suspect(f"what was to be done in {named!r}, and did not end well,")
                elif place is not None and self.files.get(place) is None and place not in self.histories:
                    self.histories.touch(place, self.files.base(place), None, self._step, len(self.moments), None)

    def _heed_programs(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            if program := unwatched(operation, self._knows_script):
                self.unseen.ran(self._step, program)

    def _heed_names(self, start: Mapping[str, FileState]) -> None:
        """On a disk that does not tell capitals apart, a new file may be one that is there under another name."""
        if not self._context.prefixes or not self._context.prefixes[0].startswith("/Users/"):
            return
        for path, state in list(self.files.differing.items()):
            if path in start or state is None or self.files.base(path) is not None:
                continue
            folder = ""
            for name in path.split("/"):
                like = [each for each in self.files.names(folder) if each != name and _plain(each) == _plain(name)]
                if like:
                    reason = f"the disk may take {like[0]!r} and {name!r} for one name"
                    self.effects.forget(reason, (f"{folder}/{like[0]}".lstrip("/"), path))
                folder = f"{folder}/{name}".lstrip("/")

    def _knows_script(self, path: str) -> bool:
        place = self.files.locate(path)
        return place in self.files.differing if place else path in self.effects.outside

    def _hear_of_changes(self, text: str) -> None:
        """A harness tells that someone else changed a file. When, it does not tell: after what shows it last."""
        for named in rewrites.meanwhile(text):
            place = self.inside(named)
            if not place or self.effects.is_unknown(place):
                continue
            changed, shown = self.changed_at(place), self.shown_at(place)
            since = max(shown + 1 if shown > changed else changed, 1)
            moment = next((at for at, item in enumerate(self.moments, 1) if item.step >= since), len(self.moments))
            reason = f"changed by someone else before the end of step {self._step}"
            self._lose(Gap(moment, min(since, self._step), place, reason, is_certain=False))

    def _suspect(self, reason: str) -> None:
        """The step may have changed any file: what was proven of one no longer is."""
        self.unseen.suspect(self._step, reason)
        self.opaque.append(OpaqueStep(self._step, reason, ()))
        for path in self.histories.paths():
            self.histories.doubt(path, self._step, len(self.moments))

    def _misfit(self, misfit: Misfit) -> None:
        path = str(misfit.args[1]) if len(misfit.args) > 1 else ""
        if path and self._is_unmade(path):
            self._lose_unmade(path, "edited")
            return
        self._diverge(self._step, path, f"the recorded edit does not fit: {misfit.args[0]}", "edit_misfit")

    def _is_refusal_due(self, operation: Operation) -> bool:
        """Whether an editor had to refuse this edit of the files as they are. Another refusal may be wrongly told."""
        match operation:
            case WriteFile(path=path, must_be_new=True):
                place = self.files.locate(path)
                return bool(place) and self.files.get(place or "") is not None
            case Replace(path=path) | ReplaceEach(path=path) | InsertLines(path=path) | EditLines(path=path):
                place = self.files.locate(path)
                data = self.files.read(place) if place and not self.effects.is_unknown(place) else None
                try:
                    return data is not None and edited(operation, data) is None
                except Misfit:
                    return True
                except Unknowable:
                    return False
            case _:
                return False

    def _touch(self, start: Mapping[str, FileState], operations: tuple[Operation, ...], by: Operation | None) -> None:
        """Begin new versions of the files that were changed, and of those that were named."""
        moment = len(self.moments)
        changed = [path for path, state in self.files.differing.items() if start.get(path, ABSENT) is not state]
        for path in changed:
            self._changed_at[path] = self._step
            self.histories.touch(path, self.files.base(path), self.files.get(path), self._step, moment, by)
        for operation in operations:
            for named in changed_paths(operation):
                place = self.files.locate(named)
                if place is None or place in changed:
                    continue
                below = [path for path in self.histories.paths() if not place or path.startswith(f"{place}/")]
                is_file = place and (place in self.histories or self.files.get(place) is not None)
                for path in [*below, *([place] if is_file else [])]:
                    if path not in changed:
                        state = self.files.get(path)
                        self.histories.touch(path, self.files.base(path), state, self._step, moment, by)

    def _forget_changed(self, start: Mapping[str, FileState], reason: str) -> None:
        touched = [path for path, state in self.files.differing.items() if start.get(path, ABSENT) is not state]
        if touched:
            self.effects.forget(reason, tuple(sorted(touched)))

    def _note_gaps(
        self,
        known: Mapping[str, str],
        start: Mapping[str, FileState],
        line: tuple[str, Context] | None,
        observation: Observation,
    ) -> None:
        """Places that became unknown. The step is executed again where that is allowed and gives the same answer."""
        new = {place: why for place, why in self.effects.unknown.items() if place not in known}
        if not new:
            return
        self.opaque.append(OpaqueStep(self._step, new[min(new)], () if EVERYTHING in new else tuple(sorted(new))))
        is_told = observation.missing is None and not observation.is_orphan
        is_asked = self._rerun is not None and self._step in self._rerun_at
        if self._rerun is not None and is_asked and line is not None and not known and is_told:
            changes = self._rerun(dict(start), *line, observation)
            if changes is not None:
                self._take_rerun(start, changes)
                return
        moment = len(self.moments)
        self.gaps += [Gap(moment, self._step, place, why) for place, why in new.items()]

    def _take_rerun(self, start: Mapping[str, FileState], changes: Mapping[str, FileState]) -> None:
        """What a line did when it ran again is what it did."""
        self.effects.unknown.clear()
        for path in sorted({*self.files.differing, *changes}):
            before = start.get(path, self.files.base(path))
            after = changes.get(path, before)
            if path in changes or self.files.get(path) != after:
                fact = Fact(len(self.moments), self._step, path, after, "rerun", True)
                self._know(fact)
                self.reran.append(fact)

    def _apply(self, pin: Pin) -> None:
        if is_covered(pin.path, self.effects.moving):
            return
        if not pin.lifts:
            self._know(pin.fact._replace(state=pin.state))
            return
        why = self.effects.unknown.get(pin.path, "")
        open_files = tuple(path for path in self.histories.paths() if self.effects.is_unknown(path))
        self.effects.unknown.pop(pin.path, None)
        for path in open_files:
            if not self.effects.is_unknown(path):
                self.effects.forget(why, (path,))


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _is_redacted(action: Action) -> bool:
    """Whether a publisher replaced something in the call. Escapes of its text are no letters of a word."""
    text = action.arguments if action.is_text else re.sub(r"\\[ntr]", " ", action.arguments)
    return checkpoints.REDACTED.search(text) is not None
