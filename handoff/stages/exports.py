"""``curated_training_set`` + ``recorded_samples`` → ``exports``: training files, one format a folder.

A folder is made anew when the samples or its own settings changed, and only then; its manifest says what it was made
from. Folders that a user asked for stay in the table for as long as they are of the present samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from handoff import corpus
from handoff.exports import Exporter, config_of, export, made_from
from handoff.lake import Lake, Written
from handoff.project import Project
from handoff.samples import Sample, read_sample
from handoff.stages import inputs_of
from handoff.trajectory import Step, Trajectory, prefix


def exports(
    project: Project, round: str, *, formats: Sequence[str] | None = None, folder: Path | None = None
) -> Written:
    """Write the round's samples, and those of recorded runs, in the formats that the settings name.

    ``formats``: others instead. ``folder``: where to, instead of the round's own; it is made.
    ``InputError``: no such format, or a tokenizer that is missing.
    """
    lake, own = project.lake, project.settings.exports
    tables = _tables(lake, round)
    inputs = inputs_of("exports", lake, *tables)
    wanted = (own if formats is None else msgspec.structs.replace(own, formats=tuple(formats))).exporters()
    base = (folder or project.exports / round).absolute()
    known = {base / one.name: config_of(one, inputs, compress=own.compress) for one in wanted}
    kept = _kept(project, round, inputs, known)
    todo = [one for one in wanted if not any(_folder(project, row) == base / one.name for row in kept)]
    current = lake.current("exports", inputs=inputs, round=round)
    if current and not todo and current.rows == len(kept):
        return current
    rows = _write(project, tables, todo, base, inputs) if todo else []
    every = sorted([*kept, *rows], key=lambda row: (row["format"], row["path"]))
    return lake.write("exports", every, inputs=inputs, round=round)


def has_samples(project: Project, round: str) -> bool:
    """Whether there is anything to write."""
    return any(project.lake.count(table, **partition) for table, partition in _tables(project.lake, round))


def _tables(lake: Lake, round: str) -> list[tuple[str, dict[str, str]]]:
    """Tables of samples with their partitions: empty ones do not count."""
    recorded = [("recorded_samples", p) for p in lake.partitions("recorded_samples")]
    return [("curated_training_set", {"round": round}), *(one for one in recorded if lake.count(one[0], **one[1]))]


def _folder(project: Project, row: Mapping[str, Any]) -> Path:
    """The folder of an exported file; a path outside the project's own is absolute."""
    return (project.exports.absolute() / str(row["path"])).parent


def _kept(project: Project, round: str, inputs: str, known: Mapping[Path, str]) -> list[dict[str, Any]]:
    """Rows of folders that are whole and of these samples; those that are wanted now, with these settings."""
    kept = []
    for row in project.lake.rows("exports", round=round):
        folder = _folder(project, row)
        made, config = made_from(folder)
        if made == inputs and known.get(folder, config) == config and (folder / Path(row["path"]).name).exists():
            kept.append(row)
    return kept


def _write(
    project: Project,
    tables: Sequence[tuple[str, Mapping[str, str]]],
    exporters: Sequence[Exporter],
    base: Path,
    inputs: str,
) -> list[dict[str, Any]]:
    home = project.exports.absolute()
    with ExitStack() as stack:
        past = stack.enter_context(_Past(project.lake)) if any(one.tells_the_past for one in exporters) else None
        return export(
            _samples(project.lake, tables, past),
            base,
            exporters=exporters,
            predecessors=past.steps if past is not None else None,
            made_from=inputs,
            compress=project.settings.exports.compress,
            relative_to=home,
        )


def _samples(lake: Lake, tables: Sequence[tuple[str, Mapping[str, str]]], past: _Past | None) -> Iterator[Sample]:
    for table, partition in tables:
        if past is not None:
            past.expect(table, partition)
        for text in lake.column(table, "sample", **partition):
            yield read_sample(text)


class _Past:
    """What predecessors did. A context manager.

    Samples of recorded runs come in the order of their runs, which are read beside them, one at a time; those of
    takeovers come in any order, and all their runs are held.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._runs: Iterator[tuple[str, Trajectory]] = iter(())
        self._held: dict[str, Trajectory] = {}

    def __enter__(self) -> _Past:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.clear()

    def expect(self, table: str, partition: Mapping[str, str]) -> None:
        """Samples of this partition come next."""
        ids = dict.fromkeys(self._lake.column(table, "trajectory_id", **partition))
        self._held.clear()
        if table == "recorded_samples":
            self._runs = corpus.trajectories(self._lake, partition["shard"], ids)
            return
        for found in self._lake.partitions("raw_trajectories"):
            own = [id_ for id_ in self._lake.column("raw_trajectories", "trajectory_id", **found) if id_ in ids]
            self._held |= dict(corpus.trajectories(self._lake, found["shard"], own)) if own else {}

    def steps(self, trajectory_id: str, h: int) -> Sequence[Step]:
        """Steps 1..h of a run."""
        while trajectory_id not in self._held:
            self._held = dict([next(self._runs)])
        return prefix(self._held[trajectory_id].steps, h)
