"""What runs of a task's tests mean together: solved, not solved, or not known (``docs/tasks.md``).

A test can say something here only if this machine's environment lets it: one that the task says passes before and after
must pass on the base commit, one that the task says begins to pass must fail there, and both must pass with the
reference solution, where that is known. Tests that do not are *unfit*. Then:

- a fit test that does not pass: not solved;
- all listed tests pass: solved, if any of those that begin to pass is fit;
- otherwise it is not known, and the reason says so. It is never "not solved" because the environment is broken.
"""

from __future__ import annotations

import msgspec

from handoff.judging.results import Run
from handoff.points import StateClass
from handoff.takeover import Verdict

NO_TESTS = "no tests are known that decide it"


class Decisive(msgspec.Struct, frozen=True, kw_only=True):
    """The tests that decide a task, by the names its instance gives them."""

    fail_to_pass: tuple[str, ...] = ()
    """They fail on the base commit and pass once the task is solved."""
    pass_to_pass: tuple[str, ...] = ()
    """They pass before and after."""

    @property
    def names(self) -> tuple[str, ...]:
        """All, each once."""
        return tuple(dict.fromkeys((*self.fail_to_pass, *self.pass_to_pass)))


class Fitness(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the decisive tests can say something in this environment."""

    begins: tuple[str, ...]
    """Fit tests that begin to pass."""
    stays: tuple[str, ...]
    """Fit tests that pass before and after."""
    is_shown: bool
    """Whether any test was seen to pass here at all: else a failure may be the environment's."""
    reason: str
    """Why not all are fit, in words; empty when all are."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one state, with the reason where there is none, and its class."""

    verdict: Verdict
    state: StateClass | None = None
    """See ``docs/science.md §1``."""
    reason: str = ""
    """Why ``solved`` is not known, or what kept tests from running; empty when there is nothing to say."""


def fitness_of(decisive: Decisive, base: Run, reference: Run | None) -> Fitness:
    """What the runs on the base commit and with the reference solution (``None``: not known) say of each test."""

    def passes(run: Run | None, name: str) -> bool:
        return run is None or run.of(name) == "passed"

    wanted = set(decisive.pass_to_pass)
    asked = [name for name in decisive.fail_to_pass if name not in wanted]
    begins = tuple(n for n in asked if base.of(n) != "passed" and passes(reference, n))
    stays = tuple(n for n in decisive.pass_to_pass if base.of(n) == "passed" and passes(reference, n))
    lost = [n for n in decisive.pass_to_pass if base.of(n) != "passed"]
    early = [n for n in asked if base.of(n) == "passed"]
    never = [n for n in (*asked, *decisive.pass_to_pass) if n not in lost and not passes(reference, n)]
    says = [base.problem] if base.problem else []
    says += [f"{len(lost)} of {len(wanted)} tests that pass at the base fail there"] if lost else []
    says += [f"{len(early)} of {len(asked)} tests that fail at the base pass there"] if early else []
    says += [f"{len(never)} tests fail with the reference solution"] if never else []
    says += [] if asked else ["no test is listed that begins to pass"]
    is_shown = bool(stays) or (reference is not None and bool(begins))
    if not says and not is_shown:
        says = ["no test was seen to pass"]
    return Fitness(begins=begins, stays=stays, is_shown=is_shown, reason="; ".join(says))


def judge(decisive: Decisive, fitness: Fitness, run: Run) -> Judgement:
    """The verdict on a state from the run of the tests on it."""
    names = decisive.names
    if not names:
        return Judgement(verdict=Verdict(solved=None), reason=NO_TESTS)
    passing = {name for name in names if run.of(name) == "passed"}
    verdict = Verdict(solved=None, passed=len(passing), total=len(names))
    fit = (*fitness.begins, *fitness.stays)
    failing = [name for name in fit if name not in passing]
    unseen = [name for name in failing if run.of(name) is None]
    unfit = f"the environment is unfit: {fitness.reason}" if fitness.reason else ""
    if run.is_cut and failing and len(unseen) == len(failing):
        return Judgement(verdict=verdict, reason="part of the tests' output was lost, and their results with it")
    if failing and (fitness.is_shown or (fitness.begins and passing)):
        solved: bool | None = False
    elif not failing and len(passing) == len(names) and fitness.begins:
        solved = True
    else:
        solved = None
    reason = {True: "", False: run.problem, None: unfit}[solved]
    verdict = msgspec.structs.replace(verdict, solved=solved)
    return Judgement(verdict=verdict, state=_class(fitness, run, passing, solved), reason=reason)


def _class(fitness: Fitness, run: Run, passing: set[str], solved: bool | None) -> StateClass | None:
    if solved:
        return "already_solved"
    if solved is None:
        return None
    if not run.results:
        return "invalid"
    return "regressed" if any(name not in passing for name in fitness.stays) else "needs_completion"
