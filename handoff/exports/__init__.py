"""Exports: canonical samples in the formats that trainers read, one format per file.

::

    exporter.py   what a format is, and what formats ask of a sample
    folder.py     what every export folder has: shards, card, settings, export_report.json, MANIFEST.json
    shards.py, card.py, rows.py, tokenised.py   its files, its README, parts of rows, samples as tokens
    …             one format per file

A format says how one sample becomes rows and counts what it cannot carry; ``folder.py`` writes. All formats
are written in one pass over the samples. Same samples, same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from handoff.errors import InputError
from handoff.exports.atif import AtifExporter
from handoff.exports.axolotl import AxolotlExporter
from handoff.exports.exporter import Exporter, Loss, LossMode, Predecessors
from handoff.exports.folder import ExportFolder, config_of, made_from
from handoff.exports.huggingface import HuggingFaceExporter
from handoff.exports.llamafactory import LlamaFactoryExporter, LlamaFactoryV1Exporter
from handoff.exports.nemo import NemoGymExporter, NemoRlExporter
from handoff.exports.openai import OpenAIExporter
from handoff.exports.prime_rl import PrimeRlExporter
from handoff.exports.skyrl import SkyRlExporter
from handoff.exports.swift import SwiftExporter
from handoff.exports.tokenised import Tokens
from handoff.exports.trl import TrlExporter
from handoff.exports.trl_tokens import TrlTokensExporter
from handoff.exports.verl import VerlExporter
from handoff.samples import Sample

_Maker = Callable[[Loss, Tokens | None], Exporter]


def _plain(kind: type[Exporter]) -> _Maker:
    return lambda loss, _: kind(loss)


def _tokenised(loss: Loss, tokens: Tokens | None) -> Exporter:
    if tokens is None:
        raise InputError(
            "the format trl-tokens needs a tokenizer; name a folder with tokenizer.json and a chat template "
            "(`--tokenizer FOLDER`, or tokenizer under [exports] in handoff.toml)"
        )
    return TrlTokensExporter(loss, tokens)


FORMATS: Mapping[str, _Maker] = MappingProxyType(
    {
        "trl": _plain(TrlExporter),
        "trl-tokens": _tokenised,
        "atif": _plain(AtifExporter),
        "axolotl": _plain(AxolotlExporter),
        "huggingface": _plain(HuggingFaceExporter),
        "llamafactory": _plain(LlamaFactoryExporter),
        "llamafactory-v1": _plain(LlamaFactoryV1Exporter),
        "nemo-gym": _plain(NemoGymExporter),
        "nemo-rl": _plain(NemoRlExporter),
        "openai": _plain(OpenAIExporter),
        "prime-rl": _plain(PrimeRlExporter),
        "skyrl": SkyRlExporter,
        "swift": _plain(SwiftExporter),
        "verl": VerlExporter,
    }
)
"""Every format by name. A new format is one file and one entry here."""

USUAL = ("trl", "atif")
"""What a round writes unless told otherwise."""


def get_exporters(
    names: Sequence[str] = USUAL, *, loss: Loss | None = None, tokens: Tokens | None = None
) -> tuple[Exporter, ...]:
    """Exporters by name, each once, in the order given.

    ``InputError``: no such format, or one that needs ``tokens`` and has none.
    """
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise InputError(f"no export format {unknown[0]!r}; formats are {', '.join(FORMATS)}")
    return tuple(FORMATS[name](loss or Loss(), tokens) for name in dict.fromkeys(names))


def export(
    samples: Iterable[Sample],
    folder: Path,
    *,
    exporters: Iterable[Exporter] | None = None,
    predecessors: Predecessors | None = None,
    made_from: str = "",
    compress: bool = False,
    relative_to: Path | None = None,
) -> list[dict[str, Any]]:
    """Write formats below ``folder`` and return the rows of table ``exports``, one per shard.

    ``predecessors``: (trajectory id, h) → the predecessor's steps, for formats that carry them.
    ``made_from``: names what the samples are; it goes into each manifest. ``compress``: JSON Lines with zstd.
    Paths in the rows are relative to ``relative_to``, by default the folder that holds ``folder``; absolute outside it.
    ``LakeError`` when a file cannot be written; a folder without a MANIFEST.json is incomplete.
    """
    base = relative_to if relative_to is not None else folder.parent
    chosen = get_exporters() if exporters is None else exporters
    folders = [ExportFolder(one, folder / one.name, made_from=made_from, compress=compress) for one in chosen]
    try:
        for sample in samples:
            for target in folders:
                target.add(sample, predecessors)
        return [row for target in folders for row in target.close(base)]
    finally:
        for target in folders:
            target.discard()


__all__ = [
    "FORMATS",
    "USUAL",
    "Exporter",
    "Loss",
    "LossMode",
    "Predecessors",
    "Tokens",
    "config_of",
    "export",
    "get_exporters",
    "made_from",
]
