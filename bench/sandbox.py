"""A command in each sandbox, beside its limit, a fresh jail or container per command, and bash with no sandbox at all.

Also what the journal and the takeover loop add to a step. Run: ``python -m bench.sandbox``.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from handoff.journal import Journal
from handoff.sandbox import bubblewrap, engine, missing, open_sandbox
from handoff.sandbox.base import Limits
from handoff.successors import Answer, Briefing, Question, Reply
from handoff.successors.policy import Conversation, PolicySuccessor
from handoff.takeover import Budget, Verdict, run_takeover
from handoff.trajectory import Action, Observation
from tests import docker_engine

COMMAND_LIMIT_MS = 2.0
JOURNAL_LIMIT_MS = 0.2
STEPS = 15


def milliseconds(action: Callable[[], object], times: int) -> float:
    """Median of single calls, in the quietest of five batches: the machine may be shared."""
    medians = []
    for _ in range(5):
        taken = []
        for _ in range(times // 5):
            start = time.perf_counter()
            action()
            taken.append((time.perf_counter() - start) * 1000)
        medians.append(statistics.median(taken))
    return min(medians)


class Scripted:
    """A policy that costs nothing."""

    name = "scripted"
    digest = "m_scripted"

    def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
        number = len(conversation.turns)
        if number == STEPS:
            return None
        return Reply(thought="look", actions=(Action(tool="bash", arguments=f'{{"command":"cat {number}"}}'),))

    def belief(self, conversation: Conversation, question: Question) -> Answer | None:
        return None


class Nowhere:
    """An environment that costs nothing."""

    is_over = False

    def act(self, action: Action) -> Observation:
        return Observation(text="line of a file\n" * 60, exit_code=0)

    def tree(self) -> str:
        return ""

    def verdict(self) -> Verdict:
        return Verdict(solved=None)

    def close(self) -> None:
        pass


def measured(back_end: str, folder: Path, image: str | None = None) -> bool:
    """Print one back end's persistent shell; whether it misses its limit."""
    opened = time.perf_counter()
    sandbox = open_sandbox(back_end, folder, image=image)
    sandbox.run("true")
    opened = (time.perf_counter() - opened) * 1000
    builtin = milliseconds(lambda: sandbox.run("echo hello"), 300)
    program = milliseconds(lambda: sandbox.run("/bin/true"), 300)
    large = milliseconds(lambda: sandbox.run("head -c 60000 /dev/zero"), 100)
    sandbox.close()
    is_bar = back_end == "bubblewrap"
    limit = f"  limit {COMMAND_LIMIT_MS:.0f} ms" if is_bar else ""
    print(
        f"{back_end:<24} builtin {builtin:6.2f} ms   program {program:6.2f} ms   60 kB of output"
        f" {large:6.2f} ms   opening {opened:5.1f} ms{limit}"
    )
    return is_bar and program > COMMAND_LIMIT_MS


def in_containers(image: str) -> None:
    """Print what a command costs without a shell that stays."""
    name = engine.ask("run", "-d", "--network", "none", image, "sleep", "600").stdout.decode().strip()
    try:
        again = milliseconds(lambda: engine.ask("exec", name, "bash", "-c", "/bin/true"), 20)
        fresh = milliseconds(lambda: engine.ask("run", "--rm", "--network", "none", image, "/bin/true"), 10)
    finally:
        engine.remove(name)
    print(f"{'docker exec per command':<24} program {again:6.2f} ms")
    print(f"{'docker run per command':<24} program {fresh:6.2f} ms")


def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for back_end in ("bubblewrap", "host"):
            reason = missing(back_end)
            if reason is None:
                failed |= measured(back_end, folder)
            else:
                print(f"{back_end}: not measured, {reason}")
        if missing("bubblewrap") is None:
            options = ["bwrap", *bubblewrap.jail(folder, limits=Limits()), "--"]
            fresh = milliseconds(lambda: subprocess.run([*options, "bash", "-c", "/bin/true"], check=True), 50)
            print(f"{'bwrap per command':<24} program {fresh:6.2f} ms")
        try:
            with docker_engine.engine() as image:
                measured("docker", folder, image)
                in_containers(image)
        except docker_engine.Unavailable as error:
            print(f"docker: not measured, {error}")
        plain = milliseconds(lambda: subprocess.run(["bash", "-c", "/bin/true"], check=True), 50)
        print(f"{'bash -c, no sandbox':<24} program {plain:6.2f} ms")

        def takeovers(journal: Journal, count: int) -> float:
            start = time.perf_counter()
            for number in range(count):
                run_takeover(
                    takeover_id=f"k_{number}",
                    briefing=Briefing(task="t", view="repo", view_text="", preamble="p"),
                    successor=PolicySuccessor(Scripted()),
                    environment=Nowhere(),
                    budget=Budget(steps=STEPS + 1, prompt_tokens=10**9),
                    seed=number,
                    question=None,
                    journal=journal,
                )
            return (time.perf_counter() - start) * 1000 / count / STEPS

        takeovers(Journal(folder / "warm", sync="never"), 3)
        for sync, count in (("never", 200), ("finish", 40), ("entry", 5)):
            step = takeovers(Journal(folder / sync, sync=sync), count)  # type: ignore[arg-type]
            again = takeovers(Journal(folder / sync, sync=sync), count)  # type: ignore[arg-type]
            failed |= sync == "never" and step > JOURNAL_LIMIT_MS
            limit = f"  limit {JOURNAL_LIMIT_MS} ms" if sync == "never" else ""
            label = f"loop and journal, {sync}"
            print(f"{label:<24} step {step:9.3f} ms   when finished before {again:6.3f} ms{limit}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
