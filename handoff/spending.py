"""What a takeover spends while it runs: tokens by our own count, and money (``docs/science.md §9``).

What the endpoint counted is summed in ``endpoints/ledger.py``. Whether a run may go on is decided in ``takeover.py``.
"""

from __future__ import annotations

from handoff.endpoints.ledger import Ledger, Spent
from handoff.errors import InputError
from handoff.successors import Briefing, CallingSession, Question, Reply, Session
from handoff.tokens import MESSAGE_OVERHEAD, count_tokens
from handoff.trajectory import Message, Observation


class Meter:
    """Counts the conversation as it grows: each message once, each call at the length it has by then."""

    def __init__(self, briefing: Briefing, session: Session) -> None:
        own = session.opening_tokens() if isinstance(session, CallingSession) else count_tokens(briefing.tools)
        self.length = own + sum(_size(m.text) for m in briefing.messages())
        self.cut = 0
        """Replies that ended at the limit of one reply."""
        self.first = self.length
        self.prompt = 0
        self.completion = 0
        self.cached: int | None = 0
        """As the endpoint counted. ``None``: it did not say at some call."""

    def call(self, reply: Reply) -> None:
        """One more call was made and answered."""
        own = count_tokens(reply.text) + count_tokens(reply.thought)
        own += sum(count_tokens(action.tool) + count_tokens(action.arguments) for action in reply.actions)
        self.prompt += self.length
        self.completion += own
        self.length += own + MESSAGE_OVERHEAD
        self.cut += reply.finish == "length"
        cached = reply.usage.cached if reply.usage is not None else None
        self.cached = None if cached is None or self.cached is None else self.cached + cached

    def observe(self, observations: tuple[Observation, ...]) -> None:
        """What came back is part of every later prompt."""
        self.length += sum(_size(observation.text) for observation in observations)

    def add(self, messages: tuple[Message, ...]) -> None:
        """So is what was said to the model beside it."""
        self.length += sum(_size(message.text) for message in messages)


class Purse:
    """What is left of a budget in money. A session that asks no endpoint costs none."""

    def __init__(self, dollars: float | None, session: Session) -> None:
        """``dollars`` of ``None``: no limit."""
        self._left = dollars
        self._ahead: float | None = None
        self._spoiled = 0
        self._session = session if isinstance(session, CallingSession) else None

    def allows(self, prompt_tokens: int, question: Question | None = None) -> bool:
        """May the next call be made? ``question``: it is the probe. ``InputError`` when nobody knows its price."""
        if self._left is None or self._session is None:
            return True
        if question is None:
            self._ahead = self._session.price_ahead(prompt_tokens)
        else:
            self._ahead = self._session.probe_price_ahead(prompt_tokens, question)
        if self._ahead is None:
            raise InputError("a budget in dollars needs prices: set prices of this successor's endpoint, or no budget")
        return self._ahead <= self._left

    def pay(self, cost: float | None, spoiled: int) -> None:
        """One call was made. ``cost`` of ``None`` is not known; ``spoiled``: answers of no use in the run so far.
        What nobody tells the cost of is charged at the most that it may have cost."""
        if self._left is not None and self._session is not None:
            most = self._ahead or 0.0
            self._left -= most if cost is None else cost
            self._left -= most * (spoiled - self._spoiled)
            self._spoiled = spoiled


def spent_of(session: Session, ledger: Ledger) -> tuple[Spent, Spent]:
    """What the endpoint counted for the run's own calls and for the probe's; unknown where there is none."""
    if isinstance(session, CallingSession):
        return ledger.spent("reply"), ledger.spent("probe")
    unknown = Spent(prompt=None, cached=None, completion=None, dollars=None)
    return unknown, unknown


def _size(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD
