"""``corpus_report``: how far the repository states of the whole corpus can be trusted."""

from dagster import AssetExecutionContext, MaterializeResult, MetadataValue

from handoff_assets.metadata import Summary, materialized
from handoff_assets.repository_states import repository_states
from handoff_assets.table import table
from resources.project import ProjectResource

VERDICTS = Summary(
    title="runs by verdict",
    sql="""
        SELECT format, status, sum(trajectories)::BIGINT AS trajectories, sum(derivable)::BIGINT AS derivable,
               sum(checkpoints)::BIGINT AS checkpoints, sum(full_reads)::BIGINT AS full_reads,
               sum(recovered_by_read + recovered_by_diff + recovered_by_patch + recovered_by_rerun)::BIGINT AS recovered
        FROM rows GROUP BY format, status ORDER BY format, status
    """,
    group="format",
    label="status",
    value="trajectories",
)
REASONS = Summary(
    title="why",
    sql="""
        SELECT status, category, sum(trajectories)::BIGINT AS trajectories, count(DISTINCT repo) AS repositories,
               any_value(trajectory_id ORDER BY trajectory_id) AS for_example,
               any_value(reason ORDER BY trajectory_id) AS its_reason
        FROM rows GROUP BY status, category ORDER BY trajectories DESC, status, category
    """,
)
MISSING = Summary(
    title="what is missing",
    sql="""
        SELECT repo, category, sum(trajectories)::BIGINT AS trajectories,
               any_value(reason ORDER BY trajectory_id) AS a_reason
        FROM rows WHERE category IN ('no_repository', 'no_base')
        GROUP BY repo, category ORDER BY trajectories DESC, repo NULLS LAST, category
    """,
)


@table("corpus_report", group="corpus", partitions=None, upstream=[repository_states])
def corpus_report(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one line of the corpus report: the verdicts of one format, repository, status and reason.

    Counted over all shards; the page beside it names the worst runs with step, file and hunk, and says which
    repositories would have to be mapped. Made anew when the verdicts of any shard have changed.
    """
    from handoff.stages import corpus_report as stage

    opened = project.open()
    written = stage.corpus_report(opened)
    page = stage.page_of(opened)
    return materialized(opened, written, VERDICTS, REASONS, MISSING, report=MetadataValue.path(str(page)))
