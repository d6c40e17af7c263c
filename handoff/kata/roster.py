"""Who can be started in the kata world, by the name of its arm.

``A``, ``A+opening``, ``B`` and ``E`` are learned (``arms.py``); ``expert`` sees what any successor sees; ``oracle`` and
``resampled`` read the sealed world, ``replay`` the recorded continuation: these three are reference levels
only (``docs/science.md §6, §13``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from handoff.errors import SuccessorError
from handoff.identity import identify
from handoff.kata.agent import KataAgent
from handoff.kata.expert import Expert, Oracle
from handoff.kata.policy import Policy
from handoff.kata.predecessor import Predecessor
from handoff.kata.record import load_prior, prior_path
from handoff.kata.world import Task
from handoff.successors import Successor
from handoff.successors.policy import PolicySuccessor
from handoff.successors.replay import ReplaySuccessor
from handoff.trajectory import Step

AGENT_VERSION = 1
"""Part of every digest: raise it when an unlearned agent of this world behaves differently."""

UNLEARNED = ("expert", "oracle", "resampled", "replay")


class Roster:
    """Makes successors from what one project has recorded and trained."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._prior = load_prior(prior_path(data))
        self._policies: dict[str, Policy] = {}

    @staticmethod
    def digest(arm: str) -> str:
        """The digest of an unlearned arm: its name and the version of its rules."""
        return identify("m", f"kata-{arm}", AGENT_VERSION)

    def successor(
        self,
        arm: str,
        *,
        policy: str | Path | None = None,
        task: Task | None = None,
        present: Callable[[], Mapping[str, str]] | None = None,
        suffix: Sequence[Step] = (),
        seed: int = 0,
    ) -> Successor:
        """The successor of one arm for one takeover.

        ``policy``: file of a learned arm's weights, absolute or in the project's ``policies`` folder; ``task`` and
        ``present`` (path → text at the handoff): for the arms that know the bugs; ``suffix``: what ``replay`` repeats.
        ``SuccessorError`` when something an arm needs is missing.
        """
        if policy is not None:
            return PolicySuccessor(self._policy(arm, policy).agent(), name=arm)
        match arm:
            case "expert":
                expert = Expert(self._prior)
                return PolicySuccessor(KataAgent(arm, self.digest(arm), lambda: expert))
            case "replay":
                return ReplaySuccessor(suffix)
            case "oracle" if task is not None:
                oracle = Oracle(task, self._prior)
                return PolicySuccessor(KataAgent(arm, self.digest(arm), lambda: oracle))
            case "resampled" if task is not None and present is not None:
                files = dict(present())
                known, prior = task, self._prior
                return PolicySuccessor(
                    KataAgent(arm, self.digest(arm), lambda: Predecessor(known, prior, f"resampled/{seed}", files))
                )
        raise SuccessorError(f"the arm {arm!r} is neither unlearned nor given its weights, or lacks its task")

    def _policy(self, arm: str, path: str | Path) -> Policy:
        key = f"{arm}:{path}"
        if key not in self._policies:
            file = Path(path) if Path(path).is_absolute() else self._data / "policies" / path
            if not file.exists():
                raise SuccessorError(f"no weights of arm {arm} at {file}; train them again")
            loaded = Policy.load(file, self._prior)
            wants_opening = arm.endswith("+opening") and not loaded.has_opening
            self._policies[key] = loaded.with_opening() if wants_opening else loaded
        return self._policies[key]
