"""What runs of a task's tests mean together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.judging.results import Result, Run
from handoff.judging.verdict import Decisive, Judgement, fitness_of, judge

TASK = Decisive(fail_to_pass=("f1", "f2"), pass_to_pass=("p1", "p2"))


def run(**results: Result) -> Run:
    return Run(results=results)


def all_pass(*names: str) -> Run:
    return Run(results=dict.fromkeys(names or TASK.names, "passed"))


BASE = run(f1="failed", f2="failed", p1="passed", p2="passed")


def judged(final: Run, base: Run = BASE, reference: Run | None = None, task: Decisive = TASK) -> Judgement:
    return judge(task, fitness_of(task, base, reference), final)


def told(judgement: Judgement) -> tuple[bool | None, int | None, int | None, str | None]:
    verdict = judgement.verdict
    return verdict.solved, verdict.passed, verdict.total, judgement.state


def test_all_of_the_tasks_tests_decide() -> None:
    assert told(judged(all_pass())) == (True, 4, 4, "already_solved")
    assert told(judged(BASE)) == (False, 2, 4, "needs_completion")
    assert told(judged(run(f1="passed", f2="passed", p1="passed", p2="failed"))) == (False, 3, 4, "regressed")
    assert told(judged(run(f1="passed", f2="passed", p1="passed", p2="skipped"))) == (False, 3, 4, "regressed")
    assert all(judged(final).reason == "" for final in (all_pass(), BASE))


def test_a_state_whose_tests_do_not_even_run_is_invalid() -> None:
    judgement = judged(Run(problem="the tests were stopped after 5 s"))
    assert told(judgement) == (False, 0, 4, "invalid")
    assert judgement.reason == "the tests were stopped after 5 s"


def test_a_broken_environment_is_unknown_and_never_unsolved() -> None:
    for base in (Run(), run(f1="failed", f2="failed", p1="failed", p2="failed")):
        judgement = judged(base, base)
        assert (judgement.verdict.solved, judgement.state) == (None, None)
        assert "unfit: 2 of 2 tests that pass at the base fail there" in judgement.reason


def test_tests_that_cannot_tell_are_left_out_of_a_no_but_forbid_a_yes() -> None:
    """One test that needs a network, say: what the others show still counts."""
    base = run(f1="failed", f2="failed", p1="passed", p2="failed")
    assert told(judged(run(f1="failed", f2="passed", p1="passed", p2="failed"), base))[0] is False
    unsure = judged(run(f1="passed", f2="passed", p1="passed", p2="failed"), base)
    assert told(unsure) == (None, 3, 4, None)
    assert "1 of 2 tests that pass at the base fail there" in unsure.reason
    assert told(judged(all_pass(), base))[0] is True, "whatever kept it from passing is gone"


def test_tests_that_the_reference_fails_cannot_tell() -> None:
    reference = run(f1="passed", f2="failed", p1="passed", p2="passed")
    final = run(f1="passed", f2="failed", p1="passed", p2="passed")
    unsure = judged(final, reference=reference)
    assert told(unsure)[0] is None and "1 tests fail with the reference solution" in unsure.reason
    assert told(judged(BASE, reference=reference))[0] is False


def test_a_task_whose_tests_pass_at_the_base_is_not_solved_by_doing_nothing() -> None:
    unsure = judged(all_pass(), all_pass())
    assert told(unsure)[0] is None and "2 of 2 tests that fail at the base pass there" in unsure.reason


def test_without_a_test_that_ever_passed_a_failure_may_be_the_environments() -> None:
    task = Decisive(fail_to_pass=("f1", "f2"))
    base = run(f1="failed", f2="failed")
    assert judged(base, base, task=task).reason == "the environment is unfit: no test was seen to pass"
    assert told(judged(base, base, all_pass("f1", "f2"), task))[0] is False
    assert told(judged(run(f1="passed", f2="failed"), base, task=task))[0] is False
    assert told(judged(all_pass("f1", "f2"), base, task=task))[0] is True


def test_lost_output_is_unknown() -> None:
    judgement = judged(Run(results={"p1": "passed", "p2": "passed"}, is_cut=True))
    assert told(judgement)[0] is None and "output was lost" in judgement.reason
    seen = Run(results={"p1": "passed", "p2": "failed"}, is_cut=True)
    assert told(judged(seen))[0] is False


def test_without_tests_nothing_is_known() -> None:
    assert judged(all_pass("x"), task=Decisive()).verdict.solved is None
    only_old = Decisive(pass_to_pass=("p1",))
    assert judged(all_pass(), task=only_old).verdict.solved is None
    assert told(judged(run(p1="failed"), task=only_old))[0] is False


RESULTS = st.dictionaries(st.sampled_from(TASK.names), st.sampled_from(("passed", "failed", "skipped")))
RUNS = st.builds(Run, results=RESULTS, problem=st.sampled_from(("", "stopped")), is_cut=st.booleans())


@given(RUNS, st.none() | RUNS, RUNS)
def test_every_verdict_can_be_defended(base: Run, reference: Run | None, final: Run) -> None:
    """Solved: every test passes, and one of them failed before. Not solved: a test fails that passed elsewhere or
    that others beside it show to be alive. Not known: there is a reason."""
    found = judged(final, base, reference)
    passing = {name for name in TASK.names if final.of(name) == "passed"}
    if found.verdict.solved is True:
        assert passing == set(TASK.names)
        assert any(base.of(name) != "passed" for name in TASK.fail_to_pass)
    elif found.verdict.solved is False:
        assert passing != set(TASK.names)
        assert passing or any(r is not None and "passed" in r.results.values() for r in (base, reference))
    else:
        assert found.reason and found.state is None
    assert found.verdict.passed == len(passing)
