"""What a failed attempt means: ask again, an outcome to record, or something that only the user can mend.

Servers say the same thing in many words and under several statuses, so the words are looked at first.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

Kind = Literal[
    "passing",
    "context",
    "no_tools",
    "no_schema",
    "no_bounds",
    "no_logprobs",
    "rejected",
    "key",
    "model",
    "quota",
    "settings",
]
"""``passing`` may pass when asked again; the last four need the user; the rest are outcomes."""

_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|maximum context length|max_model_len"
    r"|maximum model length|model's context (?:length|window)|available context size|context (?:size|window|length)"
    r" (?:of|is|was|has been)? ?(?:\w+ )?exceeded|exceeds? the (?:model's )?(?:maximum )?context|prompt is too long"
    r"|input is too long|input length (?:and|exceeds)|maximum prompt length|longer than the (?:model|context|maximum)"
    r"|exceeds the maximum number of tokens|range of input length|reduce the length of the (?:messages|prompt|input)"
    r"|too many (?:input )?tokens|too large for model|maximum number of (?:input )?tokens"
    r"|exceeds? the limit of \d+ tokens"
    r"|context the overflows|must have less than \d+ tokens|inputs?`? tokens \+ `?max_new_tokens",
    re.I,
)
_NO_TOOLS = re.compile(
    r"(?:does not|doesn't|not) support(?:ed)?[^.]{0,40}\b(?:tool|function)s?\b|\b(?:tool|function)s?\b[^.]{0,60}"
    r"(?:not supported|unsupported|not available|requires? --|not enabled)|enable-auto-tool-choice|tool-call-parser"
    r"|unknown (?:field|parameter)[^.]{0,9}tools|no endpoints found that support tool",
    re.I,
)
_NO_SCHEMA = re.compile(
    r"(?:response_format|json_schema|json schema|structured output|guided|grammar)[^.]{0,80}"
    r"(?:not supported|unsupported|not available|invalid|unknown|cannot|failed|not permitted|not enabled)"
    r"|(?:not support|unsupported|unknown|cannot use|extra inputs|failed to parse)[^.]{0,80}"
    r"(?:response_format|json_schema|json schema|structured output|grammar)",
    re.I,
)
_NO_BOUNDS = re.compile(
    r"\b(?:max|min)(?:Length|Items)\b|[`'\"](?:max|min)imum[`'\"]|(?i:(?:invalid|unsupported) (?:json ?)?schema"
    r"|failed to parse grammar|schema[^.]{0,40}unsupported (?:features?|keywords?))"
)
"""Of a schema that holds keywords which others of its kind do without."""
_NO_LOGPROBS = re.compile(r"\blog_?probs?\b|log-?probabilit", re.I)
_QUOTA = re.compile(
    r"insufficient_quota|insufficient (?:balance|credit|funds)|exceeded your current quota|billing", re.I
)
_SETTINGS = re.compile(
    r"unsupported (?:parameter|value)"
    r"|(?:unknown|unrecognized|unexpected|invalid) (?:request )?(?:parameter|field|argument)"
    r"|extra (?:inputs|fields) (?:are )?not permitted|parameter\b[^.]{0,60}(?:not supported|unsupported|not allowed)",
    re.I,
)
_MODEL = re.compile(
    r"model_not_found|unknown model|invalid model|no such model|not a valid model"
    r"|models?\b.{0,200}?(?:not found|does not exist|not exist|is not available|isn't available)",
    re.I | re.S,
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt."""

    kind: Kind
    message: str
    wait: float | None = None
    """Seconds that the endpoint asks to wait. ``None``: it does not say."""
    is_answer: bool = False
    """It was a whole answer, though of no use, and perhaps paid for."""


def judge(status: int, message: str, headers: Mapping[str, str]) -> Failure:
    """What an answer with an error means. ``headers``: names in lower case; ``message``: as the body words it."""
    wait = retry_after(headers)
    kind: Kind
    if status == 413 or (status in (400, 422, 500, 501) and _CONTEXT.search(message)):
        kind = "context"
    elif status == 402 or (status in (400, 403, 429) and _QUOTA.search(message)):
        kind = "quota"
    elif status in (400, 403, 404, 422, 500, 501) and _NO_LOGPROBS.search(message):
        kind = "no_logprobs"
    elif status in (401, 403):
        kind = "key"
    elif status in (400, 404, 422, 500, 501) and _NO_TOOLS.search(message):
        kind = "no_tools"
    elif status in (400, 422, 500, 501) and _NO_BOUNDS.search(message):
        kind = "no_bounds"
    elif status in (400, 404, 422, 500, 501) and _NO_SCHEMA.search(message):
        kind = "no_schema"
    elif status in (400, 422) and _SETTINGS.search(message):
        kind = "settings"
    elif status in (404, 405) or (status in (400, 422) and _MODEL.search(message)) or 300 <= status < 400:
        kind = "model"
    elif status in (408, 409, 425, 429) or status >= 500 or status < 300:
        kind = "passing"
    else:
        kind = "rejected"
    return Failure(kind=kind, message=message, wait=wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait, from milliseconds, seconds or a date beside its own date."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text):
            return float(text) * scale
    try:
        until = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        now = email.utils.parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
