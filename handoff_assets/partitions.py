"""Partitions: ``shard`` for what describes recordings, ``round`` for what looks at everything, both for what
runs agents, ``study`` for the two studies.

The corpus report looks at all shards and has none.

All are dynamic: a shard appears when files are dropped, a round when one is started, a study when the settings
describe it. Keys of the combined
partitions read ``r000|a-shard``.
"""

import warnings

from dagster import (
    BetaWarning,
    DynamicPartitionsDefinition,
    MultiPartitionsDefinition,
    MultiToSingleDimensionPartitionMapping,
)

SHARD = "shard"
ROUND = "round"

STUDY = "study"

shards = DynamicPartitionsDefinition(name=SHARD)
rounds = DynamicPartitionsDefinition(name=ROUND)
studies = DynamicPartitionsDefinition(name=STUDY)
rounds_by_shard = MultiPartitionsDefinition({ROUND: rounds, SHARD: shards})

with warnings.catch_warnings():
    # The mapping is marked beta since 1.2 and unchanged since; both directions are covered by tests/shell.
    warnings.filterwarnings("ignore", category=BetaWarning, message=".*MultiToSingleDimensionPartitionMapping.*")
    same_shard = MultiToSingleDimensionPartitionMapping(partition_dimension_name=SHARD)
    same_round = MultiToSingleDimensionPartitionMapping(partition_dimension_name=ROUND)

BY_SHARD = frozenset(
    {
        "raw_trajectories",
        "environment_facts",
        "repository_states",
        "state_verdicts",
        "quality_signals",
        "injected_handoffs",
        "view_renderings",
        "recorded_samples",
        "recorded_funnel",
    }
)
BY_ROUND_AND_SHARD = frozenset(
    {"worst_points", "adversarial_variants", "takeover_runs", "branches", "diagnostics", "salvaged"}
)
BY_STUDY = frozenset({"handoff_debt", "debt_runs", "handoff_tax", "tax_runs"})
WHOLE = frozenset({"corpus_report"})
"""Tables without partitions."""


def lake_partition(table: str, key: str) -> dict[str, str]:
    """A Dagster partition key of ``table`` as the lake's partition: ``r000|a`` → ``{"round": "r000", "shard": "a"}``.

    Works on the key's text, which is all that an event or a tag holds; neither part can contain ``|``.
    """
    if table in WHOLE:
        return {}
    if table in BY_ROUND_AND_SHARD:
        round, shard = key.split("|")
        return {ROUND: round, SHARD: shard}
    if table in BY_STUDY:
        return {STUDY: key}
    return {SHARD: key} if table in BY_SHARD else {ROUND: key}
