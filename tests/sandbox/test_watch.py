"""What watches a sandbox: sums, and what it does when they cannot be had."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.errors import InputError
from handoff.sandbox import Limits, watch
from handoff.sandbox.watch import Watch, is_grown, nobody


def reason_after(folder: Path, limits: Limits) -> str | None:
    """Why a process that does nothing itself is stopped within a moment; ``None`` when it is not."""
    stopped = threading.Event()
    watching = Watch((folder,), limits, nobody)
    try:
        watching.is_busy = True
        one = watching.add(os.getpid(), stopped.set)
        stopped.wait(0.3)
        return one.reason
    finally:
        watching.close()


def test_a_work_folder_that_vanished_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell that is to start in it will say so."""
    folder = tmp_path / "work"
    folder.mkdir()
    free = watch._free

    def vanishing(place: Path) -> watch._Free:
        found = free(place)
        place.rmdir()
        return found

    monkeypatch.setattr(watch, "_free", lambda place: vanishing(place) if place.exists() else free(place))
    assert reason_after(folder, Limits()) is None


def test_what_cannot_be_measured_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bool:
        raise PermissionError

    monkeypatch.setattr(Watch, "_is_full", refused)
    assert reason_after(tmp_path, Limits()) == "disk"


def test_only_what_is_new_counts_and_each_file_once(tmp_path: Path) -> None:
    """Hard links are one file; what was there before is none of it."""
    (tmp_path / "old").write_bytes(b"x" * (3 << 20))
    time.sleep(0.02)
    since = time.time_ns()
    time.sleep(0.02)
    assert not is_grown((tmp_path,), since, Limits(disk_mb=1, files=1))
    (tmp_path / "new").write_bytes(os.urandom(700 << 10))
    for number in range(5):
        os.link(tmp_path / "new", tmp_path / f"link{number}")
    assert not is_grown((tmp_path,), since, Limits(disk_mb=1, files=1))
    (tmp_path / "more").write_bytes(os.urandom(700 << 10))
    assert is_grown((tmp_path,), since, Limits(disk_mb=1, files=9))
    assert is_grown((tmp_path,), since, Limits(disk_mb=9, files=1))


def test_a_file_without_a_name_counts_while_it_is_held(tmp_path: Path) -> None:
    since = time.time_ns() - 10**9
    with (tmp_path / "f").open("wb") as file:
        file.write(os.urandom(2 << 20))
        file.flush()
        (tmp_path / "f").unlink()
        assert not is_grown((tmp_path,), since, Limits(disk_mb=1))
        assert is_grown((tmp_path,), since, Limits(disk_mb=1), [os.getpid()])


@pytest.mark.parametrize(("left_mb", "reason"), [(994, "disk"), (996, None)])
def test_folders_that_are_moved_about_hide_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_mb: int, reason: str | None
) -> None:
    """While nothing can be counted, what the disk has less is theirs; a build that moves a folder once goes on."""

    def moved(*_: object, **__: object) -> Iterator[object]:
        raise InputError("folders were moved")

    free = iter([1000])
    monkeypatch.setattr(watch, "_free", lambda place: watch._Free(next(free, left_mb), 0))
    monkeypatch.setattr(watch.folders, "walk", moved)
    assert reason_after(tmp_path, Limits(disk_mb=5)) == reason
