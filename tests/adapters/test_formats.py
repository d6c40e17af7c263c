"""What each format means, fixture by fixture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handoff import adapters
from handoff.adapters import Record
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import REPEATED
from handoff.trajectory import Trajectory, Usage


def convert(record: Record) -> Trajectory:
    """The one run of a record."""
    (run,) = adapters.convert(record)
    return run


FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def read(name: str, position: int = 1) -> Trajectory:
    for item in SourceFile(FIXTURES / name):
        assert isinstance(item, Record)
        if item.position == position:
            return convert(item)
    raise AssertionError(f"{name} has no record {position}")


def row(*messages: dict[str, object], **fields: object) -> Record:
    return Record(json.dumps({"messages": [{"role": "user", "content": "Fix it."}, *messages], **fields}).encode())


def call(id_: str | None, tool: str = "bash", arguments: object = "{}") -> dict[str, object]:
    return {"id": id_, "function": {"name": tool, "arguments": arguments}}


class TestSweAgent:
    def test_old_files_take_their_task_from_the_last_human_message_before_the_first_reply(self) -> None:
        run = read("sweagent/acme__pager-7.traj")
        assert run.task == "ISSUE:\nThe last page is lost."
        assert [m.role for m in run.preamble] == ["system", "harness", "user"]

    def test_old_files_record_the_state_before_the_action(self) -> None:
        """T9: the first recorded state belongs before step 1, the second after it."""
        states = json.loads(read("sweagent/acme__pager-7.traj").source)["states"]
        assert states == [[0, "/acme__pager", None], [1, "/acme__pager", "/acme__pager/pager/core.py"]]

    def test_the_first_word_names_the_tool_where_it_is_one(self) -> None:
        actions = [step.actions[0] for step in read("sweagent/acme__pager-7.traj").steps]
        assert [a.tool for a in actions] == ["open", "edit", "bash", "submit"]
        assert all(a.is_text for a in actions)
        assert actions[1].arguments == "edit 2:2\n    return -(-n // size)\nend_of_edit\n"

    def test_zeros_of_a_replay_are_unknown_cost(self) -> None:
        run = read("sweagent/acme__pager-7.traj")
        assert "model_stats" not in json.loads(run.source)
        assert all(step.cost is None and step.usage is None for step in run.steps)

    def test_exact_arguments_come_from_the_history(self) -> None:
        action = read("sweagent/v1.traj").steps[1].actions[0]
        assert action.call_id == "toolu_2"
        assert not action.is_text
        assert json.loads(action.arguments)["new_str"] == "-(-n // size)"

    def test_observations_come_from_the_trajectory_without_their_wrapper(self) -> None:
        """T8: the history holds them one message later."""
        assert read("sweagent/v1.traj").steps[0].observations[0].text.startswith("     1\tdef pages")

    def test_a_reply_without_a_call_is_a_step_and_the_complaint_is_the_scaffolds(self) -> None:
        step = read("sweagent/v1.traj").steps[2]
        assert step.text == "I think it is done."
        assert step.actions == ()
        assert [m.role for m in step.after] == ["harness"]

    def test_alignment_with_the_history_survives_a_reply_without_a_call(self) -> None:
        assert read("sweagent/v1.traj").steps[3].actions[0].call_id == "toolu_4" or (
            read("sweagent/v1.traj").steps[3].actions[0].tool == "submit"
        )

    def test_facts_of_the_run_come_from_its_configuration(self) -> None:
        run = read("sweagent/v1.traj")
        assert (run.task_id, run.repo, run.model) == ("acme__pager-7", "acme/pager", "some-model")
        assert run.base_commit == "0123456789abcdef0123456789abcdef01234567"
        assert run.steps[0].thought == "The division rounds down."

    def test_submitted_is_not_resolved(self) -> None:
        outcome = read("sweagent/v1.traj").outcome
        assert outcome.exit_status == "submitted"
        assert outcome.resolved is None
        assert outcome.patch is not None

    def test_a_branch_name_is_no_base_commit(self) -> None:
        value = json.loads((FIXTURES / "sweagent/v1.traj").read_text())
        config = json.loads(value["replay_config"])
        config["env"]["repo"]["base_commit"] = "acme__pager.0123abcd.pr_7"
        run = convert(Record(json.dumps({**value, "replay_config": config}).encode()))
        assert run.base_commit is None
        assert json.loads(run.source)["base_ref"] == "acme__pager.0123abcd.pr_7"

    def test_a_demonstration_of_history_alone_is_read(self) -> None:
        run = read("sweagent/history_only.traj")
        assert [step.actions[0].tool for step in run.steps] == ["str_replace_editor"] * 2
        assert run.steps[0].observations[0].text.startswith("     1\t")

    def test_a_lost_history_is_made_up_for_by_the_repeated_conversation(self) -> None:
        value = json.loads((FIXTURES / "sweagent/v1.traj").read_text())
        run = convert(Record(json.dumps({**value, "history": []}).encode()))
        assert run.task == "The last page is lost."
        assert run.steps[0].actions[0].is_text

    def test_a_review_after_the_first_submit_is_the_scaffolds_and_submits_nothing(self) -> None:
        """T23: only the last submit counts."""
        value = json.loads((FIXTURES / "sweagent/v1.traj").read_text())
        review = "Thank you for your work on this issue. Please carefully follow the steps below."
        value["trajectory"][3]["observation"] = review
        step = convert(Record(json.dumps(value).encode())).steps[3]
        assert step.observations[0].missing == "not_executed"
        assert [(m.role, m.text) for m in step.after] == [("harness", review)]

    @pytest.mark.parametrize(
        ("status", "ended"),
        [("submitted", "submitted"), ("submitted (exit_cost)", "cost_limit"), ("exit_context", "context_limit")],
    )
    def test_how_a_run_ended_is_in_one_vocabulary(self, status: str, ended: str) -> None:
        value = json.loads((FIXTURES / "sweagent/v1.traj").read_text())
        value["info"]["exit_status"] = status
        assert convert(Record(json.dumps(value).encode())).outcome.ended == ended

    @pytest.mark.parametrize("bad", [b"\\ud800", b"\xff"])
    def test_what_is_no_text_in_an_unparsed_field_is_replaced(self, bad: bytes) -> None:
        """Contents, states and arguments are kept unparsed; a lone surrogate in one of them does not cost the run."""
        data = (FIXTURES / "sweagent/v1.traj").read_bytes()
        for old in (b"The last page is lost.", b"-(-n // size)"):
            assert old in data
            run = convert(Record(data.replace(old, old[:4] + bad + old[4:])))
            assert len(run.steps) == 4

    def test_the_account_of_losses_is_short(self) -> None:
        """T6: the conversation that every step repeats is no loss; only durations have no home."""
        (record,) = SourceFile(FIXTURES / "sweagent/v1.traj")
        assert isinstance(record, Record)
        convert(record)
        assert [path for path, reason in record.losses() if reason is None] == ["$.trajectory[].execution_time"]
        assert record.losses()["$.trajectory[].query", REPEATED] or record.losses()["$.trajectory[].messages", REPEATED]

    def test_a_run_that_died_before_its_first_step_is_refused_in_plain_words(self) -> None:
        with pytest.raises(RecordError, match="No reply of the model"):
            convert(Record(b'{"trajectory": [], "history": [], "info": {"exit_status": "exit_environment_error"}}'))


class TestMiniSweAgent:
    @pytest.mark.parametrize("name", ["v0", "v1"])
    def test_fenced_commands_pair_with_the_next_user_turn(self, name: str) -> None:
        """T8."""
        run = read(f"mini_swe_agent/{name}.traj.json")
        assert [len(step.actions) for step in run.steps] == [1, 0, 1, 1, 1]
        assert [s.observations[0].exit_code for s in run.steps if s.actions] == [0, 0, 4, None]
        assert run.steps[0].observations[0].text == "def pages(n, size):\n    return n // size\n"

    def test_a_format_error_is_the_scaffolds(self) -> None:
        """T23."""
        step = read("mini_swe_agent/v0.traj.json").steps[1]
        assert [m.role for m in step.after] == ["harness"]

    def test_the_submission_goes_to_the_outcome_not_into_a_step(self) -> None:
        run = read("mini_swe_agent/v0.traj.json")
        assert (run.outcome.patch or "").startswith("diff --git")
        assert run.steps[-1].observations[0].missing == "none"
        assert "diff --git a/" not in "".join(seen.text for step in run.steps for seen in step.observations)

    def test_results_are_joined_by_id_and_raw_output_wins_over_clipped_text(self) -> None:
        """T10."""
        step = read("mini_swe_agent/v2.traj.json").steps[0]
        assert [seen.text for seen in step.observations] == ["x = 1\n" * 80, "pager\ntests\n"]

    @pytest.mark.parametrize("name", ["v1", "v2"])
    def test_reasoning_that_only_the_providers_answer_holds_is_the_thought(self, name: str) -> None:
        """T15: version 1 copies the content alone into the conversation."""
        value = json.loads((FIXTURES / f"mini_swe_agent/{name}.traj.json").read_text())
        reply = next(message for message in value["messages"] if message["role"] == "assistant")
        reply["extra"]["response"]["choices"][0]["message"]["reasoning_content"] = "It rounds down."
        assert convert(Record(json.dumps(value).encode())).steps[0].thought == "It rounds down."

    def test_a_timeout_has_no_exit_code_and_is_an_error(self) -> None:
        """T16: -1 is no exit code."""
        seen = read("mini_swe_agent/v2.traj.json").steps[1].observations[0]
        assert seen.exit_code is None
        assert seen.error is True
        assert seen.text == "timed out after 60 seconds"

    def test_cost_tokens_and_model_are_those_of_the_reply(self) -> None:
        step = read("mini_swe_agent/v2.traj.json").steps[0]
        assert step.usage == Usage(prompt=100, cached=50, completion=9)
        assert (step.cost, step.model, step.timestamp) == (0.0004, "some-model-2", "1775715330.5")

    def test_a_human_who_interrupts_a_native_call_is_not_its_result(self) -> None:
        value = json.loads((FIXTURES / "mini_swe_agent/v2.traj.json").read_text())
        at = next(i for i, turn in enumerate(value["messages"]) if turn.get("tool_call_id") == "c20")
        value["messages"][at] = {"role": "user", "content": "Stop, use tox."}
        step = convert(Record(json.dumps(value).encode())).steps[1]
        assert step.observations[0].missing == "none"
        assert [(m.role, m.text) for m in step.after] == [("user", "Stop, use tox.")]

    def test_the_exit_message_is_the_outcome(self) -> None:
        assert read("mini_swe_agent/v2.traj.json").outcome.exit_status == "Submitted"

    @pytest.mark.parametrize(
        ("calls", "cost", "ended"),
        [(250, 0.5, "step_limit"), (9, 3.01, "cost_limit"), (9, 0.5, None), (250, 3.0, None)],
    )
    def test_which_limit_was_exceeded_is_told_by_the_totals(self, calls: int, cost: float, ended: str | None) -> None:
        """One exit status stands for both limits."""
        value = json.loads((FIXTURES / "mini_swe_agent/v1.traj.json").read_text())
        value["info"]["exit_status"] = "LimitsExceeded"
        value["info"]["config"]["agent"] = {"step_limit": 250, "cost_limit": 3.0}
        value["info"]["model_stats"] = {"instance_cost": cost, "api_calls": calls}
        run = convert(Record(json.dumps(value).encode()))
        assert (run.outcome.ended, run.outcome.exit_status) == (ended, "LimitsExceeded")

    @pytest.mark.parametrize("name", ["v1", "v2"])
    def test_every_field_has_a_home_or_a_reason(self, name: str) -> None:
        """T24: the keys of a model's configuration are known and not read."""
        (record,) = SourceFile(FIXTURES / f"mini_swe_agent/{name}.traj.json")
        assert isinstance(record, Record)
        convert(record)
        assert all(reason is not None for _, reason in record.losses())


class TestChatRows:
    def test_parallel_results_are_joined_by_id(self) -> None:
        step = read("chat/native.jsonl").steps[0]
        assert [a.call_id for a in step.actions] == ["c1", "c2", "c3"]
        assert [s.call_id for s in step.observations] == ["c1", "c2", "c3"]
        assert [s.exit_code for s in step.observations] == [0, None, 1]
        assert [s.error for s in step.observations] == [None, None, False]

    def test_a_result_whose_call_was_lost_is_kept_as_an_orphan(self) -> None:
        """claude-code issue 31328: the writer loses the call c2, its result stays; c1 and c3 keep their own."""
        step = read("chat/native.jsonl", 2).steps[0]
        assert [(s.call_id, s.is_orphan) for s in step.observations] == [("c1", False), ("c3", False), ("c2", True)]
        assert step.observations[0].text.startswith("def pages")
        assert step.observations[1].text == "1 failed"

    def test_a_result_before_any_reply_is_an_orphan_of_the_first_step(self) -> None:
        run = convert(
            row(
                {"role": "tool", "tool_call_id": "z", "content": "early"},
                {"role": "assistant", "tool_calls": [call("a")]},
            )
        )
        assert [(s.call_id, s.is_orphan) for s in run.steps[0].observations] == [("a", False), ("z", True)]

    def test_a_call_without_result_gets_an_empty_observation(self) -> None:
        assert read("chat/native.jsonl").steps[-1].observations[0].missing == "none"

    def test_repeated_call_ids_answer_the_latest_call(self) -> None:
        pair = [{"role": "assistant", "tool_calls": [call("call_0")]}, {"role": "tool", "tool_call_id": "call_0"}]
        run = convert(row({**pair[0]}, {**pair[1], "content": "1"}, {**pair[0]}, {**pair[1], "content": "2"}))
        assert [step.observations[0].text for step in run.steps] == ["1", "2"]

    def test_results_without_ids_answer_in_order_within_their_reply(self) -> None:
        run = convert(
            row(
                {"role": "assistant", "tool_calls": [call(None), call(None)]},
                {"role": "tool", "content": "1"},
                {"role": "tool", "content": "2"},
                {"role": "tool", "content": "3"},
            )
        )
        assert [(s.text, s.is_orphan) for s in run.steps[0].observations] == [("1", False), ("2", False), ("3", True)]

    def test_prompts_to_go_on_are_the_scaffolds(self) -> None:
        assert [m.role for m in read("chat/native.jsonl").steps[1].after] == ["harness"]

    def test_a_source_that_names_a_split_and_a_try_keeps_them(self) -> None:
        run = read("chat/native.jsonl")
        assert (run.split, run.task_id) == ("test", "acme__pager-7")
        assert json.loads(run.source)["instance_id"] == "acme__pager-7_2"

    def test_xml_values_lose_one_newline_at_each_end_and_keep_markup(self) -> None:
        run = read("chat/xml.jsonl")
        assert json.loads(run.steps[0].actions[0].arguments)["command"] == "cat pager/core.py | grep '<b>' && true"
        assert json.loads(run.steps[1].actions[0].arguments)["old_str"] == "    return n // size"
        assert run.steps[0].text == "Look."
        assert run.steps[0].observations[0].text == "def pages(n, size):"

    def test_a_missing_end_tag_ends_with_the_text(self) -> None:
        step = read("chat/xml.jsonl").steps[2]
        assert step.actions[0].tool == "submit"
        assert step.observations[0].missing == "none"

    def test_a_patch_of_another_task_is_dropped(self) -> None:
        assert read("chat/xml.jsonl", 2).outcome.patch is None
        assert read("chat/native.jsonl").outcome.patch is not None

    def test_the_last_shell_block_is_the_command(self) -> None:
        step = read("chat/fenced.json").steps[0]
        assert (step.actions[0].tool, step.actions[0].arguments, step.actions[0].is_text) == ("bash", "ls -la", True)
        assert "print(1)" in step.text

    def test_a_block_of_another_language_is_no_command(self) -> None:
        with pytest.raises(RecordError, match="No reply holds an action"):
            convert(row({"role": "assistant", "content": "Like\n```python\nprint(1)\n```"}))

    def test_fences_that_never_close_cost_no_time(self) -> None:
        with pytest.raises(RecordError):
            convert(row({"role": "assistant", "content": "```py\n" * 200_000}))

    def test_messages_may_be_text_in_a_column(self) -> None:
        assert read("chat/fenced.json", 2).steps[0].observations[0].text == "pager\ntests"

    def test_tagged_calls_are_read_and_broken_ones_kept_as_text(self) -> None:
        """T14, T15: thinking stands in the thought, once."""
        run = read("chat/tagged.jsonl")
        assert (run.steps[0].thought, run.steps[0].text) == ("Hm.", "Look.")
        assert run.steps[0].observations[0].text == "pager"
        assert (run.steps[1].actions[0].tool, run.steps[1].actions[0].is_text) == ("unparsed", True)

    def test_anthropic_parts_are_read(self) -> None:
        """T15, T22."""
        step = read("chat/parts.jsonl").steps[0]
        assert (step.thought, step.text) == ("Hm.", "Look.")
        assert [(s.call_id, s.text, s.error) for s in step.observations] == [("t1", "pager", None), ("t2", "", True)]

    @pytest.mark.parametrize(
        ("arguments", "expected", "is_text"),
        [
            ({"a": 1}, '{"a": 1}', False),
            ('{"a": 1}', '{"a": 1}', False),
            ('{"a": ', '{"a": ', True),
            (None, "{}", False),
            ("", "{}", False),
            (["bash", "ls"], '["bash", "ls"]', True),
            ("*** Begin Patch", "*** Begin Patch", True),
        ],
    )
    def test_arguments_of_any_shape_are_kept(self, arguments: object, expected: str, is_text: bool) -> None:
        action = convert(row({"role": "assistant", "tool_calls": [call("a", "t", arguments)]})).steps[0].actions[0]
        assert (action.arguments, action.is_text) == (expected, is_text)

    def test_calls_that_the_scaffold_refused_did_not_run(self) -> None:
        text = "Do it.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
        run = convert(
            row(
                {"role": "assistant", "content": text},
                {"role": "user", "content": "Your last output included multiple tool calls!"},
            )
        )
        assert run.steps[0].observations[0].missing == "not_executed"
        assert run.steps[0].after[0].role == "harness"

    def test_a_conversation_without_actions_is_refused_with_a_remedy(self) -> None:
        with pytest.raises(RecordError, match="No reply holds an action"):
            convert(row({"role": "assistant", "content": "Hello."}))

    def test_an_unknown_role_is_refused_with_its_place(self) -> None:
        with pytest.raises(RecordError) as caught:
            convert(row({"role": "assistant", "tool_calls": [call("a")]}, {"role": "wizard", "content": "x"}))
        assert caught.value.field == "$.messages[2].role"

    def test_huge_numbers_are_unknown_rather_than_wrong(self) -> None:
        record = Record(
            b'{"messages": [{"role": "user", "content": "Fix"},'
            b' {"role": "assistant", "cost": 1e999, "usage": {"prompt_tokens": '
            + b"9"
            * 400
            + b'}, "tool_calls": [{"id": "a", "function": {"name": "t", "arguments": "{}"}}]},'
            b' {"role": "tool", "tool_call_id": "a", "content": "x", "exit_code": 99999999999}]}'
        )
        step = convert(record).steps[0]
        assert (step.cost, step.usage, step.observations[0].exit_code) == (None, None, None)

    def test_lone_surrogates_control_characters_and_bad_bytes_are_replaced_and_counted(self) -> None:
        record = Record(
            b'{"messages": [{"role": "user", "content": "Fix \\ud800 \xff"},'
            b' {"role": "assistant", "content": "a\x00b", "tool_calls":'
            b' [{"id": "a", "function": {"name": "t", "arguments": "{}"}}]}]}'
        )
        run = convert(record)
        assert run.task == "Fix \ufffd \ufffd"
        assert run.steps[0].text == "a\x00b"
        assert json.loads(run.source)["repairs"] == 2

    def test_escaped_nul_and_terminal_codes_are_kept(self) -> None:
        run = convert(
            row({"role": "assistant", "tool_calls": [call("a")]}, {"role": "tool", "content": "\x1b[31m<b>\x00\r"})
        )
        assert run.steps[0].observations[0].text == "\x1b[31m<b>\x00\r"
