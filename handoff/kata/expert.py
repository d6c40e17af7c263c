"""Reference successors: the ideal cold successor, and the oracle that knows the bugs.

The expert sees only what any successor may: ``git diff``, one run of all tests, the feature map; then it reads by
suspicion and edits by plausibility. Its takeovers are what arm E learns from (``docs/science.md §13``); sitting down to
a task from the start it gives the labels of control arm B. The oracle is a reference only.
"""

from __future__ import annotations

import random

from handoff.kata.features import edits, file_features, place_of
from handoff.kata.mind import FEATURE_MAP, Attempt, Mind
from handoff.kata.mutations import Change
from handoff.kata.predecessor import Turn
from handoff.kata.prior import Prior
from handoff.kata.tools import Move
from handoff.kata.world import Task

CONFIDENCE = 0.35
"""An edit is tried before the next file is read when it is this likely to be a fix."""


KEEP_GAIN = 100.0
"""An edit that changed no test count is kept when the code prior likes it this much."""


class Expert:
    """The ideal successor with legitimate observations only. Implements ``agent.Chooser``."""

    def __init__(self, prior: Prior) -> None:
        self._prior = prior

    def choose(self, mind: Mind, rng: random.Random) -> Turn | None:
        """The next move; ``rng`` is not used, the expert does not guess."""
        opening = self._opening(mind)
        if opening is not None:
            return opening
        if mind.is_green:
            return Move("submit"), "All tests pass."
        last = next((attempt for attempt in reversed(mind.attempts) if not attempt.is_undone), None)
        if last is not None and not last.change.inverse().fits(mind.texts.get(last.change.path, "")):
            last = None
        if last is not None and last.after == mind.state:
            if not mind.is_fresh:
                return Move("test_all"), "Did that help?"
            if not self._is_kept(mind, last):
                return Move("undo", last.change.path, last.change.inverse()), "That did not help; I take it back."
        elif not mind.is_fresh:
            return Move("test_all"), "Where do the tests stand?"
        worth = edits(mind, self._prior)
        unread = self._unread(mind)
        best = worth[0] if worth else None
        if best is not None and (not unread or best.chance >= max(CONFIDENCE, unread[0][0] * 0.6)):
            return Move(
                "edit", best.change.path, best.change
            ), f"`{best.function}` is suspicious, and `{best.change.old}` is unusual there."
        if unread:
            return Move("read", unread[0][1]), f"`{unread[0][1]}` is the most suspicious file I have not read."
        return Move("submit"), "I find nothing more."

    def _opening(self, mind: Mind) -> Turn | None:
        if mind.is_takeover and mind.hunks is None:
            return Move("diff"), "What has been changed so far?"
        if not mind.results:
            return Move("test_all"), "What do the tests say?"
        if mind.is_green:
            return None
        if not mind.covers:
            return Move("read", FEATURE_MAP), "Which functions do the failing tests exercise?"
        if not mind.package:
            return Move("list"), "Which files are there?"
        return None

    def _is_kept(self, mind: Mind, attempt: Attempt) -> bool:
        outcome = mind.outcome(attempt)
        if outcome in ("better", ""):
            return True
        text = mind.texts.get(attempt.change.path)
        liked = -self._prior.gain(text, attempt.change.inverse()) if text is not None else 0.0
        return outcome == "same" and liked >= KEEP_GAIN

    def _unread(self, mind: Mind) -> list[tuple[float, str]]:
        """Modules not read yet with their suspicion, the most suspicious first."""
        worst: dict[str, float] = {}
        for name, value in mind.suspicions().items():
            module = name.split(".")[0]
            worst[module] = max(worst.get(module, 0.0), value)
        known = {path: worst.get(path.rsplit("/", 1)[-1].removesuffix(".py"), 0.0) for path in mind.modules}
        return sorted(
            ((value, path) for path, value in known.items() if path not in mind.texts and place_of(path) == "module"),
            key=lambda pair: (-pair[0], pair[1]),
        )

    def judge(self, mind: Mind, paths: tuple[str, ...]) -> tuple[str, ...]:
        """By the diff: what shows there is done, unless the code prior dislikes it."""
        rows = file_features(mind, paths, self._prior)
        judged = []
        for path, row in zip(paths, rows, strict=True):
            changed = row[2] > 0 if mind.hunks is not None else path in mind.handed.changed
            judged.append("untouched" if not changed else "dirty" if row[3] < -0.1 else "done")
        return tuple(judged)


class Oracle:
    """Knows the remaining bugs; still reads before it edits and tests before it submits. Reference only."""

    def __init__(self, task: Task, prior: Prior) -> None:
        self._task = task
        self._expert = Expert(prior)

    def choose(self, mind: Mind, rng: random.Random) -> Turn | None:
        """Undo what is wrong, make the missing fixes, test, submit."""
        if mind.hunks is None:
            return Move("diff"), "What has been changed so far?"
        for path, own in sorted(mind.hunks.items()):
            wrong = [c for c in own or () if not self._is_fix(c)]
            if own is None or wrong:
                return Move("restore", path), "That is wrong."
        for fix in self._task.fixes:
            if self._is_made(mind, fix):
                continue
            if fix.path not in mind.texts:
                return Move("read", fix.path), "The mistake is in here."
            if fix.fits(mind.texts[fix.path]):
                return Move("edit", fix.path, fix), "This is it."
        if not mind.is_fresh:
            return Move("test_all"), "Everything should pass now."
        return Move("submit"), "Done."

    def _is_fix(self, change: Change) -> bool:
        return any((fix.path, fix.line, fix.old, fix.new) == (change.path, change.line, change.old, change.new)
                   for fix in self._task.fixes)  # fmt: skip

    def _is_made(self, mind: Mind, fix: Change) -> bool:
        own = (mind.hunks or {}).get(fix.path) or ()
        return any((c.line, c.old, c.new) == (fix.line, fix.old, fix.new) for c in own)

    def judge(self, mind: Mind, paths: tuple[str, ...]) -> tuple[str, ...]:
        """As the expert: the probe asks what can be seen."""
        return self._expert.judge(mind, paths)
