"""``takeover_runs`` → ``diagnostics`` → ``robustness``: what each run shows, and what many show together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from handoff import actions
from handoff.coevolution import REFERENCES
from handoff.diagnosis import diagnose
from handoff.diagnosis import robustness as average
from handoff.diagnosis.cost import Cap
from handoff.lake import Lake, Written
from handoff.project import Project
from handoff.stages import inputs_of, round_number
from handoff.stages.handoffs import States
from handoff.takeover import read_transcript

YARDSTICKS = ("expert", "oracle", "resampled", "replay")
"""Reference successors: nothing that is trained changes them, so one round's runs serve the later ones."""


def diagnostics(project: Project, round: str, shard: str) -> Written:
    """All measures of every takeover of one round and shard."""
    upstream = [
        ("takeover_runs", {"round": round, "shard": shard}),
        ("adversarial_variants", {"round": round, "shard": shard}),
        ("injected_handoffs", {"shard": shard}),
    ]
    settings = (project.settings.step_budget, project.settings.token_budget)
    inputs = inputs_of("diagnostics", project.lake, *upstream, settings=settings)
    if current := project.lake.current("diagnostics", inputs=inputs, round=round, shard=shard):
        return current
    rows = _diagnostic_rows(project, round, shard)
    return project.lake.write("diagnostics", rows, inputs=inputs, round=round, shard=shard)


def _diagnostic_rows(project: Project, round: str, shard: str) -> Iterator[dict[str, Any]]:
    lake = project.lake
    runs = lake.rows("takeover_runs", round=round, shard=shard)
    points = {row["point_id"]: row for row in lake.rows("injected_handoffs", shard=shard)}
    variants = lake.rows("adversarial_variants", ["variant_id", "tree"], round=round, shard=shard)
    trees = {row["variant_id"]: row["tree"] for row in variants}
    cap = Cap(steps=project.settings.step_budget, prompt_tokens=project.settings.token_budget)
    with States(project, shard) as states:
        for run in runs:
            point = points[run["point_id"]]
            reader = states.of(point["trajectory_id"], point["repo"])
            yield from diagnose(
                point,
                run,
                actions.trajectory_keys(read_transcript(run["transcript"])),
                changed=None if reader is None else reader.changed(point["h"]),
                start_tree=trees.get(run["variant_id"]),
                cap=cap,
            )


def robustness(project: Project, round: str) -> Written:
    """Every cell of one round. The yardsticks come from the newest round that ran them."""
    lake = project.lake
    upstream = [
        (table, partition)
        for table in ("takeover_runs", "diagnostics")
        for partition in lake.partitions(table)
        if round_number(partition["round"]) <= round_number(round)
    ]
    upstream += [("injected_handoffs", partition) for partition in lake.partitions("injected_handoffs")]
    inputs = inputs_of("robustness", lake, *upstream, settings=project.settings.seed)
    if current := lake.current("robustness", inputs=inputs, round=round):
        return current
    runs, measures = evaluated(lake, round)
    columns = ["point_id", "task_id", "trajectory_id", "labels", "split"]
    rows = average(runs, measures, lake.rows("injected_handoffs", columns), seed=project.settings.seed)
    return lake.write("robustness", rows, inputs=inputs, round=round)


RUN_COLUMNS = (
    "takeover_id",
    "point_id",
    "variant_id",
    "arm",
    "view",
    "tier",
    "purpose",
    "solved",
    "steps",
    "prompt_tokens",
    "shard",
)


def evaluated(lake: Lake, round: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The runs that a round's figures rest on, and their measures."""
    runs = _evaluations(lake, round)
    seen = {(run["arm"], run["shard"]) for run in runs}
    for earlier in range(round_number(round) - 1, -1, -1):
        older = [
            run
            for run in _evaluations(lake, f"r{earlier:03d}")
            if run["arm"] in YARDSTICKS and (run["arm"], run["shard"]) not in seen
        ]
        runs += older
        seen |= {(run["arm"], run["shard"]) for run in older}
    known = {run["takeover_id"] for run in runs}
    rounds = sorted({run["round"] for run in runs})
    measures = [row for name in rounds for row in lake.rows("diagnostics", round=name) if row["takeover_id"] in known]
    return runs, measures


def _evaluations(lake: Lake, round: str) -> list[dict[str, Any]]:
    return lake.rows("takeover_runs", [*RUN_COLUMNS, "round"], pc.field("purpose") == "evaluate", round=round)


assert set(YARDSTICKS) <= REFERENCES
