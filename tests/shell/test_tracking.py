"""The experiment tracker: one entry per round, never at the price of the round."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from dagster import DagsterInstance
from standins import Stages, drop

from handoff.project import Project
from resources.tracking import FakeTracker, Journal, TrackingResource, entry_of


@pytest.fixture
def closed(project: Project, stages: Stages) -> Project:
    """A project with one closed round."""
    drop(project, "a.jsonl", b"1")
    for stage in (stages.raw_trajectories, stages.repository_states, stages.injected_handoffs, stages.view_renderings):
        stage(project, "a")
    close(project, stages, "r000")
    return project


def close(project: Project, stages: Stages, round: str) -> None:
    for stage in (stages.adversarial_variants, stages.takeover_runs, stages.diagnostics):
        stage(project, round, "a")
    for stage in (stages.robustness, stages.curated_training_set, stages.exports, stages.policy, stages.round_report):
        stage(project, round)


@pytest.fixture
def tracking(request: pytest.FixtureRequest) -> tuple[TrackingResource, FakeTracker]:
    uri = f"memory:{request.node.name}"
    return TrackingResource(uri=uri), FakeTracker.named(uri)


def test_an_entry_is_read_from_the_lake(closed: Project) -> None:
    """Figures under their cell's name, data sets by the digest of their bytes, the report."""
    entry = entry_of(closed, "r000")
    assert entry.metrics["hrs/test/none/repo/all/A"] == 0.5
    assert entry.metrics["curated/sft"] > 0
    assert entry.parameters["policy.E"].startswith("m_")
    assert entry.parameters["settings.seed"] == str(closed.settings.seed)
    digests = {dataset.name: dataset.digest for dataset in entry.datasets}
    assert digests["takeover_runs/r000/a"] == closed.lake.digest("takeover_runs", round="r000", shard="a")
    assert entry.artifacts == ("reports/r000/index.html",)
    assert entry_of(closed, "r000") == entry


def test_a_round_is_logged_once(closed: Project, tracking: tuple[TrackingResource, FakeTracker]) -> None:
    """However often it is recorded."""
    resource, tracker = tracking
    assert resource.record(closed, "r000") == "logged as run-1"
    assert resource.record(closed, "r000") == "logged as run-1"
    assert len(tracker.sent) == 1


def test_a_dead_tracker_costs_nothing_and_gets_the_round_later(
    closed: Project, stages: Stages, tracking: tuple[TrackingResource, FakeTracker]
) -> None:
    """The entry waits in the journal and goes with the next round."""
    resource, tracker = tracking
    tracker.is_down = True
    assert resource.record(closed, "r000") == "waiting: connection refused"
    assert Journal(closed.journal / "tracking").read("r000").run is None
    tracker.is_down = False
    close(closed, stages, "r001")
    assert resource.record(closed, "r001") == "logged as run-2"
    assert [entry.round for entry in tracker.sent] == ["r000", "r001"]


def test_a_lost_answer_does_not_log_a_round_twice(
    closed: Project, tracking: tuple[TrackingResource, FakeTracker]
) -> None:
    """The tracker is asked before it is told again."""
    resource, tracker = tracking
    tracker.dies_after_send = True
    assert resource.record(closed, "r000").startswith("waiting")
    assert resource.record(closed, "r000") == "logged as run-1"
    assert len(tracker.sent) == 1


@pytest.mark.slow
def test_a_dead_server_is_given_up_within_seconds_and_the_round_waits(
    closed: Project, instance: DagsterInstance
) -> None:
    """A real MLflow client against a port where nothing listens."""
    resource = TrackingResource(uri="http://127.0.0.1:9")
    assert resource.record(closed, "r000").startswith("waiting: ")


@pytest.mark.slow
def test_mlflow_holds_one_finished_run_per_round(closed: Project) -> None:
    """Parameters, metrics, data sets and the report, in the project's own SQLite file."""
    resource = TrackingResource()
    said = resource.record(closed, "r000")
    assert said.startswith("logged as ")
    (closed.journal / "tracking" / "r000.json").unlink()  # the journal is lost: the tracker still knows the round
    assert resource.record(closed, "r000") == said
    database = sqlite3.connect(closed.root / "mlflow.db")
    count = {
        table: database.execute(f"select count(*) from {table}").fetchone()[0]
        for table in ("runs", "metrics", "datasets")
    }
    database.close()
    entry = entry_of(closed, "r000")
    assert count == {"runs": 1, "metrics": len(entry.metrics), "datasets": len(entry.datasets)}
    assert any(Path(closed.root / "mlflow-artifacts").rglob("index.html"))
