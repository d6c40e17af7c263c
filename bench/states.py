"""Repository states: milliseconds a point, against copying the repository and replaying the prefix; many runs and
writers on one mirror; laying a point out.

``python -m bench.states [--files 2000 20000]`` prints each figure beside its limit; it exits 1 when one is missed.
Times of replaying are CPU time of this process and of git together, the best of three; those of laying out and waiting
are by the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from handoff.git.packs import MOST_PACKS, own_packs
from handoff.git.repositories import Repository, run_git
from handoff.git.worktree import lay_out, overlay_reason
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay_all
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

TRAJECTORIES, STEPS, TRIES = 40, 50, 3
LIMIT_MS, LIMIT_TIMES, LIMIT_LAYOUT_MS, LIMIT_KB, LIMIT_GROWTH = 1.0, 100.0, 20.0, 4.0, 2.0
MANY, WRITERS, LIMIT_WAIT = 1_000, 4, 10.0
"""Runs of one repository; processes that write into one mirror; percent of their time that they wait for each other."""


def make_repository(git_dir: Path, count: int) -> str:
    run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", git_dir)
    lines = [b"commit refs/heads/main\ncommitter A <a@example.invalid> 1700000000 +0000\ndata 4\nBase\n"]
    for number in range(count):
        data = b"".join(b"def f%d_%d(x):\n    return x + %d\n\n\n" % (number, k, k) for k in range(25))
        lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path_of(number).encode(), len(data), data))
    run_git("--git-dir", git_dir, "fast-import", "--quiet", stdin=b"".join(lines) + b"\n")
    return run_git("--git-dir", git_dir, "rev-parse", "refs/heads/main").decode().strip()


def path_of(number: int) -> str:
    return f"src/p{number % 40}/q{number // 40 % 25}/m{number}.py"


def trajectory(seed: int, count: int, base: str) -> Trajectory:
    """Half of the steps read, the other half edit one of five files."""
    steps = []
    for step in range(STEPS):
        number = (seed * 31 + step % 5 * 7) % count
        place = f"/testbed/{path_of(number)}"
        if step % 2:
            turn = step // 10
            old = f"return x + {turn + 3}\n"
            arguments = {"command": "str_replace", "path": place, "old_str": f"_{turn + 3}(x):\n    {old}"}
            arguments["new_str"] = f"_{turn + 3}(x):\n    return x - {seed} - {step}\n"
            call = Action(tool="str_replace_editor", arguments=json.dumps(arguments))
            steps.append(Step(actions=(call,), observations=(Observation(text="The file has been edited."),)))
        else:
            call = Action(tool="bash", arguments=json.dumps({"command": f"grep -n return {place} | head -1"}))
            steps.append(Step(actions=(call,), observations=(Observation(text="2:    return x + 0", exit_code=0),)))
    return Trajectory(
        format="chat", task="t", base_commit=base, steps=tuple(steps), outcome=Outcome(), task_id=str(seed)
    )


def copy_and_replay(checkout: Path, run: Trajectory, h: int, work: Path) -> None:
    """The naive way to one point: copy the checkout, apply the edits of steps 1 to h to the files."""
    shutil.copytree(checkout, work, symlinks=True)
    for step in run.steps[:h]:
        arguments = json.loads(step.actions[0].arguments)
        if arguments["command"] == "str_replace":
            file = work / arguments["path"].removeprefix("/testbed/")
            file.write_text(file.read_text().replace(arguments["old_str"], arguments["new_str"], 1))


def cpu() -> float:
    """Seconds of CPU that this process and those that it waited for have used."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def replayed(git_dir: Path, runs: list[tuple[str, Trajectory]]) -> tuple[list[Replay], float]:
    """The states of these runs, and the CPU seconds that they took."""
    began = cpu()
    with Repository(git_dir) as repository:
        done = list(replay_all(runs, repository))
    took = cpu() - began
    assert all(item.divergence is None for item in done), [item.reason for item in done if item.divergence][:1]
    return done, took


def pack_bytes(git_dir: Path) -> int:
    return sum(f.stat().st_size for f in git_dir.rglob("*.pack"))


def measure(count: int, folder: Path) -> tuple[bool, float]:
    """Whether all limits are met, and milliseconds a point."""
    git_dir = folder / f"{count}.git"
    base = make_repository(git_dir, count)
    batches = [
        [(f"t_{seed}", trajectory(seed, count, base)) for seed in range(n * TRAJECTORIES, (n + 1) * TRAJECTORIES)]
        for n in range(TRIES)
    ]
    size = pack_bytes(git_dir)
    tries = [replayed(git_dir, batch) for batch in batches]
    done, runs = tries[0][0], batches[0]
    points = sum(len(item.trees) for item in done)
    each = min(took for _, took in tries) * 1000 / points
    kilobytes = (pack_bytes(git_dir) - size) / points / TRIES / 1000
    with Repository(git_dir) as repository:
        began = time.perf_counter()
        with lay_out(repository, base, done[0].trees[0] or "", folder / "w") as first:
            template_s = time.perf_counter() - began
            is_overlay = first.is_overlay
            checkout = folder / "checkout"
            shutil.copytree(first.path, checkout, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        naive = []
        for run in range(3):
            began = cpu()
            copy_and_replay(checkout, runs[run][1], STEPS // 2, folder / "naive")
            naive.append((cpu() - began) * 1000)
            if run == 0:
                with lay_out(repository, base, done[0].trees[STEPS // 2] or "", folder / "w") as same:
                    changed = repository.changed(done[0].trees[0] or "", done[0].trees[STEPS // 2] or "")
                    assert all((same.path / p).read_bytes() == (folder / "naive" / p).read_bytes() for p in changed)
            shutil.rmtree(folder / "naive")
        shutil.rmtree(checkout)
        times = []
        for index in range(20):
            tree = done[index].trees[STEPS] or ""
            began = time.perf_counter()
            laid = lay_out(repository, base, tree, folder / "w")
            times.append((time.perf_counter() - began) * 1000)
            laid.close()
    print(f"{count} files, {points} points of {TRAJECTORIES} runs")
    ok = report("  a point, one replay", each, "ms", LIMIT_MS)
    print(f"  a point, copy and replay        {min(naive):9.1f} ms   (naive baseline, same run)")
    ok &= report("  times faster", min(naive) / each, "x", LIMIT_TIMES, at_least=True)
    ok &= report("  stored a point", kilobytes, "kB", LIMIT_KB)
    kind = "overlay" if is_overlay else f"copy: {overlay_reason()}"
    ok &= report(f"  layout ({kind})", statistics.median(times), "ms", LIMIT_LAYOUT_MS) or not is_overlay
    print(f"  template of a base, once        {template_s:9.2f} s")
    return ok, each


def measure_many(count: int, folder: Path) -> bool:
    """A thousand runs of one repository, in shards of a hundred, share one mirror and its packs."""
    git_dir = folder / "many.git"
    base = make_repository(git_dir, count)
    size = pack_bytes(git_dir)
    points, took = 0, 0.0
    for shard in range(0, MANY, 100):
        runs = [(f"t_{seed}", trajectory(seed, count, base)) for seed in range(shard, shard + 100)]
        done, seconds = replayed(git_dir, runs)
        points += sum(len(item.trees) for item in done)
        took += seconds
    print(f"{MANY} runs of one repository of {count} files, {points} points")
    ok = report("  a point", took * 1000 / points, "ms", LIMIT_MS)
    ok &= report("  stored a point", (pack_bytes(git_dir) - size) / points / 1000, "kB", LIMIT_KB)
    ok &= report("  packs of ours", len(own_packs(git_dir)), "", MOST_PACKS)
    print(f"  mirror before and after         {size / 1e6:9.1f} MB, {pack_bytes(git_dir) / 1e6:.1f} MB")
    return ok


_WRITER = """
import fcntl, sys, time
from contextlib import nullcontext
from pathlib import Path
from bench.states import trajectory
from handoff.git.locks import locked
from handoff.states.replay import replay_all
from handoff.git.repositories import Repository
git_dir, base, count, first, how = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
real, waited = fcntl.flock, 0.0
def flock(*arguments):
    global waited
    began = time.perf_counter()
    try:
        return real(*arguments)
    finally:
        waited += time.perf_counter() - began
runs = [(f"t_{seed}", trajectory(seed, count, base)) for seed in range(first, first + 120)]
fcntl.flock = flock
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
with Repository(git_dir) as repository:
    for start in range(0, len(runs), 10):
        with locked(git_dir / "whole.lock") if how == "whole" else nullcontext():
            list(replay_all(runs[start:start + 10], repository))
print(waited, time.perf_counter() - began, flush=True)
"""


def waiting(count: int, folder: Path, how: str) -> tuple[float, float]:
    """Percent of their time that writers wait for locks, and seconds until the last is done."""
    git_dir = folder / f"{how}.git"
    base = make_repository(git_dir, count)
    command = [sys.executable, "-c", _WRITER, str(git_dir), base, str(count)]
    writers = [
        subprocess.Popen([*command, str(n * 120), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    began = time.perf_counter()
    said = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        out, _ = writer.communicate()
        assert writer.returncode == 0
        said.append([float(word) for word in out.split()])
    took = time.perf_counter() - began
    run_git("--git-dir", git_dir, "fsck", "--connectivity-only", "--no-dangling")
    assert len(run_git("--git-dir", git_dir, "for-each-ref", "refs/handoff").splitlines()) == WRITERS * 120
    return 100 * sum(waited for waited, _ in said) / sum(whole for _, whole in said), took


def measure_waiting(count: int, folder: Path) -> bool:
    """Several processes on one mirror wait little for each other."""
    share, took = waiting(count, folder, "own")
    naive, naive_took = waiting(count, folder, "whole")
    print(f"{WRITERS} processes write {WRITERS * 120} runs into one mirror of {count} files")
    ok = report("  time waiting for a lock", share, "%", LIMIT_WAIT)
    print(f"  the same, one lock for a batch  {naive:9.1f} %    (naive baseline, same run)")
    print(f"  until the last is done          {took:9.1f} s, {naive_took:.1f} s")
    return ok


def report(what: str, value: float, unit: str, limit: float, *, at_least: bool = False) -> bool:
    ok = value >= limit if at_least else value <= limit
    sign = "≥" if at_least else "≤"
    print(f"{what:32}{value:10.2f} {unit:3}  limit {sign} {limit:g} {unit}   {'ok' if ok else 'MISSED'}")
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[2_000, 20_000])
    counts = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        results = [measure(count, place) for count in counts]
        ok = all(is_met for is_met, _ in results)
        if len(results) > 1:
            growth = results[-1][1] / results[0][1]
            ok &= report(f"a point at {counts[-1]} files, against {counts[0]}", growth, "x", LIMIT_GROWTH)
        ok &= measure_many(counts[0], place)
        ok &= measure_waiting(counts[0], place)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
