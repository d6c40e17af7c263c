"""What a run of the round-and-shard assets is told: its combined key taken apart, and the cells it is restricted to."""

from dagster import AssetExecutionContext, Config, MultiPartitionKey
from pydantic import Field

from handoff_assets.partitions import ROUND, SHARD


class Cells(Config):
    """Run configuration of what runs agents."""

    cells: list[str] = Field(
        default_factory=list,
        description="Only these cells (as the drift sensor names them). Empty: the round's whole mixture.",
    )

    def only(self) -> dict[str, tuple[str, ...]]:
        """The keyword that a stage is called with; none for the whole mixture."""
        return {"cells": tuple(self.cells)} if self.cells else {}


def round_and_shard(context: AssetExecutionContext) -> tuple[str, str]:
    """The round and the shard of the partition that is being made."""
    key = context.partition_key
    assert isinstance(key, MultiPartitionKey)  # the asset's partitions are combined
    return key.keys_by_dimension[ROUND], key.keys_by_dimension[SHARD]
