"""OpenHands rows: what a benchmark or a resolver writes around the events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import SEALED, UPKEEP
from handoff.trajectory import Trajectory, Usage

ROWS = Path(__file__).resolve().parent.parent / "fixtures" / "openhands_output" / "rows.jsonl"
BENCHMARK, RESOLVER, SDK = (json.loads(line) for line in ROWS.read_text().splitlines())


def record(row: dict[str, Any], **fields: Any) -> Record:
    return Record(json.dumps({**row, **fields}).encode(), file="output.jsonl")


def read(row: dict[str, Any], **fields: Any) -> Trajectory:
    (run,) = convert(record(row, **fields))
    return run


def test_every_line_is_a_record() -> None:
    found = [item for item in SourceFile(ROWS) if isinstance(item, Record)]
    assert [len(run.steps) for item in found for run in convert(item)] == [2, 4, 2]


def test_facts_of_the_task_come_from_the_row() -> None:
    run = read(BENCHMARK)
    assert (run.task_id, run.repo, run.split, run.model) == ("acme__pager-17", "acme/pager", "test", "acme/coder-1")
    assert run.base_commit == "0123456789abcdef0123456789abcdef01234567"
    source = json.loads(run.source)
    assert (source["instance_id"], source["max_iterations"]) == ("acme__pager-17_2", 3)
    assert source["git_commit"] != run.base_commit


@pytest.mark.parametrize("row", [BENCHMARK, SDK], ids=["benchmark", "sdk"])
def test_hidden_tests_answers_and_keys_stay_out(row: dict[str, Any]) -> None:
    """T2 and T24: of the data set's row only the repository and its commit are read."""
    found = record(row)
    text = str(convert(found))
    assert "test_hidden" in json.dumps(row)
    for planted in ("test_hidden", "sk-SECRET", "FAIL_TO_PASS", "problem_statement"):
        assert planted not in text
    losses = found.losses()
    assert losses["$.instance", SEALED] == 1
    assert {losses["$.metadata.llm_config", UPKEEP], losses["$.metadata.llm", UPKEEP]} == {0, 1}


def test_tokens_and_prices_are_joined_by_response_id() -> None:
    steps = read(BENCHMARK).steps
    assert [step.usage for step in steps] == [
        Usage(prompt=300, cached=0, completion=20),
        Usage(prompt=400, cached=290, completion=30),
    ]
    assert [step.cost for step in steps] == [0.01, 0.02]


def test_one_price_for_each_reply_is_theirs_in_order_and_else_only_the_sum_is_known() -> None:
    assert [step.cost for step in read(RESOLVER).steps] == [0.01, 0.02, 0.03, 0.04]
    run = read(RESOLVER, metrics={"accumulated_cost": 0.1, "costs": [0.04, 0.06]})
    assert {step.cost for step in run.steps} == {None}
    assert json.loads(run.source)["total_cost"] == 0.1
    metrics = {**BENCHMARK["metrics"], "token_usages": BENCHMARK["metrics"]["token_usages"][:1]}
    assert {step.cost for step in read(BENCHMARK, metrics=metrics).steps} == {None}


@pytest.mark.parametrize(
    ("result", "resolved"),
    [
        ({"report": {"resolved": True, "error_eval": False}}, True),
        ({"report": {"resolved": False}}, False),
        ({"report": {"resolved": False, "error_eval": True}}, None),
        ({"git_patch": "diff --git a/a b/a"}, None),
    ],
)
def test_only_an_evaluation_that_worked_says_whether_it_was_solved(result: Any, resolved: bool | None) -> None:
    assert read(BENCHMARK, test_result=result).outcome.resolved is resolved


def test_a_report_may_stand_in_the_row() -> None:
    assert read(BENCHMARK, test_result={}, report={"resolved": True}).outcome.resolved is True


def test_a_model_s_opinion_is_not_success() -> None:
    run = read(RESOLVER)
    assert run.outcome.resolved is None
    assert json.loads(run.source)["judged_success"] is True
    assert "result_explanation" not in run.source


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        ("RuntimeError: Agent reached maximum iteration. Current iteration: 50, max iteration: 50", "step_limit"),
        ("RuntimeError: Agent reached maximum budget for conversation.", "cost_limit"),
        ("AgentStuckInLoopError: Agent got stuck in a loop", "error"),
        ("LLMContextWindowExceedError: Conversation history longer than LLM context window limit", "context_limit"),
    ],
)
def test_the_row_s_error_is_how_it_ended(error: str, ended: str) -> None:
    outcome = read(BENCHMARK, error=error).outcome
    assert (outcome.exit_status, outcome.ended) == (error, ended)


def test_events_of_the_oldest_form_pair_with_what_follows_them() -> None:
    """No ids, no ``args``, no ``extras``: fields stand in the event."""
    run = read(RESOLVER)
    assert [[(a.call_id, a.tool, a.arguments) for a in step.actions] for step in run.steps] == [
        [(None, "run", '{"command":"touch LICENSE"}')],
        [],
        [(None, "run_ipython", "{\"code\":\"edit_file_by_replace('LICENSE', '', 'MIT License')\"}")],
        [(None, "finish", '{"outputs":{}}')],
    ]
    assert run.steps[0].observations[0].exit_code == 0
    assert run.steps[0].observations[0].text == "\r\nroot@b0x:/workspace # "
    assert run.steps[2].observations[0].text.startswith("[File: /workspace/LICENSE")
    assert run.steps[3].text == "The licence is added."


def test_who_speaks_is_known_without_a_source() -> None:
    """T23: the agent waits for an answer; what answers is the harness."""
    step = read(RESOLVER).steps[1]
    assert step.text == "Shall I write it?"
    assert [m.role for m in step.after] == ["harness"]


def test_an_issue_names_the_task_and_no_commit_is_no_commit() -> None:
    """T17: the resolver writes an empty base commit."""
    run = read(RESOLVER)
    assert (run.task_id, run.repo, run.base_commit) == ("acme/viewer#5", "acme/viewer", None)
    assert "base_ref" not in json.loads(run.source)
    assert (run.outcome.patch or "").startswith("diff --git a/LICENSE b/LICENSE\r\n")


def test_a_branch_is_no_base_commit() -> None:
    """T17"""
    run = read(SDK)
    assert run.base_commit is None
    assert json.loads(run.source)["base_ref"] == "acme__pager.0123abcd.pr_7"


def test_events_in_pairs_are_read_in_order() -> None:
    first, *rest = BENCHMARK["history"]
    pairs = [[first], *[rest[at : at + 2] for at in range(0, len(rest), 2)]]
    assert read(BENCHMARK, history=pairs).steps == read(BENCHMARK).steps


@pytest.mark.parametrize("row", [BENCHMARK, RESOLVER, SDK], ids=["benchmark", "resolver", "sdk"])
def test_history_may_be_text_in_a_column(row: dict[str, Any]) -> None:
    assert read(row, history=json.dumps(row["history"])).steps == read(row).steps


def test_results_of_other_benchmarks_lose_nothing_else() -> None:
    found = record(BENCHMARK, test_result={"git_patch": {"a": 1}, "report": "none", "score": 3})
    (run,) = convert(found)
    assert (run.outcome.patch, run.outcome.resolved) == (None, None)
    assert found.losses()["$.test_result.report", None] == found.losses()["$.test_result.score", None] == 1


def test_events_of_the_sdk_are_read_with_the_row_s_tokens() -> None:
    run = read(SDK)
    assert [step.usage for step in run.steps] == [Usage(prompt=50, cached=10, completion=5), None]
    assert run.split == "train"
    assert json.loads(run.source)["attempt"] == 2


def test_a_misfit_event_of_the_sdk_is_noted_with_its_place() -> None:
    history = [*SDK["history"], {"kind": "MessageEvent", "llm_message": 3}]
    found = record(SDK, history=history)
    assert len(convert(found)[0].steps) == 2
    (problem,) = found.problems
    assert problem.field == "$.history[4].llm_message"


@pytest.mark.parametrize("history", [None, []])
def test_a_run_that_died_before_its_first_step_is_refused_in_plain_words(history: Any) -> None:
    with pytest.raises(RecordError, match="No reply of the model"):
        read(BENCHMARK, history=history)


def test_the_instruction_stands_in_for_a_task_that_the_events_lack() -> None:
    assert read(BENCHMARK, history=BENCHMARK["history"][1:]).task == BENCHMARK["instruction"]


def test_real_rows_add_up(corpus: Path) -> None:
    """Tokens of the steps are those that the file totals."""
    path = corpus / "openhands_v0_output" / "multi_swe_bench.output.jsonl"
    for line, item in zip(path.read_text().splitlines(), SourceFile(path), strict=True):
        assert isinstance(item, Record)
        (run,) = convert(item)
        total = json.loads(line)["metrics"]["accumulated_token_usage"]
        used = [step.usage for step in run.steps if step.usage is not None]
        assert sum(usage.prompt or 0 for usage in used) == total["prompt_tokens"]
        assert sum(usage.completion or 0 for usage in used) == total["completion_tokens"]
