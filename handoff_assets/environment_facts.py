"""``environment_facts``: what runs show of the world outside their repository."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.raw_trajectories import raw_trajectories
from handoff_assets.table import table
from resources.project import ProjectResource

FACTS = Summary(
    title="facts by kind",
    sql="""
        SELECT kind, basis, count(*) AS facts, count(DISTINCT trajectory_id) AS trajectories,
               count(DISTINCT name) AS names, any_value(name ORDER BY trajectory_id, place) AS a_name
        FROM rows WHERE holds GROUP BY kind, basis ORDER BY kind, basis
    """,
    group="kind",
    label="basis",
    value="facts",
)


@table("environment_facts", group="corpus", partitions=shards, upstream=[raw_trajectories])
def environment_facts(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one fact about the world outside the repository that a recorded run shows.

    Packages, processes, the shell's folder, exported variables, files elsewhere, the system: `observed` where the
    recording shows it, `inferred` where it follows from a command that succeeded. A later row of the same kind and name
    replaces an earlier one; what has none is unknown. Secrets are masked. A row counts from the step `seen` on.
    """
    from handoff.stages import environment

    opened = project.open()
    written = environment.environment_facts(opened, context.partition_key)
    return materialized(opened, written, FACTS)
