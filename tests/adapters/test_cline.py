"""What sessions of the Cline SDK and tasks of the older extension mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handoff.adapters import Record, convert
from handoff.errors import RecordError
from handoff.framing import SourceFile
from handoff.trajectory import Trajectory, Usage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
ENVIRONMENT = "<environment_details>\n# Current Mode\nACT MODE\n</environment_details>"


def read(name: str) -> Trajectory:
    (item,) = SourceFile(FIXTURES / name)
    assert isinstance(item, Record)
    (run,) = convert(item)
    return run


def task(*turns: tuple[str, str]) -> Trajectory:
    """A task of the older extension in which every turn has one text."""
    first = ("user", f"<task>\nFix it.\n</task>\n{ENVIRONMENT}")
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in (first, *turns)]
    (run,) = convert(Record(json.dumps(messages).encode()))
    return run


class TestSession:
    def test_operations_are_unwrapped_and_tell_their_success(self) -> None:
        """T16, T22: as a list, as text that holds a list, and as plain text."""
        steps = read("cline/run.messages.json").steps
        assert [seen.call_id for seen in steps[0].observations] == ["c1", "c2"]
        assert [seen.error for seen in steps[0].observations] == [False, True]
        assert steps[0].observations[0].text.startswith("core.py\n1 | def pages")
        assert steps[0].observations[1].text == "1 failed\nCommand exited with code 1"
        assert steps[1].observations[0].text == "Edited core.py"
        assert (steps[3].observations[0].text, steps[3].observations[0].error) == ("Tool failed before it ran.", True)

    def test_attached_files_and_images_stand_in_the_task(self) -> None:
        run = read("cline/run.messages.json")
        assert '<file_content path="/home/dev/pager/core.py">' in run.task
        assert "[image: image/png, sha256 " in run.task

    def test_the_record_beside_it_tells_fork_and_end(self) -> None:
        """T6: what a fork repeats was paid for elsewhere."""
        run = read("cline/run.messages.json")
        assert (run.continues, run.copied_steps) == ("1767607200000_aaaaa", 3)
        assert (run.outcome.exit_status, run.outcome.ended) == ("failed", "cut_off")

    def test_a_record_of_another_session_says_nothing(self, tmp_path: Path) -> None:
        for name in ("run.messages.json", "run.json"):
            data = (FIXTURES / "cline" / name).read_bytes()
            (tmp_path / name).write_bytes(data.replace(b'"session_id": "17', b'"session_id": "18'))
        (item,) = SourceFile(tmp_path / "run.messages.json")
        assert isinstance(item, Record)
        (run,) = convert(item)
        assert (run.continues, run.copied_steps, run.outcome.exit_status) == (None, 0, None)

    def test_a_compaction_beside_it_is_placed_by_its_count(self) -> None:
        """T7."""
        step = read("cline/run.messages.json").steps[2]
        assert step.boundary == "compaction"
        assert [message.role for message in step.after] == ["user", "context_summary"]

    def test_a_compaction_alone_is_no_run(self) -> None:
        summary = {"role": "user", "content": "Summary", "metadata": {"kind": "compaction_summary"}}
        file = {"sessionId": "1", "agent": "lead", "messages": [summary, {"role": "assistant", "content": "ok"}]}
        with pytest.raises(RecordError, match="compaction"):
            convert(Record(json.dumps(file).encode()))

    def test_the_model_is_each_replys_own(self) -> None:
        """T19: the session's record names a model that never replied."""
        run = read("cline/run.messages.json")
        assert run.model == "anthropic/claude-opus-4.8-fast"
        assert run.steps[3].model == "mistralai/voxtral-small-24b-2507"
        assert run.steps[0].usage == Usage(prompt=900, cached=700, completion=40)

    def test_notices_of_the_client_are_not_the_humans(self) -> None:
        """T23."""
        assert [message.role for message in read("cline/run.messages.json").steps[3].after] == ["harness"]

    def test_the_real_session_reconciles(self, corpus: Path) -> None:
        (item,) = SourceFile(corpus / "cline" / "session.messages.json")
        assert isinstance(item, Record)
        (run,) = convert(item)
        assert (len(run.steps), sum(len(step.actions) for step in run.steps)) == (16, 11)
        assert run.copied_steps == 16
        assert run.steps[14].boundary == "agent_switch"
        assert [path for path, reason in item.losses() if reason is None] == ["$.messages[].metrics.cacheWriteTokens"]


@pytest.mark.parametrize("name", ["cline/run.json", "cline/run.compaction.json", "cline_classic/task_metadata.json"])
def test_what_only_describes_a_run_gives_no_record(name: str) -> None:
    source = SourceFile(FIXTURES / name)
    assert list(source) == []
    assert source.framing == "side file"


class TestClassic:
    def test_calls_are_tags_with_parameters(self) -> None:
        """T14: a value may hold tags of its own name, and the last end tag may be missing."""
        steps = read("cline_classic/tags.json").steps
        assert [step.actions[0].tool for step in steps if step.actions] == [
            "read_file",
            "write_to_file",
            "replace_in_file",
            "execute_command",
            "attempt_completion",
        ]
        assert "# <content> and </content> are text here" in json.loads(steps[1].actions[0].arguments)["content"]
        assert json.loads(steps[5].actions[0].arguments) == {"result": "The pager rounds up."}
        assert (steps[0].thought, steps[0].text) == ("Read first.", "I read the pager.")

    def test_results_stand_under_labels_in_one_part_or_two(self) -> None:
        steps = read("cline_classic/tags.json").steps
        assert steps[0].observations[0].text.startswith("def pages")
        assert steps[3].observations[0].text.startswith("The content was successfully saved")
        assert (steps[4].observations[0].exit_code, steps[4].observations[0].error) == (1, None)

    def test_a_refused_edit_did_not_happen(self) -> None:
        """T11: what the human said about it stays."""
        step = read("cline_classic/tags.json").steps[1]
        assert step.observations[0].missing == "not_executed"
        assert [message.role for message in step.after] == ["user", "harness"]

    def test_the_client_is_not_the_human(self) -> None:
        """T23."""
        run = read("cline_classic/tags.json")
        assert run.task == "<task>\nThe last page is lost. Fix it.\n</task>"
        assert [message.role for message in run.steps[2].after] == ["harness", "harness"]

    def test_the_notes_name_repository_and_commit(self) -> None:
        """T17: only where the client wrote one of each."""
        run = read("cline_classic/tags.json")
        assert (run.repo, run.base_commit) == ("acme/pager", "0123456789abcdef0123456789abcdef01234567")
        assert json.loads(run.source)["version"] == "3.51.0"
        assert run.outcome.ended == "submitted"

    def test_native_calls_have_their_results_as_text_in_order(self) -> None:
        """T8: no result names its call."""
        steps = read("cline_classic/native.json").steps
        assert [seen.call_id for seen in steps[0].observations] == ["toolu_1", "toolu_2"]
        assert [seen.error for seen in steps[0].observations] == [None, True]
        assert steps[0].usage == Usage(prompt=9010, completion=50)
        assert steps[2].observations[0].text == "Command executed."

    def test_summary_and_resumption_are_boundaries(self) -> None:
        """T7."""
        steps = read("cline_classic/native.json").steps
        assert [step.boundary for step in steps] == [None, "compaction", "resume", None]
        assert steps[1].after[0].role == "context_summary"
        assert "Go on." in next(message.text for message in steps[2].after if message.role == "user")

    def test_what_the_interface_showed_is_refused_once(self, tmp_path: Path) -> None:
        shown = [{"ts": 1, "type": "say", "say": "task", "text": "Fix it."}, {"ts": 2, "type": "ask", "ask": "command"}]
        (tmp_path / "ui_messages.json").write_text(json.dumps(shown))
        (item,) = SourceFile(tmp_path / "ui_messages.json")
        assert isinstance(item, Record)
        with pytest.raises(RecordError, match="cline_classic"):
            convert(item)

    def test_an_endless_row_of_open_tags_is_one_call(self) -> None:
        (action,) = task(("assistant", "<read_file>\n<path>" * 20_000)).steps[0].actions
        assert action.tool == "read_file"
