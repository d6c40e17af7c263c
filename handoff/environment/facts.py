"""What is known of the world outside the repository at a step: facts, and how later ones replace earlier ones.

A fact says what holds from a step on (``docs/science.md §2``). Where facts come from is in ``follow.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

Kind: TypeAlias = Literal["package", "process", "folder", "variable", "file", "system"]
"""``package``: name with its manager, and version; ``process``: command, and its number where shown; ``folder``: where
the shell stands; ``variable``: an exported one; ``file``: outside the repository; ``system``: kernel, distribution,
interpreters and their versions."""

Basis: TypeAlias = Literal["observed", "inferred"]
"""``observed``: the recording shows it; ``inferred``: it follows from a command that succeeded."""

KINDS: tuple[Kind, ...] = ("folder", "variable", "package", "process", "file", "system")
"""Every kind, in the order in which people read them."""


class Fact(NamedTuple):
    """Something begins to hold, or ceases to."""

    kind: Kind
    name: str
    value: str | None
    """``None``: only the name is known."""
    basis: Basis
    step: int
    """The step that shows it; 0 is before the first."""
    seen: int
    """The step by whose end it is known; later than ``step`` when the answer came late."""
    holds: bool = True
    """False: from here on it is not there, or nobody knows whether it is."""
    until: int | None = None
    """The step by whose end it no longer holds; ``None``: not known."""


class Known(NamedTuple):
    """One thing known at a step."""

    kind: Kind
    name: str
    value: str | None
    basis: Basis
    step: int
    """Since when it is known as it is."""


class Surroundings(NamedTuple):
    """The world outside the repository at one step, as far as it is known."""

    h: int
    known: tuple[Known, ...]
    """Sorted by kind (as in ``KINDS``) and name."""
    unknown: tuple[Kind, ...]
    """Kinds of which nothing is known: to be masked out of every target."""

    def of(self, kind: Kind) -> tuple[Known, ...]:
        """What is known of one kind."""
        return tuple(item for item in self.known if item.kind == kind)


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one run, in the order in which they came to hold."""

    facts: tuple[Fact, ...]
    n_steps: int

    def at(self, h: int) -> Surroundings:
        """What is known at the end of step ``h``, and nothing that was shown later. Raises ``ValueError`` for a step
        that the run does not have."""
        if not 0 <= h <= self.n_steps:
            raise ValueError(f"there is no step {h}; the run has steps 0 to {self.n_steps}")
        held: dict[tuple[Kind, str], Known] = {}
        for fact in self.facts:
            if fact.step > h or fact.seen > h or (fact.until is not None and fact.until <= h):
                continue
            key = fact.kind, fact.name
            if not fact.holds:
                held.pop(key, None)
            elif key not in held or held[key][2:4] != (fact.value, fact.basis):
                held[key] = Known(fact.kind, fact.name, fact.value, fact.basis, fact.step)
        known = tuple(sorted(held.values(), key=lambda item: (KINDS.index(item.kind), item.name)))
        there = {item.kind for item in known}
        return Surroundings(h, known, tuple(kind for kind in KINDS if kind not in there))

    def rows(self, trajectory_id: str) -> Iterator[dict[str, Any]]:
        """Rows of table ``environment_facts``."""
        for place, fact in enumerate(self.facts, 1):
            yield {"trajectory_id": trajectory_id, "place": place, **fact._asdict()}


def from_rows(rows: Iterator[Mapping[str, Any]] | list[dict[str, Any]], n_steps: int) -> Environment:
    """The facts of one run from its rows of table ``environment_facts``, in any order."""
    ordered = sorted(rows, key=lambda row: int(row["place"]))
    return Environment(facts=tuple(Fact(*(row[name] for name in Fact._fields)) for row in ordered), n_steps=n_steps)
