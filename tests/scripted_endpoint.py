"""A transport that answers from a script, without a network, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fault_server
from fault_server import message

from handoff.endpoints import Client, Endpoint, Received

Answer = dict[str, Any] | tuple[int, str] | Exception
"""A body, an error's (status, message), or what is raised."""


class Scripted:
    """Gives ``answers`` in order, then what ``then`` says for the number of the request."""

    def __init__(self, answers: Sequence[Answer] = (), then: Callable[[int], Answer] | None = None) -> None:
        self.answers = list(answers)
        self.then = then if then is not None else lambda number: message("", ("submit", {}))
        self.requests: list[dict[str, Any]] = []
        self.labels: list[str] = []

    def send(self, body: Mapping[str, Any], label: str) -> Received:
        self.requests.append(json.loads(json.dumps(body)))
        self.labels.append(label)
        answer = self.answers.pop(0) if self.answers else self.then(len(self.requests))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, tuple):
            status, text = answer
            return Received(status=status, headers={}, body=json.dumps({"error": {"message": text}}).encode())
        if answer.get("usage") == "counted":
            answer = {**answer, "usage": fault_server.counted(dict(body), answer)}
        return Received(status=200, headers={}, body=json.dumps(answer).encode())

    def models(self) -> tuple[str, ...]:
        return ("stub-1",)

    def close(self) -> None:
        pass


def client(transport: Scripted, **settings: Any) -> Client:
    """A client that waits for nothing."""
    endpoint = Endpoint(**{"base_url": "http://stub/v1", "model": "stub-1", "retries": 2, **settings})
    return Client(endpoint, transport, clock=lambda: 0.0, sleep=lambda seconds: None)
