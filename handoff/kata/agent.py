"""What all kata agents share: a conversation in, a tool call out, and answers to the probe.

An agent differs from another only in how it chooses a move (``Chooser``): the learned policy, the expert, the
oracle, the script. All of them see the conversation through ``mind.py`` and act with ``tools.py``; the
adapter that makes a ``Successor`` of an agent is ``successors/policy.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, cast, runtime_checkable

from handoff.kata import tools
from handoff.kata.mind import Mind
from handoff.kata.tools import Move
from handoff.successors import Answer, Briefing, Question, Reply
from handoff.successors.policy import Conversation
from handoff.trajectory import Step


class Chooser(Protocol):
    """Chooses moves and judges how far the work on files is."""

    def choose(self, mind: Mind, rng: random.Random) -> tuple[Move, str] | None:
        """The next move and the thought written before it; ``None`` gives up."""
        ...

    def judge(self, mind: Mind, paths: tuple[str, ...]) -> tuple[str, ...]:
        """``untouched``, ``done`` or ``dirty`` for each source file."""
        ...


@runtime_checkable
class Scripted(Chooser, Protocol):
    """A chooser that keeps its place in a script: it must be asked once for every turn."""

    def text_before(self, path: str) -> str:
        """A file as the script knows it, before the move it chose last."""
        ...


class KataAgent:
    """A chooser as a policy of ``successors/policy.py``. All it knows of a run is in the conversation."""

    def __init__(self, name: str, digest: str, make_chooser: Callable[[], Chooser]) -> None:
        """``make_chooser``: a chooser for each conversation; one that keeps no state may be the same each time."""
        self.name = name
        self.digest = digest
        self._make_chooser = make_chooser

    def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
        """The next reply."""
        chooser = self._chooser(conversation)
        mind = mind_of(conversation)
        chosen = None if mind.is_submitted else chooser.choose(mind, rng)
        if chosen is None:
            return None
        conversation.memory["asked"] = len(conversation.turns) + 1
        move, thought = chosen
        text = chooser.text_before(move.path) if isinstance(chooser, Scripted) else mind.texts.get(move.path, "")
        action = tools.action_of(move, text, f"c{len(mind.moves) + 1}")
        return Reply(text=thought, actions=(action,))

    def _chooser(self, conversation: Conversation, *, is_probe: bool = False) -> Chooser:
        """The conversation's chooser. One that was not asked for every turn (the run was interrupted and resumed) is
        made again and asked once more for what it answered then."""
        memory = conversation.memory
        turns = len(conversation.turns)
        # a reply may be open when the probe is put: it was asked for already
        open_turns = (turns, turns + 1) if is_probe else (turns,)
        chooser = memory.get("chooser")
        if chooser is None or memory["asked"] not in open_turns:
            chooser = self._make_chooser()
            if isinstance(chooser, Scripted):
                mind = Mind(conversation.briefing)
                for reply, observations in conversation.turns:
                    chooser.choose(mind, random.Random(0))
                    _take(mind, Step(actions=reply.actions, observations=observations))
            memory["chooser"], memory["asked"] = chooser, len(conversation.turns)
        return cast(Chooser, chooser)

    def belief(self, conversation: Conversation, question: Question) -> Answer | None:
        """What it takes to be done, and what it means to do."""
        mind = mind_of(conversation)
        nodes = sorted({node for _, node in question.nodes})
        paths = tuple(sorted({node.partition(":")[2] for node in nodes if node.startswith(("edit:", "locate:"))}))
        judged = dict(zip(paths, self._chooser(conversation, is_probe=True).judge(mind, paths), strict=True))
        done = tuple(node for node in nodes if _is_done(node, mind, judged))
        return Answer(done=done, plan=_plan(mind, judged))


def mind_of(conversation: Conversation) -> Mind:
    """The mind of a conversation, brought up to its last turn."""
    memory = conversation.memory
    mind = memory.get("mind")
    if not isinstance(mind, Mind):
        mind = Mind(conversation.briefing)
        memory["mind"], memory["turns"] = mind, 0
    seen = memory["turns"]
    assert isinstance(seen, int)
    for reply, observations in conversation.turns[seen:]:
        _take(mind, Step(actions=reply.actions, observations=observations))
    memory["turns"] = len(conversation.turns)
    return mind


def _take(mind: Mind, step: Step) -> None:
    for action, observation in zip(step.actions, step.observations, strict=False):
        mind.take(action, observation)


def replay_steps(briefing: Briefing, steps: Sequence[Step]) -> Mind:
    """The mind of someone who has had a whole recorded conversation."""
    mind = Mind(briefing)
    for step in steps:
        _take(mind, step)
    return mind


def _is_done(node: str, mind: Mind, judged: dict[str, str]) -> bool:
    kind, _, target = node.partition(":")
    looked = {
        *mind.handed.changed,
        *mind.handed.read,
        *mind.texts,
        *(p for p, own in (mind.hunks or {}).items() if own != ()),
    }
    match kind:
        case "edit":
            return judged.get(target) == "done"
        case "locate":
            return target in looked or judged.get(target) in ("done", "dirty")
        case "validate":
            return mind.is_green or (mind.handed.is_passing is True and not mind.handed.is_stale)
        case "reproduce":
            return bool(mind.results) or mind.handed.is_passing is not None or bool(mind.hunks)
    return False


def _plan(mind: Mind, judged: dict[str, str]) -> tuple[str, ...]:
    chances = mind.suspicions()
    worst: dict[str, float] = {}
    for name, value in chances.items():
        worst[name.split(".")[0]] = max(worst.get(name.split(".")[0], 0.0), value)
    left = [path for path, state in judged.items() if state != "done"]
    left.sort(key=lambda path: (-worst.get(path.rsplit("/", 1)[-1].removesuffix(".py"), 0.0), path))
    plan: list[str] = []
    for path in left[:3]:
        plan += [*([] if path in mind.texts else [f"read {path}"]), f"edit {path}", "test ."]
    return tuple(plan)
