"""One MLflow run per round. A round never fails because the tracker is down.

What a round has to say is first written to ``journal/tracking/<round>.json`` in the data folder; sending it is a
second step, tried at once and again with every later round. The tracker is asked whether it has the entry already,
so that a process killed between sending and noting it does not log a round twice. MLflow itself is imported only when
there is something to send. ``FakeTracker``, for tests, keeps entries in memory and can be down.
"""

import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from dagster import ConfigurableResource, get_dagster_logger
from pydantic import Field

if TYPE_CHECKING:
    from handoff.project import Project

EXPERIMENT = "handoff-data"
KEY = "handoff.entry"
"""Tag that holds an entry's identifier: a round is looked up by it before it is sent."""
DATASETS = ("curated_training_set", "takeover_runs", "diagnostics")


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """One table that a round used. ``digest``: of the partition's bytes, as Dagster's data version says it."""

    name: str
    digest: str
    source: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What one round tells the tracker."""

    key: str
    round: str
    parameters: dict[str, str]
    metrics: dict[str, float]
    datasets: tuple[Dataset, ...]
    artifacts: tuple[str, ...]
    """Paths relative to the data folder."""


class Journaled(msgspec.Struct, frozen=True, kw_only=True):
    """An entry on disk. ``run``: the tracker's own identifier, ``None`` while it waits."""

    entry: Entry
    run: str | None = None


class TrackerError(Exception):
    """The tracker did not take an entry; it can be sent again."""


class Tracker(Protocol):
    """Anything that keeps entries. Both methods raise ``TrackerError`` when it cannot be reached."""

    def find(self, key: str) -> str | None:
        """The run that holds the entry ``key``, if there is one."""

    def send(self, entry: Entry, root: Path) -> str:
        """Keep ``entry``; the identifier of its run."""


class TrackingResource(ConfigurableResource):  # type: ignore[type-arg]
    """Logs rounds to MLflow."""

    uri: str | None = Field(
        default=None,
        description="Tracking server. Empty: $MLFLOW_TRACKING_URI, or SQLite in the data folder (mlflow.db).",
    )

    def tracker(self, root: Path) -> Tracker:
        """The tracker that ``uri`` names; ``memory:NAME`` is a fake one in this process."""
        uri = self.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root / 'mlflow.db'}"
        return FakeTracker.named(uri) if uri.startswith("memory:") else MlflowTracker(uri)

    def record(self, project: "Project", round: str) -> str:
        """Write the round's entry down, then send all that wait. Says in words what became of this round's."""
        journal = Journal(project.journal / "tracking")
        journal.write(entry_of(project, round))
        tracker = self.tracker(project.root)
        try:
            journal.send(tracker, project.root)
        except TrackerError as error:
            get_dagster_logger().warning(f"the tracker cannot be reached; {round} waits in {journal.folder}: {error}")
            return f"waiting: {error}"
        return f"logged as {journal.read(round).run}"


class Journal:
    """Entries on disk, one file per round."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, round: str) -> Journaled:
        """What is known of one round's entry."""
        return msgspec.json.decode((self.folder / f"{round}.json").read_bytes(), type=Journaled)

    def write(self, entry: Entry) -> None:
        """Keep ``entry`` for sending, unless the very same one is there already."""
        if not (self.folder / f"{entry.round}.json").exists() or self.read(entry.round).entry != entry:
            self._store(Journaled(entry=entry))

    def send(self, tracker: Tracker, root: Path) -> None:
        """Send every entry that waits, oldest round first."""
        for path in sorted(self.folder.glob("r*.json")):
            waiting = self.read(path.stem)
            if waiting.run is None:
                run = tracker.find(waiting.entry.key) or tracker.send(waiting.entry, root)
                self._store(Journaled(entry=waiting.entry, run=run))

    def _store(self, journaled: Journaled) -> None:
        from handoff.lake import write_file

        write_file(self.folder / f"{journaled.entry.round}.json", msgspec.json.format(msgspec.json.encode(journaled)))


def entry_of(project: "Project", round: str) -> Entry:
    """What ``round`` tells the tracker, read from the lake."""
    from handoff.identity import canonical_json, identify

    cells = project.lake.rows("robustness", ["split", "arm", "view", "label", "tier", "metric", "value"], round=round)
    metrics = {
        _name(row["metric"], row["split"], row["tier"], row["view"], row["label"], row["arm"]): row["value"]
        for row in cells
        if row["value"] is not None
    }
    curated = project.lake.read("curated_training_set", ["kind"], round=round)["kind"].value_counts().to_pylist()
    metrics |= {_name("curated", row["values"]): float(row["counts"]) for row in curated}
    partitions = [(t, p) for t in DATASETS for p in project.lake.partitions(t) if p.get("round") == round]
    datasets = tuple(
        Dataset(
            name="/".join([table, *(value for _, value in sorted(partition.items()))]),
            digest=project.lake.digest(table, **partition),
            source=str(project.lake.path(table, **partition).relative_to(project.root)),
        )
        for table, partition in partitions
    )
    policies = project.lake.rows("policy", ["arm", "policy_id"], round=round)
    parameters = {f"policy.{row['arm']}": row["policy_id"] for row in policies} | {
        f"settings.{name}": str(value) for name, value in msgspec.to_builtins(project.settings).items()
    }
    page = project.reports / round / "index.html"
    entry = Entry(
        key="",
        round=round,
        parameters=dict(sorted(parameters.items())),
        metrics=dict(sorted(metrics.items())),
        datasets=datasets,
        artifacts=(str(page.relative_to(project.root)),) if page.exists() else (),
    )
    return msgspec.structs.replace(entry, key=identify("i", "tracking", canonical_json(msgspec.to_builtins(entry))))


def _name(*parts: str) -> str:
    """A metric's name in MLflow's alphabet."""
    return "/".join(re.sub(r"[^\w. -]", "-", part, flags=re.ASCII) for part in parts)


class MlflowTracker:
    """Entries as runs of the experiment ``handoff-data``."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._client: Any = None

    def find(self, key: str) -> str | None:
        """By tag, over the experiment's runs."""
        with _quietly(), _as_tracker_error():
            client, experiment = self._open(None)
            if experiment is None:
                return None
            runs = client.search_runs(
                [experiment], filter_string=f"tags.`{KEY}` = '{key}' and attributes.status = 'FINISHED'", max_results=1
            )
            return runs[0].info.run_id if runs else None

    def send(self, entry: Entry, root: Path) -> str:
        """One run: parameters, metrics, dataset inputs, the report. Finished last: half a run is never found."""
        with _quietly(), _as_tracker_error():
            from mlflow.entities import Dataset as MlflowDataset
            from mlflow.entities import DatasetInput, InputTag, Metric, Param

            client, experiment = self._open(root)
            run = client.create_run(
                experiment, run_name=entry.round, tags={KEY: entry.key, "handoff.round": entry.round}
            ).info.run_id
            step = int(entry.round.removeprefix("r"))
            for batch in _batches(sorted(entry.metrics.items()), 1000):
                client.log_batch(run, metrics=[Metric(name, value, 0, step) for name, value in batch])
            for batch in _batches(sorted(entry.parameters.items()), 100):
                client.log_batch(run, params=[Param(name, value[:6000]) for name, value in batch])
            inputs = [
                DatasetInput(
                    dataset=MlflowDataset(
                        # MLflow keeps 36 characters of a digest: enough to recognise the data version.
                        name=dataset.name,
                        digest=dataset.digest[:36],
                        source_type="local",
                        source=f'{{"uri": "{dataset.source}"}}',
                    ),
                    tags=[
                        InputTag(
                            "mlflow.data.context", "training" if dataset.name.startswith("curated") else "evaluation"
                        )
                    ],
                )
                for dataset in entry.datasets
            ]
            if inputs:
                client.log_inputs(run, inputs)
            for artifact in entry.artifacts:
                client.log_artifact(run, str(root / artifact), "report")
            client.set_terminated(run)
            return str(run)

    def _open(self, root: Path | None) -> tuple[Any, str | None]:
        """The client and the experiment's identifier; the experiment is made when ``root`` says where artifacts go."""
        if self._client is None:
            # A dead server must cost seconds, not MLflow's default of minutes.
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            from mlflow import MlflowClient

            self._client = MlflowClient(tracking_uri=self.uri)
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return self._client, found.experiment_id
        if root is None:
            return self._client, None
        location = (root / "mlflow-artifacts").as_uri() if self.uri.startswith("sqlite:") else None
        return self._client, self._client.create_experiment(EXPERIMENT, artifact_location=location)


@contextmanager
def _as_tracker_error() -> Iterator[None]:
    """Turns what a dead, full or foreign tracker raises into ``TrackerError``."""
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
        raise TrackerError(str(error).strip().splitlines()[0][:300]) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Silences the migrations that MLflow's SQLite store reports line by line, and its libraries' deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import mlflow.store  # noqa: F401 - it sets its loggers up when it is imported

        levels = {name: logging.getLogger(name).level for name in ("mlflow", "alembic")}
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


def _batches(items: list[tuple[str, Any]], size: int) -> list[list[tuple[str, Any]]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


class FakeTracker:
    """Keeps entries in memory. ``is_down``: unreachable; ``dies_after_send``: the answer is lost, not the entry."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.sent: list[Entry] = []
        self.is_down = False
        self.dies_after_send = False

    @classmethod
    def named(cls, uri: str) -> "FakeTracker":
        """The one fake of this name: Dagster builds resources anew in every run, and what was sent must stay."""
        return _FAKES.setdefault(uri, cls())

    def find(self, key: str) -> str | None:
        """As a tracker does."""
        self._reach()
        return self.kept.get(key)

    def send(self, entry: Entry, root: Path) -> str:
        """As a tracker does."""
        self._reach()
        self.sent.append(entry)
        self.kept[entry.key] = f"run-{len(self.sent)}"
        if self.dies_after_send:
            self.dies_after_send = False
            raise TrackerError("connection reset after sending")
        return self.kept[entry.key]

    def _reach(self) -> None:
        if self.is_down:
            raise TrackerError("connection refused")


_FAKES: dict[str, FakeTracker] = {}
