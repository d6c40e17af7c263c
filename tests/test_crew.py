"""Several processes read files as one does: the same bytes in every table, and no process left behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handoff import corpus
from handoff.adapters import Record
from handoff.corpus import crew, portions, reading
from handoff.corpus.crew import Crew
from handoff.corpus.digest import Digest, digest
from handoff.corpus.portions import Portion
from handoff.errors import WorkerError
from handoff.lake import Lake

FIXTURES = Path(__file__).resolve().parent / "fixtures"
TABLES = ("quarantine", "raw_trajectories", "sources", "steps")


def row(number: int, steps: int = 3) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Fix {number}."}]
    for step in range(steps):
        call = {"id": f"c{step}", "function": {"name": "bash", "arguments": json.dumps({"command": f"cat {step}.py"})}}
        messages.append({"role": "assistant", "content": f"Look {step}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": f"größe {step}\n" * 20})
    return {"instance_id": f"acme__pager-{number}", "messages": messages}


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def portion(*numbers: int) -> Portion:
    records = [Record(line(row(number)), file="a.jsonl", position=number) for number in numbers]
    return Portion([], records, sum(len(record.data) for record in records))


class Patient(Crew):
    """A crew that begins when all others have started, and remembers what it did itself."""

    def digests(self, portions: Iterable[Portion]) -> Iterator[tuple[Portion, Digest]]:
        self.wait()
        return super().digests(portions)

    def wait(self) -> None:
        while self.ready < len(self._others):
            self.collect(None)

    def pids(self) -> list[int]:
        return [other._process.pid for other in self._others]


def is_over(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Good and bad records of many kinds; runs that occur twice or go on from another, far apart; hostile records."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [line(row(n)) for n in range(60)]
    rows[7:7] = [b"{broken\n", b"[[[[\n", b'{"messages": 3}\n', b"\xff\xfe\n", line(row(3)), line({"a": "x" * 300_000})]
    rows += [line(row(5, steps=9)), line(row(6)), b'{"messages": [' + b"[" * 5_000 + b"]}\n"]
    (folder / "a.jsonl").write_bytes(b"".join(rows))
    (folder / "b.jsonl").write_bytes(b"".join(reversed(rows)))
    (folder / "empty.json").write_bytes(b"")
    return folder


def ingest(lake: Lake, folder: Path, workers: int) -> tuple[object, ...]:
    told: list[tuple[int, int]] = []
    paths = [folder / "a.jsonl", *sorted(FIXTURES.iterdir()), folder / "b.jsonl", folder / "empty.json"]
    report = corpus.ingest(
        lake,
        "s",
        paths,
        inputs="i_1",
        workers=workers,
        record_limit=200_000,
        progress=lambda done, total: told.append((done, total)),
    )
    return report, told, [lake.path(table, shard="s").read_bytes() for table in TABLES]


def test_the_tables_are_the_same_bytes_however_many_processes_there_are(
    tmp_path: Path, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "PORTION", 20_000)
    monkeypatch.setattr(reading, "_FEW", 0)
    monkeypatch.setattr(reading, "Crew", Patient)
    done_here: list[int] = []
    monkeypatch.setattr(crew, "digest", lambda records: (done_here.append(1), digest(records))[1])
    found = []
    for workers in (1, 3):
        done_here.clear()
        found.append((ingest(Lake(tmp_path / f"lake{workers}"), mixed, workers), len(done_here)))
    (alone, all_of_them), (several, by_first) = found
    assert alone == several
    assert by_first < all_of_them > 20  # the others took their part
    report = alone[0]
    assert isinstance(report, corpus.IngestReport)
    assert report.duplicates > 60
    assert report.continued


def test_portions_change_nothing(tmp_path: Path, mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for size, most in ((1, 4_000), (50_000, 4_000), (1 << 40, 3), (1 << 40, 1 << 40)):
        monkeypatch.setattr(portions, "PORTION", size)
        monkeypatch.setattr(portions, "_MOST", most)
        found.append(ingest(Lake(tmp_path / f"{size}-{most}"), mixed, 1))
    assert found[0] == found[1] == found[2] == found[3]


def test_digests_come_in_the_order_of_the_portions() -> None:
    given = [portion(*range(n, n + 1 + n % 3)) for n in range(40)]
    wanted = [digest(one.records) for one in given]
    with Patient(2) as working:
        found = list(working.digests(portion(*range(n, n + 1 + n % 3)) for n in range(40)))
    for (_, got), expected in zip(found, wanted, strict=True):
        assert got.readings == expected.readings
        assert got.heads.equals(expected.heads)
        assert got.steps.equals(expected.steps)
    assert all(is_over(pid) for pid in working.pids())


def test_a_killed_process_is_told_with_the_way_out_and_none_is_left() -> None:
    with Patient(2) as working, pytest.raises(WorkerError, match=r"SIGKILL.*ingest_workers = 1"):
        working.wait()

        def killing() -> Iterator[Portion]:
            yield portion(1)
            os.kill(working.pids()[0], signal.SIGKILL)
            yield from (portion(n) for n in range(2, 200))

        os.kill(working.pids()[0], signal.SIGSTOP)  # so that it holds a portion when it dies
        list(working.digests(killing()))
    assert all(is_over(pid) for pid in working.pids())


def test_a_process_that_cannot_start_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_PROGRAM", "import sys; sys.exit(3)")
    with Crew(1) as working:
        assert len(list(working.digests(portion(n) for n in range(30)))) == 30
        working.collect(None)
        assert [found.readings[0].runs[0].steps for _, found in working.digests([portion(1)])] == [3]
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with Crew(1) as working:
        assert len(list(working.digests([portion(1)]))) == 1


def test_what_goes_wrong_in_another_process_is_raised_here() -> None:
    none: Any = None
    with Patient(1) as working, pytest.raises(AttributeError) as raised:
        list(working.digests([Portion([], [none], 0)]))
    assert "crew.py" in raised.value.__notes__[0]  # where it happened
    assert all(is_over(pid) for pid in working.pids())


def test_an_interrupt_ends_the_others(tmp_path: Path, mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crews: list[Patient] = []

    class Seen(Patient):
        def __enter__(self) -> Crew:
            crews.append(self)
            return super().__enter__()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reading, "_FEW", 0)
    monkeypatch.setattr(reading, "Crew", Seen)
    lake = Lake(tmp_path / "lake")
    with pytest.raises(KeyboardInterrupt):
        corpus.ingest(lake, "s", [mixed], inputs="i_1", workers=3, progress=interrupt)
    assert len(crews[0].pids()) == 2
    assert all(is_over(pid) for pid in crews[0].pids())
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".partial"]


def test_a_process_whose_other_side_is_gone_ends() -> None:
    ours, theirs = socket.socketpair()
    program = crew._PROGRAM.format(path=sys.path, descriptor=theirs.fileno())
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", program], pass_fds=[theirs.fileno()])
    assert ours.recv(1) == b"r"
    ours.close()
    assert process.wait(30) == 0


def test_few_portions_are_read_ahead_of_one_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    size = portion(1).size
    monkeypatch.setattr(crew, "_AHEAD", 10 * size)
    taken = itertools.count()
    with Patient(1) as working:
        working.wait()
        pid = working.pids()[0]
        os.kill(pid, signal.SIGSTOP)
        seen: list[int] = []

        def go_on() -> None:
            seen.append(next(taken))
            os.kill(pid, signal.SIGCONT)

        timer = threading.Timer(0.5, go_on)
        timer.start()
        found = list(working.digests(portion(next(taken)) for _ in range(100)))
        timer.join()
    assert len(found) == 100
    assert seen[0] <= 12


def test_few_bytes_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(crew.subprocess, "Popen", forbidden)
    assert corpus.ingest(Lake(tmp_path), "s", [FIXTURES / "chat"], inputs="i_1", workers=8).trajectories


def test_one_process_for_each_core_but_no_more_than_can_be_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, wanted in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert crew.usual_workers() == wanted
