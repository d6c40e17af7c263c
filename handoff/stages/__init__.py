"""The stages: each fills one table of the lake from the tables before it.

A stage asks the lake whether its partition was already made from the same inputs (``Lake.current``), and
only then works; so a repeated run is a no-op, and a killed one starts again at the first table that is
missing. The command line calls stages directly, Dagster's assets (``handoff_assets/``) wrap them one by one.

What a stage computes lives in the room it calls; here is only what is read, in which order, and what the
result is keyed by. ``CODE_VERSIONS`` change when a rule behind a table changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handoff.identity import identify
from handoff.lake import Lake

CODE_VERSIONS: dict[str, str] = {
    "raw_trajectories": "8",
    "repository_states": "10",
    "environment_facts": "2",
    "quality_signals": "1",
    "injected_handoffs": "6",
    "view_renderings": "3",
    "worst_points": "2",
    "adversarial_variants": "4",
    "takeover_runs": "4",
    "diagnostics": "1",
    "salvaged": "2",
    "recorded_samples": "1",
    "robustness": "1",
    "tiers": "1",
    "curated_training_set": "5",
    "exports": "3",
    "policy": "1",
    "round_report": "2",
    "corpus_report": "2",
    "handoff_debt": "1",
    "handoff_tax": "2",
}


def inputs_of(table: str, lake: Lake, *upstream: tuple[str, dict[str, str]], settings: object = None) -> str:
    """The hash that names what ``table`` is made from: its code version, upstream bytes and settings."""
    digests = [f"{name}{sorted(partition.items())}={lake.digest(name, **partition)}" for name, partition in upstream]
    return identify("i", table, CODE_VERSIONS[table], repr(settings), *digests)


def round_name(number: int) -> str:
    """Partition key of a round: ``r000``, ``r001``, …"""
    return f"r{number:03d}"


def round_number(name: str) -> int:
    """The number in a round's name."""
    return int(name.removeprefix("r"))


def is_embedded(repo: str | None) -> bool:
    """Whether a repository is one of the embedded world."""
    return str(repo or "").startswith("kata/")


def is_executable(point: Mapping[str, Any]) -> bool:
    """Can any successor be started from this point here? Only the embedded world has tests that run on any machine."""
    return point["tree"] is not None and is_embedded(point["repo"])


def is_real(point: Mapping[str, Any]) -> bool:
    """Is this a point of a real repository whose state follows from the recording, so that a round starts from it?"""
    is_known = point["tree"] is not None and bool(point["state_is_derived"])
    return is_known and bool(point["repo"]) and not is_embedded(point["repo"])
