"""OpenHands benchmark rows (``output.jsonl``) and resolver rows: one attempt at one task per line.

::

    {"instance_id": "owner__name-17", "instruction": "…", "history": [… events …], "error": null,
     "test_result": {"git_patch": "diff --git …"}, "instance": {"repo": "owner/name", "base_commit": "…"},
     "metadata": {"agent_class": "CodeActAgent", "llm_config": {"model": "…"}, "max_iterations": 50},
     "metrics": {"accumulated_cost": 0.31, "token_usages": [{"response_id": "…", "prompt_tokens": 5920, …}]}}

``history`` holds V0 events, pairs of them in the oldest rows, or the events of the agent SDK. ``instance`` is the row
of the data set, with hidden tests and the reference patch: only the names of the repository and of its commit are
read. Whether the task was solved is known where the evaluation was written back into the row; a resolver's
``success`` is only a model's opinion.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from handoff.adapters import openhands_events, openhands_sdk, values
from handoff.adapters.openhands import Metrics, Run, Spending, is_given
from handoff.adapters.openhands_events import Event
from handoff.framing import Record
from handoff.framing.losses import NOTHING, SEALED, UPKEEP, Repeated, Sealed, Upkeep
from handoff.framing.record import Row, first_item
from handoff.trajectory import Outcome, Trajectory

T = TypeVar("T")


class Model(msgspec.Struct, gc=False):
    """A client's configuration of a model; its other keys may hold an API key and are not read."""

    model: str | None = None


class Metadata(msgspec.Struct, gc=False):
    """``metadata`` of a benchmark row."""

    agent_class: str | None = None
    llm_config: msgspec.Raw = NOTHING
    llm: msgspec.Raw = NOTHING
    max_iterations: Any = None
    git_commit: str | None = None
    dataset: str | None = None
    data_split: str | None = None
    dataset_split: str | None = None
    start_time: Upkeep = NOTHING
    eval_output_dir: Upkeep = NOTHING
    agent_config: Upkeep = NOTHING
    condenser_config: Upkeep = NOTHING
    details: Upkeep = NOTHING


class Report(msgspec.Struct, gc=False):
    """What the evaluation found."""

    resolved: Any = None
    error_eval: Any = None
    empty_generation: Sealed = NOTHING
    failed_apply_patch: Sealed = NOTHING
    test_timeout: Sealed = NOTHING


class TestResult(msgspec.Struct, gc=False):
    """``test_result``; what it holds besides differs between benchmarks."""

    git_patch: Any = None
    report: msgspec.Raw = NOTHING
    apply_patch_output: Sealed = NOTHING
    test_output: Sealed = NOTHING


class Issue(msgspec.Struct, gc=False):
    """``issue`` of a resolver row; its text is in the instruction."""

    owner: str | None = None
    repo: str | None = None
    number: int | None = None
    title: Repeated = NOTHING
    body: Repeated = NOTHING


class _Instance(msgspec.Struct, gc=False):
    repo: str | None = None
    base_commit: str | None = None


class _Task(NamedTuple):
    task_id: str | None
    repo: str | None
    base: str | None


class OpenHandsOutput:
    """Reads rows with ``history``."""

    format = "openhands_output"

    def recognises(self, record: Record) -> bool:
        """``history`` of events, or an empty one beside a result: then this format refuses it in the right words."""
        if "history" not in record.keys:
            return False
        first, _ = _first(record)
        if first:
            return openhands_events.is_bare_event(first) or openhands_sdk.is_event(first)
        return "instance_id" in record.keys and "test_result" in record.keys

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit, or there is no task or no reply."""
        metrics = record.field("metrics", Metrics)
        run = Run(Spending([metrics] if metrics is not None else ()))
        _read_history(record, run)
        metadata = record.field("metadata", Metadata) or Metadata()
        task = _task(record)
        result = record.field("test_result", TestResult) or TestResult()
        report = record.under(result.report, Report, "$.test_result.report") if is_given(result.report) else None
        report = report or record.field("report", Report) or Report()
        patch = result.git_patch
        if not isinstance(patch, str | None):
            record.lost("$.test_result.git_patch")
            patch = None
        instance_id = record.text("instance_id")
        instruction = record.text("instruction") or ""
        run.facts |= {
            "version": run.facts.get("version"),
            "agent_class": metadata.agent_class or run.facts.get("agent_class"),
            "git_commit": metadata.git_commit,
            "dataset": metadata.dataset,
            "max_iterations": values.whole(metadata.max_iterations),
            "attempt": record.field("attempt", int),
            "issue_type": record.text("issue_type"),
            "judged_success": record.field("success", bool),
            "base_ref": task.base if task.base and not values.commit(task.base) else None,
            "instance_id": instance_id if values.task_of(instance_id) != instance_id else None,
        }
        record.leave("result_explanation", "comment_success", "fine_grained_report", reason=SEALED)
        record.leave("runtime_runs", reason=UPKEEP)
        known = Trajectory(
            format=self.format,
            task_id=values.task_of(instance_id) or task.task_id,
            task=instruction,
            repo=task.repo or values.repository_of(instance_id),
            base_commit=values.commit(task.base),
            model=_model(record, metadata),
            split=values.split(metadata.data_split or metadata.dataset_split),
            steps=(),
            outcome=Outcome(
                resolved=None if report.error_eval is True else values.flag(report.resolved),
                exit_status=record.text("error"),
                patch=patch or record.text("git_patch"),
            ),
        )
        return (run.trajectory(record, "$.history", known),)


def _first(record: Record) -> tuple[dict[str, Any], bool]:
    """The first event, and whether events stand in pairs. A column may hold the list as text."""
    history = bytes(record.keys["history"])
    if history[:1] == b'"':
        history = (record.peek("history") or "").encode("utf-8", "replace")
    are_pairs = history[:1] == b"[" and history[1:200].lstrip()[:1] == b"["
    return first_item(history[1:] if are_pairs else history), are_pairs


def _read_history(record: Record, run: Run) -> None:
    if not is_given(record.keys["history"]):
        return
    first, are_pairs = _first(record)
    if openhands_sdk.is_event(first):
        events = record.decode_under("history", list[msgspec.Raw])
        rows = [Row(record.position, bytes(event)) for event in events]
        openhands_sdk.read(rows, run, record, "$.history[]")
    elif are_pairs:
        pairs = record.decode_under("history", list[list[Event]])
        openhands_events.read([event for pair in pairs for event in pair], run, record, "$.history[]")
    else:
        openhands_events.read(record.decode_under("history", list[Event]), run, record, "$.history")


def _task(record: Record) -> _Task:
    issue = record.field("issue", Issue)
    if issue is not None:
        repo = f"{issue.owner}/{issue.repo}" if issue.owner and issue.repo else None
        named = f"{repo}#{issue.number}" if repo and issue.number is not None else None
        return _Task(named, repo, record.text("base_commit"))
    instance = _unaccounted(record.keys.get("instance", NOTHING), _Instance) or _Instance()
    record.leave("instance", reason=SEALED)
    return _Task(None, instance.repo, instance.base_commit)


def _model(record: Record, metadata: Metadata) -> str | None:
    for name, raw in (("llm_config", metadata.llm_config), ("llm", metadata.llm)):
        if is_given(raw):
            record.lost(f"$.metadata.{name}", reason=UPKEEP)
            model = _unaccounted(raw, Model)
            if model is not None and model.model:
                return model.model
    return None


def _unaccounted(raw: msgspec.Raw, kind: type[T]) -> T | None:
    """A few fields of something that is otherwise left aside as a whole."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
