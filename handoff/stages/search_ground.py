"""One recorded run as the ground of a search for its worst point: its steps, and how takeovers at them are made.

A takeover there is a job like any other (``takeovers.py``), journaled by all that decides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from handoff.adversary.search import Run
from handoff.adversary.surrogates import COMBINED, ENTROPY, LOGPROB, TRIAL, combined, heuristics, mean_ranks
from handoff.diagnosis.cost import Cap, excess_cost
from handoff.endpoints import Endpoint
from handoff.errors import InputError, StateError
from handoff.identity import identify
from handoff.kata.mind import Mind
from handoff.kata.policy import Policy
from handoff.kata.pool import Progress
from handoff.kata.record import load_prior, prior_path
from handoff.points import Point, find_handoff_points
from handoff.project import TAKEN_NAMES, Project
from handoff.stages.handoffs import Handoffs
from handoff.stages.named import described
from handoff.stages.takeovers import LEARNED, Job, Start, make_job, run_jobs
from handoff.views import RULES, lacking, parse_view, view_row

RICHEST = "trace"
"""The view under which a candidate has to be solvable."""
ATTEMPTS = 3
"""Runs under it, of which one has to solve the task."""


Guess: TypeAlias = Literal["auto", "uncertainty", "heuristics"]
"""What may foretell cost beside the takeover with the whole trace."""


class Solvable(NamedTuple):
    """What takeovers under the richest view say of the steps, by h."""

    solved: tuple[int, ...]
    """At least one takeover solved the task."""
    unsolved: tuple[int, ...]
    """All were judged, and none did."""
    unjudged: tuple[int, ...]
    """None that was judged did, and some could not be judged."""
    trials: int
    """Takeovers that it took."""
    first: Mapping[int, Mapping[str, Any]]
    """The first takeover at each step."""


class Guesses(NamedTuple):
    """What may foretell the cost of some steps, taken together."""

    kind: str
    """What they are, in words."""
    values: list[float | None]
    """Mean rank of each step, 0 (easiest) to 1; ``None``: there is no guess."""
    parts: dict[str, Sequence[float | None]]
    """Each of them by name, on its own scale."""
    note: str
    """What could not be had; empty when nothing."""


class Ground:
    """One run, and how takeovers at its steps are made."""

    def __init__(
        self,
        project: Project,
        handoffs: Handoffs,
        shard: str,
        trajectory_id: str,
        arm: str,
        round: str | None,
        progress: Progress | None = None,
    ) -> None:
        """``InputError``: no such successor, or no policy of that name was trained."""
        self._project = project
        self._handoffs = handoffs
        self._shard = shard
        self._id = trajectory_id
        self._arm = arm
        self._policies = policies_of(project, arm, round)
        self._progress = progress
        self.trajectory = handoffs.trajectory({"trajectory_id": trajectory_id})
        self._rows: dict[str, Mapping[str, Any]] = {}

    def points(self) -> dict[int, Mapping[str, Any]]:
        """Rows as of ``injected_handoffs``, by h: every step that has a known state."""
        states = self._handoffs.states
        reader = states.of(self._id, self.trajectory.repo)
        place = states.place(self._id)
        if reader is None or not place:
            return {}
        found: dict[int, Mapping[str, Any]] = {}
        for point in find_handoff_points(self.trajectory, self._id, reader, labels=(), every_k=1):
            if point.tree is not None and point.state_is_derived:
                row = self._row(point, place)
                found[point.h] = self._rows[row["point_id"]] = row
        return found

    def _row(self, point: Point, place: Mapping[str, Any]) -> dict[str, Any]:
        return {**point.row(), **place, "shard": self._shard}

    def require_view(self, points: Mapping[int, Mapping[str, Any]], view: str) -> None:
        """``InputError`` when the view cannot be had at one of the steps."""
        reasons = {h: self._lacking(points[h], view) for h in sorted(points)}
        without = [h for h, reason in reasons.items() if reason]
        if without:
            raise InputError(
                f"the {view} view cannot be had at {len(without)} of the {len(points)} steps that may be the worst "
                f"({_listed(without)}): {reasons[without[0]]}"
            )

    def _lacking(self, row: Mapping[str, Any], view: str) -> str:
        return lacking(parse_view(view), self.trajectory, row["h"], self._handoffs.reader(row))

    def guesses(
        self, rows: Sequence[Mapping[str, Any]], first: Mapping[int, Mapping[str, Any]], guess: Guess = "auto"
    ) -> Guesses:
        """What may foretell the cost of these steps. ``first``: a takeover under the richest view at each.

        ``auto`` is ``uncertainty`` for models on endpoints and ``heuristics`` for all others: a policy's entropy
        goes with cost in one world and against it in another (``bench/worst_point.py``).
        """
        is_policy = self._arm in self._policies
        trials = [self._cost(first[row["h"]], row) for row in rows]
        if guess == "heuristics" or (guess == "auto" and is_policy):
            kind, own, note = COMBINED, self._heuristics(rows), ""
        else:
            kind, own, note = self._uncertainty(rows, first)
        parts = {TRIAL: trials, kind: own}
        return Guesses(" + ".join(parts), mean_ranks(list(parts.values())), parts, note)

    def _heuristics(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[float | None]:
        return combined([self.heuristics(row) for row in rows])

    def _uncertainty(
        self, rows: Sequence[Mapping[str, Any]], first: Mapping[int, Mapping[str, Any]]
    ) -> tuple[str, Sequence[float | None], str]:
        """(kind, value of each step, what could not be had): the successor's own where it tells, else heuristics."""
        if self._arm in self._policies:
            policy = self._policy()
            return ENTROPY, [policy.entropy(Mind(self.job(row, RICHEST, 0).briefing)) for row in rows], ""
        logprobs = [first[row["h"]]["first_logprob"] for row in rows]
        if rows and None not in logprobs:
            return LOGPROB, [-value for value in logprobs], ""
        if isinstance(self._project.settings.successors.get(self._arm), Endpoint):
            note = "the endpoint returns no log-probabilities"
        else:
            note = f"{self._arm} does not tell how uncertain it is"
        return COMBINED, self._heuristics(rows), f"{note}: named heuristics stand in"

    def _policy(self) -> Policy:
        return policy_at(self._project, self._policies[self._arm]["path"])

    def heuristics(self, row: Mapping[str, Any]) -> Mapping[str, float]:
        """The named guesses at one step."""
        reader = self._handoffs.reader(row)
        try:
            diff = None if reader is None else reader.diff(row["h"])
        except StateError:
            diff = None
        return heuristics(self.trajectory, row["h"], self._handoffs.evidence(row), diff)

    def solvable(self, points: Mapping[int, Mapping[str, Any]]) -> Solvable:
        """Which steps one of ``ATTEMPTS`` takeovers under the richest view solves.

        ``InputError`` when of no step it is known, since nobody could judge.
        """
        solved: set[int] = set()
        unjudged: set[int] = set()
        trials = 0
        is_judged = False
        note = ""
        first: dict[int, Mapping[str, Any]] = {}
        for number in range(ATTEMPTS):
            left = [h for h in sorted(points) if h not in solved]
            rows = self.run([(points[h], RICHEST, number) for h in left], asks_logprobs=number == 0)
            trials += len(rows)
            first = first or dict(zip(left, rows, strict=True))
            for h, row in zip(left, rows, strict=True):
                if row["solved"] is None:
                    unjudged.add(h)
                    note = note or row["note"]
                else:
                    is_judged = True
                    solved |= {h} if row["solved"] else set()
        if not is_judged:
            raise InputError(f"whether {self._arm!r} solves the task cannot be told: {note}")
        unjudged -= solved
        return Solvable(
            solved=tuple(sorted(solved)),
            unsolved=tuple(sorted(points.keys() - solved - unjudged)),
            unjudged=tuple(sorted(unjudged)),
            trials=trials,
            first=first,
        )

    def costs(self, runs: Sequence[Run], view: str) -> list[float | None]:
        """Excess cost of each run."""
        rows = self.run([(self._rows[run.point_id], view, run.number) for run in runs])
        return [self._cost(row, self._rows[run.point_id]) for run, row in zip(runs, rows, strict=True)]

    def _cost(self, row: Mapping[str, Any], point: Mapping[str, Any]) -> float | None:
        settings = self._project.settings
        return excess_cost(
            solved=row["solved"],
            steps=row["steps"],
            prompt_tokens=row["prompt_tokens"],
            remaining_steps=point["remaining_steps"],
            remaining_prompt_tokens=point["remaining_prompt_tokens"],
            cap=Cap(steps=settings.step_budget, prompt_tokens=settings.token_budget),
        ).value

    def run(
        self, wanted: Sequence[tuple[Mapping[str, Any], str, int]], *, asks_logprobs: bool = False
    ) -> list[dict[str, Any]]:
        """Rows as of ``takeover_runs`` of takeovers at (point, view, number of the run), in order."""
        jobs = [
            msgspec.structs.replace(self.job(row, view, number), asks_logprobs=asks_logprobs)
            for row, view, number in wanted
        ]
        return list(run_jobs(self._project, jobs, self._progress))

    def job(self, row: Mapping[str, Any], view: str, number: int) -> Job:
        """One takeover at a step, with no probe."""
        point_id = row["point_id"]
        text = self._handoffs.text(row, view)
        start = Start(
            point_id=point_id,
            view_id=view_row(point_id, view, text, author=RULES)["view_id"],
            variant_id=None,
            view=view,
            tier=None,
            purpose="search",
            arm=self._arm,
            seed=int(identify("k", self._project.settings.seed, "worst", self._arm, point_id, view, number)[2:10], 16),
        )
        job = make_job(self._project, self._handoffs, start, row, {}, self._policies)
        return msgspec.structs.replace(job, question=None)


def policy_at(project: Project, path: str) -> Policy:
    """The policy whose weights are at a path of table ``policy``."""
    return Policy.load(project.policies / path, load_prior(prior_path(project.root)))


def _listed(steps: Sequence[int]) -> str:
    return f"step {', '.join(map(str, steps[:5]))}{' …' if len(steps) > 5 else ''}"


def policies_of(project: Project, arm: str, round: str | None) -> dict[str, Mapping[str, Any]]:
    """The trained policy of that name, of ``round`` or of the latest round that has it; none for other successors."""
    if arm not in LEARNED:
        if arm not in TAKEN_NAMES:
            described(project, arm)  # says what there is when nobody has this name
        return {}
    rounds = [round] if round else sorted((p["round"] for p in project.lake.partitions("policy")), reverse=True)
    for name in rounds:
        for row in project.lake.rows("policy", round=name):
            if row["arm"] == arm:
                return {arm: row}
    raise InputError(
        f"no policy {arm!r} was trained{f' in {round}' if round else ''}; run a round first: `handoff demo`"
    )
