"""``view_renderings`` → ``recorded_samples`` + ``recorded_funnel``: the rest of recorded runs as what a successor did.

Nobody took over there: the recording goes on, and what its agent did after the point is what a successor should do,
under a view that tells enough for it (``docs/science.md §11``). Runs of the embedded world are left out, since
takeovers are really executed there. A shard is read in one pass, whatever its size.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from handoff import actions, corpus
from handoff.actions.paths import context_of
from handoff.curation import Choice, Decision, Episode, build_samples, decide, declared_tools, turning_step
from handoff.evidence import gather_evidence
from handoff.identity import canonical_json
from handoff.lake import Written
from handoff.project import Project, RecordedSettings
from handoff.samples import Kind, Origin
from handoff.stages import inputs_of, is_embedded
from handoff.stages.choosing import choose_points
from handoff.stages.curation import state_record
from handoff.stages.handoffs import States, view_ids
from handoff.states.reader import StateReader
from handoff.successors import Briefing
from handoff.trajectory import Trajectory
from handoff.views import RECORDED, preamble, render_view

POOREST_FIRST = ("repo", "summary", "structured", "trace")
"""The views in the order in which a sample is moved to a richer one."""
KINDS: tuple[Kind, ...] = ("sft", "pivot", "env_prediction", "state_reconstruction")
"""What the rest of a recorded run gives. A start to roll out from is none: its tests may not be at hand."""
SPLITS = ("train", "validation")


def recorded_samples(project: Project, shard: str) -> Written:
    """The samples of one shard's recorded runs. Only new rows are written."""
    lake, own = project.lake, project.settings.recorded
    tables = ("raw_trajectories", "repository_states", "injected_handoffs", "view_renderings", "run_quality")
    upstream = [(table, {"shard": shard}) for table in tables]
    inputs = inputs_of("recorded_samples", lake, *upstream, settings=(own, project.settings.seed))
    current = lake.current("recorded_samples", inputs=inputs, shard=shard)
    if current and lake.current("recorded_funnel", inputs=inputs, shard=shard):
        return current
    funnel: list[dict[str, Any]] = []
    written = lake.write("recorded_samples", _rows(project, shard, own, funnel), inputs=inputs, shard=shard)
    lake.write("recorded_funnel", funnel, inputs=inputs, shard=shard)
    return written


def _rows(
    project: Project, shard: str, own: RecordedSettings, funnel: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    lake = project.lake
    views = view_ids(lake.rows("view_renderings", ["point_id", "view", "view_id", "tokens", "writing"], shard=shard))
    points = lake.rows("injected_handoffs", shard=shard)
    chosen = _choose([point for point in points if not is_embedded(point["repo"])], views, own, project.settings.seed)
    qualities = {row["trajectory_id"]: row for row in lake.rows("run_quality", shard=shard)}
    heads = {
        row["trajectory_id"]: row
        for row in lake.rows("raw_trajectories", _HEAD, shard=shard)
        if row["trajectory_id"] in chosen
    }
    taken: Counter[str] = Counter()
    seen: set[str] = set()
    turns = itertools.count()
    with States(project, shard) as states:
        for id_, run in corpus.trajectories(lake, shard, chosen):
            reader = states.of(id_, run.repo)
            for point in chosen[id_]:
                wanted = _wanted(point, views, next(turns))
                candidate = _Candidate(run, heads[id_], point, views, reader)
                gates, dropped = candidate.gates(wanted, own, qualities, taken)
                if dropped is not None:
                    funnel.append(dropped)
                    continue
                taken[_task(point)] += 1
                choice = Choice(takeover_id="", because=candidate.because, gates=gates)
                built = build_samples(candidate.episode, choice, kinds=KINDS, seen=seen)
                funnel.extend(built.funnel)
                funnel.append(_gate(point, "selected", "kept" if built.rows else "dropped", gates))
                yield from built.rows


_HEAD = [
    "trajectory_id", "file", "record", "source_sha256", "format", "agent", "model", "licence", "resolved",
]  # fmt: skip


def _choose(
    points: Sequence[Mapping[str, Any]], views: Mapping[tuple[str, str], str], own: RecordedSettings, seed: int
) -> dict[str, list[Mapping[str, Any]]]:
    """Trajectory → its points: first those where something was really handed over, then one a label."""
    if not own.per_run:
        return {}
    chosen: dict[str, dict[str, Mapping[str, Any]]] = {}
    handed = [point for point in points if (point["point_id"], RECORDED) in views]
    for point in (*handed, *choose_points(points, own.per_run, seed, unknown=True)):
        mine = chosen.setdefault(point["trajectory_id"], {})
        if len(mine) < own.per_run:
            mine.setdefault(point["point_id"], point)
    return {id_: sorted(mine.values(), key=lambda point: point["h"]) for id_, mine in sorted(chosen.items())}


def _wanted(point: Mapping[str, Any], views: Mapping[tuple[str, str], str], turn: int) -> str:
    """The view of a sample: what was really handed over, else the four in turn."""
    return RECORDED if (point["point_id"], RECORDED) in views else POOREST_FIRST[turn % len(POOREST_FIRST)]


def _task(point: Mapping[str, Any]) -> str:
    return str(point["task_id"] or point["trajectory_id"])


class _Candidate:
    """One point of a recorded run, and the rest of the run."""

    def __init__(
        self,
        run: Trajectory,
        head: Mapping[str, Any],
        point: Mapping[str, Any],
        views: Mapping[tuple[str, str], str],
        reader: StateReader | None,
    ) -> None:
        self._run = run
        self._head = head
        self._point = point
        self._views = views
        self._reader = reader
        self._steps = run.steps[point["h"] :]
        self._keys = actions.trajectory_keys(run.steps, context=context_of(run.format, run.source))[point["h"] :]
        self._view = ""
        self._tools = declared_tools(run)

    def gates(
        self,
        wanted: str,
        own: RecordedSettings,
        qualities: Mapping[str, Mapping[str, Any]],
        taken: Mapping[str, int],
    ) -> tuple[dict[str, object], dict[str, Any] | None]:
        """(the gates passed, or the funnel row of the one that was not); outcome before all that is about style."""
        point, resolved = self._point, self._head["resolved"]
        quality = qualities.get(point["trajectory_id"])
        cap = {"task": _task(point), "cap": own.per_task}
        gates: dict[str, object] = {}
        for gate, passes, evidence in (
            ("split", point["split"] in SPLITS, {"split": point["split"]}),
            ("outcome", resolved is True or (resolved is None and own.unjudged), {"resolved": resolved}),
            ("history", quality is None or quality["leak_step"] is None, {"leak": quality and quality["leak"]}),
            ("task_cap", taken.get(_task(point), 0) < own.per_task, cap),
        ):
            if not passes:
                return {}, _gate(point, gate, "dropped", evidence)
            gates[gate] = evidence
        decision = self._decide(wanted)
        evidence = {"wanted": wanted, "view": decision.view, **decision.grounding.evidence()}
        if decision.view is None:
            return {}, _gate(point, "groundedness", "dropped", evidence)
        self._view = decision.view
        gates["groundedness"] = {"verdict": decision.verdict, **evidence}
        gates["tools"] = {"inferred": list(self._tools.inferred)}
        return gates, None

    def _decide(self, wanted: str) -> Decision:
        order = [*([wanted] if wanted == RECORDED else []), *POOREST_FIRST]
        given = {view: self._given(view) for view in order if (self._point["point_id"], view) in self._views}
        return decide(wanted, self._steps, self._keys, given)

    def _given(self, view: str) -> tuple[str, ...]:
        briefing = self._briefing(view)
        return briefing.preamble, briefing.view_text, briefing.task, briefing.tools, briefing.system

    def _briefing(self, view: str) -> Briefing:
        run, h = self._run, self._point["h"]
        evidence = gather_evidence(run, h, self._reader) if view in ("summary", "structured") else None
        text = render_view(view, run, h, evidence, self._reader)
        return Briefing(
            task=run.task,
            view=view,
            view_text=text,
            preamble=preamble(run, h),
            tools=self._tools.tools,
            system="\n\n".join(message.text for message in run.preamble if message.role == "system"),
        )

    @property
    def episode(self) -> Episode:
        """The rest of the run under the view that was decided on."""
        view = {"view": self._view, "view_id": self._views[self._point["point_id"], self._view]}
        origin = Origin.of(self._head, self._point, view)
        return Episode(
            origin=msgspec.structs.replace(origin, basis="recorded", provenance="recorded"),
            briefing=self._briefing(self._view),
            steps=self._steps,
            solved=self._head["resolved"],
            state=state_record(dict(self._point), self._reader),
            pivot=turning_step(self._keys),
        )

    @property
    def because(self) -> str:
        """Why it is in the set."""
        solved = "solved its task" if self._head["resolved"] else "is not known to have failed"
        return f"the rest of a recorded run that {solved}, after step {self._point['h']}, under {self._view}"


def _gate(point: Mapping[str, Any], gate: str, verdict: str, evidence: Mapping[str, object]) -> dict[str, Any]:
    return {
        "takeover_id": None,
        "point_id": point["point_id"],
        "gate": gate,
        "verdict": verdict,
        "evidence": canonical_json(dict(evidence)).decode(),
    }
