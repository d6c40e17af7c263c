"""``tiers``: what each tier is worth, and what the next round practises."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.adversarial_variants import adversarial_variants
from handoff_assets.diagnostics import diagnostics
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds, same_round
from handoff_assets.table import table
from handoff_assets.takeover_runs import takeover_runs
from resources.project import ProjectResource

TIERS = Summary(
    title="robustness by tier, test points",
    sql="""
        SELECT arm, tier, hrs, hrs_low AS low, hrs_high AS high, solve_rate, excess_cost, "order", why, worst_known,
               n_runs, n_tasks
        FROM rows WHERE split = 'test'
        ORDER BY arm, list_position(['easy', 'medium', 'hard', 'extreme'], tier)
    """,
    group="arm",
    label="tier",
    value="hrs",
    low="low",
    high="high",
)
NEXT = Summary(
    title="practice of the next round, from validation points",
    sql="""
        SELECT arm, tier, next_share AS share, next_why AS why FROM rows WHERE next_share IS NOT NULL
        ORDER BY arm, list_position(['easy', 'medium', 'hard', 'extreme'], tier)
    """,
    group="arm",
    label="tier",
    value="share",
)


@table(
    "tiers",
    group="adversary",
    partitions=rounds,
    upstream=[
        AssetDep(adversarial_variants, partition_mapping=same_round),
        AssetDep(takeover_runs, partition_mapping=same_round),
        AssetDep(diagnostics, partition_mapping=same_round),
    ],
)
def tiers(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one tier for one successor and split: its scores, and whether it is harder than the tier before.

    `order` says what was measured and takes nothing for granted; `why` takes the difference of HRS apart. On validation
    points `next_share` is the tier's part of the disturbed training points of the next round. `handoff tiers` runs more
    points, where a round has too few to tell.
    """
    from handoff.stages import tiers as stage

    opened = project.open()
    return materialized(opened, stage.tiers(opened, context.partition_key), TIERS, NEXT)
