"""What one operation does to the files: every kind of ``actions.Operation``, carried out on ``WorkingFiles``.

An operation that leaves files alone (a read, a test run) does nothing here. One whose effect cannot be derived marks
what it may have touched as unknown; it is never guessed. One that cannot have happened on these files raises
``Misfit``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, assert_never

from handoff.actions import (
    AppendFile,
    ApplyPatch,
    Commit,
    Copy,
    Delete,
    EditLines,
    InsertLines,
    Install,
    ListFiles,
    MakeDirectory,
    Move,
    Opaque,
    Operation,
    Other,
    Read,
    Replace,
    ReplaceEach,
    Restore,
    Run,
    Search,
    SetMode,
    StreamEdit,
    Undo,
    Validate,
    Vcs,
    WriteFile,
    changed_paths,
)
from handoff.actions.lines import interpret_line
from handoff.actions.paths import Context
from handoff.editors import editing
from handoff.editors.editing import History, TextEdit
from handoff.editors.patches import apply_patch
from handoff.editors.plain import Misfit, Unknowable
from handoff.editors.stream import stream_edit
from handoff.git.importer import FileState
from handoff.git.objects import text_path
from handoff.states.versions import EVERYTHING, Versions, VersionsSnapshot, is_covered
from handoff.states.working import WorkingFiles

__all__ = ["EVERYTHING", "Effects", "Snapshot"]

_WRITES = re.compile(
    rb"""open\([^)\n]*,\s*(?:mode\s*=\s*)?['"][wax+rb]*[wax+][+b]*['"]|\.open\(\s*['"][wax]|write_(?:text|bytes)\(|\.writelines?\(|shutil\.|"""
    rb"""os\.(?:rename|replace|remove|unlink|system)|subprocess|\bsed -i|writeFile"""
)
_QUOTED = re.compile(rb"""(['"])([\w./ -]{1,200})\1""")


def _is_shell_script(target: str, data: bytes) -> bool:
    first = data[:80].partition(b"\n")[0]
    return target.endswith((".sh", ".bash")) or re.match(rb"#!.*\b(?:ba|da|z|k)?sh\b", first) is not None


class Snapshot(NamedTuple):
    """A state, kept to go back to: what ``Effects`` and its parts hold."""

    files: dict[str, FileState]
    folders: dict[str, bool]
    unknown: dict[str, str]
    settled: set[str]
    modes_unknown: set[str]
    outside: dict[str, bytes | None]
    versions: VersionsSnapshot
    lasting: frozenset[str]
    moving: dict[str, str]
    links: dict[str, str]


class Effects:
    """Carries operations out, one trajectory long. ``unknown`` names files whose content cannot be derived now."""

    def __init__(self, files: WorkingFiles) -> None:
        self.files = files
        self.unknown: dict[str, str] = {}
        """File or folder → why. ``EVERYTHING``: any file may have changed."""
        self.settled: set[str] = set()
        """Files that are known again, although a folder above them is not."""
        self.versions = Versions(files)
        """What git holds beside the work tree."""
        self.outside: dict[str, bytes | None] = {}
        """Files outside the repository that the run wrote (``None``: removed), where their content is known."""
        self.outside_modes: dict[str, str] = {}
        """Modes of those that were copied there."""
        self.links: dict[str, str] = {}
        """Symbolic links outside the repository that the run made → the place in it that they lead to."""
        self.id_digits: int | None = None
        """How many digits of an id the git of the recording prints, where it shows that."""
        self.moving: dict[str, str] = {}
        """Files and folders that something in the background may still write → why; nothing proves them any more."""
        self.lasting: frozenset[str] = frozenset()
        """What a shell that lives on keeps of earlier lines (``shell.lasting``)."""
        self.has_run_programs = False
        """Whether a program ran that may have made files which the state does not hold."""
        self.modes_unknown: set[str] = set()
        """Files and folders of which not even the mode is known while they are in ``unknown``."""
        self.doubtful: set[str] = set()
        """Files that were written where something else may have been."""
        self._history = History()

    def is_unknown(self, path: str) -> bool:
        """Whether the content of ``path`` cannot be derived now."""
        if self.moving and is_covered(path, self.moving):
            return True
        return bool(self.unknown) and path not in self.settled and is_covered(path, self.unknown)

    def settle(self, path: str, state: FileState) -> None:
        """The content of a file is known (again): it is ``state``."""
        self.files.set_state(path, state)
        if self.moving and is_covered(path, self.moving):
            return
        self.unknown.pop(path, None)
        self.modes_unknown.discard(path)
        if self.unknown and is_covered(path, self.unknown):
            self.settled.add(path)

    def carry_out(self, operation: Operation) -> None:
        """One operation. ``Misfit`` names the file in ``args[1]`` when there is one."""
        match operation:
            case Read() | Search() | ListFiles() | Validate() | Install() | Other():
                return
            case Run(target=target):
                self._run_script(target)
            case WriteFile():
                self._write(operation)
            case AppendFile() | Replace() | ReplaceEach() | InsertLines() | EditLines():
                self._edit_text(operation)
            case StreamEdit(path=path, edits=edits):
                self._edit(path, lambda data: stream_edit(data, edits))
            case ApplyPatch():
                self._patch(operation)
            case Move(source=source, target=target):
                self._transfer(source, target, removes=True)
            case Copy(source=source, target=target):
                self._transfer(source, target, removes=False)
            case Delete(path=path):
                self._delete(path)
            case MakeDirectory(path=path):
                if place := self.files.locate(path):
                    self.files.make_folder(place)
            case SetMode(path=path, is_executable=is_executable):
                self._set_mode(path, is_executable)
            case Restore(paths=paths, ref=ref):
                self._restore(paths, ref)
            case Undo():
                self._undo_last(operation)
            case Vcs(verb=verb):
                self._vcs(verb)
            case Commit(changes=changes):
                self.forget("a commit is not replayed: git holds its tree", tuple(path for _, path in changes))
            case Opaque(reason=reason, paths=paths, is_possible=is_possible):
                if not is_possible:
                    self.forget(reason, paths)
            case _:
                assert_never(operation)

    def forget(self, reason: str, paths: tuple[str, ...]) -> None:
        """The content of ``paths`` (none named: of every file) cannot be derived from here on."""
        for path in paths or (".",):
            for follows in (True, False):  # a link may be replaced by a file
                place = self.files.locate(path, follow_last=follows)
                if place is not None:  # the root is EVERYTHING
                    self.forget_place(place, reason)

    def forget_place(self, place: str, reason: str, *, with_mode: bool = False) -> None:
        """The same for one file or folder that ``locate`` has found. ``with_mode``: a text written there later does not
        make the file known, since its mode is not."""
        self.unknown.setdefault(place, reason)
        if with_mode:
            self.modes_unknown.add(place)
        if self.settled:
            self.settled = {path for path in self.settled if not is_covered(path, {place})}

    def _run_script(self, target: str) -> None:
        """A script the predecessor wrote and ran: when its text writes files, what it left is not known."""
        place = self.files.locate(target)
        data = self.files.read(place) if place and place in self.files.differing else None
        if place and data is None and self.is_unknown(place) and self.files.base(place) is None:
            self.forget(f"{target} was run, and what it holds is not known", ())
            return
        if data is not None and _is_shell_script(target, data):
            self._forget_by_script(target, data)
            return
        if data is None or not _WRITES.search(data):
            return
        named = {text_path(match[2]) for match in _QUOTED.finditer(data)}
        places = {item for path in named if (item := self.files.locate(path))}
        inside = tuple(item for item in sorted(places) if self.files.get(item) is not None)
        self.forget(f"{place} was run, and it writes files", inside)

    def _forget_by_script(self, target: str, data: bytes) -> None:
        """A shell script that is not carried out: if it may change a file, none is known afterwards."""
        operations = interpret_line(text_path(data), Context())[0]
        if any(changed_paths(operation) or isinstance(operation, Opaque) for operation in operations):
            self.forget(f"{target} was run, and it may change files", ())

    # -- one file ---------------------------------------------------------------------------------

    def _write(self, operation: WriteFile) -> None:
        place = self.files.locate(operation.path)
        if not place:
            return  # outside the repository: not part of the state
        is_unknown = self.is_unknown(place)
        if operation.must_be_new and not is_unknown and self.files.get(place) is not None:
            raise Misfit("the tool does not overwrite, and the file exists", place)
        before = None if is_unknown else self.files.read(place)
        self._history.note(operation, place, before)
        try:
            after = editing.written(operation, before)
        except Unknowable as reason:
            self.forget(str(reason), (place,))
            return
        self.files.put(place, after)
        self.settle(place, self.files.get(place))

    def _edit_text(self, operation: TextEdit) -> None:
        place = self.files.locate(operation.path)
        if place:
            self._history.note(operation, place, None if self.is_unknown(place) else self.files.read(place))
        self._edit(
            operation.path,
            lambda data: editing.edited(operation, data),
            may_be_new=isinstance(operation, AppendFile),
        )

    def _edit(self, path: str, change: Callable[[bytes], bytes], *, may_be_new: bool = False) -> None:
        place = self.files.locate(path)
        if not place or self.is_unknown(place):
            return
        data = self.files.read(place)
        if data is None:
            if not may_be_new:
                raise Misfit("the file does not exist", place)
            data = b""
        try:
            after = change(data)
        except Misfit as misfit:
            raise Misfit(str(misfit), place) from misfit
        except Unknowable as reason:
            self.forget(str(reason), (place,))
            return
        self.files.put(place, after)

    def _undo_last(self, operation: Undo) -> None:
        place = self.files.locate(operation.path)
        if not place:
            return
        try:
            before = self._history.undo(operation, place)
        except Misfit as misfit:
            raise Misfit(str(misfit), place) from misfit
        except Unknowable as reason:
            self.forget(str(reason), (place,))
            return
        self.files.put(place, before)
        self.settle(place, self.files.get(place))

    def _set_mode(self, path: str, is_executable: bool) -> None:
        place = self.files.locate(path)
        if place and self.files.get(place) is not None:
            self.files.set_state(place, self.files.with_mode(self.files.get(place), is_executable))

    # -- several files ----------------------------------------------------------------------------

    def _delete(self, path: str) -> None:
        place = self.files.locate(path, follow_last=False)
        if not place:
            return
        if self.files.exists(place):
            self.settle(place, None)
            return
        for item in list(self.files.below(place)):
            self.settle(item, None)
        self.files.remove_folder(place)
        for item in [item for item in self.unknown if item == place or item.startswith(f"{place}/")]:
            del self.unknown[item]
        self.settle(place, None)

    def _transfer(self, source: str, target: str, *, removes: bool) -> None:
        old = self.files.locate(source, follow_last=not removes)
        new = self.files.locate(target, follow_last=False)
        if old is None and new:
            self.forget(f"{source!r} lies outside the repository, so what it brought to {new!r} is not known", (new,))
            return
        if not old:
            return
        if new is None:  # moved out of the repository
            if removes:
                self._delete(old)
            return
        if self.files.is_folder(new):
            new = f"{new}/{old.rsplit('/', 1)[-1]}".lstrip("/")
        state = self.files.get(old)
        sources = [old] if state is not None else list(self.files.below(old))
        pairs = [(item, new + item[len(old) :]) for item in sources]
        if not pairs:
            if self.is_unknown(old):
                self.forget(self.unknown.get(old, "moved from an unknown file"), (new,))
                return
            raise Misfit("the file to move or copy does not exist", old)
        for item, place in pairs:
            moved = self.files.get(item)
            is_unknown, why = self.is_unknown(item), self.unknown.get(item, "taken from a file that is unknown")
            if removes:
                self.settle(item, None)
            self.settle(place, moved)
            if is_unknown:
                self.forget_place(place, why)

    def _patch(self, patch: ApplyPatch) -> None:
        root = f"{patch.root}/" if patch.root else ""

        def read(path: str) -> bytes | None:
            place = self.files.locate(root + path)
            return self.files.read(place) if place else None

        places = [place for path in patch.paths if (place := self.files.locate(path))]
        if any(self.is_unknown(place) for place in places) or (EVERYTHING in self.unknown and not places):
            for place in places:
                if not self.is_unknown(place) or EVERYTHING not in self.unknown:
                    self.forget_place(place, "a patch on a file that is unknown")
            return
        try:
            changes = apply_patch(patch.text, read, patch.strip, is_reversed=patch.is_reversed, program=patch.program)
        except Unknowable as reason:
            self.forget(str(reason), patch.paths)
            return
        states = {change.origin: self._state_of(root + change.origin) for change in changes if change.origin}
        for change in changes:
            place = self.files.locate(root + change.path)
            if not place:
                raise Misfit(f"{change.path!r} lies outside the repository")
            if change.data is None:
                self.files.set_state(place, None)
                continue
            if change.origin and change.mode is None:
                self.files.set_state(place, states[change.origin])
            self.files.put(place, change.data, change.mode)

    def _state_of(self, path: str) -> FileState:
        place = self.files.locate(path)
        return self.files.get(place) if place else None

    def _restore(self, paths: tuple[str, ...], ref: str) -> None:
        named = [place for path in paths if (place := self.files.locate(path)) is not None]
        commit = self.versions.resolve(ref)
        touched = sorted({*self.files.differing, *(path for path in self.unknown if path != EVERYTHING)})
        for place in named:
            inside = [path for path in touched if path == place or place == "" or path.startswith(f"{place}/")]
            if commit != self.versions.head or self.versions.index.touched():
                self.forget(f"restored from {ref}, whose content is not known", tuple(inside or [place]))
                continue
            for path in inside:
                if self.files.base(path) is not None:  # an untracked file stays
                    self.settle(path, self.files.base(path))

    def _vcs(self, verb: str) -> None:
        """Only what moves the place that a later restore takes its content from."""
        if verb in ("add", "commit", "reset", "switch", "checkout", "rm", "mv", "apply", "stash"):
            self.versions.lose(f"git {verb} in a line that was not carried out")

    # -- forks ----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state now, for ``go_back``. What editors undo is not part of it: no shell line touches that."""
        return Snapshot(
            *self.files.snapshot(),
            dict(self.unknown),
            set(self.settled),
            set(self.modes_unknown),
            dict(self.outside),
            self.versions.snapshot(),
            self.lasting,
            dict(self.moving),
            dict(self.links),
        )

    def go_back(self, snapshot: Snapshot) -> None:
        """The state of a snapshot, which stays usable."""
        self.files.go_back((snapshot.files, snapshot.folders))
        self.unknown.clear()
        self.unknown.update(snapshot.unknown)
        self.settled = set(snapshot.settled)
        self.modes_unknown = set(snapshot.modes_unknown)
        self.outside = dict(snapshot.outside)
        self.versions.go_back(snapshot.versions)
        self.lasting = snapshot.lasting
        self.moving = dict(snapshot.moving)
        self.links = dict(snapshot.links)
