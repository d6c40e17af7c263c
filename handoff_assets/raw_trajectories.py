"""``raw_trajectories``: files in the inbox, read into canonical trajectories, steps and quarantine."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets import progress
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.table import table
from resources.project import ProjectResource

READ = Summary(
    title="recorded runs",
    sql="""
        SELECT format, author, split, count(*) AS trajectories, sum(n_steps) AS steps,
               count(*) FILTER (WHERE resolved) AS resolved, count(DISTINCT repo) AS repositories
        FROM rows GROUP BY ALL ORDER BY format, author, split
    """,
    group="format",
    label="split",
    value="trajectories",
)
LOST = Summary(
    title="fields without a home, and those left out on purpose",
    table="sources",
    sql="""
        SELECT field, reason, sum(times) AS times, count(*) AS files
        FROM (SELECT loss.field AS field, coalesce(loss.reason, 'no home') AS reason, loss.count AS times
              FROM (SELECT unnest(losses) AS loss FROM rows))
        GROUP BY field, reason ORDER BY reason = 'no home' DESC, times DESC, field, reason
    """,
)
SET_ASIDE = Summary(
    title="quarantined records",
    table="quarantine",
    sql="SELECT file, record, field, problem, remedy FROM rows ORDER BY file, record",
)


@table("raw_trajectories", group="corpus", partitions=shards)
def raw_trajectories(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one recorded run of a coding agent, as its source tells it.

    Read from the files of one shard in the inbox. The tables `steps` (one row a model reply), `sources` (one row a
    file) and `quarantine` (one row a record that could not be used: file, record, field, remedy) are written with it.
    """
    from handoff.stages import corpus

    opened = project.open()
    written = corpus.raw_trajectories(opened, context.partition_key, progress.of(context))
    return materialized(opened, written, READ, SET_ASIDE, LOST, content=project.content(context.partition_key))
