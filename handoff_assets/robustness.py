"""``robustness``: how well each successor takes over, cell by cell."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.diagnostics import diagnostics
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds, same_round
from handoff_assets.table import table
from handoff_assets.takeover_runs import takeover_runs
from resources.project import ProjectResource

SCORES = Summary(
    title="handoff robustness, undisturbed test points",
    sql="""
        SELECT view, arm, max(value) FILTER (WHERE metric = 'hrs') AS hrs,
               max(low) FILTER (WHERE metric = 'hrs') AS low,
               max(high) FILTER (WHERE metric = 'hrs') AS high,
               max(value) FILTER (WHERE metric = 'solve_rate') AS solved,
               max(value) FILTER (WHERE metric = 'steps') AS steps,
               max(value) FILTER (WHERE metric = 'prompt_tokens') AS prompt_tokens,
               max(n_runs) AS runs, max(n_tasks) AS tasks
        FROM rows WHERE split = 'test' AND label = 'all' AND tier = 'none'
        GROUP BY view, arm ORDER BY view, arm
    """,
    group="view",
    label="arm",
    value="hrs",
    low="low",
    high="high",
)
CELLS = Summary(
    title="cells",
    sql="""
        SELECT split, tier, count(*) AS figures, count(value) AS with_value, max(n_runs) AS most_runs FROM rows
        GROUP BY ALL ORDER BY split, tier
    """,
)


@table(
    "robustness",
    group="diagnosis",
    partitions=rounds,
    upstream=[
        AssetDep(takeover_runs, partition_mapping=same_round),
        AssetDep(diagnostics, partition_mapping=same_round),
    ],
)
def robustness(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one figure of one cell: split × successor × view × point label × tier, with its 95 % interval.

    Intervals are bootstrapped by source task, since points of one task are not independent; rates carry Wilson
    intervals. The handoff robustness score (HRS) stands beside solve rate, steps and prompt tokens, because it
    rewards imitation, not success.
    """
    from handoff.stages import diagnosis

    opened = project.open()
    written = diagnosis.robustness(opened, context.partition_key)
    return materialized(opened, written, SCORES, CELLS)
