"""The client against a server that fails in every way: each ends in an answer, an outcome or a remedy."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import fault_server as server
import pytest
from fault_server import FaultServer, serving

from handoff.endpoints import Client, Completion, Declined, Endpoint, Prices
from handoff.endpoints.sdk import SdkTransport
from handoff.endpoints.wire import canonical
from handoff.errors import EndpointError, InputError, NoAnswerError
from handoff.trajectory import Usage

BODY = canonical({"model": "stub-1", "messages": [{"role": "user", "content": "Hello"}]})
KEY = "sk-planted-0123456789abcdef"


class Waits:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


_OPEN: list[Client] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Every client of a test is closed after it."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def client_of(at: FaultServer, waits: Waits, environment: dict[str, str] | None = None, **settings: Any) -> Client:
    endpoint = Endpoint(base_url=at.url, model="stub-1", **{"timeout_s": 0.25, "retries": 2, **settings})
    transport = SdkTransport(endpoint, {} if environment is None else environment)
    _OPEN.append(Client(endpoint, transport, clock=lambda: waits.now, sleep=waits.sleep))
    return _OPEN[-1]


PASSING: dict[str, Callable[[], server.Act]] = {
    "429": lambda: server.status(429, "slow down"),
    "500": lambda: server.status(500),
    "503": lambda: server.status(503),
    "529": lambda: server.status(529, "overloaded"),
    "408": lambda: server.status(408),
    "hang": lambda: server.hang(0.4),
    "cut": lambda: server.cut,
    "no answer at all": lambda: server.refuse,
    "drip": lambda: server.drip(1.0),
    "not json": lambda: server.raw(b"<html>Bad gateway</html>"),
    "half json": lambda: server.raw(b'{"choices": [{"mess'),
    "not utf-8": lambda: server.raw(b'{"choices": "\xff\xfe"}'),
    "empty": lambda: server.raw(b""),
    "a number": lambda: server.raw(b"7"),
    "deep": lambda: server.raw(b"[" * 100_000),
    "no choices": lambda: server.raw(b'{"choices": []}'),
    "null choice": lambda: server.raw(b'{"choices": [null]}'),
    "no message": lambda: server.raw(b'{"choices": [{"message": "hi"}]}'),
    "calls no list": lambda: server.answer(server.message(tool_calls={"a": 1})),
    "nameless call": lambda: server.answer(server.message(tool_calls=[{"function": {"name": None}}])),
    "error under 200": lambda: server.raw(b'{"error": {"message": "upstream", "code": 502}}'),
    "giant": lambda: server.giant(2),
    "giant error": lambda: server.raw(b"x" * (2 << 20), 500),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_is_asked_again(name: str) -> None:
    """The next attempt is answered, and the answer says how many there were."""
    waits = Waits()
    with serving(PASSING[name]()) as at:
        answer = client_of(at, waits, answer_kb=1024).ask(BODY, label="k-1")
    assert isinstance(answer, Completion)
    assert (answer.text, answer.attempts, len(at.requests)) == ("fine", 2, 2)
    assert len(waits.slept) == 1
    assert at.requests[0] == at.requests[1], "the same request"


@pytest.mark.parametrize("name", PASSING)
def test_attempts_come_to_an_end(name: str) -> None:
    """The error names the place, the last fault and what to do."""
    waits = Waits()
    with serving(then=PASSING[name]()) as at:
        with pytest.raises(NoAnswerError, match=r"no answer in 2 attempts, the last: .+run again") as caught:
            client_of(at, waits, answer_kb=1024, retries=1, timeout_s=0.15).ask(BODY, label="k-1")
        assert len(at.requests) == 2
    assert at.url in str(caught.value)
    assert len(str(caught.value)) < 700, "a server's page is not repeated whole"


def test_no_server_at_all_is_said() -> None:
    with serving() as at:
        client = client_of(at, Waits())
    with pytest.raises(NoAnswerError, match="ConnectError"):
        client.ask(BODY, label="k-1")
    with pytest.raises(EndpointError, match="is the server running"):
        client.models()


OUTCOMES = {
    "context, OpenAI": (400, "This model's maximum context length is 8192 tokens. context_length_exceeded", "context"),
    "context, llama.cpp": (400, "the request exceeds the available context size, try increasing it", "context"),
    "context, too large": (413, "Request Entity Too Large", "context"),
    "context, Anthropic": (400, "prompt is too long: 208310 tokens > 200000 maximum", "context"),
    "context, Gemini": (400, "The input token count (9) exceeds the maximum number of tokens allowed (8)", "context"),
    "context, SGLang": (400, "The input (9 tokens) is longer than the model's context length (8 tokens).", "context"),
    "context, xAI": (400, "This model's maximum prompt length is 8 but the request contains 9 tokens.", "context"),
    "context, as a fault": (500, "context size has been exceeded", "context"),
    "tools, vLLM": (400, '"auto" tool choice requires --enable-auto-tool-choice to be set', "no_tools"),
    "tools, Ollama": (400, "registry/smol does not support tools", "no_tools"),
    "tools, llama.cpp": (500, "tools param requires --jinja flag", "no_tools"),
    "schema": (400, "'response_format' of type 'json_schema' is not supported by this model", "no_schema"),
    "bounds, OpenAI": (
        400,
        "Invalid schema for response_format 'structured': In context=('properties', 'key_decisions', 'items', "
        "'properties', 'text'), 'maxLength' is not permitted.",
        "no_bounds",
    ),
    "bounds, Anthropic": (
        400,
        "output_format.schema: For 'integer' type, property 'maximum' is not supported",
        "no_bounds",
    ),
    "bounds, llama.cpp": (400, "Failed to initialize samplers: failed to parse grammar", "no_bounds"),
    "bounds, vLLM": (400, "The provided JSON schema contains unsupported features: minItems", "no_bounds"),
    "filter": (400, "The response was filtered due to the prompt", "rejected"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_request_that_will_never_be_answered_is_an_outcome(name: str) -> None:
    """It is asked once, whatever the words."""
    code, text, why = OUTCOMES[name]
    with serving(server.status(code, text)) as at:
        answer = client_of(at, Waits()).ask(BODY, label="k-1")
    assert isinstance(answer, Declined)
    assert answer.why == why
    assert text in answer.message
    assert len(at.requests) == 1


@pytest.mark.parametrize(
    ("code", "text", "remedy"),
    [
        (401, "bad key", "set a valid key in PLANTED"),
        (403, "forbidden", "set a valid key in PLANTED"),
        (404, "The model `stub-1` does not exist", "set model to one that it lists"),
        (404, "page not found", "or mend base_url"),
        (400, "stub-1 is not a valid model ID", "set model to one that it lists"),
        (307, "moved", "or mend base_url"),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model.", "completion_limit_field"),
        (400, "Invalid parameter: max_tokens is above the maximum of 4096 for this service", "max_completion_tokens"),
        (400, "Unsupported value: 'temperature' does not support 0.0 with this model.", "temperature"),
        (422, "Extra inputs are not permitted: seed", "is_seeded"),
        (429, "You exceeded your current quota", "top it up"),
        (402, "Insufficient Balance", "top it up"),
    ],
)
def test_what_only_the_user_can_mend_is_said_at_once(code: int, text: str, remedy: str) -> None:
    with serving(then=server.status(code, text, Location="http://127.0.0.1:9/")) as at:
        with pytest.raises(EndpointError, match=remedy):
            client_of(at, Waits(), {"PLANTED": KEY}, key_env="PLANTED").ask(BODY, label="k-1")
        assert len(at.requests) == 1


# -- waiting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "1.5"}, 1.5),
        ({"retry_after_ms": "250", "Retry_After": "9"}, 0.25),
        ({"Retry_After": "Mon, 30 Nov 2026 12:01:00 GMT"}, None),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "-3"}, None),
    ],
)
def test_the_endpoint_says_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """A date is read beside the server's own date, never beside the local clock."""
    waits = Waits()
    with serving(server.status(429, "slow down", **headers)) as at:
        client_of(at, waits).ask(BODY, label="k-1")
    if seconds is None:
        assert len(waits.slept) == 1
    else:
        assert seconds <= waits.slept[0] <= seconds + 0.2


def test_waits_without_a_word_grow_and_are_the_same_every_time() -> None:
    slept = []
    for _ in range(2):
        waits = Waits()
        with serving(*[server.status(503)] * 6) as at:
            client_of(at, waits, retries=6).ask(BODY, label="k-1")
        slept.append(waits.slept)
    assert slept[0] == slept[1]
    assert all(1.1 < later / earlier < 3.4 for earlier, later in zip(slept[0], slept[0][1:], strict=False))


def test_a_wait_beyond_patience_is_refused() -> None:
    waits = Waits()
    late = server.status(429, "come back tomorrow", Retry_After="86400")
    with serving(late) as at, pytest.raises(NoAnswerError, match="asks to wait 86400 s, longer than patience_s"):
        client_of(at, waits).ask(BODY, label="k-1")
    assert waits.slept == []


def test_no_more_requests_are_under_way_than_allowed() -> None:
    """Whoever waits for its next attempt gives its place to another."""

    def slow(handler: Any, body: dict[str, Any]) -> None:
        time.sleep(0.02)
        server.answer(server.message("fine"))(handler, body)

    with serving(then=slow) as at:
        client = client_of(at, Waits(), concurrency=3, timeout_s=20)
        threads = [threading.Thread(target=client.ask, args=(BODY,), kwargs={"label": str(n)}) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(at.requests) == 12
    assert 1 < at.most_at_once <= 3


# -- what is counted ----------------------------------------------------------------------------


def test_usage_and_cost_are_those_of_the_answer() -> None:
    with serving(then=server.answer(server.message("fine", reasoning_content="hm"))) as at:
        client = client_of(at, Waits(), prices=Prices(prompt=2.0, cached=0.5, completion=8.0))
        answer = client.ask(BODY, label="k-1")
    assert isinstance(answer, Completion)
    usage = answer.usage
    assert usage.prompt is not None and usage.cached == usage.prompt // 2 and usage.completion is not None
    paid = (usage.prompt - usage.cached) * 2.0 + usage.cached * 0.5 + usage.completion * 8.0
    assert answer.cost == pytest.approx(paid / 1e6)
    assert (answer.thought, answer.reasoning_tokens, answer.model, answer.finish) == ("hm", 1, "stub-1", "stop")


@pytest.mark.parametrize(
    "usage",
    [None, [], {}, {"prompt_tokens": -1}, {"prompt_tokens": "7"}, {"prompt_tokens": True}, {"prompt_tokens": 2**80}],
)
def test_a_count_that_is_none_is_unknown_and_costs_nothing_known(usage: object) -> None:
    with serving(then=server.answer(server.message("fine", usage=usage))) as at:
        answer = client_of(at, Waits(), prices=Prices(prompt=1, completion=1)).ask(BODY, label="k-1")
    assert isinstance(answer, Completion)
    assert (answer.usage, answer.cost) == (Usage(), None)


def test_each_unusable_answer_is_told_before_the_next_attempt() -> None:
    """It was perhaps paid for. Attempts before a restart count."""
    told: list[str] = []
    with serving(server.raw(b"7"), server.cut, server.status(500)) as at:
        client = client_of(at, Waits(), retries=4)
        answer = client.ask(BODY, label="k-1", spoiled=1, on_spoiled=told.append)
        labels = [headers["idempotency-key"] for headers in at.headers]
    assert isinstance(answer, Completion)
    assert answer.attempts == 5
    assert len(told) == 2 and "no choices" in told[0] and "no whole answer" in told[1]
    assert labels == ["k-1-1", "k-1-2", "k-1-3", "k-1-3"], "a server that remembers must not give the same bad answer"


# -- keys ---------------------------------------------------------------------------------------


def test_a_key_is_read_at_each_call_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Also not when a server sends it back, in an answer or in an error."""
    caplog.set_level(logging.DEBUG)
    environment: dict[str, str] = {}
    with serving(server.answer(server.message(f"your key is {KEY}")), server.status(401, f"no such key: {KEY}")) as at:
        client = client_of(at, Waits(), environment, key_env="PLANTED")
        with pytest.raises(EndpointError, match="PLANTED is not set"):
            client.ask(BODY, label="k-1")
        environment["PLANTED"] = f" {KEY}\n"
        answer = client.ask(BODY, label="k-1")
        with pytest.raises(EndpointError) as caught:
            client.ask(BODY, label="k-2")
        assert [headers["authorization"] for headers in at.headers] == [f"Bearer {KEY}"] * 2
    assert isinstance(answer, Completion)
    assert answer.text == "your key is [key]"
    chain: list[BaseException] = [caught.value]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    shown = [repr(client), repr(client.endpoint), caplog.text, *map(str, chain), *map(repr, chain)]
    assert not [text for text in shown if KEY in text]


def test_nothing_else_of_the_environment_reaches_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK looks up keys and names of its own maker; they are none of another endpoint's business."""
    names = ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET", "BASE_URL", "CUSTOM_HEADERS")
    for name in names:
        monkeypatch.setenv(f"OPENAI_{name}", f"planted-{name}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: planted-header")
    with serving() as at:
        client = client_of(at, Waits())
        client.ask(BODY, label="k-1")
        client.models()
        assert len(at.headers) == 2
        assert "planted" not in str(at.headers)
        assert {headers["authorization"] for headers in at.headers} == {"Bearer none"}


def test_a_key_with_odd_characters_is_refused_without_showing_it() -> None:
    with serving() as at:
        client = client_of(at, Waits(), {"PLANTED": "sk-\u00e9-secret"}, key_env="PLANTED")
        with pytest.raises(EndpointError, match="holds characters that no key has") as caught:
            client.ask(BODY, label="k-1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"base_url": "http://user:hunter2@host/v1"}, "more than an address"),
        ({"base_url": "http://host/v1?key=hunter2"}, "more than an address"),
        ({"base_url": "ftp://host/v1"}, "is no address"),
        ({"base_url": "ftp://user:hunter2@host/v1"}, "is no address"),
        ({"key_env": "sk-hunter2"}, "never write the key itself"),
        ({"extra_body": {"stream": True}}, "sets stream"),
        ({"model": ""}, "is empty"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        Endpoint(**{"base_url": "http://host/v1", "model": "m", **settings})
    assert "hunter2" not in str(caught.value)


def test_the_digest_is_of_what_decides_the_answers() -> None:
    """Traffic, keys and prices do not; a trailing slash is none."""
    plain = Endpoint(base_url="http://host/v1", model="m")
    same = Endpoint(
        base_url="http://host/v1/", model="m", retries=1, timeout_s=1, concurrency=9, key_env="K", prices=None
    )
    assert plain.digest == same.digest
    others = [{"model": "n"}, {"temperature": 0.0}, {"top_p": 0.5}, {"seed": 1}, {"extra_body": {"top_k": 1}}]
    digests = {Endpoint(**{"base_url": "http://host/v1", "model": "m", **other}).digest for other in others}
    assert len(digests | {plain.digest}) == len(others) + 1


def test_models_are_listed() -> None:
    with serving(models=("b", "a")) as at:
        assert client_of(at, Waits()).models() == ("a", "b")
