"""The files of a repository while a trajectory is replayed: a base tree and what differs from it, in memory.

Only files the replay touches are read. A path is resolved as the predecessor's machine would have: through the
repository's own symbolic links; what lies outside the repository, or inside a ``.git``, is not part of the state.
Which operation happened, and what is proven of it, is in ``replay``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from handoff.git.importer import FileState
from handoff.git.objects import EXECUTABLE, FILE, FOLDER, SUBMODULE, SYMLINK, byte_path, is_safe_path, text_path
from handoff.git.repositories import Repository

_MOST_LINKS = 20


class WorkingFiles:
    """Files after the steps replayed so far. Paths are text, relative, normal; ``locate`` makes them so."""

    def __init__(self, repository: Repository, base_tree: str, base_commit: str | None = None) -> None:
        self.repository = repository
        self.base_tree = base_tree
        self.base_commit = base_commit
        """The commit of that tree, when it is known: earlier ones are found from it."""
        self._base: dict[str, FileState] = {}
        self.differing: dict[str, FileState] = {}
        """Files that were written since the base; their content may have come back to the base's."""
        self.place_of: Callable[[str], str] | None = None
        """Where an absolute path lies: relative to the repository, or outside of it."""
        self._submodules: set[str] = set()
        self._folders: dict[str, bool] = {}
        """Folders that are there, or are not, whatever the base says."""

    def base(self, path: str) -> FileState:
        """The file in the base commit."""
        if path not in self._base:
            entry = self.repository.entry(self.base_tree, path)
            if entry is not None and entry[0] == SUBMODULE:
                self._submodules.add(path)
            is_file = entry is not None and entry[0] not in (FOLDER, SUBMODULE)
            self._base[path] = (entry[0], self.repository.blob(entry[1])) if entry and is_file else None
        return self._base[path]

    def get(self, path: str) -> FileState:
        """The file now; ``None`` when there is none."""
        return self.differing[path] if path in self.differing else self.base(path)

    def exists(self, path: str) -> bool:
        """Whether a file or a link is there now, without reading it."""
        if path in self.differing:
            return self.differing[path] is not None
        entry = self.repository.entry(self.base_tree, path)
        return entry is not None and entry[0] not in (FOLDER, SUBMODULE)

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file now."""
        state = self.get(path)
        return None if state is None or state[0] == SYMLINK else state[1]

    def put(self, path: str, data: bytes, mode: str | None = None) -> None:
        """Write a file; without ``mode`` an existing file keeps its own."""
        old = self.get(path)
        kept = old[0] if old is not None and old[0] != SYMLINK else FILE
        self.set_state(path, (mode or kept, data))

    def set_state(self, path: str, state: FileState) -> None:
        """Put a file back as it was (mode and bytes), or remove it. Its folders are made, and none is removed."""
        self.differing[path] = state
        if state is not None and "/" in path:
            self.make_folder(path.rsplit("/", 1)[0])

    # -- folders --------------------------------------------------------------------------------

    def make_folder(self, path: str) -> None:
        """A folder, and those above it, are there. Git does not store an empty one, but ``mv`` and ``cp`` see it."""
        while path and self._folders.get(path) is not True:
            self._folders[path] = True
            path = path.rpartition("/")[0]

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there now."""
        known = True if path == "" else self._folders.get(path)
        if known is None:
            entry = self.repository.entry(self.base_tree, path)
            return entry is not None and entry[0] in (FOLDER, SUBMODULE)
        return known

    def remove_folder(self, path: str) -> None:
        """A folder with everything in it goes."""
        for item in list(self.below(path)):
            self.differing[item] = None
        for folder in self.folders_below(path):
            self._folders[folder] = False

    def prune(self, path: str) -> None:
        """Remove the empty folders above ``path``, as git does when it removes a file."""
        folder = path.rpartition("/")[0]
        while folder and not self.names(folder):
            self._folders[folder] = False
            folder = folder.rpartition("/")[0]

    def names(self, folder: str) -> dict[str, bool]:
        """The names in a folder now, and whether each is a folder."""
        prefix = f"{folder}/" if folder else ""
        found: dict[str, bool] = {}
        for name in self._base_names(folder):
            found[name] = False
        for paths in (self.differing, self._folders):
            for path in paths:
                if path.startswith(prefix) and "/" not in path[len(prefix) :]:
                    found[path[len(prefix) :]] = False
        kinds = {name: self.is_folder(prefix + name) for name in sorted(found)}
        return {name: kind for name, kind in kinds.items() if kind or self.exists(prefix + name)}

    def _base_names(self, folder: str) -> list[str]:
        entry = (FOLDER, self.base_tree) if not folder else self.repository.entry(self.base_tree, folder)
        is_there = entry is not None and entry[0] == FOLDER
        return [text_path(name) for name in self.repository.entries(entry[1])] if is_there and entry else []

    def folders_below(self, path: str) -> list[str]:
        """The folder and every folder in it now."""
        if not self.is_folder(path):
            return []
        prefix = f"{path}/" if path else ""
        inner = [prefix + name for name, is_folder in self.names(path).items() if is_folder]
        return [path, *(folder for item in inner for folder in self.folders_below(item))]

    def snapshot(self) -> tuple[dict[str, FileState], dict[str, bool]]:
        """The state now, for ``go_back``."""
        return dict(self.differing), dict(self._folders)

    def go_back(self, snapshot: tuple[dict[str, FileState], dict[str, bool]]) -> None:
        """The state of a snapshot, which stays usable."""
        self.differing.clear()
        self.differing.update(snapshot[0])
        self._folders = dict(snapshot[1])

    def below(self, folder: str) -> Iterator[str]:
        """Every file inside a folder now, the touched ones first."""
        prefix = f"{folder}/" if folder else ""
        for path in sorted(self.differing):
            if path.startswith(prefix) and self.differing[path] is not None:
                yield path
        entry = (FOLDER, self.base_tree) if not folder else self.repository.entry(self.base_tree, folder)
        if entry is not None and entry[0] == FOLDER:
            yield from (path for path in self._below_base(prefix, entry[1]) if path not in self.differing)

    def _below_base(self, prefix: str, tree: str) -> Iterator[str]:
        for name, (mode, id_) in sorted(self.repository.entries(tree).items()):
            path = prefix + text_path(name)
            if mode == FOLDER:
                yield from self._below_base(path + "/", id_)
            elif mode != SUBMODULE:
                yield path

    def locate(self, path: str, *, follow_last: bool = True) -> str | None:
        """The normal path inside the repository, or ``None`` for what is outside it or may not be written.

        Symbolic links of the repository are followed as the file system would, except (``follow_last=False``) at the
        end, where ``rm`` and ``mv`` act on the link itself. The root is ``""``.
        """
        if path.startswith("/") or "\0" in path:
            return None
        waiting = [part for part in path.split("/") if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while waiting:
            part = waiting.pop(0)
            if part == "..":
                if not done:
                    return None
                done.pop()
                continue
            here = "/".join([*done, part])
            if not is_safe_path(byte_path(here)):
                return None
            state = self.get(here) if waiting or follow_last else None
            if waiting and here in self._submodules:
                return None  # another repository's
            if state is not None and state[0] == SYMLINK:
                links += 1
                target = text_path(state[1])
                if target.startswith("/"):
                    target = self.place_of(target) if self.place_of is not None else target
                    done = []
                if links > _MOST_LINKS or target.startswith(("/", "~", "$")):
                    return None
                waiting = [item for item in target.split("/") if item not in ("", ".")] + waiting
                continue
            done.append(part)
        return "/".join(done)

    def changed(self) -> dict[str, FileState]:
        """Files that differ from the base now."""
        return {path: state for path, state in sorted(self.differing.items()) if state != self.base(path)}

    @staticmethod
    def with_mode(state: FileState, is_executable: bool) -> FileState:
        """The same file with its executable bit set or cleared; links keep their mode."""
        if state is None or state[0] == SYMLINK:
            return state
        return (EXECUTABLE if is_executable else FILE, state[1])
