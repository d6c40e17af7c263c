"""``curated_training_set``: what is worth training on, and why."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.diagnostics import diagnostics
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds, same_round
from handoff_assets.robustness import robustness
from handoff_assets.salvaged import salvaged
from handoff_assets.table import table
from handoff_assets.takeover_runs import takeover_runs
from resources.project import ProjectResource

KINDS = Summary(
    title="curated samples",
    sql="""
        SELECT kind, basis, view, split, count(*) AS samples, count(DISTINCT task_id) AS tasks,
               sum(trained_tokens) AS trained_tokens, sum(env_tokens) AS env_tokens
        FROM rows GROUP BY ALL ORDER BY kind, basis, view, split
    """,
    group="kind",
    label="view",
    value="samples",
)
FUNNEL = Summary(
    title="gates",
    table="curation_funnel",
    sql="SELECT gate, verdict, count(*) AS candidates FROM rows GROUP BY ALL ORDER BY gate, verdict",
)


@table(
    "curated_training_set",
    group="curation",
    partitions=rounds,
    upstream=[
        AssetDep(takeover_runs, partition_mapping=same_round),
        AssetDep(diagnostics, partition_mapping=same_round),
        AssetDep(salvaged, partition_mapping=same_round),
        robustness,
    ],
)
def curated_training_set(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one training sample, with every gate's verdict and the reason it was chosen.

    Candidates are takeovers that solved their task at a fair price; secrets are replaced, actions that use what
    the successor could not have known are repaired, moved to a richer view or dropped. What was dropped is in
    the table `curation_funnel`. `basis` tells samples of failed or recorded runs (`salvaged`) from solved ones.
    """
    from handoff.stages import curation

    opened = project.open()
    written = curation.curated_training_set(opened, context.partition_key)
    return materialized(opened, written, KINDS, FUNNEL)
