"""``round_report``: one page per round, and its entry in the experiment tracker."""

from dagster import AssetExecutionContext, MaterializeResult, MetadataValue

from handoff_assets.curated_training_set import curated_training_set
from handoff_assets.exports import exports
from handoff_assets.metadata import materialized
from handoff_assets.partitions import rounds
from handoff_assets.policy import policy
from handoff_assets.robustness import robustness
from handoff_assets.table import table
from handoff_assets.tiers import tiers
from resources.project import ProjectResource
from resources.tracking import TrackingResource


@table(
    "round_report",
    group="coevolution",
    partitions=rounds,
    upstream=[robustness, tiers, curated_training_set, exports, policy],
    kinds=("parquet", "mlflow"),
)
def round_report(
    context: AssetExecutionContext, project: ProjectResource, tracking: TrackingResource
) -> MaterializeResult:
    """One row is one round: its report, a self-contained HTML page, and its summary in figures.

    The round is also logged to MLflow, once. When the tracker cannot be reached the entry waits in the journal
    and is sent with a later round; the round itself does not fail.
    """
    from handoff.report.breaks import HEADINGS, as_rows, shown
    from handoff.report.tables import markdown
    from handoff.stages import coevolution
    from handoff.stages.breaks import breaks

    opened = project.open()
    written = coevolution.round_report(opened, context.partition_key)
    logged = tracking.record(opened, context.partition_key)
    page = opened.reports / context.partition_key / "index.html"
    broken = markdown(HEADINGS, as_rows(shown(breaks(opened, context.partition_key), True)))
    return materialized(
        opened,
        written,
        report=MetadataValue.path(str(page)),
        tracking=logged,
        **{"where successors break": MetadataValue.md(broken)},
    )
