"""Where successors broke in a round, by label, view and disturbance: computed from the round's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handoff.diagnosis import robustness
from handoff.diagnosis.robustness import UNDISTURBED
from handoff.project import Project
from handoff.report.breaks import MEASURES, Breaking, break_table
from handoff.stages.diagnosis import YARDSTICKS, evaluated


def breaks(project: Project, round: str) -> tuple[Breaking, ...]:
    """Every cell of a round's evaluations on test points, reference successors left out."""
    lake = project.lake
    runs, measures = evaluated(lake, round)
    variants = {
        row["variant_id"]: _disturbance(row) for row in lake.rows("adversarial_variants", ["variant_id", "kinds"])
    }
    own = [
        {**run, "tier": variants.get(run["variant_id"], UNDISTURBED)} for run in runs if run["arm"] not in YARDSTICKS
    ]
    columns = ["point_id", "task_id", "trajectory_id", "labels", "split"]
    points = [row for row in lake.rows("injected_handoffs", columns) if row["split"] == "test"]
    wanted = {metric for metric, _, _, _ in MEASURES}
    rows = robustness(own, measures, points, seed=project.settings.seed)
    return break_table(row for row in rows if row["metric"] in wanted)


def _disturbance(variant: Mapping[str, Any]) -> str:
    return " + ".join(variant["kinds"]) or UNDISTURBED
