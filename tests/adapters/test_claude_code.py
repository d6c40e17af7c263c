"""Claude Code: session files, side files of subagents, web exports, printed streams."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handoff.adapters import Record, convert, read_one, recognise
from handoff.adapters.claude_files import blob_id, left
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import UPKEEP
from handoff.trajectory import Message, Observation, Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MODEL = "claude-opus-4-5"


def run_of(name: str, part: int = 1, folder: str = "claude_code") -> Trajectory:
    return read_one(FIXTURES / folder / name, 1, part)


def use(id_: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments or {"command": "ls"}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def answer(call: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


class Writing:
    """A session being written, one line after another, as the client chains them."""

    def __init__(self, **place: Any) -> None:
        self.lines: list[Any] = []
        self.place = {"sessionId": "s1", "version": "2.1.0", "cwd": "/src", "isSidechain": False, **place}
        self.last: str | None = None
        self.count = 0

    def put(self, type_: str, **more: Any) -> str:
        self.count += 1
        uuid = f"u{self.count}"
        self.lines.append({"parentUuid": self.last, **self.place, "type": type_, "uuid": uuid, **more})
        self.last = uuid
        return uuid

    def user(self, content: Any, **more: Any) -> str:
        return self.put("user", message={"role": "user", "content": content}, **more)

    def reply(self, id_: str, *blocks: dict[str, Any], model: str = MODEL, usage: Any = None, **more: Any) -> str:
        message = {"id": id_, "role": "assistant", "model": model, "content": list(blocks)}
        return self.put("assistant", message=message | ({"usage": usage} if usage else {}), **more)

    def record(self) -> Record:
        lines = [line if isinstance(line, str) else json.dumps(line) for line in self.lines]
        return Record("\n".join(lines).encode(), file="s.jsonl", form="lines")

    def run(self) -> Trajectory:
        (run,) = convert(self.record())
        return run


def begun() -> Writing:
    session = Writing()
    session.user("Fix the pager.")
    return session


def counted(output: int) -> dict[str, int]:
    return {"input_tokens": 10, "output_tokens": output}


# -- replies and results ------------------------------------------------------------------------------


def test_one_reply_over_several_lines_is_one_step_with_its_last_usage() -> None:
    """T4: growing usage counts once; T5: siblings and a progress line between them are no branches."""
    step = run_of("session.jsonl").steps[0]
    assert step.thought == "Look at the code and the tests."
    assert step.text == "I will look at both files."
    assert [action.call_id for action in step.actions] == ["toolu_01", "toolu_02"]
    assert ["def pages" in seen.text for seen in step.observations] == [True, False]
    assert step.usage == Usage(prompt=10, cached=0, completion=212)


@pytest.mark.parametrize("has_ids", [True, False])
def test_lines_that_a_resume_copied_count_once(has_ids: bool) -> None:
    """S2 and T6: neither the first of the repeated counts (4) nor their sum (220, 424)."""
    session = begun()
    for output in (4, 4, 212):
        session.reply("m7", text(f"part {output}") if output != 4 else text("Look."), usage=counted(output))
    session.lines += session.lines[-3:]
    if not has_ids:
        for line in session.lines[1:]:
            line.pop("uuid", None)
    (step,) = session.run().steps
    assert step.usage == Usage(prompt=10, completion=212)
    assert step.text == "Look.\npart 212"


def test_a_result_whose_call_is_lost_takes_no_other_call() -> None:
    """S1 and T21: pairing is by id, never by position."""
    session = begun()
    for call in ("c1", "c2", "c3"):
        session.reply("m1", use(call))
    del session.lines[2]
    for call in ("c3", "c2", "c1"):
        session.user([answer(call, f"of {call}")])
    session.reply("m2", text("Go on."))
    first = session.run().steps[0]
    assert [seen.text for seen in first.observations] == ["of c1", "of c3", "of c2"]
    assert [seen.is_orphan for seen in first.observations] == [False, False, True]


def test_results_between_the_lines_of_a_reply_stay_with_it() -> None:
    """T5: a tool may answer before the rest of the reply is written."""
    session = begun()
    session.reply("m1", use("c1"))
    session.user([answer("c1", "one")])
    session.reply("m1", use("c2"))
    session.user([answer("c2", "two")])
    (step,) = session.run().steps
    assert [seen.text for seen in step.observations] == ["one", "two"]


def test_results_without_an_id_answer_the_calls_in_order() -> None:
    session = begun()
    session.reply("m1", *({"type": "tool_use", "name": name} for name in ("a", "b")))
    session.user([{"type": "tool_result", "content": said} for said in ("1", "2", "3")])
    (step,) = session.run().steps
    assert [(seen.text, seen.is_orphan) for seen in step.observations] == [("1", False), ("2", False), ("3", True)]


def test_a_reply_that_was_cut_off_is_told() -> None:
    session = begun()
    session.reply("m1", text("Half a"))
    session.lines[-1]["message"]["stop_reason"] = "max_tokens"
    record = session.record()
    convert(record)
    assert record.losses()[("$.message.stop_reason[max_tokens]", None)] == 1


def test_calls_that_were_not_run_are_no_evidence() -> None:
    """T11: a sibling's error and a rejection; what the human said with it is the human's."""
    step = run_of("session.jsonl").steps[2]
    assert [seen.missing for seen in step.observations] == [None, "not_executed", "not_executed"]
    assert Message(role="user", text="No notes, please.") in step.after
    assert any("Sibling tool call errored" in m.text for m in step.after if m.role == "harness")


@pytest.mark.parametrize(
    "said",
    [
        "PreToolUse:Bash hook error: [guard.sh]: not on this branch",
        "Hook PreToolUse:Bash denied this tool",
        "Bash operation blocked by hook:\n- no",
        "Permission to use Bash with command rm has been denied.",
        "Claude requested permissions to use Bash, but you haven't granted it yet.",
        "<tool_use_error>InputValidationError: Bash failed</tool_use_error>",
    ],
)
def test_what_a_hook_or_a_human_kept_from_running_did_not_run(said: str) -> None:
    """T11."""
    session = begun()
    session.reply("m1", use("c1"))
    session.user([answer("c1", said, is_error=True)])
    (step,) = session.run().steps
    assert step.observations == (Observation(call_id="c1", error=True, missing="not_executed"),)
    assert step.after == (Message(role="harness", text=said),)


def test_the_same_words_in_a_result_that_is_no_error_are_output() -> None:
    session = begun()
    session.reply("m1", use("c1"))
    session.user([answer("c1", "PreToolUse:Bash hook error: from a log", is_error=False)])
    (step,) = session.run().steps
    assert step.observations[0].text == "PreToolUse:Bash hook error: from a log"


@pytest.mark.parametrize(
    ("content", "error", "code"),
    [
        ("Exit code 2\nno tests", True, 2),
        ("Exit code 2", None, 2),
        ("Exit code 2 is what it printed", False, None),
        ("3 passed", False, None),
        ("Exit code 99999999999", True, None),
        ("<tool_use_error>File does not exist.</tool_use_error>", True, None),
    ],
)
def test_exit_codes_are_those_of_failures(content: str, error: bool | None, code: int | None) -> None:
    """T16: a success states none; a missing flag is not success."""
    session = begun()
    session.reply("m1", use("c1"))
    session.user([answer("c1", content) | ({} if error is None else {"is_error": error})])
    assert session.run().steps[0].observations == (
        Observation(call_id="c1", text=content, exit_code=code, error=error),
    )


def test_content_that_is_no_text_is_named_by_its_hash() -> None:
    run = run_of("session.jsonl")
    assert run.steps[3].observations[0].text.startswith("[image: image/png, sha256 ")
    assert b"aGk=" not in msgspec.json.encode(run)


def test_calls_that_the_server_ran_have_their_result_in_the_reply() -> None:
    session = begun()
    found = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [{"type": "text", "text": "a page"}]}
    session.reply("m1", {**use("srv1", "web_search", query="pager"), "type": "server_tool_use"}, found, text("So."))
    (step,) = session.run().steps
    assert step.observations == (Observation(call_id="srv1", text="a page"),)


# -- who speaks ------------------------------------------------------------------------------------


def test_text_of_the_client_is_no_human() -> None:
    """T23: caveats, local commands, reminders, interruptions and API errors; the task is the human's first message."""
    run = run_of("session.jsonl")
    assert run.task == "The last page is empty. Please fix the pager."
    assert [message.role for message in run.preamble] == ["harness", "harness", "harness", "user"]
    spoken = [m.text for step in run.steps for m in step.after if m.role == "user"]
    assert spoken == ["No notes, please.", "Also handle size 0.", "Now run the tests again."]


def test_a_slash_command_that_stands_for_a_prompt_is_the_humans() -> None:
    run = run_of("fork.jsonl")
    assert "<command-name>/triage</command-name>" in run.task
    assert [message.role for message in run.preamble] == ["user", "harness"]
    (said,) = [m for m in run.steps[1].after if m.role == "user"]
    assert said.text == "Is it?"  # the editor's part of the same line is not


def test_messages_typed_while_the_agent_works_count_when_delivered() -> None:
    record = next(iter(SourceFile(FIXTURES / "claude_code" / "session.jsonl")))
    assert isinstance(record, Record)
    (run,) = convert(record)
    assert not any("Never mind" in m.text for step in run.steps for m in step.after)
    assert record.losses()[("$[type=queue-operation].content (never delivered)", None)] == 1


def test_a_background_task_that_ended_is_no_human() -> None:
    session = begun()
    session.reply("m1", text("Started."))
    note = "the build is over"
    session.put("attachment", attachment={"type": "queued_command", "prompt": note, "commandMode": "task-notification"})
    session.user(note, origin={"kind": "task-notification"})
    session.user("<task-notification>x</task-notification>")
    assert {message.role for message in session.run().steps[0].after} == {"harness"}


def test_text_that_the_client_attached_is_kept() -> None:
    session = begun()
    session.reply("m1", text("Started."))
    session.put("attachment", attachment={"type": "edited_text_file", "filename": "a.py", "snippet": "1\tx"})
    shown = {"type": "text", "file": {"filePath": "b.py", "content": "y", "numLines": 1}}
    session.put("attachment", attachment={"type": "file", "filename": "b.py", "content": shown})
    blocked = {"blockingError": "run the tests", "command": "check"}
    session.put("attachment", attachment={"type": "hook_blocking_error", "blockingError": blocked, "hookName": "Stop"})
    assert [m.text for m in session.run().steps[0].after] == [
        "a.py was modified outside of this session.\n1\tx",
        "b.py\ny",
        "run the tests",
    ]


# -- boundaries ------------------------------------------------------------------------------------


def boundaries(run: Trajectory) -> dict[int, str]:
    return {number: step.boundary for number, step in enumerate(run.steps, 1) if step.boundary}


def test_a_compaction_keeps_the_summary_that_was_written() -> None:
    """T7: its own role; the boundary stands at the step before it."""
    run = run_of("session.jsonl")
    assert boundaries(run)[3] == "compaction"
    (summary,) = [m.text for m in run.steps[2].after if m.role == "context_summary"]
    assert summary.endswith("one test fails.")


def test_leaving_and_coming_back_is_a_resume() -> None:
    """T19: the client's version changed meanwhile, and so did the model; the fillers are no replies."""
    run = run_of("session.jsonl")
    assert boundaries(run)[5] == "resume"
    assert [step.model for step in run.steps[4:]] == [MODEL, "claude-sonnet-4-5"]
    assert json.loads(run.source)["version"] == ["2.1.20", "2.1.22"]


def test_leaving_for_good_is_no_resume() -> None:
    session = begun()
    session.reply("m1", text("Done."))
    session.user("<command-name>/exit</command-name>")
    session.user("<local-command-stdout>Bye!</local-command-stdout>")
    assert boundaries(session.run()) == {}


def test_another_model_is_an_agent_switch() -> None:
    """T19."""
    session = begun()
    for number, model in enumerate((MODEL, "<synthetic>", MODEL, "claude-sonnet-4-5")):
        session.reply(f"m{number}", text(str(number)), model=model)
    assert boundaries(session.run()) == {2: "agent_switch"}


def test_a_prompt_asked_anew_from_an_earlier_place_takes_turns_back() -> None:
    """T5: only forks of a human's prompts are rewinds; the steps between stay, for their edits may."""
    run = run_of("inline_subagents.jsonl")
    assert boundaries(run) == {3: "rollback"}
    assert len(run.steps) == 4


def test_what_clear_separates_are_two_runs() -> None:
    first, second = run_of("inline_subagents.jsonl"), run_of("inline_subagents.jsonl", 2)
    assert second.task == "Write a changelog entry."
    assert first.session == second.session == "5e551002-bbbb"
    assert len(second.steps) == 1


def test_clear_before_anything_was_said_separates_nothing() -> None:
    session = Writing()
    session.user("<command-name>/clear</command-name>")
    session.user("Fix the pager.")
    session.reply("m1", text("Done."))
    assert [message.role for message in session.run().preamble] == ["harness", "user"]


# -- sessions, copies, subagents ---------------------------------------------------------------------


def test_subagents_inline_are_runs_of_their_own() -> None:
    """T20: by the root of their chain, also where a line between is lost; each names the call that started it."""
    record = next(iter(SourceFile(FIXTURES / "claude_code" / "inline_subagents.jsonl")))
    assert isinstance(record, Record)
    children = convert(record)[2:]
    assert [(child.task, child.parent, json.loads(child.source)["call"]) for child in children] == [
        ("Where are pages counted?", "5e551002-bbbb", "toolu_11"),
        ("Where are pages drawn?", "5e551002-bbbb", "toolu_12"),
    ]
    assert [child.steps[-1].text for child in children] == ["In pager.py.", "In draw.py."]


def test_a_side_file_names_the_session_it_belongs_to() -> None:
    """T20: the parent says which call started which agent."""
    child = run_of("agent-7c1d2e3.jsonl")
    assert (child.session, child.parent) == ("7c1d2e3", "5e551001-aaaa")
    session = begun()
    session.reply("m1", use("c1", "Agent", prompt="Look."))
    session.user([answer("c1", "done")], toolUseResult={"agentId": "7c1d2e3", "content": []})
    assert json.loads(session.run().source)["subagents"] == {"c1": "7c1d2e3"}


def test_a_subagent_that_only_progress_lines_show_is_a_run_of_its_own() -> None:
    """What it did is in the main file alone: the side file may be lost. A message that stands there too counts once."""
    session = begun()
    session.reply("m1", use("c1", "Task", prompt="Mend the tests."))
    told = {"role": "user", "content": [text("Mend the tests.")]}
    worked = {"id": "m2", "role": "assistant", "model": MODEL, "content": [use("c2", "Write", file_path="/src/a")]}
    messages = (
        {"type": "user", "uuid": "p1", "message": told},
        {"type": "assistant", "uuid": "p2", "message": worked},
        {"type": "user", "uuid": "p3", "message": {"role": "user", "content": [answer("c2", "written")]}},
    )
    for message in (*messages, messages[1]):
        data = {"type": "agent_progress", "agentId": "7c1d2e3", "prompt": "Mend the tests.", "message": message}
        session.put("progress", data=data, parentToolUseID="c1", toolUseID="agent_msg_1")
    session.user([answer("c1", "mended")])
    main, child = convert(session.record())
    assert [action.call_id for step in main.steps for action in step.actions] == ["c1"]
    assert (child.parent, child.session, child.task) == ("s1", "7c1d2e3", "Mend the tests.")
    assert json.loads(child.source)["call"] == "c1"
    (step,) = child.steps
    assert ([a.call_id for a in step.actions], [seen.text for seen in step.observations]) == (["c2"], ["written"])


def test_a_files_text_at_a_call_is_named_by_its_blob_id() -> None:
    """Each edit's own, by call: before it, after it (leading tabs as two spaces, as the patch shows them), as read."""
    one, two, three = "one\n", "\ttwo\n\tthree\n", "three\n"
    ids = {text: blob_id(text) for text in (one, two, three, "  two\n  three\n", "  three\n")}
    assert ids[one] == "5626abf0f72e58d7a153368ba57db4c673c0e171"
    hunk = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 1, "lines": ["-  two", "   three"]}
    stale = {**hunk, "oldStart": 2}
    session = begun()
    for call, copy in (
        ("c1", {"type": "create", "filePath": "/src/a", "content": two, "structuredPatch": []}),
        ("c2", {"filePath": "/src/a", "originalFile": two, "structuredPatch": [hunk]}),
        ("c3", {"filePath": "/src/a", "originalFile": two, "structuredPatch": [stale]}),
        ("c4", {"type": "text", "file": {"content": one, "startLine": 1, "numLines": 2, "totalLines": 2}}),
        ("c5", {"type": "text", "file": {"content": one, "startLine": 1, "numLines": 2, "totalLines": 9}}),
        ("c6", {"filePath": "/src/a", "originalFile": one, "structuredPatch": "none"}),
    ):
        session.reply(f"of {call}", use(call, "Edit", file_path="/src/a"))
        session.user([answer(call, "done")], toolUseResult=copy)
    facts = json.loads(session.run().source)
    assert facts["before"] == {"c2": ids[two], "c3": ids[two]}
    assert facts["after"] == {"c1": ids["  two\n  three\n"], "c2": ids["  three\n"]}
    assert facts["read"] == {"c4": ids[one]}


def test_a_patch_without_its_file_tells_what_an_edit_left() -> None:
    """Newer clients keep the patch alone: with the text before, it proves the text after, and no other."""
    before = "one\n\ttwo\nthree\nfour\n"
    after = "one\n\tTWO\nthree\nfour\n\tfive\n"
    hunks = [
        {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": [" one", "-  two", "+  TWO", " three"]},
        {"oldStart": 4, "oldLines": 1, "newStart": 4, "newLines": 2, "lines": [" four", "+  five"]},
    ]
    session = begun()
    session.reply("m1", use("c1", "Edit", file_path="/src/a"))
    session.user([answer("c1", "done")], toolUseResult={"filePath": "/src/a", "structuredPatch": hunks})
    facts = json.loads(session.run().source)
    (noted,) = facts["hunks"].values()
    assert "before" not in facts
    assert left(noted, before, after)
    assert not left(noted, before, before)
    assert not left([], before, before)
    assert not any(left(noted, before, after[:at] + "x" + after[at:]) for at in range(len(after) + 1))
    assert not left(noted, before + "x", after)


def test_what_only_the_copy_of_a_result_says_is_told() -> None:
    """How long it took and what a subagent spent have no place; what it repeats is no loss."""
    session = begun()
    session.reply("m1", use("c1", "Agent", prompt="Look."))
    session.user([answer("c1", "done")], toolUseResult={"content": "done", "totalTokens": 900, "totalDurationMs": 7})
    record = session.record()
    convert(record)
    told = {path for path, reason in record.losses() if reason is None}
    assert told == {"$.toolUseResult.totalTokens", "$.toolUseResult.totalDurationMs"}


def test_a_worker_that_only_wrote_a_summary_is_no_run() -> None:
    """T20."""
    session = Writing(isSidechain=True, agentId="acompact-f46190")
    session.user("Your task is to create a detailed summary of the conversation so far.")
    session.reply("m1", text("<summary>…</summary>"))
    with pytest.raises(RecordError, match="no work on the task"):
        convert(session.record())


def test_lines_copied_from_another_session_are_counted_as_its_steps() -> None:
    """T6: by the mark of a fork, or by the other session's id."""
    run = run_of("fork.jsonl")
    assert (run.continues, run.copied_steps, len(run.steps)) == ("5e551000-0000", 1, 2)
    session = Writing(sessionId="s0")
    session.user("Fix the pager.")
    session.reply("m1", use("c1"))
    session.place["sessionId"] = "s1"
    session.user("Go on.")
    session.reply("m2", text("Done."))
    run = session.run()
    assert (run.session, run.continues, run.copied_steps) == ("s1", "s0", 1)


def test_the_state_before_the_first_edits_is_named_by_blob_ids() -> None:
    """T18: a dirty tree shows in them; ``git hash-object`` gives the same id for the same text."""
    facts = json.loads(run_of("session.jsonl").source)
    assert facts["originals"] == {"/home/sam/src/pager/pager.py": "174e5309674a6acceb10a59a3c1178c5beba4651"}
    assert facts["branch"] == "main"


def test_the_checkpoint_beside_a_session_is_noted_and_its_answers_are_not_read(tmp_path: Path) -> None:
    """T2: the files of the commit that was made of a session are no part of it."""
    lines = (
        (FIXTURES / "claude_code" / "agent-7c1d2e3.jsonl")
        .read_text()
        .replace('"isSidechain":true', '"isSidechain":false')
    )
    (tmp_path / "full.jsonl").write_text(lines)
    metadata = {"checkpoint_id": "c4f3", "session_id": "2026-01-06-5e551001-aaaa", "files_touched": ["secret.py"]}
    (tmp_path / "full.metadata.json").write_text(json.dumps(metadata))
    source = read_one(tmp_path / "full.jsonl", 1).source
    assert json.loads(source)["checkpoint"] == "c4f3"
    assert "secret.py" not in source
    (tmp_path / "full.metadata.json").write_text(json.dumps(metadata | {"session_id": "another"}))
    assert "checkpoint" not in json.loads(read_one(tmp_path / "full.jsonl", 1).source)


# -- ends, damage, account -------------------------------------------------------------------------


def ended(*blocks: dict[str, Any], after: Any = None, **more: Any) -> tuple[str | None, str | None]:
    session = begun()
    session.reply("m1", *blocks)
    if after is not None:
        session.user(after)
    if more:
        session.reply("e1", text(more["error"]), model="<synthetic>", isApiErrorMessage=True)
    outcome = session.run().outcome
    return outcome.ended, outcome.exit_status


def test_how_a_session_ended_is_said_only_when_it_shows() -> None:
    assert ended(text("Done.")) == (None, None)
    assert ended(use("c1")) == ("cut_off", None)
    assert ended(use("c1"), after=[text("[Request interrupted by user]")]) == (
        "aborted",
        "[Request interrupted by user]",
    )
    assert ended(text("x"), error="API Error: 529 overloaded") == ("error", "API Error: 529 overloaded")
    assert ended(text("x"), error="Prompt is too long") == ("context_limit", "Prompt is too long")


def test_a_broken_line_is_noted_and_the_rest_is_read() -> None:
    """T21: half-written, with the line's number."""
    record = next(iter(SourceFile(FIXTURES / "claude_code" / "session.jsonl")))
    assert isinstance(record, Record)
    (run,) = convert(record)
    (problem,) = record.problems
    assert problem.record == 42
    assert problem.remedy
    assert len(run.steps) == 6
    assert record.losses()[("$[type=moon-phase]", None)] == 1


def test_lines_that_ran_together_are_both_read() -> None:
    """T21: two writers at once."""
    session = begun()
    session.reply("m1", text("One."))
    session.reply("m2", text("Two."))
    session.lines[1:] = ["".join(json.dumps(line) for line in session.lines[1:])]
    record = session.record()
    (run,) = convert(record)
    assert [step.text for step in run.steps] == ["One.", "Two."]
    assert not record.problems


def test_a_field_that_nobody_reads_is_counted() -> None:
    session = begun()
    session.reply("m1", text("Done."), mood="cheerful")
    record = session.record()
    convert(record)
    assert record.losses() == Counter({("$.mood", None): 1})


def test_a_session_without_a_reply_or_a_task_is_refused() -> None:
    session = Writing()
    with pytest.raises(RecordError, match="No known format"):
        convert(session.record())
    session.user("Fix the pager.")
    with pytest.raises(RecordError, match="No reply"):
        convert(session.record())
    session.lines.clear()
    session.user("<system-reminder>x</system-reminder>")
    session.reply("m1", text("Done."))
    with pytest.raises(RecordError, match="the task is missing"):
        convert(session.record())


def test_files_that_begin_with_a_long_or_silent_line_are_recognised(tmp_path: Path) -> None:
    session = begun()
    session.reply("m1", text("Done."))
    for ahead in ([], [json.dumps({"type": "summary", "summary": "t", "leafUuid": "l"})] * 8):
        session.lines[0]["message"]["content"] = "Fix it. " * 20_000 if not ahead else "Fix it."
        path = tmp_path / f"{len(ahead)}.jsonl"
        path.write_text("\n".join([*ahead, *map(json.dumps, session.lines)]))
        (record,) = SourceFile(path)
        assert isinstance(record, Record)
        assert recognise(record).format == "claude_code"


# -- web exports and streams -----------------------------------------------------------------------


def test_a_pretty_printed_export_is_one_record_and_its_ids_pair(tmp_path: Path) -> None:
    """S3: framing first; ids are kept as they are."""
    run = run_of("session.json", folder="claude_code_web")
    assert [seen.text for step in run.steps for seen in step.observations] == ["File written.", "Exit code 2\nno tests"]
    assert run.steps[1].observations[0].exit_code == 2
    assert run.steps[1].after == (Message(role="harness", text="Stop hook feedback:\nrun the tests"),)
    path = tmp_path / "one_line.json"
    path.write_text(json.dumps(json.loads((FIXTURES / "claude_code_web" / "session.json").read_text())))
    assert read_one(path, 1).steps[0].observations == run.steps[0].observations


def test_a_stream_tells_how_it_ended_and_what_it_cost() -> None:
    run = run_of("stream.jsonl", folder="claude_code_stream")
    assert (run.outcome.ended, run.outcome.exit_status) == ("submitted", "success")
    assert json.loads(run.source) | {"cwd": 0} == {
        "cost_usd": 0.0421,
        "cwd": 0,
        "subagents": {"toolu_51": "8d2f"},
        "turns": 4,
        "version": "2.1.40",
    }
    assert run.steps[0].usage == Usage(prompt=108, cached=100, completion=40)
    assert boundaries(run) == {1: "compaction"}
    assert [m.role for m in run.steps[0].after] == ["context_summary"]
    limited = run_of("collected.json", folder="claude_code_stream")
    assert (limited.outcome.ended, limited.steps[0].observations[0].missing) == ("step_limit", "none")


def test_a_subagent_in_a_stream_was_told_what_its_call_says() -> None:
    child = run_of("stream.jsonl", 2, folder="claude_code_stream")
    assert (child.task, child.parent) == ("Find callers of pages.", "5e551004-ffff")
    assert json.loads(child.source)["call"] == "toolu_51"


def test_a_stream_without_its_prompt_is_refused_with_a_remedy() -> None:
    lines = (FIXTURES / "claude_code_stream" / "stream.jsonl").read_bytes().splitlines()
    record = Record(b"\n".join(line for line in lines if b"isReplay" not in line), form="lines")
    with pytest.raises(RecordError) as caught:
        convert(record)
    assert "--replay-user-messages" in caught.value.remedy


def test_lines_of_upkeep_are_told_as_such() -> None:
    record = next(iter(SourceFile(FIXTURES / "claude_code_stream" / "stream.jsonl")))
    assert isinstance(record, Record)
    convert(record)
    assert record.losses()[("$[type=system, subtype=hook_started]", UPKEEP)] == 1


# -- real files --------------------------------------------------------------------------------------


def test_real_sessions_agree_with_an_independent_count(corpus: Path) -> None:
    """Every call, result and thought of every file is in a step; tokens are those that another tool counted."""
    checked = 0
    for path in sorted((corpus / "claude_code").rglob("*.jsonl")):
        # One file holds two lines that ran together.
        whole = path.read_text().replace('"}{"type":', '"}\n{"type":')
        lines = [json.loads(line) for line in whole.split("\n") if line]
        blocks = [
            block
            for line in {line.get("uuid", n): line for n, line in enumerate(lines)}.values()
            if line["type"] in ("user", "assistant") and isinstance(line["message"]["content"], list)
            for block in line["message"]["content"]
        ]
        (record,) = SourceFile(path)
        assert isinstance(record, Record)
        if "acompact" in path.name:
            with pytest.raises(RecordError, match="no work on the task"):
                convert(record)
            continue
        runs = convert(record)
        steps = [step for run in runs for step in run.steps]
        found = Counter(block["type"] for block in blocks)
        assert not record.problems
        assert sum(len(step.actions) for step in steps) == found["tool_use"]
        seen = [seen for step in steps for seen in step.observations]
        assert len([one for one in seen if one.missing != "none"]) == found["tool_result"]
        assert not any(one.is_orphan for one in seen)
        thought = sum(len(block["thinking"]) for block in blocks if block["type"] == "thinking")
        assert (
            sum(len(step.thought.replace("\n", "")) for step in steps)
            <= thought
            <= sum(len(step.thought) for step in steps)
        )
        metadata = path.with_suffix("").with_suffix(".metadata.json")
        counts = json.loads(metadata.read_text()).get("token_usage") if metadata.exists() else None
        if counts and counts["api_call_count"]:
            usages = [step.usage or Usage() for step in steps]
            assert sum(usage.completion or 0 for usage in usages) == counts["output_tokens"]
            assert sum(usage.prompt or 0 for usage in usages) == sum(
                counts[name] for name in ("input_tokens", "cache_creation_tokens", "cache_read_tokens")
            )
            checked += 1
    assert checked == 7
