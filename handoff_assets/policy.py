"""``policy``: successors trained on this round's data and its controls."""

from dagster import AssetExecutionContext, MaterializeResult

from handoff_assets.curated_training_set import curated_training_set
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds
from handoff_assets.table import table
from resources.project import ProjectResource
from resources.repositories import RepositoriesResource
from resources.sandbox import SandboxResource
from resources.successor import SuccessorResource

ARMS = Summary(
    title="trained policies",
    sql="""
        SELECT arm, policy_id, n_demonstrations AS demonstrations, n_labels AS labels, mix AS single_session_share,
               seed, train_loss, train_accuracy
        FROM rows ORDER BY arm, seed
    """,
    label="arm",
    value="labels",
)


@table("policy", group="coevolution", partitions=rounds, upstream=[curated_training_set], kinds=("parquet", "numpy"))
def policy(
    context: AssetExecutionContext,
    project: ProjectResource,
    repositories: RepositoriesResource,
    sandbox: SandboxResource,
    successor: SuccessorResource,
) -> MaterializeResult:
    """One row is one trained policy: the arm that says what it was trained on, its labels, seed and training loss.

    Arm E learns from expert takeovers, B from as many labels on single sessions, A from single sessions alone.
    The next round's `takeover_runs` starts these policies.
    """
    from handoff.stages import coevolution

    opened = project.open(repositories, sandbox, successor)
    written = coevolution.policy(opened, context.partition_key)
    return materialized(opened, written, ARMS)
