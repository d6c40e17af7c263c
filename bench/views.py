"""Views: time to render one, and what all four of every step add to the lake; each beside a naive way of doing it.

The runs are real SWE-agent recordings where the sample corpus lies beside the checkout; elsewhere runs are made
whose outputs are this project's own source files. For speed they are strung together to fifty steps. Sizes are
taken of the recordings as they are, each once: repeated text would compress away and flatter nobody.

The lake is what the corpus stages write for these runs: ``raw_trajectories``, ``steps``, ``repository_states`` and
``injected_handoffs`` with a point at every step. Runs without a repository have the smallest states and points there
can be, so the share is an upper bound.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from handoff.evidence import Evidence, gather_evidence
from handoff.identity import identify
from handoff.lake import SCHEMAS, Lake
from handoff.points import find_handoff_points
from handoff.trajectory import Action, Observation, Step, Trajectory, trajectory_id
from handoff.views import VIEWS, render_view, trace, view_row, view_tokens

LIMIT_MS = 0.1
LIMIT_SHARE = 0.10
STEPS = 50
RUNS = 8
ROOT = Path(__file__).resolve().parent.parent


def recorded() -> list[Trajectory]:
    """Real recordings, or made ones; no two hold the same steps."""
    found: dict[str, Trajectory] = {}
    for file in sorted((ROOT.parent / "shared" / "corpus").glob("sweagent_v[01]/*.traj")):
        steps = [_recorded_step(entry) for entry in json.loads(file.read_bytes()).get("trajectory", ())]
        if len(steps) > 2:
            found.setdefault(steps[-1].thought, Trajectory(format="bench", task=file.stem, steps=tuple(steps)))
    if found:
        return list(found.values())
    files = sorted((ROOT / "handoff").rglob("*.py"))
    return [_reading(files[start::RUNS], f"Task {start}: fix the failing test.") for start in range(RUNS)]


def _recorded_step(entry: dict[str, str | None]) -> Step:
    action = Action(tool="bash", arguments=entry.get("action") or "", is_text=True)
    observation = Observation(text=entry.get("observation") or "")
    return Step(thought=entry.get("thought") or "", actions=(action,), observations=(observation,))


def _reading(files: list[Path], task: str) -> Trajectory:
    """A run that reads some files."""
    entries: list[dict[str, str | None]] = [
        {
            "thought": f"I will look at {file.name} next, since the failing test imports it.",
            "action": f"cat {file.relative_to(ROOT)}",
            "observation": file.read_text("utf-8")[:8_000],
        }
        for file in files
    ]
    return Trajectory(format="bench", task=task, steps=tuple(_recorded_step(entry) for entry in entries))


def strung(recordings: list[Trajectory]) -> list[Trajectory]:
    """Runs of ``STEPS`` steps from those of the recordings."""
    steps = [step for recording in recordings for step in recording.steps]
    return [
        Trajectory(
            format="bench",
            task=f"Task {number}",
            steps=tuple(steps[(number * 17 + n) % len(steps)] for n in range(STEPS)),
        )
        for number in range(RUNS)
    ]


def gathered(trajectories: list[Trajectory]) -> list[list[Evidence]]:
    """The evidence of every point."""
    return [[gather_evidence(t, h, None) for h in range(1, len(t.steps))] for t in trajectories]


def timed_views(
    trajectories: list[Trajectory], records: list[list[Evidence]], *, is_naive: bool
) -> tuple[float, float, int]:
    """Milliseconds per view and per trace view, and bytes rendered; the naive way renders each step for each h."""
    spent = dict.fromkeys(VIEWS, 0.0)
    size = 0
    for trajectory, evidence in zip(trajectories, records, strict=True):
        for h in range(1, len(trajectory.steps)):
            for view in VIEWS:
                started = time.perf_counter()
                if is_naive and view == "trace":
                    text = trace.header(trajectory, h) + trace.render_steps(trajectory.steps[:h])
                else:
                    text = render_view(view, trajectory, h, evidence[h - 1])
                spent[view] += time.perf_counter() - started
                size += len(text)
    points = sum(len(t.steps) - 1 for t in trajectories)
    return 1e3 * sum(spent.values()) / points / len(VIEWS), 1e3 * spent["trace"] / points, size


def lake_sizes(
    trajectories: list[Trajectory], records: list[list[Evidence]], folder: Path
) -> tuple[int, int, int, float]:
    """Bytes of the trajectories, of all views as recipes, of all views as text; seconds to make the recipe rows."""
    lake = Lake(folder)
    ids = [trajectory_id(t) for t in trajectories]
    raw = lake.write(
        "raw_trajectories", [_raw(id_, t) for id_, t in zip(ids, trajectories, strict=True)], inputs="b", shard="b"
    )
    steps = [_step(id_, n, s) for id_, t in zip(ids, trajectories, strict=True) for n, s in enumerate(t.steps, 1)]
    points = [
        point.row()
        for id_, t in zip(ids, trajectories, strict=True)
        for point in find_handoff_points(t, id_, None, every_k=1)
    ]
    states = [_state(id_, n) for id_, t in zip(ids, trajectories, strict=True) for n in range(len(t.steps) + 1)]
    tables = {"steps": steps, "repository_states": states, "injected_handoffs": points}
    base = raw.bytes + sum(lake.write(name, rows, inputs="b", shard="b").bytes for name, rows in tables.items())
    texts = [
        (identify("p", id_, h), view, render_view(view, t, h, evidence[h - 1]))
        for id_, t, evidence in zip(ids, trajectories, records, strict=True)
        for h in range(1, len(t.steps))
        for view in VIEWS
    ]
    view_tokens("warm up")
    started = time.perf_counter()
    rows = [view_row(*text) for text in texts]
    seconds = time.perf_counter() - started
    recipes = lake.write("view_renderings", rows, inputs="b", shard="b").bytes
    stored = [{**row, "written": text} for row, (_, _, text) in zip(rows, texts, strict=True)]
    naive = lake.write("view_renderings", stored, inputs="b", shard="naive").bytes
    return base, recipes, naive, seconds


def _raw(id_: str, trajectory: Trajectory) -> dict[str, object]:
    return {
        name: {"trajectory_id": id_, "task": trajectory.task}.get(name) for name in SCHEMAS["raw_trajectories"].names
    }


def _step(id_: str, number: int, step: Step) -> dict[str, object]:
    action, observation = step.actions[0], step.observations[0]
    known: dict[str, object] = {
        "trajectory_id": id_,
        "step": number,
        "text": step.text,
        "thought": step.thought,
        "actions": [{"tool": action.tool, "arguments": action.arguments, "is_text": True}],
        "observations": [{"text": observation.text, "is_orphan": False}],
    }
    return {name: known.get(name) for name in SCHEMAS["steps"].names}


def _state(id_: str, step: int) -> dict[str, object]:
    known: dict[str, object] = {"trajectory_id": id_, "step": step, "status": "unverifiable", "reason": "no repository"}
    return {name: known.get(name) for name in SCHEMAS["repository_states"].names}


def main() -> int:
    recordings = recorded()
    trajectories = strung(recordings)
    started = time.perf_counter()
    records = gathered(trajectories)
    gathering = time.perf_counter() - started
    points = sum(len(t.steps) - 1 for t in trajectories)
    render_view("structured", trajectories[0], 1, records[0][0])  # warms up tables, not rendered steps
    naive_ms, naive_trace_ms, _ = timed_views(trajectories, records, is_naive=True)
    ms, trace_ms, size = timed_views(trajectories, records, is_naive=False)
    with tempfile.TemporaryDirectory() as folder:
        base, recipes, naive, seconds = lake_sizes(recordings, gathered(recordings), Path(folder))
    kept = sum(len(t.steps) - 1 for t in recordings) * len(VIEWS)
    share = recipes / base
    print(f"{points} points, {points * len(VIEWS)} views, {size / 1e6:.1f} MB of view text")
    print(f"render one view           {ms:8.4f} ms   limit {LIMIT_MS} ms   naive {naive_ms:.4f} ms")
    print(f"  trace views alone       {trace_ms:8.4f} ms                  naive {naive_trace_ms:.4f} ms")
    print(f"  gather one evidence     {1e3 * gathering / points:8.4f} ms   (not part of rendering)")
    print(f"  hash and count one view {1e3 * seconds / kept:8.4f} ms   (once per view, at materialization)")
    print(f"lake of {len(recordings)} recordings {base:,} bytes, {kept} views as recipes {recipes:,} bytes")
    print(f"views add to the lake     {share:8.1%}      limit {LIMIT_SHARE:.0%}     naive {naive / base:.1%} (as text)")
    return 0 if ms <= LIMIT_MS and share <= LIMIT_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
