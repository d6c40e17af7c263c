"""200 takeovers at once on one endpoint: is the endpoint the bottleneck, and how much memory does it take?

The endpoint is a stub in a process of its own that answers each request after two seconds. Beside it: the time that the
endpoint alone needs, and the bare SDK making the same number of calls without journal, loop and ledger. Run:
``python -m bench.endpoints``.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from handoff.endpoints import Client, Endpoint
from handoff.journal import Journal
from handoff.successors import Briefing
from handoff.successors.openai import OpenAISuccessor
from handoff.takeover import Budget, Verdict, run_takeover
from handoff.tokens import count_tokens
from handoff.trajectory import Action, Observation

AT_ONCE = 200
CALLS = 5
LATENCY_S = 2.0
MEMORY_LIMIT_MB = 1500
RATIO_LIMIT = 0.5
"""Of the time that the endpoint needs to the time that was taken: above it, the endpoint is the bottleneck."""
VIEW = "A line of a trace, as long as lines are in traces.\n" * 1000

CALL = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "cat a.py"}'}}
ANSWER = {
    "object": "chat.completion",
    "model": "stub",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Look.", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 10},
}


class Nowhere:
    """An environment that costs nothing."""

    is_over = False

    def act(self, action: Action) -> Observation:
        return Observation(call_id=action.call_id, text="line of a file\n" * 60, exit_code=0)

    def tree(self) -> str:
        return ""

    def verdict(self) -> Verdict:
        return Verdict(solved=None)

    def close(self) -> None:
        pass


def at_once(work: Callable[[int], object]) -> float:
    """Seconds of ``work(n)`` for every n, each in a thread of its own."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(AT_ONCE)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def takeovers(url: str, folder: Path) -> float:
    with Client(Endpoint(base_url=url, model="stub", concurrency=AT_ONCE, timeout_s=120)) as client:

        def one(number: int) -> None:
            run_takeover(
                takeover_id=f"k_{number}",
                briefing=Briefing(task=f"Task {number}", view="trace", view_text=VIEW, preamble="You take over."),
                successor=OpenAISuccessor(client, name="stub"),
                environment=Nowhere,
                budget=Budget(steps=CALLS, prompt_tokens=10**9),
                seed=number,
                question=None,
                journal=Journal(folder, sync="paid"),
            )

        return at_once(one)


def bare(url: str) -> float:
    import openai

    with openai.OpenAI(base_url=url, api_key="none", timeout=120) as client:

        def one(number: int) -> None:
            messages = [{"role": "user", "content": f"{VIEW}Task {number}"}]
            for _ in range(CALLS):
                client.chat.completions.create(model="stub", messages=messages)  # type: ignore[arg-type]

        return at_once(one)


def main() -> int:
    server = subprocess.Popen([sys.executable, "-m", "bench.endpoints", "serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        naive = bare(url)  # first: the SDK is loaded then
        count_tokens("So is the vocabulary.")
        with tempfile.TemporaryDirectory() as folder:
            taken = takeovers(url, Path(folder))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    alone = CALLS * LATENCY_S
    ratio = alone / taken
    print(f"{AT_ONCE} takeovers of {CALLS} calls at once, each answered after {LATENCY_S:g} s:")
    print(f"  the endpoint alone {alone:5.1f} s    bare SDK {naive:5.1f} s    takeovers {taken:5.1f} s")
    print(f"  the endpoint's share of the time {ratio:.2f} (limit {RATIO_LIMIT:g} or more)")
    print(f"  peak memory {peak:.0f} MB (limit {MEMORY_LIMIT_MB})")
    return 0 if ratio >= RATIO_LIMIT and peak <= MEMORY_LIMIT_MB else 1


async def serve() -> None:
    body = json.dumps(ANSWER).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
                length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
                await reader.readexactly(length)
                await asyncio.sleep(LATENCY_S)
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2 * AT_ONCE)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    sys.exit(main())
