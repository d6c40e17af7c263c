"""What OpenHands recordings of all generations share: contents, prices, a command's output, and the run they make.

The formats are in ``openhands_events.py``, ``openhands_output.py`` and ``openhands_sdk.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from handoff.adapters import calls, values
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, Repeated, Upkeep
from handoff.identity import canonical_json
from handoff.trajectory import Action, Ending, Trajectory, Usage


class Part(msgspec.Struct, gc=False):
    """One part of a content list, in V0 and SDK form."""

    type: str | None = None
    text: str | None = None
    image_urls: list[str] | None = None
    cache_prompt: Upkeep = NOTHING
    enable_truncation: Upkeep = NOTHING


Content = str | list[Part] | None


class TokenCount(msgspec.Struct, gc=False):
    """One call's tokens in ``metrics``; ``prompt_tokens`` includes those read from the cache."""

    response_id: str | None = None
    model: str | None = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    cache_read_tokens: Any = None
    per_turn_token: Repeated = NOTHING
    context_window: Upkeep = NOTHING


class Cost(msgspec.Struct, gc=False):
    """One call's price."""

    cost: Any = None
    model: Upkeep = NOTHING
    timestamp: Upkeep = NOTHING


class Metrics(msgspec.Struct, gc=False):
    """What a run, or a run so far, has spent."""

    accumulated_cost: Any = None
    costs: list[Cost | float] | None = None
    token_usages: list[TokenCount] | None = None
    accumulated_token_usage: Repeated = NOTHING
    max_budget_per_task: Upkeep = NOTHING
    model_name: Upkeep = NOTHING


class Prompt(msgspec.Struct, gc=False):
    """``metadata`` of a command's output: the prompt that followed it, taken apart."""

    exit_code: Any = None
    working_dir: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    pid: Upkeep = NOTHING
    username: Upkeep = NOTHING
    hostname: Upkeep = NOTHING
    py_interpreter_path: Upkeep = NOTHING


_ENDED: dict[str, Ending | None] = {
    "stopped": "aborted",
    "paused": "aborted",
    "interrupted": "aborted",
    "stuck": "error",
    "rejected": None,  # the agent gave the task back
}


class Spending:
    """Tokens and price of each model response, where a run keeps them apart from its events."""

    def __init__(self, metrics: Sequence[Metrics] = ()) -> None:
        self.usage: dict[str, Usage] = {}
        self.model: dict[str, str] = {}
        self.cost: dict[str, float] = {}
        is_nameless = len(metrics) == 1 and not metrics[0].token_usages
        self.in_order = _prices(metrics[0]) if is_nameless else []
        """Prices without ids, as the oldest versions write them; they can only be those of all replies, or nobody's."""
        self.total: float | None = None
        for part in metrics:
            self._add(part)

    def _add(self, metrics: Metrics) -> None:
        counts = metrics.token_usages or []
        prices = _prices(metrics)
        total = values.real(metrics.accumulated_cost)
        if total:  # 0 is an unpriced model
            self.total = (self.total or 0.0) + total
        for count in counts:
            used = values.usage(
                values.UsageRow(
                    prompt_tokens=count.prompt_tokens,
                    completion_tokens=count.completion_tokens,
                    cached_tokens=count.cache_read_tokens,
                )
            )
            if count.response_id and used is not None:
                self.usage[count.response_id] = used
            if count.response_id and count.model:
                self.model[count.response_id] = count.model
        if len(prices) == len(counts):  # one of each is written for every call
            for count, price in zip(counts, prices, strict=True):
                if count.response_id and price is not None:
                    self.cost[count.response_id] = price


def _prices(metrics: Metrics) -> list[float | None]:
    return [values.real(price.cost if isinstance(price, Cost) else price) for price in metrics.costs or ()]


class Run:
    """One conversation while it is read, and what else its events say."""

    def __init__(self, spending: Spending | None = None) -> None:
        self.talk = Conversation()
        self.spending = spending or Spending()
        self.replies = 0
        self.model: str | None = None
        self.tools: str | None = None
        self.repo: str | None = None
        self.status: str | None = None
        self.facts: dict[str, Any] = {}
        self.folders: list[list[Any]] = []

    def folder(self, path: str | None) -> None:
        """The working directory after the latest step."""
        if path and (not self.folders or self.folders[-1][1] != path[:500]):
            self.folders.append([self.replies, path[:500]])

    def reply(
        self,
        text: str,
        *,
        thought: str = "",
        actions: tuple[Action, ...] = (),
        response_id: str | None = None,
        model: str | None = None,
        usage: Usage | None = None,
        cost: float | None = None,
        timestamp: str | None = None,
    ) -> None:
        """A model response; what it cost is looked up by its id where the event does not say."""
        spent, known = self.spending, response_id or ""
        model = model or spent.model.get(known)
        self.talk.reply(
            text,
            thought=thought,
            actions=actions,
            model=model,
            usage=usage or spent.usage.get(known),
            cost=spent.cost.get(known, cost),
            timestamp=timestamp,
        )
        self.replies += 1
        self.model = self.model or model
        self.status = None

    def trajectory(self, record: Record, field: str, known: Trajectory) -> Trajectory:
        """``known`` with everything the events say; ``RecordError`` without a task or a reply."""
        steps = self.talk.steps()
        task = next((m.text for m in self.talk.preamble if m.role == "user" and m.text), known.task)
        if not steps or not task:
            raise RecordError(
                "No reply of the model is in it." if task else "No human message comes before the first reply.",
                field=field,
                remedy="The run ended before its first step, or the export lacks its beginning; leave it out.",
            )
        prices = self.spending.in_order
        if len(prices) == len(steps) and all(step.cost is None for step in steps):
            steps = tuple(
                [msgspec.structs.replace(step, cost=price) for step, price in zip(steps, prices, strict=True)]
            )
        status = known.outcome.exit_status or self.status
        ended = _ENDED[status] if status in _ENDED else values.ended(status) or calls.ending(steps)
        facts = {
            **{name: value[:500] if isinstance(value, str) else value for name, value in self.facts.items()},
            "folders": self.folders or None,
            "total_cost": self.spending.total,
            "repairs": record.repairs or None,
        }
        return msgspec.structs.replace(
            known,
            task=task,
            repo=known.repo or self.repo,
            agent="OpenHands",
            model=known.model or self.model,
            tools=self.tools,
            preamble=tuple(self.talk.preamble),
            steps=steps,
            outcome=msgspec.structs.replace(known.outcome, exit_status=status, ended=ended),
            source=canonical_json({key: value for key, value in facts.items() if value is not None}).decode(),
        )


def is_given(raw: msgspec.Raw) -> bool:
    """True for a value that is there and not null."""
    return raw is not NOTHING and bytes(raw) != b"null"


def json_text(value: object, record: Record) -> str:
    """``value`` as JSON. What it holds unparsed may hold bytes that are no UTF-8: they are replaced and counted."""
    data = values.flat(msgspec.json.encode(value))
    try:
        return data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        record.repairs += text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
        return text


def text_of(content: Content) -> str:
    """A content's text, with a note for each image."""
    if not isinstance(content, list):
        return content or ""
    return "\n".join(_parts(content))


def _parts(content: list[Part]) -> Iterator[str]:
    for part in content:
        if part.text:
            yield part.text
        for url in part.image_urls or ():
            yield values.media("image", url)


def shown(content: str, prompt: Prompt | None) -> str:
    """A command's output with what the harness says about it: that it shows an earlier command, or still runs.

    The note with the exit code only repeats the number.
    """
    if prompt is None:
        return content
    code = values.whole(prompt.exit_code)
    return f"{prompt.prefix or ''}{content}{prompt.suffix or '' if code is None or code < 0 else ''}"
