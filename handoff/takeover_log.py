"""What the journal holds of one takeover, and what comes of it: replies and observations in order, then the row.

Each is written down before it is used. What was written down before an interruption is handed out again here, in the
same order. The calls that an endpoint answered stand between them, and are the ledger's business
(``endpoints/ledger.py``). The loop is ``takeover.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, TypeAlias, TypeVar

import msgspec

from handoff.endpoints.ledger import Abandoned, Answered, Asked, CallEntry, Departed, Ledger, Spoiled
from handoff.endpoints.wire import writable
from handoff.errors import ContextLimitError, EndpointError, NoAnswerError, SuccessorError
from handoff.identity import canonical_json
from handoff.journal import Log
from handoff.successors import Answer, CallingSession, Question, Reply, Session, Status
from handoff.trajectory import Observation, Step

Provenance: TypeAlias = Literal["executed", "replayed"]


class Takeover(msgspec.Struct, frozen=True, kw_only=True):
    """What one run did and cost: the part of a ``takeover_runs`` row that the run itself decides."""

    takeover_id: str
    view: str
    successor: str
    """Kind of successor."""
    successor_name: str
    successor_digest: str
    seed: int
    provenance: Provenance
    status: Status
    solved: bool | None
    tests_passed: int | None
    tests_total: int | None
    steps: int
    """Model calls answered."""
    events: int
    """Actions and the observations that came back."""
    first_prompt_tokens: int
    prompt_tokens: int
    """Σ over calls of the prompt's length."""
    cached_tokens: int | None
    """As the endpoint counted. ``None``: it did not say at some call."""
    completion_tokens: int
    note_tokens: int
    """Spent on writing the view."""
    tokenizer: str
    endpoint_prompt_tokens: int | None = None
    """As the endpoint counted, over the run's own calls. ``None``: no endpoint, or it did not say at some call."""
    endpoint_completion_tokens: int | None = None
    probe_prompt_tokens: int | None = None
    """The same, of the probe's calls."""
    probe_completion_tokens: int | None = None
    dollars: float | None = None
    """US dollars of all answered calls, the probe's included. ``None``: not known."""
    final_tree: str | None
    """Git tree that was left. ``None``: what was left cannot be a state; ``note`` says why."""
    probe_done: tuple[str, ...] | None
    probe_plan: tuple[str, ...] | None
    transcript: tuple[Step, ...]
    note: str
    """What could not be had or went otherwise than planned, in words; empty when nothing."""
    first_logprob: float | None = None
    """Mean log-probability of a token of the first reply, in nats, where it was asked for and told."""
    is_lost: bool = False
    """It ended because nobody answered. Nothing is known of how it would have gone on; asked for again, it does."""

    def columns(self) -> dict[str, object]:
        """The columns of ``takeover_runs`` that this run fills, as plain values."""
        own = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if name not in ("successor_name", "first_logprob", "is_lost")
        }
        own["transcript"] = canonical_json(self.transcript).decode()
        for name in ("probe_done", "probe_plan"):
            own[name] = None if own[name] is None else list(own[name])
        return own


def read_transcript(text: str) -> tuple[Step, ...]:
    """The steps of a ``takeover_runs.transcript`` cell."""
    return msgspec.json.decode(text, type=tuple[Step, ...])


# -- what the journal holds of one run, in order: (Replied, Probed?, Observed)*, Probed?, Finished ---------
# and before a reply or a probe that an endpoint gave, its calls (``endpoints/ledger.py``)


class Probed(msgspec.Struct, frozen=True, kw_only=True, tag="probed"):
    """The probe's answer as given."""

    answer: Answer | None
    note: str = ""


class Replied(msgspec.Struct, frozen=True, kw_only=True, tag="replied"):
    """A reply, recorded before it is used. ``None``: the successor gave up; ``error``: it could not act."""

    reply: Reply | None
    error: str = ""
    status: Status | None = None
    """How the run ends with this, where ``reply`` and ``error`` do not say it."""
    is_passing: bool = False
    """The error may be gone another time: a run that ended with it is gone on with when it is asked for again."""


class Observed(msgspec.Struct, frozen=True, kw_only=True, tag="observed"):
    """What came back for the last reply, recorded before the successor sees it."""

    observations: tuple[Observation, ...]


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The run is over and is never run again."""

    takeover: Takeover


Entry: TypeAlias = Probed | Replied | Observed | Finished
EntryType = TypeVar("EntryType", Probed, Replied, Observed)
DECODER: msgspec.json.Decoder[Entry | CallEntry] = msgspec.json.Decoder(
    Probed | Replied | Observed | Finished | Asked | Spoiled | Abandoned | Answered | Departed
)


def sort_entries(entries: Iterable[Entry | CallEntry]) -> tuple[tuple[Entry, ...], tuple[CallEntry, ...]]:
    """What a journal holds of the run and of its calls. An end that may have passed by now is none."""
    past: list[Entry] = []
    calls: list[CallEntry] = []
    for entry in entries:
        if isinstance(entry, Asked | Spoiled | Abandoned | Answered | Departed):
            calls.append(entry)
            continue
        if past and isinstance(past[-1], Replied) and past[-1].is_passing:
            past.pop()
            if isinstance(entry, Finished):
                continue
        past.append(entry)
    if past and isinstance(past[-1], Replied) and past[-1].is_passing:
        past.pop()
    return tuple(past), tuple(calls)


class Recorder:
    """Hands out what the journal already holds; records what is new before anyone uses it."""

    def __init__(self, log: Log, past: tuple[Entry, ...], ledger: Ledger) -> None:
        self._log = log
        self._past = list(reversed(past))
        self.ledger = ledger
        self.notes: list[str] = []

    def probe(self, session: Session, question: Question) -> Probed:
        """The answer to the probe: the recorded one, else a new one."""
        if self._past:
            entry = self._past.pop()
            assert isinstance(entry, Probed), "the journal's name fixes whether there is a probe"
            if isinstance(session, CallingSession):
                self._take_calls(lambda: session.probe(question))
            return entry
        try:
            probed = Probed(answer=session.probe(question))
        except EndpointError:
            raise
        except SuccessorError as error:
            probed = Probed(answer=None, note=str(error))
        return self._write(probed)

    def reply(self, session: Session) -> Replied:
        """The next reply: the recorded one, which the session is told of, else a new one."""
        if self._past:
            entry = self._past.pop()
            assert isinstance(entry, Replied), "replies and observations alternate"
            reply = entry.reply
            if isinstance(session, CallingSession):
                self._take_calls(session.reply if reply is None else lambda: session.recall(reply))
            elif reply is not None:
                session.recall(reply)
            return entry
        try:
            replied = Replied(reply=session.reply())
        except EndpointError:
            raise
        except SuccessorError as error:
            replied = Replied(
                reply=None,
                error=str(error) or type(error).__name__,
                status="context_limit" if isinstance(error, ContextLimitError) else None,
                is_passing=isinstance(error, NoAnswerError),
            )
        return self._write(replied)

    def _take_calls(self, asking: Callable[[], object]) -> None:
        """Let a session find its recorded calls in the ledger, so that it stands where it stood. Nothing is asked."""
        self.ledger.is_closed = True
        with suppress(SuccessorError):  # it was recorded then
            asking()
        self.ledger.is_closed = False

    def observed(self, step: int, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """What came back for it: what was recorded then, whatever comes back now."""
        if self._past:
            entry = self._past.pop()
            assert isinstance(entry, Observed), "replies and observations alternate"
            if entry.observations != observations:
                self.notes.append(f"step {step} gave another observation when it was carried out again")
            return entry.observations
        return self._write(Observed(observations=observations)).observations

    def finish(self, takeover: Takeover) -> None:
        """The run is over."""
        self._log.append(msgspec.json.encode(Finished(takeover=takeover)), is_last=True)

    def _write(self, entry: EntryType) -> EntryType:
        entry, line = _storable(entry)
        self._log.append(line)
        return entry


def _storable(entry: EntryType) -> tuple[EntryType, bytes]:
    """The entry and its bytes. Lone surrogates, which no file can hold, become U+FFFD before anyone sees them."""
    try:
        return entry, msgspec.json.encode(entry)
    except UnicodeEncodeError:
        clean = msgspec.convert(writable(msgspec.to_builtins(entry)), type(entry))
        return clean, msgspec.json.encode(clean)
