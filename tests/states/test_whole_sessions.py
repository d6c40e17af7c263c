"""Sessions that really happened: random lines run by bash and git in a real folder, recorded truly or with a lie.

Where a step is called verified, its tree is what lay on disk then, whatever one answer of the recording says.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace as with_fields

from handoff.git.importer import FileState
from handoff.git.repositories import Repository
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory
from tests.states.shell_bed import Bed, Programs
from tests.states.shell_bed import _files as files_of


class Ground(Bed):
    """The bed, for sessions of several lines."""

    @property
    def template(self) -> Path:
        return self._template

    @property
    def base(self) -> str:
        return self._base

    @property
    def repository(self) -> Repository:
        return self._repository

    def run(self, folder: Path, line: str) -> tuple[str, int]:
        return self._run(folder, line)


class Session(NamedTuple):
    """A recording, and the files on disk after each step, the base first."""

    run: Trajectory
    truths: list[dict[str, FileState]]
    changing: list[int]
    """Places of the steps that changed something."""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "bed")
    yield made
    made.close()


def session(bed: Ground, rng: random.Random, folder: Path, *, is_derivable: bool) -> Session:
    """Lines that change files, with looks between them. ``is_derivable``: plain ones, and a look after each."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bed.template, folder, symlinks=True)
    programs = Programs(rng)
    steps: list[Step] = []
    truths = [files_of(folder)]
    changing: list[int] = []
    for _ in range(rng.randint(3, 6)):
        line = _plain(rng) if is_derivable else programs.program()[0]
        looks = ["git status --short", "cat a.txt", "cat src/b.py"] if rng.random() < 0.6 or is_derivable else []
        for each in (line, *rng.sample(looks, k=min(2, len(looks)))):
            text, code = bed.run(folder, each)
            seen = Observation(text=text, exit_code=code if rng.random() < 0.8 else None)
            steps.append(
                Step(actions=(Action(tool="bash", arguments=json.dumps({"command": each})),), observations=(seen,))
            )
            now = files_of(folder)
            if now != truths[-1]:
                changing.append(len(steps) - 1)
            truths.append(now)
    bed.run(folder, "git add -A")
    patch = bed.run(folder, f"git diff --cached --no-renames {bed.base}")[0] if rng.random() < 0.5 else None
    run = Trajectory(
        format="mini", task="x", repo="o/r", base_commit=bed.base, steps=tuple(steps), outcome=Outcome(patch=patch)
    )
    return Session(run, truths, changing)


def _plain(rng: random.Random) -> str:
    """A line whose effect follows from its text."""
    name, word = rng.choice(("a.txt", "src/b.py", "nonl")), rng.choice(("one", "x", "return", "newline"))
    return rng.choice(
        (
            f"sed -i 's/{word}/w{rng.randint(0, 99)}/' {name}",
            f"echo line {rng.randint(0, 99)} >> {name}",
            f"cat > {name} <<'EOF'\nall\n{rng.randint(0, 99)}\nEOF",
            f"printf 'one\\nx\\n' > {name}",
            f"cp {name} n{rng.randint(0, 9)}.txt && rm n*.txt",
        )
    )


def lied(made: Session, rng: random.Random) -> Trajectory:
    """The recording with one answer that is not what was said. Exit codes are believed: nobody can see such a lie."""
    steps = list(made.run.steps)
    place = rng.choice(made.changing or range(len(steps)))
    if rng.random() < 0.4:
        place = rng.randrange(len(steps))
    step, seen = steps[place], steps[place].observations[0]
    earlier = [item.observations[0] for item in steps[:place] if item.actions == step.actions]
    choices = [
        with_fields(seen, text="", exit_code=None),
        with_fields(seen, error=True, exit_code=124, text="Command timed out"),
        Observation(missing="none"),
        Observation(missing="aborted"),
        with_fields(seen, text=seen.text[: len(seen.text) // 2]),
        *([earlier[-1]] if earlier else []),
    ]
    steps[place] = with_fields(step, observations=(rng.choice(choices),))
    return with_fields(made.run, steps=tuple(steps))


def false_steps(bed: Ground, done: Replay, made: Session) -> list[tuple[int, str]]:
    """Steps called verified whose tree is not what lay on disk, each with a file that differs."""
    found = []
    for step, (status, tree) in enumerate(zip(done.statuses, done.trees, strict=True)):
        if status != "verified" or tree is None:
            continue
        held = {path: (mode, bed.repository.blob(id_)) for path, (mode, id_) in bed.repository.files(tree).items()}
        found += [
            (step, path)
            for path in sorted({*held, *made.truths[step]})
            if held.get(path) != made.truths[step].get(path)
        ][:1]
    return found


@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.slow)])
def test_no_answer_makes_a_wrong_state_verified(bed: Ground, tmp_path: Path, count: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(count):
        rng = random.Random(f"session {seed}")
        made = session(bed, rng, tmp_path / "w", is_derivable=seed % 3 == 0)
        for number, run in enumerate([made.run, *(lied(made, rng) for _ in range(4))]):
            done = replay(run, f"t_{seed}_{number}", bed.repository)
            outcomes[done.status] += 1
            assert not false_steps(bed, done, made), (seed, number, false_steps(bed, done, made), run.steps)
    assert outcomes["verified"] >= count // 2, outcomes


@pytest.mark.parametrize("count", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_true_recordings_of_derivable_lines_are_verified(bed: Ground, tmp_path: Path, count: int) -> None:
    """Of those with a patch, 95 in 100 at least; without one, no step is called what it is not."""
    verified = patched = 0
    for seed in range(count):
        made = session(bed, random.Random(f"true {seed}"), tmp_path / "w", is_derivable=True)
        done = replay(made.run, f"t_{seed}", bed.repository)
        assert done.divergence is None, (seed, done.divergence, made.run.steps)
        assert not false_steps(bed, done, made), seed
        if made.run.outcome.patch and done.is_derivable:
            patched += 1
            verified += done.status == "verified"
    assert verified >= 0.95 * patched, (verified, patched)
