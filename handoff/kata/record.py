"""Recording the kata world: single sessions, really executed, written as chat rows into the inbox.

``kata-<split>.jsonl`` holds the scripted predecessor (agent ``kata-scripted``), ``kata-expert.jsonl`` the expert
sitting down to the training tasks from the start (agent ``kata-expert``, for control arm B). From the inbox they go
through the ordinary adapters. Bugs and reference patches go to a sealed file, the code prior to the policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from handoff.identity import canonical_json, identify
from handoff.kata import store, tools
from handoff.kata.agent import KataAgent
from handoff.kata.expert import Expert
from handoff.kata.lab import GIT_NAME, KataLab
from handoff.kata.pool import Progress, run_many
from handoff.kata.predecessor import Predecessor
from handoff.kata.prior import Prior
from handoff.kata.world import Split, Task, World
from handoff.lake import write_file
from handoff.successors import Briefing
from handoff.successors.policy import PolicySuccessor
from handoff.takeover import Verdict
from handoff.trajectory import Step

RECORD_VERSION = 1
STEP_LIMIT = 60
SCRIPTED, EXPERT = "kata-scripted", "kata-expert"
LICENCE = "Apache-2.0"

SEALED_FILE = "kata.json"
PRIOR_FILE = "kata-prior.json"
_DONE_FILE = "recorded.json"


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One session as it happened."""

    steps: tuple[Step, ...]
    verdict: Verdict
    patch: str
    is_submitted: bool


class Sitting(msgspec.Struct, frozen=True, kw_only=True):
    """A job: one agent, one task, from the start."""

    task: Task
    agent: Literal["kata-scripted", "kata-expert"]
    seed: int
    prior: Path


def sealed_path(data: Path) -> Path:
    """Where the world is kept, bugs included. Only judges and the oracle read it."""
    return data / "sealed" / SEALED_FILE


def prior_path(data: Path) -> Path:
    """Where the code prior is kept."""
    return data / "policies" / PRIOR_FILE


def load_world(data: Path) -> World:
    """The recorded world with its sealed parts."""
    return msgspec.json.decode(sealed_path(data).read_bytes(), type=World)


def fit_prior(world: World) -> Prior:
    """The code prior: training repositories as their resolved runs leave them."""
    return Prior.fit(
        text
        for task in world.of("train")
        for path, text in {**task.files, **task.reference}.items()
        if path.endswith(".py") and not path.startswith("tests/")
    )


def record(
    world: World,
    data: Path,
    *,
    seed: int,
    workers: int = 2,
    sandbox: str = "auto",
    progress: Progress | None = None,
) -> list[Path]:
    """Write repositories, sealed file, prior and recordings; the files in the inbox.

    Files that are present from the same inputs are left alone. A file appears whole or not at all.
    """
    splits: tuple[Split, ...] = ("train", "validation", "test")
    paths = [data / "inbox" / f"kata-{split}.jsonl" for split in splits if world.of(split)]
    if world.of("train"):
        paths.append(data / "inbox" / "kata-expert.jsonl")
    inputs = identify("i", "kata", RECORD_VERSION, seed, canonical_json(world), canonical_json(tools.TOOLS))
    mark = sealed_path(data).with_name(_DONE_FILE)
    store.write_repositories(world, data / "git" / GIT_NAME)
    if mark.exists() and mark.read_bytes() == inputs.encode() and all(path.exists() for path in paths):
        return paths
    write_file(sealed_path(data), canonical_json(world))
    fit_prior(world).save(prior_path(data))
    jobs = [Sitting(task=task, agent="kata-scripted", seed=seed, prior=prior_path(data)) for task in world.tasks]
    jobs += [Sitting(task=task, agent="kata-expert", seed=seed, prior=prior_path(data)) for task in world.of("train")]
    recordings = list(run_many(sit_down, jobs, data=data, sandbox=sandbox, workers=workers, progress=progress))
    rows: dict[Path, list[bytes]] = {path: [] for path in paths}
    for job, recording in zip(jobs, recordings, strict=True):
        name = "kata-expert" if job.agent == EXPERT else f"kata-{job.task.split}"
        rows[data / "inbox" / f"{name}.jsonl"].append(msgspec.json.encode(chat_row(job, recording)))
    for path, lines in rows.items():
        write_file(path, b"".join(line + b"\n" for line in lines))
    write_file(mark, inputs.encode())
    return paths


_PRIORS: dict[Path, Prior] = {}


def load_prior(path: Path) -> Prior:
    """The code prior of a file, loaded once in a process."""
    if path not in _PRIORS:
        _PRIORS[path] = Prior.load(path)
    return _PRIORS[path]


def sit_down(lab: KataLab, job: Sitting) -> Recording:
    """Run one sitting."""
    task = job.task
    prior = load_prior(job.prior)
    if job.agent == SCRIPTED:
        agent = KataAgent(SCRIPTED, "", lambda: Predecessor(task, prior, str(job.seed)))
    else:
        agent = KataAgent(EXPERT, "", lambda: Expert(prior))
    environment = lab.environment(task.repo, store.base_commit(task))
    session = PolicySuccessor(agent).start(briefing_of(task), job.seed)
    steps: list[Step] = []
    while len(steps) < STEP_LIMIT and not environment.is_over:
        reply = session.reply()
        if reply is None:
            break
        observations = tuple(environment.act(action) for action in reply.actions)
        session.observe(observations)
        steps.append(Step(text=reply.text, actions=reply.actions, observations=observations, model=job.agent))
    is_submitted = environment.is_over
    verdict = environment.verdict()
    patch = environment.patch()
    environment.close()
    return Recording(steps=tuple(steps), verdict=verdict, patch=patch, is_submitted=is_submitted)


def briefing_of(task: Task) -> Briefing:
    """What an agent is told that works on a task from the start."""
    return Briefing(
        task=task.statement, view="repo", view_text="", preamble="", tools=canonical_json(tools.TOOLS).decode()
    )


def chat_row(job: Sitting, recording: Recording) -> dict[str, Any]:
    """One recording as a chat row with tool calls."""
    task = job.task
    return {
        "instance_id": f"{task.name}.{job.agent.removeprefix('kata-')}" if job.agent == EXPERT else task.name,
        "repo": task.repo,
        "base_commit": store.base_commit(task),
        "split": task.split,
        "licence": LICENCE,
        "agent": job.agent,
        "model": job.agent,
        "messages": list(_messages(task, recording)),
        "tools": tools.TOOLS,
        "resolved": recording.verdict.solved,
        "exit_status": "submitted" if recording.is_submitted else "step_limit",
        "patch": recording.patch,
        "metadata": {"world": "kata", "seed": job.seed, "is_scripted": job.agent == SCRIPTED},
    }


def _messages(task: Task, recording: Recording) -> Iterator[dict[str, Any]]:
    yield {"role": "system", "content": tools.SYSTEM}
    yield {"role": "user", "content": task.statement}
    for step in recording.steps:
        calls = [
            {"id": action.call_id, "type": "function", "function": {"name": action.tool, "arguments": action.arguments}}
            for action in step.actions
        ]
        yield {"role": "assistant", "content": step.text, "tool_calls": calls}
        for observation in step.observations:
            yield {
                "role": "tool",
                "tool_call_id": observation.call_id,
                "content": observation.text,
                "exit_code": observation.exit_code,
                "is_error": bool(observation.error),
            }
