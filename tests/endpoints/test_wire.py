"""Requests in one form, answers from hostile servers."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handoff.endpoints.failures import judge, retry_after
from handoff.endpoints.wire import (
    Completion,
    Unusable,
    canonical,
    error_of,
    error_status,
    read_completion,
    request_digest,
)

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3),
    max_leaves=12,
)
_NAMES = (
    "choices",
    "message",
    "content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "usage",
    "prompt_tokens",
    "error",
)


def _shaped(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(_NAMES), part | st.lists(part, max_size=2), max_size=6)


@given(st.recursive(_ANY, _shaped, max_leaves=20) | _shaped(_shaped(_shaped(_ANY))))
def test_any_body_is_an_answer_or_is_not(value: object) -> None:
    """Nothing else is raised, and what is taken can be written down."""
    data = json.dumps(value).encode()
    if error_of(data) is not None and isinstance(value, dict) and value.get("error"):
        assert 400 <= error_status(data) <= 599
    try:
        answer = read_completion(data)
    except Unusable:
        return
    answer.text.encode()
    assert isinstance(answer, Completion)
    assert all(isinstance(call.arguments, str) and call.arguments.encode() is not None for call in answer.calls)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_are_not(data: bytes) -> None:
    error_of(data)
    with contextlib.suppress(Unusable):
        read_completion(data)


@given(
    st.integers(100, 599), st.text(max_size=80), st.dictionaries(st.sampled_from(["retry-after", "date"]), st.text())
)
def test_every_failure_has_a_meaning(status: int, text: str, headers: dict[str, str]) -> None:
    found = judge(status, text, headers)
    assert found.wait is None or found.wait >= 0


def test_a_date_to_wait_for_is_read_beside_the_servers_own() -> None:
    headers = {"retry-after": "Mon, 30 Nov 2026 12:01:00 GMT", "date": "Mon, 30 Nov 2026 12:00:30 GMT"}
    assert retry_after(headers) == 30.0
    assert retry_after({**headers, "date": "Mon, 30 Nov 2026 13:00:00 GMT"}) == 0.0
    assert retry_after({"retry-after": headers["retry-after"]}) is None


@given(_ANY, _ANY)
def test_a_canonical_request_is_its_own_and_can_be_sent(one: object, other: object) -> None:
    """Whatever text is in it: NULs and lone surrogates too. Order of keys is no difference."""
    first = canonical({"messages": [one], "more": other})
    assert canonical(first) == first
    assert first == canonical({"more": other, "messages": [one]})
    assert "\0" not in json.dumps(first, ensure_ascii=False).encode().decode()
    assert request_digest(first) == request_digest(canonical(first))


def test_parts_of_a_text_and_an_object_as_arguments_are_understood() -> None:
    """Forms that some servers give beside the documented ones."""
    call = {"function": {"name": "bash", "arguments": {"command": "ls"}}}
    content = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    message = {"content": content, "reasoning": "r", "tool_calls": [call]}
    answer = read_completion(json.dumps({"choices": [{"message": message}]}).encode())
    assert (answer.text, answer.thought, answer.calls[0].arguments) == ("ab", "r", '{"command":"ls"}')
