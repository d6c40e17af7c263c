"""ATIF documents: what each feature of the format means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handoff import adapters
from handoff.adapters import Record
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.framing.losses import UPKEEP
from handoff.trajectory import Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "atif"


def record(name: str) -> Record:
    (found,) = SourceFile(FIXTURES / f"{name}.json")
    assert isinstance(found, Record)
    return found


def runs(name: str) -> tuple[Trajectory, ...]:
    return tuple(adapters.convert(record(name)))


def changed(name: str, change: Callable[[dict[str, Any]], object]) -> Record:
    value = json.loads((FIXTURES / f"{name}.json").read_text())
    change(value)
    return Record(json.dumps(value).encode())


def test_parallel_results_are_joined_by_id_whatever_their_order() -> None:
    step = runs("native")[0].steps[0]
    assert [a.call_id for a in step.actions] == ["c1", "c2", "c3"]
    assert [(s.call_id, s.text.split("\n")[0], s.exit_code, s.error) for s in step.observations] == [
        ("c1", "def pages(n, size):", None, None),
        ("c2", "pager", None, None),
        ("c3", "1 failed", 1, True),
    ]


def test_reasoning_model_tokens_cost_and_time_are_those_of_the_step() -> None:
    step = runs("native")[0].steps[0]
    assert (step.thought, step.text, step.model) == ("The division rounds down.", "Look first.", "some-model-2")
    assert (step.usage, step.cost) == (Usage(prompt=520, cached=200, completion=80), 0.00045)
    assert step.timestamp == "2026-01-05T10:00:02Z"


def test_pictures_are_named_and_not_opened() -> None:
    run = runs("native")[0]
    assert run.task == "The last page is lost, see the picture.\n[image: images/before.png]"


def test_system_steps_after_the_prompt_are_the_scaffolds_with_what_they_saw() -> None:
    run = runs("native")[0]
    assert [(m.role, m.text[:9]) for m in run.preamble] == [
        ("system", "You fix b"),
        ("user", "The last "),
        ("harness", "Added wor"),
        ("harness", "README.md"),
    ]


def test_prompts_to_go_on_are_no_human_guidance() -> None:
    """T23."""
    assert [m.role for m in runs("native")[0].steps[1].after] == ["harness"]


def test_an_embedded_subagent_is_a_run_of_its_own() -> None:
    """T20: its edits fall between the call and the result of its parent."""
    found = record("native")
    main, child = adapters.convert(found)
    assert (main.session, child.session, child.parent) == ("s-main", "s-child", "s-main")
    assert json.loads(main.source)["subagents"] == [{"step": 2, "session": "s-child"}]
    assert [p.field for p in found.problems] == ["$.subagent_trajectories[1].steps"]


def test_a_step_without_a_model_call_is_told() -> None:
    assert json.loads(runs("native")[0].source)["llm_call_counts"] == {"3": 0}


def test_a_finishing_call_ends_the_run_and_says_nothing_of_success() -> None:
    outcome = runs("native")[0].outcome
    assert (outcome.ended, outcome.resolved) == ("submitted", None)


def test_what_has_no_home_is_counted_and_no_secret_is_read() -> None:
    """T24."""
    found = record("native")
    adapters.convert(found)
    losses = dict(found.losses())
    assert losses.pop(("$.final_metrics.total_steps", UPKEEP)) == 1
    assert sorted(path for path, _ in losses) == [
        "$.agent.extra.api_key",
        "$.steps[].metrics.completion_token_ids",
        "$.steps[].metrics.extra",
        "$.steps[].metrics.logprobs",
        "$.steps[].reasoning_effort",
    ]


def test_one_screen_for_several_keystrokes_stands_at_the_last() -> None:
    run = runs("terminus")[0]
    first, last = run.steps[1].observations
    assert (first.missing, last.missing) == ("none", None)
    assert "1 failed" in last.text
    typed, complete = run.steps[3].observations
    assert (typed.missing, complete.missing) == (None, "none")


def test_a_reply_that_could_not_be_parsed_has_no_result() -> None:
    """T23: the scaffold's complaint is no observation."""
    step = runs("terminus")[0].steps[0]
    assert step.actions == ()
    assert step.observations == ()
    assert [m.role for m in step.after] == ["harness"]


def test_compaction_is_a_boundary_and_its_summary_no_task() -> None:
    """T7."""
    run = runs("terminus")[0]
    assert [step.boundary for step in run.steps] == [None, None, "compaction", None, None]
    assert [m.role for m in run.steps[2].after] == ["harness", "harness", "context_summary"]
    assert json.loads(run.source)["subagents"][0]["session"] == "s-term-summarization-1-summary"


def test_a_completion_that_was_only_asked_for_is_no_end() -> None:
    assert runs("terminus")[0].outcome.ended == "submitted"
    (run,) = adapters.convert(changed("terminus", lambda v: v["steps"].pop()))
    assert run.outcome.ended is None


def test_copied_context_is_counted_and_the_run_before_is_named() -> None:
    """T6: repeated replies are context here, and were paid for where they were made."""
    (run,) = runs("continued")
    assert (run.copied_steps, run.session, run.continues) == (1, "s-line-cont-1", "s-line")
    assert [m.role for m in run.preamble] == ["user", "context_summary"]
    assert [m.role for m in run.steps[0].after] == ["context_summary"]
    assert run.outcome.ended is None
    assert json.loads(run.source)["continued_in"] == "trajectory.cont-2.json"


def test_copied_context_after_a_new_reply_does_not_lead() -> None:
    def copy_last(value: dict[str, Any]) -> None:
        value["steps"][2].pop("is_copied_context")
        value["steps"][4]["is_copied_context"] = True

    (run,) = adapters.convert(changed("continued", copy_last))
    assert run.copied_steps == 0


def test_keystrokes_in_the_text_of_a_reply_are_calls() -> None:
    """T14."""
    (run,) = runs("continued")
    step = run.steps[1]
    assert [(a.tool, json.loads(a.arguments)["keystrokes"]) for a in step.actions] == [
        ("bash_command", "git diff\n"),
        ("bash_command", "pytest -q\n"),
    ]
    assert step.text == "Analysis: Known.\nPlan: Fix it."


def test_function_tags_in_the_text_of_a_reply_are_calls() -> None:
    """T14, T16: the exit code stands in the tool's last line."""
    (run,) = runs("no_function_calling")
    assert [step.actions[0].tool for step in run.steps] == ["execute_bash", "finish"]
    assert run.steps[0].observations[0].exit_code == 0


def test_sidechain_steps_are_apart_from_the_main_line() -> None:
    """T20: the converter puts them first, so the task would be a subagent's."""
    main, side = runs("claude_code_by_harbor")
    assert (main.task, side.task) == ("Fix the pager.", "Find the tests.")
    assert (side.parent, side.session) == ("s-cc", None)
    assert [a.tool for step in main.steps for a in step.actions] == ["Task", "Bash"]
    assert main.steps[1].observations[0].error is True


def test_results_that_fit_no_call_are_orphans() -> None:
    """Three calls, two results without ids: nothing says which is whose."""

    def strip(value: dict[str, Any]) -> None:
        results = value["steps"][3]["observation"]["results"]
        for result in results:
            del result["source_call_id"]
        results.pop()

    run = adapters.convert(changed("native", strip))[0]
    seen = run.steps[0].observations
    assert [(s.missing, s.is_orphan) for s in seen] == [("none", False)] * 3 + [(None, True)] * 2


def test_a_document_of_missing_steps_says_where_they_break() -> None:
    run = adapters.convert(changed("native", lambda v: v["steps"].pop(4)))[0]
    assert json.loads(run.source)["step_ids_break_at"] == 5


@pytest.mark.parametrize("count", [1, 3])
def test_a_document_without_a_task_or_a_reply_is_refused(count: int) -> None:
    with pytest.raises(RecordError) as caught:
        adapters.convert(changed("native", lambda v: v.update(steps=v["steps"][:count])))
    assert caught.value.field == "$.steps"


@pytest.mark.parametrize("value", ["{", [1], 3, None, {"": None}])
def test_arguments_of_any_shape_are_kept(value: object) -> None:
    """T22."""

    def swap(document: dict[str, Any]) -> None:
        document["steps"][3]["tool_calls"][0]["arguments"] = value

    action = adapters.convert(changed("native", swap))[0].steps[0].actions[0]
    assert action.is_text == (not isinstance(value, dict) and value is not None)


def test_an_unknown_source_is_refused_with_its_place() -> None:
    with pytest.raises(RecordError) as caught:
        adapters.convert(changed("native", lambda v: v["steps"][2].update(source="wizard")))
    assert caught.value.field == "$.steps[2].source"


def test_documents_of_the_corpus_reconcile(corpus: Path) -> None:
    """Agent steps are steps, calls are calls; a plain reading of the same file is the reference."""
    for path in sorted((corpus / "atif").glob("*.trajectory*.json")):
        value = json.loads(path.read_text())
        (found,) = SourceFile(path)
        assert isinstance(found, Record)
        (run,) = adapters.convert(found)
        agent = [step for step in value["steps"] if step["source"] == "agent"]
        assert len(run.steps) == len(agent)
        native = [call for step in agent for call in step.get("tool_calls", ())]
        if native:
            assert [a.tool for s in run.steps for a in s.actions] == [call["function_name"] for call in native]
        copied = [step.get("is_copied_context", False) for step in agent]
        assert run.copied_steps == sum(copied)
        spent = sum(step.get("metrics", {}).get("completion_tokens", 0) for step in agent)
        assert sum(step.usage.completion or 0 for step in run.steps if step.usage) == spent
