"""The ledger: whatever moment a run is cut off at, no answered call is made again, and the answers stay the same."""

from __future__ import annotations

from typing import Any

import pytest
from fault_server import message
from hypothesis import given
from hypothesis import strategies as st
from scripted_endpoint import Scripted, client

from handoff.endpoints import Completion, Ledger, Lost
from handoff.errors import EndpointError, InputError, NoAnswerError
from handoff.journal import Journal


def body(number: int) -> dict[str, object]:
    return {"model": "stub-1", "messages": [{"role": "user", "content": f"question {number}"}]}


def text_of(answer: object) -> str:
    assert isinstance(answer, Completion)
    return answer.text


class Echo(Scripted):
    """Answers each question with itself, and knows how often each was answered."""

    def send(self, body: Any, label: str) -> Any:
        self.then = lambda _: message(f"answer to {body['messages'][0]['content']}")
        return super().send(body, label)


@given(cuts=st.lists(st.integers(0, 9), max_size=4), faults=st.lists(st.sampled_from(["lost", "spoiled"]), max_size=2))
def test_cut_off_after_any_line_it_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], faults: list[str]
) -> None:
    """The log is cut after any number of lines, as a kill leaves it, and the run begun again."""
    journal = Journal(tmp_path_factory.mktemp("journal"), sync="never")
    bad: dict[str, Any] = {"lost": Lost("gone"), "spoiled": {"choices": []}}
    transport = Echo([bad[fault] for fault in faults])
    asker = client(transport, retries=3)

    def run(stop_after: int | None) -> list[str]:
        lines = 0

        class Cut(BaseException):
            pass

        with journal.open("notes") as log:

            def append(line: bytes) -> None:
                nonlocal lines
                if lines == stop_after:
                    raise Cut
                log.append(line)
                lines += 1

            ledger = Ledger.of("notes", log.entries, append)
            try:
                return [text_of(ledger.call(asker, "note", body(number))) for number in range(3)]
            except Cut:
                return []

    for cut in cuts:
        run(cut)
    assert run(None) == [f"answer to question {number}" for number in range(3)]
    asked = len(transport.requests)
    assert run(None) == [f"answer to question {number}" for number in range(3)]
    assert len(transport.requests) == asked
    assert asked <= 3 + len(faults) + len(cuts), "only what was cut off before it was written down came again"


def test_attempts_that_were_paid_for_count_after_a_restart() -> None:
    """A server that spoils every answer is not asked ``retries`` times anew by each restart."""
    written: list[Any] = []
    transport = Scripted(then=lambda _: {"choices": []})

    class Cut(BaseException):
        pass

    def write(entry: Any) -> None:
        written.append(entry)
        if len(written) == 3:
            raise Cut

    with pytest.raises(Cut):
        Ledger("n", write).call(client(transport, retries=3), "note", body(0))
    with pytest.raises(NoAnswerError):
        Ledger("n", written.append, written).call(client(transport, retries=3), "note", body(0))
    assert len(transport.requests) == 4
    assert len(set(transport.labels)) == 4, "a server that remembers labels would give the same spoiled answer"


def test_after_a_failure_that_passed_attempts_begin_anew_under_another_label() -> None:
    written: list[Any] = []
    transport = Scripted([(401, "no"), message("fine")])
    with pytest.raises(EndpointError):
        Ledger("n", written.append).call(client(transport), "note", body(0))
    ledger = Ledger("n", written.append, list(written))
    assert text_of(ledger.call(client(transport), "note", body(0))) == "fine"
    assert ledger.notes == [], "nothing was under way"
    assert len(set(transport.labels)) == 2


@pytest.mark.parametrize("other", [("note", body(1)), ("probe", body(0))])
def test_an_answer_to_another_request_is_not_taken(other: tuple[str, dict[str, object]]) -> None:
    written: list[Any] = []
    Ledger("n", written.append).call(client(Scripted()), "note", body(0))
    with pytest.raises(InputError, match="call 1 of this run is not the one that its journal holds"):
        Ledger("n", written.append, list(written)).call(client(Scripted()), *other)


def test_a_closed_ledger_asks_nobody() -> None:
    ledger = Ledger("n", lambda entry: None)
    ledger.is_closed = True
    transport = Scripted()
    with pytest.raises(InputError):
        ledger.call(client(transport), "note", body(0))
    assert transport.requests == []


def test_sums_are_by_purpose_and_unknown_where_one_part_is() -> None:
    ledger = Ledger("n", lambda entry: None)
    transport = Scripted([message("a"), message("b", usage=None), message("c")])
    for number, purpose in enumerate(("note", "probe", "note")):
        ledger.call(client(transport), purpose, body(number))
    known, unknown = ledger.spent("note"), ledger.spent()
    assert known.calls == 2 and known.prompt and known.dollars is None
    assert (unknown.calls, unknown.prompt, unknown.completion) == (3, None, None)
