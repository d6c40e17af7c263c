"""What the UI shows of a table is read from its rows: every summary can be asked, of no rows and of real ones."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from handoff.lake import Lake
from handoff.project import Project
from handoff.stages import CODE_VERSIONS
from handoff_assets.metadata import Summary, _query, materialized
from handoff_assets.raw_trajectories import LOST

SUMMARIES = [
    pytest.param(name, summary, id=f"{name}: {summary.title}")
    for name in CODE_VERSIONS
    for summary in vars(import_module(f"handoff_assets.{name}")).values()
    if isinstance(summary, Summary)
]


def loss(field: str, reason: str | None, count: int) -> dict[str, object]:
    return {"field": field, "reason": reason, "count": count}


@pytest.mark.parametrize(("table", "summary"), SUMMARIES)
def test_every_summary_fits_the_schema_of_the_table_that_it_reads(tmp_path: Path, table: str, summary: Summary) -> None:
    project = Project(tmp_path)
    written = Lake(project.lake.root).write(summary.table or table, [], inputs="i", part="one")
    rows, columns = _query(project, written, summary)
    assert rows == [] or all(value in (None, 0) for row in rows for value in row)
    assert {summary.label, summary.value, summary.low, summary.high, summary.group} <= {*columns, None}


def test_losses_without_a_home_come_first_and_are_summed_over_files(tmp_path: Path) -> None:
    project = Project(tmp_path)
    rows = [
        {"path": "a", "losses": [loss("$.colour", None, 2), loss("$.id", "upkeep", 9)]},
        {"path": "b", "losses": [loss("$.colour", None, 1)]},
    ]
    project.lake.write("sources", rows, inputs="i", shard="k")
    written = project.lake.write("raw_trajectories", [], inputs="i", shard="k")
    shown = str(materialized(project, written, LOST).metadata[LOST.title].value)
    lines = [line for line in shown.splitlines() if "$" in line]
    assert [line.split("|")[1:5] for line in lines] == [
        [" $.colour ", " no home ", " 3 ", " 2 "],
        [" $.id ", " upkeep ", " 9 ", " 1 "],
    ]
