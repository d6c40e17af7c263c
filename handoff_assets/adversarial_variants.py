"""``adversarial_variants``: handoff points made harder on purpose."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.injected_handoffs import injected_handoffs
from handoff_assets.keys import round_and_shard
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds_by_shard, same_shard
from handoff_assets.table import table
from handoff_assets.view_renderings import view_renderings
from handoff_assets.worst_points import worst_points
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource

TIERS = Summary(
    title="variants by tier",
    sql="""
        SELECT tier, array_to_string(kinds, ' + ') AS disturbance, oracle, count(*) AS variants,
               count(DISTINCT point_id) AS points
        FROM rows GROUP BY ALL ORDER BY tier, disturbance, oracle
    """,
    group="tier",
    label="disturbance",
    value="variants",
)


@table(
    "adversarial_variants",
    group="adversary",
    partitions=rounds_by_shard,
    upstream=[
        AssetDep(injected_handoffs, partition_mapping=same_shard),
        AssetDep(view_renderings, partition_mapping=same_shard),
        worst_points,
    ],
)
def adversarial_variants(
    context: AssetExecutionContext,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
    successor: SuccessorResource,
) -> MaterializeResult:
    """One row is one disturbed handoff point: notes lost, an edit silently reverted, a statement thinned out.

    A disturbance is a recipe (kind, parameters, seed). It must leave the task solvable: where tests can run,
    the reference solution is executed on the disturbed state and the result kept as `oracle`.
    """
    from handoff.stages import adversary

    opened = project.open(repositories, sandbox, successor)
    written = adversary.adversarial_variants(opened, *round_and_shard(context))
    return materialized(opened, written, TIERS)
