"""A finished run of a learned policy, step by step: what it might have done instead."""

from __future__ import annotations

from collections.abc import Sequence

from handoff.kata import tools
from handoff.kata.mind import Mind
from handoff.kata.policy import Policy
from handoff.kata.tools import Move
from handoff.salvage.branching import Branch, Moment, Option
from handoff.successors import Briefing, Reply
from handoff.trajectory import Step


def moments_of(policy: Policy, briefing: Briefing, steps: Sequence[Step]) -> tuple[Moment, ...]:
    """Every step of a run with the policy's chances at that time; steps of several actions are left out."""
    mind = Mind(briefing)
    found: list[Moment] = []
    for number, step in enumerate(steps, 1):
        chances = policy.distribution(mind) if len(step.actions) == 1 else ()
        for action, observation in zip(step.actions, step.observations, strict=False):
            taken = mind.take(action, observation)
            if chances:
                options = tuple(Option(line_of(move), chance, key_of(move)) for move, chance in chances)
                found.append(Moment(number, line_of(taken), key_of(taken), options))
    return tuple(found)


def key_of(move: Move) -> str:
    """Kind and target of a move."""
    return f"{'edit' if move.change is not None else move.kind} {move.path}".rstrip()


def line_of(move: Move) -> str:
    """A move in one line."""
    change = move.change
    if change is None:
        return key_of(move)
    return f"{key_of(move)} {change.line}:{change.column} {change.old} → {change.new}"


def forced_replies(policy: Policy, briefing: Briefing, steps: Sequence[Step], branch: Branch) -> tuple[Reply, ...]:
    """The run's own replies before the branch, and then its other move."""
    mind = Mind(briefing)
    replies: list[Reply] = []
    for step in steps[: branch.step - 1]:
        replies.append(Reply(text=step.text, actions=step.actions))
        for action, observation in zip(step.actions, step.observations, strict=False):
            mind.take(action, observation)
    move = next(move for move, _ in policy.distribution(mind) if line_of(move) == branch.text)
    action = tools.action_of(move, mind.texts.get(move.path, ""), f"c{len(mind.moves) + 1}")
    return (*replies, Reply(actions=(action,)))
