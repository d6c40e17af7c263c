"""Why a failed run failed, and that unknown success is no failure (``docs/science.md §14``)."""

from __future__ import annotations

from handoff.quality import assess
from handoff.quality.attribution import Category
from handoff.trajectory import Ending, Outcome, Step
from tests.quality.build import bash, call, edit, reminder, run

FIX = edit("src/a.py", "1", "3")
PASSED, FAILED = bash("pytest -q", "3 passed in 0.1s"), bash("pytest -q", "1 failed, 2 passed in 0.1s", 1)


def reasons(
    *steps: Step, resolved: bool | None = False, ended: Ending | None = "submitted", patch: str | None = "diff"
) -> dict[Category, tuple[int, ...]] | None:
    outcome = Outcome(resolved=resolved, ended=ended, patch=patch)
    found = assess(run(*steps, outcome=outcome)).failures
    return None if found is None else {failure.category: failure.steps for failure in found}


def test_only_a_failed_run_has_reasons() -> None:
    """Tests that fail, or a limit that left no patch. Everything else stays unattributed."""
    assert reasons(FIX, resolved=True) is None
    assert reasons(FIX, resolved=None) is None
    assert reasons(FIX, resolved=None, ended="step_limit", patch="diff") is None
    assert reasons(FIX, resolved=None, ended="aborted", patch=None) is None
    assert reasons(FIX, resolved=None, ended=None, patch=None) is None
    assert reasons(FIX, resolved=None, ended="step_limit", patch=None) is not None
    assert reasons(FIX, resolved=None, ended="cost_limit", patch=" \n") is not None


def test_every_reason_names_steps_of_the_run() -> None:
    steps = (bash("x", "bash: x: command not found", 127),) * 4 + (FIX, FAILED, reminder())
    found = assess(run(*steps, outcome=Outcome(resolved=False, ended="step_limit"))).failures
    assert found
    assert all(f.steps and f.steps[0] >= 1 and f.steps[-1] <= len(steps) for f in found)
    assert [f.steps[0] for f in found] == sorted(f.steps[0] for f in found)


def test_a_sound_run_that_failed_is_unexplained() -> None:
    assert reasons(bash("cat src/a.py", "x"), FIX, PASSED) == {"unexplained": (3,)}


def test_environment() -> None:
    missing = bash("python x.py", "ModuleNotFoundError: No module named 'numpy'", 1)
    assert reasons(missing, bash("y", "timed out", 124), missing, FIX, PASSED) == {"environment": (1, 2, 3)}
    assert reasons(FIX, PASSED, ended="error") == {"environment": (2,)}
    assert reasons(FIX, missing, missing, PASSED) == {"unexplained": (4,)}


def test_instruction() -> None:
    assert reasons(bash("ls"), bash("ls src")) == {"instruction": (2,)}
    assert reasons(edit("tests/test_a.py", "1", "3"), PASSED) == {"instruction": (1,)}
    assert reasons(reminder(), reminder("b"), reminder("c"), FIX, PASSED) == {"instruction": (1, 2, 3)}


def test_false_assumption() -> None:
    """An edit that nothing ran, and calls on what is not there."""
    assert reasons(FIX, bash("git diff", "x")) == {"false_assumption": (1, 2)}
    refused = [edit("src/a.py", str(n), "r", "No replacement was performed") for n in range(3)]
    assert reasons(*refused, FIX, PASSED) == {"false_assumption": (1, 2, 3)}
    assert reasons(FIX, PASSED, bash("rm scratchpad.py")) == {"unexplained": (3,)}
    assert reasons(FIX, bash("python reproduce.py", "ok")) == {"unexplained": (2,)}


def test_planning() -> None:
    assert reasons(FIX, PASSED, *[bash("cat a.log", "x")] * 3) == {"planning": (5,)}
    malformed = [
        edit("src/a.py", str(n), "r", "Your proposed edit has introduced new syntax error(s).") for n in range(3)
    ]
    assert reasons(*malformed, FIX, PASSED) == {"planning": (1, 2, 3)}
    assert reasons(FIX, PASSED, ended="step_limit") == {"planning": (1, 2)}
    assert reasons(FIX, FAILED, bash("ls", "x")) == {"planning": (2, 3)}


def test_history_error_accumulation() -> None:
    steps = [step for n in range(4) for step in (edit("src/a.py", str(n), "x"), FAILED)]
    found = reasons(*steps)
    assert found is not None
    assert found["history_error_accumulation"] == (2, 4, 6, 8)
    assert "history_error_accumulation" not in (reasons(FIX, *[FAILED] * 6) or {})


def test_catastrophic_forgetting() -> None:
    found = reasons(FIX, PASSED, edit("src/a.py", "3", "4"), FAILED)
    assert found is not None
    assert found["catastrophic_forgetting"] == (2, 4)
    assert (reasons(FIX, PASSED, bash("git checkout -- src/a.py")) or {})["catastrophic_forgetting"] == (3,)


def test_memory_limitation() -> None:
    reads = [bash(f"cat src/{name}.py", name * 9) for name in "abc"]
    cut = bash("ls", "x", boundary="compaction")
    assert reasons(*reads, cut, *reads, FIX, PASSED) == {"memory_limitation": (4, 5, 6, 7)}
    assert "memory_limitation" not in (reasons(*reads, *reads, FIX, PASSED) or {})
    assert (reasons(FIX, PASSED, ended="context_limit") or {})["memory_limitation"] == (2,)
    assert reasons(call("Read", "x", file_path="a.py"), FIX, PASSED) == {"unexplained": (3,)}
