"""The files of a repository while a trajectory is replayed: a base tree and what differs from it, in memory.

Only files the replay touches are read. A path is resolved as the predecessor's machine would have: through the
repository's own symbolic links; what lies outside the repository, or inside a ``.git``, is not part of the state.
Which operation happened, and what is proven of it, is in ``replay``.
"""

from __future__ import annotations

from collections.abc import Iterator

from handoff.states.importer import FileState
from handoff.states.objects import EXECUTABLE, FILE, FOLDER, SUBMODULE, SYMLINK, byte_path, is_safe_path, text_path
from handoff.states.repositories import Repository

_MOST_LINKS = 20


class WorkingFiles:
    """Files after the steps replayed so far. Paths are text, relative, normal; ``locate`` makes them so."""

    def __init__(self, repository: Repository, base_tree: str) -> None:
        self._repository = repository
        self._base_tree = base_tree
        self._base: dict[str, FileState] = {}
        self.differing: dict[str, FileState] = {}
        """Files that were written since the base; their content may have come back to the base's."""
        self._folders: set[str] = set()

    def base(self, path: str) -> FileState:
        """The file in the base commit."""
        if path not in self._base:
            entry = self._repository.entry(self._base_tree, path)
            is_file = entry is not None and entry[0] not in (FOLDER, SUBMODULE)
            self._base[path] = (entry[0], self._repository.blob(entry[1])) if entry and is_file else None
        return self._base[path]

    def get(self, path: str) -> FileState:
        """The file now; ``None`` when there is none."""
        return self.differing[path] if path in self.differing else self.base(path)

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file now."""
        state = self.get(path)
        return None if state is None or state[0] == SYMLINK else state[1]

    def put(self, path: str, data: bytes, mode: str | None = None) -> None:
        """Write a file; without ``mode`` an existing file keeps its own."""
        old = self.get(path)
        kept = old[0] if old is not None and old[0] != SYMLINK else FILE
        self.differing[path] = (mode or kept, data)

    def set_state(self, path: str, state: FileState) -> None:
        """Put a file back as it was (mode and bytes), or remove it."""
        self.differing[path] = state

    def make_folder(self, path: str) -> None:
        """Remember an empty folder, which git does not store but ``mv`` and ``cp`` see."""
        self._folders.add(path)

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there now."""
        return path == "" or path in self._folders or next(self.below(path), None) is not None

    def below(self, folder: str) -> Iterator[str]:
        """Every file inside a folder now, the touched ones first."""
        prefix = f"{folder}/" if folder else ""
        for path in sorted(self.differing):
            if path.startswith(prefix) and self.differing[path] is not None:
                yield path
        entry = (FOLDER, self._base_tree) if not folder else self._repository.entry(self._base_tree, folder)
        if entry is not None and entry[0] == FOLDER:
            yield from (path for path in self._below_base(prefix, entry[1]) if path not in self.differing)

    def _below_base(self, prefix: str, tree: str) -> Iterator[str]:
        for name, (mode, id_) in sorted(self._repository.entries(tree).items()):
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
            if state is not None and state[0] == SYMLINK:
                links += 1
                target = text_path(state[1])
                if links > _MOST_LINKS or target.startswith("/"):
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
