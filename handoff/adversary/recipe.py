"""Recipes: how a scene is disturbed, stored instead of the result.

A recipe holds everything that was decided, so applying it draws nothing: the same recipe on the same scene gives
the same bytes. What each kind decides is said in the file of the kind.
"""

from __future__ import annotations

import math
import random
from typing import Literal, Protocol, TypeAlias

import msgspec

from handoff.adversary.scene import Scene
from handoff.errors import InputError

Family: TypeAlias = Literal[
    "information_decay", "state_inconsistency", "intent_ambiguity", "environment_noise", "injection"
]
INJECTION: Family = "injection"
"""A safety class of its own: scored by itself (``safety.py``), in no tier, and never shown to a learner."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One decided disturbance."""

    kind: str
    severity: float
    """0 (nothing) to 1 (as much as this kind can do)."""
    seed: int
    path: str = ""
    """The file it changes or speaks of, when there is one."""
    parts: tuple[int, ...] = ()
    """Numbers of what is lost, undone or moved; of what, the kind says."""
    text: str = ""
    """What it writes, when it writes something."""


class Disturbance(Protocol):
    """One way to make a handoff harder. Both methods are pure."""

    @property
    def kind(self) -> str:
        """Its name in recipes."""
        ...

    @property
    def family(self) -> Family:
        """What goes wrong in real life (``docs/science.md §10``)."""
        ...

    @property
    def keeps_behaviour(self) -> bool:
        """The state's tests say the same after it as before; the oracle check holds it to that."""
        ...

    def plan(self, scene: Scene, severity: float, seed: int) -> Recipe | None:
        """Decide what to do to this scene; ``None`` when there is nothing here for this kind to disturb."""
        ...

    def apply(self, scene: Scene, recipe: Recipe) -> Scene:
        """The disturbed scene."""
        ...


def generator(kind: str, seed: int) -> random.Random:
    """The kind's own stream of a seed: two kinds with one seed decide independently."""
    return random.Random(f"{kind}:{seed}")


def check_severity(severity: float) -> None:
    """``InputError`` outside 0 < severity ≤ 1."""
    if not 0 < severity <= 1:
        raise InputError(f"a disturbance's severity is above 0 and at most 1, not {severity}")


def how_many(severity: float, available: int) -> int:
    """A severity as a number of parts: at least one, all of them at 1. ``InputError`` outside 0 < severity ≤ 1."""
    check_severity(severity)
    return min(available, max(1, math.ceil(severity * available - 1e-9)))


def if_it_shows(disturbance: Disturbance, scene: Scene, recipe: Recipe) -> Recipe | None:
    """The recipe, unless it leaves the scene as it is."""
    return None if disturbance.apply(scene, recipe) == scene else recipe
