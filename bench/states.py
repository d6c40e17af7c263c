"""Repository states: milliseconds a point, against copying the repository and replaying the prefix.

``python bench/states.py [--files 2000 20000]`` prints each figure beside its limit; it exits 1 when one is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from handoff.states.replay import replay_all
from handoff.states.repositories import Repository, run_git
from handoff.states.worktree import lay_out, overlay_reason
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

TRAJECTORIES, STEPS = 40, 50
LIMIT_MS, LIMIT_TIMES, LIMIT_LAYOUT_MS, LIMIT_KB = 1.0, 100.0, 20.0, 4.0


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
            steps.append(Step(actions=(call,), observations=(Observation(text="2: return", exit_code=0),)))
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


def measure(count: int, folder: Path) -> bool:
    git_dir = folder / f"{count}.git"
    base = make_repository(git_dir, count)
    runs = [(f"t_{seed}", trajectory(seed, count, base)) for seed in range(TRAJECTORIES)]
    size = sum(f.stat().st_size for f in git_dir.rglob("*.pack"))
    with Repository(git_dir) as repository:
        began = time.perf_counter()
        done = replay_all(runs, repository)
        points = sum(len(item.trees) for item in done)
        each = (time.perf_counter() - began) * 1000 / points
        assert all(item.divergence is None for item in done), [item.reason for item in done if item.divergence][:1]
        kilobytes = (sum(f.stat().st_size for f in git_dir.rglob("*.pack")) - size) / points / 1000

        began = time.perf_counter()
        with lay_out(repository, base, done[0].trees[0] or "", folder / "w") as first:
            template_s = time.perf_counter() - began
            is_overlay = first.is_overlay
            checkout = folder / "checkout"
            shutil.copytree(first.path, checkout, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        naive = []
        for run in range(3):
            began = time.perf_counter()
            copy_and_replay(checkout, runs[run][1], STEPS // 2, folder / "naive")
            naive.append((time.perf_counter() - began) * 1000)
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
    faster = statistics.median(naive) / each
    layout = statistics.median(times)
    print(f"{count} files, {points} points of {TRAJECTORIES} runs")
    ok = report("  a point, one replay", each, "ms", LIMIT_MS)
    print(f"  a point, copy and replay        {statistics.median(naive):9.1f} ms   (naive baseline, same run)")
    ok &= report("  times faster", faster, "x", LIMIT_TIMES, at_least=True)
    ok &= report("  stored a point", kilobytes, "kB", LIMIT_KB)
    kind = "overlay" if is_overlay else f"copy: {overlay_reason()}"
    ok &= report(f"  layout ({kind})", layout, "ms", LIMIT_LAYOUT_MS) or not is_overlay
    print(f"  template of a base, once        {template_s:9.2f} s")
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
        results = [measure(count, Path(folder)) for count in counts]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
