"""The oracle check: a disturbance must not make the task unfair (``docs/science.md §10``).

Executed where tests can run, else recorded as not run; never assumed. How tests are run is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from handoff.adversary.scene import Scene, is_judging, tree_changes

Changes: TypeAlias = Mapping[str, bytes | None]
"""Path → content written over the state at h; ``None`` deletes."""

RunTests: TypeAlias = Callable[[Changes], "tuple[int, int] | None"]
"""Runs the task's tests on the state at h with these changes: (passed, total), or ``None`` where they cannot run."""


class OracleCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the check found."""

    outcome: Literal["preserved", "broken", "not_run"]
    detail: str


def oracle_check(
    before: Scene,
    after: Scene,
    reference: Changes | None,
    run_tests: RunTests | None,
    *,
    keeps_behaviour: bool = False,
) -> OracleCheck:
    """Do the task's tests still decide, and does the reference solution still pass?

    ``reference``: the final content of every file that the reference solution changes. It is written over the
    disturbed state, and all tests must pass there; and the disturbance alone must not solve an unsolved task.
    ``keeps_behaviour``: as many tests must pass on the disturbed state as on the other.
    """
    changes = tree_changes(before, after)
    touched = [path for path in changes if is_judging(path)]
    if touched:
        return OracleCheck(outcome="broken", detail=f"changes {touched[0]}, which decides what the tests say")
    if run_tests is None or reference is None:
        missing = "no reference solution is known" if reference is None else "tests cannot run here"
        return OracleCheck(outcome="not_run", detail=missing)
    counted = run_tests({**changes, **reference})
    if counted is None:
        return OracleCheck(outcome="not_run", detail="the tests could not be run on the disturbed state")
    passed, total = counted
    if not _is_solved(counted):
        detail = f"the reference solution passes {passed} of {total} tests"
        if not changes or not _is_solved(run_tests(dict(reference))):
            detail += "; so it does without the disturbance"
        return OracleCheck(outcome="broken", detail=detail)
    if changes:
        alone, undisturbed = run_tests(changes), run_tests({})
        if alone is None or undisturbed is None:
            return OracleCheck(outcome="not_run", detail="the tests could not be run without the reference solution")
        if keeps_behaviour and alone != undisturbed:
            return OracleCheck(outcome="broken", detail="the disturbance changes what the tests say, and should not")
        if _is_solved(alone) and not _is_solved(undisturbed):
            return OracleCheck(outcome="broken", detail="the disturbance alone solves the task")
    return OracleCheck(outcome="preserved", detail=f"the reference solution passes {passed} of {total} tests")


def _is_solved(counted: tuple[int, int] | None) -> bool:
    return counted is not None and counted[1] > 0 and counted[0] == counted[1]
