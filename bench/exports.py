"""Exports: megabytes of canonical text a second, beside decoding and encoding alone and beside the json module; how
often a tokenizer is called, beside rendering every prefix; memory of a million rows.

Samples are the rest of made runs of forty steps whose outputs are this project's own source files.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from handoff.exports import Loss, Tokens, export, get_exporters
from handoff.exports.tokenised import token_rows
from handoff.masks.chat import chat_messages
from handoff.masks.template import ChatTemplate
from handoff.samples import Origin, Sample, read_sample, sft_sample
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation, Step

LIMIT_MB = 100.0
LIMIT_CALLS = 20.0
LIMIT_GB = 1.0
STEPS = 40
ROOT = Path(__file__).resolve().parent.parent

TEMPLATE = """{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] %}{{ '<tool_call>' + call.function | tojson + '</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def samples(number: int, steps: int = STEPS) -> list[str]:
    """Canonical samples as the lake holds them."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "handoff").rglob("*.py"))]
    made = []
    for place in range(number):
        run = [
            Step(
                text=f"I look at place {n} of run {place}.",
                actions=(Action(tool="bash", arguments=json.dumps({"command": f"sed -n {n},{n + 40}p a{place}.py"})),),
                observations=(Observation(text=texts[(place * steps + n) % len(texts)][:3_000]),),
            )
            for n in range(steps)
        ]
        origin = Origin(
            trajectory_id=f"t_{place}", point_id=f"p_{place}", view_id="v", view="trace", h=3, split="train", repo="r"
        )
        tools = json.dumps([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}])
        told = Briefing(
            task="Fix it", view="trace", view_text=texts[place % 50][:4_000], preamble="You take over.", tools=tools
        )
        made.append(msgspec.json.encode(sft_sample(origin, told, run)).decode())
    return made


def best(work: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of the quietest run."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def throughput() -> bool:
    """Every format of texts, as the stage does it: from the table's text to files with checksums."""
    rows = samples(120)
    size = sum(len(row.encode()) for row in rows) / 1e6

    def limit() -> None:
        for row in rows:
            msgspec.json.encode(read_sample(row))

    def naive() -> None:
        for row in rows:
            json.dumps(json.loads(row))

    alone, plain = best(limit), best(naive)
    print(f"{size:.0f} MB of canonical samples; decoding and encoding alone {size / alone:,.0f} MB/s")
    print(f"  {'json':14} {size / plain:6,.0f} MB/s a core")
    met = True
    for name in ("trl", "openai", "axolotl", "llamafactory", "swift", "nemo-rl", "prime-rl", "huggingface"):
        with tempfile.TemporaryDirectory() as folder:

            def work(name: str = name, folder: str = folder) -> None:
                export(map(read_sample, rows), Path(folder), exporters=get_exporters([name]))

            seconds = best(work)
        rate = size / seconds
        met = met and rate >= LIMIT_MB
        print(f"  {name:14} {rate:6,.0f} MB/s a core, {rate / (size / plain):.1f} x json, limit {LIMIT_MB:.0f}")
    return met


def calls() -> bool:
    """Tokenizer calls and time of exact masks, beside rendering and encoding up to every message."""
    counted: Counter[str] = Counter()

    def encode(text: str) -> tuple[list[int], list[tuple[int, int]]]:
        counted["calls"] += 1
        counted["characters"] += len(text)
        places = [(n, min(n + 4, len(text))) for n in range(0, len(text), 4)]
        return [sum(map(ord, text[a:b])) for a, b in places], places

    template = ChatTemplate(TEMPLATE)
    tokens = Tokens(template=template, encode=encode, name="four characters")
    found: list[Sample] = [read_sample(row) for row in samples(10)]
    for sample in found:
        list(token_rows(sample, tokens, Loss(), Counter()))
    ours = Counter(counted)
    counted.clear()
    for sample in found:
        chat = chat_messages(sample.messages)
        for end in range(1, len(chat) + 1):
            encode(template.render(chat[:end], None).text)
    ratio = counted["calls"] / ours["calls"]
    print(
        f"tokenizer calls: {ours['calls']} beside {counted['calls']} of every prefix, {ratio:.0f} x fewer (limit "
        f"{LIMIT_CALLS:.0f}); characters {ours['characters']:,} beside {counted['characters']:,}"
    )
    return ratio >= LIMIT_CALLS


def million(count: int) -> None:
    """In a process of its own: a million rows of one small sample under other names."""
    (row,) = samples(1, steps=2)
    small = msgspec.structs.replace(read_sample(row), tools="[]")

    def stream() -> Iterator[Sample]:
        for number in range(count):
            yield msgspec.structs.replace(small, sample_id=f"s_{number:024x}")

    with tempfile.TemporaryDirectory() as folder:
        rows = export(stream(), Path(folder), exporters=get_exporters(["trl"]))
        print(sum(one["rows"] for one in rows), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def memory() -> bool:
    """Peak of a million rows."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.exports", "million", "1000000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows, peak = done.stdout.split()
    print(f"{int(rows):,} rows: peak {float(peak):.2f} GB, limit {LIMIT_GB:.0f}")
    return float(peak) <= LIMIT_GB


def main() -> int:
    if sys.argv[1:2] == ["million"]:
        million(int(sys.argv[2]))
        return 0
    met = [throughput(), calls(), memory()]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
