"""One export folder: shards, a dataset card, a report of what was lost, and a manifest that comes last.

::

    <kind>-<split>-00000.jsonl   shards of at most 256 MB, or .jsonl.zst, or .parquet
    README.md, *.svg             the card: what the set holds and how to load it
    …                            settings that the trainer reads, and code that it loads
    export_report.json           every lossy change with its count, by file
    MANIFEST.json                sha256, rows, tokens and licences of every file; the hash of the configuration

Every file is written aside and renamed; the manifest is written when all others are in place, and the old one
is removed before anything else changes. So a folder with a manifest is whole. How a sample is put into a
format is in the formats' own files.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from handoff.errors import LakeError
from handoff.exports.card import Contents, card
from handoff.exports.exporter import Exporter, Predecessors
from handoff.exports.shards import Shard
from handoff.identity import identify
from handoff.lake import write_file
from handoff.samples import SCHEMA_VERSION, Sample
from handoff.tokens import TOKENIZER

SHARD_BYTES = 256 * 1024 * 1024
MANIFEST = "MANIFEST.json"
_SHARD = re.compile(r".+-\d{5}\.(?:jsonl|jsonl\.zst|parquet)")


class ExportFolder:
    """Writes one format. ``close`` makes the folder whole; ``discard`` removes what an error left."""

    def __init__(
        self,
        exporter: Exporter,
        folder: Path,
        *,
        made_from: str = "",
        compress: bool = False,
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        self.exporter = exporter
        self.folder = folder
        self._made_from = made_from
        self._config = config_of(exporter, made_from, compress=compress)
        self._compress = compress
        self._shard_bytes = shard_bytes
        self._open: dict[str, Shard] = {}
        self._done: list[Shard] = []
        self._numbers: Counter[str] = Counter()
        self._losses: dict[str, Counter[str]] = {}
        self._contents = Contents()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._old = _files_of(folder)
            (folder / MANIFEST).unlink(missing_ok=True)
        except OSError as error:
            raise _explain(error, folder) from error

    def add(self, sample: Sample, predecessors: Predecessors | None) -> None:
        """Write one sample's rows."""
        losses: Counter[str] = Counter()
        first = ""
        try:
            for stem, row in self.exporter.rows(sample, predecessors, losses):
                self._write(stem, row, sample)
                first = first or stem
        except OSError as error:
            raise _explain(error, self.folder) from error
        self._losses.setdefault(first, Counter()).update(losses)
        if first:
            self._contents.add(sample)

    def _write(self, stem: str, row: object, sample: Sample) -> None:
        shard = self._open.get(stem) or self._new(stem)
        prepared, size = shard.prepare(row)
        if shard.rows and shard.size + size > self._shard_bytes:
            shard.seal()
            self._done.append(shard)
            shard = self._new(stem)
        shard.add(prepared, size, sample)

    def _new(self, stem: str) -> Shard:
        number, schema = self._numbers[stem], self.exporter.schema(stem)
        shard = self._open[stem] = Shard(self.folder, stem, number, schema=schema, compress=self._compress)
        self._numbers[stem] += 1
        return shard

    def close(self, base: Path) -> list[dict[str, Any]]:
        """Finish all files, the manifest last. Rows of table ``exports`` with paths relative to ``base``."""
        try:
            for stem in sorted(self._open):
                shard = self._open[stem]
                shard.seal()
                self._done.append(shard)
            self._open.clear()
            self._done.sort(key=lambda shard: shard.name)
            others = self._others()
            for stale in sorted(self._old - {shard.name for shard in self._done} - others.keys()):
                (self.folder / stale).unlink(missing_ok=True)
            digests = {name: write_file(self.folder / name, data) for name, data in sorted(others.items())}
            write_file(self.folder / MANIFEST, _pretty(self._manifest(digests)))
        except OSError as error:
            raise _explain(error, self.folder) from error
        return [self._row(shard, base) for shard in self._done]

    def discard(self) -> None:
        """Remove files that were not finished. Does nothing after ``close``."""
        for shard in self._open.values():
            shard.discard()
        self._open.clear()

    def _others(self) -> dict[str, bytes]:
        """File name → bytes of all that is no shard."""
        by_file = {stem or "(no row)": _counts(c) for stem, c in sorted(self._losses.items()) if +c}
        total = _counts(sum(self._losses.values(), Counter()))
        shards: dict[str, list[str]] = {}
        for shard in self._done:
            shards.setdefault(shard.stem, []).append(shard.name)
        report = {"format": self.exporter.name, "lossy_changes": total, "by_file": by_file}
        texts = {
            **self.exporter.files(shards),
            **self._contents.plots(),
            "README.md": card(self.exporter, self._contents, self._done, total),
        }
        return {"export_report.json": _pretty(report), **{name: text.encode() for name, text in texts.items()}}

    def _row(self, shard: Shard, base: Path) -> dict[str, Any]:
        return {
            "format": self.exporter.name,
            "path": (shard.target.relative_to(base) if shard.target.is_relative_to(base) else shard.target).as_posix(),
            "sha256": shard.digest,
            "rows": shard.rows,
            "bytes": shard.bytes,
            "sample_ids": shard.sample_ids,
            "losses": msgspec.json.encode(_counts(self._losses.get(shard.stem, Counter()))).decode(),
        }

    def _manifest(self, others: dict[str, str]) -> dict[str, object]:
        files = [
            {
                "path": shard.name,
                "sha256": shard.digest,
                "bytes": shard.bytes,
                "rows": shard.rows,
                "tokens": dict(sorted(shard.tokens.items())),
                "licences": dict(sorted(shard.licences.items())),
            }
            for shard in self._done
        ]
        return {
            "format": self.exporter.name,
            "sample_schema": SCHEMA_VERSION,
            "made_from": self._made_from,
            "config": self._config,
            "loss": msgspec.to_builtins(self.exporter.loss),
            "tokenizer": TOKENIZER,
            "samples": self._contents.samples,
            "rows": sum(shard.rows for shard in self._done),
            "files": files,
            "other_files": others,
        }


def config_of(exporter: Exporter, made_from: str, *, compress: bool) -> str:
    """All that decides the bytes of a folder."""
    return identify("i", made_from, exporter.identity, str(compress))


def made_from(folder: Path) -> tuple[str, str]:
    """(what the samples of a whole folder were made from, that with the format's settings); empty where it is not
    whole."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return "", ""
    return str(manifest.get("made_from", "")), str(manifest.get("config", ""))


def _counts(losses: Counter[str]) -> dict[str, int]:
    return {change: count for change, count in sorted(losses.items()) if count}


def _files_of(folder: Path) -> set[str]:
    """What an earlier export left: shards by the pattern of our own names, and what its manifest lists."""
    found = {path.name for path in folder.iterdir() if path.is_file() and _SHARD.fullmatch(path.name)}
    try:
        listed = msgspec.json.decode((folder / MANIFEST).read_bytes())["other_files"]
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return found
    names = {name for name in listed if isinstance(name, str) and Path(name).name == name}
    return found | {name for name in names if (folder / name).is_file()}


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _explain(error: OSError, folder: Path) -> LakeError:
    return LakeError(
        f"cannot write the export in {folder}: {error.strerror or error}; "
        "free space or mend its permissions and run again"
    )
