"""Tools of a recorded run: its own definitions, and what its calls show."""

from __future__ import annotations

import json

import pytest

from handoff.curation import declared_tools
from handoff.trajectory import Action, Step, Trajectory


def run(*actions: Action, tools: str | None = None) -> Trajectory:
    return Trajectory(format="chat", task="Fix", tools=tools, steps=tuple(Step(actions=(a,)) for a in actions))


def call(tool: str, **arguments: object) -> Action:
    return Action(tool=tool, arguments=json.dumps(arguments))


def test_a_tool_without_a_definition_is_inferred_from_its_calls() -> None:
    """Names, types that occur, and what is always there; nothing is described."""
    found = declared_tools(run(call("read", path="a", line=1), call("read", path="b", line=None, all=True)))
    assert found.inferred == ("read",)
    (tool,) = json.loads(found.tools)
    assert tool == {
        "type": "function",
        "function": {
            "name": "read",
            "parameters": {
                "type": "object",
                "properties": {"all": {"type": "boolean"}, "line": {"type": "integer"}, "path": {"type": "string"}},
                "required": ["line", "path"],
            },
        },
    }


@pytest.mark.parametrize(
    "own",
    [
        '[{"type":"function","function":{"name":"bash","parameters":{"x": 1}}}]',
        '[{"name":"bash","input_schema":{"x": 1}}]',
    ],
)
def test_own_definitions_stay_as_they_are(own: str) -> None:
    kept = declared_tools(run(call("bash", command="ls"), tools=own))
    assert json.loads(kept.tools) == json.loads(own) and kept.inferred == ()
    found = declared_tools(run(call("bash", command="ls"), call("edit", path="a"), tools=own))
    assert json.loads(found.tools)[0] == json.loads(own)[0] and found.inferred == ("edit",)


def test_nulls_that_pad_a_definition_go_and_those_that_mean_something_stay() -> None:
    own = {"name": "read", "description": None, "parameters": {"default": None, "enum": ["a", None], "items": None}}
    kept = declared_tools(run(call("read"), tools=json.dumps([own])))
    assert json.loads(kept.tools) == [{"name": "read", "parameters": {"default": None, "enum": ["a", None]}}]


@pytest.mark.parametrize("own", [None, "", "null", "{", "[1, null]", "[" * 5000])
def test_what_is_no_definition_counts_as_none(own: str | None) -> None:
    assert declared_tools(run(tools=own)).inferred == ()
    found = declared_tools(run(Action(tool="bash", arguments="ls", is_text=True), tools=own))
    assert found.inferred == ("bash",)
    assert json.loads(found.tools)[-1]["function"]["parameters"]["required"] == ["command"]
