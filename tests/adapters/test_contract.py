"""What every adapter promises, checked over every fixture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from handoff.adapters import ADAPTERS, Record, convert
from handoff.corpus import files as corpus_files
from handoff.errors import RecordError
from handoff.framing import Damaged, SourceFile
from handoff.trajectory import Step, Trajectory, trajectory_id

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FORMATS = [adapter.format for adapter in ADAPTERS]


def records(format_: str) -> list[Record]:
    found = []
    for path in sorted((FIXTURES / format_).glob("*.*")):
        if path.suffix != ".md":
            found.extend(item for item in SourceFile(path) if isinstance(item, Record))
    return found


def copy_of(record: Record, data: bytes | None = None) -> Record:
    return Record(
        record.data if data is None else data,
        file=record.file,
        position=record.position,
        form=record.form,
        context=record.context,
        folder=record._folder,
    )


def steps_of(record: Record) -> list[Step]:
    return [step for run in convert(copy_of(record)) for step in run.steps]


RECORDS = [(name, record) for name in FORMATS for record in records(name)]
each = pytest.mark.parametrize(
    ("name", "record"), RECORDS, ids=[f"{Path(r.file).name}-{r.position}" for _, r in RECORDS]
)


def test_every_format_has_fixtures_and_a_readme() -> None:
    for name in FORMATS:
        assert records(name)
        assert (FIXTURES / name / "README.md").is_file()


@each
def test_an_adapter_recognises_only_its_own_format(name: str, record: Record) -> None:
    assert [adapter.format for adapter in ADAPTERS if adapter.recognises(record)] == [name]


@each
def test_conversion_is_deterministic_and_survives_encoding(name: str, record: Record) -> None:
    first, again = convert(record), convert(copy_of(record))
    assert first == again
    assert first
    for run, same in zip(first, again, strict=True):
        assert run.format == name
        assert msgspec.json.decode(msgspec.json.encode(run), type=Trajectory) == run
        assert trajectory_id(run) == trajectory_id(same)


@each
def test_the_layout_of_the_file_is_no_part_of_the_run(name: str, record: Record) -> None:
    """Indents, and lines that end as Windows ends them, are in no argument and no tool definition."""
    if record.form == "lines":
        layouts = [record.data, record.data.replace(b"\n", b"\r\n")]
    elif record.form == "json":
        layouts = [msgspec.json.format(record.data, indent=indent) for indent in (1, 4)]
    else:
        pytest.skip("text has no layout")
    first, second = (convert(copy_of(record, data)) for data in layouts)
    assert first == second


@each
def test_every_action_has_its_observation_and_orphans_come_last(name: str, record: Record) -> None:
    for step in steps_of(record):
        answers = [seen for seen in step.observations if not seen.is_orphan]
        assert len(answers) == len(step.actions)
        assert list(step.observations[: len(answers)]) == answers
        for action, seen in zip(step.actions, answers, strict=True):
            assert seen.call_id == action.call_id or action.call_id is None
            assert seen.missing is None or not seen.text


@each
def test_arguments_are_an_object_unless_marked_as_text(name: str, record: Record) -> None:
    for step in steps_of(record):
        for action in step.actions:
            if not action.is_text:
                assert isinstance(json.loads(action.arguments), dict)


@each
def test_no_secret_and_no_hidden_test_gets_in(name: str, record: Record) -> None:
    """T2, T24: fields are read by name from an allow-list; what the run could not see stays outside."""
    text = msgspec.json.encode(convert(record)).decode()
    for planted in ("sk-SECRET", "test_hidden", "FAIL_TO_PASS", "eval_logs"):
        assert planted not in text


@each
def test_nothing_is_claimed_that_the_source_does_not_say(name: str, record: Record) -> None:
    # Nebius rows call the verdict ``target``, Harbor's training rows ``result``.
    told = record.data + (record.beside(f"{Path(record.file).stem}.json") or b"")
    if not re.search(rb'"(?:resolved|target|result)"', told):
        assert all(run.outcome.resolved is None for run in convert(record))
    # In Inspect's logs the code is the ``result`` of a sandbox event.
    if not re.search(rb"exit.?code|returncode|\"sandbox\"", record.data, re.IGNORECASE):
        assert all(seen.exit_code is None for step in steps_of(record) for seen in step.observations)


@each
def test_a_cut_off_record_is_an_error_that_says_what_to_do(name: str, record: Record) -> None:
    with pytest.raises(RecordError) as caught:
        convert(Record(record.data[: len(record.data) * 2 // 3], file="a.json"))
    assert caught.value.problem
    assert caught.value.remedy


@each
def test_a_misfit_item_is_named(name: str, record: Record) -> None:
    """In the error, or in the record's problems where the rest can be read."""
    if record.form == "text":
        pytest.skip("text has no fields")
    is_lines = record.form == "lines"
    value = [json.loads(line) for line in record.data.splitlines()[:3]] if is_lines else json.loads(record.data)
    turns = (
        value
        if isinstance(value, list)
        else max((v for v in value.values() if isinstance(v, list)), key=len, default=[])
    )
    if not turns:
        pytest.skip("the messages of this row are text")
    turns[-1] = 17
    data = b"\n".join(json.dumps(turn).encode() for turn in turns) if is_lines else json.dumps(value).encode()
    broken = copy_of(record, data)
    try:
        convert(broken)
        *_, error = broken.problems
    except RecordError as raised:
        error = broken.problems[0] if broken.problems else raised
    assert f"[{len(turns) - 1}]" in error.field or error.record == len(turns)
    assert "int" in error.problem


def test_no_file_of_the_corpus_is_claimed_by_two(corpus: Path) -> None:
    """The order in which adapters are tried decides nothing: each record has one claimant, or none."""
    claimed: dict[str, int] = {}
    for path in corpus_files([corpus]):
        for item in SourceFile(path):
            if isinstance(item, Record):
                claims = [adapter.format for adapter in ADAPTERS if adapter.recognises(item)]
                assert len(claims) < 2, (path.name, claims)
                for name in claims:
                    claimed[name] = claimed.get(name, 0) + 1
    assert len(claimed) > 15
    assert sum(claimed.values()) > 200


def test_damaged_files_are_reported_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    (item,) = list(SourceFile(path))
    assert isinstance(item, Damaged)
    assert (item.error.file, item.error.record, item.error.field) == (str(path), 1, "$")
