"""An agent on a model endpoint: tools, or shell blocks in plain text where the endpoint has no tools.

The conversation only ever grows at its end, and begins with what stays the same (instructions, preamble, view, task),
so that an endpoint's prompt cache holds from call to call: each request's messages begin with those of the one
before. The probe branches off before the pending reply and is forgotten.

Which tools there are and what is wrong with a call is in ``calls.py``, the probe's words are in ``asking.py``, retries
in ``endpoints/``. Reasoning that an endpoint shows is recorded, and not sent back to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from handoff.endpoints import Client, Completion, Declined, Endpoint, Ledger
from handoff.endpoints.schemas import Way, left_after, ways_of
from handoff.endpoints.settings import MARGIN, SMALLEST_REPLY
from handoff.errors import ContextLimitError, InputError, SuccessorError
from handoff.identity import canonical_json, identify
from handoff.successors import Answer, Briefing, Question, Reply, Session, asking, calls
from handoff.successors.distractors import distractors
from handoff.tokens import MESSAGE_OVERHEAD, count_tokens
from handoff.trajectory import Action, Message, Observation, Usage

MOST_IDLE = 3
"""So many replies in a row that call no tool end the run."""

_COMMON = (
    "You are a programmer working in a git repository, which is your current folder. Read what you need, change the "
    "code, and check your work by running the tests."
)
NATIVE = f"{_COMMON} Every reply calls at least one tool. Call {calls.SUBMIT} when the task is done."
FENCED = (
    f"{_COMMON} Every reply ends with one shell block:\n\n```bash\nCOMMAND\n```\n\nThe command runs in the repository, "
    f"and you are shown what it prints. When the task is done, the block holds the one word {calls.SUBMIT}."
)
VERSION = 2
"""Raise it when requests change for the same conversation."""


class OpenAISuccessor:
    """The model behind ``client`` as a successor."""

    kind = "openai"

    def __init__(self, client: Client, *, name: str, asks_logprobs: bool = False) -> None:
        """``asks_logprobs``: of the first reply, where the endpoint tells them (``Reply.logprob``)."""
        self._client = client
        self._asks_logprobs = asks_logprobs
        self.name = name
        own = digest_of(client.endpoint)
        self.digest = identify("m", own, "logprobs") if asks_logprobs else own

    def start(self, briefing: Briefing, seed: int) -> Session:
        """A conversation that has only begun. How far the same seed gives the same replies is the endpoint's matter."""
        return OpenAISession(self._client, briefing, seed, asks_logprobs=self._asks_logprobs)


def digest_of(endpoint: Endpoint) -> str:
    """What identifies a successor on this endpoint: its settings, the instructions and the tools."""
    return identify("m", "openai", VERSION, endpoint.digest, NATIVE, FENCED, MOST_IDLE, canonical_json(calls.TOOLS))


class OpenAISession:
    """One run. Implements ``CallingSession``."""

    def __init__(self, client: Client, briefing: Briefing, seed: int, *, asks_logprobs: bool = False) -> None:
        self._client = client
        self._asks_logprobs = asks_logprobs
        self._endpoint = client.endpoint
        self._sampling = client.endpoint.sampling(seed)
        self._opening = "\n\n".join(message.text for message in briefing.messages())
        self._is_fenced = client.endpoint.tools == "fenced"
        further = distractors(briefing.tools)
        self._tools = [*calls.TOOLS, *further]
        self._nowhere = frozenset(tool["function"]["name"] for tool in further)
        """Tools that only the surroundings answer."""
        self._messages = self._begin()
        self._ledger: Ledger | None = None
        self._pending: Pending | None = None
        self._turns = 0
        self._idle = 0
        self._ids: set[str] = set()
        self._added: tuple[Message, ...] = ()
        self._known = 0
        """Tokens of the conversation up to the last answer, as the endpoint counted; 0 when it never did."""
        self._since = 0
        """Our count of what came after that."""

    # -- what the loop asks for -----------------------------------------------------------------

    def attach(self, ledger: Ledger) -> None:
        """Make every call through this ledger."""
        self._ledger = ledger

    def opening_tokens(self) -> int:
        """Our count of the instructions and of the tools."""
        own = FENCED if self._is_fenced else NATIVE
        tools = 0 if self._is_fenced else count_tokens(canonical_json(self._tools).decode())
        return count_tokens(own) + MESSAGE_OVERHEAD + tools

    def price_ahead(self, prompt_tokens: int) -> float | None:
        """The most that the next reply may cost: nothing from the cache, and a reply as long as allowed."""
        return self._most(prompt_tokens, self._endpoint.max_completion_tokens)

    def probe_price_ahead(self, prompt_tokens: int, question: Question) -> float | None:
        """The most that the probe may cost. Endpoints put a schema into the prompt, so it is counted."""
        words = count_tokens(asking.words_of(question, self._endpoint.probe_tokens, is_bound=False))
        return self._most(prompt_tokens + words, self._endpoint.probe_tokens, words)

    def _most(self, prompt_tokens: int, completion: int, more: int = 0) -> float | None:
        own = self._since + more if self._known else prompt_tokens
        return self._endpoint.cost(self._known + math.ceil(own * MARGIN), 0, completion)

    def refuse(self, action: Action) -> Observation | None:
        """What is wrong with a call."""
        return None if action.tool in self._nowhere else calls.refuse(action)

    def added(self) -> tuple[Message, ...]:
        """What was said to the model because it called no tool, or too many."""
        return self._added

    # -- the conversation -----------------------------------------------------------------------

    def reply(self) -> Reply | None:
        """The next answer. ``ContextLimitError`` when the conversation has grown too long, ``SuccessorError`` when the
        endpoint will not have the request; what only the user can mend is an ``EndpointError``."""
        if self._idle >= MOST_IDLE:
            return None
        completion = self._answer("reply", self._messages, self._room(self._endpoint.max_completion_tokens))
        self._pending = self._read(completion)
        return self._pending.reply

    def recall(self, reply: Reply) -> None:
        """Take the reply from the ledger once more."""
        if self.reply() != reply:
            raise InputError("the journal's answers and its replies do not belong together; delete the log of this run")

    def observe(self, observations: tuple[Observation, ...]) -> None:
        """Append the reply and what came back for it."""
        pending = self._pending
        assert pending is not None, "nothing was replied to"
        self._pending = None
        said = [_shown(observation) for observation in observations]
        self._messages.append(pending.message)
        if pending.ids:
            self._messages += [
                {"role": "tool", "tool_call_id": identifier, "content": text}
                for identifier, text in zip(pending.ids, said, strict=True)
            ]
        elif said:
            self._messages.append({"role": "user", "content": "\n\n".join(said)})
        self._added = tuple(Message(role="harness", text=text) for text in pending.remarks)
        for message in self._added:
            self._say(message.text)
        self._since += sum(count_tokens(text) + MESSAGE_OVERHEAD for text in [*said, *pending.remarks])

    def probe(self, question: Question) -> Answer | None:
        """The answer to the probe, on a branch before the pending reply."""
        limit = self._endpoint.probe_tokens
        limit = self._room(limit, count_tokens(asking.words_of(question, limit, is_bound=False)))
        ways = ways_of("answer", asking.schema_of(question, limit))
        while True:
            try:
                completion = self._ask_beside(asking.words_of(question, limit, is_bound=bool(ways[0])), ways[0])
                return asking.read_answer(completion.text, question)
            except _NoSchema as error:
                ways = left_after(ways, error.answer)

    def _ask_beside(self, text: str, more: Way) -> Completion:
        branch = list(self._messages)
        if branch[-1]["role"] == "user":  # some templates refuse two in a row
            branch[-1] = {"role": "user", "content": f"{branch[-1]['content']}\n\n{text}"}
        else:
            branch.append({"role": "user", "content": text})
        return self._answer("probe", branch, self._room(self._endpoint.probe_tokens, count_tokens(text)), more)

    # -- one call -------------------------------------------------------------------------------

    def _answer(
        self, purpose: str, messages: Sequence[dict[str, Any]], limit: int, more: dict[str, Any] | None = None
    ) -> Completion:
        assert self._ledger is not None, "a ledger comes first"
        body = {**self._sampling, self._endpoint.completion_limit_field: limit, "messages": messages, **(more or {})}
        if not self._is_fenced:
            body["tools"] = self._tools
            if purpose == "probe":  # they stay, since they stand at the head of the cached prompt
                body["tool_choice"] = "none"
        if purpose == "reply" and self._asks_logprobs and not self._turns:
            body["logprobs"] = True
        answer = self._ledger.call(self._client, purpose, body)
        if isinstance(answer, Completion):
            return answer
        if answer.why == "no_logprobs" and self._asks_logprobs:
            self._asks_logprobs = False
            return self._answer(purpose, messages, limit, more)
        if answer.why == "no_tools" and self._endpoint.tools == "auto" and not self._is_fenced and not self._turns:
            self._is_fenced = True
            self._messages = self._begin()
            return self._answer(purpose, self._messages, limit, more)
        raise _refusal(answer, is_bound="response_format" in body)

    def _room(self, wanted: int, more: int = 0) -> int:
        """Tokens that the next answer may have. ``ContextLimitError`` when the window is as good as full."""
        window = self._endpoint.context_window
        if window is None:
            return wanted
        known = self._known or self.opening_tokens() + count_tokens(self._opening) + MESSAGE_OVERHEAD
        left = window - known - self._since - more
        if left < min(SMALLEST_REPLY, wanted):
            raise ContextLimitError(f"the conversation fills the context window of {window} tokens")
        return min(wanted, left)

    def _read(self, completion: Completion) -> Pending:
        self._turns += 1
        made = completion.calls[: self._endpoint.calls_per_reply]
        remarks = [] if len(made) == len(completion.calls) else [f"Only the first {len(made)} calls were carried out."]
        ids = tuple(self._identified(call.id, place) for place, call in enumerate(made, 1))
        actions = tuple(
            Action(
                call_id=identifier,
                tool=call.name,
                arguments=call.arguments,
                is_text=calls.read_object(call.arguments) is None,
            )
            for identifier, call in zip(ids, made, strict=True)
        )
        if not made and self._endpoint.tools != "native":
            written = calls.calls_in(completion.text)
            actions = written[: self._endpoint.calls_per_reply]
            if len(written) > len(actions):
                remarks.append(f"Only the first {len(actions)} blocks were run.")
        self._idle = 0 if actions else self._idle + 1
        if not actions and self._idle < MOST_IDLE:
            remarks.append(self._nudge(completion))
        usage = completion.usage
        counted = usage.prompt is not None and usage.completion is not None
        self._known = (usage.prompt or 0) + (usage.completion or 0) if counted else 0
        self._since = 0 if counted else self._since + count_tokens(completion.text)
        message: dict[str, Any] = {"role": "assistant", "content": completion.text or (None if made else "(nothing)")}
        if made:
            message["tool_calls"] = [
                {"id": i, "type": "function", "function": {"name": call.name, "arguments": _readable(call.arguments)}}
                for i, call in zip(ids, made, strict=True)
            ]
        reply = Reply(
            text=completion.text,
            thought=completion.thought,
            actions=actions,
            completion_tokens=usage.completion,
            usage=usage if usage != Usage() else None,
            cost=completion.cost,
            model=completion.model,
            logprob=completion.logprob,
            finish=completion.finish,
        )
        return Pending(reply, message, ids, tuple(remarks))

    def _identified(self, identifier: str, place: int) -> str:
        """A call's id, or one of our own where it has none or another call has the same."""
        if not identifier or identifier in self._ids:
            identifier = f"call{self._turns:03d}{place:02d}"
        self._ids.add(identifier)
        return identifier

    def _nudge(self, completion: Completion) -> str:
        if completion.finish == "length":
            cut = (
                f"Your reply was cut off after {self._endpoint.max_completion_tokens} tokens, before it did anything. "
            )
        else:
            cut = ""
        if self._is_fenced:
            return f"{cut}No shell block was found. End each reply with one ```bash block; submit alone in it ends all."
        text = (
            f"{cut}No tool was called. Call {calls.SHELL} or {calls.EDITOR}, or {calls.SUBMIT} when the task is done."
        )
        if self._endpoint.tools == "auto":  # some servers take tools and never show them to the model
            text += " A shell command may also stand in a ```bash block; submit alone in it ends the work."
        return text

    def _begin(self) -> list[dict[str, Any]]:
        own = FENCED if self._is_fenced else NATIVE
        return [{"role": "system", "content": own}, {"role": "user", "content": self._opening}]

    def _say(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})


class Pending:
    """A reply that nothing has come back for yet."""

    def __init__(self, reply: Reply, message: dict[str, Any], ids: tuple[str, ...], remarks: tuple[str, ...]) -> None:
        """``message``: as it will stand in the conversation; ``ids``: of its tool calls, none for calls in plain text;
        ``remarks``: what the model will be told beside the observations."""
        self.reply = reply
        self.message = message
        self.ids = ids
        self.remarks = remarks


class _NoSchema(SuccessorError):
    """The endpoint does not bind answers to a schema, or not to this one."""

    def __init__(self, answer: Declined) -> None:
        super().__init__(answer.message)
        self.answer = answer


def _refusal(answer: Declined, *, is_bound: bool) -> SuccessorError:
    if answer.why == "context":
        return ContextLimitError(answer.message)
    if answer.why in ("no_schema", "no_bounds") and is_bound:
        return _NoSchema(answer)
    if answer.why == "no_tools":
        return SuccessorError(f"the endpoint has no tools: {answer.message}; set tools to fenced or auto")
    if answer.why == "no_logprobs":
        return SuccessorError(f"the endpoint tells no log-probabilities: {answer.message}; take them out of extra_body")
    return SuccessorError(f"the endpoint will not answer this: {answer.message}")


def _shown(observation: Observation) -> str:
    """An observation as the model is shown it."""
    if observation.missing is not None:
        return "This call was not carried out."
    text = observation.text or "(no output)"
    return text if not observation.exit_code else f"{text.rstrip()}\n[exit code {observation.exit_code}]"


def _readable(arguments: str) -> str:
    """Arguments as a JSON object: servers parse those of earlier calls, and fail on what is none."""
    found = calls.read_object(arguments)
    return canonical_json({"unreadable": arguments[:2000]} if found is None else found).decode()
