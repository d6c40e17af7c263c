"""A model server on loopback that fails as told: one entry of a script an attempt, then a good answer for ever."""

from __future__ import annotations

import contextlib
import http.server
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Act = Callable[[http.server.BaseHTTPRequestHandler, dict[str, Any]], None]
"""What the server does with one attempt."""


def message(
    text: str = "", *calls: tuple[str, object], finish: str = "", usage: object = "counted", **more: object
) -> dict[str, Any]:
    """A good answer. ``calls``: (tool, arguments), the arguments as an object or as the text that stands there."""
    made = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": name, "arguments": value if isinstance(value, str) else json.dumps(value)},
        }
        for place, (name, value) in enumerate(calls, 1)
    ]
    own: dict[str, Any] = {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
    own |= more
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "stub-1",
        "choices": [{"index": 0, "message": own, "finish_reason": finish or ("tool_calls" if made else "stop")}],
        "usage": usage,
    }


def counted(body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Usage by a rule that a test can check: a token is four characters of JSON."""
    prompt = len(json.dumps(body["messages"])) // 4
    completion = len(json.dumps(answer["choices"][0]["message"])) // 4
    cached = prompt // 2
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def reply(handler: http.server.BaseHTTPRequestHandler, status: int, data: bytes, **headers: str) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def answer(body: dict[str, Any]) -> Act:
    """A good answer."""

    def act(handler: http.server.BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        value = dict(body)
        if value.get("usage") == "counted":
            value["usage"] = counted(request, value)
        reply(handler, 200, json.dumps(value).encode())

    return act


def status(code: int, text: str = "no", **headers: str) -> Act:
    """An error in the vendors' usual form."""
    data = json.dumps({"error": {"message": text}}).encode()
    return lambda handler, _: reply(handler, code, data, **headers)


def raw(data: bytes, code: int = 200) -> Act:
    """Any bytes as a body."""
    return lambda handler, _: reply(handler, code, data)


def hang(seconds: float) -> Act:
    """No answer for so long, then the line is cut."""

    def act(handler: http.server.BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return act


def cut(handler: http.server.BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    """Half a good answer, then the line is cut."""
    data = json.dumps(message("half")).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def refuse(handler: http.server.BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
    """The line is cut before anything is said."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def drip(seconds: float) -> Act:
    """A body that comes a byte at a time, each well within any pause that a reader allows."""

    def act(handler: http.server.BaseHTTPRequestHandler, _: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        end = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.05)
        handler.close_connection = True

    return act


def giant(megabytes: int) -> Act:
    """A good answer of this size."""
    return answer(message("x" * (megabytes << 20)))


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client that waits for an answer has closed its side."""
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        return True


class FaultServer:
    """One server. ``requests``: the bodies of all attempts; ``answered``: those that got a status of 200."""

    def __init__(self, script: Sequence[Act] = (), *, then: Act | None = None, models: Sequence[str] = ("stub-1",)):
        self.script = list(script)
        self.then = then if then is not None else answer(message("fine"))
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self.is_refusing = False
        """For acts that ask."""
        self.hold = threading.Lock()
        """While an act has this, later requests wait; one whose client is gone by then never came."""
        self._now = 0
        self._lock = threading.Lock()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                owner.headers.append({k.lower(): v for k, v in self.headers.items()})
                reply(self, 200, json.dumps({"data": [{"id": name} for name in models]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with owner.hold:
                    is_gone = _is_gone(self.connection)
                if is_gone:
                    self.close_connection = True
                    return
                with owner._lock:
                    owner.requests.append(body)
                    owner.headers.append({k.lower(): v for k, v in self.headers.items()})
                    act = owner.script.pop(0) if owner.script else owner.then
                    owner._now += 1
                    owner.most_at_once = max(owner.most_at_once, owner._now)
                try:
                    with contextlib.suppress(OSError):
                        act(self, body)
                finally:
                    with owner._lock:
                        owner._now -= 1

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def serving(*script: Act, **settings: Any) -> Iterator[FaultServer]:
    """A fault server for as long as it is used."""
    server = FaultServer(script, **settings)
    try:
        yield server
    finally:
        server.close()
