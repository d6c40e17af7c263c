"""``view_renderings`` + ``adversarial_variants`` → ``takeover_runs``: who is started where, and what came of it.

The plan of a round is a function of its number and of each shard's split. The first round has no policies yet: it
collects the expert's takeovers on training points, each under two of the four views, and runs the yardsticks on test
points. Later rounds evaluate the policies that the round before trained, on test points (which only report) and,
for the arm that steers, on validation points, and collect takeovers on training points. Test points feed no choice.
Successors on model endpoints run beside the policies on test points when the settings name them (``evaluate``).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from handoff.coevolution import cell_name
from handoff.diagnosis.fixes import destroyed_fixes
from handoff.endpoints import Client, Endpoint
from handoff.errors import InputError
from handoff.identity import identify
from handoff.journal import Journal
from handoff.kata.lab import KataLab
from handoff.kata.pool import Progress, run_many
from handoff.kata.record import load_world
from handoff.kata.roster import Roster
from handoff.kata.threads import run_in_threads
from handoff.kata.world import World
from handoff.lake import Written
from handoff.project import Project
from handoff.stages import inputs_of, is_executable, round_name, round_number
from handoff.stages.adversary import briefing_at
from handoff.stages.handoffs import Handoffs
from handoff.successors import Briefing, Question, Successor
from handoff.successors.openai import OpenAISuccessor, digest_of
from handoff.takeover import Budget, run_takeover, takeover_identity
from handoff.trajectory import Step
from handoff.views import VIEWS

LEARNED = ("A", "A+opening", "B", "E")
"""Policies of the round before (docs/science.md §13)."""
STEERING = ("E",)
"""Whose failures on validation points decide what the next round collects."""
DISTURBED_ARMS = ("A", "E")
"""Who is run on disturbed points too."""
MOST_THREADS = 32
"""Takeovers on endpoints at once in one process: each has a work tree and a shell."""
POINT_LABELS = ("error", "intermediate", "milestone")
"""Points that successors are started from carry one of these; one point a label and run."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One takeover to run: all that decides it."""

    point_id: str
    view_id: str
    variant_id: str | None
    view: str
    tier: str | None
    purpose: str
    arm: str
    seed: int


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A start with what a worker needs to carry it out."""

    start: Start
    takeover_id: str
    policy: str | None
    """Weights, for arms that have some."""
    repo: str
    base_commit: str
    point_tree: str
    tree: str
    """Where the run begins; differs from ``point_tree`` when the state is disturbed."""
    briefing: Briefing
    question: Question | None
    suffix: tuple[Step, ...]
    """The recorded continuation; only ``replay`` looks at it."""
    endpoint: Endpoint | None
    """For successors on one."""
    budget: Budget
    data: Path


def takeover_runs(
    project: Project, round: str, shard: str, progress: Progress | None = None, cells: Sequence[str] = ()
) -> Written:
    """Run every takeover that the round plans for this shard.

    ``cells`` restricts the plan to some cells (``coevolution.cell_name``), as the drift sensor does. A shard whose
    points cannot be executed gives no rows: nothing is simulated.
    """
    lake = project.lake
    last = round_name(round_number(round) - 1) if round_number(round) else None
    upstream: list[tuple[str, dict[str, str]]] = [
        (table, {"shard": shard}) for table in ("raw_trajectories", "injected_handoffs", "view_renderings")
    ]
    upstream.append(("adversarial_variants", {"round": round, "shard": shard}))
    upstream += [("policy", {"round": last})] if last else []
    own = project.settings
    settings: tuple[object, ...] = (
        own.seed,
        own.step_budget,
        own.token_budget,
        own.points_per_run,
        tuple(sorted(cells)),
    )
    if own.evaluate:
        settings += (own.dollar_budget, *((name, digest_of(endpoint_of(project, name))) for name in own.evaluate))
    inputs = inputs_of("takeover_runs", lake, *upstream, settings=settings)
    if current := lake.current("takeover_runs", inputs=inputs, round=round, shard=shard):
        return current
    policies = {row["arm"]: row for row in lake.rows("policy", round=last)} if last else {}
    rows = _run(project, round, shard, policies, progress, frozenset(cells))
    return lake.write("takeover_runs", rows, inputs=inputs, round=round, shard=shard)


def _run(
    project: Project,
    round: str,
    shard: str,
    policies: Mapping[str, Mapping[str, Any]],
    progress: Progress | None,
    cells: frozenset[str],
) -> Iterator[dict[str, Any]]:
    lake = project.lake
    every = lake.rows("injected_handoffs", shard=shard)
    points = {point["point_id"]: point for point in every if is_executable(point)}
    if not points:
        return
    chosen = choose_points(list(points.values()), project.settings.points_per_run, project.settings.seed)
    views = {(row["point_id"], row["view"]): row["view_id"] for row in lake.rows("view_renderings", shard=shard)}
    variants = lake.rows("adversarial_variants", round=round, shard=shard)
    own = project.settings
    starts = list(plan(round_number(round), chosen, views, variants, points, own.seed, tuple(own.evaluate)))
    starts = runnable(starts, policies)
    if cells:
        starts = [start for start in starts if _cells(start, points[start.point_id]["labels"]) & cells]
    with Handoffs(project, shard) as handoffs:
        handoffs.load(points[start.point_id]["trajectory_id"] for start in starts)
        recipes = {row["variant_id"]: row for row in variants}
        jobs = [make_job(project, handoffs, start, points[start.point_id], recipes, policies) for start in starts]
    yield from _rows(project, jobs, progress)


def _rows(project: Project, jobs: Sequence[Job], progress: Progress | None) -> Iterator[dict[str, Any]]:
    """The row of each job, in order: those on endpoints on threads, which wait; then the others on processes."""
    settings = project.settings
    calling = [job for job in jobs if job.endpoint is not None]
    own = [job for job in jobs if job.endpoint is None]

    def shift(by: int) -> Progress | None:
        return None if progress is None else lambda done, _: progress(by + done, len(jobs))

    called = iter(run_on_endpoints(project, calling, shift(0)))
    acted = run_many(
        execute,
        own,
        data=project.root,
        sandbox=settings.sandbox,
        workers=settings.workers,
        progress=shift(len(calling)),
    )
    for job in jobs:
        yield next(acted) if job.endpoint is None else next(called)


def run_on_endpoints(project: Project, jobs: Sequence[Job], progress: Progress | None) -> list[dict[str, Any]]:
    """The rows of jobs whose successors are on endpoints, as many at once as their endpoints allow together.

    The first error ends all; what was answered by then is in the journal.
    """
    with ExitStack() as opened:
        clients: dict[str, Client] = {}
        for job in jobs:
            if job.endpoint is not None and job.start.arm not in clients:
                clients[job.start.arm] = opened.enter_context(Client(job.endpoint))

        def stop() -> None:
            for client in clients.values():
                client.halt("stopped, because another takeover could not go on; run again to go on from here")

        return run_in_threads(
            lambda lab, job: execute(lab, job, clients[job.start.arm]),
            jobs,
            data=project.root,
            sandbox=project.settings.sandbox,
            threads=min(MOST_THREADS, sum(client.endpoint.concurrency for client in clients.values())),
            progress=progress,
            stop=stop,
        )


def choose_points(points: Sequence[Mapping[str, Any]], per_run: int, seed: int) -> list[Mapping[str, Any]]:
    """At most ``per_run`` points of each recorded run, one a label, drawn by hash among unsolved states.

    Sorted by trajectory and h. The label that is served first goes round from run to run, so that all occur.
    """
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        if point["state_class"] in ("needs_completion", "regressed"):
            by_run.setdefault(point["trajectory_id"], []).append(point)
    chosen: list[Mapping[str, Any]] = []
    for place, trajectory_id in enumerate(sorted(by_run)):
        own: dict[str, Mapping[str, Any]] = {}
        first = place % len(POINT_LABELS)
        for label in POINT_LABELS[first:] + POINT_LABELS[:first]:
            fitting = [p for p in by_run[trajectory_id] if label in p["labels"] and p["point_id"] not in own]
            if fitting and len(own) < per_run:
                drawn = min(fitting, key=lambda p: identify("i", seed, label, p["point_id"]))
                own[drawn["point_id"]] = drawn
        chosen += own.values()
    return sorted(chosen, key=lambda p: (p["trajectory_id"], p["h"]))


def runnable(starts: Sequence[Start], policies: Collection[str]) -> list[Start]:
    """The starts whose arm can act: a round that taught nothing trains no B and no E, and they are left out."""
    return [start for start in starts if start.arm not in LEARNED or start.arm in policies]


def plan(
    number: int,
    chosen: Sequence[Mapping[str, Any]],
    views: Mapping[tuple[str, str], str],
    variants: Sequence[Mapping[str, Any]],
    points: Mapping[str, Mapping[str, Any]],
    seed: int,
    evaluate: Sequence[str] = (),
) -> Iterator[Start]:
    """Every start of a round in one shard, in a fixed order. ``evaluate``: successors on endpoints to run as well."""

    def start(point: Mapping[str, Any], view: str, arm: str, purpose: str, tier: str | None = None) -> Start:
        return Start(
            point_id=point["point_id"],
            view_id=views[point["point_id"], view],
            variant_id=None,
            view=view,
            tier=tier,
            purpose=purpose,
            arm=arm,
            seed=int(identify("k", seed, number, arm, point["point_id"], view)[2:10], 16),
        )

    for place, point in enumerate(chosen):
        split = point["split"]
        turn = (VIEWS[place % len(VIEWS)], VIEWS[(place + 2) % len(VIEWS)])
        if split == "train" and number == 0:
            for view in turn:
                yield start(point, view, "expert", "collect")
        elif split == "train" and place % 2 == number % 2:  # every other point, the others in the next round
            for arm in ("A", "E"):
                yield start(point, turn[0], arm, "collect")
        elif split != "train" and number > 0:
            for view in VIEWS:
                for arm in (*LEARNED, *evaluate) if split == "test" else STEERING:
                    yield start(point, view, arm, "evaluate")
        elif split == "test":
            for arm, view in (("expert", "repo"), ("oracle", "repo"), ("resampled", "trace"), ("replay", "trace")):
                yield start(point, view, arm, "evaluate")
    if number == 0:
        return
    for row in variants:
        if row["oracle"] != "preserved":
            continue
        split = points[row["point_id"]]["split"]
        purpose = "collect" if split == "train" else "evaluate"
        for arm in {"train": ("expert",), "test": DISTURBED_ARMS}.get(split, STEERING):
            plain = start(points[row["point_id"]], row["view"], arm, purpose, row["tier"])
            yield msgspec.structs.replace(plain, variant_id=row["variant_id"])


def _cells(start: Start, labels: Sequence[str]) -> frozenset[str]:
    tier = start.tier or "none"
    return frozenset(cell_name(start.arm, start.view, label, tier) for label in ("all", *labels))


def make_job(
    project: Project,
    handoffs: Handoffs,
    start: Start,
    point: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    policies: Mapping[str, Mapping[str, Any]],
) -> Job:
    """A start with what a worker needs."""
    variant = None if start.variant_id is None else variants[start.variant_id]
    briefing, tree = briefing_at(handoffs, point, start.view, variant)
    policy = policies[start.arm] if start.arm in LEARNED else None
    settings = project.settings
    endpoint = settings.successors.get(start.arm)
    budget = Budget(
        steps=settings.step_budget,
        prompt_tokens=settings.token_budget,
        dollars=settings.dollar_budget if endpoint is not None else None,
    )
    if endpoint is not None:
        digest = digest_of(endpoint)
    else:
        digest = policy["policy_id"] if policy is not None else Roster.digest(start.arm)
    return Job(
        start=start,
        takeover_id=takeover_identity(start.point_id, start.view_id, start.variant_id, digest, start.seed, budget),
        policy=None if policy is None else policy["path"],
        repo=point["repo"],
        base_commit=point["base_commit"],
        point_tree=point["tree"],
        tree=tree,
        briefing=briefing,
        question=question_of(point, handoffs, start.seed),
        suffix=handoffs.trajectory(point).steps[point["h"] :] if start.arm == "replay" else (),
        endpoint=endpoint,
        budget=budget,
        data=project.root,
    )


def trial_jobs(project: Project, path: str, digest: str) -> list[Job]:
    """Takeovers of validation points under the repository view, by one policy that is being tried out."""
    jobs: list[Job] = []
    settings = project.settings
    for partition in project.lake.partitions("injected_handoffs"):
        shard = partition["shard"]
        every = project.lake.rows("injected_handoffs", shard=shard)
        points = {p["point_id"]: p for p in every if p["split"] == "validation" and is_executable(p)}
        if not points:
            continue
        views = {
            (row["point_id"], row["view"]): row["view_id"] for row in project.lake.rows("view_renderings", shard=shard)
        }
        with Handoffs(project, shard) as handoffs:
            for point in choose_points(list(points.values()), settings.points_per_run, settings.seed):
                start = Start(
                    point_id=point["point_id"],
                    view_id=views[point["point_id"], "repo"],
                    variant_id=None,
                    view="repo",
                    tier=None,
                    purpose="evaluate",
                    arm="B",
                    seed=settings.seed,
                )
                jobs.append(make_job(project, handoffs, start, point, {}, {"B": {"policy_id": digest, "path": path}}))
    return jobs


def endpoint_of(project: Project, name: str) -> Endpoint:
    """The endpoint of a named successor. ``InputError`` that lists the others when there is none of that name."""
    known = project.settings.successors
    if name not in known:
        listed = ", ".join(sorted(known)) or "none yet"
        place = project.root / "handoff.toml"
        raise InputError(
            f"no successor {name!r}: describe it under [successors.{name}] in {place}; there are: {listed}"
        )
    return known[name]


def question_of(point: Mapping[str, Any], handoffs: Handoffs, seed: int) -> Question | None:
    """The probe of a point (docs/science.md §6): its subtasks among decoys, other source files of the repository."""
    nodes = [entry["node"] for entry in point["nodes"] or ()]
    if not nodes:
        return None
    files = handoffs.repository(point).files(point["tree"])
    suffixes = {name.rpartition(".")[2] for node in nodes if (name := node.partition(":")[2]) and "." in name}
    named = {node.partition(":")[2] for node in nodes}
    others = sorted(path for path in files if path.rpartition(".")[2] in suffixes and path not in named)
    rng = random.Random(f"probe/{seed}/{point['point_id']}")
    decoys = [f"edit:{path}" for path in rng.sample(others, min(len(others), max(2, len(nodes) // 2)))]
    return Question.about(nodes, decoys, rng)


# -- in a worker --------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _roster(data: Path) -> Roster:
    return Roster(data)


@lru_cache(maxsize=2)
def _world(data: Path) -> World:
    return load_world(data)


def execute(lab: KataLab, job: Job, client: Client | None = None) -> dict[str, Any]:
    """Carry out one start: the row of ``takeover_runs``. ``client``: of the job's endpoint, when it has one."""
    task = _world(job.data).task(job.repo)
    successor: Successor
    if client is not None:
        successor = OpenAISuccessor(client, name=job.start.arm)
    else:
        successor = _roster(job.data).successor(
            job.start.arm,
            policy=job.policy,
            task=task,
            present=lambda: lab.files(job.tree),
            suffix=job.suffix,
            seed=job.start.seed,
        )
    takeover = run_takeover(
        takeover_id=job.takeover_id,
        briefing=job.briefing,
        successor=successor,
        environment=lambda: lab.environment(job.repo, job.base_commit, job.tree),
        budget=job.budget,
        seed=job.start.seed,
        question=job.question,
        # A policy's answers cost nothing to have again.
        journal=Journal(job.data / "journal" / "takeovers", sync="never" if client is None else "paid"),
    )
    own = msgspec.structs.asdict(job.start)
    removed = destroyed_fixes(
        base=_bytes(lab.files(job.base_commit)),
        reference={path: text.encode() for path, text in task.reference.items()},
        at_h=_bytes(lab.files(job.tree)),
        final=_bytes(lab.files(takeover.final_tree)),
    )
    return {**takeover.columns(), **own, "destroyed_fixes": int(removed.value or 0)}


def _bytes(files: Mapping[str, str]) -> dict[str, bytes | None]:
    return {path: text.encode("utf-8", "surrogateescape") for path, text in files.items()}
