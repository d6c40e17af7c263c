"""The ledger of one run's calls: each answer is written down before anyone uses it, and never asked for again.

A ledger is made of whatever holds the entries (a takeover's journal, a log of its own) and what that already holds.
Calls come in the same order every time, since all that decides them is in the briefing and in earlier answers; so the
n-th call finds the n-th answer. Only a call that was under way when the process died is asked again: its ``Asked``
stands there with nothing behind it. It carries the same label then (``Client.ask``).

An agent that is a program of its own may ask otherwise when it is started anew (``successors/broker.py``). There the
ledger is asked what comes next, gives it out all the same, or departs from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from handoff.endpoints.client import Client
from handoff.endpoints.wire import Answer, Completion, Declined, canonical, request_digest
from handoff.errors import EndpointError, InputError, NoAnswerError
from handoff.trajectory import Usage

__all__ = ["Abandoned", "Answered", "Asked", "CallEntry", "Departed", "Ledger", "Spent", "Spoiled"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="asked"):
    """A request that is about to be sent."""

    purpose: str
    digest: str
    shape: str = ""
    """Of requests that need not repeat to the letter: what has to be the same."""


class Spoiled(msgspec.Struct, frozen=True, kw_only=True, tag="spoiled"):
    """An answer to it that could not be used, and was perhaps paid for."""

    reason: str


class Abandoned(msgspec.Struct, frozen=True, kw_only=True, tag="abandoned"):
    """There was none: all attempts failed. When the run is gone on with, they begin anew."""

    reason: str


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """What it was answered in the end."""

    purpose: str
    digest: str
    answer: Answer


class Departed(msgspec.Struct, frozen=True, kw_only=True, tag="departed"):
    """Something else was asked for than before: what is written down from this call on is used no more."""

    call: int


CallEntry: TypeAlias = Asked | Spoiled | Abandoned | Answered | Departed
_DECODER: msgspec.json.Decoder[CallEntry] = msgspec.json.Decoder(Asked | Spoiled | Abandoned | Answered | Departed)


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What the answered calls of one purpose cost, as the endpoint counted. ``None``: it did not say at some call."""

    calls: int = 0
    prompt: int | None = 0
    cached: int | None = 0
    completion: int | None = 0
    dollars: float | None = 0.0


class Ledger:
    """The calls of one run. Belongs to one thread."""

    def __init__(self, name: str, write: Callable[[CallEntry], None], past: Iterable[CallEntry] = ()) -> None:
        """``name``: the run's own, part of each call's label; ``write``: returns when the entry is safe;
        ``past``: what was written before, in order."""
        self.name = name
        self._write = write
        self._past: deque[_Call] = deque()
        self._answered: list[Answered] = []
        self.notes: list[str] = []
        self.spoiled = 0
        """Answers of no use so far. Nobody says what they cost."""
        self.is_closed = False
        """While it is, nothing is asked: calls are answered from what is written down, or not at all."""
        self.unused: list[Answered] = []
        """Answers that were written down, and are used no more."""
        self._departures = 0
        for entry in past:
            if isinstance(entry, Asked):
                self._past.append(_Call(entry))
            elif isinstance(entry, Departed):
                self._departures += 1
                self._leave(entry.call, entry.call)
            elif self._past:
                self._past[-1].take(entry)

    @staticmethod
    def of(name: str, lines: Iterable[bytes], append: Callable[[bytes], None]) -> Ledger:
        """A ledger in a log of its own (``Log.entries``, ``Log.append``): for calls that belong to no takeover."""
        past = [_DECODER.decode(line) for line in lines]
        return Ledger(name, lambda entry: append(msgspec.json.encode(entry)), past)

    def call(
        self,
        client: Client,
        purpose: str,
        body: dict[str, object],
        *,
        shape: str = "",
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """The answer to a request: the one written down, else a new one, written down first.

        ``InputError`` when what is written down belongs to another request; else as ``Client.ask``.
        """
        wanted = canonical(body)
        digest = request_digest(wanted)
        number = len(self._answered) + 1
        spoiled = abandoned = 0
        while self._past and self._past[0].is_for(purpose, digest):
            call = self._past.popleft()
            self.spoiled += call.spoiled
            if call.answered is not None:
                self._answered.append(call.answered)
                return call.answered.answer
            if call.abandoned:
                spoiled, abandoned = 0, abandoned + 1
                if self.is_closed:
                    raise NoAnswerError(call.abandoned)
            else:
                spoiled += call.spoiled
                self._note_cut_off(number)
        if self._past or self.is_closed:
            raise InputError(
                f"call {number} of this run is not the one that its journal holds: the program or its settings "
                "have changed since; finish the run with the version that began it, or delete its log"
            )
        self._write(Asked(purpose=purpose, digest=digest, shape=shape))
        try:
            answer = client.ask(
                wanted,
                label=f"{self.name}{f'.{self._departures}' * bool(self._departures)}-{number}-{abandoned}",
                spoiled=spoiled,
                on_spoiled=self._spoil,
                is_wanted=is_wanted,
            )
        except (NoAnswerError, EndpointError) as error:
            self._write(Abandoned(reason=str(error)))
            raise
        entry = Answered(purpose=purpose, digest=digest, answer=answer)
        self._write(entry)
        self._answered.append(entry)
        return answer

    @property
    def ahead(self) -> Asked | None:
        """The next call that is written down and was not handed out yet; ``None``: there is none."""
        return self._past[0].asked if self._past else None

    def repeat(self) -> Answer | None:
        """The answer of the next call that is written down, whatever is asked for now; ``None``: it never had one."""
        if all(call.answered is None for call in self._past):
            return None
        answered: Answered | None = None
        while answered is None:  # attempts at one call stand side by side
            call = self._past.popleft()
            self.spoiled += call.spoiled
            answered = call.answered
            if answered is None and not call.abandoned:
                self._note_cut_off(len(self._answered) + 1)
        self._answered.append(answered)
        return answered.answer

    def _note_cut_off(self, number: int) -> None:
        self.notes.append(f"call {number} was under way when the run was cut off, and was made again")

    def depart(self) -> None:
        """Use no more what is written down from the next call on."""
        number = len(self._answered) + 1
        self._write(Departed(call=number))
        self._departures += 1
        self._leave(1, number)

    def _leave(self, place: int, number: int) -> None:
        """Drop what is written down from a call on: the ``place``-th from here, the ``number``-th of the run."""
        kept: deque[_Call] = deque()
        while self._past and place > 1:
            kept.append(self._past.popleft())
            place -= kept[-1].answered is not None
        self.unused += [one.answered for one in self._past if one.answered is not None]
        self.spoiled += sum(one.spoiled for one in self._past)
        for one in self._past:
            if one.answered is None and not one.abandoned:
                self._note_cut_off(number)
        self._past = kept

    def _spoil(self, reason: str) -> None:
        self._write(Spoiled(reason=reason))
        self.spoiled += 1

    def spent(self, *purposes: str) -> Spent:
        """The sum over these purposes; over all when none is named."""
        total = Spent()
        for entry in self._answered:
            if (not purposes or entry.purpose in purposes) and isinstance(entry.answer, Completion):
                total = _add(total, entry.answer)
        return total

    @property
    def completions(self) -> tuple[Completion, ...]:
        """Every answer so far that a model gave."""
        return tuple(entry.answer for entry in self._answered if not isinstance(entry.answer, Declined))


class _Call:
    """What is written down of one call."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.spoiled = 0
        self.abandoned = ""
        self.answered: Answered | None = None

    def is_for(self, purpose: str, digest: str) -> bool:
        return (self.asked.purpose, self.asked.digest) == (purpose, digest)

    def take(self, entry: Spoiled | Abandoned | Answered) -> None:
        match entry:
            case Spoiled():
                self.spoiled += 1
            case Abandoned():
                self.abandoned = entry.reason
            case Answered():
                self.answered = entry


def _add(total: Spent, answer: Completion) -> Spent:
    usage: Usage = answer.usage
    return Spent(
        calls=total.calls + 1,
        prompt=_sum(total.prompt, usage.prompt),
        cached=_sum(total.cached, usage.cached),
        completion=_sum(total.completion, usage.completion),
        dollars=None if total.dollars is None or answer.cost is None else total.dollars + answer.cost,
    )


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more
