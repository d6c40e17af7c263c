"""What Aider's chat history means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.trajectory import Action, Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "aider"
START = "\n# aider chat started at 2025-03-02 09:00:00\n\n> Main model: m with diff edit format  \n"


def read(name: str) -> tuple[Record, list[Trajectory]]:
    (item,) = SourceFile(FIXTURES / name)
    assert isinstance(item, Record)
    return item, list(convert(item))


def chat(reply: str, *told: str, asked: str = "Fix it.") -> Trajectory:
    text = START + f"\n#### {asked}  \n\n{reply}\n\n" + "".join(f"> {line}  \n" for line in told)
    (run,) = convert(Record(text.encode(), form="text"))
    return run


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE"


def arguments(action: Action) -> dict[str, str]:
    found: dict[str, str] = json.loads(action.arguments)
    return found


def test_every_chat_with_a_reply_is_a_run() -> None:
    record, runs = read("acme__pager-7.markdown")
    assert [run.model for run in runs] == ["gpt-4o", "claude-3-opus"]
    assert {(run.task_id, run.repo) for run in runs} == {("acme__pager-7", "acme/pager")}
    assert record.losses()["(chat without a reply)", None] == 1


def test_marks_inside_what_is_said_are_text() -> None:
    _, (run, _) = read("acme__pager-7.markdown")
    assert run.task.split("\n")[2:4] == ["# steps", "> pages(3, 2) gives 1"]
    assert run.steps[0].text == "# Plan\n\nPlease add `pager/core.py`.\n> it holds the division"


def test_an_edit_happened_when_the_client_says_so() -> None:
    """T11, T14: block by block, where one of two did not match."""
    _, (run, _) = read("acme__pager-7.markdown")
    step = run.steps[1]
    assert [arguments(action)["path"] for action in step.actions] == ["pager/core.py", "README.md"]
    assert [seen.error for seen in step.observations] == [False, True]
    assert step.text == "I round up, and say so.\n\n\n\nBoth are done."
    assert [message.role for message in step.after] == ["harness"]
    assert run.steps[2].observations[0].text == "Applied edit to README.md"


def test_a_block_that_does_not_end_is_no_edit() -> None:
    _, (run, _) = read("acme__pager-7.markdown")
    assert run.steps[3].actions == ()
    assert run.outcome.ended == "step_limit"


def test_tokens_and_cost_stand_before_the_reply_or_after_it() -> None:
    _, (run, _) = read("acme__pager-7.markdown")
    assert run.steps[0].usage == Usage(prompt=1204, completion=91)
    assert run.steps[0].cost == 0.0061
    _, (later,) = read("history.markdown")
    assert later.steps[0].usage == Usage(prompt=4100, completion=203)
    assert later.steps[1].usage is None, "the second reply to a message is counted with the first"


def test_only_the_chosen_try_has_a_verdict_and_answers_stay_out() -> None:
    """T2."""
    record, (first, second) = read("acme__pager-7.markdown")
    assert (first.outcome.resolved, second.outcome.resolved) == (None, True)
    assert "-(-n // size)" in (first.outcome.patch or "")
    assert "(n + size - 1)" in (second.outcome.patch or "")
    assert ("(run record).gold_files", "answers and evaluation: kept out on purpose") in record.losses()


def test_a_record_of_one_try_speaks_of_the_only_chat(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(START + "\n#### Fix it.  \n\nDone.\n\n")
    (tmp_path / "a.json").write_text(json.dumps({"model_patch": "diff", "resolved": True}))
    (item,) = SourceFile(tmp_path / "a.md")
    assert isinstance(item, Record)
    (run,) = convert(item)
    assert (run.outcome.resolved, run.outcome.patch) == (True, "diff")


def test_a_planner_and_an_editor_are_two_models() -> None:
    """T19."""
    _, (run,) = read("history.markdown")
    assert [step.model for step in run.steps] == ["o3-mini", "gpt-4o", "gpt-4o", "gpt-4o"]
    assert run.steps[1].boundary == "agent_switch"


def test_whole_files_diffs_patches_and_commands() -> None:
    """T14: the format that the client names decides."""
    _, (run,) = read("history.markdown")
    assert [action.tool for step in run.steps for action in step.actions] == [
        "write_file",
        "udiff",
        "bash",
        "apply_patch",
    ]
    assert arguments(run.steps[1].actions[0])["content"].endswith("return -(-n // size)\n")
    assert run.steps[2].actions[0].arguments.startswith("--- README.md\n+++ README.md\n@@")
    assert [seen.missing for seen in run.steps[2].observations] == [None, "none"]


def test_commands_to_the_client_are_no_requests() -> None:
    """T23."""
    _, (run,) = read("history.markdown")
    assert run.task == "Round up, and run the tests."
    assert "/add README.md" in [message.text for message in run.preamble if message.role == "harness"]


@pytest.mark.parametrize(
    ("above", "path"),
    [
        ("core.py\n```python\n", "core.py"),
        ("**core.py**\n", "core.py"),
        ("```python\ncore.py\n", "core.py"),
        ("```src/core.py\n", "src/core.py"),
        ("`core.py`:\n<source>\n", "core.py"),
        ("```\n", ""),
    ],
)
def test_the_path_stands_above_the_block(above: str, path: str) -> None:
    (action,) = chat(above + block("a\n", "b\n")).steps[0].actions
    assert arguments(action) == {"path": path, "search": "a\n", "replace": "b\n"}


def test_a_second_block_without_a_path_goes_on_in_the_same_file() -> None:
    run = chat("core.py\n```\n" + block("a\n", "b\n") + "\n```\n\n```\n" + block("c\n", "d\n") + "\n```")
    assert [arguments(action)["path"] for action in run.steps[0].actions] == ["core.py", "core.py"]


def test_an_edit_that_nothing_confirms_is_unknown() -> None:
    run = chat("core.py\n" + block("a\n", "b\n"), "Tokens: 2.0k sent, 10 received.")
    assert run.steps[0].observations[0].missing == "none"
    run = chat("core.py\n" + block("a\n", "b\n"), "The LLM did not conform to the edit format.", "Bad fence")
    assert run.steps[0].observations[0].error is True


def test_a_later_clients_failure_is_printed_without_marks() -> None:
    failure = "\n\n## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in core.py\n"
    end = "\nJust reply with fixed versions of the block above that failed to match.  \n"
    reply = "core.py\n" + block("a\n", "b\n")
    text = START + f"\n#### Fix it.  \n\n{reply}\n\n> # 1 SEARCH/REPLACE block failed to match!  \n"
    text += failure + block("a\n", "b\n") + end + f"\n{reply}\n\n> Applied edit to core.py  \n"
    (run,) = convert(Record(text.encode(), form="text"))
    assert [step.observations[0].error for step in run.steps] == [True, False]


def test_a_file_without_any_reply_is_refused() -> None:
    with pytest.raises(RecordError, match="reply"):
        convert(Record((START + "\n#### Fix it.  \n").encode(), form="text"))


def test_the_real_chats_reconcile(corpus: Path) -> None:
    found = {}
    for path in sorted((corpus / "aider").glob("*.md")):
        (item,) = SourceFile(path)
        assert isinstance(item, Record)
        runs = convert(item)
        found[path.stem] = [len(run.steps) for run in runs]
        result = json.loads(path.with_suffix(".json").read_bytes())
        for run, attempt in zip(runs, result["all_results"], strict=True):
            assert sum(step.cost or 0 for step in run.steps) == pytest.approx(attempt["cost"])
        assert [run.outcome.resolved for run in runs].count(False) == 1
    assert found == {
        "astropy__astropy-12907": [2],
        "astropy__astropy-14182": [5, 5],
        "pydata__xarray-4248": [5, 2],
        "pytest-dev__pytest-11148": [1, 1, 1, 1, 1, 1],
    }
