"""A model as writer: asked through a ledger, held against the evidence record, asked once more, then cut.

A summary or note is written from the evidence record and verified claim by claim (``verify.py``). An answer with a
fault is rejected as a whole, and asked for once more with the faults told; what is still wrong then is dropped and
counted. An answer that cannot be read twice, or of which nothing is left, gives no text, and a reason: rules never
speak in a model's name. The note's block of facts is written by rule in any case.

A compaction (``compact_pre``, ``compact_suf``) is a text of the model's own, made from the whole trace. It is kept as
it was written; sentences that the record contradicts are counted and stay.

Secrets are masked before anything is sent, and in what comes back. A prompt that does not fit, and a request that the
endpoint declines, are outcomes with a reason; an endpoint that cannot be used, or never answers, is an error.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from handoff.endpoints import Client, Completion, Declined, Endpoint, Ledger
from handoff.endpoints.schemas import Way, left_after, ways_of
from handoff.endpoints.settings import MARGIN, SMALLEST_REPLY
from handoff.endpoints.wire import canonical, request_digest
from handoff.errors import InputError
from handoff.evidence import Evidence
from handoff.identity import canonical_json, identify
from handoff.secrets import Redactor
from handoff.tokens import MESSAGE_OVERHEAD, count_tokens
from handoff.writers import asking
from handoff.writers.asking import Compaction
from handoff.writers.claims import (
    LONGEST_SUMMARY,
    MOST_CLAIMS,
    Claim,
    Form,
    Unreadable,
    bounds_of,
    read_claims,
    schema_of,
)
from handoff.writers.phrasing import line, note_of, prose_of, whole
from handoff.writers.verify import Known, find_contradictions, find_faults

VERSION = 2
"""Raise it when another text comes of the same answer, or another request of the same record."""
ATTEMPTS = 2
"""Answers that a writer may give."""
_WRITE = "write"
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

Opened = Callable[[str], Ledger]
"""The ledger of that name, with what was answered before."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking a model for a view."""

    author: str
    """The model, as its endpoint is asked for it."""
    text: str | None
    """``None``: none could be had, and ``reason`` says why."""
    reason: str = ""
    attempts: int = 0
    """Answers that were read."""
    claims: int | None = None
    """Of the last answer that could be read. ``None``: a compaction, or none could be read."""
    rejected_claims: int | None = None
    """Those of them that were dropped."""
    contradicted_claims: int = 0
    """Sentences of a compaction that the record contradicts, and that stand in the text."""
    writing_tokens: int = 0
    """Prompts and answers of all calls, by our tokenizer."""
    prompt_tokens: int | None = None
    """As the endpoint counted; ``None``: it did not say at some call."""
    completion_tokens: int | None = None
    dollars: float | None = None
    """US dollars; ``None``: no prices, or no usage."""


def write_from_evidence(
    form: Form, evidence: Evidence, client: Client, opened: Opened, seed: int, dollars: float | None = None
) -> Written:
    """A summary or note, verified, without its heading. ``dollars``: the most that it may cost; ``None``: no limit."""
    redactor = Redactor()
    clean = _masked(evidence, redactor)
    talk = _Talk(client, opened, seed, form, dollars)
    bounds = bounds_of(form, talk.room(asking.words_of(form, clean, bounds_of(form, 0), is_bound=False)))
    ways = ways_of(form, schema_of(form, bounds, clean.h))
    talk.say(asking.words_of(form, clean, bounds, is_bound=True))
    known = Known(clean)
    claims: tuple[Claim, ...] | None = None
    wrong: list[tuple[str, str]] = []
    sound: list[Claim] = []
    for attempt in range(ATTEMPTS):
        answer = talk.ask(ways[0])
        while answer is None and talk.declined and (left := left_after(ways, talk.declined)):
            ways = left
            talk.begin_again(asking.words_of(form, clean, bounds, is_bound=bool(ways[0])))
            answer = talk.ask(ways[0])
        if answer is None and claims is None:
            return talk.result(None)
        if answer is None:
            break
        try:
            claims = tuple(_clean(claim, redactor) for claim in read_claims(form, answer.text, bounds))
        except Unreadable as error:
            wrong = [("", f"the answer cannot be read: {error}{_cut_off(answer)}")]
        else:
            sound, wrong = _judged(form, claims, known)
        if not wrong:
            break
        if attempt + 1 < ATTEMPTS:
            talk.hear(answer.text)
            talk.say(asking.words_of_rejection(wrong))
    counted = None if claims is None else len(claims)
    if not sound:
        why = f"no claim of the answer could be kept: {wrong[0][1]}" if claims is not None else wrong[0][1]
        return talk.result(None, why, claims=counted, rejected=counted)
    text = note_of(sound, clean) if form == "structured" else prose_of(sound)
    return talk.result(text, claims=counted, rejected=(counted or 0) - len(sound))


def write_compaction(
    kind: Compaction,
    evidence: Evidence,
    trace: str,
    client: Client,
    opened: Opened,
    seed: int,
    dollars: float | None = None,
) -> Written:
    """A model's own summary of the whole ``trace``, in a fence, without a heading. ``dollars``: as above."""
    redactor = Redactor()
    _masked(evidence, redactor)  # what a frame in the record tells holds for the trace, and the other way round
    shown = redactor.text(redactor.text(trace))
    clean = _masked(evidence, redactor)
    talk = _Talk(client, opened, seed, kind, dollars)
    talk.say(asking.words_of_compaction(kind, clean.task, shown))
    answer = talk.ask({})
    if answer is None:
        return talk.result(None)
    text = whole(redactor.text(re.sub(r"\A.*</think>", "", answer.text, flags=re.S)).strip())
    if not text:
        return talk.result(None, f"the answer is empty{_cut_off(answer)}")
    known = Known(clean)
    doubtful = sum(bool(find_contradictions(sentence, known)) for sentence in _SENTENCE.split(text))
    return talk.result(asking.fenced(text, "text"), contradicted=doubtful)


class _Talk:
    """One conversation with a writer, and what it cost."""

    def __init__(self, client: Client, opened: Opened, seed: int, kind: str, dollars: float | None) -> None:
        self._client = client
        self._endpoint: Endpoint = client.endpoint
        self._opened = opened
        self._sampling = client.endpoint.sampling(seed)
        self._kind = kind
        self._dollars = dollars
        self._ledger: Ledger | None = None
        self._messages: list[dict[str, str]] = []
        self._why = ""
        self._tokens = 0
        self._answers = 0
        self.declined: Declined | None = None
        """What the endpoint said to the last request, where it would not answer it."""
        self._begin()

    def _begin(self) -> None:
        self._messages = [{"role": "system", "content": asking.SYSTEM}]

    def say(self, text: str) -> None:
        """Add what the model is told next."""
        self._messages.append({"role": "user", "content": text})

    def hear(self, text: str) -> None:
        """Add what it answered."""
        self._messages.append({"role": "assistant", "content": text or "(nothing)"})

    def begin_again(self, text: str) -> None:
        """Forget the conversation and begin with this."""
        self._begin()
        self.say(text)

    def room(self, text: str = "") -> int:
        """Tokens that an answer may have once this is said, as far as can be told; 0 when there is no room."""
        window = self._endpoint.context_window
        limit = self._endpoint.max_completion_tokens
        if window is None:
            return limit
        left = window - math.ceil(self._prompt(text) * MARGIN)
        return min(limit, left) if left >= min(SMALLEST_REPLY, limit) else 0

    def _prompt(self, text: str = "") -> int:
        contents = [*(m["content"] for m in self._messages), *([text] if text else ())]
        return sum(count_tokens(_encodable(content)) + MESSAGE_OVERHEAD for content in contents)

    def ask(self, more: Way) -> Completion | None:
        """The next answer; ``None`` when there is none, and ``result`` says why."""
        self.declined = None
        prompt = self._prompt()
        limit = self.room()
        if not limit:
            window = self._endpoint.context_window
            self._why = f"context: the prompt of about {prompt} tokens fills the context window of {window}"
            return None
        if not self._affords(prompt + count_tokens(canonical_json(more).decode()), limit):
            self._why = "money: the next answer may cost more than is left of writer_dollar_budget"
            return None
        body = {
            **self._sampling,
            self._endpoint.completion_limit_field: limit,
            "messages": list(self._messages),
            **more,
        }
        if self._ledger is None:
            self._ledger = self._opened(
                identify("w", VERSION, self._kind, self._endpoint.digest, request_digest(canonical(body)))
            )
        answer = self._ledger.call(self._client, _WRITE, body)
        if isinstance(answer, Declined):
            self.declined = answer
            self._why = f"{answer.why}: {line(answer.message)}"
            return None
        self._answers += 1
        self._tokens += prompt + count_tokens(_encodable(answer.text)) + count_tokens(_encodable(answer.thought))
        return answer

    def _affords(self, prompt: int, completion: int) -> bool:
        """May the next call be made? What nobody tells the cost of is charged at the most that it may have cost."""
        if self._dollars is None:
            return True
        most = self._endpoint.cost(math.ceil(prompt * MARGIN), 0, completion)
        if most is None:
            raise InputError("a budget in dollars needs prices: set prices of the writer's endpoint, or no budget")
        if self._ledger is None:
            return most <= self._dollars
        spent = sum(most if c.cost is None else c.cost for c in self._ledger.completions)
        return most <= self._dollars - spent - most * self._ledger.spoiled

    def result(
        self,
        text: str | None,
        reason: str = "",
        *,
        claims: int | None = None,
        rejected: int | None = None,
        contradicted: int = 0,
    ) -> Written:
        """What came of it. ``reason``: why there is no text, where no call says it."""
        spent = None if self._ledger is None else self._ledger.spent(_WRITE)
        return Written(
            author=self._endpoint.model,
            text=text,
            reason="" if text is not None else reason or self._why,
            attempts=self._answers,
            claims=claims,
            rejected_claims=rejected,
            contradicted_claims=contradicted,
            writing_tokens=self._tokens,
            prompt_tokens=0 if spent is None else spent.prompt,
            completion_tokens=0 if spent is None else spent.completion,
            dollars=0.0 if spent is None else spent.dollars,
        )


def _judged(form: Form, claims: tuple[Claim, ...], known: Known) -> tuple[list[Claim], list[tuple[str, str]]]:
    """(claims without a fault, (claim, fault) of the others)."""
    sound: list[Claim] = []
    wrong: list[tuple[str, str]] = []
    words = 0
    listed: Counter[str] = Counter()
    for claim in claims:
        faults = find_faults(form, claim, known)
        words += len(claim.text.split())
        listed[claim.section] += 1
        if listed[claim.section] > MOST_CLAIMS[form]:
            faults = (*faults, f"its list has more than {MOST_CLAIMS[form]} entries")
        if not faults and form == "summary" and words > LONGEST_SUMMARY:
            faults = (f"the summary has more than {LONGEST_SUMMARY} words here",)
        wrong += [(claim.text, fault) for fault in faults]
        if not faults:
            sound.append(claim)
    return sound, wrong


def _clean(claim: Claim, redactor: Redactor) -> Claim:
    return msgspec.structs.replace(claim, text=line(redactor.text(claim.text)))


def _masked(evidence: Evidence, redactor: Redactor) -> Evidence:
    """The record without secrets. Searched twice: what stands in a telling frame once is then found everywhere."""
    return msgspec.json.decode(redactor.json(redactor.json(_encoded(evidence))), type=Evidence)


def _cut_off(answer: Completion) -> str:
    return "; it was cut off at the limit of one answer, so be shorter" if answer.finish == "length" else ""


def _encoded(evidence: Evidence) -> str:
    try:
        return msgspec.json.encode(evidence).decode()
    except UnicodeEncodeError:  # a lone surrogate of the recording
        return msgspec.json.encode(_writable(msgspec.to_builtins(evidence))).decode()


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, dict):
        return {key: _writable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(part) for part in value]
    return value


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
