"""T2: answers that lie in a record reach no step and no view, whatever the format, wherever in the record they lie."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handoff.adapters import ADAPTERS, convert
from handoff.errors import RecordError
from handoff.evidence import gather_evidence
from handoff.framing import Record, SourceFile
from handoff.trajectory import Trajectory
from handoff.views import render_view, views_at

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MARK = "PLANTED-ANSWER"
LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS", "gold_files", "hidden_tests")
OBJECTS = ("test_result", "report", "scores", "verifier", "evaluation")
TEXTS = (
    *("test_patch", "gold_patch", "patch", "model_patch", "git_patch", "generated_patch", "submission", "oracle"),
    *("solution", "hints_text", "eval_logs", "eval_report", "test_output", "target", "resolved", "reward", "score"),
    *("exit_status", "explanation", "result_explanation", "test_outcome", "error_eval"),
)
ANSWERS: dict[str, Any] = {
    **{name: [MARK] for name in LISTS},
    **{name: {MARK: {MARK: MARK}} for name in OBJECTS},
    **dict.fromkeys(TEXTS, MARK),
}
"""What data sets and harnesses call answers and evaluation, in the shape that they give it."""
APART = ("arguments", "input", "args", "kwargs", "parameters", "outputs", "action", "attachments", "transcript")
"""Objects that are the agent's own words; and tables of texts by their hash."""


def planted(value: Any, names: dict[str, Any]) -> Any:
    """A copy in which every object holds the answers, and those it had are marked."""
    if isinstance(value, list):
        return [planted(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item if key in APART else planted(item, names) for key, item in value.items()}
    return kept | {name: marked(value[name]) if value.get(name) else shape for name, shape in names.items()}


def marked(value: Any) -> Any:
    """The value with the mark in place of every text in it."""
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [marked(item) for item in value]
    return MARK if isinstance(value, str) else value


def plant(path: Path, names: dict[str, Any]) -> None:
    """Plant in a file of one JSON value or of JSON lines; a line that is cut off stays as it is."""
    data = path.read_bytes()
    texts = [data] if path.suffix != ".jsonl" else data.splitlines()
    for place, text in enumerate(texts):
        try:
            texts[place] = json.dumps(planted(json.loads(text), names)).encode()
        except ValueError:
            assert path.suffix in (".jsonl", ".md", ".markdown"), path
    path.write_bytes(b"\n".join(texts))


def runs_of(folder: Path) -> list[Trajectory]:
    found: list[Trajectory] = []
    for path in sorted(folder.glob("*.*")):
        for item in SourceFile(path):
            if isinstance(item, Record):
                try:
                    found += convert(item)
                except RecordError as error:
                    assert path.suffix == ".md" or "describes" in str(error), error
    return found


@pytest.mark.parametrize("format_", [adapter.format for adapter in ADAPTERS])
def test_answers_in_a_record_are_in_no_step_and_in_no_view(format_: str, tmp_path: Path) -> None:
    # A commit's patch is what was done.
    names = {name: shape for name, shape in ANSWERS.items() if (format_, name) != ("git_branch", "patch")}
    folder = tmp_path / "planted"
    shutil.copytree(FIXTURES / format_, folder)
    for path in sorted(folder.rglob("*.*")):
        plant(path, names)
    runs = runs_of(folder)
    assert len(runs) == len(runs_of(FIXTURES / format_)) > 0
    for run in runs:
        assert MARK not in msgspec.json.encode((run.task, run.preamble, run.steps)).decode()
        for h in range(1, len(run.steps)):
            evidence = gather_evidence(run, h, None)
            for view in views_at(run, h):
                assert MARK not in render_view(view, run, h, evidence), (view, h)
