"""Our reading beside an independent one: agentpile reads Claude Code sessions, OpenAI-style messages and ATIF.

Both are reduced to the same small shape (calls with name, arguments and result, in order). Where they differ on
purpose, the difference is stated here and taken out before comparing; nothing else may differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import agentpile

from handoff.adapters import convert
from handoff.framing import Record, SourceFile
from handoff.trajectory import Trajectory

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
