"""``handoff_debt``: what successors spend under each view, against the bare repository."""

from dagster import AllPartitionMapping, AssetDep, AssetExecutionContext, MaterializeResult, MetadataValue

from handoff_assets import progress
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import studies
from handoff_assets.policy import policy
from handoff_assets.table import table
from handoff_assets.view_renderings import view_renderings
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource

DEBT = Summary(
    title="median prompt tokens against the bare repository",
    sql="""
        SELECT arm || ' · ' || view AS who, label, value AS tokens, reference AS tokens_repo, ratio_of_medians,
               ratio_low, ratio_high, median_of_ratios, n_points, n_tasks, unmatched
        FROM rows WHERE metric = 'prompt_tokens' ORDER BY who, label
    """,
    group="who",
    label="label",
    value="ratio_of_medians",
    low="ratio_low",
    high="ratio_high",
)
SOLVED = Summary(
    title="solved under the view and under the bare repository",
    sql="""
        SELECT arm, view, label, value AS solved, reference AS solved_repo, gained, lost, p_value, n_points, n_tasks,
               note
        FROM rows WHERE metric = 'solved' ORDER BY arm, view, label
    """,
)
RUNS = Summary(
    title="runs",
    sql="""
        SELECT arm, view, provenance, status, count(*) AS runs, avg(solved::INT) AS solved, median(steps) AS steps,
               median(prompt_tokens) AS prompt_tokens, any_value(note ORDER BY note) AS a_note
        FROM rows GROUP BY ALL ORDER BY ALL
    """,
    table="debt_runs",
)


@table(
    "handoff_debt",
    group="studies",
    partitions=studies,
    upstream=[
        AssetDep(view_renderings, partition_mapping=AllPartitionMapping()),
        AssetDep(policy, partition_mapping=AllPartitionMapping()),
    ],
    kinds=("parquet", "git"),
)
def handoff_debt(
    context: AssetExecutionContext,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
    successor: SuccessorResource,
) -> MaterializeResult:
    """One row is one figure of one view against the bare repository, on matched points: successor × view × point label
    × measure, with both ways of taking medians, their intervals by task, and exact McNemar on the solved flags.

    Its runs are in `debt_runs`, which is written with it. A study that would cost money is refused here: plan and start
    it with `handoff study debt`; then it is read from the journal.
    """
    from handoff.stages import debt_study
    from handoff.stages.study_runs import page_of
    from handoff.studies.design import DebtStudy

    opened = project.open(repositories, sandbox, successor)
    name = context.partition_key
    study = opened.study(name, DebtStudy)
    debt_study.plan_debt(opened, study).require_free()
    written = debt_study.handoff_debt(opened, study, name, progress.of(context))
    page = MetadataValue.path(str(page_of(opened, name)))
    return materialized(opened, written, DEBT, SOLVED, RUNS, report=page)
