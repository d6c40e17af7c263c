"""``recorded_samples``: what the rest of recorded runs teaches."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.quality_signals import quality_signals
from handoff_assets.table import table
from handoff_assets.view_renderings import view_renderings
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource

KINDS = Summary(
    title="samples of recorded runs",
    sql="""
        SELECT kind, view, split, count(*) AS samples, count(DISTINCT task_id) AS tasks,
               sum(trained_tokens) AS trained_tokens, sum(env_tokens) AS env_tokens
        FROM rows GROUP BY ALL ORDER BY kind, view, split
    """,
    group="kind",
    label="view",
    value="samples",
)
FUNNEL = Summary(
    title="gates",
    table="recorded_funnel",
    sql="SELECT gate, verdict, count(*) AS points FROM rows GROUP BY ALL ORDER BY gate, verdict",
)


@table("recorded_samples", group="curation", partitions=shards, upstream=[view_renderings, quality_signals])
def recorded_samples(
    context: AssetExecutionContext, project: ProjectResource, repositories: RepositoriesResource
) -> MaterializeResult:
    """One row is one training sample made of the rest of a recorded run, with every gate's verdict.

    Nobody took over: what the recorded agent did after the point is what a successor should do. The run solved its task
    (`[recorded]` in handoff.toml admits others), and every action uses what the view tells or what was read since; else
    the sample is moved to a richer view or dropped, which the table `recorded_funnel` tells. Every export holds them,
    in files of their own. Runs of the embedded world give none: takeovers are executed there.
    """
    from handoff.stages import recorded

    opened = project.open(repositories)
    return materialized(opened, recorded.recorded_samples(opened, context.partition_key), KINDS, FUNNEL)
