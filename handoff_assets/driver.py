"""The whole graph from a terminal: ``python -m handoff_assets.driver --data DIR --rounds N`` (what ``handoff
demo`` starts).

Every run is an ordinary Dagster run, executed in this process on the instance in ``<data>/dagster``, so that
the UI shows afterwards what happened. A partition is skipped when its stage is current in the lake *and* the
instance recorded exactly these bytes; a repeated run therefore starts nothing. A run that was killed is marked
as such by the next one, which goes on where it stopped. ``--ui PORT`` opens the Dagster UI on the same
instance.
"""

import argparse
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
from dagster import (
    AssetKey,
    AssetRecordsFilter,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    RunsFilter,
)

from handoff.errors import HandoffError, LakeError
from handoff.lake import Lake, Written
from handoff.project import Project
from handoff.stages import round_name
from handoff_assets import progress
from handoff_assets.partitions import lake_partition
from resources.project import CHECKOUT, DEMONSTRATIONS
from sensors.jobs import ACTIVE, CONTENT, CORPUS, DEBT, REPORT, ROUND, TAKEOVER, TAX

if TYPE_CHECKING:
    from dagster import Definitions

STAGES: dict[str, dict[str, str]] = {
    CORPUS: {
        "raw_trajectories": "corpus",
        "environment_facts": "environment",
        "quality_signals": "quality",
        "repository_states": "corpus",
        "injected_handoffs": "handoffs",
        "view_renderings": "handoffs",
        "recorded_samples": "recorded",
    },
    REPORT: {"corpus_report": "corpus_report"},
    TAKEOVER: {
        "worst_points": "worst_points",
        "adversarial_variants": "adversary",
        "takeover_runs": "takeovers",
        "diagnostics": "diagnosis",
        "salvaged": "salvage",
    },
    ROUND: {
        "robustness": "diagnosis",
        "tiers": "tiers",
        "curated_training_set": "curation",
        "exports": "exports",
        "policy": "coevolution",
        "round_report": "coevolution",
    },
    DEBT: {"handoff_debt": "debt_study"},
    TAX: {"handoff_tax": "tax_study"},
}
"""Tables of each job, in order, with the module of ``handoff.stages`` that fills them. The driver runs no study."""

FIRST = ("kata-train", "kata-validation", "kata-test")
"""The order in which a round takes shards over; others follow by name."""

BY_DRIVER = {"handoff/by": "driver"}


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the whole graph stands."""

    stage: str
    partition: str
    done: int
    """Stages finished, of ``total``."""
    total: int
    elapsed: float
    """Seconds since the start."""
    within: tuple[int, int] | None = None
    """Done and total inside a stage that is still running."""
    written: Written | None = None
    is_skipped: bool = False
    """The stage was current and recorded before this run."""


class RunFailedError(HandoffError):
    """A run stopped; the message says where and why."""


class _StaleError(LakeError):
    """A partition would have to be made anew."""


class _Reading(Lake):
    """A lake that answers whether a partition is current and refuses to have it made."""

    def current(self, table: str, *, inputs: str, **partition: str) -> Written | None:
        """As ``Lake.current``, with an error in place of ``None``."""
        written = super().current(table, inputs=inputs, **partition)
        if written is None:
            raise _StaleError(f"{table} {partition} is not current")
        return written

    def write(self, table: str, *_: object, **__: object) -> Written:
        """Never."""
        raise _StaleError(f"{table} is not current")


def run_graph(
    root: Path,
    rounds: int,
    report_progress: Callable[[Progress], None],
    *,
    definitions: "Callable[[], Definitions] | None" = None,
) -> int:
    """Materialize every shard and ``rounds`` rounds in ``root``; how many runs were started.

    Raises ``RunFailedError`` at the first run that fails, and ``HandoffError`` for what cannot be read at all.
    ``definitions`` are made only when something has to run.
    """
    started = time.monotonic()
    project = Project(root)
    plan = _plan(project, rounds)
    total = sum(len(STAGES[job]) for job, _ in plan)
    done = runs = 0
    jobs: Definitions | None = None
    with open_instance(root) as instance, _only_driver(root):
        _mark_dead_runs(instance)
        instance.add_dynamic_partitions("shard", sorted(project.shards()))
        instance.add_dynamic_partitions("round", [round_name(n) for n in range(rounds)])
        instance.add_dynamic_partitions("study", sorted(project.studies()))
        for job, key in plan:
            found = _recorded(instance, project, job, key)
            if found is not None:
                for written in found:
                    done += 1
                    at = Progress(
                        stage=written.table,
                        partition=key,
                        done=done,
                        total=total,
                        elapsed=time.monotonic() - started,
                        written=written,
                        is_skipped=True,
                    )
                    report_progress(at)
                continue

            def listen(step: progress.Step, done_before: int = done) -> None:
                nonlocal done
                tables = list(STAGES[job])  # noqa: B023 - called only while this job runs
                done = done_before + tables.index(step.table) + (step.written is not None)
                report_progress(
                    Progress(
                        stage=step.table,
                        partition=step.partition,
                        done=done,
                        total=total,
                        elapsed=time.monotonic() - started,
                        within=None if step.written else (step.done, step.total),
                        written=step.written,
                    )
                )

            jobs = jobs or (definitions or _definitions(root))()
            runs += 1
            with progress.listening(listen):
                _execute(jobs, instance, project, job, key)
    return runs


def open_instance(root: Path) -> DagsterInstance:
    """The persistent instance in ``<root>/dagster``, made from the template when it is not there yet."""
    home = root / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        shutil.copyfile(CHECKOUT / "dagster.yaml", home / "dagster.yaml")
    return DagsterInstance.from_config(str(home))


def open_ui(root: Path, port: int) -> NoReturn:
    """Become ``dagster dev`` on the project's own instance, on loopback only; so signals reach it as they are sent.

    Two of them on one instance would both run its sensors: the second one is refused.
    """
    instance = open_instance(root)
    instance.add_dynamic_partitions("study", sorted(Project(root).studies()))
    instance.dispose()
    lock = os.open(root / "dagster" / "ui.lock", os.O_CREAT | os.O_WRONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunFailedError(f"the UI is already open on {root}; use that one, or stop it first") from error
    os.set_inheritable(lock, True)  # held as long as the UI runs
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` leaves it ignored, and Dagster deaf
    os.chdir(root / "dagster")  # Dagster warns of a dagster.yaml in any other folder that it starts in
    environment = {**os.environ, "DAGSTER_HOME": str(root / "dagster"), "HANDOFF_DATA": str(root)}
    quiet = "ignore:Function `dev_command` is superseded"
    command = [sys.executable, "-W", quiet, "-m", "dagster", "dev", "--workspace", str(CHECKOUT / "workspace.yaml")]
    os.execve(sys.executable, [*command, "--host", "127.0.0.1", "--port", str(port)], environment)


def _plan(project: Project, rounds: int) -> list[tuple[str, str]]:
    """(job, partition key) in order: every shard, all of them together, then round by round. No key: no partition."""
    shards = sorted(project.shards())
    taken_over = sorted(set(shards) - DEMONSTRATIONS, key=lambda s: (FIRST.index(s) if s in FIRST else len(FIRST), s))
    plan = [(CORPUS, shard) for shard in shards]
    plan += [(REPORT, "")] if shards else []
    for number in range(rounds):
        plan += [(TAKEOVER, f"{round_name(number)}|{shard}") for shard in taken_over]
        plan.append((ROUND, round_name(number)))
    return plan


def _recorded(instance: DagsterInstance, project: Project, job: str, key: str) -> list[Written] | None:
    """What ``job`` would find for ``key`` if it ran: all tables current, and recorded with these very bytes;
    else ``None``."""
    reading = Project(project.root, project.settings)
    reading.lake = _Reading(project.lake.root)
    found = []
    for table, module in STAGES[job].items():
        partition = lake_partition(table, key)
        if _recorded_digest(instance, table, key) != project.lake.digest(table, **partition):
            return None
        stage = getattr(import_module(f"handoff.stages.{module}"), table)
        arguments = [partition[name] for name in ("round", "shard") if name in partition]
        try:
            found.append(stage(reading, *arguments))
        except _StaleError:
            return None
    return found


def _recorded_digest(instance: DagsterInstance, table: str, key: str) -> str | None:
    wanted = AssetRecordsFilter(asset_key=AssetKey(table), asset_partitions=[key] if key else None)
    for record in instance.fetch_materializations(wanted, limit=1).records:
        if record.asset_materialization is not None:
            digest = record.asset_materialization.metadata.get("digest")
            return str(digest.value) if digest is not None else None
    return None


def _execute(definitions: "Definitions", instance: DagsterInstance, project: Project, job: str, key: str) -> None:
    tags = dict(BY_DRIVER)
    if job == CORPUS:
        from handoff.stages.corpus import content_key

        tags[CONTENT] = content_key(project.shard(key).paths)
    result = definitions.resolve_job_def(job).execute_in_process(
        instance=instance,
        partition_key=key or None,
        tags=tags,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    if not result.success:
        reasons = [_reason(event) for event in result.all_events if event.event_type == DagsterEventType.STEP_FAILURE]
        raise RunFailedError(f"{job} {key} failed: {'; '.join(reasons) or 'see the run in the UI'}")


def _reason(event: object) -> str:
    """What a person needs from a failed step: the innermost of our own errors, or the last line of whatever it was."""
    data = getattr(event, "step_failure_data", None)
    error = data.error if data is not None else None
    while error is not None and error.cause is not None:
        error = error.cause
    return f"{getattr(event, 'step_key', '')}: {error.message.strip() if error is not None else 'no reason given'}"


def _mark_dead_runs(instance: DagsterInstance) -> None:
    """Runs of an earlier driver that never ended: this one holds the lock, so their process is gone."""
    for run in instance.get_runs(filters=RunsFilter(tags=BY_DRIVER, statuses=list(ACTIVE))):
        if run.status is not DagsterRunStatus.CANCELED:
            instance.report_run_failed(run, "The process that executed this run ended before the run did.")


@contextmanager
def _only_driver(root: Path) -> Iterator[None]:
    """At most one driver per data folder. The lock goes with the process, however that ends."""
    with (root / "dagster" / "driver.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunFailedError(f"another run is working in {root}; wait for it, or stop it first") from error
        yield


def _definitions(root: Path) -> "Callable[[], Definitions]":
    def make() -> "Definitions":
        from handoff_assets.definitions import assemble

        return assemble(root)

    return make


class _Terminal:
    """Progress for people: one line per finished stage, and on a terminal a line that moves."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)
        self._status = self._console.status("starting")
        self._skipped = 0

    def __enter__(self) -> "_Terminal":
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()
        if self._skipped:
            self._console.print(f"{self._skipped} stages were current: nothing to do for them")

    def __call__(self, at: Progress) -> None:
        """Show where the graph stands."""
        clock = f"{int(at.elapsed) // 60}:{int(at.elapsed) % 60:02d}"
        place = f"{at.done:>3}/{at.total}  {at.stage} {at.partition}"
        if at.is_skipped:
            self._skipped += 1
        elif at.written is not None:
            new = "" if at.written.is_new else ", as before"
            self._console.print(f"{clock}  {place:<58} {at.written.rows:>7,} rows{new}", markup=False)
        elif at.within is not None and self._console.is_terminal:
            self._status.update(f"{clock}  {place}  {at.within[0]:,} of {at.within[1]:,}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 a run failed, 130 interrupted (run the same command again)."""
    parser = argparse.ArgumentParser(
        prog="python -m handoff_assets.driver", description="Run the whole graph, or open its UI."
    )
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--rounds", type=int, default=2, help="rounds to run (default: 2)")
    parser.add_argument("--ui", type=int, metavar="PORT", help="open the Dagster UI on this port instead")
    options = parser.parse_args(arguments)
    root = options.data.absolute()
    try:
        if options.ui is not None:
            open_ui(root, options.ui)
        with _Terminal() as terminal:
            run_graph(root, options.rounds, terminal)
    except HandoffError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept. Run the same command again.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
