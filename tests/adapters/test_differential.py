"""Our reading beside independent ones.

agentpile (Claude Code sessions, OpenAI-style messages, ATIF) runs here; the Agent Data Protocol's own conversion of
three sets lies in the corpus; what harbor, inspect_ai and inspect_scout read is recorded in ``fixtures/peers/``, for
they need other interpreters. Both sides are reduced to the same small shape. Where they differ on purpose, the
difference is stated here and taken out before comparing; nothing else may differ.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import agentpile
import msgspec
import pytest

from handoff.adapters import ADAPTERS, convert
from handoff.exports import AtifExporter
from handoff.framing import Record, SourceFile
from handoff.samples import Origin, sft_sample
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation, Step, Trajectory

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


class Call(NamedTuple):
    name: str
    arguments: Any
    result: str | None


def ours(path: Path) -> list[Trajectory]:
    return [run for item in SourceFile(path) if isinstance(item, Record) for run in convert(item)]


def calls_of(run: Trajectory) -> list[Call]:
    found = []
    for step in run.steps:
        for action, seen in zip(step.actions, step.observations, strict=False):
            arguments = json.loads(action.arguments) if not action.is_text else action.arguments
            found.append(Call(action.tool, arguments, None if seen.missing else seen.text))
    return found


def theirs(path: Path) -> list[agentpile.Run]:
    return [run for run in agentpile.load(str(path)) if run.kind == "trajectory"]


def their_calls(run: agentpile.Run) -> list[Call]:
    results: dict[str, str] = {}
    for step in run.record["steps"]:
        for result in (step.get("observation") or {}).get("results") or []:
            results[result.get("source_call_id")] = text_of(result.get("content"))
    return [
        Call(call["function_name"], call["arguments"], results.get(call["tool_call_id"]))
        for step in run.record["steps"]
        for call in step.get("tool_calls") or []
    ]


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""


def replies(run: agentpile.Run) -> int:
    return sum(step["source"] == "agent" for step in run.record["steps"])


def synthetic(run: agentpile.Run) -> int:
    """Lines that the client wrote as if the model had spoken: interruptions and API errors are no replies."""
    return sum(step["source"] == "agent" and step.get("model_name") == "<synthetic>" for step in run.record["steps"])


def not_run(result: str | None) -> bool:
    """A call that was refused: for us it has no result, and what was said instead is the harness speaking."""
    return result is not None and result.startswith(("<tool_use_error>Sibling", "The user doesn't want to"))


def same_calls(mine: list[Call], other: list[Call]) -> None:
    assert [(call.name, call.arguments) for call in mine] == [(call.name, call.arguments) for call in other]
    for call, their in zip(mine, other, strict=True):
        assert call.result == (None if not_run(their.result) else their.result)


def sessions(folder: Path) -> list[Path]:
    # Compaction workers are no work on the task: we quarantine them with that reason.
    return [path for path in sorted(folder.rglob("*.jsonl")) if "acompact" not in path.name]


def compare_sessions(paths: list[Path]) -> int:
    compared = 0
    for path in paths:
        mine, other = ours(path), theirs(path)
        same_calls(
            [call for run in mine for call in calls_of(run)], [call for run in other for call in their_calls(run)]
        )
        assert sum(len(run.steps) for run in mine) == sum(replies(run) - synthetic(run) for run in other), path.name
        compared += sum(len(run.steps) for run in mine)
    return compared


def test_claude_code_sessions_of_the_corpus(corpus: Path) -> None:
    assert compare_sessions(sessions(corpus / "claude_code")) > 400


def test_chat_rows_and_request_logs_of_the_corpus(corpus: Path) -> None:
    rows = [corpus / "adp" / "swe-gym_openhands_sampled_trajectories.sample_raw.json"]
    logs = sorted((corpus / "chat_llm_logs").glob("*anthropic*.json"))
    for path in [*rows, *logs]:
        mine, other = ours(path), theirs(path)
        assert len(mine) == len(other)
        for run, their in zip(mine, other, strict=True):
            pairs = list(zip(calls_of(run), their_calls(their), strict=False))
            assert pairs
            for call, same in pairs:
                assert (call.name, call.arguments) == (same.name, same.arguments)
                # We take the constant wrapper off an observation; everything else is the same text.
                assert call.result is None or same.result is None or same.result.endswith(call.result)


def test_mini_swe_agent_runs_of_the_corpus(corpus: Path) -> None:
    """What the agent was shown is the other reader's result: a frame around the output, and its middle left out where
    it is long. We have the output itself."""
    compared = 0
    for path in sorted((corpus / "mini_swe_agent_v2").glob("*.json")):
        (mine,), (other,) = ours(path), theirs(path)
        assert len(mine.steps) == replies(other)
        calls, shown = calls_of(mine), their_calls(other)
        assert [(call.name, call.arguments) for call in calls] == [(call.name, call.arguments) for call in shown]
        for call, same in zip(calls, shown, strict=True):
            frame = same.result or ""
            assert (
                "output of your last command was too long" in frame.replace("\n", " ")
                or (call.result or "").strip() in frame
            )
        compared += len(calls)
    assert compared > 400


@pytest.mark.parametrize(
    "name",
    [
        "adp/swe-smith.sample_raw.json",
        "chat_swesmith/ft_xml_example.jsonl",
        "cline/session.messages.json",
        "cline/success.messages.json",
        "mini_swe_agent_v0/github_issue.traj.json",
        "mini_swe_agent_v0/local.traj.json",
        "mini_swe_agent_v1/mini-swe-agent-trajectory.json",
    ],
)
def test_replies_of_messages_whose_calls_the_other_reader_leaves_as_text(name: str, corpus: Path) -> None:
    assert [len(run.steps) for run in ours(corpus / name)] == [replies(run) for run in theirs(corpus / name)]


def test_atif_of_the_corpus(corpus: Path, tmp_path: Path) -> None:
    """The other reader takes 1.7 alone; what older files hold is a part of that."""
    compared = 0
    for path in sorted((corpus / "atif").glob("*.trajectory*.json")):
        value = json.loads(path.read_text("utf-8"))
        copy = tmp_path / path.name
        copy.write_text(json.dumps({**value, "schema_version": "ATIF-v1.7"}), "utf-8")
        try:
            (other,) = theirs(copy)
        except (agentpile.AgentpileError, ValueError):
            continue
        mine = ours(path)
        if not their_calls(other):
            continue  # calls as text: read by us, left as text there
        calls = calls_of(mine[0])
        assert [(c.name, c.arguments) for c in calls] == [(c.name, c.arguments) for c in their_calls(other)]
        # Results that name no call are left unpaired there; we pair them by position. The texts are the same and in
        # the same order; what came back where no call could be read is the harness speaking.
        texts = iter(all_results(other))
        assert all(call.result in texts for call in calls if call.result)
        compared += 1
    assert compared >= 3


def all_results(run: agentpile.Run) -> list[str]:
    found = [
        text_of(result.get("content"))
        for step in run.record["steps"]
        if step["source"] == "agent"
        for result in (step.get("observation") or {}).get("results") or []
    ]
    return [text for text in found if text]


# -- the Agent Data Protocol ------------------------------------------------------------------------------------

ADP = ["swe-smith", "swe-gym_openhands_sampled_trajectories", "nebius_SWE-agent-trajectories"]


@pytest.mark.parametrize("name", ADP)
def test_the_projects_own_conversion_of_its_samples(name: str, corpus: Path) -> None:
    rows = json.loads((corpus / "adp" / f"{name}.sample_std.json").read_text("utf-8"))
    for run, row in zip(ours(corpus / "adp" / f"{name}.sample_raw.json"), rows, strict=True):
        told = [message.text for message in run.preamble if message.role != "system"]
        for step in run.steps:
            told += [seen.text for seen in step.observations if not seen.missing]
            told += [message.text for message in step.after]
        items = row["content"]
        if items[-2]["content"] not in told:
            items = items[:-2]  # a praise and the agent's answer to it, which the converter makes up
        same_actions(run, [item for item in items if item["class_"].endswith("_action")])
        heard = [item["content"] for item in items if item["class_"] == "text_observation"]
        assert len(told) == len(heard)
        # The converter rewrites a sentence of the task; we take the frame and the shell's prompt off a result.
        assert all(mine.strip() in other for mine, other in list(zip(told, heard, strict=True))[1:])


def same_actions(run: Trajectory, items: list[dict[str, Any]]) -> None:
    mine = [(step, action) for step in run.steps for action in step.actions or [None]]
    assert len(mine) == len(items)
    for (step, action), item in zip(mine, items, strict=True):
        if action is None:
            assert (item["class_"], item["content"]) == ("message_action", step.text)
            continue
        assert (item["description"] or "").strip() == step.text.strip() or action.tool == "finish"
        if item["class_"] == "code_action":
            command = action.arguments if action.is_text else json.loads(action.arguments)["command"]
            assert (action.tool.removeprefix("execute_"), command.strip()) == ("bash", item["content"].strip())
        elif item["class_"] == "message_action":
            assert action.tool == "finish" and item["content"].startswith("<finish>")
        elif action.is_text:  # a command of the line editor, taken apart there
            assert action.tool == item["function"]
            assert all(bare(value) in action.arguments for value in item["kwargs"].values())
        else:
            arguments = json.loads(action.arguments)
            assert (action.tool, arguments.keys()) == (item["function"], item["kwargs"].keys())
            # Lists and numbers in XML are text for us; the converter loses the blanks around a value.
            assert all(bare(arguments[key]) == bare(value) for key, value in item["kwargs"].items())


def bare(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.removeprefix('"').removesuffix('"').strip()


# -- recorded readings ------------------------------------------------------------------------------------------


class Reading(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What another reader found in a file: counts, characters and tokens. ``None`` is not compared, for ``why``."""

    by: str
    replies: int | None
    calls: int | None
    results: int | None
    said: int | None
    seen: int | None
    prompt: int | None
    completion: int | None
    why: str | None = None


READINGS = msgspec.json.decode((FIXTURES / "peers" / "readings.json").read_bytes(), type=dict[str, Reading])


@pytest.mark.parametrize("name", READINGS)
def test_counts_characters_and_tokens_are_those_of_the_recorded_reading(name: str, corpus: Path) -> None:
    steps = [step for run in ours(corpus / name) for step in run.steps]
    seen = [seen for step in steps for seen in step.observations if seen.missing in (None, "not_executed")]
    usage = [step.usage for step in steps if step.usage is not None]
    mine = {
        "replies": len(steps),
        "calls": sum(len(step.actions) for step in steps),
        "results": len(seen),
        "said": sum(len(step.text) for step in steps),
        "seen": sum(len(result.text) for result in seen),
        "prompt": sum(tokens.prompt or 0 for tokens in usage),
        "completion": sum(tokens.completion or 0 for tokens in usage),
    }
    other = {field: getattr(READINGS[name], field) for field in mine}
    assert {field: count for field, count in mine.items() if other[field] is not None} == {
        field: count for field, count in other.items() if count is not None
    }


def test_what_is_not_compared_has_a_reason() -> None:
    for reading in READINGS.values():
        assert (None in msgspec.structs.astuple(reading)[1:-1]) == (reading.why is not None)


# -- harbor -----------------------------------------------------------------------------------------------------


def test_harbor_takes_every_run_that_we_export() -> None:
    """With its own models, where they are installed (Python 3.12): each fixture's run as a predecessor."""
    models = pytest.importorskip("harbor.models.trajectories", reason="harbor is not installed in this environment")
    taken = 0
    for path in (path for adapter in ADAPTERS for path in sorted((FIXTURES / adapter.format).glob("*.*"))):
        for run in ours(path) if path.suffix != ".md" else ():
            trajectory = models.Trajectory.model_validate_json(exported(run))
            copied = [step for step in trajectory.steps if step.source == "agent" and step.is_copied_context]
            assert [len(step.tool_calls or ()) for step in copied] == [len(step.actions) for step in run.steps]
            taken += 1
    assert taken > 50


def exported(run: Trajectory) -> bytes:
    origin = Origin(trajectory_id="t", point_id="p", view_id="v", view="trace", h=len(run.steps), split="train")
    briefing = Briefing(task=run.task, view="trace", view_text="", preamble="You take over.", tools="[]")
    last = Step(actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(text="ok"),))
    ((_, row),) = AtifExporter().rows(sft_sample(origin, briefing, [last]), lambda _, h: list(run.steps), Counter())
    return msgspec.json.encode(row)
