"""``state_verdicts`` of all shards → ``corpus_report`` and its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from handoff.lake import SCHEMAS, Lake, Written, write_file
from handoff.project import Project
from handoff.report.corpus import STATUSES, CorpusReport, reason_of, render_corpus
from handoff.report.corpus import corpus_report as report_of
from handoff.stages import inputs_of

WORST = 30
"""Runs that the report names."""
_READ = [name for name in SCHEMAS["state_verdicts"].names if name not in ("hunk", "opaque_steps")]


def corpus_report(project: Project) -> Written:
    """One line for every format, repository, verdict and reason; the page beside it. Read again when any shard is."""
    lake = project.lake
    upstream = [("state_verdicts", partition) for partition in lake.partitions("state_verdicts")]
    inputs = inputs_of("corpus_report", lake, *upstream)
    page = page_of(project)
    current = lake.current("corpus_report", inputs=inputs)
    if current and page.exists():
        return current
    tally = _tally(lake)
    cells = tally.rows()
    report = report_of(cells, _whole(lake, tally.worst()))
    write_file(page, render_corpus(report).encode("utf-8", "replace"))
    return lake.write("corpus_report", cells, inputs=inputs)


def page_of(project: Project) -> Path:
    """Where the page lies."""
    return project.reports / "corpus" / "index.html"


def read_corpus_report(project: Project) -> CorpusReport:
    """What the page shows, from the lake as it is."""
    tally = _tally(project.lake)
    return report_of(tally.rows(), _whole(project.lake, tally.worst()))


def _tally(lake: Lake) -> _Tally:
    tally = _Tally()
    for row in _verdicts(lake):
        tally.add(row)
    return tally


def _verdicts(lake: Lake) -> Iterator[dict[str, Any]]:
    """Rows of ``state_verdicts``, a thousand in memory at a time; without hunks, of which only a few are asked for."""
    for partition in lake.partitions("state_verdicts"):
        with pq.ParquetFile(lake.path("state_verdicts", **partition)) as file:
            for batch in file.iter_batches(batch_size=1_000, columns=_READ):
                yield from batch.to_pylist()


def _whole(lake: Lake, ids: list[str]) -> list[dict[str, Any]]:
    found = lake.rows("state_verdicts", where=pc.field("trajectory_id").isin(pa.array(ids, pa.string())))
    rows = {row["trajectory_id"]: row for row in found}
    return [rows[id_] for id_ in ids]


class _Tally:
    """Counts rows by cell, and keeps the worst."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self._worst: list[tuple[int, float, str]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one run. A recording that lies in two shards counts in both."""
        id_ = row["trajectory_id"]
        key = (row["format"], row["repo"] or "", row["status"], row["category"])
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = dict.fromkeys(_COUNTED, 0)
            cell.update(format=key[0], repo=row["repo"], status=key[2], category=key[3], trajectory_id=id_)
            cell["reason"] = reason_of(row)
        if id_ < cell["trajectory_id"]:
            cell.update(trajectory_id=id_, reason=reason_of(row))
        cell["trajectories"] += 1
        cell["derivable"] += bool(row["is_derivable"])
        cell["steps"] += sum(row[f"{status}_steps"] for status in STATUSES)
        for name in (*(f"{status}_steps" for status in STATUSES), "derived_steps", "checkpoints", "full_reads"):
            cell[name] += row[name]
        for recovery in row["recoveries"]:
            cell[f"recovered_by_{recovery['how']}"] += 1
        cell["with_submodules"] += bool(row["submodules"])
        cell["with_lfs_pointers"] += bool(row["lfs_pointers"])
        self._keep(row)

    def _keep(self, row: Mapping[str, Any]) -> None:
        if row["status"] not in ("divergent", "partial"):
            return
        steps = sum(row[f"{status}_steps"] for status in STATUSES) or 1
        wrong = (row["divergent_steps"] + row["partial_steps"] + row["unverifiable_steps"]) / steps
        self._worst.append((row["status"] != "divergent", -wrong, row["trajectory_id"]))
        if len(self._worst) > 50 * WORST:
            self._worst = sorted(self._worst)[:WORST]

    def rows(self) -> list[dict[str, Any]]:
        """Rows of table ``corpus_report``, sorted by what they count."""
        return [self._cells[key] for key in sorted(self._cells)]

    def worst(self) -> list[str]:
        """The runs to name, worst first: divergent before partial, then by the share of steps that are not right."""
        return list(dict.fromkeys(id_ for _, _, id_ in sorted(self._worst)[:WORST]))


_COUNTED = [field.name for field in SCHEMAS["corpus_report"] if field.type == "int64"]
