"""Compressed files, archives of samples, folders of events, side files."""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from pathlib import Path

import msgspec
import pytest
import zstandard

from handoff import corpus
from handoff.framing import Damaged, Record, SourceFile, containers
from handoff.framing.containers import event_files

LINES = b'{"a": 1}\n{"a": 2}\n'


def read(path: Path, **options: int) -> tuple[SourceFile, list[Record | Damaged]]:
    source = SourceFile(path, **options)
    return source, list(source)


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    ("data", "framing"),
    [
        (gz(LINES), "jsonl.gz"),
        (gz(LINES[:9]) + gz(LINES[9:]), "jsonl.gz"),
        (gz(LINES) + b"\0" * 20, "jsonl.gz"),
        (zst(LINES), "jsonl.zst"),
        (zst(LINES[:9]) + zst(LINES[9:]), "jsonl.zst"),
        (gz(b'[{"a": 1}, {"a": 2}]'), "array.gz"),
    ],
)
def test_a_compressed_file_is_read_as_what_is_in_it(tmp_path: Path, data: bytes, framing: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    source, items = read(path)
    assert [json.loads(item.data) for item in items if isinstance(item, Record)] == [{"a": 1}, {"a": 2}]
    assert source.framing == framing
    # What lies on disk is what is hashed and counted; a record's own hash is of its own bytes.
    assert (source.bytes, source.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert all(item.sha256 == hashlib.sha256(item.data).hexdigest() for item in items if isinstance(item, Record))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (gz(LINES)[:-9], "cannot be unpacked"),
        (zst(LINES * 9)[:-3], "cannot be unpacked"),
        (gz(LINES)[:10] + b"\xff" * 30, "cannot be unpacked"),
        (gz(gz(LINES)), "compressed twice"),
        (gz(b""), "empty"),
    ],
)
def test_broken_compression_is_reported(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(data)
    source, (item,) = read(path)
    assert isinstance(item, Damaged)
    assert problem in item.error.problem
    assert source.bytes == len(data)


@pytest.mark.parametrize("pack", [gz, zst])
def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    monkeypatch.setattr(containers, "_FREE", 1 << 20)
    path = tmp_path / "x"
    path.write_bytes(pack(b" " * (64 << 20)))  # type: ignore[operator]
    _, (item,) = read(path)
    assert isinstance(item, Damaged)
    assert "far more" in item.error.problem


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)


SAMPLES = {
    "header.json": b'{"eval": {}}',
    "samples/b_epoch_1.json": b'{"id": 2}',
    "samples/a_epoch_1.json": b'{"id": 1}',
}


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_the_samples_of_an_archive_are_records_with_its_header(tmp_path: Path, method: int) -> None:
    archive(tmp_path / "log", {**SAMPLES, "summaries.json": b"[]"}, method)
    source, items = read(tmp_path / "log")
    assert [(item.position, item.data, item.context) for item in items if isinstance(item, Record)] == [
        (1, b'{"id": 1}', b'{"eval": {}}'),
        (2, b'{"id": 2}', b'{"eval": {}}'),
    ]
    assert source.framing == "eval"
    assert source.sha256 == hashlib.sha256((tmp_path / "log").read_bytes()).hexdigest()


def test_a_crashed_log_has_its_header_in_the_journal(tmp_path: Path) -> None:
    archive(tmp_path / "log", {"_journal/start.json": b'{"eval": 1}', "samples/a.json": b"{}"})
    _, (item,) = read(tmp_path / "log")
    assert isinstance(item, Record)
    assert item.context == b'{"eval": 1}'


def test_members_compressed_by_zstandard_are_read(tmp_path: Path) -> None:
    """Newer logs use a method that the standard library does not know."""
    archive(tmp_path / "log", {name: zst(data) for name, data in SAMPLES.items()}, zipfile.ZIP_STORED)
    data = bytearray((tmp_path / "log").read_bytes())
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.find(mark)
        while at >= 0:
            data[at + place : at + place + 2] = (93).to_bytes(2, "little")
            at = data.find(mark, at + 4)
    (tmp_path / "log").write_bytes(bytes(data))
    _, items = read(tmp_path / "log")
    assert [item.data for item in items if isinstance(item, Record)] == [b'{"id": 1}', b'{"id": 2}']


def test_a_long_or_broken_sample_does_not_stop_the_others(tmp_path: Path) -> None:
    archive(tmp_path / "log", {**SAMPLES, "samples/c.json": b" " * 500})
    data = (tmp_path / "log").read_bytes()
    _, items = read(tmp_path / "log", limit=300)
    assert [type(item) for item in items] == [Record, Record, Damaged]
    at = data.find(b"samples/b_epoch_1.json") + len("samples/b_epoch_1.json")
    (tmp_path / "log").write_bytes(data[:at] + b"\xff\xff" + data[at + 2 :])
    _, items = read(tmp_path / "log")
    assert [type(item) for item in items] == [Record, Damaged, Record]


@pytest.mark.parametrize("members", [{"readme.txt": b"x"}, {"header.json": b"{}"}])
def test_an_archive_without_samples_is_reported(tmp_path: Path, members: dict[str, bytes]) -> None:
    archive(tmp_path / "x.zip", members)
    _, (item,) = read(tmp_path / "x.zip")
    assert isinstance(item, Damaged)


def test_a_broken_archive_is_reported(tmp_path: Path) -> None:
    archive(tmp_path / "x", SAMPLES)
    data = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(data[: len(data) // 2])
    _, (item,) = read(tmp_path / "x")
    assert isinstance(item, Damaged)


def test_a_folder_of_events_is_one_session_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "events"
    folder.mkdir(parents=True)
    for number in (10, 2, 1):
        (folder / f"event-{number:05d}-x.json").write_text(json.dumps({"kind": "MessageEvent", "n": number}, indent=1))
    (folder / "event-00003-y.json").write_text("{broken\n")
    (folder / "notes.txt").write_text("hello")
    (tmp_path / "other.json").write_text("{}")
    link = folder / "event-00004-link.json"
    link.symlink_to(tmp_path / "other.json")
    assert list(corpus.files([tmp_path])) == [tmp_path / "other.json", folder, link, folder / "notes.txt"]
    _, (item,) = read(folder)
    assert isinstance(item, Record)
    assert item.form == "lines"
    lines = [row.data for row in item.rows()]
    assert [msgspec.json.decode(lines[i])["n"] for i in (0, 1, 3)] == [1, 2, 10]
    assert lines[2] == b"{broken"
    before = corpus.fingerprint([tmp_path])
    (folder / "event-00002-x.json").write_text("{}")
    assert corpus.fingerprint([tmp_path]) != before
    assert not event_files(tmp_path)


def test_side_files_give_no_record_and_no_complaint(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"checkpoint_id": "1", "session_id": "2", "files_touched": []}))
    source, items = read(path)
    assert (source.framing, items) == ("side file", [])


def test_a_side_file_is_read_only_by_its_bare_name_and_never_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "inside" / "real").write_text("r")
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "secret")
    record = Record(b"{}", folder=tmp_path / "inside")
    assert record.beside("real") == b"r"
    assert [record.beside(name) for name in ("link", "../secret", "..", "", "missing")] == [None] * 5
    assert Record(b"{}").beside("real") is None


def test_the_hidden_history_of_aider_is_found_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / ".aider.chat.history.md").write_text("# aider chat started at 2025-01-01 10:00:00\n")
    (tmp_path / ".hidden").write_text("x")
    (found,) = corpus.files([tmp_path])
    _, (item,) = read(found)
    assert isinstance(item, Record)
    assert item.form == "text"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """A corpus from elsewhere may hold ``runs.jsonl -> /etc/passwd``; quarantine would show how it begins."""
    (tmp_path / "secret").write_text("s")
    runs = tmp_path / "runs"
    (runs / "deeper").mkdir(parents=True)
    (runs / "real.json").write_text("{}")
    (runs / "deeper" / "inside.json").symlink_to("../real.json")
    (runs / "outside.json").symlink_to(tmp_path / "secret")
    (runs / "folder").symlink_to(tmp_path)
    assert list(corpus.files([runs])) == [runs / "deeper" / "inside.json", runs / "real.json"]
    assert list(corpus.files([runs / "outside.json"])) == [runs / "outside.json"]  # named by the user himself
