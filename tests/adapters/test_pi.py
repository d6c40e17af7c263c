"""What pi sessions mean."""

from __future__ import annotations

import json
from pathlib import Path

from handoff.adapters import Record, convert
from handoff.framing import SourceFile
from handoff.trajectory import Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "pi"
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/home/dev"}


def record(name: str) -> Record:
    (item,) = SourceFile(FIXTURES / name)
    assert isinstance(item, Record)
    return item


def read(name: str) -> Trajectory:
    (run,) = convert(record(name))
    return run


def session(*lines: dict[str, object]) -> Trajectory:
    (run,) = convert(Record(b"\n".join(json.dumps(line).encode() for line in (HEADER, *lines)), form="lines"))
    return run


def said(role: str, content: object = "", **fields: object) -> dict[str, object]:
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}


def test_results_are_joined_by_id_and_state_their_exit_code_in_their_text() -> None:
    """T16: only a failed command tells a code."""
    step = read("tree.jsonl").steps[0]
    assert [seen.call_id for seen in step.observations] == ["c1", "c2"]
    assert [(seen.exit_code, seen.error) for seen in step.observations] == [(None, False), (1, True)]
    assert step.thought == "Look at the pager first."
    assert step.usage == Usage(prompt=110, cached=100, completion=20)


def test_a_request_called_off_before_any_reply_is_not_the_task() -> None:
    run = read("tree.jsonl")
    assert run.task.startswith("The last page is lost.")
    assert [message.role for message in run.preamble] == ["user", "harness", "user"]
    assert "[image: image/png, sha256 " in run.task


def test_a_branch_takes_replies_back_and_keeps_their_edits() -> None:
    """The steps stay in the order of the edits on disk."""
    steps = read("tree.jsonl").steps
    assert steps[1].actions[0].tool == "edit"
    assert steps[2].boundary == "rollback"
    assert [message.role for message in steps[2].after] == ["context_summary", "user"]


def test_a_compaction_is_a_boundary_and_its_summary_no_request() -> None:
    """T7."""
    step = read("tree.jsonl").steps[3]
    assert step.boundary == "compaction"
    assert [message.role for message in step.after] == ["harness", "user", "context_summary", "harness"]


def test_calls_that_did_not_run_say_so() -> None:
    """T11: skipped for a queued message, or in a reply that broke off."""
    steps = read("tree.jsonl").steps
    assert [seen.missing for seen in steps[3].observations] == [None, "not_executed"]
    assert [seen.missing for seen in steps[4].observations] == ["not_executed", "not_executed"]
    assert steps[4].after[0].text == "overloaded"


def test_another_model_is_a_boundary() -> None:
    """T19: the model is each reply's own."""
    steps = read("tree.jsonl").steps
    assert steps[4].boundary == "agent_switch"
    assert [step.model for step in steps[4:6]] == ["claude-sonnet-4-5", "gpt-5.1-codex"]


def test_a_result_without_its_call_is_an_orphan_and_a_half_line_a_problem() -> None:
    """T21, S1."""
    found = record("tree.jsonl")
    (run,) = convert(found)
    assert [seen.call_id for seen in run.steps[5].observations if seen.is_orphan] == ["c9"]
    assert [problem.record for problem in found.problems] == [23]
    assert found.losses()["$[type=novelty]", None] == 1


def test_repeated_entries_count_once() -> None:
    """T6, S2: a rewritten file may hold its entries twice."""
    lines = [json.loads(line) for line in record("fork.jsonl").data.splitlines()]
    once, twice = session(*lines[1:]), session(*lines[1:], *lines[1:])
    assert once == twice


def test_a_fork_names_its_origin_and_how_much_it_copied() -> None:
    run = read("fork.jsonl")
    assert run.continues == "5d0c1f0a-7b1e-4a53-9c86-2f6f1d9a0b11"
    assert (run.copied_steps, len(run.steps)) == (2, 3)
    assert run.outcome.ended == "cut_off"


def test_the_first_version_has_no_tree() -> None:
    run = read("linear.jsonl")
    assert [step.boundary for step in run.steps] == [None, None]
    assert (run.outcome.exit_status, run.outcome.ended) == ("aborted", "aborted")
    assert run.steps[1].cost is None


def test_what_the_human_ran_is_no_request_and_may_be_private() -> None:
    ran = {"command": "git status", "output": "clean", "exitCode": 0}
    run = session(
        said("user", "Fix it."),
        said("assistant", [CALL], stopReason="toolUse"),
        said("bashExecution", **ran),
        said("bashExecution", **ran, excludeFromContext=True),
    )
    assert [(m.role, m.text) for m in run.steps[0].after] == [
        ("harness", "The user ran `git status` (exit code 0):\nclean")
    ]


def test_an_odd_usage_costs_the_usage_only() -> None:
    """T22."""
    run = session(said("user", "Fix it."), said("assistant", [CALL], usage="many", details=[]))
    assert run.steps[0].usage is None
    assert run.steps[0].actions[0].call_id == "c1"


def test_the_real_session_reconciles(corpus: Path) -> None:
    (item,) = SourceFile(corpus / "pi" / "large-session.jsonl")
    assert isinstance(item, Record)
    (run,) = convert(item)
    seen = [observation for step in run.steps for observation in step.observations]
    assert (len(run.steps), len(seen)) == (439, 391)
    assert sum(observation.missing == "not_executed" for observation in seen) == 18
    assert not any(observation.is_orphan for observation in seen)
    parts = {f"$.message.usage.cost.{part}" for part in ("input", "output", "cacheRead", "cacheWrite")}
    assert {path for path, reason in item.losses() if reason is None} == {"$[type=thinking_level_change]", *parts}
