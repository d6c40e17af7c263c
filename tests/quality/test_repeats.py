"""Loops, failed calls and answers that were not heeded (``docs/science.md §14``)."""

from __future__ import annotations

import json

import msgspec

from handoff.quality import Use, assess
from handoff.trajectory import Action, Observation, Step
from tests.quality.build import bash, edit, reminder, run

LOOK = bash("cat a.log", "x")
TEST = bash("pytest -q", "1 failed in 0.1s", 1)
REFUSED = edit("a.py", "q", "r", "No replacement was performed")


def found(name: str, *steps: Step) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(s.step, s.rule, s.shown_by) for s in assess(run(*steps)).signals if s.name == name]


def test_the_third_time_is_a_loop() -> None:
    assert not found("loop", LOOK, LOOK)
    assert found("loop", LOOK, LOOK, LOOK, LOOK) == [(3, "period_1", (1, 2)), (4, "period_1", (2, 3))]
    assert found("loop", *[LOOK, TEST] * 3) == [(6, "period_2", (2, 4))]
    assert found("loop", *[Step(text="Let me continue.")] * 3) == [(3, "period_1", (1, 2))]
    blocks = [bash(f"echo {n}", str(n)) for n in range(12)] * 3
    assert found("loop", *blocks) == [(36, "period_12", (12, 24))]


def test_another_answer_or_a_changed_file_is_no_loop() -> None:
    """The seconds of a test run are no other answer; its counts are."""
    assert not found("loop", *[bash("tail -1 a.log", f"{n} of 9") for n in range(5)])
    assert not found("loop", *[bash("pytest -q", f"{n} failed in 0.1s", 1) for n in (3, 2, 1)])
    assert found("loop", *[bash("pytest -q", f"3 failed in 0.{n}s", 1) for n in (3, 2, 1)])
    assert not found("loop", *[bash("echo x >> a.log")] * 4)
    assert found("loop", *[bash("cat > a.py <<'EOF'\nx = 1\nEOF")] * 3), "the same text again changes nothing"


def test_scrolling_on_is_no_loop() -> None:
    """The call is the same and the place is not."""
    opened = Step(actions=(Action(tool="open", arguments='{"path": "a.py"}'),), observations=(Observation(text="1"),))
    down = [
        Step(actions=(Action(tool="scroll_down", arguments="{}"),), observations=(Observation(text=str(n)),))
        for n in range(5)
    ]
    assert not found("loop", opened, *down)


def test_calls_fail_in_four_ways() -> None:
    action = Action(tool="bash", arguments=json.dumps({"command": "ls"}))
    aborted = Step(actions=(action,), observations=(Observation(missing="aborted"),))
    assert found("failed_call", REFUSED, aborted, bash("pytset", "bash: pytset: command not found", 127)) == [
        (1, "refused", ()),
        (2, "not_run", ()),
        (3, "unknown", ()),
    ]
    submit = Step(actions=(Action(tool="submit", arguments="{}"),), observations=aborted.observations)
    assert not found("failed_call", submit), "a submission needs no answer"
    assert not found("failed_call", TEST, bash("grep -n x a.py", "", 1)), "a failing test is an answer"
    malformed = edit("a.py", "q", "r", "Your proposed edit has introduced new syntax error(s).")
    assert found("failed_call", malformed) == [(1, "malformed", ())]
    unanswered = msgspec.structs.replace(aborted, observations=(Observation(missing="none"),))
    assert not found("failed_call", unanswered), "no answer is no evidence"


def test_a_failed_call_made_again_with_nothing_changed_is_a_retry() -> None:
    assert found("failed_call", REFUSED, LOOK, REFUSED) == [(1, "refused", ()), (3, "retry", (1,))]
    assert found("failed_call", REFUSED, edit("b.py", "1", "2"), REFUSED)[1][1] == "refused"


def test_asking_again_means_that_the_answer_was_not_heeded() -> None:
    assert found("response_ignored", REFUSED, REFUSED, LOOK) == [(1, "asked_again", (2,))]
    assert found("response_ignored", LOOK, bash("ls", "a"), LOOK) == [(1, "asked_again", (3,))]


def test_the_two_figures_count_answers_and_plans() -> None:
    """Answers: those followed by another call. Plans: calls made after an answer; a bad call beside others is half."""
    assert assess(run(LOOK, TEST, REFUSED, REFUSED)).use == Use(understood=2, responses=3, planned=1.0, plans=3)
    both = Step(actions=(*REFUSED.actions, *TEST.actions), observations=(*REFUSED.observations, *TEST.observations))
    assert assess(run(LOOK, both)).use == Use(understood=1, responses=1, planned=0.5, plans=1)


def test_without_answers_there_is_no_figure() -> None:
    row = assess(run(reminder(), Step(text="Done."))).run_row("t_1")
    assert (row["understanding"], row["n_responses"], row["planning"], row["n_plans"]) == (None, 0, None, 0)
