"""Variants: all disturbed points of many runs, stored as recipes, beside storing what is disturbed as a whole.

The runs are real SWE-agent recordings, or made ones, strung together to fifty steps (``bench/views.py``), and three of
this project's files are changed in each. Each is cut at one point; views are rendered, the evidence is gathered and
twenty variants are planned, applied and written. Trees are not: writing them is git's work, and the oracle check runs
tests.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bench.views import ROOT, recorded, strung
from handoff.adversary import DISTURBANCES, OracleCheck, Scene, Variant, apply_recipes, read_recipes, variant_row, vary
from handoff.evidence import gather_evidence
from handoff.identity import identify
from handoff.lake import Lake
from handoff.trajectory import Trajectory
from handoff.views import render_view

LIMIT_S = 60.0
RUNS = 1_000
EACH = 20
NAIVE_RUNS = 50
VIEWS = ("structured", "trace")
UNCHECKED = OracleCheck(outcome="not_run", detail="tests cannot run here")


def runs(number: int) -> list[Trajectory]:
    """Distinct runs of fifty steps."""
    own = strung(recorded())
    return [
        msgspec.structs.replace(own[n % len(own)], task=f"Task {n}. Fix what fails. Do not change the tests. Be quick.")
        for n in range(number)
    ]


def edited(files: list[Path], number: int) -> tuple[dict[str, bytes | None], dict[str, bytes | None]]:
    """(as the base commit has them, at h) of three files with some lines changed."""
    base: dict[str, bytes | None] = {}
    now: dict[str, bytes | None] = {}
    for place in range(3):
        file = files[(number * 3 + place) % len(files)]
        text = file.read_bytes()
        lines = text.split(b"\n")
        for line in range(5 + number % 7, len(lines), max(1, len(lines) // 4)):
            lines[line] += b"  # edited"
        base[str(file.relative_to(ROOT))], now[str(file.relative_to(ROOT))] = text, b"\n".join(lines)
    return base, now


def scenes(run: Trajectory, number: int, files: list[Path]) -> list[Scene]:
    """One point of a run, under each view."""
    h = 20 + number % 25
    evidence = gather_evidence(run, h, None)
    base, now = edited(files, number)
    found = []
    for view in VIEWS:
        earlier = ()
        if view == "structured":
            steps = (h // 4, h // 2, 3 * h // 4)
            earlier = tuple((step, render_view(view, run, step, gather_evidence(run, step, None))) for step in steps)
        found.append(
            Scene(
                task=run.task,
                view=view,
                view_text=render_view(view, run, h, evidence),
                base=base,
                files=now,
                evidence=evidence,
                earlier=earlier,
            )
        )
    return found


def variants(trajectories: list[Trajectory], files: list[Path]) -> Iterator[Variant]:
    """Twenty of each run: each kind under the first view that it fits, then again with another seed."""
    for number, run in enumerate(trajectories):
        made = 0
        here = scenes(run, number, files)
        for seed, each in itertools.product(range(3), DISTURBANCES):
            wanted = [(each.kind, 0.2 + 0.2 * (made % 5))]
            under = (vary(identify("p", number), scene, wanted, seed) for scene in here)
            variant = next((found for found in under if found is not None), None)
            if variant is not None:
                made += 1
                yield variant
            if made == EACH:
                break


def rows(trajectories: list[Trajectory], files: list[Path]) -> Iterator[dict[str, Any]]:
    """Their rows."""
    return (variant_row(variant, None, UNCHECKED) for variant in variants(trajectories, files))


def naive(trajectories: list[Trajectory], files: list[Path], place: Path) -> tuple[float, int]:
    """(seconds, bytes) of storing the disturbed scenes themselves."""
    began = time.process_time()
    stored = [msgspec.json.encode(_plain(variant.after)) for variant in variants(trajectories, files)]
    pq.write_table(pa.table({"scene": stored}), place, compression="zstd")
    return time.process_time() - began, place.stat().st_size


def _plain(scene: Scene) -> dict[str, Any]:
    return {
        "task": scene.task,
        "view": scene.view_text,
        "files": dict(scene.files),
        "tools": scene.tools,
    }


def main() -> int:
    """Print the figures; 1 when a limit is missed."""
    files = sorted((ROOT / "handoff").rglob("*.py"))
    trajectories = runs(RUNS)
    with tempfile.TemporaryDirectory() as folder:
        lakes = [Lake(Path(folder) / name) for name in ("one", "again")]
        seconds = []
        for lake in lakes:
            began = time.process_time()
            lake.write("adversarial_variants", rows(trajectories, files), inputs="i", round="r001", shard="bench")
            seconds.append(time.process_time() - began)
        parts = [next(lake.root.rglob("*.parquet")).read_bytes() for lake in lakes]
        stored = lakes[0].rows("adversarial_variants", round="r001", shard="bench")
        kinds = {row["kinds"][0] for row in stored}
        again = _restored(trajectories[:20], stored, files)
        some, size = naive(trajectories[:NAIVE_RUNS], files, Path(folder) / "naive.parquet")
    each, whole = len(parts[0]) / len(stored), size / (NAIVE_RUNS * EACH)
    told = f"{some * RUNS / NAIVE_RUNS:.1f} s for as many, {whole:,.0f} bytes a variant ({whole / each:,.0f} times)"
    print(f"{len(stored):,} variants of {RUNS:,} runs, {len(kinds)} kinds")
    print(f"  as recipes: {min(seconds):.1f} s of one core (limit {LIMIT_S:.0f} s), {each:.0f} bytes a variant")
    print(f"  whole scenes, of {NAIVE_RUNS} runs: {told}")
    print(f"  made again: {'the same bytes' if parts[0] == parts[1] else 'OTHER BYTES'}; {again} scenes from recipes")
    is_met = min(seconds) <= LIMIT_S and parts[0] == parts[1] and len(stored) == RUNS * EACH
    return 0 if is_met else 1


def _restored(trajectories: list[Trajectory], stored: list[dict[str, Any]], files: list[Path]) -> int:
    """How many stored recipes give the very scene that they were planned for."""
    recipes = {row["variant_id"]: read_recipes(row["parameters"]) for row in stored}
    return sum(
        apply_recipes(variant.before, recipes[variant.variant_id]) == variant.after
        for variant in variants(trajectories, files)
    )


if __name__ == "__main__":
    sys.exit(main())
