"""Branches of a repository through the real stages: record → run → states → points → views."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handoff import corpus as tables
from handoff.errors import InputError
from handoff.git.repositories import run_git
from handoff.project import Project
from handoff.stages import corpus, handoffs, quality
from tests.states.histories import HARD, Made, make

TABLES = ("raw_trajectories", "repository_states", "injected_handoffs", "view_renderings")
SHARD = "work"


def ingest(data: Path, source: Path, *branches: str, **options: Any) -> Project:
    """What ``handoff ingest REPO --branch …`` does."""
    project = Project(data)
    corpus.add_branches(project, SHARD, source, branches, repo="o/r", **options)
    run_stages(project)
    return project


def run_stages(project: Project) -> None:
    for stage in (corpus.raw_trajectories, corpus.repository_states):
        stage(project, SHARD)
    quality.quality_signals(project, SHARD)
    for stage in (handoffs.injected_handoffs, handoffs.view_renderings):
        stage(project, SHARD)


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    make(tmp_path / "source.git", HARD, {"main": 0, "side": 7, "hard": 9})
    return tmp_path / "source.git"


def digests(project: Project) -> list[str]:
    return [project.lake.digest(table, shard=SHARD) for table in TABLES]


def test_every_commit_but_the_last_is_a_point_with_its_notes(tmp_path: Path, hard: Path) -> None:
    """Verified states, a continuation, the messages as recorded view; a person is told from an agent in every table."""
    project = ingest(tmp_path / "data", hard, "hard", task="Do the hard things.")
    ((_, run),) = tables.trajectories(project.lake, SHARD)
    assert (run.author, run.task, len(run.steps)) == ("human", "Do the hard things.", 8)
    points = project.lake.rows("injected_handoffs", shard=SHARD)
    assert [point["h"] for point in points] == list(range(1, 8))
    assert all("natural" in point["labels"] for point in points)
    assert {(point["author"], point["state_status"]) for point in points} == {("human", "verified")}
    assert [point["tree"] for point in points] == [
        run_git("--git-dir", hard, "rev-parse", f"{step.actions[0].call_id}^{{tree}}").decode().strip()
        for step in run.steps[:-1]
    ]
    assert [key["target"] for key in points[-1]["gold"]] == ["diff --git a/x b/x"]
    assert project.lake.rows("raw_trajectories", ["author"], shard=SHARD) == [{"author": "human"}]
    views = project.lake.rows("view_renderings", shard=SHARD)
    recorded = [row for row in views if row["view"] == "recorded"]
    assert (len(views), len(recorded)) == (7 * 5, 7)
    assert {row["author"] for row in recorded} == {"human"}
    briefing = handoffs.read_briefing(project, points[3]["point_id"], "recorded")
    assert briefing.view_text.endswith("    Rename, see [address]")
    assert "Merge branch" not in briefing.view_text


def test_reading_the_same_branches_again_gives_the_same_bytes(tmp_path: Path, hard: Path) -> None:
    """In the same folder nothing is done again; in another one, all comes out the same."""
    first = ingest(tmp_path / "a", hard, "hard", "side")
    assert digests(ingest(tmp_path / "b", hard, "hard", "side")) == digests(first)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a" / "lake").rglob("*.parquet")}
    ingest(tmp_path / "a", hard, "hard", "side")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a" / "lake").rglob("*.parquet")} == before


def test_a_shard_is_made_again_without_its_repository_s_refs(tmp_path: Path, hard: Path) -> None:
    """What was read stands in the data folder: the stages need the commits and no branch."""
    project = ingest(tmp_path / "data", hard, "hard")
    before = digests(project)
    run_git("--git-dir", hard, "update-ref", "-d", "refs/heads/hard")
    for table in TABLES:
        project.lake.path(table, shard=SHARD).unlink()
    run_stages(Project(tmp_path / "data"))
    assert digests(project) == before


def test_a_namesake_does_not_take_the_place_of_a_shard_of_branches(tmp_path: Path, hard: Path) -> None:
    project = Project(tmp_path / "data")
    corpus.add_branches(project, SHARD, hard, ("hard",), repo="o/r", task="Do the hard things.")
    place = (str(project.branch_file(SHARD)),)
    project.check_free(SHARD, place, {"o/r": str(hard.resolve())})
    with pytest.raises(InputError, match=r"source\.git.*--shard"):
        project.check_free(SHARD, place, {"o/r": str(tmp_path / "other" / "source.git")})


def test_a_branch_that_moved_is_read_anew(tmp_path: Path) -> None:
    commits = [Made({b"a": ("100644", text)}) for text in (b"1", b"2", b"3", b"4")]
    make(tmp_path / "source.git", commits, {"main": 0, "work": 2, "later": 3})
    project = ingest(tmp_path / "data", tmp_path / "source.git", "work")
    assert project.lake.count("injected_handoffs", shard=SHARD) == 1
    run_git("--git-dir", tmp_path / "source.git", "update-ref", "refs/heads/work", "refs/heads/later")
    project = ingest(tmp_path / "data", tmp_path / "source.git", "work")
    assert project.lake.count("injected_handoffs", shard=SHARD) == 2


def test_commits_that_the_repository_lacks_are_unverifiable_and_say_so(tmp_path: Path, hard: Path) -> None:
    """A record with another repository: its points stay, nobody can be started from them."""
    project = ingest(tmp_path / "data", hard, "hard")
    make(tmp_path / "other.git", [HARD[0]], {"main": 0})
    path = project.branch_file(SHARD)
    project.add_shard(SHARD, (str(path),), {"o/other": str(tmp_path / "other.git")})
    record = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**record, "repo": "o/other"}) + b"\n")
    run_stages(project)
    rows = project.lake.rows("repository_states", shard=SHARD)
    assert {(row["status"], row["tree"]) for row in rows} == {("unverifiable", None)}
    assert "has no commit" in rows[0]["reason"]
    assert project.lake.count("injected_handoffs", shard=SHARD) == 7


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again_the_bytes_are_the_same(tmp_path: Path, hard: Path) -> None:
    """The whole command, killed ever later."""
    whole = digests(ingest(tmp_path / "whole", hard, "hard"))
    command = [sys.executable, "-m", "handoff.cli", "ingest", str(hard), "--branch", "hard", "--shard", SHARD]
    command += ["--repository", f"o/r={hard}", "--data", str(tmp_path / "data")]
    for moment in (0.3, 0.8, 1.2, 1.6, 2.0):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.kill()
        process.wait()
    subprocess.run(command, check=True, capture_output=True)
    assert digests(Project(tmp_path / "data")) == whole
