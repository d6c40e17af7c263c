"""OpenHands V0 event streams: what each event means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import REPEATED, UPKEEP
from handoff.trajectory import Step, Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "openhands_events"

Events = list[dict[str, Any]]


def events(name: str) -> Events:
    value: Events = json.loads((FIXTURES / f"{name}.json").read_text())
    return value


def record(value: object) -> Record:
    return Record(json.dumps(value).encode(), file="a.json")


def read(value: object) -> Trajectory:
    (run,) = convert(record(value))
    return run


def session() -> Trajectory:
    return read(events("session"))


def at_the_screen() -> Trajectory:
    return read(events("at_the_screen"))


def changed(name: str, change: Callable[[Events], object]) -> Trajectory:
    value = events(name)
    change(value)
    return read(value)


def act(number: int, action: str, **args: Any) -> dict[str, Any]:
    return {"id": number, "source": "agent", "action": action, "args": args}


def seen(cause: int, observation: str, content: str = "", **extras: Any) -> dict[str, Any]:
    return {"id": cause + 1, "source": "agent", "cause": cause, "observation": observation, "content": content} | {
        "extras": extras
    }


ASKED = {"id": 0, "source": "user", "action": "message", "args": {"content": "Fix it."}}


# -- steps ------------------------------------------------------------------------------------------------------


def test_calls_of_one_reply_are_one_step_although_their_events_alternate() -> None:
    first = session().steps[0]
    assert [(a.call_id, a.tool) for a in first.actions] == [
        ("call_1", "execute_bash"),
        ("call_2", "str_replace_editor"),
    ]
    assert [seen.text[:11] for seen in first.observations] == ["pages.py  t", "Here's the "]


def test_arguments_are_those_that_the_model_wrote() -> None:
    assert json.loads(session().steps[0].actions[0].arguments) == {"command": "ls", "is_input": "false"}


def test_a_call_whose_event_never_came_is_kept_without_an_answer() -> None:
    run = changed("session", lambda value: value.__delitem__(slice(6, 8)))
    assert [seen.missing for seen in run.steps[0].observations] == [None, "none"]


def test_calls_that_only_events_know_are_found_where_the_response_was_cut_down() -> None:
    def cut(value: Events) -> None:
        for event in value:
            if event.get("tool_call_metadata", {}).get("model_response"):
                event["tool_call_metadata"]["model_response"]["choices"] = []

    first = changed("session", cut).steps[0]
    assert first.text == "I look around first."
    assert [(a.call_id, a.tool) for a in first.actions] == [
        ("call_1", "execute_bash"),
        ("call_2", "str_replace_editor"),
    ]
    assert json.loads(first.actions[1].arguments) == {"path": "/workspace/pager/pages.py", "start": 0, "end": -1}
    assert [seen.missing for seen in first.observations] == [None, None]


def test_a_confirmed_call_is_recorded_twice_and_made_once() -> None:
    """T6: the action comes again under a new id after it was confirmed; its result names the second."""

    def confirm(value: Events) -> None:
        again = {**value[13], "id": 100}
        value[13:15] = [value[13], again, {**value[14], "cause": 100}]

    run = changed("session", confirm)
    assert len(run.steps) == len(session().steps)
    assert run.steps[3].observations == session().steps[3].observations


def test_text_is_said_once() -> None:
    """T15: the harness copies the reply's text to ``thought``, and joins it to what a think call says."""
    run = session()
    assert (run.steps[0].text, run.steps[0].thought) == ("I look around first.", "Two looks at once.")
    assert run.steps[5].text == "I should think."
    assert json.loads(run.steps[5].actions[0].arguments) == {"thought": "The empty list is not covered."}
    assert [step.text for step in at_the_screen().steps][:2] == ["I delete it.", "Only the logs."]


def test_contents_may_be_null_text_or_parts() -> None:
    """T22"""
    steps = session().steps
    assert (steps[1].text, steps[2].text, steps[6].text) == ("The division is wrong.", "", "Once more.")


def test_tools_prompt_and_workspace_notes_are_kept() -> None:
    run = session()
    assert [m.role for m in run.preamble] == ["system", "user", "harness"]
    assert run.preamble[2].text == "Run the tests with pytest.\n\nPush with the token."
    assert run.tools is not None
    assert json.loads(run.tools)[0]["function"]["name"] == "execute_bash"
    assert (run.agent, run.repo) == ("OpenHands", "acme/pager")
    assert json.loads(run.source) == {
        "agent_class": "CodeActAgent",
        "branch": "main",
        "folders": [[0, "/workspace"], [1, "/workspace/pager"]],
        "version": "0.58.0",
    }


def test_images_are_named_by_their_hash() -> None:
    assert session().task.startswith("The last page is lost. Fix it.\n[image: image/png, sha256 ")
    assert at_the_screen().steps[3].observations[0].text.startswith("Release notes\n[image: image/png, sha256 ")


# -- results ----------------------------------------------------------------------------------------------------


def test_results_are_joined_by_cause_because_call_ids_are_used_again() -> None:
    run = session()
    assert [step.actions[0].call_id for step in (run.steps[3], run.steps[6])] == ["call_5", "call_5"]
    assert run.steps[3].observations[0].text.startswith("collecting")
    assert run.steps[6].observations[0].missing == "not_executed"


def test_results_come_from_the_environment_although_their_source_says_agent() -> None:
    """T13: the kind of the event decides."""
    value = events("session")
    assert all(event["source"] == "agent" for event in value if event.get("observation") in ("run", "edit", "read"))
    assert "pages.py  tests" not in " ".join(step.text for step in session().steps)


def test_an_edit_that_failed_is_an_error_whatever_its_extras_say() -> None:
    """T11 and T12: ``extras`` hold old and new content of an edit that did not happen, and a wrong ``prev_exist``."""
    run = session()
    assert [step.observations[0].error for step in run.steps[1:3]] == [True, None]
    assert run.steps[1].observations[0].text.startswith("ERROR:\nNo replacement was performed")
    assert "new_content" not in run.steps[2].observations[0].text


def test_exit_codes_are_numbers_of_the_harness_and_minus_one_is_none() -> None:
    """T16"""
    codes = [seen.exit_code for step in session().steps for seen in step.observations]
    assert codes == [0, None, None, None, None, 1, None, None, None]
    assert all(seen.error is None for seen in session().steps[5].observations)


def test_what_the_harness_says_of_a_running_command_stays_with_its_output() -> None:
    run = session()
    assert run.steps[3].observations[0].text == (
        "collecting ...\n[The command has no new output after 30 seconds. You may wait longer.]"
    )
    assert run.steps[4].observations[0].text == "[Below is the output of the previous command.]\n1 failed, 3 passed"


def test_exit_codes_of_older_versions_are_found() -> None:
    assert at_the_screen().steps[1].observations[0].exit_code == 0
    value = [ASKED, act(2, "run", command="false"), seen(2, "run", "oops\n[Command finished with exit code 3]")]
    assert read(value).steps[0].observations[0].exit_code == 3


def test_an_error_that_answers_no_call_is_the_harness_s() -> None:
    """A reply that could not be understood is not in the stream; only the complaint is. T23"""
    run = session()
    assert [m.role for m in run.steps[1].after] == ["harness"]
    assert len(run.steps[1].observations) == 1


def test_an_error_without_a_cause_answers_the_open_call() -> None:
    error = {"id": 3, "observation": "error", "content": "The sandbox is gone.", "extras": {}}
    (step,) = read([ASKED, act(2, "run", command="ls"), error]).steps
    assert (step.observations[0].text, step.observations[0].error) == ("The sandbox is gone.", True)


@pytest.mark.parametrize("step", [session().steps[6], at_the_screen().steps[0]], ids=["crash", "rejected"])
def test_calls_that_were_not_executed_have_no_result_and_the_words_are_kept(step: Step) -> None:
    """T11"""
    assert (step.observations[0].missing, step.observations[0].text) == ("not_executed", "")
    assert step.after[0].role == "harness"
    assert step.after[0].text


def test_a_result_whose_action_is_not_there_is_an_orphan_and_a_last_call_has_none() -> None:
    """T21"""
    last = at_the_screen().steps[-1]
    assert [(seen.call_id, seen.missing, seen.is_orphan) for seen in last.observations] == [
        ("25", "none", False),
        ("77", None, True),
    ]


def test_finish_has_no_result_and_ends_the_run() -> None:
    run = session()
    assert run.steps[-1].actions[0].tool == "finish"
    assert run.steps[-1].observations[0].missing == "none"
    assert (run.outcome.exit_status, run.outcome.ended) == ("finished", "submitted")


# -- others -----------------------------------------------------------------------------------------------------


def test_only_a_person_s_words_are_a_user_s() -> None:
    """T23: a prompt to go on has the person's source; commands of the person and of the server are no replies."""
    run = at_the_screen()
    heard = [(m.role, m.text) for step in run.steps for m in step.after]
    assert [text for role, text in heard if role == "user"] == ["Only the logs, please.", "Go on."]
    assert ("harness", '[user: run] {"command":"ls build"}') in heard
    assert run.preamble[0].role == "harness"
    assert run.task == "Clean the build folder."


def test_condensation_is_a_boundary_with_the_summary_that_was_written() -> None:
    """T7"""
    step = session().steps[4]
    assert step.boundary == "compaction"
    assert [(m.role, m.text) for m in step.after] == [("context_summary", "pages.py is edited; one test fails.")]


def test_condensation_without_a_summary_is_a_boundary_too() -> None:
    done = act(4, "condensation", forgotten_event_ids=[2], summary=None)
    run = read([ASKED, act(2, "run", command="ls"), seen(2, "run"), done, act(5, "finish")])
    assert (run.steps[0].boundary, run.steps[0].after) == ("compaction", ())


def test_a_delegate_s_steps_stand_between_two_changes_of_agent() -> None:
    """T20: it works on the same files. Its result comes late and belongs to the call."""
    steps = at_the_screen().steps
    assert [step.boundary for step in steps[2:5]] == ["agent_switch", None, "agent_switch"]
    assert steps[2].actions[0].tool == "delegate"
    assert steps[2].observations[0].text.endswith("nothing new")
    assert steps[4].observations[0].missing == "none"


def test_a_stop_and_a_further_reply_are_a_resume() -> None:
    assert [step.boundary for step in at_the_screen().steps[5:]] == ["resume", None, None]


@pytest.mark.parametrize(
    ("state", "reason", "ended"),
    [
        ("stopped", "", "aborted"),
        ("rejected", "", None),
        ("awaiting_user_input", "", None),
        ("error", "RuntimeError: Agent reached maximum budget", "cost_limit"),
        ("error", "LLMContextWindowExceedError", "context_limit"),
    ],
)
def test_how_it_ended_is_the_last_state(state: str, reason: str, ended: str | None) -> None:
    end: dict[str, Any] = {"id": 9, "source": "environment", "observation": "agent_state_changed", "content": ""}
    end["extras"] = {"agent_state": state, "reason": reason}
    value = [ASKED, act(2, "run", command="ls"), seen(2, "run"), end]
    outcome = read(value).outcome
    assert (outcome.exit_status, outcome.ended, outcome.resolved) == (reason or state, ended, None)
    value[-1]["extras"] = {"agent_state": "running"}
    assert read(value).outcome.exit_status is None


def test_a_recording_that_stops_in_a_call_is_cut_off() -> None:
    assert read([ASKED, act(2, "run", command="ls")]).outcome.ended == "cut_off"


# -- usage, time, losses ----------------------------------------------------------------------------------------


def test_tokens_and_model_are_those_of_the_reply() -> None:
    """T19: the model changes in the middle."""
    steps = session().steps
    assert steps[0].usage == Usage(prompt=900, cached=0, completion=40)
    assert steps[5].usage == Usage(prompt=700, cached=650, completion=30)
    assert steps[6].usage is None
    assert [step.model for step in steps[4:7]] == ["acme/coder-1", "acme/coder-2", "acme/coder-1"]


def test_a_running_total_becomes_the_price_of_each_reply() -> None:
    assert [step.cost for step in session().steps] == [0.01, 0.005, 0.005, 0.004, 0.003, 0.007, 0.003, 0.003]


def test_a_total_of_zero_is_an_unpriced_model() -> None:
    def free(value: Events) -> None:
        for event in value:
            if "llm_metrics" in event:
                event["llm_metrics"]["accumulated_cost"] = 0.0

    assert {step.cost for step in changed("session", free).steps} == {None}


def test_time_is_kept_as_recorded() -> None:
    """T19: local time without a zone."""
    assert session().steps[0].timestamp == "2025-05-04T10:00:05.120000"


def test_what_has_no_home_is_counted() -> None:
    found = record(events("session"))
    convert(found)
    losses = found.losses()
    assert {path: count for (path, reason), count in losses.items() if reason is None} == {
        "$[].args.forgotten_events_end_id": 1,
        "$[].args.forgotten_events_start_id": 1,
        "$[].extras.diff": 2,
        "$[].extras.new_content": 2,
        "$[].extras.old_content": 2,
        "$[].extras.prev_exist": 2,
        "$[].extras.repo_directory": 1,
    }
    assert losses["$[].args", REPEATED] == 9
    assert losses["$[action=recall]", UPKEEP] == 1


def test_events_of_no_kind_are_counted_and_left_out() -> None:
    found = record([ASKED, {"id": 1, "source": "agent"}, act(2, "run", command="ls")])
    (run,) = convert(found)
    assert len(run.steps) == 1
    assert found.losses()["$[]", None] == 1


# -- recognising ------------------------------------------------------------------------------------------------


def test_the_interface_of_the_server_wraps_the_array() -> None:
    wrapped = read({"trajectory": events("session")})
    assert wrapped.steps == session().steps
    with pytest.raises(RecordError) as caught:
        read({"trajectory": [ASKED, {"source": "agent", "observation": 3}]})
    assert caught.value.field == "$.trajectory[1].observation"


def test_a_stream_without_a_person_or_without_a_reply_is_refused() -> None:
    with pytest.raises(RecordError, match="No human message"):
        read([act(2, "run", command="ls")])
    with pytest.raises(RecordError, match="No reply"):
        read([ASKED])


def test_a_pretty_printed_file_is_one_record_and_ids_still_pair(tmp_path: Path) -> None:
    """S3: framing is decided on the whole text."""
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(events("session"), indent=2))
    (item,) = SourceFile(path)
    assert isinstance(item, Record)
    assert convert(item)[0].steps == session().steps


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    data=st.data(),
    value=_JSON,
    name=st.sampled_from(("session", "at_the_screen")),
)
def test_any_value_in_any_field_gives_a_run_or_a_record_error(data: st.DataObject, value: object, name: str) -> None:
    stream = events(name)
    place: Any = stream
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    try:
        runs = convert(record(stream))
    except RecordError:
        return
    for step in runs[0].steps:
        answers = [seen for seen in step.observations if not seen.is_orphan]
        assert len(answers) == len(step.actions)


def test_bytes_that_are_no_text_are_replaced_and_counted() -> None:
    data = json.dumps([ASKED, act(2, "run", command="ls XX")]).encode().replace(b"XX", b"\xff")
    (run,) = convert(Record(data))
    assert json.loads(run.steps[0].actions[0].arguments) == {"command": "ls \ufffd"}
    assert json.loads(run.source)["repairs"] == 1
