"""Views written by llama.cpp's own server. The model is tiny and its notes are poor; the way there works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import llama_server
import pytest

from handoff.endpoints import Client, Endpoint, Ledger, Prices, Received, SdkTransport
from handoff.journal import Journal
from handoff.trajectory import Action, Observation, Step, Trajectory
from handoff.views.written import write_view
from handoff.writers.model import Written
from tests.writers.records import record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(llama_server.missing() is not None, reason=str(llama_server.missing())),
]

LOOK = Step(
    thought="I look at the pager.",
    actions=(Action(tool="bash", arguments='{"command": "cat src/pager.py"}'),),
    observations=(Observation(text="size = 1\n", exit_code=0),),
)
RUN = Trajectory(format="chat", task="The pager loses the last page.", steps=(LOOK,) * 10)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server.serving() as url:
        yield url


class Counting(SdkTransport):
    """Counts requests."""

    sent = 0

    def send(self, body: Mapping[str, Any], label: str) -> Received:
        self.sent += 1
        return super().send(body, label)


def write(journal: Path, transport: Counting, endpoint: Endpoint, view: str, run: Trajectory = RUN) -> Written:
    with Client(endpoint, transport) as client, Journal(journal, sync="paid").open("llama") as log:
        opened = partial(Ledger.of, lines=log.entries, append=partial(log.append, is_paid=True))
        return write_view(view, run, 9, record(), client, opened, seed=3)


def endpoint_at(url: str, tokens: int) -> Endpoint:
    prices = Prices(prompt=1.0, completion=2.0)
    return Endpoint(
        base_url=url, model=llama_server.MODEL, max_completion_tokens=tokens, temperature=0.0, prices=prices
    )


@pytest.mark.parametrize(("view", "tokens"), [("structured", 600), ("summary", 300), ("compact_pre", 200)])
def test_a_view_is_written_and_paid_once(tmp_path: Path, url: str, view: str, tokens: int) -> None:
    """Bounds in the schema end a model that repeats itself before its tokens do."""
    endpoint = endpoint_at(url, tokens)
    transport = Counting(endpoint, {})
    written = write(tmp_path, transport, endpoint, view)
    assert written.attempts == transport.sent >= 1 and written.writing_tokens > 0
    assert written.prompt_tokens and written.completion_tokens and written.dollars
    assert written.text and written.reason == ""
    if view == "compact_pre":
        assert written.claims is None
    else:
        assert written.claims is not None and written.rejected_claims is not None
        assert written.claims - written.rejected_claims >= 1
        assert written.completion_tokens < tokens * written.attempts
    assert write(tmp_path, transport, endpoint, view) == written
    assert transport.sent == written.attempts


def test_a_trace_beyond_the_context_is_an_outcome(tmp_path: Path, url: str) -> None:
    long = Step(observations=(Observation(text="Read this. " * 4000),))
    run = Trajectory(format="chat", task="Fix it.", steps=(long,) * 10)
    endpoint = endpoint_at(url, 200)
    written = write(tmp_path, Counting(endpoint, {}), endpoint, "compact_suf", run)
    assert written.text is None and written.reason.startswith("context: ")
    assert written.dollars == 0.0
