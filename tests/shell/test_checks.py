"""Great Expectations suites as asset checks: read-only, escaped, naming the rows that fail."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dagster import AssetCheckSeverity, DagsterInstance, MultiPartitionKey
from standins import HOSTILE, Stages, drop

from handoff.lake import SCHEMAS
from handoff.project import Project
from handoff_assets.checks import BESIDE, KEYS, SUITES, read_suite, validate
from handoff_assets.definitions import assemble
from resources.tracking import TrackingResource

ROOT = Path(__file__).resolve().parent.parent.parent
SUITED = [*KEYS, *BESIDE]
"""Every table that has a suite."""


def test_the_folder_holds_suites_and_no_python() -> None:
    """A Python file there would hide the installed library of the same name."""
    folder = ROOT / "great_expectations"
    assert not list(folder.rglob("*.py"))
    assert {p.stem for p in (folder / "expectations").glob("*.json")} == set(SUITED)
    code = "import importlib.util as u; print(u.find_spec('great_expectations').origin)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "site-packages" in done.stdout


@pytest.mark.parametrize("table", sorted(SUITED))
def test_a_suite_names_columns_that_exist_and_are_not_nested(table: str) -> None:
    """Nested columns would be pickled twice; a misspelt one would fail every run."""
    suite = read_suite(table)
    assert suite.name == table
    assert (
        len({e.description for e in suite.expectations})
        == len(suite.expectations)
        == len({e.id for e in suite.expectations})
    )
    for column in suite.columns():
        kind = SCHEMAS[table].field(column).type
        assert not (pa.types.is_list(kind) or pa.types.is_struct(kind)), column


@pytest.mark.slow
def test_the_file_context_opens_and_holds_the_same_suites() -> None:
    """The committed folder is a Great Expectations context that anybody can open; opening it changes no file."""
    before = {p: p.read_bytes() for p in (ROOT / "great_expectations").rglob("*.json")}
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import great_expectations as gx, os\n"
        "context = gx.get_context(context_root_dir=os.path.abspath('great_expectations'))\n"
        "print(sorted((s.name, len(s.expectations)) for s in context.suites.all()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted((table, len(read_suite(table).expectations)) for table in SUITED))
    assert {p: p.read_bytes() for p in (ROOT / "great_expectations").rglob("*.json")} == before


def test_an_empty_partition_holds_every_expectation() -> None:
    """A shard without points is not an error."""
    for table in sorted(SUITED):
        rows = SCHEMAS[table].empty_table().select(read_suite(table).columns())
        assert [f.expectation.description for f in validate(read_suite(table), rows) if not f.holds] == [], table


def test_a_failing_expectation_names_its_rows() -> None:
    """By key, so that a person can open them; conditions reach only the rows they are about."""
    rows = pa.table(
        {
            "takeover_id": ["k_1", "k_2", "k_3", "k_4"],
            "metric": ["e_cr", "e_cr", "excess_cost", "p_si"],
            "reason": [None, None, None, None],
            "value": [0.5, 1.5, 7.0, None],
        },
        schema=pa.schema(
            [(c, SCHEMAS["diagnostics"].field(c).type) for c in ("takeover_id", "metric", "reason", "value")]
        ),
    )
    failed = {f.expectation.description: f for f in validate(read_suite("diagnostics"), rows) if not f.holds}
    assert failed.keys() == {"shares lie between 0 and 1", "a missing value has a reason"}
    assert failed["shares lie between 0 and 1"].rows == ("k_2 e_cr",)
    assert failed["a missing value has a reason"].rows == ("k_4 p_si",)


def test_a_branch_is_kept_only_if_it_solved_its_task() -> None:
    suite = read_suite("branches")
    row = {"base_id": "k_1", "step": 2, "move": "read a.py", "chance": 0.1, "entropy": 0.5, "verdict": "tried"}
    rows = [
        {**row, "takeover_id": "k_2", "solved": True, "is_kept": True},
        {**row, "move": "run", "takeover_id": "k_3", "solved": False, "is_kept": True},
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMAS["branches"]).select(suite.columns())
    failed = {f.expectation.description: f.rows for f in validate(suite, table) if not f.holds}
    assert failed == {"what is kept solved its task": ("k_1 2 run",)}


def test_bad_takeovers_stop_everything_downstream(project: Project, stages: Stages, instance: DagsterInstance) -> None:
    """The blocking check fails, names the row, and diagnosis does not start."""

    def spoil(rows: list[dict[str, Any]]) -> None:
        rows[0]["steps"] = -1

    drop(project, "a.jsonl", b"1")
    stages.raw_trajectories(project, "a")
    stages.injected_handoffs(project, "a")
    stages.view_renderings(project, "a")
    stages.change["takeover_runs"] = spoil
    instance.add_dynamic_partitions("shard", ["a"])
    instance.add_dynamic_partitions("round", ["r000"])
    result = _materialize(project, instance, "takeover_job", MultiPartitionKey({"round": "r000", "shard": "a"}))
    assert not result.success
    evaluations = {e.asset_key.path[-1]: e for e in result.get_asset_check_evaluations()}
    assert evaluations["adversarial_variants"].passed
    takeovers = evaluations["takeover_runs"]
    assert not takeovers.passed
    assert takeovers.severity is AssetCheckSeverity.ERROR
    bad = project.lake.rows("takeover_runs", round="r000", shard="a")[0]["takeover_id"]
    assert bad in str(takeovers.description)
    assert any(
        bad in str(value.value) for name, value in takeovers.metadata.items() if name.startswith("rows that fail")
    )
    assert {key.path[-1] for key in result.asset_materializations_keys} == {
        "worst_points",
        "adversarial_variants",
        "takeover_runs",
    }


def test_metadata_reads_well_and_cannot_be_broken_by_what_recordings_say(
    project: Project, stages: Stages, instance: DagsterInstance
) -> None:
    """Counts, schema, lineage, place, digest, an escaped table and a plot that is well-formed XML."""
    from xml.etree import ElementTree

    drop(project, "a.jsonl", b"1")
    instance.add_dynamic_partitions("shard", ["a"])
    result = _materialize(project, instance, "corpus_job", "a")
    assert result.success
    metadata = result.metadata("raw_trajectories")
    assert metadata["dagster/row_count"].value == 3
    assert metadata["digest"].value == project.lake.digest("raw_trajectories", shard="a")
    assert metadata["is_new"].value is True
    assert [c.name for c in metadata["dagster/column_schema"].schema.columns] == SCHEMAS["raw_trajectories"].names
    assert "| chat | agent | train | 3 |" in metadata["recorded runs"].value
    quarantine = metadata["quarantined records"].value
    assert "<script" not in quarantine
    assert "\x1b" not in quarantine
    assert len(quarantine.splitlines()) == 3  # heading, rule, one row: the text did not break out
    assert HOSTILE not in quarantine
    (encoded,) = re.findall(r"base64,([A-Za-z0-9+/=]+)", metadata["recorded runs (plot)"].value)
    assert ElementTree.fromstring(base64.b64decode(encoded)).tag.endswith("svg")
    states = result.metadata("repository_states")
    deps = states["dagster/column_lineage"].column_lineage.deps_by_column["tree"]
    assert [(d.asset_key.path[-1], d.column_name) for d in deps] == [("raw_trajectories", "base_commit")]


def test_suites_are_json_as_great_expectations_writes_it() -> None:
    """Indented, with a final newline, so that a changed expectation is a one-line diff."""
    for path in sorted(SUITES.glob("*.json")):
        text = path.read_text("utf-8")
        assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


class _Result:
    """An in-process execution, with what these tests ask of it."""

    def __init__(self, result: Any) -> None:
        self.success = result.success
        self.get_asset_check_evaluations = result.get_asset_check_evaluations
        events = [e for e in result.all_events if e.event_type_value == "ASSET_MATERIALIZATION"]
        self._materializations = {e.asset_key.path[-1]: e.materialization for e in events}
        self.asset_materializations_keys = [e.asset_key for e in events]

    def metadata(self, table: str) -> Any:
        return self._materializations[table].metadata


def _materialize(project: Project, instance: DagsterInstance, job: str, key: Any) -> _Result:
    defs = assemble(project.root, TrackingResource(uri="memory:checks"))
    config = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return _Result(
        defs.resolve_job_def(job).execute_in_process(
            instance=instance, partition_key=key, raise_on_error=False, run_config=config
        )
    )


def test_training_files_are_looked_at_by_lint(
    project: Project, stages: Stages, instance: DagsterInstance, tmp_path: Path
) -> None:
    """A faulty file fails the check, names code and place, and stops nothing."""

    def write(rows: list[dict[str, Any]]) -> None:
        folder = project.exports / "r000" / "trl"
        folder.mkdir(parents=True)
        (folder / "sft-train-00000.jsonl").write_text('{"prompt": [], "completion": [], "tools": []}\n')
        rows[:] = [{"format": "trl", "path": "r000/trl/sft-train-00000.jsonl", "rows": 1, "sample_ids": ["s"]}]

    stages.change["exports"] = write
    drop(project, "a.jsonl", b"1")
    for stage in (stages.raw_trajectories, stages.injected_handoffs, stages.view_renderings):
        stage(project, "a")
    instance.add_dynamic_partitions("shard", ["a"])
    instance.add_dynamic_partitions("round", ["r000"])
    key = MultiPartitionKey({"round": "r000", "shard": "a"})
    assert _materialize(project, instance, "takeover_job", key).success
    result = _materialize(project, instance, "round_job", "r000")
    assert result.success
    (found,) = (e for e in result.get_asset_check_evaluations() if e.check_name == "lint")
    assert not found.passed and found.severity is AssetCheckSeverity.WARN
    assert "R11" in str(found.metadata["findings"].value)
