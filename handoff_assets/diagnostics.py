"""``diagnostics``: what each takeover shows about the handoff."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.injected_handoffs import injected_handoffs
from handoff_assets.keys import round_and_shard
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds_by_shard, same_shard
from handoff_assets.table import table
from handoff_assets.takeover_runs import takeover_runs
from resources.project import ProjectResource
from resources.successor import SuccessorResource

MEASURES = Summary(
    title="mean of each measure",
    sql="""
        SELECT metric, avg(value) AS mean, count(value) AS with_value, count(*) - count(value) AS without,
               mode(reason) FILTER (WHERE value IS NULL) AS usual_reason
        FROM rows GROUP BY metric ORDER BY metric
    """,
)


@table(
    "diagnostics",
    group="diagnosis",
    partitions=rounds_by_shard,
    upstream=[takeover_runs, AssetDep(injected_handoffs, partition_mapping=same_shard)],
)
def diagnostics(
    context: AssetExecutionContext, project: ProjectResource, successor: SuccessorResource
) -> MaterializeResult:
    """One row is one measure of one takeover: value, numerator, denominator, and the reason when there is no value.

    Context reconstruction (E_CR), state inference (P_SI, precision, F1), plan continuation (P_PC), robustness
    (HRS), excess cost and the failure signals beside them. Formulas: docs/science.md §5–§9.
    """
    from handoff.stages import diagnosis

    opened = project.open(successor)
    written = diagnosis.diagnostics(opened, *round_and_shard(context))
    return materialized(opened, written, MEASURES)
