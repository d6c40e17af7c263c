"""The main job, end to end: small, killed at random moments, and checked against its own rows."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.lake import Lake

pytestmark = pytest.mark.slow

SMALL = """
points_per_run = 2
[kata]
train = 4
validation = 2
test = 3
"""


def _start(root: Path) -> subprocess.Popen[bytes]:
    root.mkdir(parents=True, exist_ok=True)
    (root / "handoff.toml").write_text(SMALL)
    return subprocess.Popen(
        [sys.executable, "-m", "handoff.cli", "demo", "--data", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _finish(process: subprocess.Popen[bytes]) -> str:
    output, _ = process.communicate(timeout=900)
    text = output.decode("utf-8", "replace")
    assert process.returncode == 0, text[-4000:]
    return text


def _bytes(root: Path) -> dict[str, bytes]:
    """Every byte that a user reads: tables, training files, policies, reports, recordings.

    Left out is where wall-clock times and foreign databases are kept: Dagster's, MLflow's, the tracking journal.
    """
    folders = ("inbox", "lake", "exports", "policies", "reports", "sealed")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("demo") / "data"
    yield root, _finish(_start(root))


def test_the_demo_ends_with_a_table_and_paths(undisturbed: tuple[Path, str]) -> None:
    root, text = undisturbed
    for word in ("solved", "E_CR", "P_SI", "P_PC", "HRS", "curated", "quarantined", "report"):
        assert word in text
    assert (root / "reports" / "r001" / "index.html").exists()
    assert list((root / "exports" / "r001" / "trl").glob("*.jsonl"))


def test_a_figure_of_the_table_is_recomputed_from_rows(undisturbed: tuple[Path, str]) -> None:
    lake = Lake(undisturbed[0] / "lake")
    points = {p["point_id"]: p for p in lake.rows("injected_handoffs")}
    by_task: dict[str, dict[str, list[float]]] = {}
    for run in lake.rows("takeover_runs", round="r001"):
        point = points[run["point_id"]]
        if run["arm"] == "E" and run["view"] == "repo" and run["tier"] is None and point["split"] == "test":
            by_task.setdefault(point["task_id"], {}).setdefault(run["point_id"], []).append(run["steps"])
    tasks = [statistics.fmean(statistics.fmean(v) for v in own.values()) for own in by_task.values()]
    (row,) = [
        r
        for r in lake.rows("robustness", round="r001")
        if (r["split"], r["arm"], r["view"], r["label"], r["tier"], r["metric"])
        == ("test", "E", "repo", "all", "none", "steps")
    ]
    assert row["value"] == pytest.approx(statistics.fmean(tasks))
    assert row["n_tasks"] == len(tasks)


def test_every_training_row_leads_back_to_its_source_line(undisturbed: tuple[Path, str]) -> None:
    from handoff.lineage import ancestry

    root, _ = undisturbed
    lake = Lake(root / "lake")
    rows = lake.rows("curated_training_set", ["sample_id", "trajectory_id"], round="r001")
    assert rows
    chain = ancestry(lake, rows[0]["sample_id"])
    head = chain.link("raw_trajectories")
    assert head is not None
    line = (root / head.facts["file"]).read_bytes().splitlines()[head.facts["record"] - 1]
    assert json.loads(line)["repo"].startswith("kata/")


def test_nothing_that_is_trained_on_comes_from_held_out_repositories(undisturbed: tuple[Path, str]) -> None:
    lake = Lake(undisturbed[0] / "lake")
    assert {r["split"] for r in lake.rows("curated_training_set", ["split"])} == {"train"}


def test_a_second_run_does_nothing_and_leaves_the_same_bytes(undisturbed: tuple[Path, str]) -> None:
    root, _ = undisturbed
    before = _bytes(root)
    said = _finish(_start(root))
    assert "nothing to do" in " ".join(said.split())
    assert _bytes(root) == before


def test_a_demo_killed_at_random_moments_ends_with_the_same_bytes(
    undisturbed: tuple[Path, str], tmp_path: Path
) -> None:
    root = tmp_path / "killed"
    rng = random.Random(20_26)
    for _ in range(5):
        process = _start(root)
        time.sleep(rng.uniform(2, 25))
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL if rng.random() < 0.7 else signal.SIGINT)
        process.communicate()
    _finish(_start(root))
    wanted, got = _bytes(undisturbed[0]), _bytes(root)
    place = (str(undisturbed[0]).encode(), str(root).encode())
    assert sorted(got) == sorted(wanted)
    different = [name for name in wanted if got[name] != wanted[name].replace(*place)]
    assert not different
