"""Replays on a real repository that are killed, or read in another order, end in the same rows and trees."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from handoff.git.program import run_git
from handoff.project import Project
from handoff.stages.corpus import raw_trajectories, repository_states
from tests.states.conftest import commit
from tests.states.truths import KINDS, make

TABLES = ("repository_states", "state_verdicts")


def rows_of(git: Path, seeds: range) -> list[dict[str, Any]]:
    """Recordings as chat rows, each with a base commit of its own in the repository at ``git``."""
    made = []
    for seed in seeds:
        run = make(seed, KINDS[0], shows=0.5, with_patch=True)
        files = {path: text.encode() for path, text in run.truths[0].items()}
        base = commit(git, files, "Base", branch=f"b{seed}")
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"Mend it, {seed}."}]
        for number, step in enumerate(run.trajectory.steps):
            (action,), (seen,) = step.actions, step.observations
            call = {"id": f"c{number}", "function": {"name": action.tool, "arguments": action.arguments}}
            messages.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": seen.text})
        made.append({"instance_id": f"o__r-{seed}", "repo": "o/r", "base_commit": base, "messages": messages})
    return made


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror") / "r.git"
    run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", folder)
    return folder


def ingest(data: Path, *files: Path, git: Path) -> list[str]:
    named = [*map(str, files), "--repository", f"o/r={git}", "--shard", "s", "--data", str(data)]
    return [sys.executable, "-m", "handoff.cli", "ingest", *named]


def trees(data: Path) -> list[str]:
    """Every row of both tables, and that every tree named can be read from the store."""
    project = Project(data)
    rows = [row for table in TABLES for row in project.lake.rows(table)]
    with project.repositories("s").open("o/r") as repository:
        for row in rows:
            if row.get("tree"):
                repository.files(row["tree"])
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.slow
def test_a_killed_replay_run_again_ends_with_the_same_trees(tmp_path: Path, git: Path) -> None:
    """By kill -9 at random moments of reading and of replaying, several times in one folder."""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(git, range(60))))
    calm, torn = tmp_path / "calm", tmp_path / "torn"
    began = time.monotonic()
    subprocess.run(ingest(calm, path, git=git), check=True, capture_output=True)
    took = time.monotonic() - began
    rng = random.Random(5)
    killed = 0
    for _ in range(8):
        process = subprocess.Popen(ingest(torn, path, git=git), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(took * rng.uniform(0.2, 0.95))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
    assert killed >= 3
    subprocess.run(ingest(torn, path, git=git), check=True, capture_output=True)
    assert trees(torn) == trees(calm)
    for table in TABLES:
        (one,) = (torn / "lake" / table).rglob("*.parquet")
        (other,) = (calm / "lake" / table).rglob("*.parquet")
        assert one.read_bytes() == other.read_bytes()
    with Project(torn).repositories("s").open("o/r") as repository:
        run_git("--git-dir", repository.git_dir, "fsck", "--no-dangling", "--connectivity-only")


def test_the_order_of_files_and_shards_changes_no_verdict(tmp_path: Path, git: Path) -> None:
    rows = rows_of(git, range(60, 66))
    files = []
    for number in range(3):
        files.append(tmp_path / f"part{number}.jsonl")
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows[number::3]))
    told = []
    for turn, shards in enumerate(([files], [files[::-1]], [[file] for file in files[::-1]])):
        project = Project(tmp_path / f"data{turn}")
        for number, own in enumerate(shards):
            project.add_shard(f"s{number}", tuple(map(str, own)), {"o/r": str(git)})
            raw_trajectories(project, f"s{number}")
            repository_states(project, f"s{number}")
        found = [
            {name: value for name, value in row.items() if name != "shard"}
            for table in TABLES
            for row in project.lake.rows(table)
        ]
        told.append(sorted(map(repr, found)))
    assert told[0] == told[1] == told[2] and "verified" in told[0][0] + told[0][-1]
