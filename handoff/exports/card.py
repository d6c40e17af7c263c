"""The dataset card of an export: what it holds, in words, tables and drawings."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from handoff.exports.exporter import Exporter
from handoff.exports.shards import UNKNOWN, Shard
from handoff.plots import Bar, interval_chart, share_chart
from handoff.samples import Sample
from handoff.tokens import TOKENIZER

PLOTS = {"kinds.svg": "Samples by kind and view", "lengths.svg": "Tokens of a sample", "roles.svg": "Tokens by role"}
"""Files of drawings, with what they show."""
_EDGES = (512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072)


class Contents:
    """What went into an export, counted as it goes."""

    def __init__(self) -> None:
        self.samples = 0
        self.by_cell: Counter[tuple[str, str, str, str]] = Counter()
        """(kind, basis, split, view) → samples."""
        self.lengths: Counter[int] = Counter()
        """Smallest edge that holds a sample's tokens → samples; 0: longer than the last."""
        self.roles: dict[str, Counter[str]] = {}
        """Kind → tokens by role."""
        self._repositories: set[str] = set()  # only counted
        self._tasks: set[str] = set()

    def add(self, sample: Sample) -> None:
        """One sample that has rows."""
        origin, tokens = sample.origin, sample.token_counts
        self.samples += 1
        self.by_cell[sample.kind, origin.basis, origin.split, origin.view] += 1
        length = tokens.prompt + tokens.trained + (tokens.env_output if sample.kind == "sft" else 0)
        self.lengths[next((edge for edge in _EDGES if length <= edge), 0)] += 1
        self.roles.setdefault(sample.kind, Counter()).update(
            prompt=tokens.prompt, trained=tokens.trained, output=tokens.env_output
        )
        self._repositories.add(origin.repo or "")
        self._tasks.add(origin.task_id or "")

    @property
    def scope(self) -> str:
        """In one sentence."""
        return f"{self.samples} samples from {len(self._tasks)} tasks in {len(self._repositories)} repositories."

    def plots(self) -> dict[str, str]:
        """File name → drawing."""
        kinds: Counter[tuple[str, str]] = Counter()
        for (kind, _, _, view), count in self.by_cell.items():
            kinds[kind, view] += count
        bars = [Bar(group=kind, name=view, value=float(count)) for (kind, view), count in sorted(kinds.items())]
        edges = [edge for edge in (*_EDGES, 0) if self.lengths[edge]]
        lengths = [
            Bar(group="samples of at most", name=f"{edge:,}" if edge else "more", value=float(self.lengths[edge]))
            for edge in edges
        ]
        roles = [(kind, [own["prompt"], own["trained"], own["output"]]) for kind, own in sorted(self.roles.items())]
        return {
            "kinds.svg": interval_chart(PLOTS["kinds.svg"], bars),
            "lengths.svg": interval_chart(PLOTS["lengths.svg"], lengths),
            "roles.svg": share_chart(PLOTS["roles.svg"], roles, ("prompt", "trained", "output of tools")),
        }


def card(exporter: Exporter, contents: Contents, done: Sequence[Shard], losses: Mapping[str, int]) -> str:
    """The README of an export folder, with the front matter that the Hugging Face hub reads."""
    licences: Counter[str] = sum((shard.licences for shard in done), Counter())
    cells = [(*cell, n) for cell, n in sorted(contents.by_cell.items())]
    files = [(s.name, s.rows, s.tokens["prompt"], s.tokens["trained"], s.tokens["env_output"]) for s in done]
    lengths = [(f"≤ {edge:,}" if edge else f"> {_EDGES[-1]:,}", contents.lengths[edge]) for edge in (*_EDGES, 0)]
    parts = [
        _front_matter(done, licences),
        f"# {exporter.title}\n",
        f"{contents.scope} Tokens are counted with `{TOKENIZER}`, without a chat template's own. Loss mode: "
        f"`{exporter.loss.mode}`.\n",
        "## What it holds\n",
        "\n".join(f"![{title}]({name})" for name, title in PLOTS.items()) + "\n",
        _table(("kind", "basis", "split", "view", "samples"), cells),
        _table(("file", "rows", "prompt tokens", "trained tokens", "environment tokens"), files),
        _table(("tokens of a sample", "samples"), [row for row in lengths if row[1]]),
        "## Licences of the source trajectories\n",
        _table(("licence", "rows"), sorted(licences.items())),
        exporter.usage(),
        "## What this format could not carry\n",
        _table(("change", "count"), sorted(losses.items())) if losses else "Nothing was lost.\n",
        "Where each row comes from: `handoff audit SAMPLE_ID`; the samples of a file, in the order of its rows, are in "
        "the lake's table `exports`. Checksums are in `MANIFEST.json`.\n",
    ]
    return "\n".join(parts)


def plain(text: object) -> str:
    """Text of unknown origin for a Markdown cell: one line, nothing that starts a tag, link, table cell or code."""
    line = "".join(c if c.isprintable() else " " for c in str(text))[:200]
    escaped = html.escape(line, quote=False)
    return "".join("\\" + c if c in "\\`*_[]|#~!$" else c for c in escaped)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    lines += [f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _front_matter(done: Sequence[Shard], licences: Mapping[str, int]) -> str:
    """The YAML that the Hugging Face hub reads; strings are written as JSON, which YAML holds."""
    configs: dict[str, dict[str, list[str]]] = {}
    for shard in done:
        kind, _, split = shard.stem.rpartition("-")
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
