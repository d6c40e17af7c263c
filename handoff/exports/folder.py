"""One export folder: shards, a dataset card, a report of what was lost, and a manifest that comes last.

::

    <kind>-<split>-00000.jsonl   shards of at most 256 MB
    README.md                    the card: what the set holds and how to load it
    export_report.json           every lossy change with its count, by file
    MANIFEST.json                sha256, rows, tokens and licences of every file; the hash of the configuration

Every file is written aside and renamed; the manifest is written when all others are in place, and the old one
is removed before anything else changes. So a folder with a manifest is whole. How a sample is put into a
format is in the formats' own files.
"""

from __future__ import annotations

import hashlib
import html
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import msgspec

from handoff.errors import LakeError
from handoff.lake import seal, write_file
from handoff.samples import Sample
from handoff.tokens import TOKENIZER
from handoff.trajectory import Step

SHARD_BYTES = 256 * 1024 * 1024
MANIFEST = "MANIFEST.json"
UNKNOWN = "unknown"

Predecessors: TypeAlias = Callable[[str, int], Sequence[Step]]
"""(trajectory id, h) → steps 1..h of the predecessor."""


class Exporter(Protocol):
    """One format."""

    name: str
    """Folder name, and ``format`` in the table."""
    title: str

    def rows(
        self, sample: Sample, predecessors: Predecessors | None, losses: Counter[str]
    ) -> Iterator[tuple[str, object]]:
        """(file stem, row) pairs of one sample; what a row cannot carry is counted in ``losses``.

        A sample that the format has no place for yields nothing and is counted.
        """
        ...

    def usage(self) -> str:
        """Markdown: how to load and train, and what the format cannot express."""
        ...


class _Shard:
    """One open file."""

    def __init__(self, folder: Path, stem: str, number: int) -> None:
        self.name = f"{stem}-{number:05d}.jsonl"
        self.scratch = folder / f".{secrets.token_hex(8)}.partial"
        self.target = folder / self.name
        self.file: IO[bytes] = self.scratch.open("wb")
        self.bytes = 0
        self.rows = 0
        self.sample_ids: list[str] = []
        self.licences: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def seal(self) -> str:
        self.file.close()
        return seal(self.scratch, self.target)[1]


class ExportFolder:
    """Writes one format. ``close`` makes the folder whole; ``discard`` removes what an error left."""

    def __init__(self, exporter: Exporter, folder: Path, *, config: str = "", shard_bytes: int = SHARD_BYTES) -> None:
        self.exporter = exporter
        self.folder = folder
        self._config = hashlib.sha256(config.encode("utf-8", "surrogatepass")).hexdigest()
        self._shard_bytes = shard_bytes
        self._open: dict[str, _Shard] = {}
        self._done: list[tuple[_Shard, str]] = []
        self._numbers: Counter[str] = Counter()
        self._losses: dict[str, Counter[str]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._repositories: set[str] = set()  # only counted
        self._tasks: set[str] = set()
        self._samples = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._old = _files_of(folder)
            (folder / MANIFEST).unlink(missing_ok=True)
        except OSError as error:
            raise _explain(error, folder) from error

    def add(self, sample: Sample, predecessors: Predecessors | None) -> None:
        """Write one sample's rows."""
        losses: Counter[str] = Counter()
        stems: list[str] = []
        try:
            for stem, row in self.exporter.rows(sample, predecessors, losses):
                self._write(stem, row, sample)
                stems.append(stem)
        except OSError as error:
            raise _explain(error, self.folder) from error
        self._losses.setdefault(stems[0] if stems else "", Counter()).update(losses)
        if stems:
            origin = sample.origin
            self._samples += 1
            key = (sample.kind, origin.split, origin.view)
            self._counts[key] = self._counts.get(key, 0) + 1
            self._repositories.add(origin.repo or "")
            self._tasks.add(origin.task_id or "")

    def close(self, base: Path) -> list[dict[str, Any]]:
        """Finish all files, the manifest last. Rows of table ``exports`` with paths relative to ``base``."""
        try:
            for stem in sorted(self._open):
                shard = self._open.pop(stem)
                self._done.append((shard, shard.seal()))
            self._done.sort(key=lambda done: done[0].name)
            names = {shard.name for shard, _ in self._done}
            for stale in sorted(self._old - names):
                (self.folder / stale).unlink(missing_ok=True)
            report = {stem or "(no row)": dict(sorted(c.items())) for stem, c in sorted(self._losses.items()) if c}
            total: Counter[str] = sum(self._losses.values(), Counter())
            others = {
                "export_report.json": write_file(
                    self.folder / "export_report.json",
                    _pretty(
                        {"format": self.exporter.name, "lossy_changes": dict(sorted(total.items())), "by_file": report}
                    ),
                ),
                "README.md": write_file(self.folder / "README.md", self._card(total).encode()),
            }
            write_file(self.folder / MANIFEST, _pretty(self._manifest(others)))
        except OSError as error:
            raise _explain(error, self.folder) from error
        return [self._row(shard, digest, base) for shard, digest in self._done]

    def discard(self) -> None:
        """Remove files that were not finished. Does nothing after ``close``."""
        for shard in self._open.values():
            shard.file.close()
            shard.scratch.unlink(missing_ok=True)
        self._open.clear()

    def _write(self, stem: str, row: object, sample: Sample) -> None:
        line = msgspec.json.encode(row) + b"\n"
        shard = self._open.get(stem)
        if shard is not None and shard.bytes + len(line) > self._shard_bytes and shard.rows:
            self._done.append((shard, shard.seal()))
            del self._open[stem]
            shard = None
        if shard is None:
            shard = self._open[stem] = _Shard(self.folder, stem, self._numbers[stem])
            self._numbers[stem] += 1
        shard.file.write(line)
        shard.bytes += len(line)
        shard.rows += 1
        shard.sample_ids.append(sample.sample_id)
        shard.licences[sample.origin.licence or UNKNOWN] += 1
        counts = sample.token_counts
        shard.tokens.update(prompt=counts.prompt, trained=counts.trained, env_output=counts.env_output)

    def _row(self, shard: _Shard, digest: str, base: Path) -> dict[str, Any]:
        stem = shard.name.rpartition("-")[0]
        return {
            "format": self.exporter.name,
            "path": shard.target.relative_to(base).as_posix(),
            "sha256": digest,
            "rows": shard.rows,
            "bytes": shard.bytes,
            "sample_ids": shard.sample_ids,
            "losses": msgspec.json.encode(dict(sorted(self._losses.get(stem, Counter()).items()))).decode(),
        }

    def _manifest(self, others: dict[str, str]) -> dict[str, object]:
        files = [
            {
                "path": shard.name,
                "sha256": digest,
                "bytes": shard.bytes,
                "rows": shard.rows,
                "tokens": dict(sorted(shard.tokens.items())),
                "licences": dict(sorted(shard.licences.items())),
            }
            for shard, digest in self._done
        ]
        return {
            "format": self.exporter.name,
            "sample_schema": "handoff-sample/1.0",
            "config_sha256": self._config,
            "tokenizer": TOKENIZER,
            "samples": self._samples,
            "rows": sum(shard.rows for shard, _ in self._done),
            "files": files,
            "other_files": dict(sorted(others.items())),
        }

    def _card(self, losses: Counter[str]) -> str:
        licences: Counter[str] = sum((shard.licences for shard, _ in self._done), Counter())
        parts = [
            _front_matter(self._done, licences),
            f"# {self.exporter.title}\n",
            f"{self._samples} samples from {len(self._tasks)} tasks in {len(self._repositories)} repositories. "
            f"Tokens are counted with `{TOKENIZER}`, without a chat template's own.\n",
            "## What it holds\n",
            _table(("kind", "split", "view", "samples"), [(*key, n) for key, n in sorted(self._counts.items())]),
            _table(
                ("file", "rows", "prompt tokens", "trained tokens", "environment tokens"),
                [
                    (s.name, s.rows, s.tokens["prompt"], s.tokens["trained"], s.tokens["env_output"])
                    for s, _ in self._done
                ],
            ),
            "## Licences of the source trajectories\n",
            _table(("licence", "rows"), sorted(licences.items())),
            self.exporter.usage(),
            "## What this format could not carry\n",
            _table(("change", "count"), sorted(losses.items())) if losses else "Nothing was lost.\n",
            "Where each row comes from: `handoff audit SAMPLE_ID`. Checksums are in `MANIFEST.json`.\n",
        ]
        return "\n".join(parts)


def compact(text: str) -> msgspec.Raw:
    """JSON text as it is, on one line, for embedding in a row: no number or key is rewritten."""
    return msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))


def plain(text: object) -> str:
    """Text of unknown origin for a Markdown cell: one line, nothing that starts a tag, link, table cell or code."""
    line = "".join(c if c.isprintable() else " " for c in str(text))[:200]
    escaped = html.escape(line, quote=False)
    return "".join("\\" + c if c in "\\`*_[]|#~!$" else c for c in escaped)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    lines += [f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _front_matter(done: Sequence[tuple[_Shard, str]], licences: Counter[str]) -> str:
    """The YAML that the Hugging Face hub reads; strings are written as JSON, which YAML holds."""
    configs: dict[str, dict[str, list[str]]] = {}
    for shard, _ in done:
        kind, _, split = shard.name.rpartition("-")[0].rpartition("-")
        configs.setdefault(kind, {}).setdefault(split, []).append(shard.name)
    front = {
        "license": sorted(licences) or [UNKNOWN],
        "configs": [
            {
                "config_name": kind,
                "data_files": [{"split": split, "path": paths} for split, paths in sorted(splits.items())],
            }
            for kind, splits in sorted(configs.items())
        ],
    }
    lines = [f"{key}: {msgspec.json.encode(value).decode()}" for key, value in front.items()]
    return "\n".join(("---", *lines, "---", ""))


def _files_of(folder: Path) -> set[str]:
    """Shards that an earlier export left, by the pattern of our own names."""
    return {path.name for path in folder.glob("*-[0-9][0-9][0-9][0-9][0-9].jsonl") if path.is_file()}


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _explain(error: OSError, folder: Path) -> LakeError:
    return LakeError(
        f"cannot write the export in {folder}: {error.strerror or error}; "
        "free space or mend its permissions and run again"
    )
