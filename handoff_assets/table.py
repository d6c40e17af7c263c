"""What every table's asset shares: group, partitions, code version, kinds, schema.

The decorated function's docstring is the asset's description in the UI.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dagster import AssetDep, AssetsDefinition, PartitionsDefinition, asset

from handoff.stages import CODE_VERSIONS
from handoff_assets.metadata import table_schema


def table(
    name: str,
    *,
    group: str,
    partitions: PartitionsDefinition | None,
    upstream: Sequence[AssetDep | AssetsDefinition] = (),
    kinds: Sequence[str] = ("parquet",),
) -> Callable[[Callable[..., Any]], AssetsDefinition]:
    """Decorator: the asset of the lake table ``name``. ``upstream`` are tables read by reference, never loaded
    by Dagster."""
    return asset(
        name=name,
        group_name=group,
        partitions_def=partitions,
        deps=upstream,
        code_version=CODE_VERSIONS[name],
        kinds={"python", *kinds},
        metadata={"dagster/column_schema": table_schema(name), "dagster/table_name": f"lake.{name}"},
    )
