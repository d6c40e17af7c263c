"""The agents that take over: one protocol, one file per kind.

::

    policy.py   a learned or scripted policy that proposes one action at a time (embedded)
    replay.py   the recorded continuation, carried out again (reference)
    branched.py  one that begins with replies it is given, and goes on by itself
    openai.py   a tool-calling agent on a model endpoint
    calls.py, asking.py, distractors.py   its tools, the probe in words, tools that lead nowhere

What is said between a successor and its takeover is defined here; the loop is ``takeover.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from handoff.endpoints.ledger import Ledger
from handoff.trajectory import Action, Message, Observation, Usage

Status: TypeAlias = Literal[
    "submitted", "step_limit", "token_limit", "money_limit", "context_limit", "time_limit", "error", "stopped"
]
"""How a run ended. ``time_limit``: only of agents that act by themselves."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one takeover may spend. All are checked before a call is made, so none is ever exceeded."""

    steps: int
    """Model calls."""
    prompt_tokens: int
    """Summed over the calls."""
    dollars: float | None = None
    """US dollars, the probe included. ``None``: no limit. A call is made only if the most it may cost is left; one
    whose cost the endpoint does not tell is charged at that."""


class Briefing(msgspec.Struct, frozen=True, kw_only=True):
    """All that a successor is told before its first action (``docs/science.md §3``)."""

    task: str
    view: str
    """Name of the view (``views.ALL_VIEWS``)."""
    view_text: str
    """The view block as rendered; empty for ``repo``."""
    preamble: str
    """The takeover preamble: every successor knows that it takes over, also under ``repo``."""
    tools: str = "[]"
    """Tool definitions, a JSON array in OpenAI form."""
    system: str = ""
    """What the harness of a recorded run says before all else: a model that is trained on its rest works in that
    harness. Empty for takeovers that are executed: their own harness says what it says."""

    def messages(self) -> tuple[Message, ...]:
        """The opening of the conversation in the order of §3: preamble, view block, task."""
        parts = (self.preamble, self.view_text, self.task)
        return tuple(Message(role="user", text=part) for part in parts if part)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a successor."""

    text: str = ""
    thought: str = ""
    actions: tuple[Action, ...] = ()
    completion_tokens: int | None = None
    """As the successor's own model counted them. ``None``: it does not say."""
    usage: Usage | None = None
    """Everything its endpoint reported, in the endpoint's own tokenizer."""
    cost: float | None = None
    """US dollars."""
    model: str | None = None
    logprob: float | None = None
    """Mean log-probability of its tokens, in nats, where it was asked for and told."""
    finish: str = ""
    """Why the model stopped, in its endpoint's word; ``length``: it was cut off. Empty: nothing is said."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The probe (``docs/science.md §6``): which of these subtasks are done, and what comes next?"""

    nodes: tuple[tuple[str, str], ...]
    """(opaque id, node), shuffled, decoys among them. Only the ids are shown beside each node's wording."""

    @staticmethod
    def about(nodes: Iterable[str], decoys: Iterable[str], rng: random.Random) -> Question:
        """The question over true subtasks and decoys. Same ``rng`` state, same question."""
        every = sorted({*nodes, *decoys})
        rng.shuffle(every)
        return Question(nodes=tuple((f"q{number:02d}", node) for number, node in enumerate(every, 1)))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a successor answered. ``None`` in a field: no valid answer, which is missing and not wrong."""

    done: tuple[str, ...] | None = None
    """Nodes (not ids) believed done."""
    plan: tuple[str, ...] | None = None
    """Keys it means to work through, in order, each ``kind target``."""


class Session(Protocol):
    """One successor at work on one takeover."""

    def reply(self) -> Reply | None:
        """The next answer; ``None`` when it gives up without submitting. ``SuccessorError`` when it cannot act."""
        ...

    def recall(self, reply: Reply) -> None:
        """Take ``reply`` as the next answer, given before an interruption. Nothing may be paid for.

        A session whose replies cost nothing and repeat exactly may simply call ``reply()`` and drop the result.
        """
        ...

    def observe(self, observations: tuple[Observation, ...]) -> None:
        """What came back for the last answer, one per action."""
        ...

    def probe(self, question: Question) -> Answer | None:
        """Answer on a side branch that is never appended to the run. ``None``: cannot answer.

        Whether this was called or not must change nothing about later replies.
        """
        ...


@runtime_checkable
class CallingSession(Session, Protocol):
    """A session that asks an endpoint, and so costs money."""

    def attach(self, ledger: Ledger) -> None:
        """Make every call through this ledger. Comes before the first reply."""
        ...

    def opening_tokens(self) -> int:
        """Tokens of what it tells its model beside the briefing's messages: its instructions and its own tools."""
        ...

    def price_ahead(self, prompt_tokens: int) -> float | None:
        """US dollars that a call with such a prompt may cost at most. ``None``: the prices are not known."""
        ...

    def probe_price_ahead(self, prompt_tokens: int, question: Question) -> float | None:
        """The same of the probe; ``prompt_tokens``: of the conversation without the question."""
        ...

    def refuse(self, action: Action) -> Observation | None:
        """What is wrong with a call that cannot be carried out as it was made; ``None``: nothing."""
        ...

    def added(self) -> tuple[Message, ...]:
        """What it told its model itself after the last observations, such as that it called no tool."""
        ...


class Successor(Protocol):
    """An agent that can take over."""

    kind: str
    """``policy``, ``replay``, ``openai``, ``command``."""
    name: str
    digest: str
    """Content hash of all that decides its behaviour: weights, model name, parameters, prompt."""

    def start(self, briefing: Briefing, seed: int) -> Session:
        """A fresh session. Same briefing, seed and observations: same replies, as far as the kind can promise."""
        ...
