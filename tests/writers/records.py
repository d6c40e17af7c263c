"""Evidence records for tests of writers."""

from __future__ import annotations

from typing import Any

from handoff.evidence import Changed, Evidence, FileRead, LastValidation, Reverted, Said

FAILED = LastValidation(
    command="python -m pytest tests/test_pager.py",
    step=8,
    outcome="failed",
    passed=3,
    failed=1,
    failing=("tests/test_pager.py::test_last_page",),
    is_stale=False,
)
PASSED = LastValidation(
    command="python -m pytest", step=8, outcome="passed", passed=4, failed=0, failing=(), is_stale=False
)
STALE = LastValidation(
    command="python -m pytest", step=5, outcome="passed", passed=4, failed=0, failing=(), is_stale=True
)


def record(last: LastValidation | None = PASSED, **parts: Any) -> Evidence:
    """A run of nine steps that changed ``src/pager.py``, put ``src/cache.py`` back and read both and a test."""
    usual: dict[str, Any] = {
        "h": 9,
        "task": "The pager loses the last page; see README.md.",
        "changed": (Changed(path="src/pager.py", status="modified", steps=(4, 6)),),
        "reverted": (Reverted(path="src/cache.py", steps=(5, 7)),),
        "last_validation": last,
        "reads": (FileRead(path="src/cache.py", step=2), FileRead(path="tests/test_pager.py", step=3)),
        "failed_attempts": (Said(text="edit src/pager.py: no match", step=3),),
        "intentions": (Said(text="I will fix the rounding next.", step=9),),
        "open_failures": (),
        "commands": (Said(text="python repro.py", step=1),),
    }
    return Evidence(**{**usual, **parts})
