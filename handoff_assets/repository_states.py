"""``repository_states``: what the repository looked like after every step."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.raw_trajectories import raw_trajectories
from handoff_assets.table import table
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource

VERIFICATION = Summary(
    title="states by verification",
    sql="""
        SELECT status, count(*) AS states, count(DISTINCT trajectory_id) AS trajectories,
               count(DISTINCT tree) AS distinct_trees, any_value(reason ORDER BY reason) AS a_reason
        FROM rows GROUP BY status ORDER BY status
    """,
    label="status",
    value="states",
)
VERDICTS = Summary(
    title="runs by verdict",
    table="state_verdicts",
    sql="""
        SELECT status, category, count(*) AS trajectories, count(*) FILTER (WHERE is_derivable) AS derivable,
               sum(checkpoints)::BIGINT AS checkpoints, sum(full_reads)::BIGINT AS full_reads,
               sum(len(recoveries))::BIGINT AS recovered, any_value(trajectory_id ORDER BY trajectory_id) AS for_example
        FROM rows GROUP BY status, category ORDER BY status, category
    """,
    group="status",
    label="category",
    value="trajectories",
)
DIVERGENT = Summary(
    title="divergent runs",
    table="state_verdicts",
    sql="""
        SELECT trajectory_id, repo, step, path, seen_at, hunk, reason FROM rows WHERE status = 'divergent'
        ORDER BY trajectory_id
    """,
)


@table("repository_states", group="corpus", partitions=shards, upstream=[raw_trajectories], kinds=("parquet", "git"))
def repository_states(
    context: AssetExecutionContext, project: ProjectResource, repositories: RepositoriesResource
) -> MaterializeResult:
    """One row is one state: the repository after one step of a recorded run, as a git tree; step 0 is the base.

    Rebuilt by replaying the recorded edits, once per shard. `verified` means that the replay reproduces the recorded
    final patch and every file the recording shows on the way; a run whose repository is not given is `unverifiable`,
    and the row says why. The table `state_verdicts` (one row a run) is written with it: the verdict and its reason, the
    first wrong step with file and hunk, how many texts of files agree, and what recovered a file that no text tells.
    """
    from handoff.stages import corpus

    opened = project.open(repositories)
    written = corpus.repository_states(opened, context.partition_key)
    return materialized(opened, written, VERIFICATION, VERDICTS, DIVERGENT)
