"""The corpus report: sums of verdicts, the worst runs first, and hostile text stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from handoff.lake import SCHEMAS
from handoff.project import Project
from handoff.report.corpus import CATEGORIES, STATUSES, corpus_report, reason_of, remedy, render_corpus
from handoff.stages.corpus_report import WORST, page_of, read_corpus_report
from handoff.stages.corpus_report import corpus_report as stage
from handoff.states.proof import verdict

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e&"


def verdict_row(number: int, status: str = "verified", category: str | None = None, **fields: Any) -> dict[str, Any]:
    """One run of ten steps."""
    return {
        "trajectory_id": f"t_{number:04}",
        "format": "chat",
        "repo": "o/r",
        "base": "0" * 40,
        "base_evidence": "named by the recording",
        "status": status,
        "category": category or status,
        "reason": f"because {number}",
        "checkpoints": 3,
        "full_reads": 1,
        "is_derivable": True,
        "opaque_steps": [],
        "recoveries": [],
        **{f"{name}_steps": 10 if name == status else 0 for name in STATUSES},
        "derived_steps": 10 if status == "verified" else 4 if status == "partial" else 0,
        "submodules": 0,
        "lfs_pointers": 0,
        **fields,
    }


def write(project: Project, *rows: dict[str, Any], shard: str = "a") -> None:
    project.lake.write("state_verdicts", rows, inputs=f"i{len(rows)}", shard=shard)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "data")


def test_figures_are_sums_of_verdicts(project: Project) -> None:
    """The share is of derivable runs; a recovery is counted by how it came."""
    read = {"step": 1, "path": "a.py", "how": "read", "at": 3}
    write(
        project,
        verdict_row(1),
        verdict_row(2, format="codex", recoveries=[read, {**read, "how": "patch"}], is_derivable=False),
        verdict_row(3, "divergent", "read_mismatch", step=4, path="a.py", hunk="-x\n+y", seen_at=6),
    )
    write(project, verdict_row(4, "unverifiable", "no_repository", repo=None, is_derivable=False), shard="b")
    stage(project)
    report = read_corpus_report(project)
    assert (report.total.runs, report.total.by_status) == (4, (2, 0, 1, 1))
    assert (report.total.verified, report.total.derivable, report.total.text) == (1, 2, "50.0%")
    assert {share.name: share.runs for share in report.by_format} == {"chat": 3, "codex": 1}
    assert {share.name: share.runs for share in report.by_repo} == {"o/r": 3, "not named": 1}
    assert (report.checkpoints, report.full_reads) == (12, 4)
    assert dict(report.recoveries) == {"read": 1, "diff": 0, "patch": 1, "rerun": 0}
    assert (report.steps, report.derived) == ((20, 0, 10, 10), 20)
    rows = project.lake.rows("corpus_report")
    assert sum(row["trajectories"] for row in rows) == 4
    for name in (*(f"{status}_steps" for status in STATUSES), "derived_steps"):
        assert sum(row[name] for row in rows) == sum(row[name] for row in project.lake.rows("state_verdicts"))


def test_the_worst_come_first_with_step_file_and_hunk(project: Project) -> None:
    """Divergent before partial; then those with the larger share of steps that are not right."""
    divergent = {"step": 4, "path": "a.py", "hunk": "-x\n+y", "seen_at": 6}
    partial = {"opaque_steps": [3, 5], "verified_steps": 9}
    rows = [verdict_row(n, "partial", "opaque_step", partial_steps=n % 7, **partial) for n in range(2_000)]
    rows.append(verdict_row(5_000, "divergent", "read_mismatch", divergent_steps=1, verified_steps=9, **divergent))
    rows.append(verdict_row(5_001, "divergent", "read_mismatch", divergent_steps=9, verified_steps=1, **divergent))
    write(project, *rows)
    stage(project)
    offenders = read_corpus_report(project).offenders
    assert [offender.trajectory_id for offender in offenders[:3]] == ["t_5001", "t_5000", "t_0006"]
    assert len(offenders) == WORST
    assert offenders[2].step == 3
    assert (offenders[0].step, offenders[0].path, offenders[0].hunk, offenders[0].seen_at) == (4, "a.py", "-x\n+y", 6)
    page = page_of(project).read_text()
    assert "t_5001" in page
    assert "+y" in page


def test_what_is_missing_is_told_with_what_would_help(project: Project) -> None:
    no_mirror = {"reason": "there is no mirror of 'x/y' and no source for it"}
    write(
        project,
        verdict_row(1, "unverifiable", "no_repository", repo="x/y", **no_mirror),
        verdict_row(2, "unverifiable", "no_repository", repo="x/y", **no_mirror),
        verdict_row(3, "unverifiable", "no_base", repo="o/r"),
        verdict_row(4, "unverifiable", "no_repository", repo=None),
    )
    stage(project)
    missing = read_corpus_report(project).missing
    assert [(item.repo, item.category, item.runs) for item in missing] == [
        ("x/y", "no_repository", 2),
        ("o/r", "no_base", 1),
        (None, "no_repository", 1),
    ]
    assert "--repository x/y=PATH" in missing[0].remedy
    assert "mapped to" in remedy("x/y", "no_repository", "objects cannot be fetched")


def test_the_page_is_made_anew_when_a_shard_changes_and_only_then(project: Project) -> None:
    write(project, verdict_row(1))
    assert stage(project).is_new
    assert not stage(project).is_new
    write(project, verdict_row(1), verdict_row(2))
    assert stage(project).is_new
    write(project, verdict_row(3), shard="b")
    assert stage(project).rows == 1
    assert read_corpus_report(project).total.runs == 3
    page_of(project).unlink()
    stage(project)
    assert page_of(project).exists()


def test_hostile_text_stays_text(project: Project) -> None:
    """In every field that a recording or a repository decides."""
    hostile = {"repo": HOSTILE, "path": HOSTILE, "hunk": HOSTILE, "reason": HOSTILE, "format": HOSTILE}
    write(
        project,
        verdict_row(1, "divergent", "read_mismatch", step=1, seen_at=1, **hostile),
        verdict_row(2, "unverifiable", "no_repository", repo=HOSTILE, reason=HOSTILE),
        verdict_row(3, "partial", "opaque_step", submodules=1, lfs_pointers=1, **hostile),
    )
    stage(project)
    page = page_of(project).read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page  # and no request to anywhere
    assert "http://" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_an_empty_corpus_has_a_page(project: Project) -> None:
    write(project)
    assert stage(project).rows == 0
    assert "recorded runs" in page_of(project).read_text()
    assert "–" in render_corpus(corpus_report([], []))


def test_every_category_and_status_has_its_words() -> None:
    """A verdict that the replay can give is one that the report can tell, and one that the suite allows."""
    assert {name for name, _ in CATEGORIES} == set(get_args(verdict.Category))
    assert set(STATUSES) == set(get_args(verdict.Status))
    assert {f"recovered_by_{how}" for how in get_args(verdict.How)} <= set(SCHEMAS["corpus_report"].names)


def test_a_reason_is_told_without_the_evidence_for_the_base() -> None:
    """That stands beside it; a user may have added to it."""
    told = "base commit found: a; b (c; d); the end is another"
    for evidence in ("found: a; b (c; d)", "found: a; b (c; d); repository named by the user"):
        assert reason_of({"reason": told, "base_evidence": evidence}) == "the end is another"
    assert reason_of({"reason": "x; y", "base_evidence": None}) == "x; y"
