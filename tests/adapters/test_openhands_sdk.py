"""OpenHands agent SDK conversations: what each event means."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import REPEATED, SEALED, UPKEEP
from handoff.trajectory import Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "openhands_sdk"
LINES = (FIXTURES / "conversation.jsonl").read_text().splitlines()
EVENTS: list[dict[str, Any]] = [json.loads(line) for line in LINES if line.endswith("}")]


def record(*events: dict[str, Any]) -> Record:
    return Record("\n".join(json.dumps(event) for event in events).encode(), file="a.jsonl", form="lines")


def read(*events: dict[str, Any]) -> Trajectory:
    (run,) = convert(record(*events))
    return run


def conversation() -> Trajectory:
    return convert(fixture())[0]


def fixture() -> Record:
    return Record("\n".join(LINES).encode(), file="a.jsonl", form="lines")


def said(source: str, text: str) -> dict[str, Any]:
    return {"kind": "MessageEvent", "source": source, "llm_message": {"content": [{"type": "text", "text": text}]}}


def act(name: str, response: str, **fields: Any) -> dict[str, Any]:
    event = {
        "kind": "ActionEvent",
        "id": name,
        "source": "agent",
        "llm_response_id": response,
        "tool_name": "terminal",
        "tool_call_id": f"c-{name}",
        "tool_call": {"id": f"c-{name}", "name": "terminal", "arguments": '{"command": "ls"}'},
        "action": {"command": "ls", "kind": "TerminalAction"},
    }
    return event | fields


def seen(name: str, **observation: Any) -> dict[str, Any]:
    return {"kind": "ObservationEvent", "action_id": name, "tool_call_id": f"c-{name}", "observation": observation}


ASKED = said("user", "Fix it.")


# -- steps ------------------------------------------------------------------------------------------------------


def test_actions_of_one_response_are_one_step_and_results_are_joined_by_id() -> None:
    first = conversation().steps[0]
    assert [(a.call_id, a.tool) for a in first.actions] == [("c1", "terminal"), ("c2", "file_editor")]
    assert [seen.text[:8] for seen in first.observations] == ["pages.py", "     1\td"]


def test_actions_without_a_response_id_stand_alone() -> None:
    assert len(read(ASKED, act("a", ""), act("b", ""), act("c", "r"), act("d", "r")).steps) == 3


def test_a_line_that_was_copied_with_its_id_counts_once() -> None:
    """T6: the second copy changes nothing, and is counted."""
    found = fixture()
    (run,) = convert(found)
    assert len(LINES) - len(set(LINES)) == 1
    assert found.losses()["$", REPEATED] == 1
    assert sum(not seen.is_orphan for step in run.steps for seen in step.observations) == 8


def test_an_id_that_is_used_again_for_something_else_is_no_copy() -> None:
    assert len(read(ASKED, act("a", "r1"), act("a", "r2")).steps) == 2


def test_reasoning_is_found_in_each_of_its_places_and_kept_once() -> None:
    """T15: tags in the text hold the same as ``reasoning_content``."""
    steps = conversation().steps
    assert [step.thought.strip() for step in (*steps[:2], steps[3], steps[6])] == [
        "Two looks at once.",
        "Run them.",
        "It may be stale.",
        "All is done.",
    ]
    assert steps[1].text == "Now the tests."


@pytest.mark.parametrize(
    ("text", "reasoning", "expected"),
    [
        ("<think>Hm.</think>Yes.", None, ("Yes.", "Hm.")),
        ("<think>Hm.</think>Yes.", "Something else.", ("<think>Hm.</think>Yes.", "Something else.")),
        ("<think>Hm.", None, ("<think>Hm.", "")),
    ],
)
def test_tags_are_taken_off_only_where_nothing_is_lost(
    text: str, reasoning: str | None, expected: tuple[str, str]
) -> None:
    thought = [{"type": "text", "text": text}]
    (step,) = read(ASKED, act("a", "r", thought=thought, reasoning_content=reasoning)).steps
    assert (step.text, step.thought) == expected


def test_arguments_are_the_model_s_and_broken_ones_stay_text() -> None:
    """T22"""
    steps = conversation().steps
    assert json.loads(steps[0].actions[0].arguments) == {"command": "ls", "security_risk": "LOW"}
    assert (steps[2].actions[0].is_text, steps[2].actions[0].arguments) == (True, '{"command": "str_replace", "path"')


def test_calls_of_an_agent_that_the_sdk_drives_are_read_in_their_last_state() -> None:
    """Every state of a call is an event; which reply it belongs to is not known, so each call is a step."""
    call = {"kind": "ACPToolCallEvent", "source": "agent", "tool_call_id": "t1", "title": "ls", "tool_kind": "execute"}
    more = {"status": "completed", "raw_input": {"command": "ls"}, "raw_output": "pages.py", "is_error": False}
    other = {**call, "tool_call_id": "t2", "tool_kind": None, "status": "pending", "raw_input": None}
    run = read(ASKED, {**call, "status": "pending"}, other, {**call, **more}, said("agent", "Done."))
    assert [[(a.tool, a.arguments) for a in step.actions] for step in run.steps] == [
        [("execute", '{"command": "ls"}')],
        [("ls", "{}")],
        [],
    ]
    assert [(seen.text, seen.missing) for step in run.steps for seen in step.observations] == [
        ("pages.py", None),
        ("", "none"),
    ]


def test_without_the_model_s_words_the_understood_call_is_kept() -> None:
    (step,) = read(ASKED, act("a", "r", tool_call=None)).steps
    assert step.actions[0].arguments == '{"command":"ls"}'


# -- results ----------------------------------------------------------------------------------------------------


def test_calls_that_were_not_executed_have_no_result_and_the_words_are_kept() -> None:
    """T11: one could not be understood, one was rejected."""
    steps = conversation().steps
    assert [(s.observations[0].missing, s.after[0].role, s.after[0].text) for s in steps[2:4]] == [
        ("not_executed", "harness", "Error validating args: the JSON breaks off."),
        ("not_executed", "harness", "Do not delete anything."),
    ]


def test_an_error_of_an_understood_call_is_its_result() -> None:
    failed = {"kind": "AgentErrorEvent", "tool_call_id": "c-a", "error": "The tool crashed."}
    (step,) = read(ASKED, act("a", "r"), failed).steps
    assert (step.observations[0].text, step.observations[0].error) == ("The tool crashed.", True)


def test_exit_codes_and_error_flags_are_the_source_s() -> None:
    """T16: -1 is a command that still runs; a flag that is not there says nothing."""
    observations = [step.observations[0] for step in conversation().steps if step.actions]
    codes = [(seen.exit_code, seen.error) for seen in observations]
    assert codes == [(0, False), (None, False), (None, None), (None, None), (4, True), (0, False), (None, None)]
    assert observations[1].text == "collecting ...\n[The command has no new output after 30 seconds.]"
    assert read(ASKED, act("a", "r"), seen("a", content="x")).steps[0].observations[0].error is None


@pytest.mark.parametrize(
    ("observation", "text", "error"),
    [
        ({"output": "hello", "error": False}, "hello", False),
        ({"output": "", "error": "No such file."}, "No such file.", True),
        ({"message": "Done."}, "Done.", None),
        ({"content": "Logged."}, "Logged.", None),
        ({"content": None, "is_error": "yes"}, "", None),
    ],
)
def test_results_of_the_first_versions_are_read(observation: dict[str, Any], text: str, error: bool | None) -> None:
    (step,) = read(ASKED, act("a", "r"), seen("a", **observation)).steps
    assert (step.observations[0].text, step.observations[0].error) == (text, error)


def test_a_result_whose_action_is_not_there_is_an_orphan_and_a_last_call_has_none() -> None:
    """T21"""
    steps = conversation().steps
    assert [(seen.call_id, seen.is_orphan) for seen in steps[4].observations] == [("c6", False), ("c99", True)]
    assert steps[-1].observations[0].missing == "none"


def test_a_lost_line_loses_nothing_else() -> None:
    """S1: the call of one of two results is gone; the other keeps its own."""
    run = read(ASKED, act("b", "r"), seen("a", content="of a"), seen("b", content="of b"))
    assert [(seen.call_id, seen.text, seen.is_orphan) for seen in run.steps[0].observations] == [
        ("c-b", "of b", False),
        ("c-a", "of a", True),
    ]


def test_a_half_written_line_is_noted_with_its_number_and_the_rest_is_read() -> None:
    """T21"""
    found = fixture()
    convert(found)
    (problem,) = found.problems
    assert problem.record == next(number for number, line in enumerate(LINES, 1) if not line.endswith("}"))


# -- others -----------------------------------------------------------------------------------------------------


def test_only_a_person_s_words_are_a_user_s() -> None:
    """T23: nudges, and the client's own "incomplete", which has the person's source."""
    heard = [(m.role, m.text.split(".")[0]) for step in conversation().steps for m in step.after]
    assert [text for role, text in heard if role == "user"] == ["Only edit pages"]
    assert ("harness", "You repeat the same failing action") in heard
    assert any(role == "harness" and text.startswith("The task appears incomplete") for role, text in heard)


def test_what_came_with_a_message_is_the_harness_s() -> None:
    run = conversation()
    assert run.task == "The last page is lost.\n[image: https://127.0.0.1/shot.png]"
    assert [m.role for m in run.preamble] == ["system", "system", "user", "harness"]
    assert run.preamble[3].text == "Pages are counted from one."


def test_tools_are_those_of_the_first_prompt_and_say_only_what_is_known() -> None:
    run = conversation()
    assert json.loads(run.tools or "") == [
        {"type": "function", "function": {"name": "terminal", "description": "Run a command."}},
        {
            "type": "function",
            "function": {
                "name": "fetch",
                "description": "Fetch a page.",
                "parameters": {"type": "object", "properties": {"url": {"type": "string"}}},
            },
        },
    ]


def test_a_new_prompt_is_kept_and_its_other_tools_are_counted() -> None:
    prompt = {"system_prompt": {"text": "You are an agent."}, "tools": [{"title": "terminal"}]}
    again = {**prompt, "kind": "SystemPromptUpdateEvent", "tools": [{"title": "terminal"}, {"title": "think"}]}
    found = record({**prompt, "kind": "SystemPromptEvent"}, ASKED, act("a", "r"), again)
    (run,) = convert(found)
    assert [m.role for m in run.steps[0].after] == ["system"]
    assert found.losses()["$.tools", None] == 1


def test_condensation_is_a_boundary_with_the_summary_that_was_written() -> None:
    """T7"""
    step = conversation().steps[1]
    assert step.boundary == "compaction"
    assert [(m.role, m.text) for m in step.after] == [("context_summary", "pages.py rounds down.")]


def test_a_summary_that_is_repeated_as_an_event_is_kept_once() -> None:
    done = {"kind": "Condensation", "summary": "Short."}
    run = read(ASKED, act("a", "r"), done, {"kind": "CondensationSummaryEvent", "summary": "Short."})
    assert [m.text for m in run.steps[0].after] == ["Short."]


def test_going_back_in_the_conversation_is_a_rollback() -> None:
    """Turns left the context; their edits stayed."""
    assert [step.boundary for step in conversation().steps] == [
        *(None, "compaction", None, None, "rollback", None, None, None)
    ]


def test_events_that_do_not_say_where_they_hang_go_straight_on() -> None:
    placed = [act("a", "r1", parent_id="m"), act("b", "r2"), act("c", "r3", parent_id="a")]
    assert [step.boundary for step in read(ASKED, *placed).steps] == [None, None, None]


def failed(code: str) -> dict[str, Any]:
    return {"kind": "ConversationErrorEvent", "code": code, "detail": "No more."}


def status(value: str) -> dict[str, Any]:
    return {"kind": "ConversationStateUpdateEvent", "key": "execution_status", "value": value}


@pytest.mark.parametrize(
    ("event", "words", "ended"),
    [
        (failed("MaxBudgetReached"), "MaxBudgetReached: No more.", "cost_limit"),
        (failed("LLMContextWindowExceedError"), "LLMContextWindowExceedError: No more.", "context_limit"),
        ({"kind": "InterruptEvent", "source": "user"}, "interrupted", "aborted"),
        ({"kind": "PauseEvent", "source": "user"}, "paused", "aborted"),
        (status("stuck"), "stuck", "error"),
        (status("running"), None, None),
    ],
)
def test_how_it_ended(event: dict[str, Any], words: str | None, ended: str | None) -> None:
    outcome = read(ASKED, act("a", "r"), seen("a"), event).outcome
    assert (outcome.exit_status, outcome.ended, outcome.resolved) == (words, ended, None)


def test_a_pause_that_was_gone_on_from_is_no_end() -> None:
    assert read(ASKED, act("a", "r"), {"kind": "PauseEvent"}, said("agent", "Done.")).outcome.exit_status is None


def test_a_limit_is_how_the_conversation_ended() -> None:
    outcome = conversation().outcome
    assert outcome.exit_status == "MaxIterationsReached: Agent reached maximum iterations limit (100)."
    assert outcome.ended == "step_limit"


# -- what lies beside, losses -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A conversation as the SDK stores it: one event a file, the state beside their folder."""
    events = tmp_path / "events"
    events.mkdir()
    for number, event in enumerate(EVENTS):
        name = f"event-{number:05d}-{event['id']}.json"
        (events / name).write_text(json.dumps(event, indent=1))
    shutil.copy(FIXTURES / "state" / "base_state.json", tmp_path)
    return events


def test_tokens_prices_and_model_lie_beside_the_events(folder: Path) -> None:
    """T19: the model is each response's own."""
    (item,) = SourceFile(folder)
    assert isinstance(item, Record)
    (run,) = convert(item)
    assert [step.usage for step in run.steps[:3]] == [
        Usage(prompt=100, cached=0, completion=10),
        Usage(prompt=200, cached=90, completion=20),
        None,
    ]
    assert [step.cost for step in run.steps[:3]] == [0.01, 0.02, None]
    assert [step.model for step in run.steps[:3]] == ["acme/coder-3", "acme/coder-4", None]
    assert (run.session, run.model) == ("3f1c0000-0000-4000-8000-000000000001", "acme/coder-3")
    assert json.loads(run.source)["total_cost"] == 0.031
    assert json.loads(run.source)["folders"] == [[0, "/workspace"]]


def test_keys_in_the_state_stay_out(folder: Path) -> None:
    """T24"""
    (item,) = SourceFile(folder)
    assert isinstance(item, Record)
    assert "sk-SECRET" in (folder.parent / "base_state.json").read_text()
    assert "sk-SECRET" not in str(convert(item))


@pytest.mark.parametrize("state", ["", "{", "[]", '{"stats": 3}'])
def test_a_damaged_state_is_as_good_as_none(folder: Path, state: str) -> None:
    (folder.parent / "base_state.json").write_text(state)
    (item,) = SourceFile(folder)
    assert isinstance(item, Record)
    assert convert(item)[0].session is None


def test_what_has_no_home_is_counted() -> None:
    found = fixture()
    convert(found)
    losses = found.losses()
    assert {path: count for (path, reason), count in losses.items() if reason is None} == {
        "$.forgotten_event_ids": 1,
        "$.observation.prev_exist": 1,
        "$[kind=SomethingNewEvent]": 1,
    }
    assert losses["$.critic_result", SEALED] == 1
    assert losses["$[kind=StreamingDeltaEvent]", REPEATED] == 1
    assert losses["$[kind=CondensationRequest]", UPKEEP] == 1


def test_totals_of_a_running_conversation_are_counted() -> None:
    stats = {"kind": "ConversationStateUpdateEvent", "key": "stats", "value": {"usage_to_metrics": {}}}
    found = record(stats, ASKED, act("a", "r"))
    convert(found)
    assert found.losses()["$[key=stats].value", None] == 1


# -- recognising ------------------------------------------------------------------------------------------------


def test_a_long_first_line_hides_nothing() -> None:
    prompt = {"kind": "SystemPromptEvent", "system_prompt": {"text": "You are an agent. " * 8_000}}
    assert len(read(prompt, ASKED, act("a", "r")).steps) == 1


def test_an_array_is_read_as_lines_are() -> None:
    (run,) = convert(Record(json.dumps(EVENTS).encode()))
    assert run.steps == conversation().steps


def test_a_conversation_that_begins_in_the_middle_is_refused_in_plain_words() -> None:
    with pytest.raises(RecordError, match="No human message"):
        read(*EVENTS[3:])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(number=st.integers(0, len(EVENTS) - 1), key=st.data(), value=_JSON)
def test_any_value_in_any_field_leaves_the_other_events_alone(number: int, key: st.DataObject, value: object) -> None:
    """A misfit event is left out and noted; what it answered or asked stays an orphan or without an answer."""
    event = dict(EVENTS[number])
    event[key.draw(st.sampled_from(sorted(event)))] = value
    broken = record(*EVENTS[:number], event, *EVENTS[number + 1 :])
    try:
        (run,) = convert(broken)
    except RecordError as error:
        assert "human message" in error.problem
        return
    assert len(broken.problems) <= 1
    assert abs(len(run.steps) - len(conversation().steps)) <= 1
