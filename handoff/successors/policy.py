"""A policy as a successor: whatever can propose the next action from the conversation so far.

This is only the adapter. The learned policy of the embedded world, its features and its training are in
``kata/``; anything else with these two methods will do.
"""

from __future__ import annotations

import random
from typing import Protocol

from handoff.successors import Answer, Briefing, Question, Reply, Session
from handoff.trajectory import Observation


class Conversation:
    """All that a policy may look at: the briefing, and each reply with what came back for it."""

    def __init__(self, briefing: Briefing) -> None:
        self.briefing = briefing
        self.turns: list[tuple[Reply, tuple[Observation, ...]]] = []
        self.memory: dict[str, object] = {}
        """Scratch space of the policy for what it has worked out so far. Must be derivable from the rest."""


class Policy(Protocol):
    """Proposes actions. Stateless: everything it knows of a run is in the conversation."""

    name: str
    digest: str
    """Content hash of the weights and of all else that decides the proposals."""

    def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
        """The next reply; ``None`` gives up. Same conversation and ``rng`` state, same reply."""
        ...

    def belief(self, conversation: Conversation, question: Question) -> Answer | None:
        """Its answer to the probe; the conversation is left as it is."""
        ...


class PolicySuccessor:
    """``policy`` as a successor."""

    kind = "policy"

    def __init__(self, policy: Policy, *, name: str | None = None) -> None:
        self._policy = policy
        self.name = name if name is not None else policy.name
        self.digest = policy.digest

    def start(self, briefing: Briefing, seed: int) -> Session:
        """A conversation that has only begun."""
        return _PolicySession(self._policy, briefing, seed)


class _PolicySession:
    def __init__(self, policy: Policy, briefing: Briefing, seed: int) -> None:
        self._policy = policy
        self._seed = seed
        self._conversation = Conversation(briefing)
        self._open: Reply | None = None

    def reply(self) -> Reply | None:
        # Seeded by turn, so that a run that was interrupted draws what an undisturbed one would have drawn.
        rng = random.Random(f"{self._seed}:{len(self._conversation.turns)}")
        self._open = self._policy.propose(self._conversation, rng)
        return self._open

    def recall(self, reply: Reply) -> None:
        self._open = reply

    def observe(self, observations: tuple[Observation, ...]) -> None:
        assert self._open is not None, "nothing was replied to"
        self._conversation.turns.append((self._open, observations))
        self._open = None

    def probe(self, question: Question) -> Answer | None:
        return self._policy.belief(self._conversation, question)
