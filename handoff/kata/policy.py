"""The learned policy: behaviour cloning over candidate moves, with a belief head for the probe.

It is trained from recorded conversations alone: each is read again through ``mind.py``, and at every step the move that
was made is learned against the candidates of that moment. What an arm is trained on is decided in ``arms.py``.
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from handoff.identity import canonical_json, identify
from handoff.kata import features, network
from handoff.kata.agent import KataAgent
from handoff.kata.features import FILE_NAMES, NAMES, candidates, edits, file_features
from handoff.kata.mind import FEATURE_MAP, Mind
from handoff.kata.network import Matrix, Shape
from handoff.kata.predecessor import Turn
from handoff.kata.prior import Prior
from handoff.kata.tools import Move
from handoff.lake import write_file
from handoff.successors import Briefing
from handoff.trajectory import Step

BELIEFS = ("untouched", "done", "dirty")
Belief = Literal["untouched", "done", "dirty"]
TEMPERATURE = 0.5
"""Of sampling a move; the same for every arm."""


class Demonstration(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded conversation to learn from: a single session, or a takeover."""

    briefing: Briefing
    """With an empty preamble for a single session."""
    steps: tuple[Step, ...]
    weight: float = 1.0
    beliefs: tuple[tuple[str, Belief], ...] = ()
    """Truth about source files at the conversation's beginning, for the belief head; empty: unknown."""


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    seed: int
    has_opening: bool
    kinds: tuple[str, ...]
    """Kinds of moves it was shown. It makes no others: what was never shown was never judged either."""
    choose: dict[str, list[list[float]]]
    believe: dict[str, list[list[float]]]
    prior: str
    """Digest of the code prior it was trained with."""


class Policy:
    """Weights and how they are used. Implements ``agent.Chooser``."""

    def __init__(self, saved: _Saved, prior: Prior) -> None:
        self._saved = saved
        self._prior = prior
        self._choose = _arrays(saved.choose)
        self._believe = _arrays(saved.believe)
        self.digest = identify("m", canonical_json(saved), TEMPERATURE.hex())

    @property
    def name(self) -> str:
        """Name of the arm, as tables show it."""
        return self._saved.name

    @property
    def has_opening(self) -> bool:
        """True behind a forced opening."""
        return self._saved.has_opening

    def with_opening(self) -> Policy:
        """The same weights behind a forced opening: git diff, all tests, feature map (``docs/science.md §13``)."""
        saved = msgspec.structs.replace(self._saved, name=f"{self.name}+opening", has_opening=True)
        return Policy(saved, self._prior)

    def agent(self) -> KataAgent:
        """As a policy of ``successors/policy.py``."""
        return KataAgent(self.name, self.digest, lambda: self)

    def choose(self, mind: Mind, rng: random.Random) -> Turn | None:
        """A move drawn from the policy's distribution."""
        if self._saved.has_opening and mind.is_takeover:
            for move in (Move("diff"), Move("test_all"), Move("read", FEATURE_MAP)):
                if move not in mind.moves:
                    return move, ""
        moves, chances = self._distribution(mind)
        at = bisect.bisect_right(np.cumsum(chances).tolist(), rng.random())
        return moves[min(at, len(moves) - 1)], ""

    def entropy(self, mind: Mind) -> float:
        """Of the distribution that the next move is drawn from, in nats. Behind a forced opening that of the weights,
        which the opening overrules."""
        _, chances = self._distribution(mind)
        return float(-np.sum(chances * np.log(np.maximum(chances, 1e-300))))

    def distribution(self, mind: Mind) -> tuple[tuple[Move, float], ...]:
        """Every move that may be made, with the chance of each."""
        moves, chances = self._distribution(mind)
        return tuple(zip(moves, map(float, chances), strict=True))

    def _distribution(self, mind: Mind) -> tuple[list[Move], Matrix]:
        """Moves that may be made, and the chance of each."""
        worth = edits(mind, self._prior)
        moves = [move for move in candidates(mind, worth) if move.kind in self._saved.kinds] or [Move("submit")]
        raw = network.scores(self._choose, features.features(mind, moves, worth, self._prior))[:, 0]
        return moves, network.softmax(raw / TEMPERATURE)

    def judge(self, mind: Mind, paths: tuple[str, ...]) -> tuple[str, ...]:
        """The most likely belief about each file."""
        if not paths:
            return ()
        raw = network.scores(self._believe, file_features(mind, paths, self._prior))
        return tuple(BELIEFS[int(i)] for i in np.argmax(raw, axis=1))

    def evaluate(self, lessons: Sequence[Lesson]) -> tuple[float | None, float | None]:
        """(mean negative log-likelihood in nats, share of steps whose likeliest move was the one made) on lessons;
        ``None`` for no labels."""
        losses: list[float] = []
        hits = 0
        for lesson in lessons:
            for rows, at in zip(lesson.groups, lesson.chosen, strict=True):
                chances = network.softmax(network.scores(self._choose, rows)[:, 0])
                losses.append(-math.log(max(float(chances[at]), 1e-12)))
                hits += int(np.argmax(chances)) == at
        return (math.fsum(losses) / len(losses), hits / len(losses)) if losses else (None, None)

    def save(self, path: Path) -> None:
        """Write it as JSON, whole or not at all. Equal policies give equal bytes."""
        write_file(path, canonical_json(self._saved))

    @staticmethod
    def load(path: Path, prior: Prior) -> Policy:
        """Read it back. ``prior``: the one it was trained with."""
        return Policy(msgspec.json.decode(path.read_bytes(), type=_Saved), prior)


class Lesson(msgspec.Struct, frozen=True):
    """One demonstration as numbers."""

    groups: tuple[Matrix, ...]
    chosen: tuple[int, ...]
    files: Matrix
    classes: tuple[int, ...]
    weight: float
    kinds: tuple[str, ...] = ()
    """Kinds of moves it shows, sorted."""

    @property
    def labels(self) -> int:
        """Decisions to learn."""
        return len(self.groups)


def read_lesson(demonstration: Demonstration, prior: Prior) -> Lesson:
    """Read a conversation again, and note what could have been done at each step and what was.

    A move that was not among the candidates teaches nothing, but its consequences are known afterwards.
    """
    mind = Mind(demonstration.briefing)
    groups: list[Matrix] = []
    chosen: list[int] = []
    kinds: set[str] = set()
    files: list[Matrix] = []
    classes: list[int] = []
    final = _final_changes(demonstration)
    told = dict(demonstration.beliefs)
    is_start = True
    for number, step in enumerate(demonstration.steps):
        for action, observation in zip(step.actions, step.observations, strict=False):
            worth = edits(mind, prior)
            moves = candidates(mind, worth)
            rows = features.features(mind, moves, worth, prior)
            truth = _beliefs_now(mind, final) if not mind.is_takeover else told if is_start else {}
            if truth and (mind.is_takeover or number % 3 == 0):
                paths = tuple(sorted(truth))
                files.append(file_features(mind, paths, prior))
                classes += [BELIEFS.index(truth[path]) for path in paths]
            move = mind.take(action, observation)
            at = next((i for i, other in enumerate(moves) if _is_same(other, move)), None)
            if at is not None and len(moves) > 1:
                groups.append(rows)
                chosen.append(at)
                kinds.add(moves[at].kind)
            is_start = is_start and move.kind not in ("edit", "restore")
    empty = np.zeros((0, len(FILE_NAMES)))
    return Lesson(
        tuple(groups),
        tuple(chosen),
        np.concatenate(files) if files else empty,
        tuple(classes),
        demonstration.weight,
        tuple(sorted(kinds)),
    )


def train(
    demonstrations: Sequence[Demonstration] | Sequence[Lesson],
    *,
    seed: int,
    prior: Prior,
    name: str = "policy",
    hidden: int = 32,
    epochs: int = 24,
) -> Policy:
    """A policy cloned from demonstrations, the same to the byte for the same arguments."""
    lessons = [d if isinstance(d, Lesson) else read_lesson(d, prior) for d in demonstrations]
    groups = [rows for lesson in lessons for rows in lesson.groups]
    chosen = [at for lesson in lessons for at in lesson.chosen]
    importance = [lesson.weight for lesson in lessons for _ in lesson.groups]
    rows = np.concatenate([np.zeros((0, len(FILE_NAMES))), *(lesson.files for lesson in lessons)])
    classes = [label for lesson in lessons for label in lesson.classes]
    with network.one_thread():
        choose = network.fit_choices(
            Shape(inputs=len(NAMES), hidden=hidden, epochs=epochs),
            groups,
            chosen,
            importance,
            np.random.default_rng([seed, 1]),
        )
        believe = network.fit_classes(
            Shape(inputs=len(FILE_NAMES), hidden=16, outputs=len(BELIEFS), epochs=epochs),
            rows, classes, np.random.default_rng([seed, 2]),
        )  # fmt: skip
    saved = _Saved(
        name=name,
        seed=seed,
        has_opening=False,
        kinds=tuple(sorted({kind for lesson in lessons for kind in lesson.kinds})),
        choose=_lists(choose),
        believe=_lists(believe),
        prior=prior.digest,
    )
    return Policy(saved, prior)


def _is_same(candidate: Move, move: Move) -> bool:
    if candidate.change is not None or move.change is not None:
        return candidate.change == move.change and candidate.path == move.path
    return candidate == move


def _final_changes(demonstration: Demonstration) -> dict[str, frozenset[object]]:
    """File → the edits that stood at the end of a single session."""
    mind = Mind(demonstration.briefing)
    for step in demonstration.steps:
        for action, observation in zip(step.actions, step.observations, strict=False):
            mind.take(action, observation)
    return _standing(mind)


def _standing(mind: Mind) -> dict[str, frozenset[object]]:
    found: dict[str, set[object]] = {}
    for change in mind.own_changes:
        found.setdefault(change.path, set()).add(change)
    return {path: frozenset(changes) for path, changes in found.items()}


def _beliefs_now(mind: Mind, final: Mapping[str, frozenset[object]]) -> dict[str, Belief]:
    """Truth about files in a single session: what stands now against what stood at its end."""
    standing = _standing(mind)
    found: dict[str, Belief] = {}
    for path in mind.modules:
        now = standing.get(path, frozenset())
        found[path] = "untouched" if not now else "done" if now == final.get(path, frozenset()) else "dirty"
    return found


def _arrays(saved: Mapping[str, list[list[float]]]) -> dict[str, Matrix]:
    found = {name: np.array(rows, dtype=np.float64) for name, rows in sorted(saved.items())}
    return {name: rows[0] if name.startswith("b") else rows for name, rows in found.items()}


def _lists(weights: Mapping[str, Matrix]) -> dict[str, list[list[float]]]:
    return {name: np.atleast_2d(value).tolist() for name, value in sorted(weights.items())}
