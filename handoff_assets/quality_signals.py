"""``quality_signals``: what is worth knowing about every step of a recorded run."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.raw_trajectories import raw_trajectories
from handoff_assets.table import table
from resources.project import ProjectResource

SIGNALS = Summary(
    title="steps by signal",
    sql="""
        SELECT signal, rule, count(*) AS steps, count(DISTINCT trajectory_id) AS trajectories,
               any_value(reason ORDER BY trajectory_id, step) AS a_reason
        FROM rows GROUP BY signal, rule ORDER BY signal, rule
    """,
    group="signal",
    label="rule",
    value="steps",
)
LEAKED = Summary(
    title="leaked runs",
    table="run_quality",
    sql="""
        SELECT trajectory_id, leak_step, leak FROM rows WHERE leak_step IS NOT NULL ORDER BY trajectory_id
    """,
)
FAILED = Summary(
    title="failed runs by category",
    table="run_quality",
    sql="""
        SELECT failure.category AS category, count(*) AS trajectories
        FROM (SELECT unnest(failures) AS failure FROM rows) GROUP BY category ORDER BY category
    """,
)


@table("quality_signals", group="corpus", partitions=shards, upstream=[raw_trajectories])
def quality_signals(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one signal of one step of a recorded run, with the steps that show it.

    Redundant, useless, expired or unused; a loop, a failed call, an answer not heeded; a risky command; a look at
    history beyond the base commit. The table `run_quality` (one row a run) is written with it: counts, how the run used
    what its tools answered, whether it is leaked, and why it failed. Signals never reach a view or a successor.
    """
    from handoff.stages import quality

    opened = project.open()
    written = quality.quality_signals(opened, context.partition_key)
    return materialized(opened, written, SIGNALS, LEAKED, FAILED)
