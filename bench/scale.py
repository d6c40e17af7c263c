"""Ingestion at scale: 100,000 small files, a JSON lines file of 5 GB, and the cost of one run among 1,000 and 100,000.

    python -m bench.scale                              # everything: about ten minutes and 12 GB of disk
    python -m bench.scale --runs 10000 --gigabytes 1

Every figure is of a fresh process and those that help it: CPU times are summed, and so are the peaks of memory, which
counts what they share more than once. *read only* opens, reads and parses the same files with
orjson and does nothing else. Linear means that a run among the most costs no more than 1.25 times one among the fewest.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from bench.ingest import MB, chat_row, child, command, distinct, grow, prose
from handoff import corpus

LINEAR = 1.25
MEMORY = 800


def small_row(rng: random.Random, number: int) -> bytes:
    """A run of four steps, about 3 KB."""
    messages: list[dict[str, object]] = [{"role": "user", "content": f"Fix issue {number}.\n" + prose(rng, 300)}]
    for step in range(4):
        call = {
            "id": f"c{step}",
            "function": {"name": "bash", "arguments": json.dumps({"command": command(rng, step)})},
        }
        messages.append({"role": "assistant", "content": prose(rng, 80), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": prose(rng, 250)})
    return orjson.dumps({"instance_id": f"own{number % 50}__rep-{number}", "messages": messages})


def write_files(folder: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count):
        place = folder / f"{number // 1_000:03d}"
        if number % 1_000 == 0:
            place.mkdir(parents=True)
        (place / f"{number}.json").write_bytes(small_row(rng, number))


def write_rows(path: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    with path.open("wb") as file:
        for number in range(count):
            file.write(small_row(rng, number) + b"\n")


def measured(path: Path, scratch: Path) -> tuple[float, float, int, int]:
    """Peak MB, CPU seconds, runs and quarantined records of a fresh process that ingests ``path``."""
    run = subprocess.run(
        [sys.executable, "-m", "bench.scale", "--child", str(path), str(scratch / "lake")],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, seconds, runs, quarantined = run.stdout.split()
    return float(peak), float(seconds), int(runs), int(quarantined)


def read_only(path: Path) -> float:
    start = time.process_time()
    for file in corpus.files([path]):
        data = file.read_bytes()
        for line in data.splitlines():
            orjson.loads(line)
    return time.process_time() - start


def growth(name: str, path_of: list[tuple[int, Path]], scratch: Path) -> bool:
    """Cost of a run at each count; whether it stays the same."""
    costs = []
    for count, path in path_of:
        peak, seconds, runs, quarantined = measured(path, scratch)
        limit = read_only(path)
        costs.append(seconds / count)
        print(
            f"{name:<10} {count:>7,}   {seconds:7.1f} s   {1000 * seconds / count:6.3f} ms a run   peak {peak:4.0f} MB"
            f"   read only {limit:6.1f} s ({limit / seconds:.2f} of ours)"
        )
        if runs != count or quarantined:
            print(f"{name}: {runs} runs and {quarantined} quarantined instead of {count} and 0")
            return False
    ratio = costs[-1] / costs[0]
    is_met = ratio <= LINEAR
    print(f"{name:<10} cost of a run, most / fewest: {ratio:.2f} (bar {LINEAR}: {'met' if is_met else 'MISSED'})")
    return is_met


def large(gigabytes: float, scratch: Path, seed: int) -> bool:
    path = scratch / "large.jsonl"
    rng = random.Random(seed)
    grow(path, distinct([chat_row(rng, number) for number in range(300)]), int(gigabytes * 1000 * MB))
    peak, seconds, runs, quarantined = measured(path, scratch)
    is_met = peak <= MEMORY and not quarantined
    print(
        f"one file   {path.stat().st_size / MB:7.0f} MB   {seconds:7.1f} s   {runs:,} runs   peak {peak:4.0f} MB"
        f" (bar {MEMORY} MB: {'met' if is_met else 'MISSED'})"
    )
    path.unlink()
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000, help="most files and rows")
    parser.add_argument("--gigabytes", type=float, default=5.0, help="size of the large file; 0 skips it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    counts = sorted({max(100, options.runs // 100), options.runs})
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folders, rows = [], []
        for count in counts:
            write_files(scratch / f"files{count}", count, options.seed)
            write_rows(scratch / f"rows{count}.jsonl", count, options.seed)
            folders.append((count, scratch / f"files{count}"))
            rows.append((count, scratch / f"rows{count}.jsonl"))
        met = [growth("files", folders, scratch), growth("rows", rows, scratch)]
        if options.gigabytes:
            met.append(large(options.gigabytes, scratch, options.seed))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
