"""The scripted predecessor: works through a task the way a person might, knowing where the bugs are.

It is a script and is labelled so (``kata-scripted``). It looks around, reads files that turn out innocent, makes wrong
first edits in about 45 of 100 cases and takes them back, now and then late, tests like a person and says what it
means to do. What it knows of the bugs is sealed; a policy that imitates it cannot see why it looked where it did.

Resampled from a handoff point (``resume``) it is the uninterrupted continuation of ``docs/science.md §13``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Literal

from handoff.kata.features import place_of
from handoff.kata.mind import FEATURE_MAP, Mind
from handoff.kata.mutations import Change, changes, difference, function_at
from handoff.kata.prior import Prior
from handoff.kata.tools import Move
from handoff.kata.world import Task

WRONG_FIRST = 0.45
Turn = tuple[Move, str]


class Predecessor:
    """One sitting of the script on one task. Implements ``agent.Scripted``: ask it once per turn."""

    def __init__(self, task: Task, prior: Prior, seed: str, files: Mapping[str, str] | None = None) -> None:
        """``seed`` decides the whole sitting; ``files``: the present state, when it is not the base commit's."""
        self._rng = random.Random(f"kata/predecessor/{seed}/{task.name}")
        self._task = task
        self._prior = prior
        self._files = dict(files if files is not None else task.files)
        self._is_resumed = files is not None
        self._turns: Iterator[Turn] | None = None
        self._before = ""

    def choose(self, mind: Mind, rng: random.Random) -> Turn | None:
        """The next move of the script; ``rng`` is not used."""
        if self._turns is None:
            self._turns = self._sitting(mind, self._rng)
        turn = next(self._turns, None)
        if turn is not None:
            self._before = self._files.get(turn[0].path, "")
            self._apply(turn[0])
        return turn

    def text_before(self, path: str) -> str:
        """The file of the last move, as it was before it."""
        return self._before

    def judge(self, mind: Mind, paths: tuple[str, ...]) -> tuple[str, ...]:
        """It knows: the state of each file against base and reference."""
        reference = {**self._task.files, **self._task.reference}
        return tuple(judge_file(self._task.files, self._files, reference, path) for path in paths)

    def _apply(self, move: Move) -> None:
        if move.change is not None:
            self._files[move.path] = move.change.apply(self._files[move.path])
        elif move.kind == "restore":
            self._files[move.path] = self._task.files[move.path]

    # -- one sitting -------------------------------------------------------------------------------

    def _sitting(self, mind: Mind, rng: random.Random) -> Iterator[Turn]:
        if not self._is_resumed:
            yield from self._opening(rng)
        else:
            yield from self._take_back_leftovers(mind)
        left = [fix for fix in self._task.fixes if fix.fits(self._files[fix.path])]
        rng.shuffle(left)
        wrong: list[Change] = []
        while left:
            fix = left.pop(0)
            yield from self._look_around(mind, fix, rng)
            if rng.random() < WRONG_FIRST:
                yield from self._wrong_edit(mind, fix, rng, wrong)
            yield Move("edit", fix.path, fix), f"I think the mistake is here: `{fix.old}` should be `{fix.new}`."
            if rng.random() < 0.75 or not left:
                yield self._test(fix.path, mind, rng)
            if wrong and (rng.random() < 0.6 or not left):
                yield from self._take_back(wrong)
        while wrong:
            yield from self._take_back(wrong)
        if not mind.is_green:
            yield Move("test_all"), "Now all tests once more."
        yield Move("submit"), "All tests pass. I submit."

    def _opening(self, rng: random.Random) -> Iterator[Turn]:
        yield Move("list"), "First I look at what is there."
        if rng.random() < 0.6:
            yield Move("read", "README.md"), "The README may explain the layout."
        if rng.random() < 0.85:
            yield Move("test_all"), "I run the tests to see what fails."
        if rng.random() < 0.9:
            yield Move("read", FEATURE_MAP), "Next I want to know which functions those tests exercise."
        if rng.random() < 0.35:
            yield Move("read", "tests/test_flows.py"), "I look at what the flow tests expect."

    def _look_around(self, mind: Mind, fix: Change, rng: random.Random) -> Iterator[Turn]:
        package = fix.path.split("/")[0]
        if rng.random() < 0.4 and f"{package}/flows.py" not in mind.texts:
            yield Move("read", f"{package}/flows.py"), "How are the features put together?"
        near = self._near(fix)
        for _ in range(rng.choice((1, 1, 2, 3))):
            unread = [path for path in near if path not in mind.texts]
            if not unread:
                break
            path = rng.choice(unread)
            yield Move("read", path), f"`{path}` takes part in a failing feature. I want to look at it."
        if rng.random() < 0.4:
            target = rng.choice(sorted(p for p in self._files if p.startswith("tests/")))
            if not mind.was_taken(Move("test_one", target)):
                yield Move("test_one", target), f"I check `{target}` alone."
        if fix.path not in mind.texts or rng.random() < 0.3:
            yield Move("read", fix.path), f"Next I will go through `{fix.path}`."

    def _near(self, fix: Change) -> list[str]:
        """Modules that share a failing feature with the bug, sorted: where a person would look too."""
        module = fix.path.rsplit("/", 1)[-1].removesuffix(".py")
        function = f"{module}.{function_at(self._task.files[fix.path], fix.line)}"
        lines = [line for line in self._task.files[FEATURE_MAP].split("\n") if function in line]
        package = fix.path.split("/")[0]
        names = {name.strip().split(".")[0] for line in lines for name in line.split("`: ")[-1].split(",")}
        found = sorted(f"{package}/{name}.py" for name in names)
        return [path for path in found if path in self._files and path != fix.path]

    def _wrong_edit(self, mind: Mind, fix: Change, rng: random.Random, wrong: list[Change]) -> Iterator[Turn]:
        read = [path for path in self._near(fix) if path in mind.texts]
        path = rng.choice(read) if read and rng.random() < 0.4 else fix.path
        text = self._files[path]
        true = {(f.path, f.line) for f in self._task.fixes}
        standing = {(c.path, c.line) for c in wrong}
        options = [c for c in changes(path, text) if (c.path, c.line) not in true | standing]
        options.sort(key=lambda change: (-self._prior.gain(text, change), change))
        if not options:
            return
        change = rng.choice(options[:5])
        where = function_at(text, change.line)
        yield Move("edit", path, change), f"In `{where}` the `{change.old}` looks wrong. I try `{change.new}`."
        wrong.append(change)
        if rng.random() < 0.8:
            yield self._test(path, mind, rng)
            if rng.random() < 0.85:
                yield from self._take_back(wrong)

    def _take_back(self, wrong: list[Change]) -> Iterator[Turn]:
        change = wrong.pop() if wrong else None
        if change is not None and change.inverse().fits(self._files[change.path]):
            yield (
                Move("undo", change.path, change.inverse()),
                f"My edit in `{change.path}` did not help. I take it back.",
            )

    def _take_back_leftovers(self, mind: Mind) -> Iterator[Turn]:
        """Its own wrong edits that stood at the handoff, which it remembers."""
        for path in sorted(self._task.files):
            present = self._files.get(path)
            found = difference(path, self._task.files[path], present) if present is not None else None
            wrong = [c for c in found or () if c not in self._task.fixes]
            if place_of(path) == "module" and wrong:
                for change in reversed(wrong):
                    yield Move("undo", path, change.inverse()), "I take my wrong edit back."

    def _test(self, path: str, mind: Mind, rng: random.Random) -> Turn:
        own = f"tests/test_{path.rsplit('/', 1)[-1]}"
        target = own if own in self._files and rng.random() < 0.5 else "tests/test_flows.py"
        if rng.random() < 0.3:
            return Move("test_one", target), f"Does `{target}` say so too?"
        return Move("test_all"), "I run the tests again."


def judge_file(
    base: Mapping[str, str], present: Mapping[str, str], reference: Mapping[str, str], path: str
) -> Literal["untouched", "done", "dirty"]:
    """``untouched``, ``done`` or ``dirty``: a file's present text against base and reference."""
    if present.get(path) == reference.get(path) and reference.get(path) != base.get(path):
        return "done"
    return "untouched" if present.get(path) == base.get(path) else "dirty"
