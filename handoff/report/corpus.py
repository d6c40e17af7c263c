"""The corpus report: how far repository states can be trusted, what stands in the way, and what would help.

Every figure is a sum of rows of table ``corpus_report``; the runs that are named are rows of ``state_verdicts``. The
page is one self-contained HTML file. Text from recordings is hostile: all of it is escaped, control characters shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jinja2
import msgspec

from handoff.diagnosis.stats import wilson
from handoff.plots import share_chart
from handoff.report.page import visible

STATUSES = ("verified", "partial", "divergent", "unverifiable")

CATEGORIES: tuple[tuple[str, str], ...] = (
    ("verified", "the end is the recorded one, and every file that was shown on the way"),
    ("edit_misfit", "a recorded edit does not fit the file it names"),
    ("read_mismatch", "the recording shows another file than the one derived"),
    ("patch_mismatch", "the end is not that of the recorded patch"),
    ("opaque_step", "the effect of a step cannot be derived, and nothing else tells it"),
    ("not_told", "nothing says whether an edit was carried out"),
    ("unconfirmed", "nothing in the recording confirms some changed file"),
    ("no_evidence", "the recording offers neither a patch nor a usable read"),
    ("subagent", "the run of a subagent: its edits are part of the states of the run that started it"),
    ("no_base", "the repository is there, its base commit is not known"),
    ("no_repository", "the repository is not there, or the recording does not name it"),
)
"""Why a run has its verdict, in the order of the report (docs/science.md §2)."""

HOW: tuple[tuple[str, str], ...] = (
    ("read", "a later read of the whole file"),
    ("diff", "a later git diff"),
    ("patch", "the final patch"),
    ("rerun", "the step, executed again"),
)
"""What recovered a file that no text tells, in the order in which it is tried."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One line: runs by verdict, and how many are verified of those whose every edit can be derived."""

    name: str
    runs: int
    by_status: tuple[int, ...]
    """As ``STATUSES``."""
    derivable: int
    verified: int
    """Of the derivable ones."""

    @property
    def share(self) -> float | None:
        """Verified of derivable; ``None`` when none is derivable."""
        return self.verified / self.derivable if self.derivable else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The share's Wilson interval."""
        return wilson(self.verified, self.derivable)

    @property
    def text(self) -> str:
        """The share as people read it."""
        return "–" if self.share is None else f"{self.share:.1%}"

    @property
    def interval_text(self) -> str:
        """Its interval, or nothing."""
        return "" if self.interval is None else f"{self.interval[0]:.1%}–{self.interval[1]:.1%}"


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """A run that contradicts its recording, or of which much is unknown."""

    trajectory_id: str
    format: str
    repo: str | None
    status: str
    category: str
    step: int | None
    """The first that is wrong, or whose effect nobody knows."""
    seen_at: int | None
    path: str | None
    reason: str
    hunk: str | None


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that wait for the same thing."""

    repo: str | None
    category: str
    runs: int
    reason: str
    """Of the first of them."""
    remedy: str


class CorpusReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the page shows."""

    total: Share
    by_format: tuple[Share, ...]
    by_repo: tuple[Share, ...]
    by_category: tuple[tuple[str, str, int, str, str], ...]
    """(status, category, runs, an example's id, its reason)."""
    steps: tuple[int, ...]
    """Steps by verdict, as ``STATUSES``."""
    derived: int
    """Steps that follow from the recording without contradiction, those verified among them."""
    checkpoints: int
    full_reads: int
    recoveries: tuple[tuple[str, int], ...]
    """(how, files), as ``HOW``."""
    offenders: tuple[Offender, ...]
    missing: tuple[Missing, ...]
    unseen: tuple[tuple[str, int, int], ...]
    """(repository, runs on a base with submodules, runs on one with pointers to large files)."""


def corpus_report(cells: Sequence[Mapping[str, Any]], offenders: Iterable[Mapping[str, Any]]) -> CorpusReport:
    """The report from rows of table ``corpus_report`` and the worst rows of ``state_verdicts``, worst first."""
    return CorpusReport(
        total=_share("all", cells),
        by_format=tuple(_shares(cells, lambda cell: str(cell["format"]))),
        by_repo=tuple(
            sorted(_shares(cells, lambda cell: cell["repo"] or "not named"), key=lambda s: (-s.runs, s.name))
        ),
        by_category=tuple(_categories(cells)),
        steps=tuple(_sum(cells, f"{status}_steps") for status in STATUSES),
        derived=_sum(cells, "derived_steps"),
        checkpoints=_sum(cells, "checkpoints"),
        full_reads=_sum(cells, "full_reads"),
        recoveries=tuple((how, _sum(cells, f"recovered_by_{how}")) for how, _ in HOW),
        offenders=tuple(_offender(row) for row in offenders),
        missing=tuple(_missing(cells)),
        unseen=tuple(_unseen(cells)),
    )


def reason_of(row: Mapping[str, Any]) -> str:
    """Why a run of ``state_verdicts`` has its verdict, without how its base commit was found."""
    return without_base(str(row["reason"]), row["base_evidence"])


def without_base(reason: str, evidence: str | None) -> str:
    """A reason without the evidence for the base commit, all of it or its beginning, that stands before it."""
    parts = (evidence or "").split("; ")
    for count in range(len(parts), 0, -1):
        said = f"base commit {'; '.join(parts[:count])}; "
        if reason.startswith(said):
            return reason[len(said) :]
    return reason


def _offender(row: Mapping[str, Any]) -> Offender:
    told = {name: row[name] for name in Offender.__struct_fields__}
    if told["step"] is None and row["opaque_steps"]:
        told["step"] = row["opaque_steps"][0]
    return Offender(**{**told, "reason": reason_of(row)})


def _sum(cells: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(int(cell[name]) for cell in cells)


def _share(name: str, cells: Sequence[Mapping[str, Any]]) -> Share:
    runs = {status: _sum((c for c in cells if c["status"] == status), "trajectories") for status in STATUSES}
    return Share(
        name=name,
        runs=sum(runs.values()),
        by_status=tuple(runs[status] for status in STATUSES),
        derivable=_sum(cells, "derivable"),
        verified=_sum((cell for cell in cells if cell["status"] == "verified"), "derivable"),
    )


def _shares(cells: Sequence[Mapping[str, Any]], name: Callable[[Mapping[str, Any]], str]) -> list[Share]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(name(cell), []).append(cell)
    return [_share(group, own) for group, own in sorted(groups.items())]


def _categories(cells: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, str, int, str, str]]:
    order = [name for name, _ in CATEGORIES]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault((cell["status"], cell["category"]), []).append(cell)

    def place(key: tuple[str, str]) -> tuple[int, int, str]:
        status, category = key
        return STATUSES.index(status), order.index(category) if category in order else len(order), category

    for status, category in sorted(groups, key=place):
        own = groups[status, category]
        example = min(own, key=lambda cell: str(cell["trajectory_id"]))
        yield status, category, _sum(own, "trajectories"), str(example["trajectory_id"]), str(example["reason"])


def _missing(cells: Sequence[Mapping[str, Any]]) -> list[Missing]:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        if cell["category"] in ("no_repository", "no_base"):
            groups.setdefault((cell["repo"] or "", cell["category"]), []).append(cell)
    found = [
        Missing(
            repo=repo or None,
            category=category,
            runs=_sum(own, "trajectories"),
            reason=str(min(own, key=lambda cell: str(cell["trajectory_id"]))["reason"]),
            remedy=remedy(repo or None, category, str(own[0]["reason"])),
        )
        for (repo, category), own in groups.items()
    ]
    return sorted(found, key=lambda item: (item.repo is None, -item.runs, item.repo or "", item.category))


def remedy(repo: str | None, category: str, reason: str) -> str:
    """What would make states of a run possible that has none."""
    if repo is None:
        return "No source says where they worked: handoff ingest … --of NAME --repository NAME=PATH, if you know."
    if category == "no_repository" and "no mirror of" not in reason:
        return f"Mend what {repo} is mapped to, or map another clone of it."
    if category == "no_repository":
        return f"Map it: handoff ingest … --repository {repo}=PATH, or a line in handoff.toml under [repositories]."
    return f"Map {repo} to a clone that has the commit, or give recordings that name one or hold a patch."


def _unseen(cells: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, int, int]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(cell["repo"] or "not named", []).append(cell)
    for repo, own in sorted(groups.items()):
        counts = _sum(own, "with_submodules"), _sum(own, "with_lfs_pointers")
        if any(counts):
            yield repo, *counts


def plot(report: CorpusReport) -> str:
    """Runs by verdict and format, as SVG."""
    return share_chart("Runs by verdict", [(visible(line.name), line.by_status) for line in report.by_format], STATUSES)


def render_corpus(report: CorpusReport) -> str:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("handoff.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    return environment.get_template("corpus.html").render(
        r=report,
        statuses=STATUSES,
        meanings=dict(CATEGORIES),
        how=dict(HOW),
        plot=plot(report) if report.by_format else "",
        most=SHOWN,
    )


SHOWN = 60
"""Lines of a table on the page; the rest is counted."""
