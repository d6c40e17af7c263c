"""The shapes in which data sets keep conversations, and calls that are text."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff import adapters
from handoff.adapters import Record
from handoff.adapters.calls import TEXT_SYNTAXES
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import REPEATED, SEALED
from handoff.trajectory import Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "chat"


def record(name: str, position: int = 1) -> Record:
    return [item for item in SourceFile(FIXTURES / f"{name}.jsonl") if isinstance(item, Record)][position - 1]


def read(name: str, position: int = 1) -> Trajectory:
    (run,) = adapters.convert(record(name, position))
    return run


def row(*messages: dict[str, Any], **fields: Any) -> Record:
    return Record(json.dumps({"messages": [{"role": "user", "content": "Fix it."}, *messages], **fields}).encode())


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


LS = reply("<function=bash>\n<parameter=command>ls pager/core.py</parameter>\n</function>")


class TestNebius:
    def test_footers_are_states_and_no_output(self) -> None:
        run = read("nebius")
        assert json.loads(run.source)["states"] == [[0, "/pager", None], [2, "/pager", "/pager/pager/core.py"]]
        assert "bash-$" not in "".join(seen.text for step in run.steps for seen in step.observations)
        assert run.task.endswith("bash-$")

    def test_commands_of_the_agents_own_interface_keep_their_names(self) -> None:
        """T14."""
        run = read("nebius")
        assert [a.tool for step in run.steps for a in step.actions] == ["bash", "open", "edit", "submit"]

    def test_a_reply_without_a_command_has_no_result(self) -> None:
        """T8, T23."""
        step = read("nebius").steps[3]
        assert step.observations == ()
        assert [m.role for m in step.after] == ["harness"]

    def test_target_is_the_verdict_and_logs_stay_outside(self) -> None:
        """T2; a submission after a limit is the limit's."""
        found = record("nebius")
        (run,) = adapters.convert(found)
        assert (run.outcome.resolved, run.outcome.ended) == (True, "context_limit")
        assert found.losses()["$.eval_logs", SEALED] == 1
        assert all(reason is not None for _, reason in found.losses())

    def test_target_of_other_rows_is_no_verdict(self) -> None:
        (run,) = adapters.convert(row(LS, target=True))
        assert run.outcome.resolved is None


class TestShareGpt:
    def test_calls_that_are_turns_of_their_own(self) -> None:
        run = read("sharegpt")
        assert [m.role for m in run.preamble] == ["system", "user"]
        assert (run.steps[0].actions[0].tool, run.steps[0].observations[0].text) == ("bash", "pager")
        assert run.tools is not None

    def test_several_answers_in_one_turn(self) -> None:
        """T22."""
        step = read("sharegpt", 2).steps[0]
        assert [json.loads(a.arguments)["command"] for a in step.actions] == ["ls", "pwd"]
        assert [s.text for s in step.observations] == ["pager", "/app"]

    def test_an_unknown_speaker_is_refused_with_its_place(self) -> None:
        said = [{"from": "human", "value": "Fix."}, {"from": "wizard", "value": "x"}]
        with pytest.raises(RecordError) as caught:
            adapters.convert(Record(json.dumps({"conversations": said}).encode()))
        assert caught.value.field == "$.conversations[1].from"

    def test_calls_rewritten_for_training_are_refused(self) -> None:
        """Such sets rewrite calls and make up how a run ends."""
        said = [
            {"from": "human", "value": "Fix."},
            {"from": "function_call", "value": "<function=finish>\n</function>"},
        ]
        with pytest.raises(RecordError, match="rewritten for training") as caught:
            adapters.convert(Record(json.dumps({"conversations": said}).encode()))
        assert caught.value.field == "$.conversations[1].value"


class TestTerminus:
    def test_a_refused_reply_did_not_run(self) -> None:
        step = read("terminus").steps[0]
        assert (step.thought, step.text) == ("Hm.", "I type this.")
        assert step.observations[0].missing == "not_executed"
        assert [m.role for m in step.after] == ["harness"]

    def test_one_screen_for_several_keystrokes_stands_at_the_last(self) -> None:
        """T14."""
        step = read("terminus").steps[1]
        assert [json.loads(a.arguments)["keystrokes"] for a in step.actions] == ["cd /app\n", "pytest -q\n"]
        assert [(s.missing, s.text) for s in step.observations] == [
            ("none", ""),
            (None, "New Terminal Output:\n1 failed\n"),
        ]

    def test_a_screen_after_a_wait_is_no_human(self) -> None:
        """T23."""
        step = read("terminus").steps[2]
        assert (step.actions, [m.role for m in step.after]) == ((), ["harness"])

    def test_a_reward_is_the_verdict(self) -> None:
        outcome = read("terminus").outcome
        assert (outcome.resolved, outcome.ended) == (True, "submitted")

    def test_the_name_of_an_error_is_the_exit_status(self) -> None:
        value = json.loads((FIXTURES / "terminus.jsonl").read_text().splitlines()[0])
        value["result"] = "AgentTimeoutError"
        (run,) = adapters.convert(Record(json.dumps(value).encode()))
        assert (run.outcome.resolved, run.outcome.exit_status, run.outcome.ended) == (
            None,
            "AgentTimeoutError",
            "time_limit",
        )

    def test_tags_read_like_the_object(self) -> None:
        run = read("terminus", 2)
        assert [json.loads(a.arguments) for a in run.steps[0].actions] == [
            {"keystrokes": "grep -c '<b>' a.html && true\n", "duration": 0.5},
            {"keystrokes": "ls\n"},
        ]
        assert run.steps[0].text == "Analysis: It rounds down.\nPlan: Look."
        assert [a.tool for a in run.steps[1].actions] == ["mark_task_complete"]

    def test_what_takes_the_place_of_a_long_context_is_a_summary(self) -> None:
        """T7."""
        typed = reply('{"analysis": "", "plan": "", "commands": [{"keystrokes": "ls\\n"}]}')
        handed = "Here are the answers the other agent provided.\n\nOne test fails."
        (run,) = adapters.convert(row(typed, user("New Terminal Output:\n"), user(handed), typed))
        assert [(m.role, m.text) for m in run.steps[0].after] == [("context_summary", handed)]


class TestOpenHandsRows:
    def test_rows_of_a_trajectory_column_with_every_key_filled_by_null(self) -> None:
        """T22: null contents, arguments as text, several calls in a reply, verdicts as numbers."""
        empty = {"content": None, "function_call": None, "name": None, "tool_call_id": None, "tool_calls": None}
        calls = [
            {"id": id_, "index": None, "type": "function", "function": {"name": "execute_bash", "arguments": arguments}}
            for id_, arguments in (("a", '{"command": "ls"}'), ("b", '{"command": "pwd"}'))
        ]
        turns = [
            empty | {"role": "user", "content": "Fix it."},
            empty | {"role": "assistant", "tool_calls": calls},
            empty | {"role": "tool", "name": "execute_bash", "tool_call_id": "b", "content": "/app"},
            empty | {"role": "tool", "name": "execute_bash", "tool_call_id": "a", "content": "pager"},
            empty | {"role": "user", "content": "Please continue working on the task on whatever approach."},
            empty | {"role": "assistant", "content": "Done."},
        ]
        facts = {"trajectory_id": "x", "instance_id": "acme__pager-7", "exit_status": "submit", "resolved": 1}
        (run,) = adapters.convert(Record(json.dumps({"trajectory": turns, **facts}).encode()))
        assert [seen.text for seen in run.steps[0].observations] == ["pager", "/app"]
        assert [m.role for m in run.steps[0].after] == ["harness"]
        assert (run.steps[0].text, run.outcome.resolved, run.outcome.ended) == ("", True, "submitted")


class TestCallLog:
    def test_the_reply_is_the_last_step_with_its_cost(self) -> None:
        run = read("call_log")
        step = run.steps[-1]
        assert (step.text, step.model, step.cost, step.timestamp) == (
            "All is well.",
            "some-model",
            0.02,
            "1757003306.5",
        )
        assert step.usage == Usage(prompt=90, cached=40, completion=9)
        assert step.actions[0].tool == ""

    def test_pictures_are_named_by_their_bytes(self) -> None:
        assert read("call_log").task == "See the picture.\n[image: image/png, sha256 63c1dd951ffedf6f]"

    def test_exit_codes_in_a_tools_last_line_are_read(self) -> None:
        """T16; the same words further up are output of the command."""
        assert read("call_log").steps[0].observations[0].exit_code == 0
        tool = {"role": "tool", "content": "[Command finished with exit code 1]\nmore"}
        (run,) = adapters.convert(row(LS | {"tool_calls": [{"id": "a", "function": {"name": "bash"}}]}, tool))
        assert run.steps[0].observations[0].exit_code is None

    def test_where_calls_are_text_the_raw_response_is_the_reply(self) -> None:
        found = record("call_log", 2)
        (run,) = adapters.convert(found)
        assert [step.actions[0].tool for step in run.steps] == ["bash", "finish"]
        assert found.losses()["$.response", REPEATED] == 1
        assert run.outcome.ended == "submitted"


class TestAnswersBesideTheRow:
    DIFF = "diff --git a/pager/core.py b/pager/core.py\n--- a/pager/core.py\n+++ b/pager/core.py\n"

    def test_a_patch_beside_hidden_tests_is_the_tasks_own(self) -> None:
        """T2: in rows of a benchmark ``patch`` is the solution."""
        found = row(LS, patch=self.DIFF, FAIL_TO_PASS=["test_hidden"])
        (run,) = adapters.convert(found)
        assert run.outcome.patch is None
        assert found.losses()["$.patch", SEALED] == 1
        (run,) = adapters.convert(row(LS, patch="gold", model_patch=self.DIFF))
        assert run.outcome.patch == self.DIFF

    def test_a_patch_of_another_task_is_told(self) -> None:
        """T1."""
        found = row(LS, patch=self.DIFF.replace("core", "other"))
        (run,) = adapters.convert(found)
        assert run.outcome.patch is None
        assert found.losses()["$.patch", "the patch of another task"] == 1

    @pytest.mark.parametrize(
        ("value", "resolved"),
        [(True, True), (1, True), (0, False), ("False", False), (2, None), ("yes", None), ([], None)],
    )
    def test_verdicts_of_any_spelling(self, value: object, resolved: bool | None) -> None:
        (run,) = adapters.convert(row(LS, resolved=value))
        assert run.outcome.resolved is resolved

    def test_a_test_result_gives_only_the_runs_own_patch(self) -> None:
        result = {"git_patch": self.DIFF, "report": {"FAIL_TO_PASS": ["test_hidden"]}}
        for value in (result, json.dumps(result)):
            found = row(LS, test_result=value)
            (run,) = adapters.convert(found)
            assert run.outcome.patch == self.DIFF
            assert dict(found.losses()) == {("$.test_result.report", SEALED): 1}


def test_codeact_blocks_are_calls_and_a_missing_end_ends_with_the_text() -> None:
    """T14."""
    run = read("execute")
    assert [(a.tool, a.arguments) for step in run.steps for a in step.actions] == [
        ("python", "len(pages)"),
        ("bash", "ls pager"),
    ]
    assert [step.observations[0].text for step in run.steps] == ["Out[1]: 3", "core.py"]
    assert run.steps[0].text == "Count."


def test_a_review_after_the_first_submit_is_the_scaffolds() -> None:
    """T23."""
    review = "OBSERVATION:\nThank you for your work on this issue. Please carefully follow the steps below."
    submit = reply("<function=submit>\n</function>")
    (run,) = adapters.convert(row(LS, user("OBSERVATION:\npager"), submit, user(review), submit))
    assert [step.observations[0].missing for step in run.steps] == [None, "not_executed", "none"]
    assert [(m.role, m.text[:9]) for m in run.steps[1].after] == [("harness", "Thank you")]
    assert run.outcome.ended == "submitted"


def test_a_recording_that_stops_in_a_call_is_cut_off() -> None:
    """T21."""
    (run,) = adapters.convert(row(LS))
    assert run.outcome.ended == "cut_off"


MARKS = [mark for _, mark, _ in TEXT_SYNTAXES]
PIECES = st.sampled_from(
    [
        *(
            *MARKS,
            "</function>",
            "</tool_call>",
            "</commands>",
            "</keystrokes>",
            "<keystrokes duration='1'>",
            "<response>",
        ),
        *(
            '{"analysis": "", "plan": "", "commands": [{"keystrokes": "ls"}]}',
            "{",
            "}",
            "```bash",
            "```",
            "\n",
            " " * 50,
        ),
        *("<execute_bash>", "</execute_bash>", "<parameter=a>", "</parameter>", string.printable),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_reply_is_read_and_its_calls_are_well_formed(text: str) -> None:
    for _, _, reader in TEXT_SYNTAXES:
        _, actions = reader(text)
        for action in actions:
            assert action.is_text or isinstance(json.loads(action.arguments), dict)


@pytest.mark.parametrize("mark", [*MARKS, "<response><commands><keystrokes>", "<execute_bash>", "{"])
def test_marks_without_end_cost_no_time(mark: str) -> None:
    for _, _, reader in TEXT_SYNTAXES:
        reader(mark * 30_000)
        reader(mark + " " * 500_000 + "x")
