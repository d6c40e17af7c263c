"""``view_renderings`` + ``adversarial_variants`` → ``takeover_runs``: who is started where, and what came of it.

The plan of a round is a function of its number and of each shard's split. The first round has no policies yet: it
collects the expert's takeovers on training points, each under two of the four views, and runs the yardsticks on test
points. Later rounds evaluate the policies that the round before trained, on test points (which only report) and,
for the arm that steers, on validation points, and collect takeovers on training points. Test points feed no choice.
Successors on model endpoints run beside the policies on test points when the settings name them (``evaluate``), and
they alone at points of real repositories: wherever the state is known and nothing says that it is solved already.
Where a takeover acts and who judges it is in ``places.py``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from handoff.adversary import Noise, noise_of, read_recipes, with_noise
from handoff.coevolution import cell_name
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
from handoff.stages import inputs_of, is_embedded, is_executable, is_real, round_name, round_number
from handoff.stages.adversary import briefing_at
from handoff.stages.choosing import choose_points
from handoff.stages.handoffs import Handoffs, view_ids
from handoff.stages.judges import judging_version, surroundings_version, tasks_of
from handoff.stages.named import Named, NamedSuccessor, digest_of, model_of
from handoff.stages.places import KataPlace, Place, RealPlace
from handoff.successors import Briefing, Question, Reply, Successor
from handoff.successors.acting import ActingSuccessor
from handoff.successors.branched import BranchedSuccessor
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
    named: str | None
    """The successor's name in the settings; ``None`` for those of the embedded world."""
    shard: str
    task_id: str | None
    """By which an instance names the task's tests."""
    budget: Budget
    data: Path
    note_tokens: int = 0
    """Spent on writing the view."""
    noise: tuple[Noise, ...] = ()
    """What the surroundings do while it runs."""
    asks_logprobs: bool = False
    """An endpoint is asked how likely its first reply was."""
    forced: tuple[Reply, ...] = ()
    """Replies that a policy begins with; then it goes on by itself (``successors/branched.py``)."""

    @property
    def is_embedded(self) -> bool:
        """Whether it acts in the embedded world."""
        return is_embedded(self.repo)


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
    if called := (*own.evaluate, *own.collect):
        settings += (own.dollar_budget, *((name, digest_of(project, name)) for name in called))
        settings += tuple(("collect", name) for name in own.collect)
        settings += tuple(filter(None, [judging_version(project, shard), surroundings_version(project, shard)]))
    if own.branching.runs:
        settings += (own.branching,)
    inputs = inputs_of("takeover_runs", lake, *upstream, settings=settings)
    if current := lake.current("takeover_runs", inputs=inputs, round=round, shard=shard):
        return current
    policies = {row["arm"]: row for row in lake.rows("policy", round=last)} if last else {}
    jobs = _planned(project, round, shard, policies, frozenset(cells))
    rows: Iterable[dict[str, Any]] = run_jobs(project, jobs, progress)
    if own.branching.runs:
        from handoff.stages.branching import collected_branches  # it runs takeovers itself

        ran = list(rows)
        branches, kept = collected_branches(project, jobs, ran, progress)
        lake.write("branches", branches, inputs=inputs, round=round, shard=shard)
        rows = [*ran, *kept]
    return lake.write("takeover_runs", rows, inputs=inputs, round=round, shard=shard)


def _planned(
    project: Project, round: str, shard: str, policies: Mapping[str, Mapping[str, Any]], cells: frozenset[str]
) -> list[Job]:
    lake = project.lake
    every = lake.rows("injected_handoffs", shard=shard)
    own = project.settings
    points = {point["point_id"]: point for point in every if is_executable(point)}
    wanted = {"test": own.evaluate, "train": own.collect}
    real = {point["point_id"]: point for point in every if wanted.get(point["split"]) and is_real(point)}
    if not points and not real:
        return []
    chosen = choose_points(list(points.values()), own.points_per_run, own.seed)
    meant = choose_points(list(real.values()), own.points_per_run, own.seed, unknown=True)
    renderings = lake.rows("view_renderings", shard=shard)
    views, written = view_ids(renderings), view_ids(renderings, by_rule=False)
    variants = lake.rows("adversarial_variants", round=round, shard=shard)
    number = round_number(round)
    planned = plan(number, chosen, views, variants, points, own.seed, own.evaluate, written, own.collect)
    starts = runnable(list(planned), policies)
    starts += plan_real(number, meant, {**views, **written}, own.seed, own.evaluate, own.collect)
    points |= real
    if cells:
        starts = [start for start in starts if _cells(start, points[start.point_id]["labels"]) & cells]
    with Handoffs(project, shard) as handoffs:
        handoffs.load(points[start.point_id]["trajectory_id"] for start in starts)
        recipes = {row["variant_id"]: row for row in variants}
        return [make_job(project, handoffs, start, points[start.point_id], recipes, policies) for start in starts]


def run_jobs(project: Project, jobs: Sequence[Job], progress: Progress | None) -> Iterator[dict[str, Any]]:
    """The row of each job, in order: those that the settings name on threads, which wait; then the others on
    processes. A job need not come from a point of the lake."""
    settings = project.settings
    calling = [job for job in jobs if job.named is not None]
    own = [job for job in jobs if job.named is None]

    def shift(by: int) -> Progress | None:
        return None if progress is None else lambda done, _: progress(by + done, len(jobs))

    called = iter(run_named(project, calling, shift(0)))
    acted = run_many(
        execute,
        own,
        data=project.root,
        sandbox=settings.sandbox,
        workers=settings.workers,
        progress=shift(len(calling)),
    )
    for job in jobs:
        yield next(acted) if job.named is None else next(called)


def run_named(project: Project, jobs: Sequence[Job], progress: Progress | None) -> list[dict[str, Any]]:
    """The rows of jobs whose successors the settings name, as many at once as those allow together.

    The first error ends all; what was answered by then is in the journal. As many tests as there are ``workers`` run
    at once.
    """
    slots = threading.Semaphore(project.settings.workers)
    tasks = {shard: tasks_of(project, shard) for shard in sorted({job.shard for job in jobs if not job.is_embedded})}
    with Named(project, [job.named for job in jobs if job.named is not None]) as named:

        def run(lab: KataLab, job: Job) -> dict[str, Any]:
            successor = named.successor(job.named or "", asks_logprobs=job.asks_logprobs)
            if job.is_embedded:
                return execute(lab, job, successor)
            with RealPlace(project, job, slots, tasks[job.shard]) as place:
                return run_at(place, job, successor)

        return run_in_threads(
            run,
            jobs,
            data=project.root,
            sandbox=project.settings.sandbox,
            threads=min(MOST_THREADS, named.at_once),
            progress=progress,
            stop=lambda: named.halt("stopped, because another takeover could not go on; run again to go on from here"),
        )


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
    written: Mapping[tuple[str, str], str] = MappingProxyType({}),
    collect: Sequence[str] = (),
) -> Iterator[Start]:
    """Every start of a round in one shard of the embedded world, in a fixed order. ``evaluate``, ``collect``:
    successors that the settings name, to run as well, on test and on training points; they alone get the views that a
    model wrote (``written``), since policies read only what rules write."""
    given = {**views, **written}

    def start(point: Mapping[str, Any], view: str, arm: str, purpose: str, tier: str | None = None) -> Start:
        return _start(
            number, given if arm in evaluate or arm in collect else views, seed, point, view, arm, purpose, tier
        )

    for place, point in enumerate(chosen):
        split = point["split"]
        turn = (VIEWS[place % len(VIEWS)], VIEWS[(place + 2) % len(VIEWS)])
        for arm in collect if split == "train" else ():
            yield start(point, _turn(place, number), arm, "collect")
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


def plan_real(
    number: int,
    chosen: Sequence[Mapping[str, Any]],
    views: Mapping[tuple[str, str], str],
    seed: int,
    evaluate: Sequence[str],
    collect: Sequence[str] = (),
) -> Iterator[Start]:
    """Every start of a round at points of real repositories: who the settings name, on test points under the four
    views, and on training points under one of them, another in each round."""
    for place, point in enumerate(chosen):
        if point["split"] == "train":
            for arm in collect:
                yield _start(number, views, seed, point, _turn(place, number), arm, "collect")
        elif point["split"] == "test" and number > 0:
            for view in VIEWS:
                for arm in evaluate:
                    yield _start(number, views, seed, point, view, arm, "evaluate")


def _turn(place: int, number: int) -> str:
    """The view whose turn it is at a point in a round."""
    return VIEWS[(place + number) % len(VIEWS)]


def _start(
    number: int,
    views: Mapping[tuple[str, str], str],
    seed: int,
    point: Mapping[str, Any],
    view: str,
    arm: str,
    purpose: str,
    tier: str | None = None,
) -> Start:
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
    briefing, tree = briefing_at(handoffs, point, start.view, variant, start.view_id)
    policy = policies[start.arm] if start.arm in LEARNED else None
    settings = project.settings
    named = start.arm if start.arm in settings.successors else None
    budget = Budget(
        steps=settings.step_budget,
        prompt_tokens=settings.token_budget,
        dollars=settings.dollar_budget if named is not None and model_of(project, named) else None,
    )
    place = "" if is_embedded(point["repo"]) else handoffs.surroundings(point).digest
    if named is not None:
        digest = digest_of(project, named)
    else:
        digest = policy["policy_id"] if policy is not None else Roster.digest(start.arm)
    return Job(
        start=start,
        takeover_id=takeover_identity(
            start.point_id, start.view_id, start.variant_id, digest, start.seed, budget, place
        ),
        policy=None if policy is None else policy["path"],
        repo=point["repo"],
        base_commit=point["base_commit"],
        point_tree=point["tree"],
        tree=tree,
        briefing=briefing,
        question=question_of(point, handoffs, start.seed),
        suffix=handoffs.trajectory(point).steps[point["h"] :] if start.arm == "replay" else (),
        named=named,
        shard=point["shard"],
        task_id=point["task_id"],
        budget=budget,
        note_tokens=handoffs.note_tokens(start.view_id),
        data=project.root,
        noise=() if variant is None else noise_of(read_recipes(variant["parameters"])),
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
        views = view_ids(project.lake.rows("view_renderings", shard=shard))
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


def execute(lab: KataLab, job: Job, named: NamedSuccessor | None = None) -> dict[str, Any]:
    """Carry out one start in the embedded world: the row of ``takeover_runs``. ``named``: the job's successor, when
    the settings name it."""
    place = KataPlace(lab, job, _world(job.data), is_own=named is None)
    if named is not None:
        return run_at(place, job, named)
    successor = _roster(job.data).successor(
        job.start.arm,
        policy=job.policy,
        task=place.task,
        present=lambda: lab.files(job.tree),
        suffix=job.suffix,
        seed=job.start.seed,
    )
    return run_at(place, job, BranchedSuccessor(successor, job.forced) if job.forced else successor)


_VERDICT = ("solved", "tests_passed", "tests_total", "destroyed_fixes")
"""Columns that stay empty where a run was lost: what it left is not what it would have left."""


def run_at(place: Place, job: Job, successor: Successor | ActingSuccessor) -> dict[str, Any]:
    """The row of a job: its takeover, in ``place``, and what the judge there says of it.

    Beside the table's columns it has ``first_logprob``, which only a search reads.
    """
    takeover = run_takeover(
        takeover_id=job.takeover_id,
        briefing=job.briefing,
        successor=successor,
        environment=lambda: with_noise(place.environment(), job.noise),
        budget=job.budget,
        seed=job.start.seed,
        question=job.question,
        # A policy's answers cost nothing to have again.
        journal=Journal(job.data / "journal" / "takeovers", sync="never" if job.named is None else "paid"),
        note_tokens=job.note_tokens,
    )
    judged = dict.fromkeys(_VERDICT) if takeover.is_lost else place.judged(takeover)
    first = {"first_logprob": takeover.first_logprob}
    return {**takeover.columns(), **first, **msgspec.structs.asdict(job.start), **judged}
