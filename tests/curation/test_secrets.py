"""Secrets are replaced before a sample is built, and nothing else is."""

from __future__ import annotations

import json

import msgspec
import pytest

from handoff.curation.secrets import Redactor, redact_briefing, redact_steps
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation, Step

GITHUB = "ghp_" + "a1B2c3D4e5F6" * 3
PLANTED = {
    "GITHUB_TOKEN": GITHUB,
    "GITLAB_TOKEN": "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "ANTHROPIC_KEY": "sk-ant-api03-" + "x9_Y" * 23 + "AA",
    "OPENAI_KEY": "sk-proj-" + "a1B2" * 12,
    "AWS_KEY_ID": "AKIA" + "QWERTYUIOP234567",
    "GOOGLE_KEY": "AIza" + "a1B2c3D" * 5,
    "HUGGINGFACE_TOKEN": "hf_" + "abCdEfGhIjKlMnOpQr" * 2,
    "SLACK_TOKEN": "xoxb-" + "123456789012-123456789012-abcdefABCDEF123456",
    "STRIPE_KEY": "sk_live_" + "a1B2c3D4" * 3,
    "NPM_TOKEN": "npm_" + "a1B2c3D4e5F6" * 3,
    "TAVILY_KEY": "tvly-" + "a1B2c3D4e5" * 3,
    "SUPABASE_KEY": "sb_secret_" + "a1B2c3D4e5" * 3,
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + "a1B2c3D4" * 4,
}
PLANTED["HUGGINGFACE_TOKEN"] = PLANTED["HUGGINGFACE_TOKEN"][:37]


@pytest.mark.parametrize("kind", sorted(PLANTED))
def test_a_planted_key_goes_wherever_it_stands(kind: str) -> None:
    """Bare, in a URL, in JSON, at the end of a line."""
    key = PLANTED[kind]
    for text in (key, f"export X={key}\n", f"https://h.example/?k={key}", json.dumps({"k": [key]}), f"'{key}'."):
        clean = Redactor().text(text)
        assert key not in clean
        assert f"<REDACTED_{kind}_1>" in clean


@pytest.mark.parametrize(
    "text",
    [
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        '"id": "msg_9f3c77a0b1d2Zk4QxT81vWmL"',
        "password = getpass.getpass()",
        "PASSWORD=$DB_PASSWORD",
        "def token(self): return self._token",
        "sk-learn and task-force-one and disk-usage",
        "https://example.com:8080/a@b",
        "SECRET_KEY_LENGTH=32",
        "assert user.password == 'secret'",
    ],
)
def test_what_only_looks_random_stays(text: str) -> None:
    """No entropy rule: hashes, ids and code are not secrets."""
    assert Redactor().text(text) == text


def test_frames_lose_only_their_secret() -> None:
    """The words round a secret stay, so that the text still means the same."""
    redactor = Redactor()
    assert redactor.text("postgres://app:hunter22@db/x") == "postgres://app:<REDACTED_URL_PASSWORD_1>@db/x"
    assert (
        redactor.text("Authorization: Bearer abcdef1234567890abcd")
        == "Authorization: Bearer <REDACTED_AUTHORIZATION_1>"
    )
    assert redactor.text("DB_PASSWORD=tr0ub4dor&3") == "DB_PASSWORD=<REDACTED_PASSWORD_1>"
    assert redactor.text("again tr0ub4dor&3, bare") == "again <REDACTED_PASSWORD_1>, bare"


def test_a_token_broken_over_lines_inside_pretty_printed_json_goes_and_ids_stay() -> None:
    """CASES S3: framing is decided before redaction."""
    record = {
        "messages": [
            {"id": "msg_9f3c77a0b1d2Zk4QxT81vWmL", "text": "hello"},
            {"parent": "msg_9f3c77a0b1d2Zk4QxT81vWmL", "text": f"token: {GITHUB[:20]}\n{GITHUB[20:]} end"},
        ]
    }
    pretty = json.dumps(record, indent=2)
    clean = Redactor().json(pretty)
    decoded = json.loads(clean)
    assert len(decoded["messages"]) == 2
    assert decoded["messages"][0]["id"] == decoded["messages"][1]["parent"] == "msg_9f3c77a0b1d2Zk4QxT81vWmL"
    assert decoded["messages"][1]["text"] == "token: <REDACTED_GITHUB_TOKEN_1> end"
    untouched = json.dumps({"a": 1.50, "id": "x"}, indent=4)
    assert Redactor().json(untouched) == untouched


def test_a_secret_has_one_placeholder_in_call_and_observation() -> None:
    """Also in nested JSON; another secret of the kind gets another number."""
    other = "ghp_" + "z9Y8x7W6v5U4" * 3
    step = Step(
        thought=f"use {GITHUB}",
        actions=(
            Action(
                tool="bash", arguments=json.dumps({"command": f"curl -H {GITHUB}", "body": json.dumps({"t": other})})
            ),
        ),
        observations=(Observation(text=f"sent {GITHUB} and {other}"),),
    )
    redactor = Redactor()
    briefing = Briefing(task=f"mind {GITHUB}", view="repo", view_text="", preamble="")
    assert redact_briefing(briefing, redactor).task == "mind <REDACTED_GITHUB_TOKEN_1>"
    (clean,) = redact_steps([step], redactor)
    text = msgspec.json.encode(clean).decode()
    assert GITHUB not in text
    assert other not in text
    assert clean.observations[0].text == "sent <REDACTED_GITHUB_TOKEN_1> and <REDACTED_GITHUB_TOKEN_2>"
    assert "<REDACTED_GITHUB_TOKEN_2>" in json.loads(clean.actions[0].arguments)["body"]
    assert redactor.count == 6


def test_long_text_without_secrets_is_cheap_and_unchanged() -> None:
    """A hostile text of many openings does not take quadratic time."""
    text = "-----BEGIN PRIVATE KEY-----\n" * 300 + "sk-" * 20_000 + "://" * 20_000
    assert Redactor().text(text) == text
