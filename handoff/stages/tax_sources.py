"""The sources of a tax study: both models on every task alone, and their work trees after each step."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import msgspec

from handoff.diagnosis.robustness import task_of
from handoff.errors import StateError
from handoff.git.repositories import Repository
from handoff.identity import identify
from handoff.kata.lab import KataLab
from handoff.kata.pool import run_many
from handoff.project import Project
from handoff.stages import is_embedded
from handoff.stages.handoffs import States
from handoff.stages.judges import images_by_task, surroundings_of
from handoff.stages.places import RealPlace, check_walls
from handoff.stages.study_runs import Agent, Place, budget_of, job_of, shards_of
from handoff.stages.takeovers import Job
from handoff.states.reader import StateReader, StoredStates
from handoff.studies.design import TaxStudy
from handoff.successors import Briefing
from handoff.takeover import Environment, read_transcript
from handoff.tokens import count_tokens, prompt_lengths
from handoff.trajectory import Action, Message, Outcome, Step, Trajectory
from handoff.views import view_identity


class TaskAt(NamedTuple):
    """One task, as both models get it."""

    place: Place
    base_tree: str
    statement: str
    tools: str


class Source(NamedTuple):
    """One single session with its row."""

    task: TaskAt
    is_high: bool
    repetition: int
    job: Job
    row: Mapping[str, Any]

    @property
    def direction(self) -> str:
        """What it is when this session is cut."""
        return "downshift" if self.is_high else "escalation"


def tasks_of(project: Project, study: TaxStudy) -> list[TaskAt]:
    """The tasks of a study whose base commit is known, by name; each once, however often it was recorded."""
    found: dict[str, TaskAt] = {}
    for shard in shards_of(project, study.tasks):
        images = images_by_task(project, shard)
        heads = project.lake.rows(
            "raw_trajectories", ["trajectory_id", "task_id", "task", "split", "tools"], shard=shard
        )
        with States(project, shard) as states:
            for head in sorted(heads, key=lambda row: str(row["trajectory_id"])):
                place = states.place(head["trajectory_id"])
                is_wanted = bool(study.tasks) or (head["split"] == "test" and is_embedded(place.get("repo")))
                if not place or not is_wanted:
                    continue
                repo, task_id = place["repo"], task_of(head)
                where = "" if is_embedded(repo) else surroundings_of(project, repo, task_id, images).digest
                at = Place(task_id, repo, place["base_commit"], shard, where)
                tree = states.repository(at.repo).tree_of(at.base_commit)
                found.setdefault(at.task_id, TaskAt(at, tree, head["task"], head["tools"] or "[]"))
    return [found[task] for task in sorted(found)][: study.most_tasks]


def single_jobs(
    project: Project, study: TaxStudy, agents: Mapping[bool, Agent], tasks: Sequence[TaskAt]
) -> Iterator[tuple[TaskAt, bool, int, Job]]:
    """(task, is it the high-capability model, repetition, job) of every single session, in a fixed order."""
    for task, is_high, repetition in product(tasks, (False, True), range(study.seeds)):
        point_id = identify("p", "single session", task.place.task_id, task.place.repo, task.place.base_commit)
        job = job_of(
            project,
            agents[is_high],
            task.place,
            point_id=point_id,
            view_id=view_identity(point_id, "repo", None, None),
            view="repo",
            tree=task.base_tree,
            briefing=Briefing(task=task.statement, view="repo", view_text="", preamble="", tools=task.tools),
            repetition=repetition,
            budget=budget_of(project, agents[is_high]),
        )
        yield task, is_high, repetition, job


Done: TypeAlias = tuple[Job, tuple[Step, ...]]
"""A session's job and what it did."""


def trees_of(project: Project, sessions: Sequence[Done]) -> Iterator[list[str]]:
    """The tree after each step of each session; no tree at all where one of its steps left no state."""
    settings = project.settings
    embedded = run_many(
        carry_out,
        [done for done in sessions if done[0].is_embedded],
        data=project.root,
        sandbox=settings.sandbox,
        workers=settings.workers,
    )
    for done in sessions:
        if done[0].is_embedded:
            yield next(embedded)
        else:
            with RealPlace(project, done[0]) as place:
                yield _carried_out(place.environment(), done[1], ends_shell=True)


def carry_out(lab: KataLab, done: Done) -> list[str]:
    """The trees of one session of the embedded world, in a worker. ``SandboxError``: a model's commands would be
    carried out again outside a sandbox."""
    job, steps = done
    check_walls(lab, is_own=job.named is None)
    return _carried_out(lab.environment(job.repo, job.base_commit, job.tree), steps)


_KEPT = "pwd && export -p"


def _bash(command: str) -> Action:
    return Action(tool="bash", arguments=msgspec.json.encode({"command": command}).decode())


def _carried_out(environment: Environment, steps: Sequence[Step], *, ends_shell: bool = False) -> list[str]:
    """The tree after each step, its actions carried out again; none where one left no state. The environment is
    closed.

    ``ends_shell``: reading the tree ends the shell, as it must where anybody's code may run on. The next one begins in
    the same folder with the same exported variables; what else a shell keeps is lost, and shows in another end.
    """
    trees: list[str] = []
    has_shell = False
    try:
        for step in steps:
            for action, seen in zip(step.actions, step.observations, strict=False):
                if seen.missing != "not_executed":
                    environment.act(action)
                    has_shell = has_shell or action.tool == "bash"
            kept = environment.act(_bash(_KEPT)).text if ends_shell and has_shell and not environment.is_over else ""
            trees.append(environment.tree())
            folder, _, exported = kept.partition("\n")
            if folder:
                environment.act(_bash(f"{exported}\ncd -- {shlex.quote(folder)}"))
    except StateError:
        return []
    finally:
        environment.close()
    return trees


def trajectory_of(source: Source) -> Trajectory:
    """A single session as a recorded run."""
    task = source.task
    return Trajectory(
        format="chat",
        task_id=task.place.task_id,
        task=task.statement,
        repo=task.place.repo,
        base_commit=task.place.base_commit,
        agent=source.job.start.arm,
        tools=task.tools,
        preamble=(Message(role="user", text=task.statement),),
        steps=read_transcript(source.row["transcript"]),
        outcome=Outcome(resolved=source.row["solved"]),
    )


def reader_of(repository: Repository, source: Source, trees: Sequence[str]) -> StateReader:
    """The states of a session. ``trees``: after each of its steps."""
    commits = [source.task.place.base_commit, *[None] * len(trees)]
    rows = [
        {"step": step, "tree": tree, "commit": commit, "status": "verified", "is_derived": True}
        for step, (tree, commit) in enumerate(zip([source.task.base_tree, *trees], commits, strict=True))
    ]
    return StoredStates(repository, rows)


class Spent(NamedTuple):
    """What a session had spent by the end of a step."""

    prompt: int
    completion: int
    dollars: float | None


def spent_until(row: Mapping[str, Any], trajectory: Trajectory, h: int) -> Spent:
    """What a session spent in its first h calls, counted as its row counts the whole (``docs/science.md §9``)."""
    lengths = prompt_lengths(trajectory)
    told = row["first_prompt_tokens"] - lengths[0]  # instructions that the recording does not hold
    written = sum(
        count_tokens(step.text)
        + count_tokens(step.thought)
        + sum(count_tokens(action.tool) + count_tokens(action.arguments) for action in step.actions)
        for step in trajectory.steps[:h]
    )
    costs = [step.cost for step in trajectory.steps[:h]]
    known = [cost for cost in costs if cost is not None]
    return Spent(sum(lengths[:h]) + told * h, written, sum(known) if len(known) == h else None)
