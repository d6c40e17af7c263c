"""What samples of Inspect logs mean."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.trajectory import Message, Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "inspect"
ASKED = {"role": "user", "content": "Fix it.", "source": "input"}


def record(name: str) -> Record:
    (item,) = SourceFile(FIXTURES / name)
    assert isinstance(item, Record)
    return item


@pytest.fixture(scope="module")
def runs() -> tuple[Trajectory, ...]:
    """The main run and the subagent's of the sample."""
    return tuple(convert(record("sample.json")))


def sample(messages: list[dict[str, Any]], events: list[dict[str, Any]] | None = None, **fields: Any) -> Record:
    whole = {"id": 1, "epoch": 1, "input": "Fix it.", "target": "", "messages": messages, "events": events, **fields}
    return Record(json.dumps(whole).encode())


def reply(text: str, *ids: str) -> dict[str, Any]:
    calls = [{"id": id_, "function": "bash", "arguments": {"cmd": id_}} for id_ in ids]
    return {"role": "assistant", "content": text, "source": "generate", "tool_calls": calls}


def request(context: list[dict[str, Any]], message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "event": "model",
        "model": "m",
        "input": context,
        "output": {"choices": [{"message": message, "stop_reason": "stop"}]},
        **fields,
    }


def told(run: Trajectory) -> list[tuple[str, str]]:
    found: list[Message] = [message for step in run.steps for message in step.after]
    return [(message.role, message.text) for message in found]


def test_the_events_tell_what_the_final_messages_lost(runs: tuple[Trajectory, ...]) -> None:
    """T7: three of four replies were replaced by a summary."""
    main = runs[0]
    assert [step.text for step in main.steps] == [
        "I look at it.",
        "I ask a colleague.",
        "Now the edit, and the push.",
        "All done.",
    ]
    assert main.steps[2].boundary == "compaction"
    assert told(main)[-1] == ("context_summary", "Summary: the pager rounds up now.")


def test_a_message_that_comes_twice_is_taken_twice(runs: tuple[Trajectory, ...]) -> None:
    """T6, T23: a pool keeps equal notices once; they are the solver's, not a human's."""
    assert told(runs[0])[:2] == [("harness", "[usage] Go on.")] * 2


def test_texts_kept_apart_are_put_back(runs: tuple[Trajectory, ...]) -> None:
    main = runs[0]
    assert main.preamble[0].text == "You fix code." * 20
    assert json.loads(main.steps[2].actions[0].arguments)["cmd"].startswith("sed -i")
    assert "sed -i" in json.loads(main.tools or "")[0]["function"]["description"]


def test_exit_codes_come_from_the_sandbox(runs: tuple[Trajectory, ...]) -> None:
    """T16: of the call's own span, and only where it ran one command."""
    assert [seen.exit_code for seen in runs[0].steps[0].observations] == [0, 1]
    assert runs[0].steps[0].usage == Usage(prompt=1108, cached=1000, completion=40)


def test_two_commands_in_one_call_leave_the_code_unknown() -> None:
    events = [
        request([ASKED], reply("", "c1")),
        {"event": "span_begin", "id": "s", "type": "tool", "name": "bash"},
        {"event": "tool", "id": "c1", "function": "bash", "result": "ok"},
        {"event": "sandbox", "action": "exec", "span_id": "s", "result": 0},
        {"event": "sandbox", "action": "exec", "span_id": "s", "result": 0},
    ]
    (run,) = convert(sample([ASKED], events))
    assert (run.steps[0].observations[0].text, run.steps[0].observations[0].exit_code) == ("ok", None)


def test_a_refused_call_did_not_run(runs: tuple[Trajectory, ...]) -> None:
    """T11."""
    assert [seen.missing for seen in runs[0].steps[2].observations] == [None, "not_executed"]
    assert ("harness", "No pushing.") in told(runs[0])


def test_a_subagent_is_a_run_of_its_own(runs: tuple[Trajectory, ...]) -> None:
    """T20."""
    main, child = runs
    assert (child.session, child.parent, child.agent) == ("s3", main.session, "researcher")
    assert child.task == "How to round up?"
    assert child.steps[0].observations[0].exit_code == 0
    assert child.outcome.resolved is None


def test_subtasks_of_older_logs_nest_their_events() -> None:
    inner = request([{"role": "user", "content": "Look."}], reply("Seen."))
    events = [request([ASKED], reply("Wait.")), {"event": "subtask", "name": "look", "events": [inner]}]
    main, child = convert(sample([ASKED], events))
    assert ([step.text for step in main.steps], [step.text for step in child.steps]) == (["Wait."], ["Seen."])
    assert child.parent == main.session == "/1_epoch_1"


def test_another_agent_may_go_on_in_the_same_conversation() -> None:
    """A handoff asks inside a call, and the reply is in the final messages."""
    second = reply("I take over.")
    messages = [ASKED, reply("", "c1"), {"role": "tool", "tool_call_id": "c1", "content": "ok"}, second]
    events = [
        request([ASKED], messages[1]),
        {"event": "span_begin", "id": "s", "type": "tool", "name": "transfer"},
        request(messages[:3], second, span_id="s"),
    ]
    (run,) = convert(sample(messages, events))
    assert [step.text for step in run.steps] == ["", "I take over."]


def test_a_scorers_requests_are_the_evaluation(runs: tuple[Trajectory, ...]) -> None:
    """T2."""
    found = record("sample.json")
    assert not any("GRADE" in step.text for run in convert(found) for step in run.steps)
    assert ("$.events[event=model]", "answers and evaluation: kept out on purpose") in found.losses()


@pytest.mark.parametrize(
    ("scores", "resolved"),
    [
        ({"a": {"value": "C"}}, True),
        ({"a": {"value": "I"}}, False),
        ({"a": {"value": 1}}, True),
        ({"a": {"value": 0.0}}, None),
        ({"a": {"value": 0.7}}, None),
        ({"a": {"value": {"x": 1}}}, None),
        ({"a": {"value": "C"}, "b": {"value": "I"}}, None),
        ({"model_graded_qa": {"value": "C"}}, None),
        (None, None),
        ("nonsense", None),
    ],
)
def test_a_score_is_a_verdict_when_it_says_right_or_wrong(scores: Any, resolved: bool | None) -> None:
    """T22: whatever its type."""
    (run,) = convert(sample([ASKED, reply("Done.")], scores=scores))
    assert run.outcome.resolved is resolved


@pytest.mark.parametrize(
    ("fields", "status", "ended"),
    [
        ({"limit": {"type": "message", "limit": 50}}, "message", "step_limit"),
        ({"limit": {"type": "token", "limit": 5e6}}, "token", "cost_limit"),
        ({"limit": {"type": "working", "limit": 60}}, "working", "time_limit"),
        ({"limit": {"type": "custom", "limit": 1}}, "custom", None),
        ({"error": {"message": "boom"}}, "error", "error"),
        ({}, None, None),
    ],
)
def test_limits_and_errors_end_a_sample(fields: dict[str, Any], status: str | None, ended: str | None) -> None:
    (run,) = convert(sample([ASKED, reply("Done.")], **fields))
    assert (run.outcome.exit_status, run.outcome.ended) == (status, ended)


def test_a_submission_that_only_an_event_tells_is_answered(runs: tuple[Trajectory, ...]) -> None:
    main = runs[0]
    assert main.steps[-1].observations[0].missing is None
    assert main.outcome.ended == "submitted"
    assert (main.outcome.resolved, main.outcome.patch) == (True, "diff --git a/core.py b/core.py\n")
    assert (main.repo, main.base_commit) == ("acme/pager", "0123456789abcdef0123456789abcdef01234567")


def test_a_log_in_one_file_holds_several_samples() -> None:
    found = record("log.json")
    first, last = convert(found)
    assert (first.task_id, last.task_id) == ("ctf/3", "ctf/5")
    assert (first.agent, first.model) == ("basic_agent", "openai/gpt-4o")
    assert [problem.field for problem in found.problems] == ["$.samples[1].messages"]


def test_examples_before_the_task_are_not_the_run() -> None:
    """T23."""
    first = convert(record("log.json"))[0]
    assert first.task == "Find the flag."
    assert [message.role for message in first.preamble] == ["system", "user", "harness", "user"]


def test_messages_alone_make_a_run() -> None:
    """T21, S1: with calls that failed, one that the provider ran, and a result without its call."""
    first = convert(record("log.json"))[0]
    assert [(seen.call_id, seen.error) for seen in first.steps[0].observations] == [("a", None), ("b", True)]
    assert first.steps[0].observations[0].text.startswith("flag.txt\n[image: image/png, sha256 ")
    assert [(seen.call_id, seen.is_orphan) for seen in first.steps[1].observations] == [
        ("w", False),
        ("c", False),
        ("zz", True),
    ]
    assert first.steps[1].observations[1].text == "Command timed out before completing."


def test_the_oldest_form_of_events_is_read() -> None:
    last = convert(record("log.json"))[1]
    assert last.task == "What is the flag? Say only the word."
    assert last.steps[0].usage == Usage(prompt=5, completion=1)
    assert last.outcome.exit_status == "max_tokens"


def test_an_archive_gives_each_sample_its_header(tmp_path: Path) -> None:
    log = json.loads((FIXTURES / "log.json").read_bytes())
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": log["eval"], "plan": log["plan"]}))
        archive.writestr("samples/3_epoch_1.json", json.dumps(log["samples"][0], separators=(",", ":")))
    (item,) = SourceFile(tmp_path / "log.eval")
    assert isinstance(item, Record)
    assert convert(item)[0] == convert(record("log.json"))[0]


def test_references_to_a_missing_text_stay_and_are_counted() -> None:
    asked = {**ASKED, "content": "Fix attachment://" + "0" * 32}
    found = sample([asked, reply("Done.")])
    (run,) = convert(found)
    assert run.task == asked["content"]
    assert found.losses()["$.attachments (missing, or too many)", None] == 1


def test_a_text_that_is_referred_to_without_end_is_not() -> None:
    key = "a" * 32
    asked = {**ASKED, "content": f"attachment://{key} " * 10_000}
    (run,) = convert(sample([asked, reply("Done.")], attachments={key: "x" * 100_000}))
    assert len(run.task) < 8_000_000


def test_references_without_end_are_refused() -> None:
    event = request([], reply("ok"), input_refs=[[0, 1_000]] * 30_000)
    with pytest.raises(RecordError, match="refer"):
        convert(sample([ASKED], [event], message_pool=[ASKED] * 1_000))


def test_the_real_logs_reconcile(corpus: Path) -> None:
    found = {}
    for path in sorted((corpus / "inspect").glob("*.eval")):
        items = [item for item in SourceFile(path) if isinstance(item, Record)]
        converted = [convert(item) for item in items]
        assert all(len(several) == 1 for several in converted)
        found[path.stem] = [(len(run.steps), sum(len(step.actions) for step in run.steps)) for (run,) in converted]
        for item, (run,) in zip(items, converted, strict=True):
            events = json.loads(item.data)["events"]
            assert len(run.steps) == sum(event["event"] == "model" for event in events)
            assert not any(seen.is_orphan or seen.missing for step in run.steps for seen in step.observations)
    assert [steps for steps, _ in found["docent_ctf"]] == [10, 2, 4, 12, 8, 24, 6, 4, 5, 7, 24, 7, 24, 5, 5]
    assert found["metr_small"] == [(13, 13), (12, 12), (12, 12), (13, 13), (14, 14), (12, 12)]
    assert found["log_message_deduplication"] == [(6, 5)]
