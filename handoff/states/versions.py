"""What git holds beside the work tree while a trajectory is replayed: HEAD, index, stash, branches made on the way.

Each is a *layer*: what differs from the base commit, as the work tree is kept. Commits of the run are layers with a
parent; earlier commits are read from the repository. What is not known in a layer is named there, so that a restore
takes only what is certain, and says what is not. Reading git's command line is in ``shell/git``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

from handoff.git.importer import FileState
from handoff.git.objects import FOLDER, SUBMODULE
from handoff.git.repositories import Repository
from handoff.states.working import WorkingFiles


class _Unsure(enum.Enum):
    UNSURE = 0


UNSURE: Final = _Unsure.UNSURE
"""Stands for a file whose content, or whose being there, is not known."""

Known: TypeAlias = FileState | Literal[_Unsure.UNSURE]
EVERYTHING = ""
"""The path that stands for any file, where unknown ones are named."""


def is_covered(path: str, names: Iterable[str]) -> bool:
    """Whether ``path`` or a folder above it is named; ``EVERYTHING`` names all."""
    names = names if isinstance(names, dict | set | frozenset) else set(names)
    if not names:
        return False
    if path in names or EVERYTHING in names:
        return True
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in names:
            return True
    return False


class Layer:
    """A tree as its difference from the base. ``unsure``: files, or folders, whose content here is not known."""

    __slots__ = ("_files", "states", "unsure")

    def __init__(self, files: WorkingFiles, states: dict[str, FileState], unsure: set[str]) -> None:
        self._files = files
        self.states = states
        self.unsure = unsure

    def get(self, path: str) -> Known:
        """The file in this tree."""
        if path in self.states:
            return self.states[path]
        return UNSURE if is_covered(path, self.unsure) else self._files.base(path)

    def put(self, path: str, state: Known) -> None:
        """Set a file."""
        if state is UNSURE:
            self.states.pop(path, None)
            self.unsure.add(path)
        else:
            self.states[path] = state
            self.unsure.discard(path)

    def copy(self) -> Layer:
        """The same tree, to be changed on its own."""
        return Layer(self._files, dict(self.states), set(self.unsure))

    def touched(self) -> set[str]:
        """Every path that may differ from the base; for a folder that is not known, the folder."""
        return self.states.keys() | self.unsure


class _Commit(NamedTuple):
    layer: Layer
    parent: str | None


class Stash(NamedTuple):
    """One entry: the commit it was made on, the tracked files, the staged ones, and untracked files taken along."""

    base: Layer
    staged: Layer
    tracked: Layer
    untracked: dict[str, FileState]
    is_certain: bool


class VersionsSnapshot(NamedTuple):
    """The state of ``Versions``, kept to go back to."""

    staged: Layer
    commits: dict[str, _Commit]
    head: str
    branch: str | None
    branches: dict[str, str]
    previous: tuple[str, str | None] | None
    stash: tuple[Stash, ...]
    doubt: str | None
    nested: frozenset[str]


_REF = re.compile(r"(HEAD|@|[0-9a-f]{7,40}|[\w./-]+)((?:~\d{0,4}|\^1?(?!\d))*)", re.A)
_UP = re.compile(r"~(\d*)|\^1?")
_HEX = re.compile(r"[0-9a-f]{7,40}")
_NONE = "none"


class Versions:
    """HEAD, index, stash and branches. ``doubt``: why HEAD and index are not known any more."""

    def __init__(self, files: WorkingFiles) -> None:
        self._files = files
        self.index = Layer(files, {}, set())
        self._commits: dict[str, _Commit] = {}
        self.head = files.base_commit or _NONE
        self.branch: str | None = None
        """The branch that HEAD is on, when it was made in this run."""
        self.branches: dict[str, str] = {}
        """Branches and tags made in this run."""
        self.previous: tuple[str, str | None] | None = None
        """What ``checkout -`` goes back to."""
        self.stash: list[Stash] = []
        self.doubt: str | None = None
        self.nested: frozenset[str] = frozenset()
        """Folders that are repositories of their own."""

    @property
    def repository(self) -> Repository:
        """The repository, for its earlier commits."""
        return self._files.repository

    # -- commits --------------------------------------------------------------------------------

    def layer(self, commit: str) -> Layer:
        """The tree of a commit found by ``resolve``."""
        if commit in self._commits:
            return self._commits[commit].layer
        if commit in (_NONE, self._files.base_commit):
            return Layer(self._files, {}, set())
        states: dict[str, FileState] = {}
        for path, _, new in self.repository.differences(self._files.base_tree, self.repository.tree_of(commit)):
            is_file = new is not None and new[0] not in (FOLDER, SUBMODULE)
            states[path] = (new[0], self.repository.blob(new[1])) if new is not None and is_file else None
        self._commits[commit] = _Commit(Layer(self._files, states, set()), None)
        return self._commits[commit].layer

    def head_layer(self) -> Layer:
        """The tree of HEAD."""
        return Layer(self._files, {}, {EVERYTHING}) if self.doubt else self.layer(self.head)

    def resolve(self, ref: str) -> str | None:
        """The commit that a name stands for; ``None`` when that is not known. A branch that was there before the run
        began has a place that the recording does not tell."""
        if self.doubt:
            return None
        match = _REF.fullmatch(ref)
        if match is None:
            return None
        name = match[1]
        commit: str | None
        if name in ("HEAD", "@"):
            commit = self.head
        elif name in self.branches:
            commit = self.branches[name]
        elif _HEX.fullmatch(name):
            found = self.repository.find(f"{name}^{{commit}}")
            commit = found[0] if found is not None else None
        else:
            commit = None
        for step in _UP.finditer(match[2]):
            for _ in range(int(step[1]) if step[1] else 1):
                commit = self.parent(commit) if commit is not None else None
        return commit

    def parent(self, commit: str) -> str | None:
        """The first parent; ``None`` when there is none, or it is not known."""
        own = self._commits.get(commit)
        if own is not None and own.parent is not None:
            return own.parent
        if not _HEX.fullmatch(commit):
            return None
        found = self.repository.find(f"{commit}^1^{{commit}}")
        return found[0] if found is not None else None

    def commit(self, *, amends: bool) -> None:
        """A commit of the index on top of HEAD, or in its place."""
        if self.doubt:
            return
        parent = self.parent(self.head) if amends else self.head
        name = f"made:{len(self._commits)}"
        self._commits[name] = _Commit(self.index.copy(), parent)
        self.move_head(name)

    def move_head(self, commit: str) -> None:
        """HEAD, and the branch it is on, point to another commit."""
        self.head = commit
        if self.branch is not None:
            self.branches[self.branch] = commit

    def lose(self, reason: str) -> None:
        """From here on neither HEAD nor index are known."""
        self.doubt = self.doubt or reason
        self.index = Layer(self._files, {}, {EVERYTHING})
        self.stash = [entry._replace(is_certain=False) for entry in self.stash]

    # -- forks ----------------------------------------------------------------------------------

    def snapshot(self) -> VersionsSnapshot:
        """The state now, for ``go_back``."""
        return VersionsSnapshot(
            self.index.copy(),
            dict(self._commits),
            self.head,
            self.branch,
            dict(self.branches),
            self.previous,
            tuple(self.stash),
            self.doubt,
            self.nested,
        )

    def go_back(self, snapshot: VersionsSnapshot) -> None:
        """The state of a snapshot, which stays usable."""
        self.index = snapshot.staged.copy()
        self._commits = dict(snapshot.commits)
        self.head, self.branch = snapshot.head, snapshot.branch
        self.branches = dict(snapshot.branches)
        self.previous, self.doubt, self.nested = snapshot.previous, snapshot.doubt, snapshot.nested
        self.stash = list(snapshot.stash)

    def same_as(self, snapshot: VersionsSnapshot) -> bool:
        """Whether HEAD, index and stash are those of a snapshot."""
        index = snapshot.staged
        is_same_index = index.states == self.index.states and index.unsure == self.index.unsure
        return is_same_index and self.snapshot()[2:] == snapshot[2:]
