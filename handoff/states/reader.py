"""Stored states of one trajectory, read back: the ``StateReader`` that points, evidence and views use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from handoff.errors import StateError
from handoff.git.repositories import Repository


class StateReader(Protocol):
    """The states of one trajectory. Step 0 is the base commit."""

    def tree(self, step: int) -> str | None:
        """The git tree; ``None`` when unknown."""
        ...

    def status(self, step: int) -> str:
        """verified, divergent, partial or unverifiable."""
        ...

    def is_derived(self, step: int) -> bool:
        """Whether every effect up to ``step`` follows from the recording, and nothing contradicts it."""
        ...

    def read(self, step: int, path: str) -> bytes | None:
        """A file's bytes; ``None`` when there is no such file."""
        ...

    def changed(self, step: int) -> tuple[str, ...]:
        """Paths that differ from the base commit, sorted."""
        ...

    def diff(self, step: int) -> str:
        """Unified diff from the base commit to the state after ``step``. ``StateError`` when that is unknown."""
        ...

    def final(self) -> int:
        """The last step that has a state."""
        ...


class StoredStates:
    """The states of one trajectory, from its rows of table ``repository_states`` (any order).

    ``StateError`` when the rows are not those of steps 0 to n of one trajectory, each once.
    """

    def __init__(self, repository: Repository, rows: Sequence[Mapping[str, Any]]) -> None:
        self._repository = repository
        self._rows = sorted(rows, key=lambda row: int(row["step"]))
        if [row["step"] for row in self._rows] != list(range(len(self._rows))) or not self._rows:
            raise StateError("the stored states of this trajectory are incomplete; run the replay of its shard again")
        self._changed: dict[str, tuple[str, ...]] = {}

    def final(self) -> int:
        """The last step, n."""
        return len(self._rows) - 1

    def tree(self, step: int) -> str | None:
        """The tree after ``step`` (0: the base). ``None`` when unverifiable from the start."""
        tree = self._row(step)["tree"]
        return None if tree is None else str(tree)

    def status(self, step: int) -> str:
        """``verified``, ``divergent``, ``partial`` or ``unverifiable``."""
        return str(self._row(step)["status"])

    def is_derived(self, step: int) -> bool:
        """Whether every effect up to ``step`` follows from the recording, and nothing contradicts it."""
        return bool(self._row(step)["is_derived"])

    def read(self, step: int, path: str) -> bytes | None:
        """A file's bytes after ``step``; ``None`` when there is no such file or no state."""
        tree = self.tree(step)
        return None if tree is None else self._repository.read(tree, path)

    def changed(self, step: int) -> tuple[str, ...]:
        """Paths that differ from the base after ``step``, sorted."""
        tree, base = self.tree(step), self.tree(0)
        if tree is None or base is None:
            return ()
        if tree not in self._changed:
            self._changed[tree] = self._repository.changed(base, tree)
        return self._changed[tree]

    def diff(self, step: int) -> str:
        """Unified diff from the base to the state after ``step``."""
        tree, base = self.tree(step), self.tree(0)
        if tree is None or base is None:
            raise StateError(f"the state after step {step} is not known")
        return self._repository.diff(base, tree)

    def _row(self, step: int) -> Mapping[str, Any]:
        if not 0 <= step < len(self._rows):
            raise StateError(f"there is no step {step}; the recording has steps 0 to {len(self._rows) - 1}")
        return self._rows[step]
