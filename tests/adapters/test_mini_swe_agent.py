"""mini-swe-agent: replies whose calls could not be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.adapters import read_one
from handoff.trajectory import Trajectory, Usage

LOOK = {
    "role": "assistant",
    "content": "Look.",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
    "extra": {"response": {"model": "m", "usage": {"prompt_tokens": 9, "completion_tokens": 2}}},
}
SEEN = {"role": "tool", "tool_call_id": "c1", "content": "x", "extra": {"raw_output": "pager.py\n", "returncode": 0}}


def complaint(response: Any) -> dict[str, Any]:
    extra = {"interrupt_type": "FormatError", "cost": 0.25, "response": response}
    return {"role": "user", "content": "Tool call error: no tool calls found.", "extra": extra}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    return {"id": "r", "model": "m", "choices": [{"index": 0, "message": message}], "usage": usage}


def read(tmp_path: Path, *messages: dict[str, Any]) -> Trajectory:
    head = [{"role": "system", "content": "Work."}, {"role": "user", "content": "Mend it."}]
    value = {"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [*head, *messages]}
    (tmp_path / "run.json").write_text(json.dumps(value))
    return read_one(tmp_path / "run.json", 1)


def test_a_reply_without_a_call_is_a_step_though_only_the_complaint_about_it_holds_it(tmp_path: Path) -> None:
    """Else the steps would be fewer than the calls of the model, and what it cost would be lost."""
    told = complaint(answer({"role": "assistant", "content": "I think so.", "reasoning_content": "Hm."}))
    run = read(tmp_path, LOOK, SEEN, told, {**LOOK, "content": "Again."}, SEEN)
    assert [step.text for step in run.steps] == ["Look.", "I think so.", "Again."]
    step = run.steps[1]
    assert (step.thought, step.actions, step.cost) == ("Hm.", (), 0.25)
    assert step.usage == Usage(prompt=20, completion=5)
    assert [(m.role, m.text) for m in step.after] == [("harness", "Tool call error: no tool calls found.")]
    assert run.steps[0].observations[0].text == "pager.py\n"


def test_calls_that_could_not_be_read_were_not_carried_out(tmp_path: Path) -> None:
    calls = [{"id": "c7", "type": "function", "function": {"name": "python", "arguments": "{"}}]
    run = read(tmp_path, complaint(answer({"role": "assistant", "content": None, "tool_calls": calls})), LOOK, SEEN)
    (action,) = run.steps[0].actions
    assert (action.tool, action.arguments, action.is_text) == ("python", "{", True)
    assert run.steps[0].observations[0].missing == "not_executed"


@pytest.mark.parametrize("response", [None, "ModelResponse(id='x')", {}, {"choices": "none"}, {"choices": [{}]}])
def test_an_answer_that_cannot_be_taken_apart_costs_no_run(tmp_path: Path, response: Any) -> None:
    run = read(tmp_path, LOOK, SEEN, complaint(response))
    assert run.steps[0].text == "Look." and len(run.steps) <= 2
