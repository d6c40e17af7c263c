"""Exports: canonical samples in the formats that trainers read, one format per file.

::

    trl.py     prompt/completion, preference and GRPO prompts for TRL, as JSON Lines
    atif.py    whole episodes in the Agent Trajectory Interchange Format 1.8, as JSON Lines
    folder.py  what every export folder has: shards, README.md, export_report.json, MANIFEST.json

A format says how one sample becomes rows and counts what it cannot carry; ``folder.py`` writes. All formats
are written in one pass over the samples. Same samples, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from handoff.exports.atif import AtifExporter
from handoff.exports.folder import Exporter, ExportFolder, Predecessors
from handoff.exports.trl import TrlExporter
from handoff.samples import Sample

EXPORTERS: tuple[Exporter, ...] = (TrlExporter(), AtifExporter())
"""In the order in which they are written. A new format is one file and one entry here."""


def export(
    samples: Iterable[Sample],
    folder: Path,
    *,
    exporters: Iterable[Exporter] = EXPORTERS,
    predecessors: Predecessors | None = None,
    config: str = "",
    relative_to: Path | None = None,
) -> list[dict[str, Any]]:
    """Write every format below ``folder`` and return the rows of table ``exports``, one per shard.

    ``predecessors``: (trajectory id, h) → the predecessor's steps, for formats that carry them.
    ``config``: names what the set was made from; its hash goes into each manifest.
    Paths in the rows are relative to ``relative_to``, by default the folder that holds ``folder``.
    ``LakeError`` when a file cannot be written; a folder without a MANIFEST.json is incomplete.
    """
    base = relative_to if relative_to is not None else folder.parent
    folders = [ExportFolder(exporter, folder / exporter.name, config=config) for exporter in exporters]
    try:
        for sample in samples:
            for target in folders:
                target.add(sample, predecessors)
        return [row for target in folders for row in target.close(base)]
    finally:
        for target in folders:
            target.discard()


__all__ = ["EXPORTERS", "AtifExporter", "Exporter", "Predecessors", "TrlExporter", "export"]
