"""A failed takeover as a success of a smaller task: tests that it made pass, or files that it put right.

What it achieved is read off two runs of the task's own tests, on the state it began from and on the one it left. Those
that changed are run a second time, file by file: what is not the same both times is not told. Where no test changed,
a file may still be right: amid the whole solution all tests pass with what the takeover left of it, and with what it
was before some fail.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from handoff.adversary.scene import is_judging

MOST_NAMED = 20
"""Outcome that a smaller task names."""
_FAILED = re.compile(
    r"^FAILED ([^\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]{1,300}?)(?: - .*)?$", re.M
)
"""A name is shown as it is: nothing that moves a cursor or turns a text round is one."""
_ERROR = re.compile(r"^ERROR \S", re.M)


class Outcome(NamedTuple):
    """One run of tests."""

    failing: frozenset[str]
    total: int


NOTHING_FIXED = "no test that failed passes now"


class Achieved(NamedTuple):
    """What changed between two states, by their tests."""

    fixed: tuple[str, ...]
    """Sorted: failed before, pass now."""
    reason: str
    """Why it is no success of any task; empty where it is one."""


def is_put_right(before: Outcome | None, after: Outcome | None) -> bool:
    """Whether a file was put right: amid the whole solution tests fail with what it was, and none with what it is."""
    return before is not None and after is not None and bool(before.failing) and not after.failing


def read_tests(output: str, total: int) -> Outcome | None:
    """The failing tests of a run of pytest; ``None`` where a file could not be collected, or nothing was counted."""
    if _ERROR.search(output) is not None or not total:
        return None
    return Outcome(frozenset(failing_in(output)), total)


def failing_in(output: str) -> tuple[str, ...]:
    """Outcome that pytest lists as failed, in its order, each once."""
    return tuple(dict.fromkeys(_FAILED.findall(output)))


def achieved(before: Outcome | None, after: Outcome | None, touched: Collection[str]) -> Achieved:
    """``touched``: files that the run changed."""
    judging = sorted(path for path in touched if is_judging(path))
    if judging:
        return Achieved((), f"it changed what judges: {judging[0]}")
    if before is None or after is None:
        return Achieved((), "its tests could not be told one by one")
    if before.total != after.total:
        return Achieved((), "not the same tests ran before and after")
    broken = sorted(after.failing - before.failing)
    if broken:
        return Achieved((), f"it broke {len(broken)} tests, {broken[0]} the first")
    fixed = tuple(sorted(before.failing - after.failing))
    if not fixed:
        return Achieved((), NOTHING_FIXED)
    if len(fixed) > MOST_NAMED:
        return Achieved((), f"it made {len(fixed)} tests pass, more than a task can name")
    return Achieved(fixed, "")


def files_of(tests: Collection[str]) -> tuple[str, ...]:
    """The files that hold these tests, sorted."""
    return tuple(sorted({test.split("::", 1)[0] for test in tests}))


def is_repeated(
    fixed: Collection[str], before: Mapping[str, Outcome | None], after: Mapping[str, Outcome | None]
) -> bool:
    """Whether each of these fails before and passes after in a second run, given by test file."""
    for test in fixed:
        file = test.split("::", 1)[0]
        earlier, later = before.get(file), after.get(file)
        if earlier is None or later is None or test not in earlier.failing or test in later.failing:
            return False
    return True


def smaller_task(task: str, *, tests: Collection[str] = (), files: Collection[str] = ()) -> str:
    """The statement of the smaller task: only what was verified, and the whole task as background."""
    named = "\n".join(f"- {name}" for name in sorted(tests or files))
    asked = (
        "Make these tests pass"
        if tests
        else "Put these files right, so that the larger task needs no other change to them"
    )
    return (
        f"{asked}, and break no test that passes now:\n\n{named}\n\n"
        f"They are part of a larger task. The rest of it need not be done now:\n\n{task}"
    )
