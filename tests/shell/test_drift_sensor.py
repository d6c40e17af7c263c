"""Drift: one run per evidence, bounded, with a pause; from event histories."""

from __future__ import annotations

from typing import Any

import pytest
from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    MultiPartitionKey,
    RunRequest,
    SensorResult,
    SkipReason,
    build_sensor_context,
)
from standins import Stages

import sensors.drift
from handoff.project import Project
from handoff_assets.definitions import assemble
from resources.project import ProjectResource
from sensors.drift import COOLDOWN_S, REGENERATIONS, Drift, drift_sensor, may_act
from sensors.jobs import EVIDENCE

CELL = "E:repo/error/none"


def rates(value: float) -> list[dict[str, Any]]:
    """One cell's failure rate, as a round's robustness holds it."""
    from handoff.diagnosis.robustness import FAILURE_MODES

    mode = sorted(FAILURE_MODES)[0]
    common = {"split": "validation", "arm": "E", "view": "repo", "label": "error", "tier": "none", "n_runs": 200}
    return [{**common, "metric": mode, "value": value, "n_points": 200, "n_tasks": 200, "coverage": 1.0}]


def close(project: Project, round: str, value: float) -> None:
    project.lake.write("robustness", rates(value), inputs=f"{round}{value}", round=round)


@pytest.fixture
def ready(project: Project, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One shard that was read, one round in which takeovers failed rarely, and no cooldown."""
    instance.report_runless_asset_event(AssetMaterialization("view_renderings", partition="kata-train"))
    instance.add_dynamic_partitions("shard", ["kata-train"])
    instance.add_dynamic_partitions("round", ["r000"])
    close(project, "r000", 0.1)
    monkeypatch.setattr(sensors.drift, "COOLDOWN_S", 0.0)
    return project


def tick(project: Project, instance: DagsterInstance) -> RunRequest | str:
    """The one run that is requested, or why there is none."""
    resource = ProjectResource(root=str(project.root))
    with build_sensor_context(instance=instance, resources={"project": resource}) as context:
        result: Any = drift_sensor(context)
    if isinstance(result, SkipReason):
        return str(result.skip_message)
    assert isinstance(result, SensorResult)
    for request in result.dynamic_partitions_requests or ():
        instance.add_dynamic_partitions(str(request.partitions_def_name), list(request.partition_keys))
    (run,) = result.run_requests or ()
    return run


def launch(
    project: Project, instance: DagsterInstance, request: RunRequest | str, status: DagsterRunStatus
) -> DagsterRun:
    assert isinstance(request, RunRequest), request
    key = request.partition_key
    assert isinstance(key, MultiPartitionKey)
    tags = {**request.tags, "dagster/sensor_name": "drift_sensor", "dagster/partition": str(key)}
    tags |= {f"dagster/partition/{name}": value for name, value in key.keys_by_dimension.items()}
    job = assemble(project.root).resolve_job_def("takeover_job")
    return instance.create_run_for_job(job, tags=tags, status=status, run_config=request.run_config)


def test_it_is_off_until_someone_switches_it_on() -> None:
    """It starts agents."""
    assert drift_sensor.default_status is DefaultSensorStatus.STOPPED


def test_rounds_that_differ_by_chance_start_nothing(ready: Project, instance: DagsterInstance) -> None:
    """One round alone, or two that are alike."""
    assert "fewer than two rounds" in str(tick(ready, instance))
    close(ready, "r001", 0.11)
    assert "more than chance" in str(tick(ready, instance))


def test_a_drift_starts_exactly_one_run_of_the_failing_cells(ready: Project, instance: DagsterInstance) -> None:
    """In a round of its own, restricted to the cells, tagged with mode, cell and evidence; never twice."""
    close(ready, "r001", 0.6)
    instance.add_dynamic_partitions("round", ["r001"])
    request = tick(ready, instance)
    assert isinstance(request, RunRequest)
    assert str(request.partition_key) == "r002|kata-train"
    assert request.run_config["ops"]["takeover_runs"] == {"config": {"cells": [CELL]}}
    assert request.tags["handoff/cell"] == CELL
    assert request.tags["handoff/mode"] == rates(0.0)[0]["metric"]
    assert request.tags[EVIDENCE].startswith("i_")
    launch(ready, instance, request, DagsterRunStatus.STARTED)
    assert tick(ready, instance) == "a regeneration is still running"


def test_evidence_that_was_answered_is_answered_for_ever(ready: Project, instance: DagsterInstance) -> None:
    """Also after a restart: there is no cursor to lose."""
    close(ready, "r001", 0.6)
    launch(ready, instance, tick(ready, instance), DagsterRunStatus.SUCCESS)
    assert tick(ready, instance) == "this evidence has been answered"


def test_a_failed_regeneration_goes_on_in_its_round_a_bounded_number_of_times(
    ready: Project, instance: DagsterInstance
) -> None:
    """The journal of takeovers makes the second attempt cheap."""
    close(ready, "r001", 0.6)
    targets = []
    for _ in range(3):
        request = tick(ready, instance)
        launch(ready, instance, request, DagsterRunStatus.FAILURE)
        targets.append(str(request.partition_key))  # type: ignore[union-attr]
    assert len(set(targets)) == 1
    assert tick(ready, instance) == "this evidence failed too often"


def test_a_cell_that_keeps_failing_is_left_to_a_person(ready: Project, instance: DagsterInstance) -> None:
    """What a regeneration produces is what the sensor reads next: it must not feed itself without end."""
    for n in range(REGENERATIONS):
        close(ready, "r001", 0.6 + n / 100)
        launch(ready, instance, tick(ready, instance), DagsterRunStatus.SUCCESS)
    close(ready, "r001", 0.9)
    assert f"regenerated {REGENERATIONS} times and still fails" in str(tick(ready, instance))


def test_after_one_regeneration_there_is_a_pause() -> None:
    """New evidence waits; a retry of the same evidence does not."""
    old = _run("i_old", DagsterRunStatus.SUCCESS)
    drift = Drift(mode="lost_context", cells=(CELL,), evidence="i_new")
    attempt, why_not = may_act(drift, [old], [1000.0], now=1000.0 + COOLDOWN_S - 1)
    assert (attempt, "cooling down" in why_not) == (-1, True)
    assert may_act(drift, [old], [1000.0], now=1000.0 + COOLDOWN_S + 1) == (0, "")
    failed = _run("i_new", DagsterRunStatus.FAILURE)
    assert may_act(drift, [failed], [1000.0], now=1001.0) == (1, "")


def test_the_run_it_requests_can_be_executed(
    ready: Project, instance: DagsterInstance, stages: Stages, unchecked: None
) -> None:
    """Partition, configuration and cells are what the job's assets take."""
    (ready.inbox / "kata-train.jsonl").write_bytes(b"1")
    for stage in (stages.raw_trajectories, stages.injected_handoffs, stages.view_renderings):
        stage(ready, "kata-train")
    close(ready, "r001", 0.6)
    request = tick(ready, instance)
    assert isinstance(request, RunRequest)
    job = assemble(ready.root).resolve_job_def("takeover_job")
    config = {**request.run_config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    result = job.execute_in_process(instance=instance, partition_key=str(request.partition_key), run_config=config)
    assert result.success
    assert stages.cells == [(CELL,)]


def _run(evidence: str, status: DagsterRunStatus) -> DagsterRun:
    tags = {EVIDENCE: evidence, "handoff/mode": "lost_context", "handoff/cell": CELL}
    return DagsterRun(job_name="takeover_job", status=status, tags=tags)
