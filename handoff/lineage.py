"""Lineage: from a sample back to the bytes it came from, and from a source forward to all that derives from it.

Every table keeps the identifiers of what a row was made from, so nothing is recorded for lineage alone: both
directions are filtered reads of a few narrow columns. DuckDB runs them, since it reads the other columns only
where the identifier matched; a lake of a million samples answers in well under a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from handoff.corpus import stored_name
from handoff.errors import InputError
from handoff.lake import SCHEMAS, Lake


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One row on the way from a sample to its source."""

    table: str
    id: str
    """The row's own identifier."""
    facts: dict[str, Any]
    """Its narrow columns, partition keys among them."""


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """One sample with all it was made from, from the sample down to the file."""

    sample_id: str
    links: tuple[Link, ...]
    exports: tuple[str, ...]
    """Files that hold the sample, ``format: path``."""

    def link(self, table: str) -> Link | None:
        """The first row of one table, if the chain has it."""
        return next((link for link in self.links if link.table == table), None)


class Descendants(msgspec.Struct, frozen=True, kw_only=True):
    """All that derives from one file or trajectory."""

    source: str
    counts: dict[str, int]
    """Rows by table, in the order of the pipeline."""
    trajectory_ids: tuple[str, ...]
    sample_ids: tuple[str, ...]
    exports: tuple[str, ...]


def ancestry(lake: Lake, sample_id: str) -> Chain:
    """The chain of one sample. ``sample_id`` may be the beginning of one; ``InputError`` when none or several match."""
    with _Reader(lake) as reader:
        where = "sample_id = ?" if len(sample_id) == _ID_LENGTH else "starts_with(sample_id, ?)"
        matches = [(table, row) for table in SETS for row in reader.find(table, where, [sample_id], _SAMPLE)]
        ids = sorted({row["sample_id"] for _, row in matches})
        if len(ids) != 1:
            found = f"fits {len(ids)} samples ({', '.join(ids[:3])}…)" if ids else "is in no curated set"
            raise InputError(
                f"sample {sample_id!r} {found}; the ids are in the lake's curated_training_set and recorded_samples "
                "and in every exported row"
            )
        table, sample = min(matches, key=lambda match: str(match[1].get("round", "")))
        links = [Link(table=table, id=ids[0], facts=sample)]
        seeker = _Seeker(reader, links)
        salvage = json.loads(sample["gates"] or "{}").get("salvage")
        if salvage is not None:
            seeker.follow("salvaged", "salvage_id", salvage["salvage_id"], _SALVAGED)
        for takeover in _takeovers(reader, sample):
            seeker.follow("takeover_runs", "takeover_id", takeover, _TAKEOVER)
            scores = reader.find(
                "diagnostics", "takeover_id = ?", [takeover], ("metric", "value", "numerator", "denominator", "reason")
            )
            if scores:
                facts = {row["metric"]: _score(row) for row in sorted(scores, key=lambda row: str(row["metric"]))}
                links.append(Link(table="diagnostics", id=takeover, facts=facts))
        seeker.follow("adversarial_variants", "variant_id", sample["variant_id"], _VARIANT)
        seeker.follow("view_renderings", "view_id", sample["view_id"], _VIEW)
        point = seeker.follow("injected_handoffs", "point_id", sample["point_id"], _POINT)
        trajectory_id = sample["trajectory_id"]
        if point is not None:
            states = reader.find(
                "repository_states", "trajectory_id = ? AND step = ?", [trajectory_id, point["h"]], _STATE
            )
            links += [
                Link(table="repository_states", id=f"{trajectory_id}@{point['h']}", facts=row) for row in states[:1]
            ]
        raw = seeker.follow("raw_trajectories", "trajectory_id", trajectory_id, _RAW)
        if raw is not None:
            seeker.follow("sources", "path", raw["file"], ("path", "sha256", "bytes", "framing"))
        return Chain(sample_id=ids[0], links=tuple(links), exports=reader.exports_of(ids))


def descendants(lake: Lake, source: str, *, relative_to: Path | None = None) -> Descendants:
    """Everything that derives from one file (path as ingested, or its end) or one trajectory id.

    ``relative_to``: the data folder, whose own files the tables name from there. ``InputError`` when the lake knows
    neither.
    """
    with _Reader(lake) as reader:
        by_id = reader.find("raw_trajectories", "trajectory_id = ?", [source], ("trajectory_id",))
        rows = by_id or reader.find(
            "raw_trajectories",
            "file = ? OR ends_with(file, ?)",
            [source, "/" + source.lstrip("./")],
            ("trajectory_id", "file"),
        )
        if not rows:
            places = (Path(source).absolute(), Path(source).resolve())
            names = [stored_name(place, relative_to) for place in places]
            rows = reader.find("raw_trajectories", "file IN (?, ?)", names, ("trajectory_id",))
        if not rows:
            raise InputError(
                f"no trajectory in the lake comes from {source!r}; give a file as it was ingested, or a trajectory id"
            )
        trajectories = sorted({row["trajectory_id"] for row in rows})
        counts = {"raw_trajectories": len(rows)}
        for table in ("steps", "repository_states"):
            counts[table] = reader.count(table, "trajectory_id", trajectories)
        points = reader.ids("injected_handoffs", "point_id", "trajectory_id", trajectories)
        takeovers = reader.ids("takeover_runs", "takeover_id", "point_id", points)
        by_set = {table: reader.ids(table, "sample_id", "trajectory_id", trajectories) for table in SETS}
        samples = sorted({sample for own in by_set.values() for sample in own})
        counts["injected_handoffs"] = len(points)
        for table in ("view_renderings", "adversarial_variants"):
            counts[table] = reader.count(table, "point_id", points)
        counts["takeover_runs"] = len(takeovers)
        counts["salvaged"] = reader.count("salvaged", "trajectory_id", trajectories)
        counts["diagnostics"] = reader.count("diagnostics", "takeover_id", takeovers)
        counts |= {table: len(own) for table, own in by_set.items()}
        exports = reader.exports_of(samples)
        counts["exports"] = len(exports)
        return Descendants(
            source=source, counts=counts, trajectory_ids=tuple(trajectories), sample_ids=tuple(samples), exports=exports
        )


def lines_of(found: Chain | Descendants) -> list[tuple[str, str]]:
    """(label, text) pairs to print. The text is of unknown origin: escape it."""
    if isinstance(found, Descendants):
        lines = [(table, f"{count:,}") for table, count in found.counts.items()]
        lines += [("sample", sample_id) for sample_id in found.sample_ids[:20]]
        if len(found.sample_ids) > 20:
            lines.append(("sample", f"… and {len(found.sample_ids) - 20} more"))
        return lines + [("export", path) for path in found.exports]
    lines = []
    for link in found.links:
        facts = (
            f"{name} {_said(value)}" for name, value in link.facts.items() if value is not None and value != link.id
        )
        lines.append((link.table, "\n".join((link.id, *facts))))
    return lines + [("export", path) for path in found.exports]


# -- reading ------------------------------------------------------------------------------------

SETS = ("curated_training_set", "recorded_samples")
"""Tables of samples."""
_ID_LENGTH = len("s_") + 24

_SAMPLE = (
    "sample_id", "kind",
    "basis", "split", "task_id", "repo", "trajectory_id", "point_id", "view_id", "view", "variant_id",
    "takeover_id", "tier", "licence", "reward", "prompt_tokens", "trained_tokens", "tokenizer", "gates",
    "chosen_because",
)  # fmt: skip
_SALVAGED = ("salvage_id", "basis", "first_step", "last_step", "reason", "goals", "failing_before", "failing_after")
_TAKEOVER = (
    "takeover_id", "purpose", "arm", "successor", "successor_digest", "seed", "provenance", "status", "solved", "steps",
    "prompt_tokens", "final_tree",
)  # fmt: skip
_VARIANT = ("variant_id", "kinds", "parameters", "seed", "severity", "tier", "tree", "oracle", "oracle_detail")
_VIEW = ("view_id", "view", "author", "tokens", "writing_tokens", "tokenizer", "text_sha256")
_POINT = ("point_id", "author", "h", "n_steps", "labels", "tree", "state_status", "state_class", "base_commit")
_STATE = ("step", "repo", "commit", "tree", "status", "reason")
_RAW = ("trajectory_id", "file", "record", "part", "source_sha256", "format", "author", "agent", "model", "licence")


class _Reader:
    """Filtered reads of the lake's files. A context manager."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def __enter__(self) -> _Reader:
        self._db = duckdb.connect(":memory:", config={"threads": "2"})
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def find(
        self, table: str, where: str, parameters: Sequence[object], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Rows that match, with their partition keys; ``where`` and ``columns`` are ours, never a user's."""
        if not (source := self._source(table)):
            return []
        keys = sorted(
            {key for partition in self._lake.partitions(table) for key in partition} - set(SCHEMAS[table].names)
        )
        names = [f'"{name}"' for name in (*columns, *keys)]
        rows = self._db.execute(f"SELECT {', '.join(names)} FROM {source} WHERE {where}", list(parameters)).fetchall()
        return [dict(zip((*columns, *keys), row, strict=True)) for row in rows]

    def count(self, table: str, column: str, values: Sequence[str]) -> int:
        """Rows whose ``column`` is one of ``values``."""
        source = self._source(table)
        if not source or not values:
            return 0
        row = self._db.execute(
            f'SELECT count(*) FROM {source} WHERE "{column}" IN (SELECT unnest(?))', [list(values)]
        ).fetchone()
        return int(row[0]) if row else 0

    def ids(self, table: str, wanted: str, column: str, values: Sequence[str]) -> list[str]:
        """Distinct ``wanted`` of rows whose ``column`` is one of ``values``, sorted."""
        source = self._source(table)
        if not source or not values:
            return []
        rows = self._db.execute(
            f'SELECT DISTINCT "{wanted}" FROM {source} WHERE "{column}" IN (SELECT unnest(?)) ORDER BY 1',
            [list(values)],
        ).fetchall()
        return [row[0] for row in rows]

    def exports_of(self, sample_ids: Sequence[str]) -> tuple[str, ...]:
        """Exported files that hold any of the samples."""
        source = self._source("exports")
        if not source or not sample_ids:
            return ()
        parameter: str | list[str]
        if len(sample_ids) == 1:  # twice as fast as comparing lists
            where, parameter = "list_contains(sample_ids, ?)", sample_ids[0]
        else:
            where, parameter = "list_has_any(sample_ids, ?)", list(sample_ids)
        query = f"SELECT DISTINCT format, path FROM {source} WHERE {where} ORDER BY 1, 2"
        rows = self._db.execute(query, [parameter]).fetchall()
        return tuple(f"{format_}: {path}" for format_, path in rows)

    def _source(self, table: str) -> str:
        files = [str(self._lake.path(table, **partition)) for partition in self._lake.partitions(table)]
        if not files:
            return ""
        quoted = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        return f"read_parquet([{quoted}], hive_partitioning=true, hive_types_autocast=false)"


class _Seeker:
    """Follows identifiers and collects the rows."""

    def __init__(self, reader: _Reader, links: list[Link]) -> None:
        self._reader = reader
        self._links = links

    def follow(self, table: str, column: str, value: str | None, columns: Sequence[str]) -> dict[str, Any] | None:
        if value is None:
            return None
        rows = self._reader.find(table, f'"{column}" = ?', [value], columns)
        if not rows:
            return None
        row = min(rows, key=lambda found: json.dumps(found, sort_keys=True, default=str))
        self._links.append(Link(table=table, id=value, facts=row))
        return row


def _takeovers(reader: _Reader, sample: dict[str, Any]) -> list[str]:
    """The sample's own takeover and, for a preference, the rejected one, which only the sample's text names."""
    found = [sample["takeover_id"]] if sample["takeover_id"] else []
    if sample["kind"] == "preference":
        rows = reader.find("curated_training_set", "sample_id = ?", [sample["sample_id"]], ("gates",))
        pair = json.loads(rows[0]["gates"]).get("pair", {})
        found += [pair["rejected"]] if "rejected" in pair else []
    return found


def _score(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return f"no value: {row['reason']}"
    if row["denominator"] is None:
        return f"{row['value']:.4g}"
    return f"{row['value']:.4g} = {row['numerator'] or 0:g} / {row['denominator']:g}"


def _said(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)
