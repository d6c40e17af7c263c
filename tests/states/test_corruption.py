"""No state is called verified that is not the true one: one thing of a recording is changed, in every way there is.

What no evidence can see must not be verified either. The one exception are edits that the recording leaves out, or
tells in another order, while nothing shows the file: such a recording is that of another run, and equals it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from handoff.git.repositories import Repository
from handoff.states.proof.verdict import Replay
from handoff.states.replay import replay_all
from handoff.trajectory import Action, Observation, Step, Trajectory
from tests.states.conftest import commit
from tests.states.truths import KINDS, Files, Run, make

TEXTS = ("new_str", "new_string", "content", "file_text", "input", "command")
"""Arguments whose text an edit writes."""


class Corrupted(NamedTuple):
    """A recording with one thing changed, and the step where it is."""

    trajectory: Trajectory
    step: int


Corruption = Callable[[Run, random.Random], "Corrupted | None"]


def _with(run: Run, place: int, step: Step) -> Corrupted:
    steps = (*run.trajectory.steps[:place], step, *run.trajectory.steps[place + 1 :])
    return Corrupted(replace(run.trajectory, steps=steps), place + 1)


def _action(run: Run, place: int, change: Callable[[str, str], str | None]) -> Corrupted | None:
    """Change one argument text of an edit; ``change`` gets its name and text."""
    step = run.trajectory.steps[place]
    arguments = json.loads(step.actions[0].arguments)
    for name in TEXTS:
        if isinstance(arguments.get(name), str) and arguments[name] not in ("create", "str_replace", "insert"):
            changed = change(name, arguments[name])
            if changed is None or changed == arguments[name]:
                return None
            action = replace(step.actions[0], arguments=json.dumps({**arguments, name: changed}))
            return _with(run, place, replace(step, actions=(action,)))
    return None


def _body(name: str, text: str) -> tuple[int, int]:
    """Where in an argument the text lies that is written to a file."""
    if name == "command" and "<<'EOF'\n" in text:
        return text.index("<<'EOF'\n") + 8, text.rindex("EOF")
    if name == "input":
        return text.index("\n+") + 2, text.index("\n", text.index("\n+") + 2)
    return (len(text) // 2, len(text)) if name == "command" else (0, len(text))


def drop_character(run: Run, rng: random.Random) -> Corrupted | None:
    def change(name: str, text: str) -> str | None:
        first, last = _body(name, text)
        at = rng.randrange(first, last) if last > first else 0
        return text[:at] + text[at + 1 :]

    return _action(run, rng.choice(run.edits), change)


def flip_character(run: Run, rng: random.Random) -> Corrupted | None:
    def change(name: str, text: str) -> str | None:
        first, last = _body(name, text)
        at = rng.randrange(first, last) if last > first else 0
        return text[:at] + ("q" if text[at : at + 1] != "q" else "z") + text[at + 1 :]

    return _action(run, rng.choice(run.edits), change)


def change_indentation(run: Run, rng: random.Random) -> Corrupted | None:
    def change(name: str, text: str) -> str | None:
        first, last = _body(name, text)
        return text[:first] + text[first:last].replace("    ", "  ", 1) + text[last:]

    return _action(run, rng.choice(run.edits), change)


def lose_final_newline(run: Run, rng: random.Random) -> Corrupted | None:
    def change(name: str, text: str) -> str | None:
        return text.removesuffix("\n") if name in ("content", "file_text", "new_str", "new_string") else None

    return _action(run, rng.choice(run.edits), change)


def add_final_newline(run: Run, rng: random.Random) -> Corrupted | None:
    def change(name: str, text: str) -> str | None:
        return text + "\n" if name in ("content", "file_text", "new_str", "new_string") else None

    return _action(run, rng.choice(run.edits), change)


def use_carriage_returns(run: Run, rng: random.Random) -> Corrupted | None:
    def change(name: str, text: str) -> str | None:
        first, last = _body(name, text)
        return text[:first] + text[first:last].replace("\n", "\r\n") + text[last:] if name != "input" else None

    return _action(run, rng.choice(run.edits), change)


def change_line_number(run: Run, rng: random.Random) -> Corrupted | None:
    place = rng.choice(run.edits)
    step = run.trajectory.steps[place]
    arguments = json.loads(step.actions[0].arguments)
    if "insert_line" in arguments:
        arguments["insert_line"] = max(0, arguments["insert_line"] + rng.choice((-1, 1, 2)))
    elif str(arguments.get("command", "")).startswith("sed -i '") and "c\\" in arguments["command"]:
        head, _, rest = arguments["command"].partition("c\\")
        number = int(head.split("'")[1])
        arguments["command"] = f"sed -i '{number + rng.choice((-1, 1)) or 1}c\\{rest}"
    else:
        return None
    action = replace(step.actions[0], arguments=json.dumps(arguments))
    return None if action == step.actions[0] else _with(run, place, replace(step, actions=(action,)))


def change_path(run: Run, rng: random.Random) -> Corrupted | None:
    place = rng.choice(run.edits)
    step = run.trajectory.steps[place]
    known = sorted({path for path in run.truths[place] if path in step.actions[0].arguments})
    others = sorted(path for path in run.truths[place] if path not in known)
    if not known or not others:
        return None
    text = step.actions[0].arguments.replace(known[0], rng.choice(others))
    return _with(run, place, replace(step, actions=(replace(step.actions[0], arguments=text),)))


def change_old_text(run: Run, rng: random.Random) -> Corrupted | None:
    place = rng.choice(run.edits)
    step = run.trajectory.steps[place]
    arguments = json.loads(step.actions[0].arguments)
    name = next((name for name in ("old_str", "old_string") if name in arguments), None)
    if name is None or len(arguments[name]) < 6:
        return None
    arguments[name] = arguments[name][1:] if rng.random() < 0.5 else arguments[name][:-1]
    return _with(run, place, replace(step, actions=(replace(step.actions[0], arguments=json.dumps(arguments)),)))


def swap_edits(run: Run, rng: random.Random) -> Corrupted | None:
    if len(run.edits) < 2:
        return None
    at = rng.randrange(len(run.edits) - 1)
    first, second = run.edits[at], run.edits[at + 1]
    steps = list(run.trajectory.steps)
    if steps[first].actions[0].tool != steps[second].actions[0].tool:
        return None
    steps[first], steps[second] = (
        replace(steps[first], actions=steps[second].actions),
        replace(steps[second], actions=steps[first].actions),
    )
    return Corrupted(replace(run.trajectory, steps=tuple(steps)), first + 1)


def duplicate_edit(run: Run, rng: random.Random) -> Corrupted | None:
    """An edit is recorded a second time, in a step that only looked."""
    looks = [place for place in range(len(run.trajectory.steps)) if place not in run.edits]
    place = rng.choice(looks)
    before = [edit for edit in run.edits if edit < place]
    if not before:
        return None
    return _with(run, place, run.trajectory.steps[rng.choice(before)])


_NOTHING = Step(
    actions=(Action(tool="bash", arguments=json.dumps({"command": "pwd"})),),
    observations=(Observation(text="/testbed\n", exit_code=0),),
)


def drop_edit(run: Run, rng: random.Random) -> Corrupted | None:
    return _with(run, rng.choice(run.edits), _NOTHING)


def claim_failure(run: Run, rng: random.Random) -> Corrupted | None:
    place = rng.choice(run.edits)
    step = run.trajectory.steps[place]
    if step.actions[0].tool == "bash":
        return None
    said = "No replacement was performed, old_str `x` did not appear verbatim in /testbed/src/pager.py."
    return _with(run, place, replace(step, observations=(Observation(text=said, error=True),)))


def claim_success(run: Run, rng: random.Random) -> Corrupted | None:
    """A refused edit is said to have happened, with a text that does occur."""
    for place in run.edits:
        step = run.trajectory.steps[place]
        if not step.observations[0].text.startswith("No replacement"):
            continue
        arguments = json.loads(step.actions[0].arguments)
        path = arguments["path"].removeprefix("/testbed/")
        lines = [line for line in run.truths[place][path].split("\n") if run.truths[place][path].count(line) == 1]
        if not lines:
            continue
        arguments["old_str"] = rng.choice(lines)
        action = replace(step.actions[0], arguments=json.dumps(arguments))
        seen = Observation(text=f"The file {arguments['path']} has been edited.")
        return _with(run, place, replace(step, actions=(action,), observations=(seen,)))
    return None


def flip_observation(run: Run, rng: random.Random) -> Corrupted | None:
    looks = [n for n, step in enumerate(run.trajectory.steps) if n not in run.edits and step.observations[0].text]
    place = rng.choice(looks)
    step = run.trajectory.steps[place]
    text = step.observations[0].text
    at = rng.randrange(len(text))
    text = text[:at] + ("q" if text[at] != "q" else "z") + text[at + 1 :]
    return _with(run, place, replace(step, observations=(replace(step.observations[0], text=text),)))


CORRUPTIONS: tuple[Corruption, ...] = (
    drop_character,
    flip_character,
    change_indentation,
    lose_final_newline,
    add_final_newline,
    use_carriage_returns,
    change_line_number,
    change_path,
    change_old_text,
    swap_edits,
    duplicate_edit,
    drop_edit,
    claim_failure,
    claim_success,
    flip_observation,
)


def tree_of(repository: Repository, base: str, start: Files, files: Files) -> str:
    """The git tree of these files."""
    changes = dict.fromkeys(start) | {path: text.encode() for path, text in files.items()}
    return repository.write_tree(repository.tree_of(base), changes)


def wrong_steps(repository: Repository, done: Replay, run: Run) -> dict[int, tuple[str, ...]]:
    """Steps whose tree is not the true one, with the files that differ."""
    assert done.base is not None
    found = {}
    for step, (tree, files) in enumerate(zip(done.trees, run.truths, strict=True)):
        truth = tree_of(repository, done.base, run.truths[0], files)
        if tree is not None and tree != truth:
            found[step] = repository.changed(truth, tree)
    return found


def _all(
    repository: Repository, count: int, kind: str, **options: object
) -> tuple[list[tuple[str, Run, Corrupted]], list[Replay]]:
    made: list[tuple[str, Run, Corrupted]] = []
    pairs: list[tuple[str, Trajectory]] = []
    for seed in range(count):
        run = make(seed, kind, **options)  # type: ignore[arg-type]
        base = commit(repository.git_dir, {p: t.encode() for p, t in run.truths[0].items()}, "Base", branch=f"b{seed}")
        for number, corruption in enumerate(CORRUPTIONS):
            found = corruption(run, random.Random(f"{seed} {number}"))
            if found is not None:
                made.append((corruption.__name__, run, found))
                pairs.append((f"t_{seed}_{number}", replace(found.trajectory, base_commit=base)))
    return made, list(replay_all(pairs, repository))


HIDING = ("drop_edit", "claim_failure", "change_path", "swap_edits")
"""Corruptions that may leave the recording of another run."""
MISPLACED = (*HIDING, "duplicate_edit", "flip_observation")
"""Those after which the step that is wrong cannot be told, or none is."""


@pytest.mark.parametrize("runs", [6, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("with_patch", [True, False], ids=["patch", "reads"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_corruption_is_ever_verified(repository: Repository, kind: str, with_patch: bool, runs: int) -> None:
    """Some 500 corruptions here and 4,000 in the long tests: where a tree is wrong, its step is not verified."""
    made, replays = _all(repository, runs, kind, shows=0.6, with_patch=with_patch)
    assert len(made) >= 6 * runs
    outcomes: Counter[str] = Counter()
    for (name, run, corrupted), done in zip(made, replays, strict=True):
        wrong = wrong_steps(repository, done, run)
        false = [step for step in wrong if done.statuses[step] == "verified"]
        if false and name in HIDING:
            shown = [path for step in false for path in wrong[step] if _is_seen(run, wrong, step, path)]
            assert not shown, (name, done.trajectory_id, false, shown)
            outcomes["hidden"] += 1
            continue
        assert not false, (name, done.trajectory_id, false, done.reasons[false[0]])
        if wrong and name not in MISPLACED:
            outcomes["wrong"] += 1
            if done.divergence is not None:
                outcomes["divergent"] += 1
                outcomes["at the step"] += done.divergence.step == corrupted.step
                assert done.divergence.path or done.divergence.problem
    if runs > 10:
        assert outcomes["hidden"] <= len(made) // 10, outcomes
        assert outcomes["at the step"] >= 0.6 * outcomes["divergent"], outcomes
        assert outcomes["divergent"] >= (0.6 if with_patch else 0.1) * outcomes["wrong"], outcomes


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_true_recordings_are_verified_at_the_end(repository: Repository, kind: str, count: int) -> None:
    """With a patch the end is verified; and wherever a step is verified, with a patch or without, it is the truth."""
    pairs, runs = [], []
    for seed in range(count):
        run = make(seed, kind, shows=0.5, with_patch=seed % 3 > 0)
        base = commit(repository.git_dir, {p: t.encode() for p, t in run.truths[0].items()}, "Base", branch=f"b{seed}")
        pairs.append((f"t_{seed}", replace(run.trajectory, base_commit=base)))
        runs.append(run)
    for seed, (run, done) in enumerate(zip(runs, replay_all(pairs, repository), strict=True)):
        assert done.divergence is None, (seed, done.divergence)
        assert done.status == "verified" or seed % 3 == 0, (seed, done.reason)
        assert not wrong_steps(repository, done, run) or not done.is_derivable, seed


def _is_seen(run: Run, wrong: dict[int, tuple[str, ...]], step: int, path: str) -> bool:
    """Whether anything shows the file whole while it is wrong: a look at it, or the patch at the end."""
    steps = run.trajectory.steps
    for later in range(step + 1, len(steps) + 1):
        arguments = steps[later - 1].actions[0].arguments
        if later - 1 not in run.edits:
            is_diff = "git diff" in arguments and path in run.truths[0]
            if is_diff or (path in arguments and "sed -n" not in arguments and "grep" not in arguments):
                return True
        if path not in wrong.get(later, ()):
            return False
    return run.trajectory.outcome.patch is not None


_HOSTILE = (
    "\0",
    "\ud800",
    "\udce9",
    "../",
    "/",
    "\n",
    "diff --git a/a b/a\n",
    "@@ -1 +1 @@",
    "99999999999",
    "\r",
    "'",
    "$(",
)


def _damaged(run: Run, rng: random.Random) -> Trajectory:
    steps = list(run.trajectory.steps)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(steps))
        action, seen = steps[place].actions[0], steps[place].observations[0]
        at, text = rng.random(), rng.choice(_HOSTILE)
        if rng.random() < 0.5:
            values = json.loads(action.arguments)
            name = rng.choice(sorted(values))
            value = str(values[name])
            values[name] = value[: int(at * len(value))] + text + value[int(at * len(value)) :]
            if isinstance(values[name], str) and "line" in name:
                values[name] = rng.choice((-5, 0, 10**12, None, [], text))
            action = replace(action, arguments=json.dumps(values))
        else:
            cut = int(at * len(seen.text))
            seen = replace(seen, text=seen.text[:cut] + text + seen.text[cut:])
        steps[place] = replace(steps[place], actions=(action,), observations=(seen,))
    outcome = run.trajectory.outcome
    patch = outcome.patch
    if patch and rng.random() < 0.3:
        patch = patch[: rng.randrange(len(patch))] + rng.choice(_HOSTILE) + patch[rng.randrange(len(patch)) :]
    return replace(run.trajectory, steps=tuple(steps), outcome=replace(outcome, patch=patch))


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_damaged_recording_has_a_verdict_and_stops_no_other(repository: Repository, count: int) -> None:
    """Whatever stands in it, every run comes out, with text that a table can hold."""
    rng = random.Random(5)
    pairs = []
    for seed in range(15):
        run = make(seed, KINDS[seed % len(KINDS)], shows=0.6)
        files = {path: text.encode() for path, text in run.truths[0].items()}
        base = commit(repository.git_dir, files, "Base", branch=f"b{seed}")
        pairs += [(f"t_{seed}_{n}", replace(_damaged(run, rng), base_commit=base)) for n in range(count)]
    done = list(replay_all(pairs, repository))
    assert [item.trajectory_id for item in done] == [name for name, _ in pairs]
    for item in done:
        json.dumps([item.verdict_row(), *item.rows()], ensure_ascii=False).encode()
