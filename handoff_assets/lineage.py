"""Column lineage as data: which upstream columns each column is made from.

Read by ``metadata.py`` for the UI's column view. A column that is not named here originates in its table: it
is measured, decided or counted there. Lineage of rows (which bytes a sample came from) is in
``handoff/lineage.py``.
"""

from dagster import AssetKey, TableColumnDep, TableColumnLineage

COLUMN_LINEAGE: dict[str, dict[str, tuple[str, ...]]] = {
    "raw_trajectories": {},
    "repository_states": {
        "trajectory_id": ("raw_trajectories.trajectory_id",),
        "step": ("raw_trajectories.n_steps",),
        "repo": ("raw_trajectories.repo",),
        "commit": ("raw_trajectories.base_commit",),
        "tree": ("raw_trajectories.base_commit",),
        "status": ("raw_trajectories.patch",),
    },
    "environment_facts": {
        "trajectory_id": ("raw_trajectories.trajectory_id",),
        "name": ("raw_trajectories.source", "raw_trajectories.preamble"),
        "step": ("raw_trajectories.n_steps",),
        "seen": ("raw_trajectories.n_steps",),
    },
    "quality_signals": {
        "trajectory_id": ("raw_trajectories.trajectory_id",),
        "step": ("raw_trajectories.n_steps",),
        "looks_ahead": ("raw_trajectories.n_steps",),
        "paths": ("raw_trajectories.repo", "raw_trajectories.base_commit"),
    },
    "injected_handoffs": {
        "trajectory_id": ("raw_trajectories.trajectory_id",),
        "task_id": ("raw_trajectories.task_id",),
        "repo": ("raw_trajectories.repo",),
        "base_commit": ("raw_trajectories.base_commit",),
        "split": ("raw_trajectories.split",),
        "author": ("raw_trajectories.author",),
        "n_steps": ("raw_trajectories.n_steps",),
        "tree": ("repository_states.tree",),
        "state_status": ("repository_states.status",),
        "state_is_derived": ("repository_states.is_derived",),
        "state_class": ("repository_states.tree",),
        "state_class_reason": ("repository_states.tree",),
        "nodes": ("repository_states.tree", "raw_trajectories.patch"),
        "h": ("quality_signals.step",),
        "gold": ("raw_trajectories.resolved", "repository_states.tree", "quality_signals.signal"),
    },
    "view_renderings": {
        "point_id": ("injected_handoffs.point_id",),
        "author": ("raw_trajectories.author", "raw_trajectories.model"),
        "tokens": ("injected_handoffs.trajectory_id", "injected_handoffs.h"),
        "text_sha256": ("injected_handoffs.trajectory_id", "injected_handoffs.h", "repository_states.tree"),
    },
    "adversarial_variants": {
        "point_id": ("injected_handoffs.point_id",),
        "view": ("view_renderings.view",),
        "tree": ("injected_handoffs.tree",),
        "tier": ("injected_handoffs.labels", "view_renderings.view"),
    },
    "worst_points": {
        "trajectory_id": ("injected_handoffs.trajectory_id",),
        "point_id": ("injected_handoffs.point_id",),
        "h": ("injected_handoffs.h",),
        "n_steps": ("injected_handoffs.n_steps",),
        "excess_cost": ("injected_handoffs.remaining_steps", "injected_handoffs.remaining_prompt_tokens"),
    },
    "takeover_runs": {
        "point_id": ("injected_handoffs.point_id",),
        "view_id": ("view_renderings.view_id",),
        "view": ("view_renderings.view",),
        "variant_id": ("adversarial_variants.variant_id",),
        "tier": ("adversarial_variants.tier",),
        "note_tokens": ("view_renderings.writing_tokens",),
        "first_prompt_tokens": ("view_renderings.tokens",),
        "destroyed_fixes": ("injected_handoffs.nodes",),
    },
    "diagnostics": {
        "takeover_id": ("takeover_runs.takeover_id",),
        "value": (
            "takeover_runs.transcript",
            "takeover_runs.probe_done",
            "takeover_runs.probe_plan",
            "injected_handoffs.gold",
            "injected_handoffs.nodes",
            "injected_handoffs.plan",
        ),
        "numerator": ("takeover_runs.transcript", "takeover_runs.probe_done", "takeover_runs.probe_plan"),
        "denominator": ("injected_handoffs.gold", "injected_handoffs.nodes", "injected_handoffs.plan"),
    },
    "robustness": {
        "split": ("injected_handoffs.split",),
        "arm": ("takeover_runs.arm",),
        "view": ("takeover_runs.view",),
        "label": ("injected_handoffs.labels",),
        "tier": ("takeover_runs.tier",),
        "metric": ("diagnostics.metric",),
        "value": (
            "diagnostics.value",
            "takeover_runs.solved",
            "takeover_runs.steps",
            "takeover_runs.prompt_tokens",
            "takeover_runs.destroyed_fixes",
        ),
        "low": ("diagnostics.value", "injected_handoffs.task_id"),
        "high": ("diagnostics.value", "injected_handoffs.task_id"),
        "n_runs": ("takeover_runs.takeover_id",),
        "n_points": ("takeover_runs.point_id",),
        "n_tasks": ("injected_handoffs.task_id",),
    },
    "salvaged": {
        "takeover_id": ("takeover_runs.takeover_id",),
        "point_id": ("injected_handoffs.point_id",),
        "goals": ("takeover_runs.final_tree", "injected_handoffs.tree"),
        "statement": ("raw_trajectories.task", "takeover_runs.final_tree"),
    },
    "tiers": {
        "split": ("injected_handoffs.split",),
        "arm": ("takeover_runs.arm",),
        "tier": ("takeover_runs.tier",),
        "solve_rate": ("takeover_runs.solved",),
        "hrs": ("diagnostics.value",),
        "excess_cost": ("diagnostics.value",),
        "fall": ("diagnostics.value", "injected_handoffs.task_id"),
        "worst_known": ("adversarial_variants.worst_known",),
        "next_share": ("takeover_runs.solved", "diagnostics.value"),
    },
    "curated_training_set": {
        "split": ("injected_handoffs.split",),
        "task_id": ("injected_handoffs.task_id",),
        "repo": ("injected_handoffs.repo",),
        "trajectory_id": ("injected_handoffs.trajectory_id",),
        "point_id": ("takeover_runs.point_id",),
        "view_id": ("takeover_runs.view_id",),
        "view": ("takeover_runs.view",),
        "variant_id": ("takeover_runs.variant_id",),
        "takeover_id": ("takeover_runs.takeover_id",),
        "tier": ("takeover_runs.tier",),
        "licence": ("raw_trajectories.licence",),
        "reward": ("takeover_runs.solved",),
        "basis": ("salvaged.basis",),
        "chosen_because": ("takeover_runs.solved", "takeover_runs.steps", "diagnostics.value"),
        "sample": ("raw_trajectories.task", "takeover_runs.transcript", "view_renderings.text_sha256"),
    },
    "recorded_samples": {
        "split": ("injected_handoffs.split",),
        "task_id": ("injected_handoffs.task_id",),
        "repo": ("injected_handoffs.repo",),
        "trajectory_id": ("injected_handoffs.trajectory_id",),
        "point_id": ("injected_handoffs.point_id",),
        "view_id": ("view_renderings.view_id",),
        "view": ("view_renderings.view",),
        "licence": ("raw_trajectories.licence",),
        "reward": ("raw_trajectories.resolved",),
        "gates": ("raw_trajectories.resolved", "quality_signals.looks_ahead"),
        "sample": ("raw_trajectories.task", "raw_trajectories.tools", "view_renderings.text_sha256"),
    },
    "exports": {
        "rows": ("curated_training_set.sample_id", "recorded_samples.sample_id"),
        "sample_ids": ("curated_training_set.sample_id", "recorded_samples.sample_id"),
        "sha256": ("curated_training_set.sample", "recorded_samples.sample"),
        "losses": ("curated_training_set.sample", "recorded_samples.sample"),
    },
    "policy": {
        "n_demonstrations": ("curated_training_set.sample_id",),
        "n_labels": ("curated_training_set.trained_tokens",),
    },
    "round_report": {
        "summary": ("robustness.value", "tiers.fall", "curated_training_set.kind", "exports.path", "policy.policy_id"),
    },
    "corpus_report": {
        "format": ("raw_trajectories.format",),
        "repo": ("repository_states.repo",),
        "status": ("repository_states.status",),
        "category": ("repository_states.reason",),
        "steps": ("repository_states.step",),
        "verified_steps": ("repository_states.status",),
        "derived_steps": ("repository_states.is_derived",),
        "partial_steps": ("repository_states.status",),
        "divergent_steps": ("repository_states.status",),
        "unverifiable_steps": ("repository_states.status",),
        "trajectory_id": ("repository_states.trajectory_id",),
        "reason": ("repository_states.reason",),
    },
    "handoff_debt": {
        "arm": ("policy.arm",),
        "view": ("view_renderings.view",),
        "label": ("injected_handoffs.labels",),
        "reference": ("view_renderings.view",),
        "n_points": ("injected_handoffs.point_id",),
        "n_tasks": ("injected_handoffs.task_id",),
    },
    "handoff_tax": {
        "low": ("policy.arm",),
        "high": ("policy.arm",),
        "n_tasks": ("raw_trajectories.task_id",),
    },
}


def column_lineage(table: str) -> TableColumnLineage:
    """The lineage of one table's columns, in Dagster's terms."""
    return TableColumnLineage(
        {
            column: [
                TableColumnDep(asset_key=AssetKey(up.split(".")[0]), column_name=up.split(".")[1]) for up in upstream
            ]
            for column, upstream in COLUMN_LINEAGE[table].items()
        }
    )
