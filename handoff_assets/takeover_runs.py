"""``takeover_runs``: successors started from handoff points, really executed."""

from dagster import AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets import progress
from handoff_assets.adversarial_variants import adversarial_variants
from handoff_assets.keys import Cells, round_and_shard
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds_by_shard, same_shard
from handoff_assets.table import table
from handoff_assets.view_renderings import view_renderings
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource

OUTCOMES = Summary(
    title="median steps of a takeover",
    sql="""
        SELECT purpose, concat_ws(' · ', view, tier) AS view, arm, count(*) AS runs,
               round(avg(solved::INT), 3) AS solved, count(*) FILTER (WHERE solved IS NULL) AS not_judged,
               median(steps) AS steps,
               median(prompt_tokens) AS prompt_tokens, sum(destroyed_fixes) AS destroyed_fixes
        FROM rows GROUP BY ALL ORDER BY ALL
    """,
    group="view",
    label="arm",
    value="steps",
)
ENDINGS = Summary(
    title="how takeovers ended",
    sql="""
        SELECT status, provenance, count(*) AS runs, any_value(note ORDER BY note) AS a_note
        FROM rows GROUP BY ALL ORDER BY status, provenance
    """,
)

BRANCHES = Summary(
    title="branches of failed takeovers",
    table="branches",
    sql="""
        SELECT arm, view, verdict, count(*) AS branches, count(DISTINCT base_id) AS takeovers,
               sum(solved::INT) AS solved, sum(is_kept::INT) AS kept
        FROM rows GROUP BY ALL ORDER BY ALL
    """,
)


@table(
    "takeover_runs",
    group="takeovers",
    partitions=rounds_by_shard,
    upstream=[adversarial_variants, AssetDep(view_renderings, partition_mapping=same_shard)],
    kinds=("parquet", "git"),
)
def takeover_runs(
    context: AssetExecutionContext,
    config: Cells,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
    successor: SuccessorResource,
) -> MaterializeResult:
    """One row is one real run of a successor from one handoff point under one view, with its cost and outcome.

    Every reply is journaled before it is used, so that an interrupted run goes on where it stopped and nothing
    is paid for twice. From the second round on the learned successors come from the *previous* round's
    `policy`, read through the lake: an edge in time that this graph, which has no cycles, does not draw.

    Where `[branching]` in handoff.toml asks for it, the table `branches` is written with it: other moves in failed
    takeovers that policies collected, of which the best that solved the task are rows here too.
    """
    from handoff.stages import takeovers

    opened = project.open(repositories, sandbox, successor)
    written = takeovers.takeover_runs(opened, *round_and_shard(context), progress.of(context), **config.only())
    return materialized(opened, written, OUTCOMES, ENDINGS, BRANCHES)
