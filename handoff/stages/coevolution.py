"""``curated_training_set`` → ``policy`` → ``round_report``: what a round teaches, and what it showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from handoff import corpus
from handoff.diagnosis.contrast import Contrast, contrast
from handoff.diagnosis.robustness import task_of
from handoff.git.repositories import Repository
from handoff.identity import canonical_json
from handoff.kata import arms
from handoff.kata.policy import Demonstration, Lesson, Policy
from handoff.kata.pool import run_many
from handoff.kata.prior import Prior
from handoff.kata.record import EXPERT, SCRIPTED, prior_path
from handoff.lake import Lake, Written, write_file
from handoff.points import ALL as LABELS
from handoff.project import TAKEN_NAMES, Project
from handoff.report.breaks import curves, worst_steps
from handoff.report.page import Handoff, Report, render_report
from handoff.report.tables import VIEWS, Line, contrast_table, count_by, takeover_table
from handoff.stages import inputs_of, is_executable, round_number
from handoff.stages.adversary import briefing_at
from handoff.stages.breaks import breaks
from handoff.stages.diagnosis import evaluated
from handoff.stages.handoffs import Handoffs, is_by_rule
from handoff.stages.takeovers import execute, trial_jobs
from handoff.takeover import read_transcript

CONTRASTS = (("E", "A"), ("E", "B"), ("E", "A+opening"), ("A+opening", "A"))
"""The pairs that a claim rests on (docs/science.md §13)."""
CONTRASTED = ("steps", "prompt_tokens", "solve_rate", "hrs", "si_f1", "destroyed_fixes")
SHOWN_HANDOFFS = 3


# -- policies -----------------------------------------------------------------------------------


def policy(project: Project, round: str) -> Written:
    """Train the arms: A on single sessions, E on this round's curated takeovers, B on as many single-session labels.

    B's mix is the one that does best on validation points under the repository view; its trials are run for real.
    """
    lake = project.lake
    shards = _kata_shards(lake)
    upstream = [("curated_training_set", {"round": round})]
    for table in ("raw_trajectories", "steps", "injected_handoffs"):
        upstream += [(table, {"shard": shard}) for shard in shards]
    settings = (project.settings.seed, project.settings.step_budget, project.settings.token_budget)
    inputs = inputs_of("policy", lake, *upstream, settings=settings)
    current = lake.current("policy", inputs=inputs, round=round)
    if current and all((project.policies / row["path"]).exists() for row in lake.rows("policy", ["path"], round=round)):
        return current
    rows = list(_train(project, round, shards)) if shards else []
    return lake.write("policy", rows, inputs=inputs, round=round)


def _train(project: Project, round: str, shards: Sequence[str]) -> Iterator[dict[str, Any]]:
    prior = Prior.load(prior_path(project.root))
    seed = project.settings.seed
    recorded = [t for shard in shards for _, t in corpus.trajectories(project.lake, shard)]
    sessions = arms.read_lessons(arms.single_sessions(recorded, SCRIPTED), prior)
    expert = arms.read_lessons(arms.single_sessions(recorded, EXPERT), prior)
    takeovers = arms.read_lessons(_takeovers(project, round), prior)
    a = arms.train_arm("A", sessions=sessions, prior=prior, seed=seed)
    yield _saved(project, "A", a, sessions, 1.0, seed, {})
    yield _saved(project, "A+opening", a.with_opening(), sessions, 1.0, seed, {})
    if not takeovers or not expert:  # nothing to learn a takeover from: the other arms cannot be had
        return
    # B and E get the same number of the expert's decisions: as many as the scarcer kind has.
    labels = min(sum(lesson.labels for lesson in own) for own in (expert, takeovers))
    expert, takeovers = (arms.cut(own, labels, seed) for own in (expert, takeovers))
    trials: dict[float, Policy] = {
        mix: arms.train_arm(
            "B", sessions=sessions, expert_sessions=expert, takeovers=takeovers, prior=prior, seed=seed, mix=mix
        )
        for mix in arms.MIXES
    }
    scores = _try_mixes(project, trials)
    best = max(arms.MIXES, key=lambda mix: (*scores[mix], -mix))
    detail = {"mixes": {f"{mix:g}": {"solved": s, "steps": -c} for mix, (s, c) in scores.items()}}
    yield _saved(project, "B", trials[best], [*sessions, *expert], 1 - best, seed, detail)
    e = arms.train_arm("E", sessions=sessions, takeovers=takeovers, prior=prior, seed=seed)
    yield _saved(project, "E", e, [*sessions, *takeovers], 1 - arms.HANDOFF_SHARE, seed, {})


def _kata_shards(lake: Lake) -> list[str]:
    """Shards with recordings of the embedded world: the only ones whose policy is trained here."""
    found = []
    for partition in lake.partitions("raw_trajectories"):
        agents = lake.read("raw_trajectories", ["agent"], None, **partition)["agent"].unique().to_pylist()
        if {SCRIPTED, EXPERT} & set(agents):
            found.append(partition["shard"])
    return found


def _takeovers(project: Project, round: str) -> Iterator[Demonstration]:
    """The curated takeovers as demonstrations, with the truth about files at their start."""
    lake = project.lake
    wanted = {
        r["takeover_id"]
        for r in lake.rows("curated_training_set", ["kind", "takeover_id", "basis"], round=round)
        if r["kind"] == "sft" and r["basis"] == "solved"
    }
    runs: dict[str, dict[str, Any]] = {}
    chosen = pc.field("takeover_id").isin(pa.array(sorted(wanted), pa.string()))
    for row in lake.rows("takeover_runs", where=chosen):
        if row["arm"] in TAKEN_NAMES:  # models on endpoints act otherwise, and elsewhere
            runs[row["takeover_id"]] = row
    for shard in sorted({run["shard"] for run in runs.values()}):
        points = {p["point_id"]: p for p in lake.rows("injected_handoffs", shard=shard)}
        variants = {v["variant_id"]: v for v in lake.rows("adversarial_variants", shard=shard)}
        with Handoffs(project, shard) as handoffs:
            for id_ in sorted(runs):
                run = runs[id_]
                if run["shard"] != shard:
                    continue
                point = points[run["point_id"]]
                repository = handoffs.repository(point)
                briefing, tree = briefing_at(handoffs, point, run["view"], variants.get(run["variant_id"]))
                yield arms.takeover(
                    briefing,
                    read_transcript(run["transcript"]),
                    base=_texts(repository, repository.tree_of(point["base_commit"])),
                    present=_texts(repository, tree),
                    final=_texts(repository, run["final_tree"]),
                )


def _texts(repository: Repository, tree: str) -> dict[str, str]:
    return {
        path: (repository.read(tree, path) or b"").decode("utf-8", "surrogateescape") for path in repository.files(tree)
    }


def _try_mixes(project: Project, trials: Mapping[float, Policy]) -> dict[float, tuple[float, float]]:
    """Mix → (solve rate, −mean steps) on validation points under the repository view."""
    saved = {mix: _save(project, trial) for mix, trial in trials.items()}
    jobs = [(mix, job) for mix, path in saved.items() for job in trial_jobs(project, path, trials[mix].digest)]
    runs = run_many(
        execute,
        [job for _, job in jobs],
        data=project.root,
        sandbox=project.settings.sandbox,
        workers=project.settings.workers,
    )
    found: dict[float, list[tuple[bool, int]]] = {mix: [] for mix in trials}
    for (mix, _), run in zip(jobs, runs, strict=True):
        found[mix].append((run["solved"] is True, run["steps"]))
    return {
        mix: (sum(s for s, _ in own) / len(own), -sum(n for _, n in own) / len(own)) if own else (0.0, 0.0)
        for mix, own in found.items()
    }


def _save(project: Project, trained: Policy) -> str:
    path = f"{trained.digest}.json"
    trained.save(project.policies / path)
    return path


def _saved(
    project: Project,
    arm: str,
    trained: Policy,
    lessons: Sequence[Lesson],
    mix: float | None,
    seed: int,
    detail: Mapping[str, object],
) -> dict[str, Any]:
    loss, accuracy = trained.evaluate(lessons)
    return {
        "policy_id": trained.digest,
        "arm": arm,
        "path": _save(project, trained),
        "n_demonstrations": len(lessons),
        "n_labels": sum(lesson.labels for lesson in lessons),
        "mix": mix,
        "seed": seed,
        "train_loss": loss,
        "train_accuracy": accuracy,
        "detail": canonical_json(detail).decode(),
    }


# -- report -------------------------------------------------------------------------------------


def round_report(project: Project, round: str) -> Written:
    """Write the round's page and its summary."""
    lake = project.lake
    tables = ("robustness", "tiers", "curated_training_set", "curation_funnel", "exports", "policy")
    upstream = [(table, {"round": round}) for table in tables]
    for table in ("adversarial_variants", "worst_points"):
        upstream += [(table, p) for p in lake.partitions(table) if p["round"] == round]
    inputs = inputs_of("round_report", lake, *upstream, settings=project.settings.seed)
    page = project.reports / round / "index.html"
    current = lake.current("round_report", inputs=inputs, round=round)
    if current and page.exists():
        return current
    contrasts = list(contrasts_of(project, round))
    write_file(page, render_report(_report(project, round, contrasts)).encode("utf-8", "replace"))
    summary = {
        "contrasts": contrasts,
        "curated": {
            kind: n for (kind,), n in count_by(lake.rows("curated_training_set", ["kind"], round=round), "kind")
        },
    }
    row = {
        "round": round_number(round),
        "path": f"{round}/index.html",
        "summary": canonical_json(msgspec.to_builtins(summary)).decode(),
    }
    return lake.write("round_report", [row], inputs=inputs, round=round)


def contrasts_of(project: Project, round: str) -> Iterator[Contrast]:
    """Arm against arm on held-out test points, undisturbed, under every view."""
    lake = project.lake
    runs, measures = evaluated(lake, round)
    points = {
        row["point_id"]: row
        for row in lake.rows("injected_handoffs", ["point_id", "task_id", "trajectory_id", "split"])
    }
    wanted = {
        run["takeover_id"]: run for run in runs if run["tier"] is None and points[run["point_id"]]["split"] == "test"
    }
    values = [
        {**_where(run, points), "metric": metric, "value": value}
        for run in wanted.values()
        for metric, value in (
            ("steps", run["steps"]),
            ("prompt_tokens", run["prompt_tokens"]),
            ("solve_rate", None if run["solved"] is None else float(run["solved"])),
        )
    ]
    values += [
        {**_where(wanted[row["takeover_id"]], points), "metric": row["metric"], "value": row["value"]}
        for row in measures
        if row["takeover_id"] in wanted and row["metric"] in CONTRASTED
    ]
    present = {(run["arm"], run["view"]) for run in wanted.values()}
    for view in VIEWS:
        for arm, other in CONTRASTS:
            if (arm, view) in present and (other, view) in present:
                for metric in CONTRASTED:
                    yield contrast(values, arm, other, view=view, metric=metric, seed=project.settings.seed)


def _where(run: Mapping[str, Any], points: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "arm": run["arm"],
        "view": run["view"],
        "point_id": run["point_id"],
        "task": task_of(points[run["point_id"]]),
    }


def _report(project: Project, round: str, contrasts: Sequence[Contrast]) -> Report:
    lake = project.lake
    rows = lake.rows("robustness", round=round)
    worst = lake.rows("worst_points", round=round)
    labels = [label for found in lake.rows("injected_handoffs", ["labels"]) for label in found["labels"]]
    curated = lake.rows("curated_training_set", ["kind", "view", "trained_tokens"], round=round)
    tokens: dict[tuple[str, str], int] = {}
    for row in curated:
        key = (row["kind"], row["view"] or "–")
        tokens[key] = tokens.get(key, 0) + (row["trained_tokens"] or 0)
    variants = [
        {"kinds": " + ".join(row["kinds"]) or "none", "oracle": row["oracle"]}
        for row in lake.rows("adversarial_variants", ["kinds", "oracle"], round=round)
    ]
    return Report(
        round=round,
        seed=project.settings.seed,
        sandbox=project.settings.sandbox,
        corpus=tuple((table, lake.count(table)) for table in ("sources", "raw_trajectories", "steps", "quarantine")),
        labels=tuple((label, labels.count(label)) for label in LABELS),
        states=tuple((status, n) for (status,), n in count_by(_last_states(lake), "status")),
        lines=takeover_table(rows),
        tiers=_tier_lines(rows),
        tier_order=tuple(
            row for row in lake.rows("tiers", round=round) if row["split"] == "test" or row["next_share"] is not None
        ),
        curated=tuple((kind, view, n, tokens[kind, view]) for (kind, view), n in count_by(curated, "kind", "view")),
        funnel=tuple(
            (gate, verdict, n)
            for (gate, verdict), n in count_by(lake.rows("curation_funnel", round=round), "gate", "verdict")
        ),
        quarantine=tuple(lake.rows("quarantine", ["file", "record", "field", "problem", "remedy"])[:200]),
        variants=tuple((kinds, oracle, n) for (kinds, oracle), n in count_by(variants, "kinds", "oracle")),
        policies=tuple(lake.rows("policy", round=round)),
        exports=tuple(lake.rows("exports", ["path", "format", "rows"], round=round)),
        handoffs=tuple(_handoffs(project)),
        contrasts=contrast_table(contrasts),
        breaks=breaks(project, round),
        worst_steps=worst_steps(worst),
        curves=curves(worst),
    )


def _last_states(lake: Lake) -> list[dict[str, Any]]:
    last: dict[str, dict[str, Any]] = {}
    for row in lake.rows("repository_states", ["trajectory_id", "status"]):
        last[row["trajectory_id"]] = row
    return list(last.values())


def _tier_lines(rows: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    lines = []
    for tier in ("easy", "medium", "hard", "extreme"):
        for line in takeover_table(rows, tier=tier):
            lines.append(msgspec.structs.replace(line, arm=f"{line.arm} · {tier}"))
    return tuple(lines)


def _handoffs(project: Project) -> Iterator[Handoff]:
    """A few test points in full, one a label, the first by id that can be executed."""
    points = project.lake.rows("injected_handoffs", where=pc.field("split") == "test")
    shown: set[str] = set()
    for label in ("error", "milestone", "intermediate"):
        fitting = [p for p in points if label in p["labels"] and is_executable(p) and p["point_id"] not in shown]
        if not fitting or len(shown) == SHOWN_HANDOFFS:
            continue
        point = min(fitting, key=lambda p: p["point_id"])
        shown.add(point["point_id"])
        rows = project.lake.rows(
            "view_renderings", ["view", "tokens", "writing"], pc.field("point_id") == point["point_id"]
        )
        tokens = {row["view"]: row["tokens"] for row in rows if is_by_rule(row)}
        with Handoffs(project, point["shard"]) as handoffs:
            yield Handoff(
                point_id=point["point_id"],
                task_id=point["task_id"] or "unnamed task",
                h=point["h"],
                n_steps=point["n_steps"],
                labels=tuple(point["labels"]),
                state_status=point["state_status"],
                views=tuple((view, tokens[view], handoffs.text(point, view)) for view in VIEWS),
            )
