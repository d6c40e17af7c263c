"""Standardized rows of the Agent Data Protocol: what each kind of item means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handoff import adapters
from handoff.adapters import Record
from handoff.adapters.adp import INVENTED
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import SEALED
from handoff.trajectory import Observation, Trajectory

ROWS = Path(__file__).resolve().parent.parent / "fixtures" / "adp" / "rows.json"


def record(position: int) -> Record:
    return [item for item in SourceFile(ROWS) if isinstance(item, Record)][position - 1]


def read(position: int) -> Trajectory:
    (run,) = adapters.convert(record(position))
    return run


def changed(position: int, change: Callable[[dict[str, Any]], object]) -> Record:
    value = json.loads(ROWS.read_text())[position - 1]
    change(value)
    return Record(json.dumps(value).encode())


def test_calls_and_results_alternate() -> None:
    run = read(1)
    assert [(a.tool, a.is_text) for step in run.steps for a in step.actions] == [
        ("str_replace_editor", False),
        ("bash", True),
        ("str_replace_editor", False),
        ("finish", False),
    ]
    assert json.loads(run.steps[0].actions[0].arguments)["view_range"] == [1, 20]
    assert (run.steps[1].text, run.steps[1].actions[0].arguments) == ("Run the tests.", "pytest -q")
    assert run.steps[1].observations[0].exit_code == 1


def test_prompts_to_go_on_are_the_scaffolds() -> None:
    """T23."""
    step = read(1).steps[2]
    assert (step.text, step.actions) == ("It rounds down.\nI think I know it.", ())
    assert [m.role for m in step.after] == ["harness"]


def test_answers_stay_outside_and_success_is_text() -> None:
    """T2: of the test result only the run's own patch is read."""
    found = record(1)
    (run,) = adapters.convert(found)
    assert (run.outcome.resolved, run.outcome.ended) == (True, "submitted")
    assert (run.outcome.patch or "").startswith("diff --git a/pager")
    assert dict(found.losses()) == {
        ("$.details.test_result.report", SEALED): 1,
        ("$.details.test_result.test_output", SEALED): 1,
    }
    assert run.tools is not None


def test_tool_output_labelled_as_the_users_answers_its_call() -> None:
    """T13, T8."""
    run = read(2)
    assert [m.role for m in run.preamble] == ["user"]
    assert [step.observations[0].text.split("\n")[0] for step in run.steps[:2]] == [
        "pager/",
        "[File: /pager/pager/core.py (2 lines total)]",
    ]
    assert all(step.after == () for step in run.steps)


def test_footers_become_states() -> None:
    run = read(2)
    assert "bash-$" not in "".join(seen.text for step in run.steps for seen in step.observations)
    facts = json.loads(run.source)
    assert facts["states"] == [[0, "/pager", None], [2, "/pager", "/pager/pager/core.py"]]
    assert facts["cwd"] == "/pager"


def test_arguments_that_a_converter_quoted_lose_their_quotes() -> None:
    """T22: the path would be no path; text inside keeps its own quotes."""
    run = read(2)
    assert json.loads(run.steps[1].actions[0].arguments) == {"path": "pager/core.py", "line_number": "12"}
    assert json.loads(run.steps[2].actions[0].arguments)["replacement_text"] == '    return "-(-n // size)"\n'


def test_arguments_that_are_quoted_here_and_there_keep_their_quotes() -> None:
    (run,) = adapters.convert(changed(2, lambda v: v["content"][3]["kwargs"].update(line_number="x")))
    assert json.loads(run.steps[1].actions[0].arguments)["path"] == '"pager/core.py"'


def test_a_made_up_end_is_not_read() -> None:
    """A converter adds praise and an answer; the recorded run ended with its submission."""
    found = record(2)
    (run,) = adapters.convert(found)
    assert [a.tool for a in run.steps[-1].actions] == ["submit"]
    assert run.steps[-1].observations[0].missing == "none"
    assert found.losses()["$.content[]", INVENTED] == 2


def test_a_patch_of_another_task_is_dropped_and_a_limit_counts() -> None:
    """T1; the scaffold submitted after a limit."""
    outcome = read(2).outcome
    assert (outcome.patch, outcome.resolved) == (None, None)
    assert (outcome.exit_status, outcome.ended) == ("submitted (exit_context)", "context_limit")


def test_a_review_after_the_first_submit_is_no_submission() -> None:
    """T23: only the last submit counts."""
    run = read(3)
    assert run.steps[0].observations[0].missing == "not_executed"
    assert [m.role for m in run.steps[0].after] == ["harness"]
    assert run.outcome.ended == "submitted"


def test_what_cannot_be_placed_is_counted_or_kept_as_an_orphan() -> None:
    found = record(3)
    (run,) = adapters.convert(found)
    assert dict(found.losses()) == {("$.content[class_=image_observation]", None): 1}
    assert [(s.text, s.is_orphan) for s in run.steps[1].observations] == [("1", False), ("Late line.", True)]
    assert run.steps[1].actions[0].tool == "python"


def test_several_tries_share_a_task() -> None:
    assert [read(n).task_id for n in (1, 2, 3)] == [
        "acme__pager-7",
        "acme__pager-7",
        "acme__pager.0123abcd.func_pm__abcdefgh",
    ]
    assert read(3).repo == "acme/pager"


def test_later_revisions_pair_by_id() -> None:
    def number(value: dict[str, Any]) -> None:
        first, second = value["content"][1], value["content"][3]
        first["tool_call_id"] = value["content"][2]["tool_call_id"] = "c1"
        second["tool_call_id"] = value["content"][4]["tool_call_id"] = "c2"

    (run,) = adapters.convert(changed(1, number))
    assert [(s.actions[0].call_id, s.observations[0].call_id) for s in run.steps[:2]] == [("c1", "c1"), ("c2", "c2")]


def test_bytes_that_are_no_text_are_replaced() -> None:
    """Arguments are kept unparsed, so invalid bytes in them show late."""
    data = (
        json.dumps(json.loads(ROWS.read_text())[0]).encode().replace(b'"path": "/workspace', b'"path": "\xff/workspace')
    )
    (run,) = adapters.convert(Record(data))
    assert json.loads(run.steps[0].actions[0].arguments)["path"] == "\ufffd/workspace/pager/core.py"


@pytest.mark.parametrize("count", [0, 1])
def test_a_row_without_an_action_is_refused(count: int) -> None:
    with pytest.raises(RecordError) as caught:
        adapters.convert(changed(1, lambda v: v.update(content=v["content"][:1] * count or [v["content"][1]])))
    assert caught.value.field == "$.content"


@pytest.mark.parametrize(
    "name", ["swe-smith", "nebius_SWE-agent-trajectories", "swe-gym_openhands_sampled_trajectories"]
)
def test_raw_and_standardized_rows_tell_one_story(corpus: Path, name: str) -> None:
    """The chat rows from which a set was made have as many calls with the same results."""
    raw, std = (
        [
            adapters.convert(item)[0]
            for item in SourceFile(corpus / "adp" / f"{name}.sample_{kind}.json")
            if isinstance(item, Record)
        ]
        for kind in ("raw", "std")
    )
    assert len(raw) == len(std) == 5
    for ours, theirs in zip(raw, std, strict=True):
        assert (ours.task_id, ours.outcome.ended) == (theirs.task_id, theirs.outcome.ended)
        assert [seen.text.strip() for seen in results(ours)] == [seen.text.strip() for seen in results(theirs)]


def results(run: Trajectory) -> list[Observation]:
    return [seen for step in run.steps for seen in step.observations]
