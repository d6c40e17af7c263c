"""``exports``: training files for the tools that will read them."""

from dagster import AllPartitionMapping, AssetDep, AssetExecutionContext, MaterializeResult

from handoff_assets.curated_training_set import curated_training_set
from handoff_assets.metadata import Summary, materialized
from handoff_assets.partitions import rounds
from handoff_assets.recorded_samples import recorded_samples
from handoff_assets.table import table
from resources.project import ProjectResource

FILES = Summary(
    title="training files",
    sql="SELECT format, path, rows AS samples, bytes, sha256, losses FROM rows ORDER BY format, path",
    group="format",
    label="path",
    value="samples",
)


@table(
    "exports",
    group="curation",
    partitions=rounds,
    upstream=[curated_training_set, AssetDep(recorded_samples, partition_mapping=AllPartitionMapping())],
    kinds=("parquet", "json"),
)
def exports(context: AssetExecutionContext, project: ProjectResource) -> MaterializeResult:
    """One row is one exported training file: format, samples in it, checksum, and every lossy change with its count.

    The files lie under `exports/<round>/<format>/` in the data folder.
    """
    from handoff.stages import exports as stage

    opened = project.open()
    written = stage.exports(opened, context.partition_key)
    return materialized(opened, written, FILES)
