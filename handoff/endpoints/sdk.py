"""The one narrow seam to the outside: one attempt over the ``openai`` SDK, from request to bytes.

Nothing is retried here and nothing understood (``client.py``). Here is what keeps a bad server from hurting: a body is
read up to a bound and a moment, whatever its status, and the key is cut out of whatever comes back. And what keeps the
user's secrets: the SDK looks up keys, names and headers of its own in the environment, and none of them is sent.
Answers are asked for whole, not streamed: usage then always comes with them, and half of one is never taken for one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from handoff.endpoints.settings import Endpoint
from handoff.errors import EndpointError

if TYPE_CHECKING:
    import openai

KEY_MARK = "[key]"
"""What stands in an answer where the key stood."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one attempt."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


class Lost(Exception):
    """Nothing whole came back: no connection, no answer in time, a body cut off, one too long."""

    def __init__(self, problem: str, *, is_answer: bool = False) -> None:
        """``is_answer``: an answer had begun to come, and was perhaps paid for."""
        super().__init__(problem)
        self.is_answer = is_answer


class Transport(Protocol):
    """Carries one attempt."""

    def send(self, body: Mapping[str, Any], label: str) -> Received:
        """Ask once. ``label`` names the call, the same for each attempt at it. ``Lost`` when nothing whole came back;
        ``EndpointError`` when it could not even be tried."""
        ...

    def models(self) -> tuple[str, ...]:
        """The models that the endpoint lists. ``Lost`` and ``EndpointError`` as for ``send``."""
        ...

    def close(self) -> None:
        """Let go of all connections. May be called twice."""
        ...


def key_of(endpoint: Endpoint, environment: Mapping[str, str]) -> str:
    """The key, or a word in its place for servers that ask for none. ``EndpointError`` when it is not there."""
    if not endpoint.key_env:
        return "none"
    key = environment.get(endpoint.key_env, "").strip()
    if not key:
        raise EndpointError(
            f"the environment variable {endpoint.key_env} is not set, and {endpoint.base_url} needs its key: "
            f"export {endpoint.key_env}=… and run again"
        )
    if not key.isascii() or not key.isprintable():
        raise EndpointError(f"{endpoint.key_env} holds characters that no key has; set it again and run again")
    return key


class SdkTransport:
    """Attempts over the SDK. Safe for use by many threads; connections are kept and reused."""

    def __init__(self, endpoint: Endpoint, environment: Mapping[str, str] | None = None) -> None:
        """``environment``: where keys are looked up at each call; the process's own when ``None``."""
        self._endpoint = endpoint
        self._environment = os.environ if environment is None else environment
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()
        self._thread = threading.local()

    def __repr__(self) -> str:
        return f"SdkTransport({self._endpoint.base_url!r}, {self._endpoint.model!r})"

    def send(self, body: Mapping[str, Any], label: str) -> Received:
        """One attempt at ``/chat/completions``."""
        # All of it as "extra": what the SDK knows by name it copies and looks through, part by part.
        return self._try(
            lambda client: client.chat.completions.with_raw_response.create(
                model=body["model"], messages=[], extra_body=dict(body), extra_headers={"Idempotency-Key": label}
            )
        )

    def models(self) -> tuple[str, ...]:
        """The ids in ``/models``, sorted; empty when the endpoint does not list any."""
        received = self._try(lambda client: client.models.with_raw_response.list())
        if received.status in (401, 403):
            wanted = f"set a valid key in {self._endpoint.key_env or 'the variable that key_env names'}"
            raise EndpointError(f"{self._endpoint.base_url} refuses the key (status {received.status}); {wanted}")
        if received.status in (404, 405, 501):
            return ()
        if received.status != 200:
            raise Lost(f"status {received.status}")
        try:
            listed = msgspec.json.decode(received.body)
        except msgspec.DecodeError as error:
            raise Lost(f"the list of models is no JSON ({error})") from error
        rows = listed.get("data") if isinstance(listed, dict) else None
        rows = rows if isinstance(rows, list) else []
        return tuple(sorted(row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)))

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _try(self, call: Any) -> Received:
        import openai

        key = key_of(self._endpoint, self._environment)
        self._thread.is_answer = False
        try:
            raw = call(self._opened())
            response = raw.http_response
        except openai.APIStatusError as error:
            response = error.response
        except openai.APITimeoutError as error:
            raise Lost(f"no answer within {self._endpoint.timeout_s:g} s", is_answer=self._thread.is_answer) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            problem = _without(key, f"no whole answer ({type(cause).__name__}: {cause})")
            raise Lost(problem, is_answer=self._thread.is_answer) from None
        except openai.OpenAIError as error:
            raise EndpointError(_without(key, f"{self._endpoint.base_url}: {error}")) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = response.content.replace(key.encode(), KEY_MARK.encode()) if len(key) > 7 else response.content
        return Received(status=response.status_code, headers=headers, body=body)

    def _opened(self) -> openai.OpenAI:
        with self._lock:
            if self._client is None:
                import openai

                self._client = openai.OpenAI(
                    api_key="none",  # the key is put in at each call, see below
                    base_url=self._endpoint.base_url,
                    timeout=self._endpoint.timeout_s,
                    max_retries=0,
                    http_client=_bounded(self._endpoint, self._environment, self._thread),
                )
            return self._client


def _without(key: str, text: str) -> str:
    return text.replace(key, KEY_MARK) if len(key) > 7 else text


def _bounded(endpoint: Endpoint, environment: Mapping[str, str], thread: threading.local) -> openai.DefaultHttpxClient:
    """The SDK's own HTTP client, sending no header but the few that are needed, and the key of this endpoint; reading a
    body up to a bound and a moment. ``thread`` is told that one began."""
    import openai

    limit = endpoint.answer_kb << 10

    class Bounded(openai.DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            own = {name: value for name, value in request.headers.items() if name.lower() not in _SENT}
            for name in own:
                del request.headers[name]
            request.headers["Authorization"] = f"Bearer {key_of(endpoint, environment)}"
            end = time.monotonic() + endpoint.timeout_s
            response = super().send(request, **{**options, "stream": True})
            thread.is_answer = response.status_code == 200
            data = bytearray()
            try:
                for part in response.iter_bytes():
                    data += part
                    if len(data) > limit:
                        raise Lost(
                            f"an answer of more than {endpoint.answer_kb} KiB, which is not read", is_answer=True
                        )
                    if time.monotonic() > end:
                        raise Lost(f"no whole answer within {endpoint.timeout_s:g} s", is_answer=True)
            finally:
                response.close()
            request.headers.update(own)  # the SDK finds its own marks again
            headers = [(k, v) for k, v in response.headers.items() if k.lower() not in _OF_THE_BODY]
            return type(response)(response.status_code, headers=headers, content=bytes(data), request=request)

    return Bounded(
        timeout=endpoint.timeout_s,
        follow_redirects=False,  # a redirect could carry the key to another host
    )


_SENT = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "transfer-encoding",
        "user-agent",
    )
)
"""Headers of a request, beside the key."""
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that describe the body as it was sent, not as it was read."""
