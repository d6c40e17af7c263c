"""Files → tables → trajectories."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff import corpus
from handoff.actions import context_of, trajectory_keys
from handoff.adapters import ADAPTERS, Record, convert
from handoff.corpus.columns import HeadColumns, StepColumns, read_heads, read_steps
from handoff.errors import InputError, LakeError, RecordError
from handoff.framing import SourceFile
from handoff.lake import Lake
from handoff.trajectory import (
    Action,
    Boundary,
    Ending,
    Message,
    Observation,
    Outcome,
    Step,
    Trajectory,
    Usage,
    trajectory_id,
)

FIXTURES = Path(__file__).resolve().parent / "fixtures"
TABLES = ("sources", "raw_trajectories", "steps", "quarantine")


def row(number: int = 1, **fields: Any) -> dict[str, Any]:
    call = {"id": "a", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    return {
        "instance_id": f"acme__pager-{number}",
        "messages": [
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": "Look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "pager"},
        ],
        **fields,
    }


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def ingest(lake: Lake, *paths: Path, **options: Any) -> corpus.IngestReport:
    return corpus.ingest(lake, "s", list(paths), inputs="i_1", **options)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


# -- round trip -------------------------------------------------------------------------------------------------

text = st.text(st.characters(codec="utf-8"), max_size=12)
maybe = st.none() | text
count = st.none() | st.integers(0, 2**62)
usages = st.builds(Usage, prompt=count, cached=count, completion=count).filter(lambda u: u != Usage())
messages = st.builds(Message, role=st.sampled_from(["system", "user", "harness", "context_summary"]), text=text)
actions = st.builds(Action, call_id=maybe, tool=text, arguments=text, is_text=st.booleans())
observations = st.builds(
    Observation,
    call_id=maybe,
    text=text,
    exit_code=st.none() | st.integers(-(2**31), 2**31 - 1),
    error=st.none() | st.booleans(),
    missing=st.none() | st.sampled_from(["none", "aborted", "not_executed", "truncated"]),
    is_orphan=st.booleans(),
    arrived=st.none() | st.integers(1, 99),
)
steps = st.builds(
    Step,
    text=text,
    thought=text,
    actions=st.lists(actions, max_size=3).map(tuple),
    observations=st.lists(observations, max_size=3).map(tuple),
    after=st.lists(messages, max_size=2).map(tuple),
    boundary=st.none() | st.sampled_from(get_args(Boundary)),
    model=maybe,
    usage=st.none() | usages,
    cost=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    timestamp=maybe,
)
some_trajectories = st.builds(
    Trajectory,
    format=text,
    task_id=maybe,
    task=text,
    repo=maybe,
    base_commit=maybe,
    agent=maybe,
    author=st.sampled_from(["agent", "human"]),
    model=maybe,
    licence=maybe,
    split=st.none() | st.sampled_from(["train", "validation", "test"]),
    tools=maybe,
    preamble=st.lists(messages, max_size=2).map(tuple),
    steps=st.lists(steps, max_size=3).map(tuple),
    session=maybe,
    parent=maybe,
    continues=maybe,
    copied_steps=st.integers(0, 9),
    outcome=st.builds(
        Outcome,
        resolved=st.none() | st.booleans(),
        exit_status=maybe,
        ended=st.none() | st.sampled_from(get_args(Ending)),
        patch=maybe,
    ),
    source=text | st.just("{}"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(some_trajectories, min_size=1, max_size=3))
def test_columns_give_back_equal_trajectories(given: list[Trajectory]) -> None:
    heads, columns = HeadColumns(), StepColumns()
    for t in given:
        columns.add(trajectory_id(t), t.steps, [()] * len(t.steps))
        heads.add(trajectory_id(t), t, file="f", record=1, part=1, sha256="0")
    rebuilt = read_steps(columns.batch())
    for t, (id_, count, fields) in zip(given, read_heads(heads.batch()), strict=True):
        found = Trajectory(**fields, steps=tuple(rebuilt[:count]))
        del rebuilt[:count]
        assert found == t
        assert trajectory_id(found) == id_


def test_the_tables_give_back_every_fixture(lake: Lake) -> None:
    report = ingest(lake, FIXTURES)
    found = list(corpus.trajectories(lake, "s"))
    assert len(found) == report.trajectories >= 14
    assert all(trajectory_id(t) == id_ for id_, t in found)
    assert sum(len(t.steps) for _, t in found) == report.steps
    assert {t.format for _, t in found} == {adapter.format for adapter in ADAPTERS}


def test_the_keys_of_every_step_are_stored_in_order(lake: Lake) -> None:
    ingest(lake, FIXTURES)
    stored = lake.rows("steps", ["keys"], shard="s")
    expected = [
        [{"kind": key.kind, "target": key.target} for key in keys]
        for _, t in corpus.trajectories(lake, "s")
        for keys in trajectory_keys(t.steps, context=context_of(t.format, t.source))
    ]
    assert [row["keys"] for row in stored] == expected
    assert any(expected)


def test_some_trajectories_can_be_asked_for(lake: Lake) -> None:
    ingest(lake, FIXTURES)
    everything = dict(corpus.trajectories(lake, "s"))
    some = sorted(everything)[3:9:2]
    assert dict(corpus.trajectories(lake, "s", some)) == {id_: everything[id_] for id_ in some}
    assert not list(corpus.trajectories(lake, "s", []))


def test_long_runs_cross_batches(lake: Lake, tmp_path: Path) -> None:
    """Rows of one trajectory stay together and in order, whatever the batch size."""
    rows = [row(n, messages=row()["messages"][:1] + row()["messages"][1:] * n) for n in (700, 500, 1, 2500, 3)]
    ingest(lake, write(tmp_path / "a.jsonl", *rows))
    assert [len(t.steps) for _, t in corpus.trajectories(lake, "s")] == [700, 500, 1, 2500, 3]
    numbers = lake.read("steps", ["step"], shard="s")["step"].to_pylist()
    assert numbers == [n for r in (700, 500, 1, 2500, 3) for n in range(1, r + 1)]


def test_ingesting_again_gives_the_same_bytes(lake: Lake) -> None:
    ingest(lake, FIXTURES)
    first = [lake.digest(table, shard="s") for table in TABLES]
    ingest(lake, FIXTURES)
    assert [lake.digest(table, shard="s") for table in TABLES] == first


# -- what goes where --------------------------------------------------------------------------------------------


def test_repeated_records_are_kept_once_and_counted(lake: Lake, tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", row(1), row(1), row(2))
    other = tmp_path / "b.json"
    other.write_text(json.dumps(row(2), indent=3))
    report = ingest(lake, first, other)
    assert (report.records, report.trajectories, report.duplicates, report.quarantined) == (4, 2, 2, 0)


def test_rows_with_one_id_and_different_content_are_different_runs(lake: Lake, tmp_path: Path) -> None:
    assert ingest(lake, write(tmp_path / "a.jsonl", row(1), row(1, model="other"))).trajectories == 2


def test_a_bad_record_goes_to_quarantine_and_the_rest_is_read(lake: Lake, tmp_path: Path) -> None:
    bad = row(2)
    bad["messages"][1]["tool_calls"] = "none"
    path = write(tmp_path / "a.jsonl", row(1), bad, 17, [], row(3))
    with path.open("ab") as file:
        file.write(b'{"messages": [{"role": "us')
    report = ingest(lake, path)
    assert (report.records, report.trajectories, report.quarantined) == (6, 2, 4)
    found = lake.rows("quarantine", shard="s")
    assert [q["record"] for q in found] == [2, 3, 4, 6]
    assert found[0]["field"] == "$.messages[1].tool_calls"
    assert found[0]["file"] == str(path)
    assert all(q["problem"] and q["remedy"] and len(q["raw_sha256"]) == 64 for q in found)
    assert found[3]["raw_head"] == '{"messages": [{"role": "us'
    (source,) = lake.rows("sources", shard="s")
    assert (source["records"], source["trajectories"], source["quarantined"]) == (6, 2, 4)


def test_orphans_and_unanswered_calls_are_counted(lake: Lake, tmp_path: Path) -> None:
    lost = row(1)
    lost["messages"].append({"role": "tool", "tool_call_id": "zz", "content": "?"})
    silent = row(2, messages=row(2)["messages"][:2])
    report = ingest(lake, write(tmp_path / "a.jsonl", lost, silent))
    assert (report.orphans, report.unanswered) == (1, 1)


def test_the_split_of_the_source_holds_and_else_the_repository_decides(lake: Lake, tmp_path: Path) -> None:
    ingest(lake, write(tmp_path / "a.jsonl", row(1, split="validation"), row(2), row(3)))
    rows_ = lake.rows("raw_trajectories", ["split", "split_is_given"], shard="s")
    assert [(r["split"] == "validation", r["split_is_given"]) for r in rows_[:1]] == [(True, True)]
    assert not any(r["split_is_given"] for r in rows_[1:])
    assert {r["split"] for r in rows_[1:]} == {corpus.split_of("acme/pager", None)}
    assert [t.split for _, t in corpus.trajectories(lake, "s")] == ["validation", None, None]


def test_splits_are_stable_and_about_80_10_10() -> None:
    names = [corpus.split_of(f"owner/name{n}", None) for n in range(2_000)]
    shares = {name: names.count(name) / len(names) for name in sorted(set(names))}
    assert shares == pytest.approx({"test": 0.1, "train": 0.8, "validation": 0.1}, abs=0.02)
    assert corpus.split_of("Owner/Name", "x-1") == corpus.split_of("owner/name", "y-2")
    few = [f"owner/name{n}" for n in range(50)]
    for name in few:
        spellings = (f"https://github.com/{name}.git", f"git@github.com:{name}", name.upper())
        assert {corpus.split_of(spelling, "z-3") for spelling in spellings} == {corpus.split_of(name, None)}
    assert len({corpus.split_of(name, None) for name in few}) == 3
    assert corpus.split_of(None, None) == "train"


# -- hostile input ----------------------------------------------------------------------------------------------


def test_folders_with_loops_links_pipes_and_hidden_names_are_walked(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    write(folder / "b" / "rows.jsonl", row())
    write(folder / "a.jsonl", row())
    write(folder / ".hidden", row())
    (folder / "b" / "up").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "gone").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe")
    assert [p.relative_to(folder).as_posix() for p in corpus.files([folder])] == ["a.jsonl", "b/rows.jsonl"]


def test_folders_may_be_nested_deeper_than_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    depth = sys.getrecursionlimit() + 100
    for _ in range(depth):  # step by step, up and down: the libraries that make and remove trees call themselves
        Path("a").mkdir()
        os.chdir("a")
    Path("x.json").write_text("{}")
    assert [path.name for path in corpus.files([tmp_path])] == ["x.json"]
    Path("x.json").unlink()
    for _ in range(depth):
        os.chdir("..")
        Path("a").rmdir()


def test_a_path_that_does_not_exist_is_an_error_before_anything_is_written(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing"):
        ingest(lake, tmp_path / "nothing")
    assert lake.partitions("steps") == []


def test_an_unreadable_file_is_quarantined(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = write(tmp_path / "good.jsonl", row()), write(tmp_path / "bad.jsonl", row())
    real = Path.open

    def refuse(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self == bad:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    report = ingest(lake, bad, good)
    assert (report.trajectories, report.quarantined) == (1, 1)
    assert "Permission denied" in lake.rows("quarantine", shard="s")[0]["problem"]
    assert corpus.fingerprint([bad, good])


def test_an_unreadable_folder_is_quarantined(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "in" / "bad"
    bad.mkdir(parents=True)
    write(bad / "hidden.jsonl", row())
    write(tmp_path / "in" / "good.jsonl", row())
    real = Path.iterdir

    def refuse(self: Path) -> Any:
        if self == bad:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    report = ingest(lake, tmp_path / "in")
    assert (report.trajectories, report.quarantined) == (1, 1)
    (told,) = lake.rows("quarantine", shard="s")
    assert told["file"].endswith("in/bad")
    assert told["problem"] == "The folder cannot be read: Permission denied."
    assert corpus.fingerprint([tmp_path / "in"])


def test_a_file_name_that_is_no_text_is_stored_readably(lake: Lake, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.jsonl"))
    write(path, row(), 1)
    assert ingest(lake, path).trajectories == 1
    assert lake.rows("quarantine", shard="s")[0]["file"].endswith("bad\ufffd.jsonl")


def test_text_of_any_kind_reaches_the_tables_unchanged(lake: Lake, tmp_path: Path) -> None:
    nasty = "\x00 \x1b[31m <script> $(rm -rf /) \r\b \u202e 😀 " + "x" * 100_000
    hostile = row()
    hostile["messages"][2]["content"] = nasty
    ingest(lake, write(tmp_path / "a.jsonl", hostile))
    ((_, t),) = list(corpus.trajectories(lake, "s"))
    assert t.steps[0].observations[0].text == nasty


def test_a_line_over_the_limit_is_quarantined_with_a_remedy(lake: Lake, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", row(1), row(2, padding="x" * 50_000), row(3))
    report = ingest(lake, path, record_limit=10_000)
    assert (report.trajectories, report.quarantined) == (2, 1)
    (found,) = lake.rows("quarantine", shard="s")
    assert found["record"] == 2
    assert "limit" in found["problem"]
    assert "record_limit" in found["remedy"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_other_encodings_are_read_with_replacements_counted(lake: Lake, tmp_path: Path, encoding: str) -> None:
    value = row()
    value["messages"][0]["content"] = "Fïx it."
    (tmp_path / "a.json").write_bytes(json.dumps(value, ensure_ascii=False).encode(encoding))
    assert ingest(lake, tmp_path / "a.json").repairs == (0 if encoding == "utf-8-sig" else 1)
    ((_, t),) = list(corpus.trajectories(lake, "s"))
    assert t.task == ("Fïx it." if encoding == "utf-8-sig" else "F\ufffdx it.")


def test_a_full_disk_is_a_clear_error_and_leaves_no_table(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def write_batch(self, _: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pa.ipc, "new_stream", Full)
    with pytest.raises(LakeError, match="No space left"):
        ingest(lake, write(tmp_path / "a.jsonl", row()))
    assert lake.partitions("raw_trajectories") == []


def test_a_shard_that_was_never_ingested_says_so(lake: Lake) -> None:
    with pytest.raises(LakeError, match="ingest it first"):
        list(corpus.trajectories(lake, "nowhere"))


def runs_of(path: Path) -> list[Trajectory]:
    return [run for item in SourceFile(path) if isinstance(item, Record) for run in convert(item)]


def test_parquet_and_lines_give_the_same_trajectories(tmp_path: Path) -> None:
    """A Parquet file fills absent keys with nulls; that changes nothing."""
    rows = [row(1), row(2, resolved=True)]
    pq.write_table(pa.Table.from_pylist([{"resolved": None, **r} for r in rows]), tmp_path / "a.parquet")
    write(tmp_path / "a.jsonl", *rows)
    a, b = (runs_of(tmp_path / name) for name in ("a.parquet", "a.jsonl"))
    assert [trajectory_id(t) for t in a] == [trajectory_id(t) for t in b]


def test_progress_is_told_in_bytes_and_ends_at_the_total(lake: Lake, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = write(tmp_path / "a.jsonl", row(1), row(2))
    ingest(lake, path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert seen == sorted(seen)


RAW = [item.data for path in sorted(FIXTURES.rglob("*.*")) for item in SourceFile(path) if isinstance(item, Record)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([*RAW, b"", b"[", b"{", b"\n", b"\xff", b"]", b",", b"PAR1", b"\x00"]), max_size=6))
def test_any_file_is_read_to_its_end(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(b"\n".join(parts))
        source = SourceFile(path, limit=20_000)
        for item in source:
            if isinstance(item, Record):
                try:
                    convert(item)
                except RecordError as error:
                    assert error.remedy
        assert source.bytes == path.stat().st_size


# -- the sample corpus ------------------------------------------------------------------------------------------


def test_every_file_of_the_corpus_is_read_or_set_aside(lake: Lake, corpus: Path) -> None:
    from handoff import corpus as room

    report = room.ingest(lake, "all", [corpus], inputs="i_1")
    assert report.trajectories >= 35
    assert all(trajectory_id(t) == id_ for id_, t in room.trajectories(lake, "all"))


def test_one_run_in_two_formats_tells_one_story(corpus: Path) -> None:
    """The same recorded run exists as a SWE-agent file and as a chat row made from it."""
    name = "pydantic__pydantic.acb0f10f.pr_8316"
    (run,) = runs_of(corpus / "sweagent_v1" / f"{name}.traj")
    rows = runs_of(corpus / "chat_swesmith" / "ft_xml_example.jsonl")
    (chat,) = [t for t in rows if t.task_id == name]
    assert (run.repo, len(run.steps)) == (chat.repo, len(chat.steps))
    for ours, theirs in zip(run.steps, chat.steps, strict=True):
        assert [a.tool for a in ours.actions] == [a.tool for a in theirs.actions]
        for action, other in zip(ours.actions, theirs.actions, strict=True):
            mine = {k: v.strip("\n") if isinstance(v, str) else str(v) for k, v in json.loads(action.arguments).items()}
            assert mine == {k: v.strip("\n") for k, v in json.loads(other.arguments).items()}
        for seen, other_seen in zip(ours.observations, theirs.observations, strict=True):
            if seen.text and other_seen.missing is None:
                assert seen.text == other_seen.text
