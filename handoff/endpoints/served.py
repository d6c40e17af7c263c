"""Chat Completions as a server sees them: what a client may ask of ours, and how an answer is worded for it.

The clients are agents in a jail, and hostile. A request is taken apart and only what is known is passed on: parts that
would let the model's server fetch or search something for the agent, run another model or answer at another price never
leave (``read_request``). One answer a request, and text only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.endpoints.wire import Completion, decoded
from handoff.identity import canonical_json

MODELS = frozenset({"/models", "/v1/models"})
COMPLETIONS = frozenset({"/chat/completions", "/v1/chat/completions"})
"""Paths, with and without the version."""
_NUMBER = (int, float)
_PASSED: dict[str, tuple[type, ...]] = {
    "frequency_penalty": _NUMBER,
    "logit_bias": (dict,),
    "min_p": _NUMBER,
    "parallel_tool_calls": (bool,),
    "presence_penalty": _NUMBER,
    "reasoning_effort": (str,),
    "repetition_penalty": _NUMBER,
    "response_format": (dict,),
    "seed": (int,),
    "stop": (str, list),
    "temperature": _NUMBER,
    "tool_choice": (str, dict),
    "top_k": _NUMBER,
    "top_p": _NUMBER,
}
"""Parts that are passed on as they are, beside messages and tools, and what each may be."""
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_OF_A_MESSAGE = frozenset({"role", "content", "name", "tool_call_id", "reasoning_content"})
"""What is passed on of a message, beside its calls: scaffolds keep notes of their own in others."""
_OURS = frozenset(
    ("model", "n", "stream", "stream_options", "max_tokens", "max_completion_tokens", "messages", "tools")
)
"""Parts that are read here."""
MOST_NAMES = 8
"""Parts that are not passed on, and are named."""


class Refused(Exception):
    """A request that is not passed on; the client is told why."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request of an agent."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    other: dict[str, Any]
    """Sampling and the like."""
    limit: int | None
    """Tokens that it wants the answer to have at most."""
    is_streamed: bool
    has_usage: bool
    """A streamed answer ends with the usage."""
    left_out: tuple[str, ...]
    """Names of parts that are not passed on."""


def read_request(body: bytes) -> Request:
    """The request in a body. ``Refused`` when it is none, or asks for what an agent is not given."""
    try:
        value = decoded(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON ({error})", "invalid_json") from error
    if not isinstance(value, dict):
        raise Refused(400, "the body is no JSON object", "invalid_request")
    if value.get("n") not in (None, 1):
        raise Refused(400, "one answer a request: n is 1 here", "unsupported_value")
    options = value.get("stream_options")
    return Request(
        messages=_messages(value.get("messages")),
        tools=_tools(value.get("tools")),
        other=_other(value),
        limit=min(_limits(value), default=None),
        is_streamed=value.get("stream") is True,
        has_usage=isinstance(options, dict) and options.get("include_usage") is True,
        left_out=tuple(sorted(name[:40] for name in value.keys() - _PASSED.keys() - _OURS)[:MOST_NAMES]),
    )


def _other(value: dict[str, Any]) -> dict[str, Any]:
    other = {}
    for name in sorted(_PASSED.keys() & value.keys()):
        part = value[name]
        if part is None:
            continue
        is_odd = isinstance(part, bool) and bool not in _PASSED[name]
        if is_odd or not isinstance(part, _PASSED[name]):
            raise Refused(400, f"{name} is not of its kind", "invalid_request")
        other[name] = part
    return other


def _messages(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise Refused(400, "messages is no list of messages", "invalid_request")
    return [_message(message) for message in value]


def _message(value: Any) -> dict[str, Any]:
    role = value.get("role") if isinstance(value, dict) else None
    if not isinstance(role, str) or role not in _ROLES:
        raise Refused(400, "a message has no role that is known", "invalid_request")
    content = value.get("content")
    if isinstance(content, list):
        content = [_part(part) for part in content]
    elif content is not None and not isinstance(content, str):
        raise Refused(400, "the content of a message is no text", "invalid_request")
    message = {name: value[name] for name in sorted(_OF_A_MESSAGE & value.keys()) if value[name] is not None}
    message["content"] = content
    if not all(isinstance(message.get(name, ""), str) for name in _OF_A_MESSAGE - {"content"}):
        raise Refused(400, "a part of a message is no text", "invalid_request")
    calls = value.get("tool_calls") or []
    if not isinstance(calls, list):
        raise _no_call()
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    return message


def _part(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("type") != "text" or not isinstance(value.get("text"), str):
        raise Refused(400, "messages hold text only here: no images, sounds and files", "unsupported_value")
    return {"type": "text", "text": value["text"]}


def _no_call() -> Refused:
    return Refused(400, "tool_calls is no list of calls with id, name and arguments", "invalid_request")


def _call(value: Any) -> dict[str, Any]:
    function = value.get("function") if isinstance(value, dict) else None
    named = (value.get("id"), function.get("name"), function.get("arguments")) if isinstance(function, dict) else ()
    if not named or not all(isinstance(part, str) for part in named):
        raise _no_call()
    identifier, name, arguments = named
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tools(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise Refused(400, "tools is no list of tools", "invalid_request")
    if any(tool.get("type") != "function" for tool in value):
        raise Refused(400, "tools of the type function only: nothing is run or looked up by the server", "no_such_tool")
    return value


def _limits(value: dict[str, Any]) -> list[int]:
    named = (value.get("max_tokens"), value.get("max_completion_tokens"))
    return [number for number in named if isinstance(number, int) and not isinstance(number, bool) and number > 0]


def texts_of(message: dict[str, Any]) -> list[str]:
    """Every text of a request's message that its model reads: content, reasoning, names and arguments of calls."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part["text"] for part in content or ()]
    texts += [message["reasoning_content"]] if "reasoning_content" in message else []
    for call in message.get("tool_calls", ()):
        texts += [call["function"]["name"], call["function"]["arguments"]]
    return texts


def render_answer(completion: Completion, number: int, *, is_streamed: bool, has_usage: bool) -> bytes:
    """The body of an answer: a JSON object, or the events of a stream that come all at once. No clock is in it."""
    message: dict[str, Any] = {"role": "assistant", "content": completion.text or None}
    if completion.thought:
        message["reasoning_content"] = completion.thought
    if completion.calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{number}_{place}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for place, call in enumerate(completion.calls)
        ]
    finish = completion.finish or ("tool_calls" if completion.calls else "stop")
    head = {"id": f"chatcmpl-{number}", "created": 0, "model": completion.model or "model"}
    if not is_streamed:
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return canonical_json({**head, "object": "chat.completion", "choices": [choice], "usage": _usage(completion)})
    head["object"] = "chat.completion.chunk"
    for place, call in enumerate(message.get("tool_calls", ())):
        call["index"] = place
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]
    if has_usage:
        chunks.append({**head, "choices": [], "usage": _usage(completion)})
    return b"".join(b"data: %s\n\n" % canonical_json(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def _usage(completion: Completion) -> dict[str, Any] | None:
    usage = completion.usage
    if usage.prompt is None or usage.completion is None:
        return None
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached or 0},
        "completion_tokens_details": {"reasoning_tokens": completion.reasoning_tokens or 0},
    }


def render_refusal(refused: Refused) -> bytes:
    """The body of a refusal, as clients expect it."""
    return canonical_json({"error": {"message": str(refused), "type": "invalid_request_error", "code": refused.code}})


def render_models(model: str) -> bytes:
    """The list of models: the one that there is."""
    return canonical_json({"object": "list", "data": [{"id": model, "object": "model", "owned_by": "handoff"}]})
