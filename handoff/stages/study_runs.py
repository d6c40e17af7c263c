"""What both studies share: who acts, on which tasks, a run as a job, and its row (``handoff/studies``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from handoff.endpoints import Endpoint
from handoff.errors import InputError
from handoff.identity import identify
from handoff.lake import SCHEMAS
from handoff.project import Project
from handoff.stages import is_embedded, round_number
from handoff.stages.named import digest_of, endpoint_of, model_of
from handoff.stages.takeovers import LEARNED, Job, Start
from handoff.studies.planning import Past, past_of
from handoff.successors import Briefing
from handoff.takeover import Budget, takeover_identity

REFERENCES = ("expert", "oracle")
"""Successors of the embedded world that are not trained and may stand in a study."""
TABLES = ("debt_runs", "tax_runs")


class Agent(NamedTuple):
    """Who acts in a study."""

    name: str
    digest: str
    policy: str | None
    """Weights below the policies folder."""
    is_named: bool
    """The settings describe it: a model on an endpoint, or a command."""
    endpoint: Endpoint | None
    """Whose model it uses. ``None``: those of the embedded world, and a command without a model."""

    def price(self, prompt_tokens: float, completion_tokens: float) -> float | None:
        """US dollars of a run at most; 0 for whoever asks no endpoint, ``None`` without prices."""
        if self.endpoint is None:
            return 0.0
        return self.endpoint.cost(round(prompt_tokens), 0, round(completion_tokens))


def agent_of(project: Project, name: str) -> Agent:
    """The agent of that name. ``InputError`` when there is none, or none yet."""
    from handoff.kata.roster import Roster

    if name in project.settings.successors:
        endpoint = endpoint_of(project, name) if model_of(project, name) else None
        return Agent(name, digest_of(project, name), None, True, endpoint)
    if name in REFERENCES:
        return Agent(name, Roster.digest(name), None, False, None)
    if name not in LEARNED:
        known = ", ".join((*LEARNED, *REFERENCES, *sorted(project.settings.successors)))
        place = project.root / "handoff.toml"
        raise InputError(f"no successor {name!r}: describe it under [successors.{name}] in {place}; there are: {known}")
    rows = [row for row in project.lake.rows("policy") if row["arm"] == name]
    if not rows:
        raise InputError(
            f"no policy {name!r} was trained in {project.root}; run `handoff demo` first, which trains it, or name "
            "[successors.NAME] with --successor, or with --low and --high"
        )
    newest = max(rows, key=lambda row: round_number(row["round"]))
    return Agent(name, newest["policy_id"], newest["path"], False, None)


def shards_of(project: Project, named: Sequence[str]) -> list[str]:
    """The shards of a study: those named, else every shard. ``InputError`` for one that is not read."""
    known = [partition["shard"] for partition in project.lake.partitions("injected_handoffs")]
    if missing := [name for name in named if name not in known]:
        listed = ", ".join(known) or "none yet; run `handoff demo` or `handoff ingest`"
        raise InputError(f"no shard {missing[0]!r} in {project.root}; shards are: {listed}")
    if not known:
        raise InputError(f"nothing is read in {project.root}; run `handoff demo` first, or `handoff ingest FILES`")
    return sorted(set(named)) or known


def budget_of(project: Project, agent: Agent) -> Budget:
    """What one run of an agent may spend."""
    settings = project.settings
    return Budget(
        steps=settings.step_budget,
        prompt_tokens=settings.token_budget,
        dollars=settings.dollar_budget if agent.endpoint is not None else None,
    )


class Place(NamedTuple):
    """Where a run takes place."""

    task_id: str
    repo: str
    base_commit: str
    shard: str
    surroundings: str
    """``Surroundings.digest``: what is special about where commands run there."""


def job_of(
    project: Project,
    agent: Agent,
    place: Place,
    *,
    point_id: str,
    view_id: str,
    view: str,
    tree: str,
    briefing: Briefing,
    repetition: int,
    budget: Budget,
    note_tokens: int = 0,
) -> Job:
    """One run of a study. Its seed hangs on the project's, the point, the view and the repetition, not on the agent:
    agents that draw alike draw alike."""
    seed = int(identify("k", "study", project.settings.seed, repetition, point_id, view)[2:10], 16)
    check_place(agent, place)
    start = Start(
        point_id=point_id,
        view_id=view_id,
        variant_id=None,
        view=view,
        tier=None,
        purpose="evaluate",
        arm=agent.name,
        seed=seed,
    )
    return Job(
        start=start,
        takeover_id=takeover_identity(point_id, view_id, None, agent.digest, seed, budget, place.surroundings),
        policy=agent.policy,
        repo=place.repo,
        base_commit=place.base_commit,
        point_tree=tree,
        tree=tree,
        briefing=briefing,
        question=None,
        suffix=(),
        named=agent.name if agent.is_named else None,
        shard=place.shard,
        task_id=place.task_id,
        budget=budget,
        data=project.root,
        note_tokens=note_tokens,
    )


def check_place(agent: Agent, place: Place) -> None:
    """``InputError`` when an agent cannot act there."""
    if not agent.is_named and not is_embedded(place.repo):
        raise InputError(
            f"{agent.name!r} acts in the embedded world only, and {place.task_id} is a task of {place.repo}; name a "
            "successor that is described under [successors.NAME]"
        )


def run_row(table: str, row: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A row of ``debt_runs`` or ``tax_runs`` from one of ``takeover_runs``; ``more`` goes before it."""
    return {name: more[name] if name in more else row.get(name) for name in SCHEMAS[table].names}


def page_of(project: Project, name: str) -> Path:
    """Where a study's page lies."""
    return project.reports / "studies" / name / "index.html"


def past_runs(project: Project) -> list[Past]:
    """What runs in the lake spent, for expectations."""
    columns = ["arm", "view", "steps", "prompt_tokens", "completion_tokens", "variant_id"]
    rows = [row for table in ("takeover_runs", *TABLES) for row in project.lake.rows(table, columns)]
    return past_of(rows)


def known_runs(project: Project, ids: Iterable[str]) -> frozenset[str]:
    """Which of these runs are recorded by a study already."""
    there = {row["takeover_id"] for table in TABLES for row in project.lake.rows(table, ["takeover_id"])}
    return frozenset(there & set(ids))
