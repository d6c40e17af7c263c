"""Between an agent and its model: whatever moment it is killed at and whatever it asks then, the accounts are right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fault_server import counted, message
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_endpoint import Scripted, client

from handoff.endpoints import Ledger, Prices
from handoff.endpoints.served import MOST_NAMES, Refused, Request, read_request
from handoff.errors import InputError
from handoff.journal import Journal
from handoff.successors import Budget, Question
from handoff.successors.broker import Broker

PRICES = Prices(prompt=1.0, completion=1.0)
AMPLE = Budget(steps=50, prompt_tokens=1_000_000)
LENGTH = 4


class Model(Scripted):
    """Answers each request by its place in the conversation."""

    def send(self, body: Any, label: str) -> Any:
        turn = sum(m["role"] == "assistant" for m in body["messages"])
        reply = message("", ("bash", {"command": f"cat {turn}"}))
        self.then = lambda _: {**reply, "usage": counted(dict(body), reply)}
        return super().send(body, label)


def request(talk: list[dict[str, Any]], **more: Any) -> Request:
    return read_request(json.dumps({"messages": talk, **more}).encode())


def work(broker: Broker, opening: str, clock: str) -> None:
    """One start of an agent: it asks ``LENGTH`` times."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    for _ in range(LENGTH):
        completion = broker.answer(request(talk)).completion
        call = completion.calls[0]
        function = {"name": call.name, "arguments": call.arguments}
        talk.append({"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "function": function}]})
        talk.append({"role": "tool", "tool_call_id": call.id, "content": f"it took {clock}"})


@settings(max_examples=40)
@given(
    starts=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.sampled_from(["1 s", "2 s"])), min_size=1, max_size=5
    )
)
def test_killed_at_any_line_and_started_again_in_any_way(
    tmp_path_factory: pytest.TempPathFactory, starts: list[tuple[int, str, str]]
) -> None:
    """A start is (lines until the kill, what the agent begins with, what its commands print).

    No answered request is made again as long as the agent begins the same, whatever its commands print; every answer
    is accounted for; no label names two requests.
    """
    journal = Journal(tmp_path_factory.mktemp("journal"), sync="never")
    model = Model()
    asker = client(model, prices=PRICES)

    class Cut(BaseException):
        pass

    for lines, opening, clock in [*starts, (99, starts[-1][1], "3 s")]:
        left = lines
        with journal.open("run") as log:

            def append(line: bytes) -> None:
                nonlocal left
                if left == 0:
                    raise Cut
                log.append(line)
                left -= 1

            ledger = Ledger.of("run", log.entries, append)
            broker = Broker(asker, ledger, AMPLE, 3, None)
            try:
                work(broker, opening, clock)
            except Cut:
                continue
            assert len(broker.steps) == LENGTH
    assert ledger.spent("reply").calls == LENGTH
    with journal.open("run") as log:
        answered = sum(b'"answered"' in line for line in log.entries)
    assert answered == LENGTH + len(ledger.unused)
    if len({opening for _, opening, _ in starts}) == 1:
        # Of one call only those are made again whose answer was not written down before a kill.
        assert ledger.unused == []
        assert len(model.requests) <= LENGTH + len(starts)
    named = {(label, json.dumps(r, sort_keys=True)) for label, r in zip(model.labels, model.requests, strict=True)}
    assert len({label for label, _ in named}) == len(named)
    total = broker.dollars()
    assert total == pytest.approx(
        sum(e.answer.cost or 0 for e in ledger.unused if hasattr(e.answer, "cost")) + (ledger.spent().dollars or 0)
    )


# -- what is passed on ------------------------------------------------------------------------------------


def broker_for(model: Scripted, budget: Budget = AMPLE, question: Question | None = None, **endpoint: Any) -> Broker:
    return Broker(client(model, **endpoint), Ledger("run", lambda entry: None), budget, 3, question)


TALK = [{"role": "user", "content": "Mend it."}]


def test_the_endpoints_own_settings_come_before_the_agents(tmp_path: Any) -> None:
    model = Scripted()
    endpoint = {"temperature": 0.1, "max_completion_tokens": 50, "extra_body": {"top_k": 3}}
    broker = broker_for(model, **endpoint, completion_limit_field="max_completion_tokens")
    broker.answer(request(TALK, model="large", temperature=0.9, seed=9, top_p=0.5, top_k=40, max_tokens=9999))
    (body,) = model.requests
    assert (body["model"], body["temperature"], body["seed"], body["top_p"], body["top_k"]) == (
        "stub-1",
        0.1,
        3,
        0.5,
        3,
    )
    assert body["max_completion_tokens"] == 50 and "max_tokens" not in body and "stream" not in body


def test_an_endpoint_that_takes_no_seed_gets_none() -> None:
    model = Scripted()
    broker_for(model, is_seeded=False).answer(request(TALK, seed=9, max_tokens=7))
    assert "seed" not in model.requests[0] and model.requests[0]["max_tokens"] == 7


def test_what_is_not_passed_on_is_said() -> None:
    broker = broker_for(Scripted())
    broker.answer(request(TALK, web_search_options={}, user="me"))
    assert broker.remarks() == ["not passed on to the model: user, web_search_options"]


def test_what_is_said_of_a_run_is_bounded() -> None:
    """However many requests name however many parts."""
    broker = broker_for(Scripted())
    for n in range(30):
        broker.answer(request(TALK, **{f"part_{n}_{place}": 1 for place in range(20)}))
    (remark,) = broker.remarks()
    assert remark.count("part_") == MOST_NAMES


@pytest.mark.parametrize("dollars", [0.001, 0.01, 0.1])
def test_no_budget_in_money_is_ever_exceeded(dollars: float) -> None:
    """Also where the endpoint does not say what an answer cost, and by answers that were of no use."""
    prices = {"prices": Prices(prompt=20.0, completion=60.0), "max_completion_tokens": 30}
    answers = [{"choices": []}, message("no usage"), {"choices": []}]
    model = Scripted(answers, lambda n: {**message("word " * 30), "usage": "counted"})
    broker = broker_for(model, Budget(steps=1000, prompt_tokens=10_000_000, dollars=dollars), **prices)
    talk = list(TALK)
    with pytest.raises(Refused) as refused:
        while True:
            talk += [{"role": "assistant", "content": broker.answer(request(talk)).completion.text}]
            talk += [{"role": "user", "content": "go on"}]
    assert (refused.value.status, broker.over) == (403, "money_limit")
    assert broker.dollars() <= dollars
    with pytest.raises(Refused):
        broker.answer(request(TALK))


def test_money_without_prices_is_the_users_to_mend() -> None:
    with pytest.raises(InputError, match="prices"):
        broker_for(Scripted(), Budget(steps=9, prompt_tokens=999, dollars=1.0)).answer(request(TALK))


def test_a_probe_that_costs_more_than_is_left_is_not_put() -> None:
    prices = {"prices": Prices(prompt=20.0, completion=60.0), "max_completion_tokens": 5, "probe_tokens": 100_000}
    model = Scripted([{**message("", ("bash", {"command": "rm x"})), "usage": "counted"}])
    question = Question(nodes=(("q01", "edit:a"),))
    broker = broker_for(model, Budget(steps=9, prompt_tokens=9999, dollars=0.05), question, **prices)
    broker.answer(request(TALK))
    assert len(model.requests) == 1 and broker.asked is None
    assert broker.remarks() == ["probe: what it may cost is more than is left"]
