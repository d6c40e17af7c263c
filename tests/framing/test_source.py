"""How records are found in files."""

from __future__ import annotations

import bz2
import hashlib
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.framing import Damaged, Record, SourceFile
from handoff.framing.arrays import ArrayScanner

ROW = {"messages": [{"role": "user", "content": "Fix\nit"}, {"role": "assistant", "content": "ok"}]}


def read(tmp_path: Path, data: bytes, limit: int = 1 << 20) -> tuple[SourceFile, list[Record | Damaged]]:
    path = tmp_path / "file"
    path.write_bytes(data)
    source = SourceFile(path, limit=limit)
    return source, list(source)


def kinds(items: list[Record | Damaged]) -> list[tuple[int, str]]:
    return [(i.position, "record") if isinstance(i, Record) else (i.error.record, "damaged") for i in items]


LINE = json.dumps(ROW).encode()


@pytest.mark.parametrize(
    ("data", "framing", "found"),
    [
        (LINE, "json", [(1, "record")]),
        (json.dumps(ROW, indent=2).encode(), "json", [(1, "record")]),
        (b"\xef\xbb\xbf" + LINE, "json", [(1, "record")]),
        (LINE + b"\n\n" + LINE + b"\r\n", "jsonl", [(1, "record"), (3, "record")]),
        (LINE[:50] + b"\n" + LINE + b"\n" + LINE[:20], "jsonl", [(1, "record"), (2, "record"), (3, "record")]),
        (json.dumps([ROW, ROW]).encode(), "array", [(1, "record"), (2, "record")]),
        (json.dumps(ROW["messages"]).encode(), "json", [(1, "record")]),
        (
            json.dumps(ROW["messages"]).encode() + b"\n" + json.dumps(ROW["messages"]).encode(),
            "jsonl",
            [(1, "record"), (2, "record")],
        ),
        (json.dumps([ROW, ROW]).encode()[:-30], "array", [(1, "record"), (2, "damaged")]),
        (b"[]", "array", [(1, "damaged")]),
        (b"[1, 2, null]", "array", [(1, "damaged")]),
        (b"[1, {}]", "array", [(1, "record"), (2, "record")]),
        (b"[{}" + b"," * 100_000, "array", [(1, "record"), (2, "damaged")]),
        (b"[{},,{}]", "array", [(1, "record"), (2, "damaged")]),
        (b"  \n", "unknown", [(1, "damaged")]),
        (b"# notes", "unknown", [(1, "damaged")]),
        (LINE.decode().encode("utf-16"), "unknown", [(1, "damaged")]),
        (b"\x1f\x8b\x08\x00", "unknown", [(1, "damaged")]),
    ],
)
def test_framing_is_decided_by_content(tmp_path: Path, data: bytes, framing: str, found: list[tuple[int, str]]) -> None:
    source, items = read(tmp_path, data)
    assert (source.framing, kinds(items)) == (framing, found)
    assert source.bytes == len(data)
    assert source.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("data", "problem", "remedy"),
    [
        ("é".encode("utf-16"), "UTF-16", "Save it as UTF-8"),
        (bz2.compress(LINE), "bzip2", "Unpack it"),
        (lzma.compress(LINE), "xz", "Unpack it"),
        (b"run.json".ljust(257, b"\0") + b"ustar\x0000", "tar archive", "Unpack it"),
        (b"PK\x05\x06".ljust(22, b"\0"), "empty zip", "Leave it out"),
        (b"# notes", "not JSON", "the agent's own log"),
        (b"[1, 2]", "no objects", "the agent's own log"),
    ],
)
def test_what_is_not_read_is_named_with_what_to_do(tmp_path: Path, data: bytes, problem: str, remedy: str) -> None:
    _, (item,) = read(tmp_path, data)
    assert isinstance(item, Damaged)
    assert problem in item.error.problem
    assert remedy in item.error.remedy


def test_a_session_of_lines_is_one_record(tmp_path: Path) -> None:
    line = json.dumps({"type": "response_item", "payload": {}}).encode()
    _, (item,) = read(tmp_path, line + b"\n" + line)
    assert isinstance(item, Record)
    assert item.form == "lines"
    assert [(row.line, row.data) for row in item.rows()] == [(1, line), (2, line)]


SESSION = [{"type": "response_item", "payload": {"number": n}} for n in range(3)]
EVENTS = [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": "Done."}]


@pytest.mark.parametrize(
    "data",
    [
        LINE,
        LINE + b"\n" + LINE,
        json.dumps(ROW, indent=2).encode(),
        json.dumps([ROW, ROW]).encode(),
        json.dumps(EVENTS).encode(),
        json.dumps(EVENTS, indent=2).encode(),
        json.dumps(SESSION[0]).encode(),
        b"\n".join(json.dumps(row).encode() for row in SESSION),
        json.dumps({"checkpoint_id": 1, "session_id": 2, "files_touched": []}).encode(),
    ],
)
def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path, data: bytes) -> None:
    def look(data: bytes) -> tuple[str, list[tuple[str, int]]]:
        source, items = read(tmp_path, data)
        return source.framing, [(item.form, item.position) for item in items if isinstance(item, Record)]

    assert look(b"\xef\xbb\xbf" + data) == look(data)
    assert look(data.replace(b"\n", b"\r\n")) == look(data)


def test_parquet_rows_are_records(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([ROW, ROW]), tmp_path / "rows.parquet")
    source = SourceFile(tmp_path / "rows.parquet")
    items = list(source)
    assert source.framing == "parquet"
    assert [json.loads(item.data) for item in items if isinstance(item, Record)] == [ROW, ROW]


def test_a_broken_parquet_file_is_reported(tmp_path: Path) -> None:
    _, (item,) = read(tmp_path, b"PAR1 and nothing else")
    assert isinstance(item, Damaged)
    assert "Parquet" in item.error.problem


@pytest.mark.parametrize("data", [b'{"a": "%s"}', b'{"a": "%s"}\n{"b": 1}', b'[{"b": 1}, {"a": "%s"}, {"b": 1}]'])
def test_a_record_over_the_limit_is_reported_and_the_rest_is_read(tmp_path: Path, data: bytes) -> None:
    data = data.replace(b"%s", b"[" * 5_000)
    _, items = read(tmp_path, data, limit=1_000)
    long = [item for item in items if isinstance(item, Damaged)]
    assert len(long) == 1
    assert "limit" in long[0].error.problem
    assert len(items) == data.count(b'"b"') + 1


tricky = st.text('a"\\[]{},:\n é', max_size=8)
values = st.lists(
    tricky | st.integers(0, 9) | st.lists(tricky, max_size=2) | st.dictionaries(tricky, tricky, max_size=2)
)


@settings(max_examples=60, deadline=None)
@given(values.filter(bool), st.integers(1, 40))
def test_the_array_scanner_finds_the_items_whatever_the_chunks(values: list[object], size: int) -> None:
    data = json.dumps(values, ensure_ascii=False).encode()
    scanner = ArrayScanner(1 << 20)
    found = [item.data for at in range(0, len(data), size) for item in scanner.feed(data[at : at + size])]
    assert [json.loads(item or b"") for item in found] == json.loads(data)
    assert scanner.left_over() is None
