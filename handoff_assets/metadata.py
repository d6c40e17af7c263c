"""What a materialization says about itself: counts, a table, a plot, schema, lineage, place and digest.

An asset describes its table by one or two ``Summary`` queries, run over the partition that was just written;
everything shown in the UI is read back from those rows. Text of unknown origin is escaped cell by cell.
How the terminal and the report show the same rows is in ``handoff/report``.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster import DataVersion, MaterializeResult, MetadataValue, TableColumn, TableSchema

from handoff.lake import SCHEMAS, Written
from handoff.plots import Bar, interval_chart
from handoff.project import Project
from handoff.report.tables import markdown, plain
from handoff_assets import progress
from handoff_assets.columns import DESCRIPTIONS
from handoff_assets.lineage import column_lineage

SHOWN = 40
"""Rows of a summary shown in the UI; the rest is one query away."""

_INK = "#7a7f87"
"""A plot is shown as an image, which knows no page colour: this grey reads on white and on black."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One query over a written partition, shown as a table and, where columns are named for it, as a plot."""

    title: str
    sql: str
    """Reads from ``rows``, the partition's file. Must say its order."""
    label: str | None = None
    """Column that names a bar; ``None`` for no plot."""
    value: str | None = None
    low: str | None = None
    high: str | None = None
    group: str | None = None
    table: str | None = None
    """Another table of the same partition to read instead."""


def table_schema(table: str) -> TableSchema:
    """A lake table's columns, in Dagster's terms."""
    return TableSchema(
        columns=[
            TableColumn(name=field.name, type=str(field.type), description=DESCRIPTIONS.get(field.name))
            for field in SCHEMAS[table]
        ]
    )


def materialized(
    project: Project, written: Written, *summaries: Summary, **more: MetadataValue | str | int | float
) -> MaterializeResult:
    """The result of an asset that wrote one partition. ``more`` is shown beside the standard entries."""
    progress.finished(written)
    metadata: dict[str, Any] = {
        "dagster/row_count": written.rows,
        "dagster/column_schema": table_schema(written.table),
        "dagster/column_lineage": column_lineage(written.table),
        "path": MetadataValue.path(written.path),
        "bytes": written.bytes,
        "digest": written.digest,
        "is_new": written.is_new,
    }
    for summary in summaries:
        rows, columns = _query(project, written, summary)
        metadata[summary.title] = MetadataValue.md(_table(columns, rows))
        if summary.label and rows:
            metadata[f"{summary.title} (plot)"] = MetadataValue.md(_plot(summary, columns, rows))
    return MaterializeResult(metadata={**metadata, **more}, data_version=DataVersion(written.digest))


def image(svg: str, alt: str) -> str:
    """An SVG drawing as a Markdown image that needs no file and no network."""
    encoded = base64.b64encode(svg.replace("currentColor", _INK).encode()).decode()
    return f"![{plain(alt)}](data:image/svg+xml;base64,{encoded})"


def _query(project: Project, written: Written, summary: Summary) -> tuple[list[tuple[Any, ...]], list[str]]:
    import duckdb

    path = Path(written.path) if summary.table is None else project.lake.path(summary.table, **written.partition)
    if not path.exists():
        return [], []
    with duckdb.connect() as connection:
        connection.read_parquet(str(path), hive_partitioning=False).create_view("rows")
        result = connection.sql(summary.sql)
        return result.fetchall(), list(result.columns)


def _table(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    if not rows:
        return "*no rows*"
    text = markdown([plain(c) for c in columns], [[_cell(value) for value in row] for row in rows[:SHOWN]])
    return text if len(rows) <= SHOWN else f"{text}\n\n*the first {SHOWN} of {len(rows)} lines*"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)


def _plot(summary: Summary, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    def of(row: tuple[Any, ...], column: str | None) -> Any:
        return row[columns.index(column)] if column else None

    bars = [
        Bar(
            group=_name(of(row, summary.group)) if summary.group else "",
            name=_name(of(row, summary.label)),
            value=_number(of(row, summary.value)),
            low=_number(of(row, summary.low)),
            high=_number(of(row, summary.high)),
        )
        for row in rows[:SHOWN]
    ]
    return image(interval_chart(summary.title, bars, unit=summary.value or ""), summary.title)


def _name(value: object) -> str:
    """A bar's name: printable, so that the drawing stays well-formed XML, and short enough for its margin."""
    text = "–" if value is None else "".join(c if c.isprintable() else "·" for c in str(value))
    return text if len(text) <= 28 else text[:27] + "…"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
