"""The corpus report follows the states of the shards, from event histories."""

from __future__ import annotations

from typing import Any

from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    SkipReason,
    build_sensor_context,
)

from handoff_assets.definitions import assemble
from sensors.corpus_report import corpus_report_sensor


def made(instance: DagsterInstance, table: str, partition: str | None = None) -> None:
    instance.report_runless_asset_event(AssetMaterialization(table, partition=partition))


def tick(instance: DagsterInstance) -> RunRequest | str:
    with build_sensor_context(instance=instance) as context:
        result: Any = corpus_report_sensor(context)
    return str(result.skip_message) if isinstance(result, SkipReason) else result


def run(instance: DagsterInstance, job: str, status: DagsterRunStatus, tags: dict[str, str] | None = None) -> None:
    instance.create_run_for_job(assemble().resolve_job_def(job), tags=tags or {}, status=status)


def test_it_is_on_from_the_start() -> None:
    """It reads what is there and starts no agent."""
    assert corpus_report_sensor.default_status is DefaultSensorStatus.RUNNING


def test_the_report_is_made_when_states_are_newer_than_it(instance: DagsterInstance) -> None:
    assert "no shard" in str(tick(instance))
    made(instance, "repository_states", "a")
    first = tick(instance)
    assert isinstance(first, RunRequest)
    assert first.partition_key is None
    made(instance, "corpus_report")
    assert "up to date" in str(tick(instance))
    made(instance, "repository_states", "b")
    second = tick(instance)
    assert isinstance(second, RunRequest)
    assert second.run_key != first.run_key


def test_it_waits_while_shards_are_read(instance: DagsterInstance) -> None:
    """One report for many shards, not one for each."""
    made(instance, "repository_states", "a")
    run(instance, "corpus_job", DagsterRunStatus.STARTED)
    assert "being read" in str(tick(instance))


def test_a_report_that_failed_is_tried_again_a_few_times(instance: DagsterInstance) -> None:
    made(instance, "repository_states", "a")
    keys = set()
    for _ in range(3):
        request = tick(instance)
        assert isinstance(request, RunRequest)
        keys.add(request.run_key)
        run(instance, "report_job", DagsterRunStatus.FAILURE, request.tags)
    assert len(keys) == 3
    assert "give up" in str(tick(instance))
