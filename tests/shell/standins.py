"""Small stages that write plausible rows: what the shell is tested against. The real ones have tests of their own.

Each keeps the contract of ``handoff.stages``: it asks the lake first, writes one partition, and is keyed by
what it read. ``calls`` counts how often a stage really worked.
"""

from __future__ import annotations

import hashlib
import os
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handoff.errors import RecordError
from handoff.identity import identify
from handoff.lake import SCHEMAS, Written
from handoff.project import Project
from handoff.stages import inputs_of, round_name, round_number

POISON = b"fail"
"""A file with this in it makes its stage raise."""
HOSTILE = "<script>alert(1)</script> | `x` \x1b[31m\n| a | b |"


class Stages:
    """The stand-ins of one test."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.change: dict[str, Callable[[list[dict[str, Any]]], None]] = {}
        """Table → a change to its rows before they are written."""
        self.cells: list[tuple[str, ...]] = []
        """Restrictions that takeover stages were called with."""

    def modules(self) -> dict[str, types.SimpleNamespace]:
        """What stands in for each module of ``handoff.stages``."""
        return {
            "corpus": types.SimpleNamespace(
                content_key=content_key,
                raw_trajectories=self.raw_trajectories,
                repository_states=self.repository_states,
            ),
            "environment": types.SimpleNamespace(environment_facts=self.environment_facts),
            "corpus_report": types.SimpleNamespace(
                corpus_report=self.corpus_report, page_of=lambda project: project.reports / "corpus" / "index.html"
            ),
            "quality": types.SimpleNamespace(quality_signals=self.quality_signals),
            "handoffs": types.SimpleNamespace(
                injected_handoffs=self.injected_handoffs, view_renderings=self.view_renderings
            ),
            "worst_points": types.SimpleNamespace(worst_points=self.worst_points),
            "adversary": types.SimpleNamespace(adversarial_variants=self.adversarial_variants),
            "takeovers": types.SimpleNamespace(takeover_runs=self.takeover_runs),
            "diagnosis": types.SimpleNamespace(diagnostics=self.diagnostics, robustness=self.robustness),
            "recorded": types.SimpleNamespace(recorded_samples=self.recorded_samples),
            "salvage": types.SimpleNamespace(salvaged=self.salvaged),
            "tiers": types.SimpleNamespace(tiers=self.tiers),
            "curation": types.SimpleNamespace(curated_training_set=self.curated_training_set),
            "exports": types.SimpleNamespace(exports=self.exports),
            "breaks": types.SimpleNamespace(breaks=lambda project, round: ()),
            "coevolution": types.SimpleNamespace(policy=self.policy, round_report=self.round_report),
        }

    def _write(
        self, project: Project, table: str, inputs: str, rows: Callable[[], list[dict[str, Any]]], **partition: str
    ) -> Written:
        current = project.lake.current(table, inputs=inputs, **partition)
        if current is not None:
            return current
        self.calls[table] += 1
        made = rows()
        self.change.get(table, lambda _: None)(made)
        return project.lake.write(table, made, inputs=inputs, **partition)

    def raw_trajectories(self, project: Project, shard: str, progress: Any = None) -> Written:
        def rows() -> list[dict[str, Any]]:
            data = b"".join(Path(p).read_bytes() for p in project.shard(shard).paths)
            if POISON in data:
                raise RecordError("cannot be read", file=f"{shard}.jsonl", record=1, remedy="Export it again.")
            project.lake.write(
                "quarantine", [{"file": HOSTILE, "record": 1, "problem": HOSTILE}], inputs="i", shard=shard
            )
            made = []
            for n in range(3):
                if progress is not None:
                    progress(n + 1, 3)
                made.append(
                    {
                        "trajectory_id": identify("t", shard, n), "file": f"{shard}.jsonl", "record": n + 1,
                        "format": "chat", "author": "agent",
                        "source_sha256": hashlib.sha256(data + bytes([n])).hexdigest(), "task_id": f"{shard}-{n}",
                        "task": HOSTILE, "repo": f"kata/{n}", "split": "train", "n_steps": 4, "resolved": n > 0,
                    }
                )  # fmt: skip
            return made

        inputs = identify("i", "raw_trajectories", content_key(project.shard(shard).paths))
        return self._write(project, "raw_trajectories", inputs, rows, shard=shard)

    def repository_states(self, project: Project, shard: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            heads = project.lake.rows("raw_trajectories", shard=shard)
            return [
                {"trajectory_id": head["trajectory_id"], "step": step, "repo": head["repo"], "status": "unverifiable",
                 "reason": "its repository is not given"}
                for head in heads for step in range(5)
            ]  # fmt: skip

        inputs = inputs_of("repository_states", project.lake, ("raw_trajectories", {"shard": shard}))
        return self._write(project, "repository_states", inputs, rows, shard=shard)

    def environment_facts(self, project: Project, shard: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            heads = project.lake.rows("raw_trajectories", shard=shard)
            return [
                {"trajectory_id": head["trajectory_id"], "place": 1, "kind": "package", "name": HOSTILE[:200],
                 "value": "1.0", "basis": "observed", "holds": True, "step": 2, "seen": 2}
                for head in heads
            ]  # fmt: skip

        inputs = inputs_of("environment_facts", project.lake, ("raw_trajectories", {"shard": shard}))
        return self._write(project, "environment_facts", inputs, rows, shard=shard)

    def corpus_report(self, project: Project) -> Written:
        upstream = [("repository_states", partition) for partition in project.lake.partitions("repository_states")]

        def rows() -> list[dict[str, Any]]:
            counts = {f.name: 0 for f in SCHEMAS["corpus_report"] if f.type == "int64"}
            return [
                {**counts, "format": "chat", "repo": HOSTILE, "status": "unverifiable", "category": "no_repository",
                 "trajectories": len(upstream), "trajectory_id": "t_1", "reason": HOSTILE}
            ]  # fmt: skip

        return self._write(project, "corpus_report", inputs_of("corpus_report", project.lake, *upstream), rows)

    def quality_signals(self, project: Project, shard: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            heads = project.lake.rows("raw_trajectories", shard=shard)
            return [
                {"trajectory_id": head["trajectory_id"], "step": 2, "signal": "redundant", "rule": "same_read",
                 "looks_ahead": False, "shown_by": [1], "paths": ["a.py"], "reason": HOSTILE}
                for head in heads
            ]  # fmt: skip

        inputs = inputs_of("quality_signals", project.lake, ("raw_trajectories", {"shard": shard}))
        return self._write(project, "quality_signals", inputs, rows, shard=shard)

    def injected_handoffs(self, project: Project, shard: str, progress: Any = None) -> Written:
        def rows() -> list[dict[str, Any]]:
            heads = project.lake.rows("raw_trajectories", shard=shard)
            return [
                {"point_id": identify("p", head["trajectory_id"], h), "trajectory_id": head["trajectory_id"],
                 "task_id": head["task_id"], "split": head["split"], "author": "agent", "h": h, "n_steps": 4,
                 "labels": ["milestone", "error"][:h], "state_status": "unverifiable", "state_is_derived": False,
                 "remaining_steps": 4 - h}
                for head in heads for h in (1, 2)
            ]  # fmt: skip

        inputs = inputs_of("injected_handoffs", project.lake, ("repository_states", {"shard": shard}))
        return self._write(project, "injected_handoffs", inputs, rows, shard=shard)

    def view_renderings(self, project: Project, shard: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            points = project.lake.rows("injected_handoffs", shard=shard)
            return [
                {"view_id": identify("v", p["point_id"], view), "point_id": p["point_id"], "view": view,
                 "tokens": 10 * p["h"],
                 "writing_tokens": 0, "tokenizer": "o200k", "text_sha256": "0" * 64}
                for p in points for view in ("repo", "structured")
            ]  # fmt: skip

        inputs = inputs_of("view_renderings", project.lake, ("injected_handoffs", {"shard": shard}))
        return self._write(project, "view_renderings", inputs, rows, shard=shard)

    def worst_points(self, project: Project, round: str, shard: str) -> Written:
        inputs = inputs_of("worst_points", project.lake, ("injected_handoffs", {"shard": shard}))
        return self._write(project, "worst_points", inputs, list, round=round, shard=shard)

    def adversarial_variants(self, project: Project, round: str, shard: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            points = project.lake.rows("injected_handoffs", shard=shard)
            return [
                {"variant_id": identify("d", p["point_id"]), "point_id": p["point_id"], "kinds": ["truncate_trace"],
                 "seed": 1, "severity": 0.5, "tier": "medium", "view": "repo", "oracle": "not_run"}
                for p in points
            ]  # fmt: skip

        inputs = inputs_of("adversarial_variants", project.lake, ("injected_handoffs", {"shard": shard}))
        return self._write(project, "adversarial_variants", inputs, rows, round=round, shard=shard)

    def takeover_runs(
        self, project: Project, round: str, shard: str, progress: Any = None, cells: tuple[str, ...] = ()
    ) -> Written:
        def rows() -> list[dict[str, Any]]:
            views = project.lake.rows("view_renderings", shard=shard)
            return [
                {"takeover_id": identify("k", v["view_id"], arm, round), "point_id": v["point_id"],
                 "view_id": v["view_id"],
                 "view": v["view"], "tier": None, "purpose": "collect", "arm": arm, "successor": "policy",
                 "successor_digest": "m", "seed": 0, "provenance": "executed", "status": "submitted",
                 "solved": n % 2 == 0,
                 "steps": 3 + n % 5, "first_prompt_tokens": 10, "prompt_tokens": 100, "destroyed_fixes": 0,
                 "tokenizer": "o200k"}
                for n, v in enumerate(views) for arm in ("A", "E")
            ]  # fmt: skip

        self.cells.append(cells)
        upstream = [("view_renderings", {"shard": shard})]
        if round_number(round) > 0:
            upstream.append(("policy", {"round": round_name(round_number(round) - 1)}))
        inputs = inputs_of("takeover_runs", project.lake, *upstream, settings=(round, cells))
        return self._write(project, "takeover_runs", inputs, rows, round=round, shard=shard)

    def diagnostics(self, project: Project, round: str, shard: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            runs = project.lake.rows("takeover_runs", round=round, shard=shard)
            return [
                {"takeover_id": run["takeover_id"], "metric": metric, "value": value,
                 "reason": None if value else "no gold"}
                for run in runs for metric, value in (("e_cr", 0.25), ("p_si", None))
            ]  # fmt: skip

        inputs = inputs_of("diagnostics", project.lake, ("takeover_runs", {"round": round, "shard": shard}))
        return self._write(project, "diagnostics", inputs, rows, round=round, shard=shard)

    def robustness(self, project: Project, round: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            return [
                {"split": "test", "arm": arm, "view": view, "label": "all", "tier": "none", "metric": metric,
                 "value": 0.5,
                 "low": 0.4, "high": 0.6, "n_runs": 12, "n_points": 6, "n_tasks": 3, "coverage": 1.0}
                for arm in ("A", "E") for view in ("repo", "structured") for metric in ("hrs", "solve_rate")
            ]  # fmt: skip

        upstream = [("diagnostics", p) for p in project.lake.partitions("diagnostics") if p["round"] == round]
        return self._write(project, "robustness", inputs_of("robustness", project.lake, *upstream), rows, round=round)

    def salvaged(self, project: Project, round: str, shard: str) -> Written:
        inputs = inputs_of("salvaged", project.lake, ("takeover_runs", {"round": round, "shard": shard}))
        return self._write(project, "salvaged", inputs, list, round=round, shard=shard)

    def recorded_samples(self, project: Project, shard: str) -> Written:
        inputs = inputs_of("recorded_samples", project.lake, ("view_renderings", {"shard": shard}))
        return self._write(project, "recorded_samples", inputs, list, shard=shard)

    def tiers(self, project: Project, round: str) -> Written:
        upstream = [("diagnostics", p) for p in project.lake.partitions("diagnostics") if p["round"] == round]
        return self._write(project, "tiers", inputs_of("tiers", project.lake, *upstream), list, round=round)

    def curated_training_set(self, project: Project, round: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            runs = project.lake.rows("takeover_runs", round=round)
            return [
                {"sample_id": identify("s", run["takeover_id"]), "kind": "sft", "split": "train", "trajectory_id": "t",
                 "point_id": run["point_id"], "view": run["view"], "prompt_tokens": 10, "trained_tokens": 5,
                 "env_tokens": 1,
                 "tokenizer": "o200k", "gates": "{}", "chosen_because": "solved", "sample": "{}"}
                for run in runs if run["solved"]
            ]  # fmt: skip

        inputs = inputs_of("curated_training_set", project.lake, ("robustness", {"round": round}))
        return self._write(project, "curated_training_set", inputs, rows, round=round)

    def exports(self, project: Project, round: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            return [
                {
                    "format": "trl",
                    "path": "r/trl/train.jsonl",
                    "sha256": "0" * 64,
                    "rows": 1,
                    "bytes": 2,
                    "losses": "{}",
                }
            ]

        inputs = inputs_of("exports", project.lake, ("curated_training_set", {"round": round}))
        return self._write(project, "exports", inputs, rows, round=round)

    def policy(self, project: Project, round: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            return [
                {"policy_id": identify("m", arm), "arm": arm, "path": f"{arm}.npz", "n_demonstrations": 4,
                 "n_labels": 9,
                 "mix": 0.5, "seed": 0, "train_accuracy": 0.9}
                for arm in ("A", "E")
            ]  # fmt: skip

        inputs = inputs_of("policy", project.lake, ("curated_training_set", {"round": round}))
        return self._write(project, "policy", inputs, rows, round=round)

    def round_report(self, project: Project, round: str) -> Written:
        def rows() -> list[dict[str, Any]]:
            page = project.reports / round / "index.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text("<p>report</p>", "utf-8")
            return [{"round": round_number(round), "path": f"{round}/index.html", "summary": "{}"}]

        inputs = inputs_of("round_report", project.lake, ("policy", {"round": round}), ("exports", {"round": round}))
        return self._write(project, "round_report", inputs, rows, round=round)


def content_key(paths: tuple[str, ...]) -> str:
    return identify("i", "content", *sorted(hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in paths))


def drop(project: Project, name: str, data: bytes) -> None:
    """Put a file into the inbox that was written some time ago."""
    path = project.inbox / name
    path.write_bytes(data)
    settled = time.time() - 60
    os.utime(path, (settled, settled))
