"""The journal: whole lines survive, torn ones are cut off."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.errors import InputError
from handoff.journal import Journal, frame, parse

PAYLOADS = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=6)


@given(payloads=PAYLOADS, cut=st.integers(0, 400), junk=st.binary(max_size=10))
def test_any_damage_at_the_end_leaves_the_whole_lines_before_it(payloads: list[bytes], cut: int, junk: bytes) -> None:
    """Cut anywhere, and even with other bytes after the cut, what was whole before it is read and no more."""
    lines = [frame(p) for p in payloads]
    data = b"".join(lines)[:cut]
    whole = 0
    while whole < len(lines) and sum(map(len, lines[: whole + 1])) <= cut:
        whole += 1
    entries, valid = parse(data)
    assert entries == tuple(payloads[:whole])
    assert valid == sum(map(len, lines[:whole]))
    assert parse(data + junk)[0][:whole] == entries


def test_a_flipped_bit_ends_the_log() -> None:
    """What comes after a damaged line is not trusted."""
    lines = [frame(b"one"), frame(b"two"), frame(b"three")]
    broken = lines[0] + lines[1].replace(b"two", b"twp") + lines[2]
    assert parse(broken) == ((b"one",), len(lines[0]))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(payloads=PAYLOADS, more=PAYLOADS, torn=st.binary(max_size=20))
def test_a_torn_log_is_cut_and_goes_on(tmp_path: Path, payloads: list[bytes], more: list[bytes], torn: bytes) -> None:
    """Reopened, it holds the whole lines, and new ones follow them directly."""
    journal = Journal(tmp_path / os.urandom(4).hex(), sync="never")
    with journal.open("a") as log:
        for payload in payloads:
            log.append(payload)
    with journal.path("a").open("ab") as file:
        file.write(torn.replace(b"\n", b""))
    with journal.open("a") as log:
        assert log.entries == tuple(payloads)
        for payload in more:
            log.append(payload, is_last=True)
    with journal.open("a") as log:
        assert log.entries == (*payloads, *more)


@pytest.mark.parametrize("sync", ["never", "finish", "paid", "entry"])
def test_every_way_of_syncing_keeps_the_lines(tmp_path: Path, sync: str) -> None:
    """They differ in what a power failure may take, not in what is written."""
    journal = Journal(tmp_path, sync=sync)  # type: ignore[arg-type]
    with journal.open("a") as log:
        log.append(b"x")
        log.append(b"y", is_last=True)
    assert journal.path("a").read_bytes() == frame(b"x") + frame(b"y")


@pytest.mark.parametrize(
    ("sync", "flushed"), [("never", ""), ("finish", "last"), ("paid", "paid last"), ("entry", "plain paid last")]
)
def test_what_was_paid_for_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str, flushed: str
) -> None:
    """A flush takes with it all that was written before."""
    sizes: list[int] = []
    monkeypatch.setattr("handoff.journal.os.fdatasync", lambda file: sizes.append(os.fstat(file).st_size))
    with Journal(tmp_path, sync=sync).open("a") as log:  # type: ignore[arg-type]
        ends = {}
        for name, kind in (("plain", {}), ("paid", {"is_paid": True}), ("last", {"is_last": True})):
            log.append(name.encode(), **kind)
            ends[name] = log.path.stat().st_size
    assert sizes == [ends[name] for name in flushed.split()]


def _add(folder: Path, count: int) -> None:
    for _ in range(count):
        with Journal(folder, sync="never").open("shared") as log:
            log.append(str(len(log.entries)).encode())


def test_two_processes_take_turns(tmp_path: Path) -> None:
    """A log is locked while it is open: none of its lines is lost or doubled."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(tmp_path, 20)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with Journal(tmp_path).open("shared") as log:
        assert log.entries == tuple(str(n).encode() for n in range(40))


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\0", "x" * 300])
def test_a_name_cannot_climb_out(tmp_path: Path, name: str) -> None:
    """Logs are plain files of one folder."""
    with pytest.raises(InputError):
        Journal(tmp_path).open(name)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """With the path in the sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot use the journal"):
        Journal(tmp_path / "file").open("a")
