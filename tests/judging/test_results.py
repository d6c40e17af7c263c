"""What runners print for one test each, and what a task's names find in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.judging.results import Run, results_of

PYTEST = """\
============================= test session starts ==============================
FAILED is a word here
=========================== short test summary info ============================
PASSED tests/test_a.py::test_b
PASSED tests/test_a.py::test_p[a b-c - d]
PASSED tests/test_a.py::test_q[[1, 2]]
FAILED tests/test_a.py::test_c - assert 1 == 2
FAILED tests/test_a.py::test_d[x] - AssertionError: [1] - no
ERROR tests/test_a.py::test_b - teardown
ERROR tests/test_broken.py - ImportError: no
XFAIL tests/test_a.py::test_known - some day
SKIPPED [1] tests/test_a.py:7: not here
=================== 2 failed, 3 passed, 1 skipped in 0.10s ====================
"""
VERBOSE = """\
tests/test_a.py::test_b PASSED                    [ 33%]
tests/test_a.py::test_p[a b] FAILED               [ 66%]
tests/test_a.py::test_s SKIPPED (why not)         [100%]
"""
DJANGO = """\
test_b (tests.test_a.Case) ... ok
test_c (tests.test_a.Case.test_c) ... FAIL
test_d (tests.test_a.Case)
What it is about. ... ok
test_e (tests.test_a.Case) ... skipped 'why not'
test_f (tests.test_a.Case) ... expected failure
----------------------------------------------------------------------
Ran 5 tests in 0.001s
"""
OTHERS = """\
test parser::reads ... ok
test parser::writes ... FAILED
--- PASS: TestA (0.00s)
    --- FAIL: TestA/sub (0.00s)
  \u2713 adds numbers (3 ms)
  \u2715 divides by zero
"""


def test_pytests_summary_is_read_by_name() -> None:
    """A test with an error at its teardown has not passed, whatever stands before."""
    assert results_of(PYTEST) == {
        "tests/test_a.py::test_b": "failed",
        "tests/test_a.py::test_c": "failed",
        "tests/test_a.py::test_d[x]": "failed",
        "tests/test_a.py::test_known": "passed",
        "tests/test_a.py::test_p[a b-c - d]": "passed",
        "tests/test_a.py::test_q[[1, 2]]": "passed",
        "tests/test_broken.py": "failed",
    }


def test_other_forms_are_read_too() -> None:
    assert results_of(VERBOSE) == {
        "tests/test_a.py::test_b": "passed",
        "tests/test_a.py::test_p[a b]": "failed",
        "tests/test_a.py::test_s": "skipped",
    }
    found = Run(results=results_of(DJANGO))
    assert [found.of(f"test_{letter} (tests.test_a.Case)") for letter in "bcdef"] == [
        *("passed", "failed", "passed", "skipped", "passed")
    ]
    assert found.of("What it is about.") == "passed"
    assert found.of("test_c (tests.test_a.Other)") is None
    assert results_of(OTHERS) == {
        "TestA": "passed",
        "TestA/sub": "failed",
        "adds numbers": "passed",
        "divides by zero": "failed",
        "parser::reads": "passed",
        "parser::writes": "failed",
    }


def test_names_that_instances_cut_at_a_blank_are_found() -> None:
    """Of several tests with one such name the worst counts."""
    found = Run(results={"t.py::a[x y]": "passed", "t.py::a[x z]": "failed", "t.py::b[x y]": "passed"})
    assert (found.of("t.py::a[x"), found.of("t.py::b[x"), found.of("t.py::a")) == ("failed", "passed", None)
    assert found.of("t.py::a[x y]") == "passed"


def test_colours_are_no_part_of_a_name() -> None:
    assert results_of("\x1b[32mPASSED\x1b[0m a.py::\x1b[1mb\x1b[0m") == {"a.py::b": "passed"}


def test_a_real_pytest_is_read(tmp_path: Path) -> None:
    """The same line that judges use where nobody says another."""
    (tmp_path / "test_x.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('v', ['a b', 'c - d', '[e]', 'f]'])\n"
        "def test_p(v): assert v\n"
        "def test_fails(): assert [1] == [2], 'x - y'\n"
        "@pytest.mark.skip(reason='no')\n"
        "def test_skipped(): pass\n"
        "@pytest.mark.xfail\n"
        "def test_known(): assert 0\n"
        "@pytest.fixture\n"
        "def late():\n    yield\n    raise RuntimeError('late')\n"
        "def test_late(late): pass\n"
    )
    line = [sys.executable, "-m", "pytest", "-rap", "--tb=no", "--color=no", "-p", "no:cacheprovider", "test_x.py"]
    said = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert results_of(said) == {
        "test_x.py::test_fails": "failed",
        "test_x.py::test_known": "passed",
        "test_x.py::test_late": "failed",
        "test_x.py::test_p[[e]]": "passed",
        "test_x.py::test_p[a b]": "passed",
        "test_x.py::test_p[c - d]": "passed",
        "test_x.py::test_p[f]]": "passed",
    }


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    found = results_of(text)
    assert list(found) == sorted(found)
    Run(results=found).of(text)


@pytest.mark.parametrize(
    "line", ["PASSED " + "a" * 200_000, "PASSED a[" * 20_000, "x.py::" * 20_000, " ... " * 40_000, "(" * 100_000]
)
def test_long_lines_are_passed_over(line: str) -> None:
    assert results_of(line + "\nPASSED a.py::b\n") == {"a.py::b": "passed"}
