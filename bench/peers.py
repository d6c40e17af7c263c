"""Raw records → tables with keys, beside the Agent Data Protocol's way from raw to standard to training text.

    python -m bench.peers                # a stand-in for the project: our own code of its shape, generated rows
    python -m bench.peers --adp FOLDER   # the project itself: a copy of its repository, its own sample records

With ``--adp`` its two scripts for OpenHands run unchanged, one after the other in one process, with the arguments that
its documents give; all imports are over before the clock starts. What they import for web pages and to check tool
descriptions (browsergym, litellm) is replaced by empty names: no record here has a web page, and it only makes them
faster. Records that they leave out (unresolved runs, runs without a last submission) are left out on both sides. The
layout is that of December 2025; the bar is about the project, so the stand-in gets no verdict.

The samples are few, so each is copied: every copy has an id of its own and Python files of its own names, so that
remembering a command helps no more than it should.

Milliseconds a run, the best of ``--repeats``. *ours* is the whole of ``corpus.ingest``, Parquet included: once by one
process on one core, in CPU time, and once as users run it, by a process for each core (at most four), in time on the
clock, their start included. The project's scripts have one process. *orjson* parses every record and does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import resource
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar
from unittest.mock import MagicMock

import orjson
from pydantic import BaseModel

from bench.ingest import MB, chat_row, ours
from handoff import corpus

BAR = 5.0

T = TypeVar("T")
Way = Callable[[Path, Path], object]
"""Reads a file of raw lines; writes what it makes of them into a folder."""


# -- input ------------------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A set of raw records, and the arguments with which the project converts it."""

    name: str
    id: bytes
    """The field that names a record."""
    arguments: tuple[str, ...] = ()


SAMPLES = (
    Sample("swe-smith", b"id", ("--api_env=execute_bash",)),
    Sample("swe-gym_openhands_sampled_trajectories", b"instance_id"),
    Sample("nebius_SWE-agent-trajectories", b"instance_id", ("--api_env=execute_bash",)),
)


def copies(rows: list[bytes], id: bytes) -> Iterator[bytes]:
    """The rows over and over, each time as runs on other tasks with other files."""
    named = re.compile(rb'"%s":"' % id)
    for copy in itertools.count():
        for row in rows:
            yield named.sub(rb"\g<0>c%d-" % copy, re.sub(rb"\.py\b", b"%d.py" % copy, row), count=1)


def write_rows(path: Path, rows: Iterator[bytes], count: int) -> Path:
    with path.open("wb") as file:
        file.writelines(row + b"\n" for row in itertools.islice(rows, count))
    return path


# -- the project ------------------------------------------------------------------------------------------------


def adp(folder: Path, sample: Sample) -> Way:
    """Its two scripts for ``sample``; the process is theirs from here on."""
    os.chdir(folder)
    os.environ["MY_DATASET"] = sample.name
    data = folder / "datasets" / sample.name
    sys.path[:0] = [str(folder), str(data)]
    absent: dict[str, dict[str, object]] = {
        "browsergym": {},
        "browsergym.core": {},
        "browsergym.core.action": {},
        "browsergym.core.action.highlevel": {"HighLevelActionSet": MagicMock},
        "litellm": {"ChatCompletionToolParam": dict, "ChatCompletionToolParamFunctionChunk": dict},
        "scripts.html_to_axtree": {"HTMLToAXTree": MagicMock},
    }
    for name, values in absent.items():
        sys.modules[name] = module = ModuleType(name)
        vars(module).update(values)

    def convert(raw: Path, out: Path) -> None:
        script(data / "raw_to_standardized.py", raw, out / "standard.jsonl")
        tuning = folder / "agents" / "openhands" / "std_to_sft.py"
        script(tuning, out / "standard.jsonl", out / "tuning.jsonl", "--is_web=no", *sample.arguments)

    return convert


def script(path: Path, source: Path, target: Path, *arguments: str) -> None:
    """What ``python path arguments < source > target`` does, without starting Python."""
    before = sys.argv, sys.stdin
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        sys.argv, sys.stdin = [str(path), *arguments], lines
        try:
            with contextlib.redirect_stdout(out):
                runpy.run_path(str(path), run_name="__main__")
        finally:
            sys.argv, sys.stdin = before


def kept(rows: list[bytes], scratch: Path, folder: Path, sample: Sample) -> list[bytes]:
    """The records that the scripts do not leave out."""
    convert, found = adp(folder, sample), []
    for row in rows:
        convert(write_rows(scratch / "one.jsonl", iter([row]), 1), scratch)
        if converted(scratch):
            found.append(row)
    return found


def converted(out: Path) -> int:
    """Lines of training text; ``null`` stands for a run that failed."""
    with (out / "tuning.jsonl").open("rb") as lines:
        return sum(line.rstrip(b"\n") != b"null" for line in lines)


# -- the stand-in -----------------------------------------------------------------------------------------------


class Function(BaseModel):
    name: str
    arguments: str


class ToolCall(BaseModel):
    id: str
    type: str
    function: Function


class Message(BaseModel):
    role: str
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class Raw(BaseModel):
    instance_id: str
    resolved: bool
    messages: list[Message]


class Tool(BaseModel):
    kind: Literal["tool"] = "tool"
    function: str
    arguments: dict[str, Any]
    description: str | None = None


class Code(BaseModel):
    kind: Literal["code"] = "code"
    language: str
    content: str
    description: str | None = None


class Said(BaseModel):
    kind: Literal["said"] = "said"
    content: str


class Seen(BaseModel):
    kind: Literal["seen"] = "seen"
    content: str
    source: Literal["user", "environment"]


class Standard(BaseModel):
    id: str
    content: list[Tool | Code | Said | Seen]
    details: dict[str, str]


def stand_in(raw: Path, out: Path) -> None:
    """Raw → standard → training text: a model for every event, a file of lines between the stages."""
    with raw.open(encoding="utf-8") as lines, (out / "standard.jsonl").open("w", encoding="utf-8") as standard:
        for line in lines:
            print(standardized(Raw(**json.loads(line))).model_dump_json(), file=standard)
    with (out / "standard.jsonl").open(encoding="utf-8") as lines, (out / "tuning.jsonl").open("w") as tuning:
        for line in lines:
            print(json.dumps(conversation(Standard(**json.loads(line)))), file=tuning)


def standardized(row: Raw) -> Standard:
    content: list[Tool | Code | Said | Seen] = []
    for message in row.messages:
        text = message.content or ""
        if message.role != "assistant":
            content.append(Seen(content=text, source="environment" if message.role == "tool" else "user"))
        elif not message.tool_calls:
            content.append(Said(content=text))
        for call in message.tool_calls or ():
            arguments = json.loads(call.function.arguments)
            if call.function.name == "bash":
                content.append(Code(language="bash", content=arguments["command"], description=text))
            else:
                content.append(Tool(function=call.function.name, arguments=arguments, description=text))
    return Standard(id=row.instance_id, content=content, details={"resolved": str(row.resolved)})


def conversation(run: Standard) -> dict[str, Any]:
    return {"id": run.id, "conversations": [turn(event) for event in run.content]}


def turn(event: Tool | Code | Said | Seen) -> dict[str, str]:
    match event:
        case Seen():
            return {"from": "human", "value": event.content}
        case Said():
            return {"from": "gpt", "value": event.content}
        case Code():
            name, values = "execute_bash", {"command": event.content}
        case Tool():
            name, values = event.function, event.arguments
    text = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return {"from": "gpt", "value": f"{event.description}\n\n<function={name}>\n{text}</function>"}


# -- both ways --------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """What one way took for a file."""

    cpu: float
    """Seconds of all its processes."""
    clock: float
    runs: int


def time_adp(raw: Path, out: Path, repeats: int, folder: Path, sample: Sample) -> Taken:
    hold_to_one_core()
    return Taken(*clocked(adp(folder, sample), raw, out, repeats), converted(out))


def time_stand_in(raw: Path, out: Path, repeats: int) -> Taken:
    hold_to_one_core()
    return Taken(*clocked(stand_in, raw, out, repeats), converted(out))


def time_ours(raw: Path, out: Path, repeats: int, workers: int) -> Taken:
    if workers == 1:
        hold_to_one_core()

    def ingest(raw: Path, out: Path) -> int:
        return ours(raw, out / "lake", workers).trajectories

    return Taken(*clocked(ingest, raw, out, repeats), ingest(raw, out))


def time_parsing(raw: Path, out: Path, repeats: int) -> Taken:
    hold_to_one_core()

    def parse(raw: Path, _: Path) -> int:
        with raw.open("rb") as lines:
            return sum(bool(orjson.loads(line)) for line in lines)

    return Taken(*clocked(parse, raw, out, repeats), parse(raw, out))


def hold_to_one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def clocked(way: Way, raw: Path, out: Path, repeats: int) -> tuple[float, float]:
    """CPU time and time on the clock of ``way``, the least of each, once all that it imports is there."""
    with raw.open("rb") as lines:
        way(write_rows(out / "first.jsonl", iter([lines.readline().rstrip(b"\n")]), 1), out)
    taken = []
    for _ in range(repeats):
        cpu, clock = cpu_time(), time.perf_counter()
        way(raw, out)
        taken.append((cpu_time() - cpu, time.perf_counter() - clock))
    return min(cpu for cpu, _ in taken), min(clock for _, clock in taken)


def cpu_time() -> float:
    """Of this process and of those that it has ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def fresh(work: Callable[..., T], *arguments: object) -> T:
    """``work`` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


class Ratio(NamedTuple):
    """How many times our cost of a run the peer's is."""

    one: float
    """One process each, CPU time."""
    all: float
    """Ours by several processes, the peer's by its one, both on the clock."""


def compare(name: str, raw: Path, repeats: int, peer: str, way: Callable[..., Taken], *more: object) -> Ratio:
    """Prints both ways' cost of a run."""
    out, workers = raw.parent, corpus.usual_workers()
    theirs, limit = fresh(way, raw, out, repeats, *more), fresh(time_parsing, raw, out, repeats)
    mine, several = (fresh(time_ours, raw, out, repeats, count) for count in (1, workers))
    if not theirs.runs == mine.runs == several.runs == limit.runs:
        raise SystemExit(f"{name}: of {limit.runs} records {peer} converted {theirs.runs}, we {mine.runs}")
    a_run = 1000 / mine.runs
    ratio = Ratio(theirs.cpu / mine.cpu, theirs.clock / several.clock)
    print(
        f"{name.split('_')[0]:<10} {mine.runs:4d} runs {raw.stat().st_size / MB:5.0f} MB"
        f"   {peer} {theirs.cpu * a_run:5.2f} (clock {theirs.clock * a_run:.2f})"
        f"   ours, one process: {mine.cpu * a_run:5.2f}, {ratio.one:.1f} times, {limit.cpu / mine.cpu:.3f} of orjson"
        f"   ours, {workers} processes: clock {several.clock * a_run:5.2f} (CPU {several.cpu * a_run:.2f}),"
        f" {ratio.all:.1f} times"
    )
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adp", type=Path, help="a copy of the Agent Data Protocol's repository")
    parser.add_argument("--runs", type=int, default=4_000, help="runs of each set; few are read by one process")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        raw = Path(name) / "raw.jsonl"
        if not options.adp:
            rng = random.Random(options.seed)
            write_rows(raw, (chat_row(rng, number) for number in itertools.count()), options.runs)
            compare("generated", raw, options.repeats, "stand-in", time_stand_in)
            print(f"the stand-in is our own code of the project's shape; the bar ({BAR:.0f} times) is for --adp")
            return 0
        folder, ratios = options.adp.resolve(), []
        for sample in SAMPLES:
            rows = orjson.loads((folder / "datasets" / sample.name / "sample_raw.json").read_bytes())
            lines = fresh(kept, [orjson.dumps(row) for row in rows], raw.parent, folder, sample)
            write_rows(raw, copies(lines, sample.id), options.runs)
            ratios.append(compare(sample.name, raw, options.repeats, "ADP", time_adp, folder, sample))
    one, several = min(ratio.one for ratio in ratios), min(ratio.all for ratio in ratios)
    is_met = several >= BAR
    print(
        f"least of the sets: {one:.1f} times by one process, {several:.1f} times by {corpus.usual_workers()}"
        f" (bar {BAR:.0f}: {'met' if is_met else 'MISSED'})"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
