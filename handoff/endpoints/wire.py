"""One request and one answer as values: bytes in canonical form, and what was understood of the body.

Answers are hostile: every part may be missing or of another type. What cannot be an answer is ``Unusable``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from handoff.identity import canonical_json, identify
from handoff.trajectory import Usage

LARGEST_COUNT = 2**31 - 1
"""Token counts beyond this are no counts."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call that a model made."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: perhaps no JSON at all."""


class Completion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="completion"):
    """One answer of a model."""

    text: str = ""
    thought: str = ""
    """Reasoning, where the endpoint shows it."""
    calls: tuple[ToolCall, ...] = ()
    finish: str = ""
    """Why it ended, in the endpoint's word: ``stop``, ``tool_calls``, ``length``. Empty: it does not say."""
    usage: Usage = Usage()
    reasoning_tokens: int | None = None
    """Part of ``usage.completion`` that was spent on reasoning."""
    model: str | None = None
    """The model that answered, as the endpoint calls it."""
    cost: float | None = None
    """US dollars. ``None``: no prices, or no usage."""
    attempts: int = 1
    logprob: float | None = None
    """Mean log-probability of its tokens, in nats, where it was asked for and told."""


class Declined(msgspec.Struct, frozen=True, kw_only=True, tag="declined"):
    """The endpoint understood the request and will never answer it: an outcome, not a fault."""

    why: Literal["context", "no_tools", "no_schema", "no_bounds", "no_logprobs", "rejected"]
    """The prompt is too long; no tool calls here; no schemas here; schemas, but not this one; no log-probabilities;
    anything else, such as a content filter."""
    message: str


Answer: TypeAlias = Completion | Declined


class Unusable(Exception):
    """A body that is no answer. It may pass when asked again."""


def canonical(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request in its one form: keys sorted, text that UTF-8 cannot hold or servers choke on replaced."""
    try:
        data = canonical_json(body)
    except UnicodeEncodeError:
        data = canonical_json(writable(body))
    if b"\\u0000" in data:
        data = canonical_json(_without_nul(msgspec.json.decode(data)))
    decoded: dict[str, Any] = msgspec.json.decode(data)
    return decoded


def request_digest(body: Mapping[str, Any]) -> str:
    """Content hash of a canonical request."""
    return identify("i", "request", canonical_json(body))


def writable(value: Any) -> Any:
    """The value with lone surrogates, which no file can hold, as U+FFFD; tuples become lists."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {writable(key): writable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [writable(part) for part in value]
    return value


def _without_nul(value: Any) -> Any:
    """NUL as the sign for it: databases behind some servers refuse the character itself."""
    if isinstance(value, str):
        return value.replace("\0", "\u2400")
    if isinstance(value, dict):
        return {key: _without_nul(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nul(part) for part in value]
    return value


def decoded(data: bytes) -> Any:
    """The JSON value. Lone surrogates, which models do write, become U+FFFD. ``ValueError`` when it is none."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if b"\\ud" not in data.lower():
            raise
        return writable(json.loads(data.decode("utf-8")))


def error_of(data: bytes) -> str | None:
    """The message of a body that reports an error, whatever its status; ``None`` for any other body."""
    try:
        value = decoded(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, dict):
        return " ".join(str(error[key]) for key in ("message", "code", "type") if error.get(key)) or str(error)
    if error:
        return str(error)
    if "choices" not in value:
        for key in ("message", "detail"):
            if value.get(key):
                return str(value[key])
    return None


def error_status(data: bytes) -> int:
    """The status that an error in a body of status 200 stands for: its own code where it gives one, else 502."""
    error = decoded(data).get("error")
    code = _count(error.get("code")) if isinstance(error, dict) else None
    return code if code is not None and 400 <= code <= 599 else 502


def read_completion(data: bytes) -> Completion:
    """The answer in a body. ``Unusable`` when there is none."""
    try:
        value = decoded(data)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"the answer is no JSON ({error})") from error
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Unusable("the answer has no choices")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Unusable("the answer's first choice has no message")
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise Unusable("the answer's tool_calls are no list")
    usage, reasoning = _usage(value.get("usage"))
    return Completion(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        thought=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        calls=tuple(_call(call, place) for place, call in enumerate(calls or (), 1)),
        finish=_text(choice.get("finish_reason"))[:40],
        usage=usage,
        reasoning_tokens=reasoning,
        model=_text(value.get("model"))[:200] or None,
        logprob=_logprob(choice.get("logprobs")),
    )


def _logprob(value: Any) -> float | None:
    """The mean over the tokens that have one; a token so unlikely that the server says no more (−9999) has none."""
    if not isinstance(value, dict):
        return None
    content, plain = value.get("content"), value.get("token_logprobs")
    told: list[Any] = plain if isinstance(plain, list) else []
    if isinstance(content, list):
        told = [token.get("logprob") if isinstance(token, dict) else None for token in content]
    known = [
        min(0.0, float(one))
        for one in told
        if isinstance(one, int | float) and not isinstance(one, bool) and -1000 < one < 1
    ]
    return sum(known) / len(known) if known else None


def _text(value: Any) -> str:
    """A text, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def _call(call: Any, place: int) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise Unusable(f"tool call {place} of the answer names no function")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):  # some servers send the object itself
        arguments = "{}" if arguments is None else canonical_json(arguments).decode()
    identifier = call.get("id")
    return ToolCall(
        id=identifier if isinstance(identifier, str) else "", name=function["name"][:200], arguments=arguments
    )


def _usage(value: Any) -> tuple[Usage, int | None]:
    if not isinstance(value, dict):
        return Usage(), None
    prompt = _count(value.get("prompt_tokens"))
    cached = _count(_inside(value, "prompt_tokens_details", "cached_tokens"))
    if cached is None:
        cached = _count(value.get("prompt_cache_hit_tokens"))
    if prompt is None or (cached is not None and cached > prompt):
        cached = None
    reasoning = _count(_inside(value, "completion_tokens_details", "reasoning_tokens"))
    return Usage(prompt=prompt, cached=cached, completion=_count(value.get("completion_tokens"))), reasoning


def _inside(value: dict[str, Any], key: str, inner: str) -> Any:
    part = value.get(key)
    return part.get(inner) if isinstance(part, dict) else None


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT
    return value if is_count else None
