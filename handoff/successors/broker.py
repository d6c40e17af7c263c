"""Between an agent that acts by itself and the model it uses: what it asks, what it is answered, what it spends.

Every request of the agent goes to the one endpoint, with that endpoint's model, sampling, seed and limits in place of
the agent's own. Each answer is in the ledger before the agent has it. The budget is the same as any successor's, and
is looked at before each call: what is over is refused, and the agent is left a moment to end.

**Started again after a kill**, the agent begins from the frozen state and asks anew. A request that is the same to the
letter is answered from the ledger. So is one that differs only in what came back for the agent's actions (the time that
a test run took, say): so it is with any successor whose actions are carried out again, and a note says it. A request
that differs in anything else means that the agent is another way now: what was written down from there is used no more,
though it stays paid for, and the run goes on with new calls.

The probe (``docs/science.md §6``) is put beside the agent's own conversation: by the broker, when the model's reply is
about to change the repository, or at the end of a run that never does. The agent does not see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from handoff.actions import context_of
from handoff.endpoints import Client, Completion, Declined, Ledger
from handoff.endpoints.gateway import Served
from handoff.endpoints.schemas import Way, left_after, ways_of
from handoff.endpoints.served import MOST_NAMES, Refused, Request, texts_of
from handoff.endpoints.settings import MARGIN, SMALLEST_REPLY
from handoff.endpoints.wire import canonical, request_digest
from handoff.errors import EndpointError, InputError, NoAnswerError, SuccessorError
from handoff.identity import canonical_json
from handoff.successors import Answer, Budget, Question, Status, asking, calls
from handoff.successors.changing import changes
from handoff.tokens import MESSAGE_OVERHEAD, count_tokens
from handoff.trajectory import Action, Missing, Observation, Step, Usage

VERSION = 2
"""Raise it when requests change for the same agent."""

_OVER: dict[Status, str] = {
    "step_limit": "the budget of model calls is used up",
    "context_limit": "the conversation stayed too long for the model, until the budget of calls was used up",
    "token_limit": "the budget of prompt tokens is used up",
    "money_limit": "the next call may cost more than is left of the budget",
    "error": "the model cannot be reached any more",
}


class Broker:
    """Answers one agent's requests in one takeover. Belongs to one thread at a time."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        budget: Budget,
        seed: int,
        question: Question | None,
        *,
        is_wanted: Callable[[], bool] = lambda: True,
        on_over: Callable[[], None] = lambda: None,
    ) -> None:
        """``is_wanted``: looked at before each attempt at a call; ``on_over``: called once, when nothing more will be
        answered."""
        self._client = client
        self._endpoint = client.endpoint
        self._ledger = ledger
        self._budget = budget
        self._sampling = client.endpoint.sampling(seed)
        self._question = question
        self._is_wanted = is_wanted
        self._on_over = on_over
        self._context = context_of("")
        self._last: list[dict[str, Any]] = []
        self._tools: list[dict[str, Any]] = []
        self._left_out: set[str] = set()
        self._repeated = 0
        self.over: Status | None = None
        """How the run ends, once nothing more is answered."""
        self.lost: NoAnswerError | None = None
        """The endpoint gave no answer: it may another time."""
        self.is_full = False
        """The last request was too long for the model."""
        self._declined = 0
        """Requests that were refused for what they are. Each uses up a step of the budget, though it is none."""
        self.asked: Answer | None = None
        """The probe's answer. ``None``: it was not put, or not answered in the form that was asked for."""
        self._is_asked = question is None
        self.steps: list[Step] = []
        """The replies, and what the next request showed of what came back for them."""
        self.first = 0
        self.prompt = 0
        self.completion = 0
        """Tokens by our own count, as ``spending.Meter`` counts."""
        self.notes: list[str] = []

    # -- the agent's requests -----------------------------------------------------------------------

    def answer(self, request: Request) -> Served:
        """The answer to a request. ``Refused`` says why there is none; an ``EndpointError`` is for the user."""
        if self.over is not None:
            raise self._refused()
        self._see(request)
        length = _length(request)
        self._check(length)
        completion = self._complete(request, self._cap(length, request.limit))
        self.first = self.first or length
        self.prompt += length
        self.completion += count_tokens(completion.text) + count_tokens(completion.thought)
        self.completion += sum(count_tokens(c.name) + count_tokens(c.arguments) for c in completion.calls)
        self._last, self._tools = request.messages, request.tools
        step = _step(completion)
        self.steps.append(step)
        is_changing, self._context = changes(step.actions, self._context)
        if is_changing:
            self.probe()
        return Served(len(self.steps), completion)

    def _check(self, length: int) -> None:
        """End the run when this call would pass a budget."""
        budget = self._budget
        if len(self.steps) + self._declined >= budget.steps:
            self._end("context_limit" if self.is_full else "step_limit")
        if self.prompt + length > budget.prompt_tokens:
            self._end("token_limit")
        if not self._affords(length, self._endpoint.max_completion_tokens):
            self._end("money_limit")

    def _affords(self, length: int, completion: int) -> bool:
        if self._budget.dollars is None:
            return True
        most = self._endpoint.cost(math.ceil(length * MARGIN), 0, completion)
        if most is None:
            raise InputError("a budget in dollars needs prices: set prices of the agent's endpoint, or no budget")
        return most <= self._budget.dollars - self.dollars(at_most=most)

    def dollars(self, *, at_most: float = 0.0) -> float:
        """What all calls cost so far, those of earlier starts too; a call whose cost nobody tells counts as
        ``at_most``, and so does an answer that was of no use."""
        given = [*self._ledger.completions, *(e.answer for e in self._ledger.unused)]
        costs = [c.cost for c in given if isinstance(c, Completion)]
        return sum(at_most if cost is None else cost for cost in costs) + at_most * self._ledger.spoiled

    def _cap(self, length: int, wanted: int | None) -> int:
        """The longest answer that is asked for. ``Refused`` when the model's window is as good as full."""
        cap = min(self._endpoint.max_completion_tokens, wanted or self._endpoint.max_completion_tokens)
        if self._endpoint.context_window is not None:
            left = self._endpoint.context_window - length
            if left < min(SMALLEST_REPLY, cap):
                self.is_full = True
                self._declined += 1
                raise Refused(400, "the conversation fills the model's context window", "context_length_exceeded")
            cap = min(cap, left)
        return cap

    def _complete(self, request: Request, cap: int) -> Completion:
        body = {**request.other, **self._sampling, "messages": request.messages}
        if not self._endpoint.is_seeded:
            body.pop("seed", None)
        body[self._endpoint.completion_limit_field] = cap
        if request.tools:
            body["tools"] = request.tools
        try:
            answer = self._call("reply", body)
        except NoAnswerError as error:
            if not self._is_wanted():
                raise Refused(403, "the run is over", "run_over") from error
            self.lost = error
            self.notes.append(str(error))
            self._end("error")
        self.is_full = isinstance(answer, Declined) and answer.why == "context"
        if isinstance(answer, Declined):
            self._declined += 1
            code = "context_length_exceeded" if self.is_full else "invalid_request"
            raise Refused(400, answer.message, code)
        return answer

    def _call(self, purpose: str, body: dict[str, Any]) -> Completion | Declined:
        """One call, from the ledger where it is written down there."""
        body = canonical(body)
        shape = _shape(body)
        ahead = self._ledger.ahead
        if ahead is not None and (ahead.purpose, ahead.digest) != (purpose, request_digest(body)):
            is_alike = (ahead.purpose, ahead.shape) == (purpose, shape)
            repeated = self._ledger.repeat() if is_alike else None
            if repeated is not None:
                self._repeated += 1
                return repeated
            self._ledger.depart()
        return self._ledger.call(self._client, purpose, body, shape=shape, is_wanted=self._is_wanted)

    def _end(self, status: Status) -> NoReturn:
        self.over = status
        self._on_over()
        raise self._refused()

    def _refused(self) -> Refused:
        assert self.over is not None
        # A status that clients do not try again.
        return Refused(403, f"{_OVER[self.over]}; nothing more is answered in this run", "budget_exceeded")

    # -- what is seen of the run --------------------------------------------------------------------

    def _see(self, request: Request) -> None:
        """What the request shows of what came back for the last reply."""
        if len(self._left_out) < MOST_NAMES:
            self._left_out.update(request.left_out)
        if not self.steps or self.steps[-1].observations:
            return
        step = self.steps[-1]
        after: list[str] = []
        by_id: dict[str, str] = {}
        for message in reversed(request.messages):
            if message["role"] == "assistant":
                break
            text = "\n".join(texts_of(message))
            if message["role"] == "tool":
                by_id[str(message.get("tool_call_id", ""))] = text
            else:
                after.insert(0, text)
        plain = iter(after)
        seen = []
        for action in step.actions:
            found = by_id.get(action.call_id) if action.call_id is not None else next(plain, None)
            missing: Missing | None = "none" if found is None else None
            seen.append(Observation(call_id=action.call_id, text=found or "", missing=missing))
        self.steps[-1] = msgspec.structs.replace(step, observations=tuple(seen))

    def transcript(self) -> tuple[Step, ...]:
        """The run as it passed here: what came back for the last actions is not known."""
        steps = []
        for step in self.steps:
            if len(step.observations) != len(step.actions):
                unseen = tuple(Observation(call_id=action.call_id, missing="none") for action in step.actions)
                step = msgspec.structs.replace(step, observations=unseen)
            steps.append(step)
        return tuple(steps)

    # -- the probe ----------------------------------------------------------------------------------

    def probe(self) -> None:
        """Put the question, unless it was put before."""
        if self._is_asked or not self._last or self._question is None:
            return
        self._is_asked = True
        try:
            self.asked = self._ask_beside(self._question)
        except EndpointError:
            raise
        except SuccessorError as error:
            self.notes.append(f"probe: {error}")

    def _ask_beside(self, question: Question) -> Answer:
        limit = self._endpoint.probe_tokens
        ways = ways_of("answer", asking.schema_of(question, limit))
        answer = self._put(asking.words_of(question, limit, is_bound=True), ways[0])
        while isinstance(answer, Declined) and (ways := left_after(ways, answer)):
            answer = self._put(asking.words_of(question, limit, is_bound=bool(ways[0])), ways[0])
        if isinstance(answer, Declined):
            raise SuccessorError(f"the endpoint will not answer this: {answer.message}")
        return asking.read_answer(answer.text, question)

    def _put(self, text: str, more: Way) -> Completion | Declined:
        messages = list(self._last)
        if messages[-1]["role"] == "user" and isinstance(messages[-1].get("content"), str):
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n\n{text}"}
        else:
            messages.append({"role": "user", "content": text})
        length = sum(map(_size, messages)) + _tools_size(self._tools)
        if not self._affords(length + count_tokens(text), self._endpoint.probe_tokens):
            raise SuccessorError("what it may cost is more than is left")
        body = {**self._sampling, "messages": messages, **more}
        body[self._endpoint.completion_limit_field] = self._endpoint.probe_tokens
        if self._tools:
            body |= {"tools": self._tools, "tool_choice": "none"}
        return self._call("probe", body)

    # -- what is to be said -------------------------------------------------------------------------

    def remarks(self) -> list[str]:
        """What went otherwise than planned, in words."""
        said = list(self.notes)
        if self._left_out:
            said.append(f"not passed on to the model: {', '.join(sorted(self._left_out)[:MOST_NAMES])}")
        if self._repeated:
            said.append(
                f"started again, {self._repeated} calls differed in what came back for actions, and had the answers "
                "written down before"
            )
        if self._ledger.unused:
            said.append(
                "started again, the agent asked other things than before: "
                f"{len(self._ledger.unused)} answers were paid for and not used"
            )
        return said


def _shape(body: dict[str, Any]) -> str:
    """What of a request has to repeat: all but what came back for the agent's actions."""
    has_begun = False
    kept: list[dict[str, Any]] = []
    for message in body["messages"]:
        has_begun = has_begun or message["role"] == "assistant"
        is_result = has_begun and message["role"] in ("tool", "user", "function")
        kept.append({**message, "content": ""} if is_result else message)
    return request_digest({**body, "messages": kept})


def _length(request: Request) -> int:
    return sum(map(_size, request.messages)) + _tools_size(request.tools)


def _size(message: dict[str, Any]) -> int:
    return sum(map(count_tokens, texts_of(message))) + MESSAGE_OVERHEAD


def _tools_size(tools: Sequence[dict[str, Any]]) -> int:
    return count_tokens(canonical_json(tools).decode()) if tools else 0


def _step(completion: Completion) -> Step:
    usage = completion.usage
    actions = tuple(
        Action(
            call_id=call.id or None,
            tool=call.name,
            arguments=call.arguments,
            is_text=calls.read_object(call.arguments) is None,
        )
        for call in completion.calls
    )
    return Step(
        text=completion.text,
        thought=completion.thought,
        actions=actions or calls.calls_in(completion.text),
        model=completion.model,
        usage=usage if usage != Usage() else None,
        cost=completion.cost,
    )
