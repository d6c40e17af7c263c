"""``injected_handoffs``: where recorded runs may be cut."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets import progress
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.quality_signals import quality_signals
from handoff_assets.raw_trajectories import raw_trajectories
from handoff_assets.repository_states import repository_states
from handoff_assets.table import table
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource

LABELS = Summary(
    title="points by label",
    sql="""
        SELECT label, count(*) AS points, count(DISTINCT task_id) AS tasks,
               round(avg(h * 1.0 / n_steps), 2) AS mean_position,
               count(*) FILTER (WHERE gold IS NOT NULL) AS with_gold_continuation
        FROM (SELECT unnest(labels) AS label, * FROM rows) GROUP BY label ORDER BY label
    """,
    label="label",
    value="points",
)
CLASSES = Summary(
    title="points by state",
    sql="""
        SELECT author, state_status, state_class, count(*) AS points,
               any_value(state_class_reason ORDER BY state_class_reason) AS a_reason_for_no_class FROM rows
        GROUP BY ALL ORDER BY author, state_status, state_class NULLS LAST
    """,
)


@table(
    "injected_handoffs",
    group="handoffs",
    partitions=shards,
    upstream=[raw_trajectories, repository_states, quality_signals],
)
def injected_handoffs(
    context: AssetExecutionContext,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
) -> MaterializeResult:
    """One row is one handoff point: the step after which one agent stops and another could start.

    A point carries every label that fits it (milestone, error, first meaningful modification, …) and its sealed
    targets: what is already done, the plan from here on, the keys of the recorded continuation. Targets never reach a
    view or a successor.
    """
    from handoff.stages import handoffs

    opened = project.open(repositories, sandbox)
    written = handoffs.injected_handoffs(opened, context.partition_key, progress.of(context))
    return materialized(opened, written, LABELS, CLASSES)
