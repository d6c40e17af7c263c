"""Files while a recording is carried out, held against everything that the recording shows of them.

Texts, diffs and commits that it shows are compared with the files (``checkpoints``, ``gitshown``), and so is what the
harness noted of them. What agrees proves versions (``proofs``); what does not is a contradiction. Where a file is not
known and something shows all of it, it is known again from there on. Carrying steps out is in ``walk``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from handoff.actions import Context, Operation, context_of, resolve
from handoff.actions.operations import patch_paths
from handoff.adapters.claude_files import displayed, left
from handoff.adapters.codex_files import Noted, follows
from handoff.git.importer import FileState
from handoff.git.objects import FILE, SYMLINK
from handoff.git.repositories import Repository
from handoff.states.base import preimages
from handoff.states.effects import Effects
from handoff.states.proof import checkpoints, gitshown
from handoff.states.proof.blame import blamed
from handoff.states.proof.gitshown import BlobShown, is_blob
from handoff.states.proof.proofs import Histories, Version
from handoff.states.proof.unseen import Unseen
from handoff.states.proof.verdict import Category, Divergence, How, OpaqueStep
from handoff.states.shell.disk import Disk
from handoff.states.shell.ignored import is_ignored
from handoff.states.working import WorkingFiles
from handoff.trajectory import Action, Observation, Trajectory

_ANSWER = re.compile(
    r"(?:The file|File created successfully at:?|File updated:|File created:) (/[^\s:'\"]{1,300}?)(?=\.?\s|:|\Z)"
)
"""How editors begin the answer to an edit that they made."""
_HIDES = re.compile(r"--(?:assume-unchanged|skip-worktree)\b|\bsparse-checkout\b|\bcore\.(?:fileMode|autocrlf)\b", re.I)
"""Lines after which git may not list what is changed."""
_STAGES = re.compile(
    r"\bgit\b[^;&|\n]{0,200}\s(?:add|stage|mv|rm|commit\b[^;&|\n]{0,300}\s(?:-[a-zA-Z]*[aio][a-zA-Z]*|--all|--include|--only))\b"
)
"""Lines that tell git to take files as they are: what it commits later is that."""
_RESTORES = re.compile(
    r"\bgit\b[^;&|\n]{0,200}\s(?:checkout|restore|reset|stash|clean|revert|switch|merge|pull|rebase|am|cherry-pick)\b"
)
"""Lines that may put files back to what git holds."""


class Fact(NamedTuple):
    """The whole content of a file that was not known, as the recording shows it."""

    moment: int
    step: int
    path: str
    state: FileState
    how: How
    is_certain: bool
    """False where its mode or its last line feed is taken for granted."""


class Gap(NamedTuple):
    """A place became unknown: a file, a folder, or everything."""

    moment: int
    step: int
    place: str
    reason: str
    is_certain: bool = True
    """False when another action may have been the one that changed it."""
    suspects: bool = False
    """Whether a program did it, which may have changed other files too."""


class Moment(NamedTuple):
    """One action: its step, and what it did as far as its text says."""

    step: int
    operations: tuple[Operation, ...]
    happened: bool
    is_line: bool
    """Whether a shell ran it."""


class _Recorded(msgspec.Struct):
    """What the harness itself noted of files: blob ids by call id (``None``: no file), of texts with line feeds."""

    before: dict[str, str | None] = {}
    """As an edit found the file."""
    after: dict[str, str | None] = {}
    """As it left it, in the form that is displayed: leading tabs are two blanks."""
    read: dict[str, str | None] = {}
    """As a read of the whole file found it."""
    hunks: dict[str, list[list[Any]]] = {}
    """What an edit changed: places, and blob ids of the new lines (``claude_files.left``)."""
    changes: dict[str, dict[str, Noted]] = {}
    """By path what a call changed (``codex_files``)."""


_recorded = msgspec.json.Decoder(_Recorded).decode


class Watching:
    """The files of one run, what is known of them, and what contradicts them."""

    def __init__(
        self, trajectory: Trajectory, repository: Repository, base_tree: str, base_commit: str | None = None
    ) -> None:
        self.trajectory = trajectory
        self.repository = repository
        self.files = WorkingFiles(repository, base_tree, base_commit)
        self.effects = Effects(self.files)
        self.histories = Histories()
        self.changes: list[dict[str, FileState]] = []
        """What each changing step left different."""
        self.positions: list[int] = [0]
        """By step: how many changing steps there were."""
        self.unknown: list[dict[str, str]] = [{}]
        """By step: places that are not known, and why."""
        self.divergence: Divergence | None = None
        self.unseen = Unseen()
        """What may have changed files in a way the text does not tell."""
        self.checked_steps: list[int] = []
        """The step of every text that agrees."""
        self.full_reads = 0
        self.facts: list[Fact] = []
        self.gaps: list[Gap] = []
        self.moments: list[Moment] = []
        self.reran: list[Fact] = []
        """Files that a step executed again left."""
        self.opaque: list[OpaqueStep] = []
        self._programs: list[tuple[int, int]] = []
        """(moment, step) of what ran a program."""
        self._hides = False
        """Whether git was told to overlook changes."""
        self._staged_at = 0
        """The moment of the last line that told git to take files as they are."""
        self._shown_at: dict[str, int] = {}
        """Path → last step that showed the whole file as it was then."""
        self._changed_at: dict[str, int] = {}
        self.late: list[Gap] = []
        """Gaps that only what came later showed."""
        self._step = 0
        self._context = context_of(trajectory.format, trajectory.source)
        self.files.place_of = lambda path: resolve(path, self._context)
        try:
            self._noted = _recorded(trajectory.source)
        except msgspec.DecodeError:
            self._noted = _Recorded()
        self._in_patch = frozenset(patch_paths(trajectory.outcome.patch or "", 1))
        stated = preimages(trajectory.outcome.patch)
        self._known_at_base = {
            path for path, blob in stated.items() if (data := self.base_bytes(path)) is not None and is_blob(data, blob)
        }

    def _know(self, fact: Fact) -> None:
        """A file that was not known is known from here on."""
        state = fact.state
        self.effects.settle(fact.path, state)
        self._changed_at[fact.path] = self._step
        moment = len(self.moments)
        self.histories.touch(fact.path, self.files.base(fact.path), state, self._step, moment, None)

    # -- what the recording shows -----------------------------------------------------------------

    def _hold(self, noted: Mapping[str, str | None], action: Action, paths: Iterable[str], *, shown: bool) -> None:
        """Hold the one file of a call against the blob that the harness noted."""
        if not noted or action.call_id is None or action.call_id not in noted:
            return
        blob = noted[action.call_id]
        places = {place for path in paths if (place := self.files.locate(path))}
        if len(places) != 1:
            return
        self._hold_blob(places.pop(), blob, shown=shown)

    def _hold_blob(self, path: str, blob: str | None, *, shown: bool) -> None:
        if self.effects.is_unknown(path):
            return
        state = self.files.get(path)
        if state is None or blob is None:
            same = state is None and blob is None
        else:
            same = any(is_blob(form, blob) for form in _forms(state[1], shown))
        if same:
            self._confirm(path)
            return
        if self._is_unmade(path):
            self._lose_unmade(path, "found")
            return
        problem = f"the tool noted another content at step {self._step}"
        step = self._step if shown else self._changed_at.get(path, 0)
        self._diverge(step, path, problem, "read_mismatch")

    def _hold_hunks(self, action: Action, paths: Sequence[str], start: Mapping[str, FileState]) -> None:
        """Hold an edit against the hunks that the harness noted: they prove what it left of a file that was proven."""
        hunks = self._noted.hunks.get(action.call_id or "")
        places = {place for path in paths if (place := self.files.locate(path))}
        if not hunks or len(places) != 1:
            return
        path = places.pop()
        before = start.get(path, self.files.base(path))
        after, version = self.files.get(path), self.histories.current(path)
        if self.effects.is_unknown(path) or before is None or after is None or version is None:
            return
        try:
            texts = [state[1].decode().replace("\r\n", "\n") for state in (before, after)]
        except UnicodeDecodeError:
            return
        self._hold_change(path, version, left(hunks, *texts), is_exact=b"\r" not in after[1])

    def _hold_change(self, path: str, version: Version, holds: bool, *, is_exact: bool) -> None:
        if holds:
            self._count(is_whole=False)
            version.follows = is_exact
        else:
            self._diverge(self._step, path, f"the tool noted another change at step {self._step}", "read_mismatch")

    def _noted_changes(self, action: Action) -> Iterator[tuple[str, Noted]]:
        for path, noted in self._noted.changes.get(action.call_id or "", {}).items():
            if place := self.inside(path):
                yield place, noted

    def _hold_deleted(self, action: Action) -> None:
        """Hold files that a call deleted against what the harness noted of them, before the call."""
        for path, noted in self._noted_changes(action):
            if noted.before is not None:
                self._hold_blob(path, noted.before, shown=False)

    def _hold_changes(self, action: Action, start: Mapping[str, FileState]) -> None:
        """Hold every file of a call against what the harness noted: a text, a change of lines, or no file."""
        for path, noted in self._noted_changes(action):
            before = start.get(path, self.files.base(path))
            after, version = self.files.get(path), self.histories.current(path)
            if not noted.hunks:
                self._hold_blob(path, noted.after, shown=False)
            elif not self.effects.is_unknown(path) and before and after and version is not None:
                with suppress(UnicodeDecodeError):
                    holds = follows(noted.hunks, before[1].decode(), after[1].decode())
                    self._hold_change(path, version, holds, is_exact=True)

    def _hold_answer(self, observation: Observation, named: Sequence[str]) -> None:
        """An editor that says which file it changed must mean the one that its call names."""
        answer = _ANSWER.match(observation.text)
        if answer is None or not named:
            return
        said = self.inside(answer[1])
        places = {self.files.locate(path) for path in named}
        if said and None not in places and said not in places:
            path = min(place for place in places if place is not None)
            problem = f"the recorded answer is about another file, {said}"
            self._diverge(self._step, path, problem, "edit_misfit")

    def _look(
        self, operations: tuple[Operation, ...], observation: Observation, line: tuple[str, Context] | None
    ) -> None:
        if observation.is_orphan or observation.missing is not None:
            return
        if line is not None:
            self._look_at_git(line, observation)
        if not observation.text or observation.exit_code not in (None, 0):
            return
        for text in checkpoints.shown(operations, observation.text):
            path = self.files.locate(text.path) if text.is_placed else self.inside(text.path)
            if path and self.files.read(path) is None and not self.effects.is_unknown(path):
                if not text.is_hit and (observation.exit_code == 0 or text.numbered):
                    self._see_unmade(path, text)
            elif path:
                self._see_text(path, text)

    def _is_named(self, path: str) -> bool:
        """Whether a word of git's is a file or folder, now or in the base."""
        place = self.files.locate(path)
        if place is None:
            return path.startswith("/")
        return (
            place == "" or self.files.exists(place) or self.files.is_folder(place) or self.files.base(place) is not None
        )

    def _heed_git(self, line: str) -> None:
        """What a line may have done to git, whatever came of it."""
        if "git" in line:
            self._hides = self._hides or _HIDES.search(line) is not None
            if _RESTORES.search(line) is not None:
                self.unseen.restored(self._step)
            if _STAGES.search(line) is not None:
                self._staged_at = len(self.moments)

    def _look_at_git(self, line: tuple[str, Context], observation: Observation) -> None:
        for seen in gitshown.diffs(*line, observation.text, self._is_named):
            self._see_blob(seen)
        versions = self.effects.versions
        if not self._hides and versions.doubt is None and versions.head == self.files.base_commit:
            listed = gitshown.status(*line, observation.text)
            if listed is not None and (observation.exit_code == 0 or observation.text):
                self._see_status(listed)
        for commit in gitshown.commits_made(line[0], observation.text):
            self._see_commit(commit)

    def _see_status(self, listed: Mapping[str, str]) -> None:
        """What git lists as changed against the base, and what it therefore says is not."""
        for path in self.histories.paths():
            base, state = self.files.base(path), self.files.get(path)
            if base is None and state is None and path not in listed and not is_ignored(Disk(self.effects), path):
                self._confirm(path)
            if base is None or self.effects.is_unknown(path):
                continue
            if state == base and listed.get(path, " ")[0] not in " ?":
                continue  # changed in the index alone
            if (path in listed) == (state != base):
                self._count(is_whole=path not in listed)
                if path not in listed and (version := self.histories.current(path)):
                    version.is_shown, self._shown_at[path] = True, self._step
                continue
            problem = f"git lists it as {'changed' if path in listed else 'unchanged'} at step {self._step}"
            step = self.blamed(path, None if path in listed else base[1])
            self._diverge(step, path, problem, "read_mismatch")
        for path, letters in listed.items():
            place = self.files.locate(path)
            if not place or "M" not in letters or place in self.histories or self.effects.is_unknown(place):
                continue
            if self.files.base(place) is not None:
                reason = f"git lists it as changed at step {self._step}, but nothing in the recording changes it"
                moment, first = self._programs[0] if self._programs else (1, self.moments[0].step)
                self._lose(Gap(moment, first, place, reason, is_certain=False))
        if self._is_told_whole(listed):
            self.unseen.witness(self._step)

    def _is_told_whole(self, listed: Mapping[str, str]) -> bool:
        """Whether git's list holds exactly the files that differ as derived, or are not known."""
        changed = self.files.changed()
        for path in changed:
            if path not in listed and not self.effects.is_unknown(path) and not is_ignored(Disk(self.effects), path):
                return False
        return all(path in changed or self.effects.is_unknown(path) for path in listed)

    def _see_text(self, path: str, seen: checkpoints.Shown) -> None:
        if self.effects.is_unknown(path):
            whole = checkpoints.text_of(seen)
            if whole is not None and self._is_of_repository(path):
                old = self.files.get(path)
                mode = FILE if old is None or old[0] == SYMLINK else old[0]
                is_certain = whole[1] and old is not None
                self._find(Fact(len(self.moments), self._step, path, (mode, whole[0]), "read", is_certain))
            return
        data = self.files.read(path)
        if data is None:
            return
        found = checkpoints.compare(seen, data)
        if found is None:
            return
        if not found.holds:
            problem = f"the file shown at step {self._step} is another one"
            whole = checkpoints.text_of(seen)
            self._diverge(self.blamed(path, whole and whole[0]), path, problem, "read_mismatch", found.hunk)
            if self.effects.is_unknown(path):
                self._see_text(path, seen)
            return
        self._count(is_whole=found.is_whole)
        version = self.histories.current(path)
        if version is not None:
            version.show(found.lines)
            version.is_shown = version.is_shown or found.is_exact
        if found.is_exact:
            self._shown_at[path] = self._step

    def _see_unmade(self, path: str, seen: checkpoints.Shown) -> None:
        """A file is shown that is not there as derived."""
        if self.files.get(path) is not None:
            return  # a link
        if not self._is_unmade(path):
            problem = f"the file shown at step {self._step} is not there"
            self._diverge(self._changed_at.get(path, 0), path, problem, "read_mismatch")
        else:
            self._lose_unmade(path, "shown")
        if self.effects.is_unknown(path):
            self._see_text(path, seen)

    def _is_unmade(self, path: str) -> bool:
        """Whether neither the base nor anything recorded has the file."""
        return self.files.get(path) is None and self.files.base(path) is None and path not in self.histories

    def _lose_unmade(self, path: str, how: str) -> None:
        """Such a file was there before the run or came from something unseen. Ignored ones are no part of a state."""
        if is_ignored(Disk(self.effects), path):
            return
        reason = f"{how} at step {self._step}, but nothing in the recording makes it"
        moment, first = self._programs[0] if self._programs else (1, self.moments[0].step)
        self._lose(Gap(moment, first, path, reason, is_certain=False))

    def _lose(self, gap: Gap) -> None:
        """A file turns out not to have been known since an earlier step."""
        for unknown in self.unknown[gap.step :]:
            unknown.setdefault(gap.place, gap.reason)
        self.effects.forget(gap.reason, (gap.place,))
        self.late.append(gap)
        self._note_gap(gap)

    def _confirm(self, path: str) -> None:
        """A hash of the whole file agrees. Where it has carriage returns, the hash may be of a text without them."""
        self._count(is_whole=True)
        if b"\r" in (self.files.read(path) or b""):
            return
        self._shown_at[path] = self._step
        if version := self.histories.current(path):
            version.is_shown = True

    def _count(self, *, is_whole: bool) -> None:
        self.checked_steps.append(self._step)
        self.full_reads += is_whole

    def _see_blob(self, seen: BlobShown) -> None:
        path = self.files.locate(seen.path)
        if not path:
            return
        state = self.files.get(path)
        if self.effects.is_unknown(path):
            self._find_blob(path, seen, state)
            return
        if state is None or seen.blob is None:
            same = state is None and seen.blob is None
        else:
            same = is_blob(state[1], seen.blob) or is_blob(state[1].replace(b"\r\n", b"\n"), seen.blob)
        if same:
            self._confirm(path)
            return
        after = gitshown.patched(seen.patch, lambda blob: self._blob(path, blob)) if seen.blob else None
        hunk = ""
        if after is not None and state is not None:
            derived, real = state[1].decode("utf-8", "replace"), after.decode("utf-8", "replace")
            hunk = checkpoints.excerpt_of(derived.split("\n"), real.split("\n"))
        problem = f"the diff printed at step {self._step} has another version of this file"
        self._diverge(self.blamed(path, after), path, problem, "read_mismatch", hunk)
        if self.effects.is_unknown(path):
            self._find_blob(path, seen, state)

    def _find_blob(self, path: str, seen: BlobShown, state: FileState) -> None:
        moment = len(self.moments)
        if seen.blob is not None and state is not None and is_blob(state[1], seen.blob):
            self._find(Fact(moment, self._step, path, state, "diff", True))
            return
        if seen.blob is None:
            self._find(Fact(moment, self._step, path, None, "diff", True))
            return
        data = gitshown.patched(seen.patch, lambda blob: self._blob(path, blob))
        if data is not None:
            mode = seen.patch.mode or (state[0] if state else FILE)
            self._find(Fact(moment, self._step, path, (mode, data), "diff", True))

    def _find(self, fact: Fact) -> None:
        self.facts.append(fact)
        self._know(fact)
        if fact.is_certain:
            self._confirm(fact.path)

    def _blob(self, path: str, blob: str) -> bytes | None:
        """Content by its abbreviated id: of this file earlier, or of the repository."""
        for data in (self.base_bytes(path), *(version.data for version in self.histories.of(path))):
            if data is not None and is_blob(data, blob):
                return data
        found = self.repository.find(blob)
        return found[2] if found is not None and found[1] == "blob" else None

    def _see_commit(self, commit: str) -> None:
        """A commit that the run made and that the repository has: equal files are proven, others may not be in it."""
        if not self.repository.has(commit):
            return
        tree = self.repository.tree_of(commit)
        for path in self.histories.paths():
            version = self.histories.current(path)
            if version is not None and version.moment <= self._staged_at:  # else git took an earlier one
                self.confirm_from(tree, path)
        parents = self.repository.parents(commit)
        if len(parents) != 1 or not self.repository.has(parents[0]):
            return
        for path, _, _ in self.repository.differences(self.repository.tree_of(parents[0]), tree):
            if path in self.histories or self.effects.is_unknown(path) or self.confirm_from(tree, path):
                continue
            reason = f"changed in the commit of step {self._step}, but nothing in the recording changes it"
            moment, first = self._programs[0] if self._programs else (1, self.moments[0].step)
            self._lose(Gap(moment, first, path, reason, is_certain=False))

    def confirm_from(self, tree: str, path: str) -> bool:
        """Confirm a file that is the same in ``tree``; it is known again, if it was not. Whether it is the same."""
        state, entry = self.files.get(path), self.repository.entry(tree, path)
        is_same = entry is None if state is None else entry is not None and is_blob(state[1], entry[1])
        if not is_same or (state is not None and entry is not None and state[0] != entry[0]):
            return False
        if not self.effects.is_unknown(path):
            self._confirm(path)
        elif state is not None:
            self._find(Fact(len(self.moments), self._step, path, state, "diff", True))
        return True

    def _is_of_repository(self, path: str) -> bool:
        return self.files.base(path) is not None or self.files.get(path) is not None or path in self.effects.unknown

    def base_bytes(self, path: str) -> bytes | None:
        """The file's bytes in the base commit."""
        state = self.files.base(path)
        return None if state is None else state[1]

    def inside(self, path: str) -> str | None:
        """A shown path as one of the repository: relative to the working folder, or below a known prefix."""
        return self.files.locate(resolve(path, self._context))

    def names_in_patch(self, path: str) -> bool:
        """Whether the recorded patch names the file."""
        return path in self._in_patch

    def changed_at(self, path: str) -> int:
        """The last step that changed the file; 0: none did."""
        return self._changed_at.get(path, 0)

    def blamed(self, path: str, real: bytes | None) -> int:
        """The step that made the file other than it ``real``ly was; 0: the base itself."""
        proven = self._proven(path)
        if proven is not None:  # nothing recorded changed it after it was right
            return min(proven + 1, self._step)
        found = None if real is None else blamed(self.histories, path, real, self.files.locate)
        return self._changed_at.get(path, 0) if found is None else found

    def shown_at(self, path: str) -> int:
        """The last step that shows every byte of the file."""
        return self._shown_at.get(path, 0)

    # -- contradictions ---------------------------------------------------------------------------

    def diverge(self, step: int, path: str, problem: str, category: Category, hunk: str = "") -> None:
        """Note a contradiction at the end of the run; see ``_diverge``."""
        self._diverge(step, path, problem, category, hunk)

    def _diverge(self, step: int, path: str, problem: str, category: Category, hunk: str = "") -> None:
        now = self._step
        proven = self._proven(path)
        ran = [item for item in self._programs if proven is not None and proven < item[1] <= now]
        if ran:  # the file was right, then programs ran, then it was another: one of them changed it
            moment, first = ran[0]
            reason = f"changed by a program run between step {proven} and step {now}"
            self.unseen.suspect(first, reason)
            self._lose(Gap(moment, first, path, reason, is_certain=len(ran) == 1, suspects=True))
            return
        if self.divergence is None or step < self.divergence.step:
            self.divergence = Divergence(step, path, problem, now, category, hunk)

    def note_late(self, step: int, place: str, reason: str) -> None:
        """A step turned out at the end of the run to have changed ``place``."""
        moment = next((at for at, item in enumerate(self.moments, 1) if item.step == step), 0)
        self.effects.forget(reason, (place or ".",))
        self.late.append(Gap(moment, step, place, reason))
        self._note_gap(self.late[-1])

    def _note_gap(self, gap: Gap) -> None:
        self.gaps.append(gap)
        self.opaque.append(OpaqueStep(gap.step, gap.reason, (gap.place,) if gap.place else ()))

    def _proven(self, path: str) -> int | None:
        """The last step where the recording proves the whole content of ``path``, if nothing was derived since."""
        changed = self._changed_at.get(path, 0)
        if (shown := self._shown_at.get(path, -1)) >= changed:
            return shown
        return 0 if changed == 0 and path in self._known_at_base else None


ABSENT: FileState = ("", b"")


def _forms(data: bytes, shown: bool) -> Iterator[bytes]:
    """The texts as which a harness may have hashed a file."""
    yield data
    plain = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    yield plain
    if shown:
        with suppress(UnicodeDecodeError):
            yield displayed(plain.decode()).encode()
