"""The door in a jail: what passes through it, and that no agent can hurt whoever stands behind it."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from handoff.endpoints import gateway as gateways
from handoff.endpoints.gateway import Gateway, Served
from handoff.endpoints.served import Refused, Request, read_request, render_answer, texts_of
from handoff.endpoints.wire import Completion, ToolCall, read_completion
from handoff.errors import SandboxError
from handoff.trajectory import Usage

SAID = {"messages": [{"role": "user", "content": "Hello."}]}
ANSWER = Completion(
    text="Look.",
    thought="Hm.",
    calls=(ToolCall(id="c1", name="bash", arguments='{"command": "ls"}'),),
    finish="tool_calls",
    usage=Usage(prompt=7, cached=2, completion=3),
    reasoning_tokens=1,
    model="m",
)


class Door:
    """A gateway whose listener this test handed over, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[Request] = []
        self.faults = threading.Event()
        self.then: Callable[[Request], Served] = lambda request: Served(len(self.asked), ANSWER)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self.gateway = Gateway(folder / "door", "m", self._answer, on_fault=self.faults.set)
        with socket.socket(socket.AF_UNIX) as hand:
            hand.connect(str(folder / "door"))
            socket.send_fds(hand, [b"L"], [listener.fileno()])
        listener.close()
        self.gateway.receive({os.geteuid()}, 5.0)

    def _answer(self, request: Request) -> Served:
        self.asked.append(request)
        return self.then(request)

    def open(self, text: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        connection.sendall(text)
        return connection

    def post(self, body: Any, path: str = "/v1/chat/completions") -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    opened = Door(tmp_path)
    yield opened
    opened.gateway.close()
    assert list(tmp_path.iterdir()) == []


def framed(body: bytes, length: int | str | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n%s" % (str(size).encode(), body)


# -- what passes ----------------------------------------------------------------------------------------


def test_a_request_is_answered_whole(door: Door) -> None:
    status, body = door.post({**SAID, "temperature": 0.5, "max_tokens": 9, "n": 1, "store": True})
    assert status == 200
    again = read_completion(body)
    assert (again.text, again.thought, again.calls, again.finish) == ("Look.", "Hm.", ANSWER.calls, "tool_calls")
    assert (again.usage, again.reasoning_tokens, again.model) == (ANSWER.usage, 1, "m")
    (request,) = door.asked
    assert (request.other, request.limit, request.left_out) == ({"temperature": 0.5}, 9, ("store",))


def test_a_streamed_request_gets_the_same_as_events(door: Door) -> None:
    _, body = door.post({**SAID, "stream": True, "stream_options": {"include_usage": True}})
    *chunks, end = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert end == "[DONE]"
    delta, finish, usage = map(json.loads, chunks)
    assert delta["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert delta["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] == '{"command": "ls"}'
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 10)


def test_the_models_are_the_one(door: Door) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{door.port}/v1/models", timeout=10) as answer:
        assert [model["id"] for model in json.load(answer)["data"]] == ["m"]


def test_a_refusal_says_why(door: Door) -> None:
    def refuse(request: Request) -> Served:
        raise Refused(403, "the budget is used up", "budget_exceeded")

    door.then = refuse
    status, body = door.post(SAID)
    assert status == 403
    assert json.loads(body)["error"] == {
        "message": "the budget is used up",
        "type": "invalid_request_error",
        "code": "budget_exceeded",
    }


def test_a_client_that_gave_up_waiting_gets_its_answer_when_it_asks_again(door: Door) -> None:
    """And nothing is asked a second time. Another one asks anew."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(request: Request) -> Served:
        begun.set()
        go_on.wait(10)
        return Served(1, ANSWER)

    door.then = wait
    body = json.dumps(SAID).encode()
    impatient = door.open(framed(body))
    begun.wait(10)
    impatient.close()
    time.sleep(0.1)
    go_on.set()
    assert door.post(body)[0] == 200
    assert len(door.asked) == 1
    assert door.post(body)[0] == 200
    assert len(door.asked) == 2


# -- what does not --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": 2}, "one answer"),
        ({"messages": []}, "no list of messages"),
        ({"messages": "hi"}, "no list of messages"),
        ({"messages": [{"role": "root", "content": "x"}]}, "no role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "no role"),
        ({"messages": [{"role": "user", "content": 3}]}, "no text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "text": "x", "image_url": {}}]}]},
            "text only",
        ),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": {}}]}, "no text"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "no list of calls"),
        ({"messages": [{"role": "assistant", "tool_calls": {"id": "c"}}]}, "no list of calls"),
        ({"tools": [{"type": "web_search"}]}, "function only"),
        ({"tools": {"type": "function"}}, "no list of tools"),
        ({"temperature": "hot"}, "temperature is not of its kind"),
        ({"temperature": True}, "temperature is not of its kind"),
        ({"tool_choice": 3}, "tool_choice"),
    ],
)
def test_what_an_agent_is_not_given_is_refused(door: Door, change: dict[str, Any], told: str) -> None:
    status, body = door.post({**SAID, **change})
    assert status == 400 and told in json.loads(body)["error"]["message"]
    assert door.asked == []


@pytest.mark.parametrize("name", ["plugins", "models", "web_search_options", "service_tier", "metadata", "functions"])
def test_parts_that_would_reach_further_are_not_passed_on(name: str) -> None:
    request = read_request(json.dumps({**SAID, name: {"x": "y"}}).encode())
    assert name not in request.other and request.left_out == (name,)


def test_of_a_message_only_what_its_model_reads_is_passed_on() -> None:
    odd = {
        "role": "assistant",
        "content": None,
        "extra": {"cost": 1},
        "name": None,
        "cache_control": {"type": "x"},
        "tool_calls": [{"id": "c", "type": "function", "index": 0, "function": {"name": "a", "arguments": "{}"}}],
    }
    (message,) = read_request(json.dumps({"messages": [odd]}).encode()).messages
    assert message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
    }
    assert texts_of(message) == ["a", "{}"]


@pytest.mark.parametrize(
    "path", ["/", "/v1/responses", "/v1/chat/completions/../../x", "http://evil.example/", "/v1/files"]
)
def test_other_paths_lead_nowhere(door: Door, path: str) -> None:
    with door.open(b"POST %s HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}" % path.encode()) as connection:
        assert b" 404 " in connection.recv(100)
    with door.open(b"GET %s HTTP/1.1\r\n\r\n" % path.encode()) as connection:
        assert b" 404 " in connection.recv(100)
    assert door.asked == []


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (framed(b"", gateways.LARGEST_BODY + 1), 413),
        (framed(b"", "9" * 40), 411),
        (framed(b"", "-1"), 411),
        (framed(b"", "²"), 411),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 411),
        (framed(b"{"), 400),
        (framed(b"[" * 100_000), 400),
        (framed(b"\xff\xfe"), 400),
        (b"DELETE /v1/models HTTP/1.1\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_told_so_and_hurts_nobody(door: Door, text: bytes, status: int) -> None:
    with door.open(text) as connection:
        assert b"%d" % status in connection.recv(2000)
    assert door.asked == [] and door.gateway.fault is None
    assert door.post(SAID)[0] == 200


def test_half_a_body_is_waited_for_and_then_given_up(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "PATIENCE_S", 0.3)
    with door.open(framed(b'{"mess', 999)) as connection:
        assert connection.recv(300)[:12] in (b"", b"HTTP/1.1 408")
    assert door.post(SAID)[0] == 200


def test_more_connections_than_allowed_are_closed_and_do_not_stay(door: Door) -> None:
    crowd = [door.open(b"POST /v1/ch") for _ in range(gateways.MOST_CONNECTIONS)]
    time.sleep(0.2)
    late = [door.open() for _ in range(20)]
    for connection in late:
        with connection:
            assert _end_of(connection)
    for connection in crowd:
        connection.close()
    time.sleep(0.2)
    assert door.post(SAID)[0] == 200


def _end_of(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except OSError:
        return True


def test_closing_does_not_wait_for_idle_or_slow_clients(door: Door) -> None:
    idle = [door.open(), door.open(b"POST /v1"), door.open(framed(b"{", 100))]
    time.sleep(0.1)
    started = time.monotonic()
    door.gateway.close()
    assert time.monotonic() - started < 5
    for connection in idle:
        connection.close()


def test_a_client_that_never_reads_holds_up_nobody(door: Door) -> None:
    door.then = lambda request: Served(1, Completion(text="x" * 8_000_000))
    with door.open(framed(json.dumps(SAID).encode())):
        time.sleep(0.3)
        door.then = lambda request: Served(1, ANSWER)
        assert door.post(SAID)[0] == 200


def test_what_goes_wrong_behind_the_door_is_kept_for_whoever_opened_it(door: Door) -> None:
    def fail(request: Request) -> Served:
        raise SandboxError("the disk is full")

    door.then = fail
    with door.open(framed(json.dumps(SAID).encode())) as connection:
        assert connection.recv(10) == b""
    assert door.faults.wait(5)
    assert isinstance(door.gateway.fault, SandboxError)
    door.then = lambda request: Served(1, ANSWER)
    assert door.post(SAID)[0] == 403  # nothing more is asked, and paid for, in a run that has failed
    assert len(door.asked) == 1


def test_without_a_listener_there_is_no_way_in(tmp_path: Path) -> None:
    with (
        Gateway(tmp_path / "door", "m", lambda request: Served(1, ANSWER), on_fault=lambda: None) as gateway,
        pytest.raises(SandboxError, match="listener"),
    ):
        gateway.receive({os.geteuid()}, 0.1)
    assert list(tmp_path.iterdir()) == []


def test_another_user_of_the_machine_is_not_let_in(tmp_path: Path) -> None:
    with Gateway(tmp_path / "door", "m", lambda request: Served(1, ANSWER), on_fault=lambda: None) as gateway:
        with socket.socket(socket.AF_UNIX) as hand, socket.create_server(("127.0.0.1", 0)) as listener:
            hand.connect(str(tmp_path / "door"))
            socket.send_fds(hand, [b"L"], [listener.fileno()])
        with pytest.raises(SandboxError, match="another user"):
            gateway.receive({os.geteuid() + 1}, 5.0)


# -- properties -----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["messages", "tools", "n", "role", "content", "tool_calls", "function", "stream", "type", "text"]
)


@hypothesis.given(st.dictionaries(NAMES | st.text(max_size=6), JSON, max_size=6) | JSON)
def test_any_body_is_read_or_refused(value: Any) -> None:
    """What is read can be counted, and put into a request."""
    try:
        request = read_request(json.dumps(value).encode())
    except Refused as refused:
        assert refused.status == 400
        return
    assert all(isinstance(text, str) for message in request.messages for text in texts_of(message))
    json.dumps([request.messages, request.tools, request.other])


@hypothesis.given(
    st.builds(
        Completion,
        text=st.text(),
        thought=st.text(),
        calls=st.lists(
            st.builds(ToolCall, id=st.text(min_size=1), name=st.text(), arguments=st.text()), max_size=3
        ).map(tuple),
        finish=st.sampled_from(["stop", "length", "tool_calls"]),
        model=st.text(min_size=1, max_size=20),
        usage=st.builds(Usage, prompt=st.integers(5, 99), cached=st.integers(0, 5), completion=st.integers(0, 99)),
        reasoning_tokens=st.integers(0, 9),
    )
)
def test_an_answer_comes_back_as_it_was(completion: Completion) -> None:
    body = render_answer(completion, 1, is_streamed=False, has_usage=False)
    assert read_completion(body) == completion
