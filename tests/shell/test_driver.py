"""The terminal driver: ordinary Dagster runs, started only where something is to do."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterRunStatus, Definitions, RunsFilter
from standins import POISON, Stages, drop

from handoff.project import Project
from handoff_assets.definitions import assemble
from handoff_assets.driver import Progress, RunFailedError, main, open_instance, run_graph
from resources.tracking import TrackingResource
from sensors.jobs import CONTENT

pytestmark = pytest.mark.usefixtures("unchecked")

SHARDS = ("kata-test", "kata-expert")


def run(project: Project, rounds: int = 2) -> tuple[int, list[Progress]]:
    def definitions() -> Definitions:
        return assemble(project.root, TrackingResource(uri="memory:driver"))

    seen: list[Progress] = []
    return run_graph(project.root, rounds, seen.append, definitions=definitions), seen


def lake_bytes(project: Project) -> dict[str, bytes]:
    return {str(p.relative_to(project.root)): p.read_bytes() for p in sorted(project.lake.root.rglob("*.parquet"))}


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_whole_graph_runs_once_and_a_second_run_does_nothing(project: Project, stages: Stages, rounds: int) -> None:
    """Every partition is made by one run in order; a repeated run starts none, calls no stage and changes no byte."""
    for shard in SHARDS:
        drop(project, f"{shard}.jsonl", shard.encode())
    runs, seen = run(project, rounds)
    stages_total = 2 * 7 + 1 + rounds * (5 + 6)
    assert runs == 2 + 1 + rounds * 2
    assert [at.done for at in seen if at.written] == list(range(1, stages_total + 1))
    assert {at.total for at in seen} == {stages_total}
    assert [at.partition for at in seen if at.stage == "takeover_runs" and at.written] == [
        f"r00{n}|kata-test" for n in range(rounds)
    ]  # nobody takes demonstrations over
    assert any(at.within == (2, 3) for at in seen)
    before, calls = lake_bytes(project), dict(stages.calls)
    runs, seen = run(project, rounds)
    assert runs == 0
    assert all(at.is_skipped for at in seen)
    assert len(seen) == stages_total
    assert dict(stages.calls) == calls
    assert lake_bytes(project) == before


@pytest.mark.slow
def test_new_bytes_in_one_shard_run_that_shard_and_what_hangs_on_it(project: Project, stages: Stages) -> None:
    """A changed file reruns its own partitions and the rounds, and leaves the other shard alone."""
    drop(project, "a.jsonl", b"1")
    drop(project, "b.jsonl", b"1")
    run(project, rounds=1)
    drop(project, "a.jsonl", b"2")
    runs, seen = run(project, rounds=1)
    assert runs == 4  # a, the corpus, r000|a, r000
    assert {at.partition for at in seen if at.is_skipped} == {"b", "r000|b"}


@pytest.mark.slow
def test_a_lake_without_an_instance_is_recorded_without_working_again(project: Project, stages: Stages) -> None:
    """When only Dagster's own records are lost, runs record what is there; no stage works."""
    import shutil

    drop(project, "a.jsonl", b"1")
    run(project, rounds=1)
    calls = dict(stages.calls)
    shutil.rmtree(project.root / "dagster")
    runs, seen = run(project, rounds=1)
    assert runs == 4
    assert dict(stages.calls) == calls
    assert not any(at.written.is_new for at in seen if at.written)


@pytest.mark.slow
def test_a_failing_record_stops_with_the_reason_and_the_next_run_goes_on(project: Project, stages: Stages) -> None:
    """The message is the error's own sentence; what was finished before is not done again."""
    drop(project, "a.jsonl", b"1")
    drop(project, "kata-expert.jsonl", POISON)
    with pytest.raises(RunFailedError, match=r"kata-expert\.jsonl, record 1, \$: cannot be read Export it again"):
        run(project, rounds=0)
    drop(project, "kata-expert.jsonl", b"2")
    runs, seen = run(project, rounds=0)
    assert {at.partition for at in seen if at.is_skipped} == {"a"}
    assert runs == 2  # the shard, the corpus


@pytest.mark.slow
def test_a_run_that_was_killed_is_marked_and_done_again(project: Project) -> None:
    """A driver that holds the lock knows that an unfinished run of an earlier driver is dead."""
    drop(project, "a.jsonl", b"1")
    with open_instance(project.root) as instance:
        job = assemble(project.root).resolve_job_def("corpus_job")
        dead = instance.create_run_for_job(job, tags={"handoff/by": "driver"}, status=DagsterRunStatus.STARTED)
    runs, _ = run(project, rounds=0)
    assert runs == 2  # the shard, the corpus
    with open_instance(project.root) as instance:
        ended = instance.get_run_by_id(dead.run_id)
        assert ended is not None
        assert ended.status is DagsterRunStatus.FAILURE
        (corpus,) = instance.get_runs(filters=RunsFilter(job_name="corpus_job", statuses=[DagsterRunStatus.SUCCESS]))
        assert corpus.tags[CONTENT].startswith("i_")  # so that the new-corpus sensor knows what was read


def test_two_drivers_never_work_in_one_folder(project: Project) -> None:
    """The second says so and leaves."""
    open_instance(project.root).dispose()
    with (project.root / "dagster" / "driver.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunFailedError, match="another run is working"):
            run(project, rounds=1)


def test_the_command_prints_stages_and_no_noise_of_the_orchestrator(
    project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line per stage on the output, nothing else; a second run says in one line that all was current."""
    import handoff_assets.driver as driver

    def definitions(root: Path) -> Any:
        return lambda: assemble(root, TrackingResource(uri="memory:driver"))

    monkeypatch.setattr(driver, "_definitions", definitions)
    drop(project, "a.jsonl", b"1")
    assert main(["--data", str(project.root), "--rounds", "0"]) == 0
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 8
    assert "raw_trajectories a" in out
    assert err == ""
    assert main(["--data", str(project.root), "--rounds", "0"]) == 0
    out, err = capfd.readouterr()
    assert out == "8 stages were current: nothing to do for them\n"
    assert err == ""


def test_two_uis_never_open_on_one_instance(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    """Both would run its sensors; the second says so and leaves."""
    open_instance(project.root).dispose()
    with (project.root / "dagster" / "ui.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert main(["--data", str(project.root), "--ui", "3999"]) == 1
    assert "already open" in capfd.readouterr().err
