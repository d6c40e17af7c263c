"""Gemini CLI sessions, in both forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import REPEATED
from handoff.trajectory import Observation, Step, Trajectory

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "gemini_cli"


def fixture(name: str) -> Record:
    (record,) = SourceFile(FIXTURES / name)
    assert isinstance(record, Record)
    return record


def read(record: Record) -> Trajectory:
    (run,) = convert(record)
    return run


def session(*messages: dict[str, Any]) -> Record:
    """A session of these messages after a first question."""
    task = {"id": "u", "type": "user", "content": "Go."}
    value = {"sessionId": "s", "projectHash": "p", "messages": [task, *messages]}
    return Record(json.dumps(value).encode())


def lines(*changes: dict[str, Any]) -> Record:
    """The same, one line for each change."""
    rows = [{"sessionId": "s", "projectHash": "p"}, {"id": "u", "type": "user", "content": "Go."}, *changes]
    return Record("\n".join(map(json.dumps, rows)).encode(), form="lines")


def says(id_: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "gemini", "content": text, **more}


def call(id_: str = "c", name: str = "read_file", **more: Any) -> dict[str, Any]:
    return {"id": id_, "name": name, "args": {}, "status": "success", **more}


def answered(**response: Any) -> list[dict[str, Any]]:
    return [{"functionResponse": {"response": response}}]


def shell(output: str) -> Observation:
    command = call(name="run_shell_command", result=answered(output=output))
    return seen(read(session(says("g", toolCalls=[command]))))


def seen(run: Trajectory) -> Observation:
    return run.steps[0].observations[0]


def tools(steps: tuple[Step, ...]) -> list[list[str]]:
    return [[action.tool for action in step.actions] for step in steps]


# -- replies -------------------------------------------------------------------------------------------


def test_calls_that_came_after_a_result_are_later_replies() -> None:
    """The client hangs them onto one message; made and done are in the call ids and the results."""
    run = read(fixture("session.json"))
    assert tools(run.steps)[:3] == [["read_file", "run_shell_command"], ["replace", "replace"], ["run_shell_command"]]
    first, second = run.steps[:2]
    assert (first.text, first.thought) == ("I look around.", "Looking\nThe pager first.\\nThen the tests.")
    assert (second.text, second.thought, second.usage) == ("", "", None)
    assert second.timestamp == "2026-01-16T11:00:20.000Z"


@pytest.mark.parametrize("ids", [("a", "b"), ("x-1768561200200-a", "x-1768561200300-b")])
def test_calls_without_times_or_before_any_result_are_one_reply(ids: tuple[str, str]) -> None:
    calls = [call(id_, timestamp="2026-01-16T11:00:01.000Z") for id_ in ids]
    assert tools(read(session(says("g", toolCalls=calls))).steps) == [["read_file", "read_file"]]


def test_a_notice_of_the_client_does_not_part_a_reply_from_its_calls() -> None:
    step = read(fixture("session.json")).steps[2]
    assert (step.text, len(step.actions)) == ("Now I clean up.", 1)
    assert [m.text for m in step.after if m.role == "harness"][1:] == [
        "An update is available.",
        "System: Please continue.",
    ]


def test_a_reply_with_its_own_text_after_a_notice_is_its_own() -> None:
    notice = {"id": "i", "type": "info", "content": "Hello."}
    run = read(session(says("g1", "One."), notice, says("g2", "Two.", toolCalls=[call()])))
    assert [(step.text, len(step.actions)) for step in run.steps] == [("One.", 0), ("Two.", 1)]


def test_thoughts_count_as_written_tokens() -> None:
    usage = read(fixture("session.json")).steps[0].usage
    assert usage is not None
    assert (usage.prompt, usage.cached, usage.completion) == (900, 300, 65)


def test_T15_a_thought_is_kept_once() -> None:
    content = [{"thought": True, "text": "Whole."}, {"text": "Said."}]
    record = session(says("g", content, thoughts=[{"subject": "Short", "description": "er"}]))  # type: ignore[arg-type]
    step = read(record).steps[0]
    assert (step.thought, step.text) == ("Whole.", "Said.")
    assert record.losses()["$.messages[].thoughts", REPEATED] == 1


def test_T19_another_model_takes_over() -> None:
    run = read(session(says("a", "One.", model="pro"), says("b", "Two.", model="flash"), says("c", "Three.")))
    assert [(step.model, step.boundary) for step in run.steps] == [
        ("pro", "agent_switch"),
        ("flash", None),
        (None, None),
    ]


def test_T22_contents_come_in_every_shape() -> None:
    for content in ("Hi.", ["Hi."], [{"text": "Hi."}], {"text": "Hi."}):
        assert read(session(says("g", content))).steps[0].text == "Hi."  # type: ignore[arg-type]
    assert read(session({"id": "g", "type": "gemini", "content": None})).steps[0].text == ""


def test_T23_what_the_client_says_is_no_task() -> None:
    run = read(fixture("session.json"))
    assert [(m.role, m.text) for m in run.preamble] == [
        ("harness", "/tools"),
        ("user", "The last page is empty. Fix it."),
    ]
    assert run.task == run.preamble[1].text
    path = {"id": "v", "type": "user", "content": "/src/pager.py fails"}
    assert [m.role for m in read(session(path, says("g"))).preamble] == ["user", "user"]


def test_pictures_are_named_not_kept() -> None:
    (message,) = read(fixture("session.json")).steps[3].after
    assert message.text.startswith("And this picture?\n[image: image/png, sha256 ")


# -- results -------------------------------------------------------------------------------------------


def test_T11_errors_and_refusals_are_told_from_success() -> None:
    run = read(fixture("session.json"))
    edited, missed = run.steps[1].observations
    assert (edited.error, missed.error) == (False, True)
    (refused,) = run.steps[2].observations
    assert (refused.missing, refused.text) == ("not_executed", "")
    assert run.steps[2].after[0].text == "[Operation Cancelled] Reason: User did not allow tool call"


def test_a_call_stopped_on_its_way_is_aborted() -> None:
    stopped = call(status="cancelled", result=answered(error="[Operation Cancelled] User cancelled tool execution."))
    assert seen(read(session(says("g", toolCalls=[stopped])))).missing == "aborted"


@pytest.mark.parametrize(
    ("output", "text", "exit_code"),
    [
        ("Output: a\nb", "a\nb", None),
        ("Output: (empty)\nExit Code: 2\nProcess Group PGID: 7", "", 2),
        ("Output: Exit Code: 9\nExit Code: 2", "Exit Code: 9", 2),
        ("Output: a\nError: own words\nExit Code: 1\nProcess Group PGID: 7", "a\nError: own words", 1),
        (
            "Command: x\nDirectory: (root)\nStdout: a\nStderr: b\nError: (none)\nExit Code: 0\nSignal: (none)\n"
            "Background PIDs: (none)\nProcess Group PGID: 7",
            "a\nb",
            0,
        ),
        ("Command: x\nDirectory: d\nOutput: (empty)\nError: no such file\nExit Code: (none)", "no such file", None),
        ("Output: a\nSignal: 9\nProcess Group PGID: 7", "Output: a\nSignal: 9\nProcess Group PGID: 7", None),
        ("Command was cancelled by user.", "Command was cancelled by user.", None),
        ("Exit Code: 1", "Exit Code: 1", None),
    ],
)
def test_T16_labels_around_a_commands_output(output: str, text: str, exit_code: int | None) -> None:
    found = shell(output)
    assert (found.text, found.exit_code, found.error) == (text, exit_code, None)


def test_T16_a_tool_that_ran_is_no_command_that_succeeded() -> None:
    failed = read(fixture("session.json")).steps[0].observations[1]
    assert (failed.text, failed.exit_code, failed.error) == (
        "FAILED test_pager.py::test_last\nError: 1 failed, 1 passed",
        1,
        None,
    )


def test_T21_a_call_that_still_runs_at_the_end_is_cut_off() -> None:
    run = read(fixture("session.json"))
    assert run.steps[-1].observations[0].missing == "none"
    assert run.outcome.ended == "cut_off"


def test_a_result_that_is_no_text_is_kept_as_json() -> None:
    for response, text in (({"output": {"a": 1}}, '{"a": 1}'), ({"answer": 3}, '{"answer": 3}')):
        run = read(session(says("g", toolCalls=[call(result=answered(**response))])))
        assert json.loads(seen(run).text) == json.loads(text)


def test_what_was_only_shown_stands_in_for_a_result() -> None:
    run = read(session(says("g", toolCalls=[call(resultDisplay="shown", status="error")])))
    assert (seen(run).text, seen(run).error, seen(run).missing) == ("shown", True, None)


def test_S3_ids_of_a_session_written_over_many_lines_still_pair() -> None:
    record = fixture("session.json")
    assert record.data.count(b"\n") > 100
    assert all(
        action.call_id == answer.call_id and "\n" not in action.arguments
        for step in read(record).steps
        for action, answer in zip(step.actions, step.observations, strict=True)
    )


# -- changes of the session ----------------------------------------------------------------------------


def test_a_message_written_again_replaces_the_earlier_one() -> None:
    step = read(fixture("lines.jsonl")).steps[0]
    assert (step.text, len(step.actions), step.usage and step.usage.prompt) == ("I list them.", 1, 90)


def test_turns_that_were_taken_back_stay() -> None:
    step = read(fixture("lines.jsonl")).steps[2]
    assert (step.text, step.boundary) == ("Deux pages.", "rollback")


def test_T7_a_replaced_history_is_a_compaction_and_results_stay_whole() -> None:
    run = read(fixture("lines.jsonl"))
    step = run.steps[3]
    assert [m.role for m in step.after] == ["context_summary", "harness", "user"]
    assert step.observations[0].text == "Successfully created and wrote to new file: /src/pages.txt."
    assert step.boundary == "compaction"  # the session was also closed and opened there
    assert len(run.steps) == 5


def test_T6_a_history_that_only_repeats_is_no_compaction() -> None:
    same = {"$set": {"messages": [{"id": "u", "type": "user", "content": "Go."}, says("g", "One.")]}}
    record = lines(says("g", "One."), same, says("h", "Two."))
    assert [(step.text, step.boundary) for step in read(record).steps] == [("One.", None), ("Two.", None)]
    assert record.losses()["$.$set.messages[]", REPEATED] == 2


def test_a_session_that_is_opened_again_has_its_new_name() -> None:
    run = read(lines(says("g", "One."), {"$set": {"sessionId": "t"}}, says("h", "Two.")))
    assert (run.session, run.steps[0].boundary) == ("t", "resume")


@pytest.mark.parametrize(
    ("last", "status", "ended"),
    [
        ({"id": "e", "type": "info", "content": "Request cancelled."}, "Request cancelled.", "aborted"),
        ({"id": "e", "type": "error", "content": "[API Error: overloaded]"}, "[API Error: overloaded]", "error"),
        ({"id": "e", "type": "info", "content": "An update is available."}, None, None),
        (says("e", "Done."), None, None),
    ],
)
def test_how_a_run_ended(last: dict[str, Any], status: str | None, ended: str | None) -> None:
    outcome = read(session(says("g", "One."), last)).outcome
    assert (outcome.exit_status, outcome.ended, outcome.resolved) == (status, ended, None)


def test_T21_a_broken_line_is_told_and_the_rest_is_read() -> None:
    record = fixture("lines.jsonl")
    broken = Record(record.data + b'{"id": "x', form="lines")
    assert read(broken) == read(record)
    assert [problem.record for problem in broken.problems] == [record.data.count(b"\n") + 1]


def test_what_has_no_home_is_told() -> None:
    record = lines(says("g", "One."), {"id": "x", "type": "weather", "content": "blue"}, {"id": "y", "smell": "sweet"})
    assert len(read(record).steps) == 1
    assert {path for path, reason in record.losses() if reason is None} == {
        "$.messages[type=weather]",
        "$.messages[type=None]",
        "$.smell",
    }


def test_a_session_without_a_reply_says_so() -> None:
    with pytest.raises(RecordError) as caught:
        convert(session())
    assert "No reply" in caught.value.problem


def test_every_session_of_the_corpus_is_read(corpus: Path) -> None:
    for path in sorted((corpus / "gemini_cli").rglob("*.json*")):
        (record,) = SourceFile(path)
        assert isinstance(record, Record)
        (run,) = convert(record)
        calls = record.data.count(b'"functionResponse"')
        answers = [seen for step in run.steps for seen in step.observations]
        assert len(answers) == calls
        assert all(seen.missing is None for seen in answers)
