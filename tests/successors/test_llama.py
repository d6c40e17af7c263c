"""Takeovers and probes against llama.cpp's own server. The model is tiny and solves nothing; the way there works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import llama_server
import pytest

from handoff.endpoints import Client, Endpoint, Prices, Received, SdkTransport
from handoff.journal import Journal
from handoff.successors import Briefing, Question
from handoff.successors.openai import OpenAISuccessor
from handoff.takeover import Budget, Takeover, Verdict, run_takeover
from handoff.trajectory import Action, Observation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(llama_server.missing() is not None, reason=str(llama_server.missing())),
]

QUESTION = Question(nodes=(("q01", "edit:pager.py"), ("q02", "reproduce")))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server.serving() as url:
        yield url


class World:
    """Answers every command alike."""

    def __init__(self) -> None:
        self.is_over = False

    def act(self, action: Action) -> Observation:
        self.is_over = action.tool == "submit"
        return Observation(call_id=action.call_id, text="pager.py\n", exit_code=0)

    def tree(self) -> str:
        return "tree"

    def verdict(self) -> Verdict:
        return Verdict(solved=None)

    def close(self) -> None:
        pass


class Killed(BaseException):
    """The process is gone."""


class Counting(SdkTransport):
    """Counts attempts; dies right after the answer whose number is ``last``."""

    sent = 0
    last = 0

    def send(self, body: Mapping[str, Any], label: str) -> Received:
        received = super().send(body, label)
        self.sent += 1
        if self.sent == self.last:
            raise Killed
        return received


def run(journal: Path, transport: Counting, endpoint: Endpoint, task: str = "List the files, then submit.") -> Takeover:
    briefing = Briefing(task=task, view="repo", view_text="", preamble="You take over from another programmer.")
    with Client(endpoint, transport) as client:
        return run_takeover(
            takeover_id="k_llama",
            briefing=briefing,
            successor=OpenAISuccessor(client, name="smollm2"),
            environment=World,
            budget=Budget(steps=4, prompt_tokens=100_000, dollars=1.0),
            seed=11,
            question=QUESTION,
            journal=Journal(journal, sync="paid"),
        )


def endpoint_at(url: str, **settings: Any) -> Endpoint:
    small = {"max_completion_tokens": 40, "probe_tokens": 300, "temperature": 0.0}
    prices = Prices(prompt=1.0, cached=0.1, completion=2.0)
    return Endpoint(**{"base_url": url, "model": llama_server.MODEL, "prices": prices, **small, **settings})


@pytest.mark.parametrize("tools", ["native", "fenced", "auto"])
def test_a_takeover_ends_its_probe_is_answered_and_usage_adds_up(tmp_path: Path, url: str, tools: str) -> None:
    endpoint = endpoint_at(url, tools=tools)
    transport = Counting(endpoint, {})
    takeover = run(tmp_path, transport, endpoint)
    assert takeover.status in ("submitted", "stopped", "step_limit")
    assert takeover.steps >= 1 and transport.sent == takeover.steps + 1
    assert takeover.probe_done is not None and takeover.note == ""
    usage = [step.usage for step in takeover.transcript]
    assert all(u is not None and u.prompt and u.completion and u.completion <= 40 for u in usage)
    assert takeover.endpoint_prompt_tokens == sum(u.prompt or 0 for u in usage if u)
    assert takeover.endpoint_completion_tokens == sum(u.completion or 0 for u in usage if u)
    assert takeover.probe_prompt_tokens and takeover.probe_completion_tokens
    assert takeover.dollars is not None and takeover.dollars > sum(step.cost or 0.0 for step in takeover.transcript)
    if takeover.steps > 1:  # the conversation only grows, so the server finds most of it in its cache
        assert usage[1] is not None and usage[0] is not None
        assert (usage[1].cached or 0) >= (usage[0].prompt or 0) - 8


def test_the_first_reply_is_told_how_likely_it_was(tmp_path: Path, url: str) -> None:
    """By a real server, for a reply that calls a tool or not; the requests after it do not ask."""
    endpoint = endpoint_at(url, tools="native")
    with Client(endpoint) as client:
        takeover = run_takeover(
            takeover_id="k_llama",
            briefing=Briefing(task="List the files.", view="repo", view_text="", preamble="You take over."),
            successor=OpenAISuccessor(client, name="smollm2", asks_logprobs=True),
            environment=World,
            budget=Budget(steps=2, prompt_tokens=100_000),
            seed=11,
            question=None,
            journal=Journal(tmp_path, sync="never"),
        )
    assert takeover.first_logprob is not None and -20 < takeover.first_logprob < 0


def test_killed_after_an_answer_it_goes_on_and_repeats_no_request(tmp_path: Path, url: str) -> None:
    """The request whose answer never arrived is the only one that is made again."""
    endpoint = endpoint_at(url, tools="fenced")
    plain = Counting(endpoint, {})
    wanted = run(tmp_path / "plain", plain, endpoint)
    transport = Counting(endpoint, {})
    transport.last = 2
    with pytest.raises(Killed):
        run(tmp_path / "k", transport, endpoint)
    again = run(tmp_path / "k", transport, endpoint)
    assert transport.sent == plain.sent + 1
    assert again.status == wanted.status
    assert "call 2 was under way when the run was cut off" in again.note
    asked = transport.sent
    assert run(tmp_path / "k", transport, endpoint) == again
    assert transport.sent == asked


def test_a_view_beyond_the_context_is_an_outcome(tmp_path: Path, url: str) -> None:
    endpoint = endpoint_at(url)
    takeover = run(tmp_path, Counting(endpoint, {}), endpoint, task="Read this. " * 4000)
    assert (takeover.status, takeover.steps, takeover.dollars) == ("context_limit", 0, 0.0)
    assert "exceeds the available context size" in takeover.note


def test_the_model_is_listed(url: str) -> None:
    with Client(endpoint_at(url)) as client:
        assert llama_server.MODEL in client.models()
