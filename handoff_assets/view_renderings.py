"""``view_renderings``: what a successor would be told about the work so far."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.injected_handoffs import injected_handoffs
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import shards
from handoff_assets.raw_trajectories import raw_trajectories
from handoff_assets.repository_states import repository_states
from handoff_assets.table import table
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.writer import WriterResource

LENGTHS = Summary(
    title="median tokens of a view",
    sql="""
        SELECT view, author, count(*) AS views, median(tokens) AS tokens, max(tokens) AS longest,
               any_value(tokenizer) AS tokenizer,
               sum(writing_tokens) AS writing_tokens, sum((writing->>'rejected_claims')::INT) AS rejected_claims,
               count(*) FILTER (WHERE tokens IS NULL) AS without_text
        FROM rows GROUP BY view, author ORDER BY view, author NULLS FIRST
    """,
    label="view",
    value="tokens",
)


@table(
    "view_renderings",
    group="handoffs",
    partitions=shards,
    upstream=[raw_trajectories, repository_states, injected_handoffs],
)
def view_renderings(
    context: AssetExecutionContext, project: ProjectResource, repositories: RepositoriesResource, writer: WriterResource
) -> MaterializeResult:
    """One row is one view of one handoff point: repository only, full trace, prose summary, structured notes, or what
    the recording itself handed over there.

    A row holds the recipe, author, length and hash of the text. Text written by rule is rendered again on
    reading; text written by a model (setting `writer`) is stored as it was written, with what its writing took. Nothing
    from after the point is in any view.
    """
    from handoff.stages import handoffs

    opened = project.open(repositories, writer)
    written = handoffs.view_renderings(opened, context.partition_key)
    return materialized(opened, written, LENGTHS, writer=opened.settings.writer or "extractive")
