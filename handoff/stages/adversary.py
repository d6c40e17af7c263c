"""``injected_handoffs`` → ``adversarial_variants``: the tiers of one round, each variant checked by execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from handoff.adversary import (
    TIERS,
    OracleCheck,
    Scene,
    Tier,
    Variant,
    apply_recipes,
    keeps_behaviour,
    make_variant,
    oracle_check,
    points_of,
    read_recipes,
    tree_changes,
    variant_row,
    worst_of,
)
from handoff.adversary.curriculum import allot
from handoff.adversary.kinds import PIN_FILES
from handoff.adversary.tiers import MEASURED
from handoff.identity import identify
from handoff.kata.lab import KataLab
from handoff.kata.pool import run_many
from handoff.kata.record import load_world
from handoff.lake import Written
from handoff.project import Project
from handoff.stages import inputs_of, is_executable, round_name, round_number
from handoff.stages.choosing import known_costs, next_shares
from handoff.stages.handoffs import Handoffs
from handoff.stages.judges import Judges
from handoff.successors import Briefing
from handoff.views import parse_view

PER_TIER = 14
"""Variants of one tier among held-out points, in one shard and round; of one task at most one."""
PER_TIER_TO_TRAIN = 6
"""The same among training points, where an expert shows how to take over from them: so many on average."""
_BESIDE = (".md", ".rst", ".txt", ".log", ".out")
MOST_BESIDE = 20
"""Documents and logs that the predecessor read, the last ones, which a disturbance may touch too."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A job: one variant of a task whose tests can run."""

    variant: Variant
    repo: str
    base_commit: str
    tree: str
    reference: dict[str, bytes | None]


def adversarial_variants(project: Project, round: str, shard: str) -> Written:
    """Disturb the points that fit each tier, and prove by execution that the task stays fair.

    Held-out points are as many in each tier; of training points each has the share that the round before decided.
    The first round has nobody to run on them and makes none.
    """
    upstream = [(table, {"shard": shard}) for table in ("injected_handoffs", "view_renderings")]
    upstream.append(("worst_points", {"round": round, "shard": shard}))
    if number := round_number(round):
        upstream.append(("tiers", {"round": round_name(number - 1)}))
    inputs = inputs_of("adversarial_variants", project.lake, *upstream, settings=(project.settings.seed, round))
    if current := project.lake.current("adversarial_variants", inputs=inputs, round=round, shard=shard):
        return current
    rows = _variant_rows(project, round, shard) if round_number(round) else ()
    return project.lake.write("adversarial_variants", rows, inputs=inputs, round=round, shard=shard)


def scene_of(handoffs: Handoffs, point: Mapping[str, Any], view: str, view_id: str = "") -> Scene:
    """One point under one view, as a disturbance sees it; ``view_id`` as for ``Handoffs.text``."""
    briefing = handoffs.briefing(point, view, view_id)
    reader = handoffs.reader(point)
    h = point["h"]
    evidence = handoffs.evidence(point)
    base: dict[str, bytes | None] = {}
    files: dict[str, bytes | None] = {}
    if reader is not None and reader.tree(h) is not None:
        documents = [read.path for read in evidence.reads if read.path.endswith(_BESIDE)][-MOST_BESIDE:]
        for path in dict.fromkeys((*reader.changed(h), *sorted(documents), *PIN_FILES)):
            now, before = reader.read(h, path), reader.read(0, path)
            if now is not None or before is not None:
                base[path], files[path] = before, now
    wanted = parse_view(view)
    steps = sorted({h * quarter // 4 for quarter in (1, 2, 3)} - {0, h}) if wanted.is_written else []
    return Scene(
        task=briefing.task,
        view=view,
        view_text=briefing.view_text,
        base=base,
        files=files,
        tools=briefing.tools,
        evidence=evidence,
        earlier=tuple((step, handoffs.text({**point, "h": step}, view)) for step in steps),
    )


def briefing_at(
    handoffs: Handoffs, point: Mapping[str, Any], view: str, variant: Mapping[str, Any] | None, view_id: str = ""
) -> tuple[Briefing, str]:
    """(what a successor is told, the tree it starts from) at a point, disturbed when a variant's row is given.

    ``view_id`` says who wrote the view (``Handoffs.text``).
    """
    briefing = handoffs.briefing(point, view, view_id)
    if variant is None:
        return briefing, point["tree"]
    after = apply_recipes(scene_of(handoffs, point, view, view_id), read_recipes(variant["parameters"]))
    told = msgspec.structs.replace(briefing, task=after.task, view_text=after.view_text, tools=after.tools)
    return told, variant["tree"]


def _variant_rows(project: Project, round: str, shard: str) -> Iterator[dict[str, Any]]:
    points = project.lake.rows("injected_handoffs", shard=shard)
    seed = project.settings.seed
    costs = known_costs(project.lake, round, shard)
    shares = next_shares(project.lake, round) or {tier.name: 1 / len(TIERS) for tier in TIERS}
    practised = allot(shares, PER_TIER_TO_TRAIN * len(TIERS), seed)
    with Handoffs(project, shard) as handoffs:
        made: list[tuple[Variant, Mapping[str, Any]]] = []
        for tier in TIERS:
            for point, known in _chosen(tier, points, f"{seed}/{round}", costs, practised.get(tier.name, 0)):
                variant = make_variant(point["point_id"], tier, scene_of(handoffs, point, tier.view), seed)
                if variant is not None:
                    made.append((msgspec.structs.replace(variant, worst_known=known), point))
        yield from checked_rows(project, handoffs, made)


def checked_rows(
    project: Project,
    handoffs: Handoffs,
    made: Sequence[tuple[Variant, Mapping[str, Any]]],
    judges: Judges | None = None,
) -> Iterator[dict[str, Any]]:
    """The row of each variant of a point, in order: checked by execution where tests can run, its tree written.

    ``judges``: of the points' shard, who run the tests of real tasks; without them these are not run.
    """
    for (variant, point), check in zip(made, _check(project, made, judges), strict=True):
        changes = tree_changes(variant.before, variant.after)
        tree = handoffs.repository(point).write_tree(point["tree"], changes) if changes else point["tree"]
        yield variant_row(variant, tree, check)


def _chosen(
    tier: Tier, points: list[dict[str, Any]], salt: str, costs: Mapping[str, tuple[float, str]], practised: int
) -> list[tuple[Mapping[str, Any], str | None]]:
    """One point a task, and how it is known to be the worst: that for a tier that takes any, else one drawn by hash.

    ``costs``: point → (excess cost, how it is known), where it is (``choosing.known_costs``).
    ``practised``: how many of training tasks.
    """
    by_task: dict[str, list[Mapping[str, Any]]] = {}
    for point in points_of(tier, points):
        by_task.setdefault(point["task_id"] or point["trajectory_id"], []).append(point)
    known = {point: cost for point, (cost, _) in costs.items()}
    chosen: list[tuple[Mapping[str, Any], str | None]] = []
    tasks = sorted(by_task)
    is_train = bool(tasks) and by_task[tasks[0]][0]["split"] == "train"
    for task in tasks[: practised if is_train else PER_TIER]:
        if tier.labels:
            chosen.append((min(by_task[task], key=lambda p: identify("i", salt, tier.name, p["point_id"])), None))
        elif worst := worst_of(by_task[task], known):
            point, how = worst
            chosen.append((point, costs[point["point_id"]][1] if how == MEASURED else how))
    return chosen


def _check(
    project: Project, made: Sequence[tuple[Variant, Mapping[str, Any]]], judges: Judges | None
) -> list[OracleCheck]:
    """The oracle check of each, executed where tests can run."""
    jobs: list[Check] = []
    world = load_world(project.root) if any(is_executable(point) for _, point in made) else None
    for variant, point in made:
        if world is not None and is_executable(point):
            task = world.task(point["repo"])
            # The whole solution: what the predecessor changed beside it is put back, as a successor could.
            solved: dict[str, bytes | None] = {path: text.encode() for path, text in task.reference.items()}
            reference = {**variant.before.base, **solved}
            jobs.append(
                Check(
                    variant=variant,
                    repo=point["repo"],
                    base_commit=point["base_commit"],
                    tree=point["tree"],
                    reference=reference,
                )
            )
    executed = run_many(
        check, jobs, data=project.root, sandbox=project.settings.sandbox, workers=project.settings.workers
    )
    return [
        next(executed) if is_executable(point) else _check_judged(variant, point, judges) for variant, point in made
    ]


def _check_judged(variant: Variant, point: Mapping[str, Any], judges: Judges | None) -> OracleCheck:
    """The check at a point of a real repository, by its task's own tests where somebody can run them."""
    if judges is None or point["tree"] is None:
        return oracle_check(variant.before, variant.after, None, None)
    where = (point["repo"], point["base_commit"], point["task_id"])
    solved = judges.reference(*where)

    def run_tests(changes: Mapping[str, bytes | None]) -> tuple[int, int] | None:
        verdict = judges.judge_changed(*where, point["tree"], changes).verdict
        return None if verdict.solved is None else (verdict.passed or 0, verdict.total or 0)

    return oracle_check(
        variant.before,
        variant.after,
        None if solved is None else {**variant.before.base, **solved},
        run_tests,
        keeps_behaviour=keeps_behaviour(variant.recipes),
    )


def check(lab: KataLab, job: Check) -> OracleCheck:
    """Run one check in a worker."""

    def run_tests(changes: Mapping[str, bytes | None]) -> tuple[int, int]:
        texts = {
            path: None if data is None else data.decode("utf-8", "surrogateescape") for path, data in changes.items()
        }
        verdict = lab.environment(job.repo, job.base_commit, job.tree, texts).verdict()
        return verdict.passed or 0, verdict.total or 0

    return oracle_check(
        job.variant.before,
        job.variant.after,
        job.reference,
        run_tests,
        keeps_behaviour=keeps_behaviour(job.variant.recipes),
    )
