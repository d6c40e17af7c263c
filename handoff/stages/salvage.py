"""``takeover_runs`` → ``salvaged``: what failed takeovers achieved, and ways out of wrong turns of recorded runs.

A smaller task is what tests say when they are run again, on the state that the takeover began from and on the one that
it left: where they cannot be run, nothing is salvaged. Ways out are read from recordings, once a shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow.compute as pc

from handoff.actions.history import Event, history
from handoff.actions.paths import context_of
from handoff.identity import canonical_json, identify
from handoff.kata.lab import KataLab
from handoff.kata.pool import run_many
from handoff.kata.record import load_world
from handoff.lake import Written
from handoff.project import Project
from handoff.salvage.recovery import corrections, recoveries
from handoff.salvage.relabel import (
    NOTHING_FIXED,
    Outcome,
    achieved,
    files_of,
    is_put_right,
    is_repeated,
    read_tests,
    smaller_task,
)
from handoff.stages import inputs_of, is_executable, round_number
from handoff.stages.adversary import briefing_at
from handoff.stages.handoffs import Handoffs

SPLITS = ("train",)
"""Held-out tasks steer and measure; nothing is learned from them."""
BY_TESTS = "its tests fail on the state it began from and pass on the one it left, twice"
BY_FILES = "amid the whole solution tests fail with these files as they were and pass with them as it left them, twice"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A job: a failed takeover whose tests are run again."""

    repo: str
    base_commit: str
    start: str
    end: str
    solution: dict[str, str]
    """Sealed. Path → text of the files that the reference solution changes."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What its tests say."""

    fixed: tuple[str, ...]
    """Tests that it made pass."""
    right: tuple[str, ...] = ()
    """Where there are none: files that it put right."""
    failing_before: int | None
    failing_after: int | None
    reason: str


def salvaged(project: Project, round: str, shard: str) -> Written:
    """Everything that this round's takeovers of one shard give beside their solves."""
    lake = project.lake
    own = project.settings.salvage
    earlier = [p for p in lake.partitions("salvaged") if p["shard"] == shard and _before(p, round)]
    upstream: list[tuple[str, dict[str, str]]] = [
        ("takeover_runs", {"round": round, "shard": shard}),
        ("adversarial_variants", {"round": round, "shard": shard}),
        ("injected_handoffs", {"shard": shard}),
    ]
    inputs = inputs_of("salvaged", lake, *upstream, settings=(own, bool(earlier)))
    if current := lake.current("salvaged", inputs=inputs, round=round, shard=shard):
        return current
    rows = list(_relabelled(project, round, shard)) if own.relabelled else []
    if own.recovery and not earlier:
        rows += _recovered(project, shard)
    return lake.write("salvaged", rows, inputs=inputs, round=round, shard=shard)


def _before(partition: Mapping[str, str], round: str) -> bool:
    return round_number(partition["round"]) < round_number(round)


def _relabelled(project: Project, round: str, shard: str) -> Iterator[dict[str, Any]]:
    lake = project.lake
    points = {row["point_id"]: row for row in lake.rows("injected_handoffs", shard=shard)}
    variants: dict[str | None, Mapping[str, Any]] = {
        row["variant_id"]: row for row in lake.rows("adversarial_variants", round=round, shard=shard)
    }
    collected = lake.rows("takeover_runs", where=pc.field("purpose") == "collect", round=round, shard=shard)
    failed: list[tuple[Mapping[str, Any], Trial]] = []
    world = load_world(project.root) if any(is_executable(point) for point in points.values()) else None
    for run in collected:
        point = points[run["point_id"]]
        if run["solved"] is False and run["final_tree"] and point["split"] in SPLITS and world and is_executable(point):
            variant = variants.get(run["variant_id"])
            start = point["tree"] if variant is None else variant["tree"]
            if start != run["final_tree"]:
                trial = Trial(
                    repo=point["repo"],
                    base_commit=point["base_commit"],
                    start=start,
                    end=run["final_tree"],
                    solution=world.task(point["repo"]).reference,
                )
                failed.append((run, trial))
    settings = project.settings
    jobs = [trial for _, trial in failed]
    found = run_many(verify, jobs, data=project.root, sandbox=settings.sandbox, workers=settings.workers)
    with Handoffs(project, shard) as handoffs:
        handoffs.load({points[run["point_id"]]["trajectory_id"] for run, _ in failed})
        for (takeover, _), result in zip(failed, found, strict=True):
            point = points[takeover["point_id"]]
            variant = variants.get(takeover["variant_id"])
            task = briefing_at(handoffs, point, takeover["view"], variant, takeover["view_id"])[0].task
            yield {
                **_named("relabelled", takeover["takeover_id"], point, takeover["view"], takeover["view_id"]),
                "takeover_id": takeover["takeover_id"],
                "first_step": 1,
                "last_step": takeover["steps"],
                "verdict": "dropped" if result.reason else "kept",
                "reason": result.reason or (BY_TESTS if result.fixed else BY_FILES),
                "goals": [*result.fixed, *result.right],
                "statement": None if result.reason else smaller_task(task, tests=result.fixed, files=result.right),
                "failing_before": result.failing_before,
                "failing_after": result.failing_after,
                "evidence": canonical_json({"original": "not solved", "broken": None if result.reason else 0}).decode(),
            }


def verify(lab: KataLab, trial: Trial) -> Found:
    """Run the tests of a takeover's two states, and those that changed a second time. In a worker."""
    before, after = (_tests(lab, trial, tree) for tree in (trial.start, trial.end))
    start, end = lab.files(trial.start), lab.files(trial.end)
    touched = [path for path in sorted({*start, *end}) if start.get(path) != end.get(path)]
    result = achieved(before, after, touched)
    fixed, reason = result.fixed, result.reason
    if fixed:
        again = [
            {file: _tests(lab, trial, tree, file) for file in files_of(fixed)} for tree in (trial.start, trial.end)
        ]
        if not is_repeated(fixed, *again):
            fixed, reason = (), "a second run of its tests said something else"
    right: tuple[str, ...] = ()
    if reason == NOTHING_FIXED:
        right = tuple(path for path in touched if path in trial.solution and _is_right(lab, trial, path))
        reason = "" if right else reason
    return Found(
        fixed=fixed,
        right=right,
        failing_before=None if before is None else len(before.failing),
        failing_after=None if after is None else len(after.failing),
        reason=reason,
    )


def _is_right(lab: KataLab, trial: Trial, path: str) -> bool:
    """Whether a file is right as the takeover left it and was not before, by tests amid the whole solution, twice."""
    texts = [{**trial.solution, path: lab.files(tree).get(path)} for tree in (trial.start, trial.end)]
    before, after = (_tests(lab, trial, trial.base_commit, changes=text) for text in texts)
    if not is_put_right(before, after) or before is None:
        return False
    files = files_of(before.failing)
    again = [{file: _tests(lab, trial, trial.base_commit, file, text) for file in files} for text in texts]
    return is_repeated(before.failing, *again)


def _tests(
    lab: KataLab, trial: Trial, tree: str, target: str = "", changes: Mapping[str, str | None] | None = None
) -> Outcome | None:
    """The base commit's tests on a state with some changes, by name."""
    run = lab.environment(trial.repo, trial.base_commit, tree, changes).judged(target)
    return read_tests(run.output, sum(run.counts.values()))


def _recovered(project: Project, shard: str) -> list[dict[str, Any]]:
    rows = project.lake.rows("injected_handoffs", shard=shard)
    points = {(row["trajectory_id"], row["h"]): row for row in rows if row["split"] in SPLITS}
    wanted = sorted({trajectory for trajectory, _ in points})
    made: list[dict[str, Any]] = []
    with Handoffs(project, shard) as handoffs:
        handoffs.load(wanted)
        for trajectory_id in wanted:
            run = handoffs.trajectory({"trajectory_id": trajectory_id})
            ways = _ways_out(history(run.steps, context_of(run.format, run.source)))
            for way in ways:
                point = points.get((trajectory_id, way.h))
                if point is None:
                    continue
                view = handoffs.row(point, "trace")
                made.append(
                    {
                        **_named("recovery", None, point, "trace", view["view_id"]),
                        "takeover_id": None,
                        "first_step": way.h + 1,
                        "last_step": way.last,
                        "verdict": "kept",
                        "reason": way.reason,
                        "goals": [],
                        "statement": None,
                        "failing_before": way.before,
                        "failing_after": way.after,
                        "evidence": canonical_json({"wrong_steps": list(way.wrong), "h": way.h}).decode(),
                    }
                )
    return made


class _WayOut(NamedTuple):
    """A way out of either kind, as its row tells it."""

    h: int
    last: int
    wrong: tuple[int, ...]
    reason: str
    before: int | None = None
    after: int | None = None


def _ways_out(events: Sequence[Event]) -> list[_WayOut]:
    """Of a run, one for each step that went wrong: a failing validation tells more than a refused call."""
    found = {
        way.h: _WayOut(
            way.h,
            way.last,
            (way.h,),
            f"{way.tool}: the call of step {way.h} was refused, the one of step "
            f"{way.last} was carried out: {way.target}"[:300],
        )
        for way in corrections(events)
    }
    for way in recoveries(events):
        reason = (
            f"{way.target}: {way.failed_before} failed, {way.before} after the edit of step {way.wrong[-1]}, "
            f"{way.after} at step {way.last}"
        )
        found[way.h] = _WayOut(way.h, way.last, way.wrong, reason, way.before, way.after)
    return [found[h] for h in sorted(found)]


def _named(basis: str, takeover_id: str | None, point: Mapping[str, Any], view: str, view_id: str) -> dict[str, Any]:
    return {
        "salvage_id": identify("i", "salvage", basis, takeover_id or "", point["point_id"], view_id),
        "basis": basis,
        "point_id": point["point_id"],
        "trajectory_id": point["trajectory_id"],
        "task_id": point["task_id"],
        "split": point["split"],
        "view": view,
        "view_id": view_id,
    }


def kept(project: Project, round: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Kept rows of all rounds up to this one, with their shard, by id. ``names``: bases wanted."""
    found: dict[str, dict[str, Any]] = {}
    for partition in project.lake.partitions("salvaged"):
        if round_number(partition["round"]) <= round_number(round):
            for row in project.lake.rows("salvaged", None, None, **partition):
                if row["verdict"] == "kept" and row["basis"] in names:
                    found.setdefault(row["salvage_id"], {**row, "shard": partition["shard"]})
    return [found[id_] for id_ in sorted(found)]
