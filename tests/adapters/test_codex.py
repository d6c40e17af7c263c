"""Codex CLI rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.adapters import Record, convert
from handoff.adapters.claude_files import blob_id
from handoff.adapters.codex_calls import answer_in, why_unanswered
from handoff.adapters.codex_lines import ENCRYPTED
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import REPEATED
from handoff.trajectory import Observation, Trajectory

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "codex"
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]}


def fixture(name: str) -> Record:
    (record,) = SourceFile(FIXTURES / name)
    assert isinstance(record, Record)
    return record


def read(record: Record) -> Trajectory:
    (run,) = convert(record)
    return run


def rollout(*payloads: dict[str, Any], meta: dict[str, Any] | None = None) -> Record:
    """A session of these items; a payload under ``event``, ``turn_context`` or ``compacted`` is a line of that type."""
    rows = [{"type": "session_meta", "payload": {"id": "s1", **(meta or {})}}]
    for payload in payloads:
        kind = next(
            (kind for kind in ("event_msg", "turn_context", "compacted", "session_meta") if kind in payload), None
        )
        rows.append({"type": kind or "response_item", "payload": payload[kind] if kind else payload})
    lines = [json.dumps({"timestamp": "2026-03-02T09:00:00.000Z", **row}) for row in rows]
    return Record("\n".join(lines).encode(), form="lines")


def says(text: str, role: str = "assistant", **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_msg": {"type": kind, **fields}}


def call(call_id: str, tool: str = "exec_command", arguments: Any = "{}") -> dict[str, Any]:
    return {"type": "function_call", "name": tool, "arguments": arguments, "call_id": call_id}


def output(call_id: str, text: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def counted(total: int, last: int) -> dict[str, Any]:
    return event(
        "token_count",
        info={
            "total_token_usage": {"total_tokens": total},
            "last_token_usage": {"input_tokens": last, "output_tokens": 1},
        },
    )


def seen(run: Trajectory, call_id: str) -> Observation:
    (found,) = [seen for step in run.steps for seen in step.observations if seen.call_id == call_id]
    return found


RUNNING = "Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 7\nOriginal token count: 0\nOutput:\n"
OVER = "Chunk ID: b\nWall time: 0.1 seconds\nProcess exited with code 3\nOriginal token count: 1\nOutput:\n"


# -- what a step is ------------------------------------------------------------------------------------


def test_a_reply_ends_at_its_results_or_its_count_of_tokens() -> None:
    run = read(fixture("rollout.jsonl"))
    assert [len(step.actions) for step in run.steps] == [2, 1, 1, 2, 1, 0, 0, 2, 1]
    assert run.steps[0].text == "I look at the code and run the tests."
    assert run.steps[0].thought == "**Looking at the pager**"
    assert run.steps[0].timestamp == "2026-03-02T09:00:10.000Z"


def test_a_count_that_is_told_again_counts_once() -> None:
    usages = [step.usage for step in read(fixture("rollout.jsonl")).steps]
    assert [usage and (usage.prompt, usage.cached, usage.completion) for usage in usages[:3]] == [
        (900, 0, 60),
        (980, 900, 12),
        (1010, 980, 12),
    ]


def test_two_replies_in_a_row_are_told_apart_by_their_counts() -> None:
    run = read(rollout(USER, says("One."), counted(10, 10), says("Two."), counted(22, 12)))
    assert [(step.text, step.usage and step.usage.prompt) for step in run.steps] == [("One.", 10), ("Two.", 12)]


def test_a_count_before_its_reply_belongs_to_it() -> None:
    """Older clients count when the reply is over, and write its items down after that."""
    calls = (counted(10, 10), call("a"), output("a", "x"), counted(22, 12), call("b"), output("b", "y"))
    assert [step.usage and step.usage.prompt for step in read(rollout(USER, *calls)).steps] == [10, 12]


def test_tokens_of_the_summary_belong_to_no_reply() -> None:
    record = rollout(
        *(USER, says("One."), counted(10, 10), counted(30, 20), {"compacted": {"message": "Sum."}}),
        *(USER, says("Two."), counted(34, 4)),
    )
    assert [step.usage and step.usage.prompt for step in read(record).steps] == [10, 4]
    assert ("$.payload[type=token_count].info (of no reply)", None) in record.losses()


def test_raw_reasoning_comes_before_its_summary() -> None:
    reasoning = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Short."}],
        "content": [{"type": "reasoning_text", "text": "Long."}],
    }
    record = rollout(USER, reasoning, says("Done."))
    assert read(record).steps[0].thought == "Long."
    assert record.losses()["$.payload[type=reasoning].summary", REPEATED] == 1


# -- who speaks ----------------------------------------------------------------------------------------


def test_T23_what_the_client_says_in_the_users_name_is_no_task() -> None:
    run = read(fixture("rollout.jsonl"))
    assert [message.role for message in run.preamble] == ["system", "system", "harness", "harness", "user"]
    assert run.task == "The last page is empty. Fix it."
    assert [m.role for m in run.steps[5].after] == ["context_summary", "user", "harness"]


def test_T23_the_clients_copy_tells_which_item_a_human_wrote() -> None:
    """Even where the context has no tags, as in a session whose texts were taken out."""
    redacted = (says("[len=3017]", "user"), says("[len=86]", "user"), event("user_message", message="[other len=86]"))
    run = read(rollout(*redacted, says("[len=900]", "user"), says("Done.")))
    assert [(m.role, m.text) for m in run.preamble] == [
        ("harness", "[len=3017]"),
        ("user", "[len=86]"),
        ("harness", "[len=900]"),
    ]


@pytest.mark.parametrize("item", [(), (says("Fix it.", "user"),)])
def test_a_copy_before_its_item_or_without_one_is_one_message(item: tuple[dict[str, Any], ...]) -> None:
    run = read(rollout(event("user_message", message="Fix it."), *item, says("Done.")))
    assert [(m.role, m.text) for m in run.preamble] == [("user", "Fix it.")]


def test_instructions_of_the_header_are_shown_once() -> None:
    bare = fixture("bare.jsonl")
    assert [(m.role, m.text) for m in read(bare).preamble] == [
        ("system", "Write tests first."),
        ("user", "Count the pages."),
    ]
    context = says("<user_instructions>\nBe brief.\n</user_instructions>", "user")
    record = rollout(context, USER, says("Done."), meta={"instructions": "Be brief."})
    assert [m.role for m in read(record).preamble] == ["harness", "user"]
    assert record.losses()["$[type=session_meta].payload.instructions", REPEATED] == 1


# -- calls and results ---------------------------------------------------------------------------------


def test_T3_a_polled_command_has_its_whole_output_and_its_exit_code() -> None:
    run = read(fixture("rollout.jsonl"))
    check = seen(run, "call_check")
    assert check.text == "collected 2 items\nFAILED test_pager.py::test_last\n1 failed, 1 passed\n"
    assert check.exit_code == 1
    assert seen(run, "call_poll1").text.endswith("Output:\ncollected 2 items\n")
    assert seen(run, "call_poll1").exit_code is None
    assert seen(run, "call_poll2").exit_code == 1


def test_T3_polls_alone_tell_the_output() -> None:
    polls = (call("p", "write_stdin", '{"session_id": 7, "chars": ""}'), output("p", OVER + "late\n"))
    run = read(rollout(USER, call("c"), output("c", RUNNING + "early\n"), *polls))
    assert (seen(run, "c").text, seen(run, "c").exit_code) == ("early\nlate\n", 3)


def test_T3_a_command_that_never_ends_keeps_what_was_read() -> None:
    failed = (call("p", "write_stdin", '{"session_id": 7}'), output("p", "write_stdin failed: stdin is closed"))
    run = read(rollout(USER, call("c"), output("c", RUNNING), *failed))
    assert (seen(run, "c").text, seen(run, "c").exit_code) == (RUNNING, None)
    assert seen(run, "p").text == "write_stdin failed: stdin is closed"


def test_T3_a_script_that_is_waited_for_has_its_output() -> None:
    run = read(fixture("fork.jsonl"))
    assert seen(run, "call_js").text == "src/pager.py:1\n"
    assert seen(run, "call_wait").text == "src/pager.py:1\n"


@pytest.mark.parametrize("length", [3, 30])
def test_T10_the_longer_of_two_recordings_of_one_output_is_kept(length: int) -> None:
    end = event("exec_command_end", call_id="c", aggregated_output="x" * length, exit_code=0)
    run = read(rollout(USER, call("c"), end, output("c", OVER.replace("3", "0") + "y" * 10)))
    assert (seen(run, "c").text, seen(run, "c").exit_code) == ("x" * 30 if length == 30 else "y" * 10, 0)


def test_T11_a_rejected_call_did_not_run_and_its_notice_is_the_harnesss() -> None:
    run = read(fixture("rollout.jsonl"))
    assert seen(run, "call_rm").missing == "not_executed"
    assert [(m.role, m.text) for m in run.steps[4].after] == [("harness", "exec command rejected by user")]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("patch rejected by user", "not_executed"),
        ('exec_command failed for `ls`: CreateProcess { message: "Rejected(\\"no\\")" }', "not_executed"),
        ("aborted by user after 12.3s", "aborted"),
        ("Wall time: 5.0 seconds\naborted by user", "aborted"),
        ("The job was aborted by the server.", None),
        ("Plan updated", None),
    ],
)
def test_T11_notes_of_the_client_are_told_from_results(text: str, missing: str | None) -> None:
    assert why_unanswered(text) == missing


@pytest.mark.parametrize(("success", "error"), [(True, False), (False, True), (None, None), ("yes", None)])
def test_T11_a_patch_counts_as_the_client_says(success: Any, error: bool | None) -> None:
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "p"}
    end = event("patch_apply_end", call_id="p", success=success)
    run = read(rollout(USER, patch, end, {**output("p", "…"), "type": "custom_tool_call_output"}))
    assert seen(run, "p").error is error
    assert run.steps[0].actions[0].is_text


def test_what_a_patch_left_of_its_files_is_noted_by_call() -> None:
    def ended(call_id: str, text: str, **more: Any) -> dict[str, Any]:
        return event("patch_apply_end", call_id=call_id, changes={"/r/x": {"type": "add", "content": text}}, **more)

    def patch(call_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        made = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": call_id}
        return made, {**output(call_id, "…"), "type": "custom_tool_call_output"}

    done = [
        *(*patch("kept"), ended("kept", "a\n", success=True), ended("kept", "a\n", success=True)),
        *(*patch("failed"), ended("failed", "a\n", success=False)),
        *(*patch("declined"), ended("declined", "a\n", status="declined")),
        *(*patch("twice"), ended("twice", "a\n", success=True), ended("twice", "b\n", success=True)),
        ended("of nobody", "a\n", success=True),
    ]
    facts = json.loads(read(rollout(USER, *done)).source)
    assert facts["changes"] == {"kept": {"/r/x": {"after": blob_id("a\n")}}}


@pytest.mark.parametrize(
    ("text", "exit_code", "rest"),
    [
        ('{"output": "a\\n", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}', 1, "a\n"),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nb", 0, "b"),
        ("Exit code: 99999999999999\nOutput:\nb", None, "b"),
        ("Exit code: -1\nOutput:\n", None, ""),
        ("Command: sh -c ls\nChunk ID: 7f\nProcess exited with code 0\nOutput:\na\n", 0, "a\n"),
        ("Command: sh -c ls\nOutput:\na\n", None, "Command: sh -c ls\nOutput:\na\n"),
        ("Output:\nthe tool's own", None, "Output:\nthe tool's own"),
        ("Exit code: 1\nand more", None, "Exit code: 1\nand more"),
        ('{"metadata": 3}', None, '{"metadata": 3}'),
        ("", None, ""),
    ],
)
def test_T16_exit_codes_stand_in_several_frames(text: str, exit_code: int | None, rest: str) -> None:
    answer = answer_in(text)
    assert (answer.exit_code, answer.text) == (exit_code, rest)


def test_an_mcp_tool_says_itself_that_it_failed() -> None:
    assert seen(read(fixture("rollout.jsonl")), "call_mcp").error is True


def test_pictures_are_named_not_kept() -> None:
    assert seen(read(fixture("rollout.jsonl")), "call_img").text.startswith("shot.png\n[image: image/png, sha256 ")


def test_T21_S1_a_result_without_its_call_is_an_orphan() -> None:
    run = read(fixture("rollout.jsonl"))
    assert seen(run, "call_lost").is_orphan
    assert not seen(run, "call_img").is_orphan


def test_T21_a_broken_line_is_told_and_the_rest_is_read() -> None:
    record = fixture("rollout.jsonl")
    whole = read(record)
    broken = Record(record.data + b'{"timestamp": "2026-03-02T09:0', form="lines", file="a.jsonl")
    assert read(broken) == whole
    (problem,) = broken.problems
    assert problem.record == record.data.count(b"\n") + 1


def test_T21_a_run_that_stops_inside_a_call_is_cut_off() -> None:
    run = read(rollout(USER, call("c")))
    assert seen(run, "c").missing == "none"
    assert run.outcome.ended == "cut_off"


@pytest.mark.parametrize(
    ("arguments", "text", "is_text"),
    [
        ('{"cmd": "ls"}', '{"cmd": "ls"}', False),
        ('{"cmd": "ls', '{"cmd": "ls', True),
        ({"cmd": "ls"}, '{"cmd": "ls"}', False),
        (["ls"], '["ls"]', True),
        (None, "{}", False),
    ],
)
def test_T22_arguments_come_in_every_shape(arguments: Any, text: str, is_text: bool) -> None:
    (action,) = read(rollout(USER, call("c", "shell", arguments))).steps[0].actions
    assert (action.arguments, action.is_text) == (text, is_text)


@pytest.mark.parametrize(
    "shape",
    [
        "a",
        [{"type": "input_text", "text": "a"}],
        {"type": "input_text", "text": "a"},
        {"content": "a", "success": True},
        {"content": [{"type": "input_text", "text": "a"}]},
    ],
)
def test_T22_outputs_come_in_every_shape(shape: Any) -> None:
    assert seen(read(rollout(USER, call("c"), output("c", shape))), "c").text == "a"


def test_T24_the_environment_of_a_command_is_not_read() -> None:
    run = read(fixture("bare.jsonl"))
    assert json.loads(run.steps[0].actions[0].arguments) == {
        "command": ["ls"],
        "workdir": "/src/pager",
        "timeout_ms": 1000,
    }


# -- the session ---------------------------------------------------------------------------------------


def test_T7_a_compaction_is_a_boundary_and_its_summary_is_no_task() -> None:
    run = read(fixture("rollout.jsonl"))
    assert run.steps[5].boundary == "compaction"
    assert run.steps[5].after[0].text == "Summary: last() now rounds up; the tests were not run again."


def test_T7_a_summary_may_stand_in_the_new_history_alone() -> None:
    summary = "Another language model started to solve this problem and produced a summary: half done."
    history = [says("Go.", "user"), says(summary, "user")]
    run = read(
        rollout(USER, says("One."), {"compacted": {"message": "", "replacement_history": history}}, USER, says("Two."))
    )
    assert [(m.role, m.text) for m in run.steps[0].after] == [("context_summary", summary), ("user", "Go.")]


def test_T7_a_summary_that_only_the_provider_can_read_is_told() -> None:
    history = [{"type": "compaction", "encrypted_content": "gAAAA"}]
    record = rollout(USER, says("One."), {"compacted": {"message": "", "replacement_history": history}}, says("Two."))
    assert (read(record).steps[0].boundary, read(record).steps[0].after) == ("compaction", ())
    assert ("$[type=compacted].payload.replacement_history[].encrypted_content", ENCRYPTED) in record.losses()


def test_turns_that_were_taken_back_stay() -> None:
    run = read(fixture("rollout.jsonl"))
    assert (run.steps[6].boundary, run.steps[6].text) == ("rollback", "Shall it be in French?")
    assert json.loads(run.source)["rolled_back"] == "7:1"


def test_T19_another_model_takes_over() -> None:
    run = read(
        rollout(
            *(
                {"turn_context": {"model": "a"}},
                USER,
                says("One."),
                {"turn_context": {"model": "a"}},
                USER,
                says("Two."),
            ),
            *({"turn_context": {"model": "b"}}, USER, says("Three.")),
        )
    )
    assert [(step.model, step.boundary) for step in run.steps] == [("a", None), ("a", "agent_switch"), ("b", None)]


def test_T6_a_fork_marks_what_it_copied() -> None:
    """Copied lines carry new times; the ids of their turns do not."""
    run = read(fixture("fork.jsonl"))
    assert run.continues == "019cadf0-5000-7000-8000-000000000001"
    assert (run.copied_steps, run.steps[0].boundary) == (1, "resume")


def test_T6_a_fork_without_turn_ids_is_cut_by_its_times() -> None:
    rows = [
        {"timestamp": "2026-08-01T10:06:00Z", "type": "session_meta", "payload": {"id": "b", "forked_from_id": "a"}},
        {"timestamp": "2026-08-01T10:05:00Z", "type": "session_meta", "payload": {"id": "a"}},
        {"timestamp": "2026-08-01T10:05:01Z", "type": "turn_context", "payload": {"model": "m"}},
        {"timestamp": "2026-08-01T10:05:02Z", "type": "response_item", "payload": USER},
        {"timestamp": "2026-08-01T10:05:03Z", "type": "response_item", "payload": says("One.")},
        {"timestamp": "2026-08-01T10:06:01Z", "type": "turn_context", "payload": {"model": "m"}},
        {"timestamp": "2026-08-01T10:06:02Z", "type": "response_item", "payload": says("Else.", "user")},
        {"timestamp": "2026-08-01T10:06:03Z", "type": "response_item", "payload": says("Two.")},
    ]
    rows[0]["payload"]["timestamp"] = rows[0]["timestamp"]  # type: ignore[index]
    run = read(Record("\n".join(map(json.dumps, rows)).encode(), form="lines"))
    assert (run.session, run.continues, run.copied_steps) == ("b", "a", 1)


def test_T6_a_fork_that_never_went_on_is_all_copy() -> None:
    run = read(rollout({"session_meta": {"id": "old"}}, USER, says("One."), meta={"forked_from_id": "old"}))
    assert (run.continues, run.copied_steps, len(run.steps)) == ("old", 1, 1)


def test_T6_a_fork_without_copied_lines_names_what_it_goes_on_from() -> None:
    run = read(rollout(USER, says("One."), meta={"history_base": {"thread_id": "old", "end_ordinal_exclusive": 7}}))
    assert (run.continues, run.copied_steps) == ("old", 0)


@pytest.mark.parametrize(
    ("source", "told"),
    [("cli", "cli"), ({"custom": "ide"}, "ide"), ({"internal": "x"}, "x"), ({"subagent": "review"}, "review")],
)
def test_where_a_session_was_started_is_a_fact(source: Any, told: str) -> None:
    assert json.loads(read(rollout(USER, says("One."), meta={"source": source})).source)["source"] == told


def test_T20_a_subagent_names_its_parent_and_its_own_task() -> None:
    run = read(fixture("fork.jsonl"))
    assert run.parent == "019cadf0-5000-7000-8000-000000000001"
    assert run.task == "Find where pages are counted."
    assert json.loads(run.source)["nickname"] == "zip"


def test_a_session_that_is_opened_again_is_a_boundary() -> None:
    again = {"session_meta": {"id": "s1"}}
    run = read(rollout(USER, says("One."), again, USER, says("Two.")))
    assert [step.boundary for step in run.steps] == ["resume", None]


@pytest.mark.parametrize(
    ("last", "status", "ended"),
    [
        (event("task_complete"), "task_complete", "submitted"),
        (event("turn_aborted", reason="interrupted"), "interrupted", "aborted"),
        (event("turn_aborted", reason="budget_limited"), "budget_limited", "cost_limit"),
        (event("error", message="Boom."), "Boom.", "error"),
        (event("task_complete", error={"codex_error_info": {"other": {}}}), "other", "error"),
        (says("Done.", phase="final_answer"), None, "submitted"),
        (says("Well."), None, None),
        ({"turn_context": {"model": "m"}}, None, None),
    ],
)
def test_how_a_run_ended(last: dict[str, Any], status: str | None, ended: str | None) -> None:
    outcome = read(rollout(USER, says("One."), last)).outcome
    assert (outcome.exit_status, outcome.ended, outcome.resolved) == (status, ended, None)


def test_a_stopped_turn_leaves_its_calls_aborted() -> None:
    assert seen(read(fixture("rollout.jsonl")), "call_docs").missing == "aborted"


def test_a_search_that_the_provider_finished_was_not_aborted() -> None:
    """What it found is not in the file: unknown, though the turn was stopped later."""
    search = {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "x"}}
    stop = event("turn_aborted", reason="interrupted")
    assert seen(read(rollout(USER, {**search, "status": "completed"}, stop)), "w").missing == "none"
    assert seen(read(rollout(USER, {**search, "status": "in_progress"}, stop)), "w").missing == "aborted"


def test_a_result_after_the_stop_counts() -> None:
    run = read(rollout(USER, call("c"), event("turn_aborted", reason="interrupted"), output("c", "done")))
    assert (seen(run, "c").text, seen(run, "c").missing) == ("done", None)


@pytest.mark.parametrize(
    ("url", "repo"),
    [
        ("git@github.com:acme/pager.git", "acme/pager"),
        ("https://token@github.com/acme/pager/", "acme/pager"),
        ("ssh://git@git.example.org:22/team/acme/pager.git", "acme/pager"),
        ("https://example.org/pager", None),
        ("redacted://url/5d14a88c6f", None),
        ("/srv/git/pager.git", None),
        (None, None),
    ],
)
def test_a_repository_is_named_by_its_address(url: str | None, repo: str | None) -> None:
    meta = {"git": {"repository_url": url, "commit_hash": "5d0c1e9", "branch": "main"}}
    run = read(rollout(USER, says("Done."), meta=meta))
    assert (run.repo, run.base_commit) == (repo, "5d0c1e9")


# -- what is left --------------------------------------------------------------------------------------


def test_what_has_no_home_is_told_by_its_type() -> None:
    record = fixture("rollout.jsonl")
    convert(record)
    unread = {path for path, reason in record.losses() if reason is None}
    assert "$.payload[type=weather_changed]" in unread
    assert unread - {"$.payload[type=weather_changed]"} == {
        "$.payload[type=custom_tool_call_output].output (time it took)",
        "$.payload[type=exec_command_end].duration",
        "$.payload[type=mcp_tool_call_end].duration",
        "$.payload[type=function_call_output].output (time it took)",
        "$.payload[type=token_count].info.last_token_usage.reasoning_output_tokens",
    }


def test_a_long_header_is_recognised() -> None:
    record = rollout(USER, says("Done."), meta={"base_instructions": {"text": "Be brief. " * 20_000}})
    assert len(read(record).preamble[0].text) == 200_000


def test_what_codex_exec_prints_lacks_the_task() -> None:
    lines = b'{"type": "thread.started", "thread_id": "t"}\n{"type": "turn.started"}\n'
    with pytest.raises(RecordError) as caught:
        convert(Record(lines, form="lines"))
    assert "rollout" in caught.value.remedy


@pytest.mark.parametrize("payload", [17, None, [], {"type": {}}, {"type": "message", "role": 3}])
def test_a_hostile_payload_is_told_with_its_line(payload: Any) -> None:
    rows = [{"type": "response_item", "payload": item} for item in (USER, payload, says("Done."))]
    record = Record("\n".join(map(json.dumps, rows)).encode(), form="lines")
    assert len(read(record).steps) == 1
    (problem,) = record.problems
    assert (problem.record, problem.field[:9]) == (2, "$.payload")


def test_every_rollout_of_the_corpus_is_read_or_refused_for_a_reason(corpus: Path) -> None:
    refused = {}
    for path in sorted((corpus / "codex").rglob("*.jsonl")):
        (record,) = SourceFile(path)
        assert isinstance(record, Record)
        try:
            (run,) = convert(record)
        except RecordError as error:
            refused[path.name[:21]] = error.problem
            continue
        rows = [json.loads(line) for line in record.data.splitlines()]
        kinds = [row["payload"].get("type", "") for row in rows if row["type"] == "response_item"]
        assert sum(len(step.actions) for step in run.steps) == sum(kind.endswith("_call") for kind in kinds)
        counts = [row["payload"]["info"] for row in rows if row["payload"].get("type") == "token_count"]
        if counts and path.name.startswith("rollout") and path.parent.name == "codex":  # elsewhere totals are made up
            total = [count for count in counts if count][-1]["total_token_usage"]
            usages = [step.usage for step in run.steps if step.usage is not None]
            assert sum(usage.prompt or 0 for usage in usages) == total["input_tokens"]
            assert sum(usage.completion or 0 for usage in usages) == total["output_tokens"]
    assert refused == {
        "rollout-2025-06-01T09": "No reply of the model is in it.",
        "rollout-2026-01-02T19": "No human message comes before the first reply.",
    }
