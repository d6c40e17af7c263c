"""Rounds: the schedule that starts one and the sensor that closes it, from event histories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DagsterRunStatus,
    DefaultScheduleStatus,
    RunRequest,
    SkipReason,
    build_schedule_context,
    build_sensor_context,
    instance_for_test,
)

from sensors.schedules import close_round_sensor, next_round, round_schedule


def materialize(instance: DagsterInstance, table: str, *partitions: str) -> None:
    for partition in partitions:
        instance.report_runless_asset_event(AssetMaterialization(table, partition=partition))


@pytest.fixture
def whole_instance() -> Iterator[DagsterInstance]:
    """Schedules want an instance on disk."""
    with instance_for_test() as made:
        yield made


def tick(instance: DagsterInstance) -> list[RunRequest] | str:
    with build_schedule_context(instance=instance) as context:
        result: Any = round_schedule(context)
    return str(result.skip_message) if isinstance(result, SkipReason) else result


def close(instance: DagsterInstance) -> RunRequest | str:
    with build_sensor_context(instance=instance) as context:
        result: Any = close_round_sensor(context)
    return str(result.skip_message) if isinstance(result, SkipReason) else result


def test_the_next_round_is_the_largest_plus_one() -> None:
    """Not the count: a deleted round never comes back under its name. Names that are no rounds are ignored."""
    assert next_round([]) == "r000"
    assert next_round(["r000", "r007"]) == "r008"
    assert next_round(["r999", "rehearsal", "r"]) == "r1000"


def test_the_schedule_is_off_until_someone_switches_it_on() -> None:
    """It starts agents."""
    assert round_schedule.default_status is DefaultScheduleStatus.STOPPED


def test_the_schedule_starts_one_run_per_shard_that_was_read_and_can_be_taken_over(
    whole_instance: DagsterInstance,
) -> None:
    """Demonstrations are not; neither is a shard whose views are not there yet."""
    assert "no shard has been read yet" in str(tick(whole_instance))
    materialize(whole_instance, "view_renderings", "a", "b", "kata-expert")
    materialize(whole_instance, "raw_trajectories", "c")
    whole_instance.add_dynamic_partitions("round", ["r000", "r004"])
    requests = tick(whole_instance)
    assert isinstance(requests, list)
    assert [str(request.partition_key) for request in requests] == ["r005|a", "r005|b"]
    assert len({request.run_key for request in requests}) == 2
    assert "r005" in whole_instance.get_dynamic_partitions("round")


def test_no_round_is_started_while_the_last_one_runs(whole_instance: DagsterInstance) -> None:
    """The schedule says so and waits."""
    materialize(whole_instance, "view_renderings", "a")
    whole_instance.create_run_for_job(_noop("takeover_job"), status=DagsterRunStatus.STARTED)
    assert tick(whole_instance) == "the last round is still running"


def test_a_round_is_closed_once_when_every_shard_is_diagnosed(instance: DagsterInstance) -> None:
    """Not before; not twice; and again after takeovers were run again."""
    materialize(instance, "view_renderings", "a", "b", "kata-expert")
    assert close(instance) == "no round has been started"
    instance.add_dynamic_partitions("round", ["r000", "r001"])
    materialize(instance, "diagnostics", "r000|a", "r000|b", "r001|a")
    assert close(instance) == "r001 waits for the takeovers of b"
    materialize(instance, "diagnostics", "r001|b")
    first = close(instance)
    assert isinstance(first, RunRequest)
    assert first.partition_key == "r001"
    again = close(instance)
    assert isinstance(again, RunRequest)
    assert again.run_key == first.run_key  # which Dagster starts once
    materialize(instance, "round_report", "r001")
    assert close(instance) == "r001 is closed"
    materialize(instance, "diagnostics", "r001|a")
    second = close(instance)
    assert isinstance(second, RunRequest)
    assert second.run_key != first.run_key


def _noop(name: str) -> Any:
    from dagster import job, op

    @op
    def nothing() -> None:
        """Nothing."""

    @job(name=name)
    def made() -> None:
        nothing()

    return made
