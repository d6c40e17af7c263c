"""The agents: what they can know, what they may do, how they are trained and resumed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from handoff.errors import SuccessorError
from handoff.kata import arms, store
from handoff.kata.agent import KataAgent, replay_steps
from handoff.kata.expert import Expert
from handoff.kata.features import NAMES, candidates, edits, features
from handoff.kata.lab import KataLab
from handoff.kata.policy import Demonstration, Policy, read_lesson, train
from handoff.kata.predecessor import Predecessor
from handoff.kata.record import Sitting, briefing_of, load_prior, load_world, prior_path, record, sit_down
from handoff.kata.roster import Roster
from handoff.kata.suspicion import suspicions
from handoff.kata.world import World
from handoff.successors import Briefing, Question
from handoff.successors.policy import PolicySuccessor
from handoff.trajectory import Action, Observation, Step

ROOT = Path(__file__).resolve().parents[2]


def demonstrations(data: Path, name: str) -> list[Demonstration]:
    world = load_world(data)
    found = []
    for line in (data / "inbox" / f"{name}.jsonl").read_bytes().splitlines():
        row = json.loads(line)
        steps: list[Step] = []
        for message in row["messages"][2:]:
            if message["role"] == "assistant":
                calls = [(call["id"], call["function"]) for call in message["tool_calls"]]
                actions = tuple(Action(call_id=i, tool=f["name"], arguments=f["arguments"]) for i, f in calls)
                steps.append(Step(text=message["content"], actions=actions))
            else:
                call_id, text, code = (message[name] for name in ("tool_call_id", "content", "exit_code"))
                seen = Observation(call_id=call_id, text=text, exit_code=code)
                steps[-1] = msgspec.structs.replace(steps[-1], observations=(*steps[-1].observations, seen))
        found.append(Demonstration(briefing=briefing_of(world.task(row["repo"])), steps=tuple(steps)))
    return found


def test_recordings_look_like_real_data(recorded: Path) -> None:
    """Chat rows with tool calls, resolved by the tests, labelled scripted; nothing sealed in them."""
    rows = [json.loads(line) for line in (recorded / "inbox" / "kata-train.jsonl").read_bytes().splitlines()]
    assert len(rows) == 3
    for row in rows:
        assert row["agent"] == "kata-scripted" and row["resolved"] is True and row["exit_status"] == "submitted"
        assert row["patch"].startswith("diff --git ")
        calls = [m["tool_calls"][0]["id"] for m in row["messages"] if m["role"] == "assistant"]
        assert calls == [m["tool_call_id"] for m in row["messages"] if m["role"] == "tool"]
        assert "bugs" not in row and "bugs" not in row["metadata"]


def test_recording_again_writes_nothing(recorded: Path, world: World) -> None:
    paths = sorted((recorded / "inbox").iterdir())
    before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in paths]
    assert sorted(record(world, recorded, seed=3, workers=1)) == paths
    assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in paths] == before


def test_a_mind_is_the_same_live_and_read_again(recorded: Path) -> None:
    """After the whole recording the mind knows that all tests pass, and its edits are those of the patch."""
    for demonstration in demonstrations(recorded, "kata-train"):
        mind = replay_steps(demonstration.briefing, demonstration.steps)
        assert mind.is_submitted and mind.is_green and not mind.is_takeover
        task = next(t for t in load_world(recorded).tasks if t.statement == demonstration.briefing.task)
        assert sorted(mind.own_changes) == sorted(task.fixes)


def test_no_move_is_offered_twice_on_the_same_state(recorded: Path) -> None:
    """At every step of every recording: no repetition, features finite, every move described."""
    prior = load_prior(prior_path(recorded))
    for demonstration in demonstrations(recorded, "kata-train"):
        for h in range(len(demonstration.steps)):
            mind = replay_steps(demonstration.briefing, demonstration.steps[:h])
            worth = edits(mind, prior)
            moves = candidates(mind, worth)
            assert len(set(moves)) == len(moves)
            assert not [move for move in moves if move.kind != "submit" and mind.was_taken(move)]
            rows = features(mind, moves, worth, prior)
            assert rows.shape == (len(moves), len(NAMES)) and abs(rows).max() <= 3.0


def test_suspicion_follows_the_evidence() -> None:
    """A function that alone explains a failure is wrong; one that passing tests exercise is not."""
    covers = {"a": ("f", "g"), "b": ("g",), "c": ("h",)}
    chances = suspicions(covers, failing=["a", "c"], passing=["b"])
    assert chances["h"] == pytest.approx(1.0)
    assert chances["f"] > 0.5 > chances["g"]
    assert list(chances) == sorted(chances)


def test_training_gives_the_same_bytes(recorded: Path, tmp_path: Path) -> None:
    """Same demonstrations and seed: same file, read back the same; another seed: another policy."""
    prior = load_prior(prior_path(recorded))
    lessons = [read_lesson(d, prior) for d in demonstrations(recorded, "kata-train")]
    policy = train(lessons, seed=1, prior=prior, epochs=3)
    policy.save(tmp_path / "a.json")
    train(lessons, seed=1, prior=prior, epochs=3).save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert Policy.load(tmp_path / "a.json", prior).digest == policy.digest
    assert train(lessons, seed=2, prior=prior, epochs=3).digest != policy.digest
    assert policy.with_opening().digest != policy.digest


_PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from kata.test_agents import demonstrations
from handoff.kata.policy import train
from handoff.kata.record import load_prior, prior_path
data = Path({data!r})
print(train(demonstrations(data, "kata-train")[:2], seed=1, prior=load_prior(prior_path(data)), epochs=2).digest)
"""


def test_training_does_not_depend_on_hash_seed_or_threads(recorded: Path) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(tests=str(ROOT / "tests"), data=str(recorded))],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(digests) == 1


def takeover_briefing(world: World) -> Briefing:
    return msgspec.structs.replace(briefing_of(world.tasks[0]), preamble="You take over.")


def test_a_scripted_session_goes_on_after_an_interruption(recorded: Path, world: World) -> None:
    """Resumed by its recorded replies, the script says next what it would have said."""
    task = world.tasks[0]
    successor = Roster(recorded).successor(
        "resampled", policy=None, task=task, present=lambda: task.files, suffix=(), seed=4
    )
    with KataLab(recorded, worker="resume") as lab:
        place = lab.environment(task.repo, store.base_commit(task))
        session = successor.start(takeover_briefing(world), 4)
        turns = []
        for _ in range(6):
            reply = session.reply()
            assert reply is not None
            session.probe(Question(nodes=()))  # asking changes nothing
            seen = tuple(place.act(action) for action in reply.actions)
            session.observe(seen)
            turns.append((reply, seen))
    resumed = successor.start(takeover_briefing(world), 4)
    for reply, seen in turns[:5]:
        resumed.recall(reply)
        resumed.observe(seen)
    assert resumed.reply() == turns[5][0]


def test_the_expert_looks_at_the_diff_first_when_it_takes_over(recorded: Path, world: World) -> None:
    prior = load_prior(prior_path(recorded))
    agent = KataAgent("expert", "d", lambda: Expert(prior))
    first = PolicySuccessor(agent).start(takeover_briefing(world), 0).reply()
    assert first is not None and json.loads(first.actions[0].arguments) == {"command": "git diff"}


def test_a_forced_opening_is_diff_tests_map(recorded: Path, world: World) -> None:
    """It is forced at takeovers only."""
    prior = load_prior(prior_path(recorded))
    lessons = [read_lesson(d, prior) for d in demonstrations(recorded, "kata-train")[:1]]
    policy = train(lessons, seed=0, prior=prior, epochs=1)
    mind = replay_steps(takeover_briefing(world), ())
    move = policy.with_opening().choose(mind, random.Random(0))
    assert move is not None and move[0].kind == "diff"


def test_arms_get_the_same_amount(recorded: Path) -> None:
    """B's expert sessions are cut to E's number of labels, by whole sessions; shares are shares of weight."""
    prior = load_prior(prior_path(recorded))
    lessons = arms.read_lessons(demonstrations(recorded, "kata-expert"), prior)
    wanted = lessons[0].labels
    chosen = arms.cut(lessons, wanted, seed=0)
    assert wanted <= sum(lesson.labels for lesson in chosen) < wanted + max(lesson.labels for lesson in lessons)
    scaled = arms.scaled(lessons, 0.25)
    assert sum(lesson.weight * lesson.labels for lesson in scaled) == pytest.approx(250)


def test_the_roster_says_what_is_missing(recorded: Path) -> None:
    roster = Roster(recorded)
    with pytest.raises(SuccessorError, match="no weights"):
        roster.successor("A", policy="nothing.json", task=None, present=None, suffix=(), seed=0)


def test_the_predecessor_makes_wrong_edits_and_takes_them_back(recorded: Path, world: World) -> None:
    """It ends at the reference, and not by the straight way in every session."""
    prior = load_prior(prior_path(recorded))
    detours = 0
    with KataLab(recorded, worker="detours") as lab:
        for seed in range(2):
            for task in world.tasks[:2]:
                job = Sitting(task=task, agent="kata-scripted", seed=seed, prior=prior_path(recorded))
                recording = sit_down(lab, job)
                mind = replay_steps(briefing_of(task), recording.steps)
                assert recording.verdict.solved and sorted(mind.own_changes) == sorted(task.fixes)
                detours += sum(attempt.is_undone for attempt in mind.attempts)
    assert detours > 0
    assert Predecessor(world.tasks[0], prior, "0").judge(replay_steps(briefing_of(task), ()), (task.bugs[0].path,))
