"""Jobs: what runs together, one per kind of partition: a run is one shard, one shard of a round, one round, or one
study. The corpus report, which has none, is a job by itself."""

from dagster import AssetSelection, define_asset_job

from sensors.jobs import CORPUS, DEBT, REPORT, ROUND, TAKEOVER, TAX

corpus_job = define_asset_job(
    CORPUS,
    selection=AssetSelection.assets(
        "raw_trajectories",
        "environment_facts",
        "quality_signals",
        "repository_states",
        "injected_handoffs",
        "view_renderings",
        "recorded_samples",
    ),
    description="Reads one shard: recorded runs, their quality, states inside and outside the repository, handoff "
    "points, views, samples.",
)
report_job = define_asset_job(
    REPORT,
    selection=AssetSelection.assets("corpus_report"),
    description="Counts how far the states of all shards can be trusted, and writes the corpus page.",
)
takeover_job = define_asset_job(
    TAKEOVER,
    selection=AssetSelection.assets("worst_points", "adversarial_variants", "takeover_runs", "diagnostics", "salvaged"),
    description="Starts successors from one shard's handoff points in one round, and diagnoses what they did.",
)
round_job = define_asset_job(
    ROUND,
    selection=AssetSelection.assets("robustness", "tiers", "curated_training_set", "exports", "policy", "round_report"),
    description="Closes one round, after its takeovers: robustness, tiers, training data, exports, policies, report.",
)
debt_job = define_asset_job(
    DEBT,
    selection=AssetSelection.assets("handoff_debt"),
    description="Runs one debt study: successors under every view, against the bare repository.",
)
tax_job = define_asset_job(
    TAX,
    selection=AssetSelection.assets("handoff_tax"),
    description="Runs one tax study: two models switched in the middle of tasks.",
)
jobs = [corpus_job, report_job, takeover_job, round_job, debt_job, tax_job]
