"""Every content is read exactly once, whatever dies in between: from event histories."""

from __future__ import annotations

from typing import Any

import pytest
from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    RunRequest,
    SensorResult,
    SkipReason,
    build_sensor_context,
)
from standins import Stages, content_key, drop

from handoff.project import Project
from handoff_assets.definitions import assemble
from resources.project import ProjectResource
from sensors.jobs import CONTENT
from sensors.new_corpus import ATTEMPTS, new_corpus_sensor


class Daemon:
    """Ticks of the sensor, with the order of effects that Dagster's daemon has: partitions, runs, cursor."""

    def __init__(self, project: Project, instance: DagsterInstance) -> None:
        self.project, self.instance = project, instance
        self.cursor: str | None = None
        self.launched: list[DagsterRun] = []
        self._run_keys: set[str] = set()

    def tick(self, *, dies_after: str | None = None) -> list[DagsterRun]:
        """The runs that one tick launches. ``dies_after``: the daemon is killed after ``partitions`` or ``runs``."""
        result = evaluate(self.project, self.instance, self.cursor)
        assert isinstance(result, SensorResult)
        for request in result.dynamic_partitions_requests or ():
            self.instance.add_dynamic_partitions(str(request.partitions_def_name), list(request.partition_keys))
        if dies_after == "partitions":
            return []
        launched = [
            self._launch(request) for request in result.run_requests or () if request.run_key not in self._run_keys
        ]
        if dies_after != "runs":
            self.cursor = result.cursor
        return launched

    def finish(self, run: DagsterRun, *, succeeds: bool = True) -> None:
        """End a run; a successful one has materialized its shard."""
        if succeeds:
            record(self.instance, run, self.project)
        end(self.instance, run, DagsterRunStatus.SUCCESS if succeeds else DagsterRunStatus.FAILURE)

    def _launch(self, request: RunRequest) -> DagsterRun:
        self._run_keys.add(str(request.run_key))
        run = create(self.project, self.instance, str(request.partition_key), dict(request.tags))
        self.launched.append(run)
        return run


def evaluate(project: Project, instance: DagsterInstance, cursor: str | None) -> SensorResult | SkipReason:
    resource = ProjectResource(root=str(project.root))
    with build_sensor_context(instance=instance, cursor=cursor, resources={"project": resource}) as context:
        result: Any = new_corpus_sensor(context)
    return result


def create(project: Project, instance: DagsterInstance, shard: str, tags: dict[str, str]) -> DagsterRun:
    job = assemble(project.root).resolve_job_def("corpus_job")
    return instance.create_run_for_job(
        job, tags={"dagster/partition": shard, **tags}, status=DagsterRunStatus.STARTED, run_config={}
    )


def record(instance: DagsterInstance, run: DagsterRun, project: Project) -> None:
    shard = run.tags["dagster/partition"]
    content = content_key(project.shard(shard).paths)
    instance.report_runless_asset_event(
        AssetMaterialization("raw_trajectories", partition=shard, metadata={"content": content})
    )


def end(instance: DagsterInstance, run: DagsterRun, status: DagsterRunStatus) -> None:
    if status is DagsterRunStatus.SUCCESS:
        from dagster import DagsterEvent, DagsterEventType

        instance.report_dagster_event(DagsterEvent(DagsterEventType.RUN_SUCCESS.value, run.job_name), run.run_id)
    else:
        instance.report_run_failed(run, "it failed")


@pytest.fixture
def daemon(project: Project, instance: DagsterInstance) -> Daemon:
    return Daemon(project, instance)


def test_a_dropped_file_becomes_a_shard_and_one_run(daemon: Daemon) -> None:
    """The partition exists, the run is tagged with the content, and nothing more happens while it runs or after it."""
    drop(daemon.project, "k.jsonl", b"1")
    (run,) = daemon.tick()
    assert run.tags["dagster/partition"] == "k"
    assert run.tags[CONTENT] == content_key(daemon.project.shard("k").paths)
    assert daemon.instance.get_dynamic_partitions("shard") == ["k"]
    assert daemon.tick() == []
    daemon.finish(run)
    assert daemon.tick() == []
    assert daemon.tick() == []


@pytest.mark.parametrize("point", ["partitions", "runs"])
def test_a_daemon_killed_before_its_cursor_was_stored_loses_and_repeats_nothing(daemon: Daemon, point: str) -> None:
    """The partition may exist without a run, or the run without a cursor: one run is launched in all."""
    drop(daemon.project, "k.jsonl", b"1")
    daemon.tick(dies_after=point)
    daemon.tick()
    assert len(daemon.launched) == 1
    daemon.finish(daemon.launched[0])
    daemon.cursor = None
    assert daemon.tick() == []


def test_new_bytes_under_the_same_name_are_a_run_of_their_own(daemon: Daemon) -> None:
    """Keyed by content: a day later the same name is read again, and the same bytes are not."""
    drop(daemon.project, "k.jsonl", b"1")
    (first,) = daemon.tick()
    daemon.finish(first)
    daemon.tick()
    drop(daemon.project, "k.jsonl", b"2")
    (second,) = daemon.tick()
    assert second.tags[CONTENT] != first.tags[CONTENT]
    daemon.finish(second)
    drop(daemon.project, "k.jsonl", b"2")  # touched, not changed
    assert daemon.tick() == []


def test_new_bytes_wait_while_the_old_ones_are_being_read(daemon: Daemon) -> None:
    """Never two runs at once for one shard."""
    drop(daemon.project, "k.jsonl", b"1")
    (first,) = daemon.tick()
    drop(daemon.project, "k.jsonl", b"2")
    assert daemon.tick() == []
    daemon.finish(first)
    assert len(daemon.tick()) == 1


def test_a_failed_run_is_tried_again_a_bounded_number_of_times(daemon: Daemon) -> None:
    """Then it is left to a person until the file changes."""
    drop(daemon.project, "k.jsonl", b"1")
    for _ in range(ATTEMPTS):
        (run,) = daemon.tick()
        daemon.finish(run, succeeds=False)
    assert daemon.tick() == []
    daemon.cursor = None
    assert daemon.tick() == []
    drop(daemon.project, "k.jsonl", b"2")
    assert len(daemon.tick()) == 1


def test_what_the_driver_or_a_person_has_read_is_not_read_again(daemon: Daemon, stages: Stages) -> None:
    """A run without the sensor's tags counts by what it materialized."""
    drop(daemon.project, "k.jsonl", b"1")
    daemon.instance.add_dynamic_partitions("shard", ["k"])
    job = (
        assemble(daemon.project.root)
        .resolve_job_def("corpus_job")
        .get_subset(asset_selection={_key("raw_trajectories")})
    )
    config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    assert job.execute_in_process(instance=daemon.instance, partition_key="k", run_config=config).success
    assert daemon.tick() == []


def test_a_file_that_is_still_being_copied_is_left_for_a_later_tick(daemon: Daemon) -> None:
    """Changed a moment ago: half a file is no content."""
    (daemon.project.inbox / "k.jsonl").write_bytes(b"half")
    assert daemon.tick() == []
    drop(daemon.project, "k.jsonl", b"half and half")
    assert len(daemon.tick()) == 1


def test_a_broken_inbox_is_said_and_stops_nothing_else(daemon: Daemon) -> None:
    """A shard description that cannot be read is named."""
    (daemon.project.inbox / "x.shard.json").write_text("{", "utf-8")
    result = evaluate(daemon.project, daemon.instance, None)
    assert isinstance(result, SkipReason)
    assert "x.shard.json" in str(result.skip_message)


def test_a_tick_over_known_shards_reads_none_of_them(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards that stayed as they are cost a stat each (`make bench` times it)."""
    from sensors.new_corpus import _stamp

    for n in range(50):
        drop(daemon.project, f"s{n}.jsonl", b"1")
    stamps = {name: {"stamp": _stamp(source.paths), "content": "i"} for name, source in daemon.project.shards().items()}
    import msgspec

    daemon.cursor = msgspec.json.encode(stamps).decode()
    monkeypatch.setattr(ProjectResource, "content", lambda *_: pytest.fail("a known shard was read again"))
    assert daemon.tick() == []


def _key(name: str) -> Any:
    from dagster import AssetKey

    return AssetKey(name)
