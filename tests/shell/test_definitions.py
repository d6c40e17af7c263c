"""What Dagster loads: the graph of the tables, quickly, with names and lineage that hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dagster import AssetKey, Definitions, MultiPartitionsDefinition

from handoff.endpoints import Endpoint
from handoff.errors import InputError
from handoff.lake import SCHEMAS
from handoff.project import Settings
from handoff.stages import CODE_VERSIONS
from handoff_assets.checks import BESIDE, BLOCKING, KEYS
from handoff_assets.columns import DESCRIPTIONS
from handoff_assets.definitions import assemble
from handoff_assets.driver import STAGES
from handoff_assets.lineage import COLUMN_LINEAGE
from handoff_assets.partitions import BY_ROUND_AND_SHARD, BY_SHARD, BY_STUDY, WHOLE
from resources.writer import WriterResource

ROOT = Path(__file__).resolve().parent.parent.parent

GROUPS = {
    "corpus": {"raw_trajectories", "environment_facts", "repository_states", "quality_signals", "corpus_report"},
    "handoffs": {"injected_handoffs", "view_renderings"},
    "adversary": {"worst_points", "adversarial_variants", "tiers"},
    "takeovers": {"takeover_runs"},
    "diagnosis": {"diagnostics", "robustness"},
    "curation": {"recorded_samples", "salvaged", "curated_training_set", "exports"},
    "coevolution": {"policy", "round_report"},
    "studies": {"handoff_debt", "handoff_tax"},
}


@pytest.fixture(scope="module")
def defs() -> Definitions:
    return assemble(ROOT / "data")


def test_definitions_load_without_the_heavy_libraries() -> None:
    """In a fresh interpreter, with the driver: a repeated run needs neither Great Expectations nor MLflow."""
    heavy = "{'great_expectations', 'mlflow', 'duckdb'}"
    code = f"import sys, handoff_assets.definitions, handoff_assets.driver; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_every_table_is_one_asset_in_its_group_with_version_description_and_schema(defs: Definitions) -> None:
    """Every asset, described by what one row is."""
    graph = defs.resolve_asset_graph()
    found: dict[str, set[str]] = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        name = key.path[-1]
        found.setdefault(str(node.group_name), set()).add(name)
        assert str(node.description).startswith("One row is one"), name
        assert node.code_version == CODE_VERSIONS[name]
        assert "python" in node.kinds
        schema = node.metadata["dagster/column_schema"]
        assert [c.name for c in schema.columns] == SCHEMAS[name].names
    assert found == GROUPS


def test_described_columns_exist_and_few_are_left_undescribed() -> None:
    """A new column may come first and its description follow; an old description does not stay behind."""
    names = {name for table in CODE_VERSIONS for name in SCHEMAS[table].names}
    assert set(DESCRIPTIONS) <= names
    assert len(names - set(DESCRIPTIONS)) < 10


def test_partitions_are_shard_round_or_both(defs: Definitions) -> None:
    """As docs say: what describes recordings by shard, what runs agents by both, what looks at everything by round; the
    corpus report has none."""
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        partitions = graph.get(key).partitions_def
        name = key.path[-1]
        if name in BY_ROUND_AND_SHARD:
            assert isinstance(partitions, MultiPartitionsDefinition)
            assert sorted(partitions.partition_dimension_names) == ["round", "shard"]
        elif name in WHOLE:
            assert partitions is None
        else:
            kind = "shard" if name in BY_SHARD else "study" if name in BY_STUDY else "round"
            assert getattr(partitions, "name", None) == kind


def test_jobs_hold_each_table_once_in_the_order_of_the_graph(defs: Definitions) -> None:
    """What the driver expects of a job is what Dagster runs."""
    graph = defs.resolve_asset_graph()
    order = [key.path[-1] for key in graph.toposorted_asset_keys]
    for job, stages in STAGES.items():
        selected = {key.path[-1] for key in defs.resolve_job_def(job).asset_layer.executable_asset_keys}
        assert selected == set(stages)
        assert all(
            order.index(up.path[-1]) < order.index(table)
            for table in stages
            for up in graph.get(AssetKey(table)).parent_keys
        )
    assert sorted(table for stages in STAGES.values() for table in stages) == sorted(CODE_VERSIONS)


def test_column_lineage_names_real_columns_of_tables_upstream(defs: Definitions) -> None:
    """Every edge ends in an existing column of an ancestor."""
    graph = defs.resolve_asset_graph()
    assert sorted(COLUMN_LINEAGE) == sorted(CODE_VERSIONS)
    for table, columns in COLUMN_LINEAGE.items():
        ancestors = {key.path[-1] for key in graph.get_ancestor_asset_keys(AssetKey(table))}
        for column, upstream in columns.items():
            assert column in SCHEMAS[table].names, (table, column)
            for name in upstream:
                up_table, up_column = name.split(".")
                assert up_table in ancestors, (table, name)
                assert up_column in SCHEMAS[up_table].names, (table, name)


def test_every_table_has_a_check_and_those_that_guard_training_data_block(defs: Definitions) -> None:
    """A check's description lists what it promises."""
    graph = defs.resolve_asset_graph()
    others = {*BESIDE, "lint"}
    keys = {check.asset_key.path[-1]: graph.get(check) for check in graph.asset_check_keys if check.name not in others}
    assert sorted(keys) == sorted(KEYS) == sorted(CODE_VERSIONS)
    beside = {check.name: check.asset_key.path[-1] for check in graph.asset_check_keys if check.name in BESIDE}
    assert beside == {table: asset for table, (asset, _) in BESIDE.items()}
    assert {name for name, node in keys.items() if node.blocking} == BLOCKING
    assert {"takeover_runs", "diagnostics", "robustness", "curated_training_set"} <= BLOCKING
    assert all("\n- " in str(node.description) for node in keys.values())


def test_a_writer_that_is_set_goes_before_that_of_the_file() -> None:
    """And has to be described there; one left empty changes nothing."""
    own = Settings(successors={name: Endpoint(base_url="http://h/v1", model=name) for name in ("a", "b")}, writer="a")
    assert WriterResource().over(own) == own
    assert WriterResource(writer="b").over(own).writer == "b"
    with pytest.raises(InputError, match="writer names 'c'"):
        WriterResource(writer="c").over(own)
