"""A successor that begins with replies it is given, and goes on by itself: the other branch of a run.

Meant for policies, whose replies cost nothing: a session that asks an endpoint finds its answers in a ledger, where
none is for a reply that it never gave.
"""

from __future__ import annotations

from collections.abc import Sequence

from handoff.errors import InputError
from handoff.identity import canonical_json, identify
from handoff.successors import Answer, Briefing, CallingSession, Question, Reply, Session, Successor
from handoff.trajectory import Observation


class BranchedSuccessor:
    """``base`` after ``forced``."""

    def __init__(self, base: Successor, forced: Sequence[Reply]) -> None:
        self._base = base
        self._forced = tuple(forced)
        self.kind = base.kind
        self.name = base.name
        self.digest = identify("m", base.digest, "branched", canonical_json(self._forced))

    def start(self, briefing: Briefing, seed: int) -> Session:
        """A session whose first replies are those that were given. ``InputError``: one that asks an endpoint."""
        session = self._base.start(briefing, seed)
        if isinstance(session, CallingSession):
            raise InputError(f"{self.name} asks an endpoint, and cannot be made to say what it did not")
        return _BranchedSession(session, self._forced)


class _BranchedSession:
    def __init__(self, base: Session, forced: Sequence[Reply]) -> None:
        self._base = base
        self._left = list(reversed(forced))

    def reply(self) -> Reply | None:
        if not self._left:
            return self._base.reply()
        reply = self._left.pop()
        self._base.recall(reply)
        return reply

    def recall(self, reply: Reply) -> None:
        if self._left:
            self._left.pop()
        self._base.recall(reply)

    def observe(self, observations: tuple[Observation, ...]) -> None:
        self._base.observe(observations)

    def probe(self, question: Question) -> Answer | None:
        return self._base.probe(question)
