"""Asking an endpoint until there is an answer, or it is clear that there will be none.

What may pass is asked again, after as long as the endpoint says or twice as long as the time before. What will not
pass is either an outcome (``wire.Declined``) or an ``EndpointError`` that says what to mend; an endpoint that never
answers ends in a ``NoAnswerError``.

The clock and the sleep come in, so that tests wait for nothing. Waits are spread by a hash of the request and not
by chance, so that a run is the same every time and many runs do not come back at one moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from handoff.endpoints import wire
from handoff.endpoints.failures import Failure, judge
from handoff.endpoints.sdk import Lost, SdkTransport, Transport
from handoff.endpoints.settings import Endpoint
from handoff.errors import EndpointError, NoAnswerError

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""Of waits that the endpoint did not ask for."""
_SHOWN = 300
"""Characters of a server's message that are repeated to the user."""


class Client:
    """One endpoint, shared by all threads of a process."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``transport``: the SDK's when ``None``; ``clock`` and ``sleep``: in seconds."""
        self.endpoint = endpoint
        self._transport = transport if transport is not None else SdkTransport(endpoint)
        self._clock = clock
        self._sleep = sleep
        self._places = threading.BoundedSemaphore(endpoint.concurrency)
        self._lock = threading.Lock()
        self._not_before = 0.0
        self._halted = ""

    def __repr__(self) -> str:
        return f"Client({self.endpoint.base_url!r}, {self.endpoint.model!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections. May be called twice."""
        self._transport.close()

    def halt(self, reason: str) -> None:
        """Ask nothing more: each further call ends in an ``EndpointError`` with this reason. Answers under way come."""
        self._halted = reason

    def models(self) -> tuple[str, ...]:
        """The models that the endpoint lists. ``EndpointError`` when it cannot be asked."""
        try:
            return self._transport.models()
        except Lost as error:
            raise EndpointError(f"{self.endpoint.base_url}: {error}; is the server running there?") from error

    def ask(
        self,
        body: Mapping[str, Any],
        *,
        label: str,
        spoiled: int = 0,
        on_spoiled: Callable[[str], None] = lambda reason: None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> wire.Answer:
        """The answer to one canonical request.

        ``label``: names the call; endpoints that know the ``Idempotency-Key`` header charge one label once.
        ``spoiled``: unusable answers that it had before; each further one is told to ``on_spoiled`` before anything
        else is asked, since it was perhaps paid for. They count as attempts. ``is_wanted`` is looked at before each
        attempt. ``NoAnswerError`` when there is no answer in the end, ``EndpointError`` when there can be none.
        """
        digest = wire.request_digest(body)
        attempt = spoiled
        while True:
            if self._halted:
                raise EndpointError(self._halted)
            if not is_wanted():
                raise NoAnswerError("nobody waits for the answer any more")
            attempt += 1
            failure = self._attempt(body, f"{label}-{spoiled}")
            if isinstance(failure, wire.Completion):
                return msgspec.structs.replace(failure, attempts=attempt, cost=self._cost(failure))
            if failure.kind in ("context", "no_tools", "no_schema", "no_bounds", "no_logprobs", "rejected"):
                return wire.Declined(why=failure.kind, message=failure.message[:_SHOWN])
            if failure.kind != "passing":
                raise EndpointError(self._remedy(failure))
            if failure.is_answer:
                on_spoiled(failure.message[:_SHOWN])
                spoiled += 1
            if attempt > self.endpoint.retries:
                raise NoAnswerError(
                    f"{self.endpoint.base_url}: no answer in {attempt} attempts, the last: {failure.message[:_SHOWN]}. "
                    "What was answered before is kept; run again when the server is well"
                )
            self._wait(failure, attempt, digest)

    def _attempt(self, body: Mapping[str, Any], label: str) -> wire.Completion | Failure:
        with self._places:
            self._hold()
            try:
                received = self._transport.send(body, label)
            except Lost as error:
                return Failure(kind="passing", message=str(error), is_answer=error.is_answer)
        message = wire.error_of(received.body)
        if received.status != 200:
            shown = message if message is not None else received.body[:2000].decode("utf-8", "replace").strip()
            return judge(received.status, f"status {received.status}: {shown}", received.headers)
        if message is not None:  # some gateways report what failed behind them under 200
            return judge(wire.error_status(received.body), message, received.headers)
        try:
            return wire.read_completion(received.body)
        except wire.Unusable as error:
            return Failure(kind="passing", message=str(error), is_answer=True)

    def _hold(self) -> None:
        """Wait out a pause that the endpoint asked another thread for."""
        with self._lock:
            pause = self._not_before - self._clock()
        if pause > 0:
            self._sleep(pause)

    def _wait(self, failure: Failure, attempt: int, digest: str) -> None:
        spread = int(wire.request_digest({"request": digest, "attempt": attempt})[2:6], 16) / 0xFFFF
        own = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt - 1, 20)) * (0.75 + spread / 2)
        if failure.wait is None:
            self._sleep(own)
            return
        if failure.wait > self.endpoint.patience_s:
            raise NoAnswerError(
                f"{self.endpoint.base_url} asks to wait {failure.wait:.0f} s, longer than patience_s "
                f"({self.endpoint.patience_s:g}): {failure.message[:_SHOWN]}. What was answered is kept; run later"
            )
        with self._lock:
            self._not_before = max(self._not_before, self._clock() + failure.wait)
        self._sleep(failure.wait + own / 10)

    def _cost(self, completion: wire.Completion) -> float | None:
        usage = completion.usage
        if usage.prompt is None or usage.completion is None:
            return None
        return self.endpoint.cost(usage.prompt, usage.cached or 0, usage.completion)

    def _remedy(self, failure: Failure) -> str:
        endpoint = self.endpoint
        remedy = {
            "key": f"set a valid key in {endpoint.key_env}"
            if endpoint.key_env
            else "name the environment variable that holds its key in key_env",
            "model": f"set model to one that it lists (now {endpoint.model!r}), or mend base_url",
            "settings": "set what it names otherwise (temperature, top_p, seed, is_seeded, max_completion_tokens, "
            "completion_limit_field, extra_body)",
            "quota": "the account has nothing left to spend; top it up",
        }[failure.kind]
        return f"{endpoint.base_url}: {failure.message[:_SHOWN]}; {remedy}, and run again"
