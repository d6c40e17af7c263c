"""Raw file → canonical tables (parse, action keys, Parquet) on one core, beside plain parsing of the same bytes.

    python bench/ingest.py                                     # 32 MB per format, memory on 256 MB: under a minute
    python bench/ingest.py --megabytes 256 --memory 2048 --line 1024
    python bench/ingest.py --chat rows.jsonl --traj runs/      # your own files

Times are CPU time of one process held to one core, the best of ``--repeats``: a busy machine changes them least.
Columns: *orjson* is parsing every record of the file and nothing else; *naive* is json.loads, one
dictionary per step, ``Table.from_pylist`` and the same Parquet settings, without keys or hashes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from handoff import corpus
from handoff.lake import Lake

MB = 1_000_000
WORDS = ("the", "value", "of", "self", "index", "return", "import", "path", "error", "test", "class", "not", "None")


# -- input ------------------------------------------------------------------------------------------------------


def prose(rng: random.Random, length: int) -> str:
    """Text that compresses and escapes about as source listings do."""
    lines = []
    size = 0
    while size < length:
        words = " ".join(rng.choices(WORDS, k=rng.randrange(3, 12)))
        line = f"{rng.randrange(900):6d}\t{'    ' * rng.randrange(4)}{words}"
        lines.append(line)
        size += len(line)
    return "\n".join(lines)


def command(rng: random.Random, step: int) -> str:
    """A line like those of real runs; nearly all differ, so that remembering them helps no more than it should."""
    path = f"src/pkg{rng.randrange(40)}/mod_{rng.randrange(40)}.py"
    return rng.choice(
        (
            f"cat {path}",
            f'grep -rn "def f{rng.randrange(99)}" src/ | head -20',
            f"python -m pytest -q tests/test_{rng.randrange(40)}.py -k case_{rng.randrange(99)}",
            f"sed -n '{step},{step + 80}p' {path}",
            f"cd /testbed && sed -i 's/a{rng.randrange(10**4)}/b/' {path} && git diff",
            f"cat > {path} << 'EOF'\nvalue = {rng.randrange(10**6)}\nEOF",
        )
    )


def chat_row(rng: random.Random, number: int) -> bytes:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": prose(rng, 1_500)},
        {"role": "user", "content": f"Fix issue {number}.\n" + prose(rng, 2_000)},
    ]
    for step in range(rng.randrange(12, 45)):
        arguments = json.dumps({"command": command(rng, step)})
        call = {"id": f"call_{number}_{step}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        messages.append({"role": "assistant", "content": prose(rng, 250), "tool_calls": [call]})
        messages.append(
            {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": prose(rng, int(rng.paretovariate(1.3) * 900) % 16_000),
            }
        )
    row = {
        "instance_id": f"own{number % 50}__rep-{number}",
        "model": "m",
        "resolved": bool(number % 2),
        "messages": messages,
    }
    return orjson.dumps(row)


def traj_file(rng: random.Random, number: int) -> bytes:
    history: list[dict[str, Any]] = [
        {"role": "system", "content": prose(rng, 1_500), "message_type": "system_prompt"},
        {"role": "user", "content": f"Fix issue {number}.\n" + prose(rng, 2_000), "message_type": "observation"},
    ]
    items = []
    for step in range(rng.randrange(14, 26)):
        line, said = command(rng, step), prose(rng, 250)
        query = list(history)
        call = {
            "id": f"c{step}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": line})},
        }
        history.append(
            {"role": "assistant", "content": said, "action": line, "tool_calls": [call], "message_type": "action"}
        )
        seen = prose(rng, int(rng.paretovariate(1.3) * 900) % 16_000)
        history.append(
            {
                "role": "tool",
                "content": "OBSERVATION:\n" + seen,
                "tool_call_ids": [call["id"]],
                "message_type": "observation",
            }
        )
        item = {"action": line, "observation": seen, "response": said, "thought": said, "execution_time": 0.2}
        items.append({**item, "state": {"working_dir": "/testbed"}, "query": query})
    config = json.dumps({"problem_statement": {"id": f"own__rep-{number}"}, "agent": {"model": {"name": "m"}}})
    info = {"exit_status": "submitted", "submission": "diff --git a/x b/x\n"}
    return orjson.dumps({"trajectory": items, "history": history, "info": info, "replay_config": config})


def write_inputs(folder: Path, megabytes: int, seed: int) -> tuple[Path, Path]:
    rng = random.Random(seed)
    chat, runs = folder / "rows.jsonl", folder / "runs"
    grow(chat, (chat_row(rng, n) for n in range(10**9)), megabytes * MB)
    runs.mkdir()
    size = number = 0
    while size < megabytes * MB:
        data = traj_file(rng, number)
        (runs / f"own__rep-{number}.traj").write_bytes(data)
        size += len(data)
        number += 1
    return chat, runs


def grow(path: Path, rows: Iterator[bytes], size: int) -> None:
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(next(rows) + b"\n")


def distinct(rows: list[bytes]) -> Iterator[bytes]:
    """The rows over and over; each copy has its own instance id, so that none is dropped as a duplicate."""
    for copy in range(10**9):
        for row in rows:
            yield row.replace(b'{"instance_id":"own', b'{"instance_id":"o%d-' % copy, 1)


# -- the three ways ---------------------------------------------------------------------------------------------


def parse_only(path: Path) -> None:
    for file in corpus.files([path]):
        data = file.read_bytes()
        for record in data.splitlines() if file.suffix == ".jsonl" else [data]:
            orjson.loads(record)


def naive(path: Path, out: Path) -> None:
    rows: list[dict[str, Any]] = []
    for file in corpus.files([path]):
        with file.open(encoding="utf-8") as lines:
            for record in map(json.loads, lines if file.suffix == ".jsonl" else [lines.read()]):
                for number, turn in enumerate(record.get("trajectory") or record.get("messages") or record["history"]):
                    keep = ("role", "content", "tool_calls", "action", "observation", "thought", "tool_call_id")
                    rows.append({"step": number, **{key: turn.get(key) for key in keep}})
    pq.write_table(pa.Table.from_pylist(rows), out, compression="zstd", compression_level=3)


def ours(path: Path, folder: Path, workers: int | None = None) -> corpus.IngestReport:
    return corpus.ingest(Lake(folder), "bench", [path], inputs="bench", workers=workers)


def best(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def speed(name: str, path: Path, bar: float, scratch: Path, repeats: int) -> bool:
    size = sum(file.stat().st_size for file in corpus.files([path]))
    limit = size / best(lambda: parse_only(path), repeats) / MB
    slow = size / best(lambda: naive(path, scratch / "naive.parquet"), 1) / MB
    mine = size / best(lambda: ours(path, scratch / name), repeats) / MB
    report = ours(path, scratch / name)
    is_met = mine / limit >= bar and not report.quarantined
    print(
        f"{name:<16} {size / MB:6.0f} MB {report.trajectories:5d} runs {report.steps:6d} steps"
        f"   orjson {limit:5.0f}   ours {mine:6.1f}   naive {slow:6.1f} MB/s"
        f"   ours/orjson {mine / limit:.3f} (bar {bar:.2f}: {'met' if is_met else 'MISSED'})"
    )
    return is_met


# -- memory -----------------------------------------------------------------------------------------------------


def memory(name: str, path: Path, scratch: Path, bar: int) -> bool:
    """Peak memory of a fresh process that ingests ``path``, and of those that help it."""
    run = subprocess.run(
        [sys.executable, __file__, "--child", str(path), str(scratch / "memory")],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, seconds, trajectories, quarantined = run.stdout.split()
    is_met = float(peak) <= bar
    print(
        f"{name:<16} {path.stat().st_size / MB:6.0f} MB {trajectories:>5} runs {quarantined:>3} quarantined"
        f"   peak {float(peak):5.0f} MB in {float(seconds):.1f} s (bar {bar} MB: {'met' if is_met else 'MISSED'})"
    )
    return is_met


def child(path: Path, folder: Path) -> None:
    # A new process inherits the peak of the one that started it: begin anew.
    Path("/proc/self/clear_refs").write_text("5")
    start = time.process_time()
    report = ours(path, folder)
    own = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])  # type: ignore[index]
    helped = resource.getrusage(resource.RUSAGE_CHILDREN)
    # No more than that: what processes share is counted for each, and each for the greatest.
    peak = (own + (corpus.usual_workers() - 1) * helped.ru_maxrss) * 1024 / MB
    seconds = time.process_time() - start + helped.ru_utime + helped.ru_stime
    print(peak, seconds, report.trajectories, report.quarantined)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=32, help="size of each generated input")
    parser.add_argument(
        "--memory", type=int, default=256, help="size of the JSON lines file of the memory test, MB; 0 skips it"
    )
    parser.add_argument(
        "--line", type=int, default=256, help="size of the single line of the memory test, MB; 0 skips it"
    )
    parser.add_argument("--chat", type=Path, help="chat rows to use instead of generated ones")
    parser.add_argument("--traj", type=Path, help="SWE-agent files to use instead of generated ones")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        chat, runs = write_inputs(scratch, options.megabytes, options.seed)
        met = [
            speed("chat rows", options.chat or chat, 0.10, scratch, options.repeats),
            speed("SWE-agent .traj", options.traj or runs, 0.20, scratch, options.repeats),
        ]
        if options.memory:
            path = scratch / "large.jsonl"
            rows = chat.read_bytes().splitlines()
            grow(path, distinct(rows), options.memory * MB)
            met.append(memory("JSON lines", path, scratch, 600))
            path.unlink()
        if options.line:
            path = scratch / "line.jsonl"
            with path.open("wb") as file:
                file.write(b'{"messages": [{"role": "user", "content": "')
                for _ in range(options.line):
                    file.write(b"x" * MB)
                file.write(b'"}]}\n')
            met.append(memory("one long line", path, scratch, 600))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
