"""Everything Dagster loads: assets, checks, jobs, sensors, schedule, resources. Only assembled here."""

from pathlib import Path

from dagster import Definitions, in_process_executor

from handoff_assets.adversarial_variants import adversarial_variants
from handoff_assets.checks import checks
from handoff_assets.corpus_report import corpus_report
from handoff_assets.curated_training_set import curated_training_set
from handoff_assets.diagnostics import diagnostics
from handoff_assets.environment_facts import environment_facts
from handoff_assets.export_check import lint_check
from handoff_assets.exports import exports
from handoff_assets.handoff_debt import handoff_debt
from handoff_assets.handoff_tax import handoff_tax
from handoff_assets.injected_handoffs import injected_handoffs
from handoff_assets.jobs import jobs
from handoff_assets.policy import policy
from handoff_assets.quality_signals import quality_signals
from handoff_assets.raw_trajectories import raw_trajectories
from handoff_assets.recorded_samples import recorded_samples
from handoff_assets.repository_states import repository_states
from handoff_assets.robustness import robustness
from handoff_assets.round_report import round_report
from handoff_assets.salvaged import salvaged
from handoff_assets.takeover_runs import takeover_runs
from handoff_assets.tiers import tiers
from handoff_assets.view_renderings import view_renderings
from handoff_assets.worst_points import worst_points
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource
from resources.tracking import TrackingResource
from resources.writer import WriterResource
from sensors.corpus_report import corpus_report_sensor
from sensors.drift import drift_sensor
from sensors.new_corpus import new_corpus_sensor
from sensors.schedules import close_round_sensor, round_schedule

ASSETS = (
    raw_trajectories,
    environment_facts,
    repository_states,
    quality_signals,
    injected_handoffs,
    view_renderings,
    recorded_samples,
    worst_points,
    adversarial_variants,
    takeover_runs,
    diagnostics,
    salvaged,
    robustness,
    tiers,
    curated_training_set,
    exports,
    policy,
    round_report,
    corpus_report,
    handoff_debt,
    handoff_tax,
)


def assemble(root: Path | None = None, tracking: TrackingResource | None = None) -> Definitions:
    """The definitions over one data folder; ``None`` for ``$HANDOFF_DATA``, or ``data/`` beside the code."""
    return Definitions(
        assets=ASSETS,
        asset_checks=[*checks, lint_check],
        jobs=jobs,
        sensors=[new_corpus_sensor, corpus_report_sensor, close_round_sensor, drift_sensor],
        schedules=[round_schedule],
        resources={
            "project": ProjectResource(root=str(root) if root else None),
            "repositories": RepositoriesResource(),
            "sandbox": SandboxResource(),
            "successor": SuccessorResource(),
            "writer": WriterResource(),
            "tracking": tracking or TrackingResource(),
        },
        # Stages are few and coarse, and start their own workers: a process per step would only add imports.
        executor=in_process_executor,
    )


defs = assemble()
