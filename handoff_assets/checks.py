"""Asset checks: the Great Expectations suite of every table, run on the partition that was just written.

The suites are the committed files ``great_expectations/expectations/<table>.json``, read and never rewritten:
they run in an ephemeral context. Suites listed in ``BLOCKING`` stop everything downstream when a critical
expectation fails: no training data is made from figures that do not hold. A failing expectation names the rows
by their key.

Great Expectations takes seconds to import, so it is imported by the first check that runs, not by this module.
"""

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    MetadataValue,
    asset_check,
)

from handoff.report.tables import markdown, plain
from handoff_assets.partitions import lake_partition
from resources.project import ProjectResource

if TYPE_CHECKING:
    import pyarrow as pa

    from handoff.lake import Lake

SUITES = Path(__file__).resolve().parent.parent / "great_expectations" / "expectations"

KEYS: dict[str, tuple[str, ...]] = {
    "raw_trajectories": ("trajectory_id",),
    "environment_facts": ("trajectory_id", "place"),
    "repository_states": ("trajectory_id", "step"),
    "quality_signals": ("trajectory_id", "step", "signal", "rule"),
    "injected_handoffs": ("point_id",),
    "view_renderings": ("view_id",),
    "recorded_samples": ("sample_id",),
    "worst_points": ("trajectory_id", "point_id", "how"),
    "adversarial_variants": ("variant_id",),
    "takeover_runs": ("takeover_id",),
    "diagnostics": ("takeover_id", "metric"),
    "robustness": ("split", "arm", "view", "label", "tier", "metric"),
    "salvaged": ("salvage_id",),
    "tiers": ("split", "arm", "tier"),
    "curated_training_set": ("sample_id",),
    "exports": ("path",),
    "policy": ("policy_id",),
    "round_report": ("round",),
    "corpus_report": ("format", "repo", "status", "category"),
    "handoff_debt": ("arm", "view", "label", "metric"),
    "handoff_tax": ("direction", "timing", "interface"),
}
"""Columns that name one row of an asset's table to a person."""

BESIDE = {
    "state_verdicts": ("repository_states", ("trajectory_id",)),
    "branches": ("takeover_runs", ("base_id", "step", "move")),
    "debt_runs": ("handoff_debt", ("takeover_id",)),
    "tax_runs": ("handoff_tax", ("takeover_id",)),
}
"""Tables that another table's asset writes with its own: that asset, and the columns that name a row."""
_NAMING = KEYS | {table: keys for table, (_, keys) in BESIDE.items()}

BLOCKING = frozenset({"takeover_runs", "diagnostics", "robustness", "curated_training_set", "recorded_samples"})

NAMED = 20
"""Failing rows named per expectation."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation of a committed suite, as Great Expectations stores it."""

    type: str
    kwargs: dict[str, Any]
    description: str
    id: str
    severity: str = "critical"
    meta: dict[str, Any] = {}


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """One committed suite."""

    name: str
    expectations: tuple[Expectation, ...]
    id: str
    notes: str = ""
    meta: dict[str, Any] = {}

    def columns(self) -> list[str]:
        """The columns that the suite names, with the key: all that is read."""
        named: dict[str, None] = dict.fromkeys(_NAMING[self.name])
        for expectation in self.expectations:
            for kwarg in ("column", "column_A", "column_B"):
                if kwarg in expectation.kwargs:
                    named.setdefault(expectation.kwargs[kwarg])
            named.update(dict.fromkeys(expectation.kwargs.get("column_list", ())))
            if "row_condition" in expectation.kwargs:
                named.setdefault(expectation.kwargs["row_condition"]["column"]["name"])
        return list(named)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one expectation found."""

    expectation: Expectation
    holds: bool
    unexpected: int
    rows: tuple[str, ...]
    """The first failing rows, by key."""
    problem: str


@cache
def read_suite(table: str) -> Suite:
    """The committed suite of ``table``."""
    return msgspec.json.decode((SUITES / f"{table}.json").read_bytes(), type=Suite)


def validate(suite: Suite, rows: "pa.Table") -> list[Finding]:
    """Run ``suite`` over ``rows``, which hold the columns it names."""
    import pandas as pd

    run = _runner()
    frame = rows.to_pandas(types_mapper=pd.ArrowDtype)
    results = run(suite, frame)
    return [
        _finding(expectation, result, _NAMING[suite.name])
        for expectation, result in zip(suite.expectations, results, strict=True)
    ]


@cache
def _runner() -> Any:
    """Great Expectations, opened once per process in memory: nothing is written, nothing is reported home."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the library's own imports
        from great_expectations.core.expectation_suite import ExpectationSuite
        from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

        import great_expectations as gx

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars={"globally": False},
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    batches = (
        context.data_sources.add_pandas("lake")
        .add_dataframe_asset("partition")
        .add_batch_definition_whole_dataframe("all")
    )

    def run(suite: Suite, frame: Any) -> list[Any]:
        built = ExpectationSuite(name=suite.name, expectations=[msgspec.to_builtins(e) for e in suite.expectations])
        batch = batches.get_batch({"dataframe": frame})
        wanted = {"result_format": "COMPLETE", "unexpected_index_column_names": list(_NAMING[suite.name])}
        by_id = {result.expectation_config.id: result for result in batch.validate(built, result_format=wanted).results}
        return [by_id[expectation.id] for expectation in suite.expectations]

    return run


def _finding(expectation: Expectation, result: Any, keys: Sequence[str]) -> Finding:
    details = result.result or {}
    rows = details.get("unexpected_index_list") or []
    # GX reports an exception as one dictionary, or as one per metric.
    raised = result.exception_info or {}
    messages = [raised] if "exception_message" in raised else list(raised.values())
    problem = "; ".join(str(m["exception_message"]) for m in messages if m.get("raised_exception"))
    if not result.success and not problem and not rows:
        problem = f"observed {details.get('observed_value')!r}"
    return Finding(
        expectation=expectation,
        holds=bool(result.success),
        unexpected=int(details.get("unexpected_count") or 0),
        rows=tuple(" ".join(str(row.get(key)) for key in keys) for row in rows[:NAMED]),
        problem=problem,
    )


def _check(table: str) -> AssetChecksDefinition:
    suite = read_suite(table)
    promises = "".join(f"\n- {expectation.description}" for expectation in suite.expectations)
    stops = "Stops everything downstream when it fails.\n" if table in BLOCKING else ""

    asset = BESIDE[table][0] if table in BESIDE else table

    @asset_check(
        asset=asset,
        name="expectations" if asset == table else table,
        blocking=table in BLOCKING,
        description=f"{suite.notes} {stops}\nGreat Expectations suite `expectations/{table}.json`:\n{promises}",
    )
    def check(context: AssetCheckExecutionContext, project: ProjectResource) -> AssetCheckResult:
        lake = project.open().lake
        partitions = _partitions(context, table, lake)
        tables = [lake.read(table, suite.columns(), **partition).select(suite.columns()) for partition in partitions]
        findings = [finding for rows in tables for finding in validate(suite, rows)]
        where = ", ".join(" · ".join(value for _, value in sorted(partition.items())) for partition in partitions)
        return _result(suite, where, sum(rows.num_rows for rows in tables), findings)

    return check


def _partitions(context: AssetCheckExecutionContext, table: str, lake: "Lake") -> list[dict[str, str]]:
    """The partition that this run writes; every one that there is when a check is started by hand without one."""
    run = context.op_execution_context
    if run.has_partition_key:
        return [lake_partition(table, str(run.partition_key))]
    return lake.partitions(table)


def _result(suite: Suite, where: str, n_rows: int, findings: Sequence[Finding]) -> AssetCheckResult:
    failed = [finding for finding in findings if not finding.holds]
    lines = [
        (
            "holds" if f.holds else "FAILS",
            f.expectation.description,
            f.unexpected or "",
            ", ".join(f.rows[:3]) or f.problem,
        )
        for f in findings
    ]
    metadata: dict[str, Any] = {
        "rows": n_rows,
        "partition": where,
        "expectations": MetadataValue.md(markdown(["", "expectation", "unexpected", "where"], lines)),
    }
    for finding in failed:
        if finding.rows:
            named = markdown([" ".join(_NAMING[suite.name])], [[row] for row in finding.rows])
            metadata[f"rows that fail: {plain(finding.expectation.description, 80)}"] = MetadataValue.md(named)
    is_critical = any(finding.expectation.severity == "critical" for finding in failed)
    first = (
        f": {failed[0].expectation.description} ({', '.join(failed[0].rows[:3]) or failed[0].problem})"
        if failed
        else ""
    )
    return AssetCheckResult(
        passed=not failed,
        severity=AssetCheckSeverity.ERROR if is_critical else AssetCheckSeverity.WARN,
        description=plain(
            f"{len(findings) - len(failed)} of {len(findings)} expectations hold on {n_rows} rows"
            f"{' of ' + where if where else ''}{first}",
            600,
        ),
        metadata=metadata,
    )


checks: list[AssetChecksDefinition] = [_check(table) for table in _NAMING]
