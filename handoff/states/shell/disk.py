"""Files as a shell line sees them: those of the repository, and those outside of it that the run itself wrote.

Three answers to every question: yes, no, and not known. A file that the state does not hold is surely absent only
while no program ran that may have made it and no ignore rule hides it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from handoff.actions.paths import Context, is_outside, is_unknown, resolve
from handoff.git.importer import FileState
from handoff.git.objects import FILE, SYMLINK, text_path
from handoff.states.effects import Effects
from handoff.states.shell.ignored import is_ignored
from handoff.states.versions import UNSURE, Known, is_covered

Kind: TypeAlias = Literal["file", "link", "folder", "none", "unknown"]

_FOLDERS = frozenset(("/", "/tmp", "/var/tmp", "/root", "/home", "/dev", "~", "..", "/usr", "/etc", "/var", "/opt"))
"""Folders outside the repository that are always there."""


UNTOLD = "\N{REPLACEMENT CHARACTER}untold\N{REPLACEMENT CHARACTER}"
"""Stands in a text for what only the machine of the recording knew: the name of a temporary file."""
_UNTOLD = UNTOLD.encode()

MOST_BYTES = 32_000_000
"""What a line may make of one text; the content of a longer one is not known."""


class Place(NamedTuple):
    """Where a path leads. ``path``: relative to the repository (empty: its root), or as it stands outside."""

    path: str
    is_inside: bool = True
    is_certain: bool = True
    """False when even that is not known: a variable, or a link that leads out."""


class Disk:
    """Reads and writes for one line. Nothing here raises; what is not known says so."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.files = effects.files
        self._read: set[Place] = set()
        self._written: set[Place] = set()

    def watch(self) -> tuple[set[Place], set[Place]]:
        """Begin to note which files are read and written; give the answer to ``unwatch``."""
        before = self._read, self._written
        self._read, self._written = set(), set()
        return before

    def unwatch(self, before: tuple[set[Place], set[Place]]) -> tuple[set[Place], set[Place]]:
        """Files read and written since ``watch``."""
        found = self._read, self._written
        self._read, self._written = before[0] | found[0], before[1] | found[1]
        return found

    def locate(self, text: str, context: Context, *, follows: bool = True) -> Place:
        """The place of a path as typed. ``follows``: through a link at its end."""
        path = self._through_links(resolve(text, context), follows)
        if is_outside(path):
            return Place(path, False, not is_unknown(path) and not path.startswith(".git"))
        found = self.files.locate(path, follow_last=follows)
        return Place(path, False, False) if found is None else Place(found)

    def _through_links(self, path: str, follows: bool) -> str:
        """The path in the repository, where one outside leads there by a link that the run made."""
        for link, target in self.effects.links.items():
            if path == link and follows:
                return target or "."
            if path.startswith(f"{link}/"):
                return (target + path[len(link) :]).lstrip("/")
        return path

    # -- looking --------------------------------------------------------------------------------

    def kind(self, place: Place) -> Kind:
        """What is there; a link is followed only by ``locate``."""
        if not place.is_inside:
            return self._outside_kind(place)
        path = place.path
        if self.files.is_folder(path):
            return "folder"
        if self.effects.is_unknown(path):
            return "unknown"
        if self.files.exists(path):
            state = self.files.get(path)
            return "link" if state is not None and state[0] == SYMLINK else "file"
        return "none" if self.is_surely_absent(path) else "unknown"

    def _outside_kind(self, place: Place) -> Kind:
        if not place.is_certain:
            return "unknown"
        if place.path in self.effects.outside:
            return "none" if self.effects.outside[place.path] is None else "file"
        below = place.path.rstrip("/") + "/"
        is_folder = place.path in _FOLDERS or any(
            path.startswith(below) and data is not None for path, data in self.effects.outside.items()
        )
        return "folder" if is_folder else "unknown"

    def is_surely_absent(self, path: str) -> bool:
        """Whether nothing is at a path of the repository where the state holds nothing."""
        if path in self.files.differing and path not in self.effects.doubtful:
            return True
        return not self.effects.has_run_programs and not is_ignored(self, path)

    def read(self, place: Place) -> bytes | Literal[UNSURE] | None:  # type: ignore[valid-type]
        """The bytes of a file; ``None``: there is no file. ``UNSURE``: not known."""
        self._read.add(place)
        match self.kind(place):
            case "unknown" | "link":
                return UNSURE
            case "file":
                return self.files.read(place.path) if place.is_inside else self.effects.outside[place.path]
            case _:
                return None

    def state(self, path: str) -> Known:
        """The file of the repository at a path: mode and bytes."""
        return UNSURE if self.effects.is_unknown(path) else self.files.get(path)

    def below(self, folder: str) -> list[str]:
        """Every file in a folder of the repository that the state holds, sorted."""
        return sorted(self.files.below(folder))

    # -- changing -------------------------------------------------------------------------------

    def has_parent(self, place: Place) -> bool | None:
        """Whether the folder is there that a new file would lie in."""
        if not place.is_inside or "/" not in place.path:
            return True if place.is_inside or place.is_certain else None
        parent = place.path.rpartition("/")[0]
        if self.files.is_folder(parent):
            return True
        if self.effects.is_unknown(parent):
            return None
        return False if self.files.exists(parent) or self.is_surely_absent(parent) else None

    def write(self, place: Place, data: bytes | None, reason: str) -> bool | None:
        """Set a file's text (``None``: to what is not known); whether that succeeded."""
        self._written.add(place)
        if data is not None and (len(data) > MOST_BYTES or _UNTOLD in data):
            data = None
        if not place.is_inside:
            if place.path.startswith(".git"):
                self.effects.versions.lose("a file inside .git was written")
            if data is None or not place.is_certain:
                self.effects.outside.pop(place.path, None)
            else:
                self.effects.outside[place.path] = data
            if not place.is_certain and is_unknown(place.path):
                self.effects.forget(f"{reason} to an unknown file", ())
            return True if place.is_certain else None
        if self.files.is_folder(place.path):
            return False
        has_parent = self.has_parent(place)
        if has_parent is False:
            return False
        if data is None or has_parent is None:
            self.effects.forget_place(place.path, reason)
            return has_parent
        modes = self.effects.modes_unknown
        if modes and self.effects.is_unknown(place.path) and is_covered(place.path, modes):
            return True  # a text of which the mode is not known
        old = self.files.get(place.path)
        mode = old[0] if old is not None and old[0] != SYMLINK else FILE
        if old is None and self.kind(place) == "unknown":
            self.effects.doubtful.add(place.path)
        self.effects.settle(place.path, (mode, data))
        return True

    def set_state(self, path: str, state: Known, reason: str) -> None:
        """Set a file of the repository with its mode, or remove it."""
        self._written.add(Place(path))
        if state is UNSURE:
            self.effects.forget_place(path, reason)
        else:
            self.effects.settle(path, state)

    def put_link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self.effects.settle(path, (SYMLINK, target.encode("utf-8", "surrogateescape")))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        self._written.add(Place(path))
        for item in self.below(path):
            self.effects.settle(item, None)
        if self.files.is_folder(path):
            self.files.remove_folder(path)
            for item in [item for item in self.effects.unknown if item.startswith(f"{path}/")]:
                del self.effects.unknown[item]
        self.effects.settle(path, None)

    def target_of(self, state: FileState) -> str:
        """What a symbolic link points to."""
        return text_path(state[1]) if state is not None else ""
