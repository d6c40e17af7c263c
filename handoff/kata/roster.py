"""Who can take over a kata task, by the name that tables show.

``A``, ``A+opening``, ``B`` and ``E`` are trained (``arms.py``); ``expert`` sees only what any successor may;
``oracle`` and ``resampled`` know the bugs and are references only; ``replay`` carries the recorded suffix out again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from handoff.errors import SuccessorError
from handoff.identity import identify
from handoff.kata.agent import Chooser, KataAgent
from handoff.kata.expert import Expert, Oracle
from handoff.kata.policy import Policy
from handoff.kata.predecessor import Predecessor
from handoff.kata.prior import Prior
from handoff.kata.record import prior_path
from handoff.kata.world import Task
from handoff.successors import Successor
from handoff.successors.policy import PolicySuccessor
from handoff.successors.replay import ReplaySuccessor
from handoff.trajectory import Step

REFERENCE_VERSION = 1
"""Raise it when a reference successor behaves differently."""


class Roster:
    """The successors of one data folder."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._prior = Prior.load(prior_path(data))
        self._policy = lru_cache(maxsize=32)(self._load)

    @staticmethod
    def digest(arm: str) -> str:
        """What identifies a successor that is not trained."""
        return identify("m", "kata reference", REFERENCE_VERSION, arm)

    def successor(
        self,
        arm: str,
        *,
        policy: str | None,
        task: Task | None,
        present: Callable[[], Mapping[str, str]] | None,
        suffix: Sequence[Step],
        seed: int,
    ) -> Successor:
        """The successor of an arm for one start.

        ``policy``: weights below the policies folder, for trained arms; ``present``: the files at the start;
        ``suffix``: the recorded continuation, for ``replay``. ``SuccessorError`` for a name nobody has.
        """
        if policy is None and arm != "replay":
            self._reference(arm, task, present, seed)  # says at once what is missing
        if policy is not None:
            return PolicySuccessor(self._policy(policy).agent(), name=arm)
        if arm == "replay":
            return ReplaySuccessor(suffix)
        return PolicySuccessor(KataAgent(arm, self.digest(arm), lambda: self._reference(arm, task, present, seed)))

    def _reference(
        self, arm: str, task: Task | None, present: Callable[[], Mapping[str, str]] | None, seed: int
    ) -> Chooser:
        if arm == "expert":
            return Expert(self._prior)
        if arm not in ("oracle", "resampled"):
            raise SuccessorError(f"no successor {arm!r} in the kata world, and no policy of that name was trained")
        if task is None or present is None:
            raise SuccessorError(f"{arm!r} knows the bugs, and lacks its task")
        if arm == "oracle":
            return Oracle(task, self._prior)
        return Predecessor(task, self._prior, f"resampled/{seed}", present())

    def _load(self, path: str) -> Policy:
        try:
            return Policy.load(self._data / "policies" / path, self._prior)
        except FileNotFoundError as error:
            raise SuccessorError(f"no weights at policies/{path}; materialize `policy` of the round before") from error
