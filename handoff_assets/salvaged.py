"""``salvaged``: what runs give beside their solves."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.diagnostics import diagnostics
from handoff_assets.keys import round_and_shard
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds_by_shard
from handoff_assets.table import table
from handoff_assets.takeover_runs import takeover_runs
from resources.project import ProjectResource
from resources.sandbox import SandboxResource

SALVAGED = Summary(
    title="what was salvaged",
    sql="""
        SELECT basis, verdict, count(*) AS rows, sum(len(goals)) AS goals_reached,
               mean(last_step - first_step + 1) AS steps
        FROM rows GROUP BY ALL ORDER BY basis, verdict
    """,
)
REASONS = Summary(
    title="why others were not",
    sql="""
        SELECT basis, reason, count(*) AS rows FROM rows WHERE verdict = 'dropped'
        GROUP BY ALL ORDER BY rows DESC, reason
    """,
)


@table(
    "salvaged",
    group="curation",
    partitions=rounds_by_shard,
    upstream=[takeover_runs, diagnostics],
)
def salvaged(context: AssetExecutionContext, project: ProjectResource, sandbox: SandboxResource) -> MaterializeResult:
    """One row is one failed takeover that was looked at again, or one way out of a wrong turn of a recorded run.

    `relabelled`: its tests were run again on the state it began from and on the one it left; those that it made pass
    are a smaller task that it solved; where there are none, files that the whole solution needs as it left them.
    `recovery`: from a failing validation to the same one with fewer failures, or from a refused call to one put right.
    Neither counts as a solve anywhere. `[salvage]` in handoff.toml turns each off.
    """
    from handoff.stages import salvage as stage

    opened = project.open(sandbox)
    return materialized(opened, stage.salvaged(opened, *round_and_shard(context)), SALVAGED, REASONS)
