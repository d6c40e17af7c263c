"""Raw records → tables with keys, beside the Agent Data Protocol's way from raw to standard to training text.

    python -m bench.peers                # a stand-in for the project: our own code of the same shape, generated rows
    python -m bench.peers --adp FOLDER   # the project itself: a copy of its repository, its own sample records

With ``--adp`` its scripts run unchanged, one after the other in one process, with the arguments that its documents
give; imports are over before the clock starts. What they import for web pages and for the tools' descriptions
(browsergym, litellm) is replaced by empty names: no record here has a web page, and it only makes them faster. Records
that they leave out (unresolved runs, runs without a last submission) are left out for both sides.

The samples are few, so each is copied: every copy has an id of its own and Python files of its own names, so that
remembering a command helps no more than it should. Times are CPU time of one process on one core, the best of
``--repeats``. *ours* is the whole of ``corpus.ingest``, Parquet included; *orjson* parses every record and does nothing
else.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple
from unittest.mock import MagicMock

import orjson
from pydantic import BaseModel

from bench.ingest import MB, best, chat_row, ours

BAR = 5.0


# -- input ------------------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A set of raw records, and the arguments with which the project converts it."""

    name: str
    key: bytes
    """The field that names a record."""
    arguments: tuple[str, ...] = ()


SAMPLES = (
    Sample("swe-smith", b"id", ("--api_env=execute_bash",)),
    Sample("swe-gym_openhands_sampled_trajectories", b"instance_id"),
    Sample("nebius_SWE-agent-trajectories", b"instance_id", ("--api_env=execute_bash",)),
)


def copies(rows: list[bytes], key: bytes) -> Iterator[bytes]:
    """The rows over and over, each time as runs on other tasks with other files."""
    name = re.compile(rb'"%s": ?"' % key)
    for copy in itertools.count():
        for row in rows:
            yield name.sub(rb"\g<0>c%d-" % copy, re.sub(rb"\.py\b", b"%d.py" % copy, row), 1)


# -- the project ------------------------------------------------------------------------------------------------


def adp(folder: Path, sample: Sample) -> Callable[[Path, Path], None]:
    """Its two scripts for ``sample``, as a function from raw lines to lines of training text."""
    os.chdir(folder)
    os.environ["MY_DATASET"] = sample.name
    sys.path[:0] = [str(folder), str(folder / "datasets" / sample.name)]
    litellm, actions, pages = (
        ModuleType(name) for name in ("litellm", "browsergym.core.action.highlevel", "scripts.html_to_axtree")
    )
    vars(litellm).update(ChatCompletionToolParam=dict, ChatCompletionToolParamFunctionChunk=dict)
    vars(actions).update(HighLevelActionSet=MagicMock)
    vars(pages).update(HTMLToAXTree=MagicMock)
    for module in (litellm, actions, pages):
        sys.modules[module.__name__] = module
    for parent in ("browsergym", "browsergym.core", "browsergym.core.action"):
        sys.modules[parent] = ModuleType(parent)

    def convert(raw: Path, out: Path) -> None:
        script(folder / "datasets" / sample.name / "raw_to_standardized.py", raw, out / "standard.jsonl")
        arguments = ("--is_web=no", *sample.arguments)
        script(
            folder / "agents" / "openhands" / "std_to_sft.py", out / "standard.jsonl", out / "tuning.jsonl", *arguments
        )

    return convert


def script(path: Path, source: Path, target: Path, *arguments: str) -> None:
    """What ``python path arguments < source > target`` does, without starting Python."""
    saved = sys.argv, sys.stdin
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        sys.argv, sys.stdin = [str(path), *arguments], lines
        try:
            with contextlib.redirect_stdout(out):
                runpy.run_path(str(path), run_name="__main__")
        finally:
            sys.argv, sys.stdin = saved


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


class Api(BaseModel):
    kind: Literal["api"] = "api"
    function: str
    arguments: dict[str, Any]
    description: str | None = None


class Code(BaseModel):
    kind: Literal["code"] = "code"
    language: str
    content: str
    description: str | None = None


class Said(BaseModel):
    kind: Literal["message"] = "message"
    content: str


class Seen(BaseModel):
    kind: Literal["text"] = "text"
    content: str
    source: Literal["user", "environment"]


class Standard(BaseModel):
    id: str
    content: list[Api | Code | Said | Seen]
    details: dict[str, str]


def stand_in(raw: Path, out: Path) -> None:
    """Raw → standard → training text as that project does it: a model per event, a file of lines between the stages."""
    with raw.open(encoding="utf-8") as lines, (out / "standard.jsonl").open("w", encoding="utf-8") as standard:
        for line in lines:
            print(standardized(Raw(**json.loads(line))).model_dump_json(), file=standard)
    with (out / "standard.jsonl").open(encoding="utf-8") as lines, (out / "tuning.jsonl").open("w") as tuning:
        for line in lines:
            print(json.dumps(conversation(Standard(**json.loads(line)))), file=tuning)


def standardized(row: Raw) -> Standard:
    content: list[Api | Code | Said | Seen] = []
    for message in row.messages:
        if message.role != "assistant":
            content.append(
                Seen(content=message.content or "", source="environment" if message.role == "tool" else "user")
            )
        elif not message.tool_calls:
            content.append(Said(content=message.content or ""))
        for call in message.tool_calls or []:
            arguments = json.loads(call.function.arguments)
            if call.function.name == "bash":
                content.append(Code(language="bash", content=arguments["command"], description=message.content))
            else:
                content.append(Api(function=call.function.name, arguments=arguments, description=message.content))
    return Standard(id=row.instance_id, content=content, details={"resolved": str(row.resolved)})


def conversation(run: Standard) -> dict[str, Any]:
    turns = []
    for event in run.content:
        if isinstance(event, Seen):
            turns.append({"from": "human", "value": event.content})
        elif isinstance(event, Said):
            turns.append({"from": "gpt", "value": event.content})
        else:
            name, values = (
                ("execute_bash", {"command": event.content})
                if isinstance(event, Code)
                else (event.function, event.arguments)
            )
            text = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
            turns.append({"from": "gpt", "value": f"{event.description}\n\n<function={name}>\n{text}</function>"})
    return {"id": run.id, "conversations": turns}


# -- both ways --------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """CPU seconds of one way on one file, and how many runs came out."""

    seconds: float
    runs: int


def time_adp(raw: Path, out: Path, repeats: int, folder: Path, sample: Sample) -> Taken:
    return Taken(clocked(adp(folder, sample), raw, out, repeats), converted(out))


def time_stand_in(raw: Path, out: Path, repeats: int) -> Taken:
    return Taken(clocked(stand_in, raw, out, repeats), converted(out))


def time_ours(raw: Path, out: Path, repeats: int) -> Taken:
    report = ours(raw, out / "lake")
    return Taken(clocked(lambda raw, out: ours(raw, out / "lake"), raw, out, repeats), report.trajectories)


def time_parsing(raw: Path, out: Path, repeats: int) -> Taken:
    return Taken(clocked(lambda raw, _: parse_only(raw), raw, out, repeats), 0)


def clocked(work: Callable[[Path, Path], object], raw: Path, out: Path, repeats: int) -> float:
    """CPU time of ``work``, once all that it imports is there."""
    first = out / "first.jsonl"
    first.write_bytes(raw.read_bytes().splitlines(keepends=True)[0])
    work(first, out)
    return best(lambda: work(raw, out), repeats)


def parse_only(raw: Path) -> None:
    for line in raw.read_bytes().splitlines():
        orjson.loads(line)


def converted(out: Path) -> int:
    return sum(line != b"null" for line in (out / "tuning.jsonl").read_bytes().splitlines())


def fresh(work: Callable[..., Taken], *arguments: object) -> Taken:
    """``work`` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def compare(
    name: str, peer: str, raw: Path, out: Path, repeats: int, work: Callable[..., Taken], *more: object
) -> bool:
    theirs, mine = fresh(work, raw, out, repeats, *more), fresh(time_ours, raw, out, repeats)
    limit = fresh(time_parsing, raw, out, repeats)
    rows = len(raw.read_bytes().splitlines())
    ratio = theirs.seconds / mine.seconds
    is_met = ratio >= BAR and theirs.runs == mine.runs == rows
    print(
        f"{name:<16.16} {rows:4d} runs {raw.stat().st_size / MB:5.1f} MB   {peer} {1000 * theirs.seconds / rows:6.2f}"
        f"   ours {1000 * mine.seconds / rows:6.2f} ms a run   {ratio:4.1f} times (bar {BAR:.0f}:"
        f" {'met' if is_met else 'MISSED'})   ours/orjson {limit.seconds / mine.seconds:.3f}"
    )
    if not theirs.runs == mine.runs == rows:
        print(f"{name}: of {rows} records {peer} converted {theirs.runs} and we {mine.runs}")
    return is_met


def kept(rows: list[bytes], scratch: Path, folder: Path, sample: Sample) -> list[bytes]:
    """The records that the project's scripts do not leave out."""
    raw = scratch / "one.jsonl"
    found = []
    for row in rows:
        raw.write_bytes(row + b"\n")
        if fresh(time_adp, raw, scratch, 1, folder, sample).runs:
            found.append(row)
    return found


def write_rows(path: Path, rows: Iterator[bytes], count: int) -> Path:
    path.write_bytes(b"".join(row + b"\n" for row in itertools.islice(rows, count)))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adp", type=Path, help="a copy of the Agent Data Protocol's repository")
    parser.add_argument("--runs", type=int, default=200, help="runs of each set")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    met = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if not options.adp:
            print("the peer is a stand-in: our own code of its shape (a pydantic model per event), not the project")
            rng = random.Random(options.seed)
            raw = write_rows(scratch / "raw.jsonl", (chat_row(rng, n) for n in itertools.count()), options.runs)
            met.append(compare("chat rows", "stand-in", raw, scratch, options.repeats, time_stand_in))
        else:
            folder = options.adp.resolve()
            for sample in SAMPLES:
                rows = orjson.loads((folder / "datasets" / sample.name / "sample_raw.json").read_bytes())
                lines = kept([orjson.dumps(row) for row in rows], scratch, folder, sample)
                raw = write_rows(scratch / "raw.jsonl", copies(lines, sample.key), options.runs)
                met.append(compare(sample.name, "ADP", raw, scratch, options.repeats, time_adp, folder, sample))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
