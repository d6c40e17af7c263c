"""What came of an action: refusals of editors, and verdicts of validations (``docs/science.md §1``)."""

from __future__ import annotations

import pytest

from handoff.actions import did_not_happen, validation
from handoff.actions.operations import Validate
from handoff.trajectory import Action, Observation
from tests.actions.calls import bash, call

EDIT = call("str_replace_editor", command="str_replace", path="a.py", old_str="x", new_str="y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No replacement was performed, old_str `x` did not appear verbatim", True),
        ("Your proposed edit has introduced new syntax error(s). Please read", True),
        ("<tool_use_error>File has not been read yet.</tool_use_error>", True),
        ("The file /a.py has been edited. Here's the result: error: No replacement needed", False),
        ("", False),
        ("File updated. Please review the changes", False),
        (
            "The file a.py has been edited.\n1\tNo replacement was performed\n2\tYour changes have NOT been applied",
            False,
        ),
        ("Your edit was not applied (file not modified): Text 'x' not found in displayed lines.", True),
        ("Your search and replace strings are the same. No changes were made.", True),
        ("Error: File 'a.py' already exists.", True),
        ("Warning: File 'a.py' already exists.", True),
        ("The user doesn't want to proceed with this tool use. The tool use was rejected", True),
        ("<tool_use_error>Sibling tool call errored</tool_use_error>", True),
        ("PreToolUse:Edit hook error: [check.sh]: blocked", True),
        ("Claude requested permissions to write to a.py, but you haven't granted it yet.", True),
        ("Found 2 matches of the string to replace, but replace_all is false.", True),
        ("No changes to make: old_string and new_string are exactly the same.", True),
        ("apply_patch verification failed: Failed to find expected lines in a.py", True),
        ("Success. Updated the following files:\nM a.py", False),
        ("patch rejected by user", True),
        ("Failed to edit, 0 occurrences found for old_string in a.py", True),
        ("Error: Could not find the exact text in a.py. The old text must match exactly", True),
        ('{"query": "edit:a.py", "result": "", "error": "no match", "success": false}', True),
        ('{"query": "edit:a.py", "result": "ok", "success": true}', False),
        ("The user denied this operation.", True),
        ("Action rejected: no", True),
        ("ERROR:\nNo replacement was performed, old_str", True),
        ("Editor operation failed: No replacement performed: text not found in a.py.", True),
        ("No replacement performed: multiple occurrences of text found in a.py.", True),
        ("The tool execution failed with the following error:\n<error>\nThe SEARCH block…\n</error>", True),
        ("This SEARCH block failed to exactly match lines in a.py", True),
        ("The LLM did not conform to the edit format.", True),
        ("Ran into [Errno 13] Permission denied while trying to write to /a.py", True),
        ("aborted by user after 3.2s", True),
        ("Failed to apply patch", True),
        ("writing outside of the project; rejected by user approval settings", True),
        ("usage: edit [-h] search replace [replace-all]\nedit: error: unrecognized arguments", True),
        ("[File: /a.py (3 lines total)]\n1:usage: edit [-h]\n2:aborted by user\n3:The LLM did not conform", False),
    ],
)
def test_an_edit_did_not_happen_only_on_positive_evidence(text: str, expected: bool) -> None:
    """FORMATS T11: the editor's own refusal counts, a word in a file does not."""
    assert did_not_happen(EDIT, Observation(text=text)) is expected


@pytest.mark.parametrize(
    ("action", "observation", "expected"),
    [
        (EDIT, Observation(missing="not_executed"), True),
        (EDIT, Observation(missing="aborted"), True),
        (EDIT, Observation(missing="none"), False),
        (EDIT, Observation(text="x", error=True), True),
        (EDIT, Observation(text="x", exit_code=1), True),
        (bash("sed -i s/x/y/ a.py; false"), Observation(exit_code=1), False),
        (bash("sed -i s/x/y/ a.py"), Observation(text="boom", error=True), False),
        (bash("sedd -i s/x/y/ a.py"), Observation(exit_code=127), True),
        (bash("sedd -i a.py"), Observation(text="bash: line 1: sedd: command not found", exit_code=127), True),
        (bash("sed -i s/x/y/ a.py\nsedd"), Observation(text="bash: sedd: command not found", exit_code=127), False),
        (bash("sed -i s/x/y/ a.py | sedd"), Observation(text="bash: sedd: command not found", exit_code=127), False),
        (bash("bash mend.sh"), Observation(text="mend.sh: line 3: sedd: command not found", exit_code=127), False),
        (bash("rm a.py"), Observation(text="The user doesn't want to proceed with this tool use."), True),
        (bash("cat log"), Observation(text="1\nThe user doesn't want to proceed"), False),
        (bash("rm 'a"), Observation(text="bash: syntax error near unexpected token", exit_code=2), True),
    ],
)
def test_a_line_that_failed_may_have_done_half(action: Action, observation: Observation, expected: bool) -> None:
    """For an editor a failure is a refusal; of a shell line some command may have run."""
    assert did_not_happen(action, observation) is expected


PYTEST = Validate(kind="test", target=".", runner="pytest")
UNITTEST = Validate(kind="test", target=".", runner="unittest")


@pytest.mark.parametrize(
    ("operation", "text", "code", "expected"),
    [
        (PYTEST, "====== 10 passed, 0 failed in 0.1s ======", None, ("passed", 10, 0)),
        (PYTEST, "10 passed in 0.12s", 0, ("passed", 10, 0)),
        (PYTEST, "FAILED t.py::a - x\n1 failed, 2 passed in 0.12s", None, ("failed", 2, 1)),
        (PYTEST, "\x1b[31m=== \x1b[1m1 failed\x1b[0m, 2 passed in 1.2s ===\x1b[0m", 1, ("failed", 2, 1)),
        (PYTEST, "==== 3 passed, 1 error in 2s ====", None, ("failed", 3, 1)),
        (PYTEST, "error failed error", None, (None, None, None)),
        (PYTEST, "no tests ran in 0.01s", 5, (None, 0, 0)),
        (PYTEST, "usage: pytest", 4, (None, None, None)),
        (PYTEST, "", 1, ("failed", None, None)),
        (PYTEST, "", 124, (None, None, None)),
        (UNITTEST, "Ran 3 tests in 0.001s\n\nOK (skipped=1)", None, ("passed", 3, 0)),
        (UNITTEST, "FAIL: test_a (m.T)\nRan 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)", 1, ("failed", 1, 2)),
        (Validate(kind="test", target=".", runner="pytest", owns_exit_code=False), "", 0, (None, None, None)),
        (PYTEST, "3 skipped in 0.1s", 0, (None, 0, 0)),
        (PYTEST, "10 passed in 0.1s", 1, ("failed", 10, 0)),
        (PYTEST, "collected 3 items\n\na.py .F", None, (None, None, None)),
        (UNITTEST, "Ran 2 tests in 0.1s\n\nOK\nRan 3 tests in 0.1s\n\nFAILED (failures=1)", None, ("failed", 4, 1)),
        (UNITTEST, "Ran 0 tests in 0.000s\n\nOK", 0, (None, 0, 0)),
        (Validate(kind="lint", target="mypy", runner="mypy"), "found errors", 0, ("passed", None, None)),
    ],
)
def test_a_validation_is_judged_by_exit_code_and_summary(
    operation: Validate, text: str, code: int | None, expected: tuple[str | None, int | None, int | None]
) -> None:
    """Never by the words "fail" or "error" (§1)."""
    found = validation(operation, Observation(text=text, exit_code=code))
    assert found is not None
    assert (found.outcome, found.passed, found.failed) == expected


def test_failing_tests_are_named_as_the_runner_names_them() -> None:
    """Each once, in order, with parameters."""
    text = "FAILED a.py::t[x y] - assert\nFAILED b.py::u\nFAILED b.py::u\n2 failed in 0.1s"
    found = validation(PYTEST, Observation(text=text))
    assert found is not None
    assert found.failing == ("a.py::t[x y]", "b.py::u")


@pytest.mark.parametrize(
    ("runner", "text", "expected"),
    [
        ("django", "Ran 12 tests in 1.2s\n\nFAILED (errors=2, skipped=1)", ("failed", 10, 2)),
        ("nose", "Ran 3 tests in 0.002s\n\nOK", ("passed", 3, 0)),
        (
            "tox",
            "  py311: OK (2.31=setup[1.00]+cmd[1.31] seconds)\n  congratulations :) (2.50 seconds)",
            ("passed", None, None),
        ),
        ("tox", "  py311: FAIL code 1 (2.3 seconds)\n  evaluation failed :( (2.50 seconds)", ("failed", None, None)),
        ("nox", "nox > Session tests-3.11 was successful.\nnox > Session lint failed.", ("failed", None, None)),
        ("jest", "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 4 passed, 5 total\n", ("passed", 4, 0)),
        ("npm", "Test Suites: 1 failed, 1 total\nTests:       1 failed, 4 passed, 5 total\n", ("failed", 4, 1)),
        ("jest", "Test Suites: 1 failed, 1 total\nTests:       0 total\n", ("failed", None, None)),
        ("vitest", " Test Files  1 passed (1)\n      Tests  3 passed | 1 skipped (4)\n", ("passed", 3, 0)),
        ("mocha", "  12 passing (34ms)\n  1 pending\n", ("passed", 12, 0)),
        ("npm", "  12 passing (1s)\n  2 failing\n\n  1) adds\n", ("failed", 12, 2)),
        ("go", "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tx/y\t0.01s\n", ("passed", 1, 0)),
        ("go", "ok  \tx/y\t(cached)\n?   \tx/z\t[no test files]\n", ("passed", None, None)),
        ("go", "--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tx/y\t0.01s\nFAIL\n", ("failed", 0, 1)),
        ("go", "FAIL\tx/y [build failed]\nFAIL\n", ("failed", None, None)),
        ("mise", "ok  \tx/y\t0.01s\n", ("passed", None, None)),
        ("go", "DONE 12 tests, 2 failures in 1.5s", ("failed", 10, 2)),
        (
            "cargo",
            "test result: ok. 3 passed; 0 failed; 0 ignored\ntest result: FAILED. 1 passed; 1 failed; 0 ignored",
            ("failed", 4, 1),
        ),
        ("cargo", "     Summary [   0.5s] 10 tests run: 9 passed, 1 failed, 0 skipped", ("failed", 9, 1)),
        (
            "mvn",
            "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s - in A\n"
            "[ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1\n[INFO] BUILD FAILURE",
            ("failed", 2, 2),
        ),
        ("mvn", "[INFO] BUILD SUCCESS\n", ("passed", None, None)),
        ("gradle", "5 tests completed, 2 failed\n\nBUILD FAILED in 3s", ("failed", 3, 2)),
        ("gradle", "BUILD SUCCESSFUL in 3s", ("passed", None, None)),
        ("ctest", "67% tests passed, 1 tests failed out of 3\n", ("failed", 2, 1)),
        ("make", "100% tests passed, 0 tests failed out of 3\n", ("passed", 3, 0)),
        ("rspec", "5 examples, 1 failure, 1 pending\n\nrspec ./a_spec.rb:3 # A adds\n", ("failed", 3, 1)),
        ("mix", "Finished in 0.1 seconds\n2 doctests, 5 tests, 0 failures\n", ("passed", 5, 0)),
        ("phpunit", "OK (3 tests, 5 assertions)\n", ("passed", 3, 0)),
        ("phpunit", "FAILURES!\nTests: 5, Assertions: 9, Failures: 1, Errors: 1.\n", ("failed", 3, 2)),
        ("bun", " 3 pass\n 1 fail\nRan 4 tests across 1 files.", ("failed", 3, 1)),
        ("deno", "ok | 3 passed | 0 failed (10ms)", ("passed", 3, 0)),
        ("dotnet", "Failed!  - Failed:     1, Passed:     4, Skipped:     0, Total:     5", ("failed", 4, 1)),
        ("node", "# tests 3\n# pass 2\n# fail 1\n", ("failed", 2, 1)),
        ("make", "error: all tests failed, 3 failing, FAIL", (None, None, None)),
        ("npm", "Tests: see above. Failed to passed 10 failed", (None, None, None)),
        ("go", "ok, we are fine\nFAILURE is not an option", (None, None, None)),
    ],
)
def test_every_runner_is_believed_by_its_own_summary(
    runner: str, text: str, expected: tuple[str | None, int | None, int | None]
) -> None:
    """Without an exit code. Running text proves nothing, whatever words it holds."""
    found = validation(Validate(kind="test", target=".", runner=runner), Observation(text=text))
    assert found is not None
    assert (found.outcome, found.passed, found.failed) == expected


def test_failing_tests_of_other_runners_are_named_too() -> None:
    for runner, text, names in (
        ("cargo", "test a::b ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored", ("a::b",)),
        ("go", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tx\t0.1s", ("TestA",)),
        ("jest", "  ● math › adds\n\nTests: 1 failed, 1 total", ("math › adds",)),
        ("rspec", "1 example, 1 failure\n\nrspec ./a_spec.rb:3 # A adds", ("./a_spec.rb:3",)),
    ):
        found = validation(Validate(kind="test", target=".", runner=runner), Observation(text=text))
        assert found is not None
        assert found.failing == names


def test_a_linter_is_believed_by_its_own_summary() -> None:
    for text, expected in (
        ("Success: no issues found in 3 source files", "passed"),
        ("a.py:1: error: x\nFound 2 errors in 1 file (checked 3 source files)", "failed"),
        ("All checks passed!", "passed"),
        ("a.py:1: error", None),
    ):
        found = validation(Validate(kind="lint", target="l", runner="mypy"), Observation(text=text))
        assert found is not None
        assert found.outcome == expected


@pytest.mark.parametrize(
    "piece", ["1 passed, ", "Tests: 1 failed, ", "=" * 50, "--- FAIL: ", "[[", "1 ", "\n", "Tests run: 1, "]
)
def test_hostile_output_is_read_in_one_pass(piece: str) -> None:
    """A megabyte of what a summary begins with is no summary, and is passed over."""
    found = validation(
        Validate(kind="test", target=".", runner="pytest"), Observation(text=piece * (1_000_000 // len(piece)))
    )
    assert found is not None
