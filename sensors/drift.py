"""Drift: a failure mode became more frequent than in the reference round. One run then regenerates the failing cells.

Whether a difference is drift is decided by ``handoff.coevolution`` (a two-sample test per failure mode and
cell, at a false-alarm rate set in advance and corrected for the number of cells). Here is only when to act on
it: once per evidence, a bounded number of times per mode and cell, and not again while the last answer is being
worked on or has just come: what the run produces is what this sensor reads next.
"""

import time
from collections.abc import Sequence

import msgspec
from dagster import (
    AddDynamicPartitionsRequest,
    DagsterRun,
    DefaultSensorStatus,
    MultiPartitionKey,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from handoff.stages import round_number
from resources.project import ProjectResource
from sensors.jobs import ACTIVE, EVIDENCE, TAKEOVER
from sensors.new_corpus import decide
from sensors.schedules import next_round, takeover_shards

REGENERATIONS = 3
"""Runs against one failing mode and cell before the sensor leaves it to a person."""
COOLDOWN_S = 6 * 3600.0
"""Seconds after one regeneration in which no other is started."""
CELL = "handoff/cell"
MODE = "handoff/mode"


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """What the core found, as the sensor needs it."""

    mode: str
    """The failure mode that became worse most clearly."""
    cells: tuple[str, ...]
    """All cells in which one did, sorted."""
    evidence: str
    """Hash of the rows that show it."""


def may_act(drift: Drift, runs: Sequence[DagsterRun], started: Sequence[float], now: float) -> tuple[int, str]:
    """(attempt, "") when a run may start now, else (-1, why not). ``runs``: all that this sensor ever started;
    ``started``: when, in seconds; both in the same order."""
    if any(run.status in ACTIVE for run in runs):
        return -1, "a regeneration is still running"
    decision = decide([run.status for run in runs if run.tags.get(EVIDENCE) == drift.evidence])
    if decision.act != "start":
        return -1, "this evidence has been answered" if decision.act == "done" else "this evidence failed too often"
    answered = {
        run.tags.get(EVIDENCE) for run in runs if run.tags.get(MODE) == drift.mode and run.tags.get(CELL) == _tag(drift)
    }
    if len(answered - {drift.evidence}) >= REGENERATIONS:
        return (
            -1,
            f"{drift.mode} in {_tag(drift)} was regenerated {REGENERATIONS} times and still fails",
        )
    if decision.attempt == 0 and started and now - max(started) < COOLDOWN_S:
        return -1, f"cooling down for {COOLDOWN_S - (now - max(started)):.0f} s after the last regeneration"
    return decision.attempt, ""


@sensor(
    job_name=TAKEOVER,
    minimum_interval_seconds=60,
    default_status=DefaultSensorStatus.STOPPED,
    description="Compares failure rates of the newest round with the reference round and regenerates the cells that "
    "drifted. Off until someone switches it on: it starts agents.",
)
def drift_sensor(context: SensorEvaluationContext, project: ProjectResource) -> SensorResult | SkipReason:
    """At most one run per tick, tagged with mode, cells and evidence."""
    lake = project.open().lake
    rounds = sorted((p["round"] for p in lake.partitions("robustness")), key=round_number)
    if len(rounds) < 2:
        return SkipReason("nothing to compare: fewer than two rounds have been closed")
    drift = find(project, reference=rounds[0], newest=rounds[-1])
    if drift is None:
        return SkipReason(f"{rounds[-1]} does not differ from {rounds[0]} by more than chance")
    records = context.instance.get_run_records(
        filters=RunsFilter(job_name=TAKEOVER, tags={"dagster/sensor_name": "drift_sensor"})
    )
    runs = [record.dagster_run for record in records]
    attempt, why_not = may_act(drift, runs, [record.create_timestamp.timestamp() for record in records], time.time())
    if why_not:
        return SkipReason(why_not)
    shards = takeover_shards(context.instance)
    train = [shard for shard in shards if _collects(project, rounds[-1], shard)] or shards
    if not train:
        return SkipReason("no shard has been read yet")
    target = _round_of(runs, drift) or next_round(context.instance.get_dynamic_partitions("round"))
    return SensorResult(
        run_requests=[
            RunRequest(
                run_key=f"{drift.evidence}:{attempt}",
                partition_key=MultiPartitionKey({"round": target, "shard": train[0]}),
                run_config={"ops": {"takeover_runs": {"config": {"cells": list(drift.cells)}}}},
                tags={EVIDENCE: drift.evidence, MODE: drift.mode, CELL: _tag(drift)},
            )
        ],
        dynamic_partitions_requests=[AddDynamicPartitionsRequest("round", [target])],
    )


def find(project: ProjectResource, *, reference: str, newest: str) -> Drift | None:
    """What moved between two rounds; ``None`` when nothing did by more than chance."""
    from handoff import coevolution
    from handoff.identity import identify

    lake = project.open().lake
    drifted = coevolution.find_drift(lake.rows("robustness", round=reference), lake.rows("robustness", round=newest))
    if not drifted:
        return None
    cells = tuple(sorted({found.cell for found in drifted}))
    evidence = identify("i", "drifts", *sorted(found.evidence for found in drifted))
    return Drift(mode=drifted[0].mode, cells=cells, evidence=evidence)


def _collects(project: ProjectResource, round: str, shard: str) -> bool:
    """Does this shard's part of ``round`` feed curation?"""
    purposes = project.open().lake.read("takeover_runs", ["purpose"], round=round, shard=shard)["purpose"]
    return "collect" in purposes.unique().to_pylist()


def _round_of(runs: Sequence[DagsterRun], drift: Drift) -> str | None:
    """The round in which this evidence was answered before, when that run failed: it goes on there."""
    for run in runs:
        if run.tags.get(EVIDENCE) == drift.evidence:
            return run.tags.get("dagster/partition/round")
    return None


def _tag(drift: Drift) -> str:
    """Cells as a tag's value, which is short."""
    text = ", ".join(drift.cells)
    return text if len(text) <= 200 else text[:199] + "…"
