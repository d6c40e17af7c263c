"""What a user says about an endpoint: where it is, what to ask it for, what it costs.

Keys are not settings: an endpoint names the environment variable that holds its key.
"""

from __future__ import annotations

import re
import urllib.parse
from typing import Annotated, Any, Literal

import msgspec

from handoff.errors import InputError
from handoff.identity import canonical_json, identify

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Price = Annotated[float, msgspec.Meta(ge=0)]

RESERVED = frozenset({"model", "messages", "tools", "tool_choice", "stream", "stream_options", "n", "response_format"})
"""Parts of a request that ``extra_body`` may not set: the successor sets them, or relies on their absence."""
MARGIN = 1.25
"""How many of an endpoint's tokens one of ours may be."""
SMALLEST_REPLY = 256
"""Tokens: with less room than this left in its window, a model is not asked."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    prompt: _Price
    completion: _Price
    cached: _Price | None = None
    """Of a prompt token that the endpoint took from its cache. ``None``: as ``prompt``."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="openai"):
    """One model behind a server that speaks OpenAI's Chat Completions."""

    base_url: str
    """Up to and without ``/chat/completions``, such as ``http://127.0.0.1:8000/v1``."""
    model: str
    key_env: str = ""
    """Name of the environment variable that holds the key. Empty: the server asks for none."""
    temperature: float | None = None
    """``None``: the endpoint's own default, like every sampling parameter here."""
    top_p: float | None = None
    seed: int | None = None
    """Sent with every call. ``None``: the seed of the takeover."""
    is_seeded: bool = True
    """``False``: no seed is sent, for endpoints that refuse one."""
    max_completion_tokens: _Positive = 4096
    """Of one reply, reasoning included."""
    completion_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the endpoint calls it."""
    probe_tokens: _Positive = 2048
    """The same, of an answer on a side branch (``docs/science.md §6``)."""
    timeout_s: _Seconds = 300.0
    """Of one attempt, from first to last byte."""
    retries: _Count = 6
    """Attempts after the first, for what may pass: rate limits, faults of the server, broken answers."""
    patience_s: _Seconds = 600.0
    """The longest wait before an attempt that the endpoint may ask for."""
    concurrency: _Positive = 4
    """Requests under way at once in one process."""
    context_window: _Positive | None = None
    """Tokens of prompt and completion together. ``None``: the endpoint says so when a prompt is too long."""
    prices: Prices | None = None
    """``None``: unknown, and no cost is given."""
    tools: Literal["auto", "native", "fenced"] = "auto"
    """``native``: tool calls; ``fenced``: shell blocks in the text; ``auto``: native, else fenced."""
    calls_per_reply: _Positive = 16
    """More calls in one reply are not carried out."""
    answer_kb: _Positive = 8192
    """The longest answer that is read."""
    extra_body: dict[str, Any] = {}
    """Further parts of every request, as the endpoint documents them."""

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"base_url {_plain(self.base_url)!r} is no address; write http://HOST:PORT/v1 or https://…"
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(
                f"base_url of {parts.hostname} holds more than an address; name the environment variable that "
                "holds the key in key_env instead"
            )
        if self.key_env and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", self.key_env) is None:
            raise InputError("key_env is no name of an environment variable; never write the key itself there")
        if taken := sorted(RESERVED & self.extra_body.keys()):
            raise InputError(f"extra_body of {self.model} sets {', '.join(taken)}; leave that to the successor")
        if not self.model:
            raise InputError(f"model of {self.base_url} is empty; write the name that the server lists")

    @property
    def digest(self) -> str:
        """Content hash of all that decides what it answers. Keys, prices, waits and limits of traffic do not."""
        decisive = (
            self.base_url.rstrip("/"),
            self.model,
            self.temperature,
            self.top_p,
            self.seed,
            self.is_seeded,
            self.max_completion_tokens,
            self.probe_tokens,
            self.context_window,
            self.tools,
            self.calls_per_reply,
            self.extra_body,
        )
        return identify("m", "endpoint", canonical_json(decisive))

    def cost(self, prompt: int, cached: int, completion: int) -> float | None:
        """US dollars of a call; ``prompt`` includes ``cached``. ``None`` without prices."""
        if self.prices is None:
            return None
        reused = self.prices.prompt if self.prices.cached is None else self.prices.cached
        return ((prompt - cached) * self.prices.prompt + cached * reused + completion * self.prices.completion) / 1e6

    def sampling(self, seed: int) -> dict[str, Any]:
        """The parts of a request that are the same for every call of a takeover with this seed."""
        own = self.seed if self.seed is not None else seed
        named = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            # Servers read it as a signed 32-bit number.
            "seed": own & 0x7FFFFFFF if self.is_seeded else None,
        }
        return {"model": self.model, **{k: v for k, v in named.items() if v is not None}, **self.extra_body}


def _plain(url: str) -> str:
    """The address without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", url)
