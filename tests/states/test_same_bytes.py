"""Verdicts, trees and facts do not hang on the order in which a process keeps its sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib, json, sys
from pathlib import Path
from msgspec.structs import replace
from handoff.environment import environment
from handoff.git.repositories import Repository, run_git
from handoff.states.replay import replay_all
from tests.states.conftest import commit
from tests.states.truths import KINDS, make

folder = Path(sys.argv[1])
run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", folder)
with Repository(folder, name="o/r") as repository:
    pairs = []
    for seed in range(10):
        run = make(seed, KINDS[seed % len(KINDS)], shows=0.4, with_patch=seed % 2 > 0)
        files = {path: text.encode() for path, text in run.truths[0].items()}
        base = commit(folder, files, "Base", branch=f"b{seed}")
        pairs.append((f"t_{seed}", replace(run.trajectory, base_commit=base if seed % 3 else None)))
    found = [[done.verdict_row(), *done.rows()] for done in replay_all(pairs, repository)]
    found += [list(environment(run).rows(name)) for name, run in pairs]
print(hashlib.sha256(json.dumps(found).encode()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_rows_come_out_whatever_the_hash_seed(tmp_path: Path) -> None:
    told = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / f"{seed}.git")]
        told.add(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert len(told) == 1
