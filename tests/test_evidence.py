"""The evidence record: what the predecessor did and saw up to h, and nothing later (``docs/science.md §3``)."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.evidence import Changed, FileRead, Reverted, Said, gather_evidence
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

FAILED = "FAILED tests/t.py::a\n1 failed, 2 passed in 0.1s"


def bash(line: str, text: str = "", code: int | None = None, thought: str = "") -> Step:
    action = Action(tool="bash", arguments=json.dumps({"command": line}))
    return Step(thought=thought, actions=(action,), observations=(Observation(text=text, exit_code=code),))


def editor(command: str, path: str, answer: str = "The file has been edited.", **values: str) -> Step:
    arguments = json.dumps({"command": command, "path": path, **values})
    return Step(
        actions=(Action(tool="str_replace_editor", arguments=arguments),), observations=(Observation(text=answer),)
    )


def trajectory(*steps: Step) -> Trajectory:
    return Trajectory(format="chat", task="Fix it.", steps=steps)


RUN = trajectory(
    bash("cat a.py", "x", thought="I will read a.py first. Then nothing."),
    bash("pytest tests/t.py", FAILED, 1),
    editor("str_replace", "a.py", old_str="x", new_str="y"),
    editor("str_replace", "a.py", "No replacement was performed, old_str not found", old_str="q", new_str="y"),
    editor("create", "new.py", file_text="1\n"),
    editor("str_replace", "a.py", old_str="y", new_str="x"),
    bash("pytest -q", "3 passed in 0.1s", 0),
    bash("rm new.py"),
    bash("ls"),
)


def test_it_holds_what_was_done() -> None:
    """Changes, reads, refusals, take-backs and intentions, each with its steps."""
    evidence = gather_evidence(RUN, 6, None)
    assert evidence.task == "Fix it."
    assert evidence.changed == (
        Changed(path="a.py", status="modified", steps=(3, 6)),
        Changed(path="new.py", status="added", steps=(5,)),
    )
    assert evidence.reads == (FileRead(path="a.py", step=1),)
    assert evidence.reverted == (Reverted(path="a.py", steps=(3, 6)),)
    assert [f.step for f in evidence.failed_attempts] == [4]
    assert evidence.intentions == (Said(text="I will read a.py first.", step=1),)


def test_the_last_validation_goes_stale_with_the_next_change() -> None:
    """Outcome and counts are the runner's own."""
    last = gather_evidence(RUN, 2, None).last_validation
    assert last is not None
    assert (last.outcome, last.passed, last.failed, last.failing) == ("failed", 2, 1, ("tests/t.py::a",))
    assert not last.is_stale
    stale = gather_evidence(RUN, 3, None).last_validation
    assert stale is not None
    assert stale.is_stale
    passed = gather_evidence(RUN, 7, None)
    assert passed.last_validation is not None
    assert passed.last_validation.outcome == "passed"
    assert passed.open_failures == ()


def test_a_file_made_and_removed_is_no_change() -> None:
    """The net effect counts."""
    assert [c.path for c in gather_evidence(RUN, 8, None).changed] == ["a.py"]


def test_nothing_observed_is_empty_and_no_error() -> None:
    """A run that did nothing has an empty record."""
    evidence = gather_evidence(trajectory(Step(text="Hm."), Step()), 1, None)
    assert evidence.changed == evidence.reads == evidence.commands == ()
    assert evidence.last_validation is None


TEXT = st.text(max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.lists(st.builds(bash, TEXT, TEXT, st.none() | st.integers(0, 2), TEXT), max_size=3), TEXT)
def test_nothing_after_h_changes_it(h: int, later: list[Step], patch: str) -> None:
    """The leak boundary: other steps after h, another outcome, other hidden fields give the same record."""
    other = msgspec.structs.replace(
        RUN, steps=(*RUN.steps[:h], *later), outcome=Outcome(resolved=True, patch=patch), source='{"gold": 1}'
    )
    assert gather_evidence(other, h, None) == gather_evidence(RUN, h, None)
