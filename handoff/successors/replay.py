"""The recorded continuation as a successor: a reference, not an agent.

It gives the recorded replies in order, whatever comes back. Its runs carry the provenance ``replayed``: the
actions were really carried out, but nobody decided on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from handoff.identity import canonical_json, identify
from handoff.successors import Answer, Briefing, Question, Reply, Session
from handoff.trajectory import Observation, Step


class ReplaySuccessor:
    """Goes on as the predecessor did. ``continuation``: the recorded steps after h."""

    kind = "replay"
    name = "replay"

    def __init__(self, continuation: Sequence[Step]) -> None:
        self._replies = tuple(reply_of(step) for step in continuation)
        self.digest = identify("m", self.kind, canonical_json(self._replies))

    def start(self, briefing: Briefing, seed: int) -> Session:
        """The briefing is not read and the seed not used."""
        return _Recording(self._replies)


class _Recording:
    def __init__(self, replies: tuple[Reply, ...]) -> None:
        self._replies = iter(replies)

    def reply(self) -> Reply | None:
        return next(self._replies, None)

    def recall(self, reply: Reply) -> None:
        next(self._replies, None)

    def observe(self, observations: tuple[Observation, ...]) -> None:
        pass

    def probe(self, question: Question) -> Answer | None:
        return None  # a recording believes nothing


def reply_of(step: Step) -> Reply:
    """What the agent itself contributed to a recorded step."""
    return Reply(
        text=step.text, thought=step.thought, actions=step.actions, usage=step.usage, cost=step.cost, model=step.model
    )
