"""``diagnostics`` → ``curated_training_set`` + ``curation_funnel``: what is worth training on.

A round's set holds the takeovers collected in it and in the rounds before it, so the newest set is the whole one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pyarrow.compute as pc

from handoff import actions
from handoff.adversary import INJECTION
from handoff.coevolution import hrs_threshold
from handoff.curation import (
    Built,
    Candidate,
    Choice,
    Episode,
    Rules,
    build_pair,
    build_samples,
    check_grounded,
    select,
    turning_step,
)
from handoff.identity import canonical_json, identify
from handoff.lake import Written
from handoff.project import Project
from handoff.quality import find_leak
from handoff.samples import Origin
from handoff.stages import inputs_of, round_number
from handoff.stages.adversary import briefing_at
from handoff.stages.handoffs import Handoffs
from handoff.stages.salvage import kept
from handoff.states.reader import StateReader
from handoff.takeover import read_transcript
from handoff.trajectory import Trajectory

SALVAGED_PER_TASK = 2
"""Salvaged samples of one task and basis: they stand beside the solved ones and never outnumber them by much."""
NOTES = ("summary", "structured")
"""Views that a predecessor can be taught to write."""
HRS_QUANTILE = 0.1
"""Share of the collected takeovers below which robustness is too low to imitate."""


def curated_training_set(project: Project, round: str) -> Written:
    """Choose among the collected takeovers and build their samples. The funnel is written before the set."""
    lake = project.lake
    upstream = [
        (table, partition)
        for table in ("takeover_runs", "diagnostics")
        for partition in lake.partitions(table)
        if round_number(partition["round"]) <= round_number(round)
    ]
    shards = {partition["shard"] for _, partition in upstream}
    upstream += [
        ("salvaged", p) for p in lake.partitions("salvaged") if round_number(p["round"]) <= round_number(round)
    ]
    upstream += [("run_quality", {"shard": shard}) for shard in sorted(shards)]
    inputs = inputs_of("curated_training_set", lake, *upstream)
    if current := lake.current("curated_training_set", inputs=inputs, round=round):
        return current
    with _Workshop(project) as workshop:
        rows, funnel = _curate(workshop, round)
    lake.write("curation_funnel", funnel, inputs=inputs, round=round)
    return lake.write("curated_training_set", rows, inputs=inputs, round=round)


def _curate(workshop: _Workshop, round: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    runs, measures = workshop.collected(round)
    episodes = {run["takeover_id"]: workshop.episode(run, measures.get(run["takeover_id"], {})) for run in runs}
    candidates = [workshop.candidate(run, episodes[run["takeover_id"]]) for run in runs]
    selection = select(candidates, Rules(min_hrs=_threshold(runs, measures, round)))
    seen: set[str] = set()
    rows: list[dict[str, Any]] = []
    funnel = list(selection.funnel)
    for choice in selection.choices:
        built = build_samples(episodes[choice.takeover_id], choice, seen=seen)
        rows += built.rows
        funnel += built.funnel
    for pair in selection.pairs:
        built = build_pair(episodes[pair.chosen], episodes[pair.rejected], pair, seen=seen)
        rows += built.rows
        funnel += built.funnel
    for built in workshop.salvaged(round, seen):
        rows += built.rows
        funnel += built.funnel
    rows.sort(key=lambda row: (row["kind"], row["sample_id"]))
    return rows, funnel


def _threshold(runs: Sequence[dict[str, Any]], measures: dict[str, dict[str, Any]], round: str) -> float | None:
    """The quantile of what each round achieved, never falling from one round to the next (docs/science.md §12)."""
    value: float | None = None
    for number in range(round_number(round) + 1):
        scores = [
            measures.get(run["takeover_id"], {}).get("hrs_f1")
            for run in runs
            if round_number(run["round"]) == number and run["solved"]
        ]
        value = hrs_threshold(scores, value, quantile=HRS_QUANTILE).value
    return value


class _Workshop:
    """Reads what episodes are made of; opens each shard once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._stack = ExitStack()
        self._shards: dict[str, Handoffs] = {}
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}

    def __enter__(self) -> _Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def collected(self, round: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
        """Takeovers that may feed a set, and takeover → metric → value."""
        lake = self._project.lake
        runs: list[dict[str, Any]] = []
        measures: dict[str, dict[str, Any]] = {}
        for partition in lake.partitions("takeover_runs"):
            if round_number(partition["round"]) > round_number(round):
                continue
            own = lake.rows("takeover_runs", None, pc.field("purpose") == "collect", **partition)
            if own:
                runs += own
                for row in lake.rows("diagnostics", ["takeover_id", "metric", "value"], None, **partition):
                    measures.setdefault(row["takeover_id"], {})[row["metric"]] = row["value"]
        unique = {run["takeover_id"]: run for run in reversed(runs)}
        return [unique[id_] for id_ in sorted(unique)], measures

    def episode(self, run: dict[str, Any], measures: dict[str, float | None]) -> Episode:
        """One takeover with its texts."""
        handoffs, point = self._at(run)
        view = self._table(run["shard"], "view_renderings", "view_id")[run["view_id"]]
        head = self._table(run["shard"], "raw_trajectories", "trajectory_id")[point["trajectory_id"]]
        steps = read_transcript(run["transcript"])
        is_plain = run["variant_id"] is None
        return Episode(
            origin=Origin.of(head, point, view, run),
            briefing=briefing_at(handoffs, point, run["view"], self._variant(run), run["view_id"])[0],
            steps=steps,
            solved=run["solved"],
            diagnosis=measures,
            state=state_record(point, handoffs.reader(point)) if is_plain else None,
            pivot=turning_step(actions.trajectory_keys(steps)),
            trace=handoffs.text(point, "trace") if is_plain and run["view"] in NOTES else None,
        )

    def candidate(self, run: dict[str, Any], episode: Episode) -> Candidate:
        """The same in numbers, with the groundedness of its actions."""
        _, point = self._at(run)
        briefing = episode.briefing
        given = (briefing.preamble, briefing.view_text, briefing.task, briefing.tools)
        grounding = check_grounded(episode.steps, actions.trajectory_keys(episode.steps), given)
        return Candidate(
            takeover_id=run["takeover_id"],
            point_id=run["point_id"],
            view_id=run["view_id"],
            variant_id=run["variant_id"],
            task_id=point["task_id"],
            repo=point["repo"],
            split=point["split"],
            purpose=run["purpose"],
            leak=known_history(self._table(run["shard"], "run_quality", "trajectory_id"), point, episode),
            is_injected=self._is_injected(run),
            solved=run["solved"],
            destroyed_fixes=run["destroyed_fixes"],
            steps=run["steps"],
            prompt_tokens=run["prompt_tokens"],
            remaining_steps=point["remaining_steps"],
            excess_cost=episode.diagnosis.get("excess_cost"),
            hrs=episode.diagnosis.get("hrs_f1"),
            is_grounded=grounding.is_grounded,
            grounding=grounding.evidence(),
            fingerprint=identify("i", canonical_json([step.actions for step in episode.steps])),
        )

    def salvaged(self, round: str, seen: set[str]) -> Iterator[Built]:
        """What was salvaged, through the gates that do not ask for a solved task; one of a point and basis, and at most
        ``SALVAGED_PER_TASK`` of a task."""
        project = self._project
        wanted = [name for name in ("relabelled", "recovery") if getattr(project.settings.salvage, name)]
        taken: Counter[tuple[str, str]] = Counter()
        points: set[tuple[str, str]] = set()
        for row in sorted(kept(project, round, wanted), key=_most_salvaged):
            task = (row["basis"], row["task_id"] or row["trajectory_id"])
            if (row["basis"], row["point_id"]) in points or taken[task] >= SALVAGED_PER_TASK:
                continue
            episode, destroyed = self._salvaged_episode(row)
            gates, problem = self._salvage_gates(row, episode, destroyed)
            if problem is not None:
                yield Built(rows=(), funnel=(problem,))
                continue
            taken[task] += 1
            points.add((row["basis"], row["point_id"]))
            choice = Choice(takeover_id=row["takeover_id"] or row["salvage_id"], because=row["reason"], gates=gates)
            yield build_samples(episode, choice, kinds=("sft",), seen=seen)

    def _salvaged_episode(self, row: Mapping[str, Any]) -> tuple[Episode, int | None]:
        """(the episode, correct hunks that it destroyed)."""
        if row["takeover_id"] is None:
            shard = row["shard"]
            handoffs = self._shard(shard)
            point = self._table(shard, "injected_handoffs", "point_id")[row["point_id"]]
            view = self._table(shard, "view_renderings", "view_id")[row["view_id"]]
            head = self._table(shard, "raw_trajectories", "trajectory_id")[point["trajectory_id"]]
            origin = msgspec.structs.replace(Origin.of(head, point, view), basis="recovery", provenance="recorded")
            steps = handoffs.trajectory(point).steps[row["first_step"] - 1 : row["last_step"]]
            briefing = handoffs.briefing(point, row["view"], row["view_id"])
            return Episode(origin=origin, briefing=briefing, steps=steps, solved=None), None
        run = next(  # the same one may have been planned in several rounds
            run
            for partition in self._project.lake.partitions("takeover_runs")
            if partition["shard"] == row["shard"]
            for run in self._runs(partition["round"], row["shard"])
            if run["takeover_id"] == row["takeover_id"]
        )
        episode = self.episode(run, {})
        told = msgspec.structs.replace(episode.briefing, task=row["statement"])
        origin = msgspec.structs.replace(episode.origin, basis="relabelled")
        episode = msgspec.structs.replace(episode, origin=origin, briefing=told, solved=True, state=None)
        return episode, run["destroyed_fixes"]

    def _salvage_gates(
        self, row: Mapping[str, Any], episode: Episode, destroyed: int | None
    ) -> tuple[dict[str, object], dict[str, Any] | None]:
        """(the gates passed, or the funnel row of the one that was not)."""
        point = self._table(row["shard"], "injected_handoffs", "point_id")[row["point_id"]]
        briefing = episode.briefing
        given = (briefing.preamble, briefing.view_text, briefing.task, briefing.tools)
        grounding = check_grounded(episode.steps, actions.trajectory_keys(episode.steps), given)
        leak = known_history(self._table(row["shard"], "run_quality", "trajectory_id"), point, episode)
        variant = episode.origin.variant_id
        is_injected = variant is not None and (
            INJECTION in self._table(row["shard"], "adversarial_variants", "variant_id")[variant]["families"]
        )
        gates: dict[str, object] = {"salvage": {"salvage_id": row["salvage_id"], "basis": row["basis"]}}
        limit = None
        if row["takeover_id"] is not None and point["remaining_steps"] is not None:
            limit = Rules().max_step_ratio * max(point["remaining_steps"], 1)
        steps = len(episode.steps)
        for gate, passes, evidence in (
            ("cost", limit is None or steps <= limit, {"steps": steps, "limit": limit}),
            ("history", leak is None, {"leak": leak}),
            ("injection", not is_injected, {"is_injected": is_injected}),
            ("destroyed_fixes", not destroyed, {"destroyed_fixes": destroyed}),
            ("groundedness", grounding.is_grounded is True, grounding.evidence()),
        ):
            if not passes:
                return {}, {
                    "takeover_id": row["takeover_id"],
                    "point_id": row["point_id"],
                    "gate": gate,
                    "verdict": "dropped",
                    "evidence": canonical_json({"salvaged": row["basis"], **evidence}).decode(),
                }
            gates[gate] = evidence
        return gates, None

    def _runs(self, round: str, shard: str) -> list[dict[str, Any]]:
        name = f"{shard}/takeover_runs/{round}"
        if name not in self._rows:
            rows = self._project.lake.rows("takeover_runs", round=round, shard=shard)
            self._rows[name] = {row["takeover_id"]: row for row in rows}
        return list(self._rows[name].values())

    def _at(self, run: dict[str, Any]) -> tuple[Handoffs, dict[str, Any]]:
        point = self._table(run["shard"], "injected_handoffs", "point_id")[run["point_id"]]
        return self._shard(run["shard"]), point

    def _variant(self, run: dict[str, Any]) -> dict[str, Any] | None:
        if run["variant_id"] is None:
            return None
        return self._table(run["shard"], "adversarial_variants", "variant_id")[run["variant_id"]]

    def _is_injected(self, run: dict[str, Any]) -> bool:
        variant = self._variant(run)
        return variant is not None and INJECTION in variant["families"]

    def _shard(self, shard: str) -> Handoffs:
        if shard not in self._shards:
            self._shards[shard] = self._stack.enter_context(Handoffs(self._project, shard))
            self._shards[shard].load(self._table(shard, "raw_trajectories", "trajectory_id"))
        return self._shards[shard]

    def _table(self, shard: str, table: str, key: str) -> dict[str, dict[str, Any]]:
        name = f"{shard}/{table}"
        if name not in self._rows:
            self._rows[name] = {row[key]: row for row in self._project.lake.rows(table, shard=shard)}
        return self._rows[name]


def _most_salvaged(row: Mapping[str, Any]) -> tuple[int, int, str]:
    """What achieved most in fewest steps comes first."""
    return (row["failing_after"] - row["failing_before"], row["last_step"] - row["first_step"], row["salvage_id"])


def known_history(qualities: Mapping[str, Mapping[str, Any]], point: Mapping[str, Any], episode: Episode) -> str | None:
    """Why the recorded run, or the takeover itself, may have known the project's later history (docs/science.md §14).

    ``qualities``: rows of ``run_quality`` by trajectory.
    """
    recorded = qualities.get(point["trajectory_id"])
    if recorded is not None and recorded["leak_step"] is not None:
        return f"the recorded run, step {recorded['leak_step']}: {recorded['leak']}"
    own = Trajectory(
        format="takeover",
        task=episode.briefing.task,
        task_id=point["task_id"] or point["point_id"],
        repo=point["repo"],
        base_commit=point["base_commit"],
        steps=episode.steps,
    )
    found = find_leak(own)
    return None if found is None else f"the takeover, step {found.step}: {found.rule}: {found.reason}"


def state_record(point: dict[str, Any], reader: StateReader | None) -> dict[str, object] | None:
    """What is known of the state at h, for the reconstruction target (docs/science.md §11); ``None``: nothing."""
    if reader is None or not point["state_is_derived"]:
        return None
    tests_pass = {"already_solved": True, "needs_completion": False, "regressed": False}.get(point["state_class"] or "")
    done = [entry["node"] for entry in point["nodes"] or () if entry["done"]]
    return {
        "changed_files": list(reader.changed(point["h"])),
        "done": sorted(done) if point["nodes"] else None,
        "tests_pass": tests_pass,
    }
