"""Jobs: what runs together, one per kind of partition: a run is one shard, one shard of a round, or one round."""

from dagster import AssetSelection, define_asset_job

from sensors.jobs import CORPUS, ROUND, TAKEOVER

corpus_job = define_asset_job(
    CORPUS,
    selection=AssetSelection.assets(
        "raw_trajectories", "quality_signals", "repository_states", "injected_handoffs", "view_renderings"
    ),
    description="Reads one shard: recorded runs, their quality, repository states, handoff points, views.",
)
takeover_job = define_asset_job(
    TAKEOVER,
    selection=AssetSelection.assets("adversarial_variants", "takeover_runs", "diagnostics"),
    description="Starts successors from one shard's handoff points in one round, and diagnoses what they did.",
)
round_job = define_asset_job(
    ROUND,
    selection=AssetSelection.assets("robustness", "curated_training_set", "exports", "policy", "round_report"),
    description="Closes one round, after its takeovers: robustness, training data, exports, policies, report.",
)
jobs = [corpus_job, takeover_job, round_job]
