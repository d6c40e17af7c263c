"""The arms of ``docs/science.md §13`` in the kata world: what each is trained on.

====== =================================================================================================
A      the scripted predecessor's single sessions
A+open A with the forced opening at takeovers, not trained further
B      A's data and the expert's single sessions, as many expert labels as E has, in its best mix
E      the expert's takeovers under every view, and A's data for the other half of the weight
====== =================================================================================================

Only resolved sessions teach; expert takeovers only if they solved the task and destroyed no fix. B's mix is chosen on
validation points by whoever can run them (``MIXES``).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from handoff.kata.policy import Belief, Demonstration, Lesson, Policy, read_lesson, train
from handoff.kata.predecessor import judge_file
from handoff.kata.prior import Prior
from handoff.successors import Briefing
from handoff.trajectory import Step, Trajectory

ARMS = ("A", "A+opening", "B", "E")
MIXES = (0.25, 0.5, 0.75)
"""Shares of the weight that B may give to the expert's sessions."""
HANDOFF_SHARE = 0.5
"""Share of E's weight that goes to takeovers."""


def single_session(trajectory: Trajectory) -> Demonstration:
    """A recorded single session as a demonstration."""
    briefing = Briefing(task=trajectory.task, view="repo", view_text="", preamble="", tools=trajectory.tools or "[]")
    return Demonstration(briefing=briefing, steps=trajectory.steps)


def single_sessions(trajectories: Iterable[Trajectory], agent: str) -> list[Demonstration]:
    """The resolved sessions of one agent on training repositories, in the order given."""
    return [
        single_session(t)
        for t in trajectories
        if t.agent == agent and t.split == "train" and t.outcome.resolved is True
    ]


def takeover(
    briefing: Briefing,
    transcript: Sequence[Step],
    *,
    base: Mapping[str, str] | None = None,
    present: Mapping[str, str] | None = None,
    final: Mapping[str, str] | None = None,
) -> Demonstration:
    """An expert takeover as a demonstration.

    ``base``, ``present``, ``final``: path → text of the base commit, the handoff state and the state that the
    solved takeover ended in; with all three, the belief head learns how far each file was.
    """
    beliefs: tuple[tuple[str, Belief], ...] = ()
    if base is not None and present is not None and final is not None:
        paths = sorted(path for path in base if _is_source(path))
        beliefs = tuple((path, judge_file(base, present, final, path)) for path in paths)
    return Demonstration(briefing=briefing, steps=tuple(transcript), beliefs=beliefs)


def _is_source(path: str) -> bool:
    return path.endswith(".py") and not path.startswith("tests/") and not path.endswith(("__init__.py", "flows.py"))


def read_lessons(demonstrations: Iterable[Demonstration], prior: Prior) -> list[Lesson]:
    """Demonstrations as numbers, so that several arms can share them."""
    return [read_lesson(demonstration, prior) for demonstration in demonstrations]


def train_arm(
    name: str,
    *,
    sessions: Sequence[Lesson],
    expert_sessions: Sequence[Lesson] = (),
    takeovers: Sequence[Lesson] = (),
    prior: Prior,
    seed: int,
    mix: float = 0.5,
) -> Policy:
    """The policy of one arm. ``mix``: for B, the share of the weight that the expert's sessions get."""
    match name:
        case "A" | "A+opening":
            policy = train(sessions, seed=seed, prior=prior, name="A")
            return policy if name == "A" else policy.with_opening()
        case "B":
            wanted = sum(lesson.labels for lesson in takeovers) or sum(lesson.labels for lesson in expert_sessions)
            chosen = cut(expert_sessions, wanted, seed)
            return train([*scaled(sessions, 1 - mix), *scaled(chosen, mix)], seed=seed, prior=prior, name="B")
        case "E":
            mixed = [*scaled(sessions, 1 - HANDOFF_SHARE), *scaled(takeovers, HANDOFF_SHARE)]
            return train(mixed, seed=seed, prior=prior, name="E")
    raise ValueError(f"no arm {name!r}; arms are {', '.join(ARMS)}")


def scaled(lessons: Sequence[Lesson], share: float) -> list[Lesson]:
    """The lessons with weights such that they make up ``share`` of a whole of one per label."""
    labels = sum(lesson.labels for lesson in lessons)
    return [msgspec.structs.replace(lesson, weight=1000 * share / max(1, labels)) for lesson in lessons]


def cut(lessons: Sequence[Lesson], labels: int, seed: int) -> list[Lesson]:
    """Whole lessons in a seeded order until ``labels`` decisions are reached: the same amount for every arm.

    Fewer than asked for when there are not enough.
    """
    order = list(range(len(lessons)))
    random.Random(f"kata/cut/{seed}").shuffle(order)
    chosen: list[int] = []
    have = 0
    for index in order:
        if have >= labels:
            break
        chosen.append(index)
        have += lessons[index].labels
    return [lessons[index] for index in sorted(chosen)]
