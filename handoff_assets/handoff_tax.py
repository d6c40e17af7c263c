"""``handoff_tax``: what switching models in the middle of a task keeps of quality and of saving."""

from dagster import AllPartitionMapping, AssetDep, AssetExecutionContext, MaterializeResult, MetadataValue

from handoff_assets import progress
from handoff_assets.metadata import Summary, image, materialized
from handoff_assets.partitions import studies
from handoff_assets.policy import policy
from handoff_assets.repository_states import repository_states
from handoff_assets.table import table
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource

TAX = Summary(
    title="quality recovered over all timings",
    sql="""
        SELECT direction, interface, author, quality, quality_lc, quality_hc, cost, cost_lc, cost_hc, unit,
               qrec, qrec_low, qrec_high, csret, tax, is_on_front, is_recommended, n_runs, n_tasks, note
        FROM rows WHERE timing = 'all' ORDER BY direction, interface
    """,
    group="direction",
    label="interface",
    value="quality",
)
CELLS = Summary(
    title="by timing",
    sql="""
        SELECT direction, timing, interface, quality, quality_lc, quality_hc, qrec, qrec_low, qrec_high, tax, n_tasks,
               omitted, qrec_reason
        FROM rows WHERE timing <> 'all' ORDER BY direction, timing, interface
    """,
)
RUNS = Summary(
    title="runs",
    sql="""
        SELECT coalesce(direction, 'alone') AS direction, arm, view, provenance, status, count(*) AS runs,
               avg(solved::INT) AS solved, median(steps) AS steps, median(prompt_tokens) AS prompt_tokens,
               any_value(note ORDER BY note) AS a_note
        FROM rows GROUP BY ALL ORDER BY ALL
    """,
    table="tax_runs",
)


@table(
    "handoff_tax",
    group="studies",
    partitions=studies,
    upstream=[
        AssetDep(repository_states, partition_mapping=AllPartitionMapping()),
        AssetDep(policy, partition_mapping=AllPartitionMapping()),
    ],
    kinds=("parquet", "git"),
)
def handoff_tax(
    context: AssetExecutionContext,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
    successor: SuccessorResource,
) -> MaterializeResult:
    """One row is one cell of direction × timing × interface: solve rate and cost of the switched runs beside both
    models alone on the same tasks, quality recovered (QRec), cost saving retained (CSRet) and tax, with intervals by
    task, whether the interface is on the front of quality and cost, and whether it is the one to take.

    Its runs, the single sessions of both models among them, are in `tax_runs`, which is written with it. A study that
    would cost money is refused here: plan and start it with `handoff study tax`; then it is read from the journal.
    """
    from handoff.report.studies import tax_plots
    from handoff.stages import tax_study
    from handoff.stages.study_runs import page_of
    from handoff.studies.design import TaxStudy

    opened = project.open(repositories, sandbox, successor)
    name = context.partition_key
    study = opened.study(name, TaxStudy)
    tax_study.plan_tax(opened, study).require_free()
    written = tax_study.handoff_tax(opened, study, name, progress.of(context))
    plots = tax_plots(opened.lake.rows("handoff_tax", study=name))
    more = {
        f"front {number}": MetadataValue.md(image(plot, "cost and quality")) for number, plot in enumerate(plots, 1)
    }
    page = MetadataValue.path(str(page_of(opened, name)))
    return materialized(opened, written, TAX, CELLS, RUNS, report=page, **more)
