"""``worst_points``: what handoff points cost the successor, and which is the worst of its run."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.injected_handoffs import injected_handoffs
from handoff_assets.keys import round_and_shard
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds_by_shard, same_shard
from handoff_assets.table import table
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource

WORST = Summary(
    title="worst points",
    sql="""
        SELECT how, 'step ' || h || ' of ' || n_steps AS point, coalesce(confirmed_cost, excess_cost) AS cost,
               coalesce(confirmed_low, low) AS low, coalesce(confirmed_high, high) AS high, n_runs, search_runs,
               uniform_runs, trajectory_id
        FROM rows WHERE is_worst ORDER BY how DESC, cost DESC, trajectory_id
    """,
    group="how",
    label="point",
    value="cost",
    low="low",
    high="high",
)


@table(
    "worst_points",
    group="adversary",
    partitions=rounds_by_shard,
    upstream=[AssetDep(injected_handoffs, partition_mapping=same_shard)],
)
def worst_points(
    context: AssetExecutionContext,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
    successor: SuccessorResource,
) -> MaterializeResult:
    """One row is one handoff point: what it costs the successor beyond the source run's own remainder.

    `measured`: by takeovers of the round before. `searched`: by successive halving, confirmed by fresh runs; only where
    `[worst_points]` in handoff.toml asks for it, since every candidate is executed. `handoff worst-point` does it for
    any run.
    """
    from handoff.stages import worst_points as stage

    opened = project.open(repositories, sandbox, successor)
    written = stage.worst_points(opened, *round_and_shard(context))
    return materialized(opened, written, WORST)
