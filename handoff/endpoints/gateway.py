"""A door in a jail through which an agent reaches one model, and nothing else.

The jail's network stays closed. Before the agent starts, ``LISTEN`` opens a listener on the jail's own loopback and
hands it out over a unix socket; from then on connections made inside are answered here, outside, where the key is. No
process of ours stays in the jail, so there is none to be taken over.

The agent is hostile. Connections, bodies, headers and time are bounded, one request is served at a time, and whoever
reads slowly waits for nobody but itself. What is answered to a request is not decided here (``successors/broker.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

from handoff.endpoints import served
from handoff.endpoints.served import Refused, Request
from handoff.endpoints.wire import Completion
from handoff.errors import SandboxError

PORT = 41080
"""On the jail's loopback; always the same, so that prompts that name it are."""
BASE_URL = f"http://127.0.0.1:{PORT}/v1"
LARGEST_BODY = 8 << 20
"""Bytes: more than any model's context."""
MOST_CONNECTIONS = 16
PATIENCE_S = 30.0
"""For a request to come whole, and for its answer to be taken."""

LISTEN = f"""\
import array, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", {PORT}))
listener.listen({MOST_CONNECTIONS})
door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
door.sendmsg([b"L"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
"""
"""A program for the jail's Python: the one argument is the unix socket."""


class Served(NamedTuple):
    """An answer for the agent."""

    number: int
    """Of the call, from 1."""
    completion: Completion


Answering = Callable[[Request], Served]
"""What answers a request; ``Refused`` tells the agent why not. Anything else that it raises ends the gateway."""


class Gateway:
    """Answers the agent of one jail. A context manager."""

    def __init__(self, door: Path, model: str, answer: Answering, *, on_fault: Callable[[], None]) -> None:
        """``door``: where the unix socket is made; ``answer``: called by one thread at a time;
        ``on_fault``: told that ``fault`` was set, in the thread that failed."""
        self.model = model
        self.fault: BaseException | None = None
        """What ``answer`` raised that no agent is told."""
        self._answer = answer
        self._on_fault = on_fault
        self._serving = threading.Lock()
        self._missed: tuple[bytes, bytes] | None = None
        self._door = door
        self._hall = socket.socket(socket.AF_UNIX)
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.is_closed = False
        """True once nobody waits for answers any more."""
        folder = os.open(door.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # by the folder's descriptor, since the address of a unix socket is short
            self._hall.bind(f"/proc/self/fd/{folder}/{door.name}")
            door.chmod(0o666)  # in a container it is another user that comes; ``receive`` looks who it is
            self._hall.listen(1)
        finally:
            os.close(folder)

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def receive(self, users: Collection[int], seconds: float = PATIENCE_S) -> None:
        """Take the listener that ``LISTEN`` handed out, and answer from then on. ``SandboxError`` when none comes.

        ``users``: user numbers, one of which the jail's processes have outside.
        """
        self._hall.settimeout(seconds)
        try:
            connection, _ = self._hall.accept()
            with connection:
                connection.settimeout(seconds)
                peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                if struct.unpack("3i", peer)[1] not in users:
                    raise SandboxError("another user of this machine came to the door of the agent's model")
                _, handed, _, _ = socket.recv_fds(connection, 1, 1)
                if not handed:
                    raise SandboxError("the jail handed out no listener for the agent's model")
                self._listener = socket.socket(fileno=handed[0])
                self._listener.settimeout(None)
        except OSError as error:
            raise SandboxError(f"the jail opens no listener for the agent's model ({error})") from error
        finally:
            self._hall.close()
            self._door.unlink(missing_ok=True)
        with self._lock:
            self._start(self._accept, self._listener)

    def close(self) -> None:
        """Answer nothing more. Returns when the answer under way, if any, is written down. May be called twice."""
        with self._lock:
            self.is_closed = True
            open_now = [*self._open, *([self._listener] if self._listener is not None else [])]
        for connection in open_now:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._hall.close()
        self._door.unlink(missing_ok=True)
        while self._threads:
            self._threads.pop().join()
        if self._listener is not None:
            self._listener.close()

    def answer(self, body: bytes) -> tuple[bytes, str]:
        """The bytes that answer a body, and their media type. Asked for a second time by a client that had gone away
        before its answer came, the same. ``Refused`` as for ``Answering``."""
        request = served.read_request(body)
        media = "text/event-stream" if request.is_streamed else "application/json"
        name = hashlib.sha256(body).digest()
        missed, self._missed = self._missed, None
        if missed is not None and missed[0] == name:
            return missed[1], media
        number, completion = self._answer(request)
        data = served.render_answer(completion, number, is_streamed=request.is_streamed, has_usage=request.has_usage)
        return data, media

    def _start(self, work: Callable[[socket.socket], None], connection: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(connection,), name="handoff-gateway", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # it was shut down
            with self._lock:
                is_welcome = not self.is_closed and len(self._open) < MOST_CONNECTIONS
                if is_welcome:
                    self._open.add(connection)
                    self._threads = [thread for thread in self._threads if thread.is_alive()]
                    self._start(self._serve, connection)
            if not is_welcome:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(PATIENCE_S)
            _Handler(connection, self)
        except (OSError, ValueError):
            pass  # the client is gone, or did not speak HTTP
        except BaseException as error:  # noqa: BLE001 - raised again by whoever opened the gateway
            self.fault = self.fault or error
            self._on_fault()
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def serve(self, handler: _Handler) -> None:
        """Answer one request whose headers were read; one at a time, so that one body is in memory."""
        with self._serving:
            if self.fault is not None or self.is_closed:
                raise Refused(403, "the run is over", "run_over")
            body = handler.body()
            data, media = self.answer(body)
            if _is_gone(handler.connection):
                self._missed = (hashlib.sha256(body).digest(), data)
        handler.send(200, data, media)


class _Handler(BaseHTTPRequestHandler):
    """One connection: one request and its answer."""

    protocol_version = "HTTP/1.1"
    server_version = "handoff"
    sys_version = ""

    def __init__(self, connection: socket.socket, gateway: Gateway) -> None:
        self._gateway = gateway
        # The base class wants a server and never asks it for anything.
        super().__init__(connection, ("jail", 0), None)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: lines would hold text of an agent."""

    def do_GET(self) -> None:
        """The list of models."""
        if self._path() in served.MODELS:
            self.send(200, served.render_models(self._gateway.model), "application/json")
        else:
            self._refuse(_no_path())

    def do_POST(self) -> None:
        """One completion."""
        try:
            if self._path() not in served.COMPLETIONS:
                raise _no_path()
            self._gateway.serve(self)
        except Refused as refused:
            self._refuse(refused)

    def body(self) -> bytes:
        """The body of the request. ``Refused`` when it has no length, is too long or does not come in time."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or len(length) > 12:
            raise Refused(411, "a request says the length of its body in Content-Length", "length_required")
        left = int(length)
        if left > LARGEST_BODY:
            raise Refused(413, f"a request of more than {LARGEST_BODY >> 20} MB", "request_too_large")
        end = time.monotonic() + PATIENCE_S
        parts = []
        while left:
            self.connection.settimeout(max(0.01, end - time.monotonic()))
            part = self.rfile.read1(left)
            if not part or time.monotonic() > end:
                raise Refused(408, "the body did not come whole", "timeout")
            parts.append(part)
            left -= len(part)
        self.connection.settimeout(PATIENCE_S)
        return b"".join(parts)

    def send(self, status: int, data: bytes, media: str) -> None:
        """Send one answer; the connection ends with it."""
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _path(self) -> str:
        return self.path.split("?", 1)[0]

    def _refuse(self, refused: Refused) -> None:
        self.send(refused.status, served.render_refusal(refused), "application/json")


def _no_path() -> Refused:
    return Refused(404, "no such path; there are /v1/chat/completions and /v1/models", "not_found")


def _is_gone(connection: socket.socket) -> bool:
    """Has the client closed its side? Those that gave up waiting have."""
    try:
        return bool(select.select([connection], [], [], 0)[0]) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
