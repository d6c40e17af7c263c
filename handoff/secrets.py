"""Secrets: found by a small table of rules with structure, replaced by typed placeholders of stable identity.

One ``Redactor`` serves one sample: the same secret gets the same placeholder everywhere in it, in a call and
in what the call brought back, so the text still hangs together. Placeholders are numbered, not hashed: a hash
of a short password can be guessed back.

No entropy rule: in code, git hashes, UUIDs and test fixtures look as random as keys do. What is found instead
has a vendor's prefix, a telling frame (``password = "…"``, ``https://user:pass@``) or a PEM header. JSON is
decoded before it is searched and encoded again after, so ids, framing and escapes survive; a token broken over
lines by a terminal is found across the break.

What of a sample is searched is in ``curation/secrets.py``.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

_BREAK = r"(?:\\?\r?\n[ \t]*|\\n)?"
"""A line break that a terminal or a JSON writer put inside a token."""


def _run(characters: str, low: int, high: int | None = None) -> str:
    """``low`` to ``high`` characters, one line break allowed before each (a token that a terminal wrapped)."""
    upper = "" if high is None else str(high)
    return f"(?:{_BREAK}[{characters}]){{{low},{upper}}}"


_WORD = "A-Za-z0-9"
_URLSAFE = "A-Za-z0-9_-"

RULES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (kind, tuple(marks.split()), re.compile(pattern))
    for kind, marks, pattern in (
        (
            "PRIVATE_KEY",
            "-----BEGIN",
            r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\S]{1,20000}?"
            r"-----END (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
        ),
        (
            "GITHUB_TOKEN",
            "ghp_ gho_ ghu_ ghs_ ghr_",
            rf"(?<![{_WORD}_])gh[pousr]_{_run(_WORD, 36, 36)}(?![{_WORD}])",
        ),
        ("GITHUB_TOKEN", "github_pat_", r"(?<!\w)github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}(?!\w)"),
        (
            "GITLAB_TOKEN",
            "glpat- glptt- gldt- glrt- glcbt-",
            rf"(?<!\w)gl(?:pat|ptt|dt|rt|cbt)-{_run(_URLSAFE, 20, 20)}(?![{_URLSAFE}])",
        ),
        ("ANTHROPIC_KEY", "sk-ant-", r"(?<!\w)sk-ant-(?:api|admin|oat|sid)\d\d-[A-Za-z0-9_-]{80,120}"),
        ("OPENROUTER_KEY", "sk-or-v1-", r"(?<![\w-])sk-or-v1-[0-9a-f]{64}"),
        (
            "OPENAI_KEY",
            "sk-",
            r"sk-(?<![\w-]sk-)(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200}"
            r"|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48}(?!\w))",
        ),
        ("AWS_KEY_ID", "AKIA ASIA ABIA ACCA", r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Z0-9])"),
        (
            "AWS_SECRET",
            "aws_secret_access_key AWS_SECRET_ACCESS_KEY",
            r"(?i)(?<=aws_secret_access_key)(?P<frame>[\"']?\s*[:=]\s*[\"']?)(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        ),
        ("GOOGLE_KEY", "AIza", rf"(?<!\w)AIza{_run(_URLSAFE, 35, 35)}(?![{_URLSAFE}])"),
        (
            "GOOGLE_OAUTH",
            "ya29. GOCSPX-",
            r"(?<!\w)ya29\.[A-Za-z0-9_-]{30,}|(?<!\w)GOCSPX-[A-Za-z0-9_-]{28}(?![\w-])",
        ),
        ("HUGGINGFACE_TOKEN", "hf_ api_org_", rf"(?<!\w)(?:hf|api_org)_{_run('A-Za-z', 34, 34)}(?!\w)"),
        (
            "SLACK_TOKEN",
            "xox hooks.slack.com",
            r"(?<!\w)xox[abeoprs]-(?:\d+-){1,3}[A-Za-z0-9-]{10,}"
            r"|https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/+]{40,60}",
        ),
        (
            "STRIPE_KEY",
            "k_live_ k_test_ whsec_",
            r"(?<!\w)(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{20,120}|(?<!\w)whsec_[A-Za-z0-9+/=]{32,}",
        ),
        ("NPM_TOKEN", "npm_", rf"(?<!\w)npm_{_run(_WORD, 36, 36)}(?!\w)"),
        ("PYPI_TOKEN", "pypi-AgE", r"(?<!\w)pypi-AgE[A-Za-z0-9_-]{50,}"),
        ("SENDGRID_KEY", "SG.", r"(?<!\w)SG\.[\w-]{22}\.[\w-]{43}(?![\w-])"),
        ("TWILIO_KEY", "SK", r"SK(?<!\wSK)[0-9a-f]{32}(?!\w)"),
        ("TAVILY_KEY", "tvly-", r"(?<!\w)tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}"),
        ("GROQ_KEY", "gsk_", r"(?<!\w)gsk_[A-Za-z0-9]{48,}"),
        ("DIGITALOCEAN_TOKEN", "doo_v1_ dop_v1_ dor_v1_ dot_v1_", r"(?<!\w)do[oprt]_v1_[0-9a-f]{64}"),
        ("DATABRICKS_TOKEN", "dapi", r"(?<!\w)dapi[0-9a-f]{32}(?:-\d)?(?!\w)"),
        ("SUPABASE_KEY", "sb_secret_", r"(?<!\w)sb_secret_[A-Za-z0-9_-]{20,}"),
        ("TELEGRAM_TOKEN", ":AA", r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{33}(?![\w-])"),
        ("JWT", "eyJ", r"(?<![\w-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}"),
        (
            "AUTHORIZATION",
            "uthorization UTHORIZATION",
            r"(?P<frame>(?i:authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+))"
            r"(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        ),
        (
            "API_KEY",
            "api-key API-KEY Api-Key API-Key",
            r"(?P<frame>(?i:x-api-key[\"']?\s*[:=]\s*[\"']?))(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        ),
        (
            "URL_PASSWORD",
            "://",
            r"(?P<frame>://[^\s:/@\"'<>]{1,64}:)(?P<secret>[^\s:/@\"'<>${}*]{3,128})(?=@)",
        ),
        (
            "PASSWORD",
            "PASSWORD= PASSWD= SECRET= KEY= TOKEN=",
            r"(?P<frame>(?:PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?TOKEN|AUTH_?TOKEN|PRIVATE_?TOKEN)=[\"']?)"
            r"(?P<secret>(?=[^\s\"'$<>{}()]{0,200}\d)[^\s\"'$<>{}(),;]{8,200})",
        ),
    )
)
"""(kind, marks, pattern). A text that holds none of the marks cannot match, and is not searched; common marks begin
their pattern, which searches faster than a look-behind does. Where a pattern names a group ``secret``, only that
group is replaced."""

_PLACEHOLDER = re.compile(r"<REDACTED_[A-Z_]+_\d+>")


class Redactor:
    """Replaces secrets, each by its own placeholder. One per sample."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self.found: dict[str, int] = {}
        """Replacements so far, by kind."""

    @property
    def count(self) -> int:
        """Replacements so far."""
        return sum(self.found.values())

    def text(self, text: str) -> str:
        """``text`` without its secrets."""
        for kind, marks, rule in RULES:
            if any(mark in text for mark in marks):
                text = rule.sub(partial(self._replace, kind), text)
        for secret in sorted(self._known, key=lambda s: (-len(s), s)):  # seen before in a frame, now bare
            if secret in text:
                kind = self._known[secret].removeprefix("<REDACTED_").rpartition("_")[0]
                self.found[kind] = self.found.get(kind, 0) + text.count(secret)
                text = text.replace(secret, self._known[secret])
        return text

    def json(self, text: str) -> str:
        """JSON without secrets in its strings and keys; the same bytes when it holds none. Other text as ``text``."""
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return self.text(text)
        before = self.count
        clean = self._value(value)
        return text if self.count == before else msgspec.json.encode(clean).decode()

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            nested = value.lstrip()[:1] in ("{", "[") and value.rstrip()[-1:] in ("}", "]")
            return self.json(value) if nested else self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            clean: dict[str, object] = {}
            for key, item in value.items():
                name = self.text(key)
                if isinstance(item, str) and _TELLING.search(key) and _SECRET_VALUE.fullmatch(item):
                    clean[name] = self._placeholder("PASSWORD", item)
                else:
                    clean[name] = self._value(item)
            return clean
        return value

    def _replace(self, kind: str, match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("secret") is None:
            return self._placeholder(kind, match.group())
        if _PLACEHOLDER.match(groups["secret"]) or groups["secret"].lower() in _HARMLESS:
            return match.group()
        start, end = match.span("secret")
        whole = match.group()
        return whole[: start - match.start()] + self._placeholder(kind, groups["secret"]) + whole[end - match.start() :]

    def _placeholder(self, kind: str, secret: str) -> str:
        secret = re.sub(r"\\?\r?\n[ \t]*|\\n", "", secret) if kind != "PRIVATE_KEY" else secret
        self.found[kind] = self.found.get(kind, 0) + 1
        if secret not in self._known:
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            self._known[secret] = f"<REDACTED_{kind}_{self._numbers[kind]}>"
        return self._known[secret]


_TELLING = re.compile(r"(?i)(?:^|_|-)(?:password|passwd|secret|api_?key|access_?token|auth_?token|private_?key)$")
_SECRET_VALUE = re.compile(r"(?=.*\d)[^\s<>${}()]{8,200}")
_HARMLESS = frozenset(
    {"password", "passwd", "pass", "secret", "token", "user", "example", "changeme", "xxxx", "xxxxxxxx"}
)
