"""Which versions of a file the recording proves (``docs/science.md §2``).

Every operation that names a file begins a new version of it, even where it changes nothing. A version is proven by what
shows all of it, or by the proven version after it when the operation between them can be undone in one way only. Where
an operation loses lines, those lines must have been shown before it: otherwise two different pasts lead to the same
end, and a matching end is no proof of the middle.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from handoff.actions import AppendFile, ApplyPatch, EditLines, InsertLines, Operation, Replace, SetMode, WriteFile
from handoff.editors.plain import encoded, lines_of
from handoff.git.importer import FileState
from handoff.states.proof.undoing import hunks_stand_once, origins


class Version:
    """A file between two operations on it."""

    __slots__ = ("by", "follows", "is_doubtful", "is_same", "is_shown", "moment", "proof", "shown", "state", "step")

    def __init__(self, state: FileState, step: int, moment: int, by: Operation | None) -> None:
        self.state = state
        self.step = step
        """The step that made it; 0: the base."""
        self.moment = moment
        """Place of the action among all of the run."""
        self.by = by
        """The one operation that made it; ``None``: several, or one that cannot be undone from its text."""
        self.shown: set[int] = set()
        """Lines, from 1, that the recording shows exactly."""
        self.is_shown = False
        """Whether something shows every byte of it."""
        self.is_same = False
        """Whether it is the version before, unless something changed it that no text tells."""
        self.is_doubtful = False
        """Whether it may be another one: something may, or may not, have been done to it."""
        self.follows = False
        """Whether something shows that it is the version before with just this change."""
        self.proof = False

    @property
    def data(self) -> bytes | None:
        """Its bytes; ``None``: no file."""
        return None if self.state is None else self.state[1]

    @property
    def lines(self) -> list[bytes]:
        """Its lines, split at line feeds."""
        return (self.data or b"").split(b"\n")

    def show(self, stretches: Iterable[tuple[int, int]]) -> None:
        """Note lines that the recording shows."""
        for first, last in stretches:
            self.shown.update(range(first, last + 1))


class Histories:
    """The versions of every file that the run touches."""

    def __init__(self) -> None:
        self._by_path: dict[str, list[Version]] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def paths(self) -> list[str]:
        """Files with a history, in order of their first change."""
        return list(self._by_path)

    def of(self, path: str) -> list[Version]:
        """The versions of a file, the base first."""
        return self._by_path.get(path, [])

    def current(self, path: str) -> Version | None:
        """The version now; ``None``: untouched so far."""
        found = self._by_path.get(path)
        return found[-1] if found else None

    def touch(self, path: str, base: FileState, now: FileState, step: int, moment: int, by: Operation | None) -> None:
        """Begin a new version. Of several in one action that cannot be told apart only the last is kept."""
        versions = self._by_path.setdefault(path, [Version(base, 0, -1, None)])
        versions.append(Version(now, step, moment, by))

    def mark_doubtful(self, moment: int) -> None:
        """The versions that an action began may be others: it ended badly."""
        for versions in self._by_path.values():
            versions[-1].is_doubtful = versions[-1].is_doubtful or versions[-1].moment == moment

    def doubt(self, path: str, step: int, moment: int | None = None) -> None:
        """Something may have changed the file at ``step``: from there on only what shows it proves it."""
        versions = self._by_path[path]
        last = versions[-1]
        versions.append(Version(last.state, max(step, last.step), last.moment if moment is None else moment, None))
        versions[-1].is_same = versions[-1].is_doubtful = True

    def settle(self) -> None:
        """Decide for every version whether it is proven, from the last to the first."""
        by_moment: dict[tuple[int, int], Version] = {}
        for versions in self._by_path.values():
            for version in versions:
                if version.state is not None:
                    by_moment[version.moment, id(version.state)] = version
        for versions in self._by_path.values():
            versions[0].proof = True
            _go_back(versions)
            for before, version in pairwise(versions):
                version.proof = version.proof or (version.follows and before.proof)
            _go_back(versions)
        for versions in self._by_path.values():  # a file that was moved is proven where it went
            for place in range(1, len(versions) - 1):
                version, after = versions[place], versions[place + 1]
                if not version.proof and after.state is None and version.state is not None:
                    there = by_moment.get((after.moment, id(version.state)))
                    version.proof = there is not None and there.proof

    def unproven(self, steps: int) -> list[list[str]]:
        """By step, 0 to ``steps``: files whose content nothing proves then, in order of their first change."""
        found: list[list[str]] = [[] for _ in range(steps + 1)]
        for path, versions in self._by_path.items():
            ends = [version.step for version in versions[2:]] + [steps + 1]
            for version, end in zip(versions[1:], ends, strict=True):
                if not version.proof:
                    for step in range(version.step, end):
                        found[step].append(path)
        return found


def _go_back(versions: list[Version]) -> None:
    for place in range(len(versions) - 1, 0, -1):
        version = versions[place]
        if version.is_shown or version.proof:
            version.proof = True
        elif place + 1 < len(versions):
            after = versions[place + 1]
            version.proof = after.proof and determines(versions[0], version, after)


def determines(base: Version, before: Version, after: Version) -> bool:
    """Whether ``after``, and what was shown, leave only one content that ``before`` can have had."""
    old, new = before.data, after.data
    if after.is_same:
        return True
    if old is None or new is None:
        return old is None and isinstance(after.by, WriteFile) and after.by.must_be_new
    match after.by:
        case SetMode():
            return True
        case InsertLines(line=int()):
            if _is_inserted(old, new):
                return True
        case AppendFile(text=text):
            return new == old + encoded(text)
        case Replace(count="one", first=None):
            if origins(after.by, new) == {old}:
                return True
        case ApplyPatch(is_reversed=False):
            if hunks_stand_once(after.by, new):
                return True
        case EditLines(first=first, last=last):
            return all(line in before.shown for line in range(first, min(last, len(lines_of(old))) + 1))
        case _:
            pass
    return not before.is_doubtful and _lost(before, after) | _lost(before, base) <= before.shown


def _is_inserted(old: bytes, new: bytes) -> bool:
    """Whether ``new`` is ``old`` with one stretch put in."""
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    return len(new) >= len(old) and new.endswith(old[start:])


def _lost(before: Version, other: Version) -> set[int]:
    """Lines of ``before``, from 1, that are not surely in ``other``: those between what both begin and end with.

    Where ``other`` only has more, the two lines around that place count.
    """
    old, new = before.lines, other.lines
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    lost = set(range(start + 1, len(old) - end + 1))
    if not lost and len(old) != len(new):
        lost = {line for line in (start, start + 1) if 1 <= line <= len(old)}
    if lost and max(lost) == len(old) and not old[-1]:
        lost.discard(len(old))  # what follows the last line feed
    return lost
