"""What came of an action: did the edit happen, did the validation pass.

Only exit codes, the editors' own answers and the test runners' own summaries count. Words such as "error" in any
text prove nothing (``docs/science.md §1``: "10 passed, 0 failed" passed).
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from handoff.actions.operations import Operation, Validate
from handoff.trajectory import Action, Observation

Passing: TypeAlias = Literal["passed", "failed"]

_REFUSALS = re.compile(
    r"""\A\s*(?:ERROR:?\s*\n?\s*|Error:\s*|OBSERVATION:\s*)*(?:
        No\ replacement\ was\ performed | Invalid\ `?(?:insert_line|path|view_range|old_str)
      | The\ path\ .{0,300}\ (?:does\ not\ exist|is\ a\ directory|is\ not\ an\ absolute) | File\ already\ exists
      | Your\ proposed\ edit\ has\ introduced\ new\ syntax\ error | Your\ changes\ have\ NOT\ been\ applied
      | Text\ not\ found | Text\ to\ replace\ not\ found | No\ file\ open | No\ edit\ history
      | String\ to\ replace\ not\ found | Found\ \d+\ matches\ of\ the\ string | File\ has\ not\ been\ read\ yet
      | File\ has\ been\ (?:modified|unexpectedly) | Failed\ to\ edit,\ | <tool_use_error>
      | Sibling\ tool\ call\ errored | The\ user\ doesn't\ want\ to\ (?:proceed|take)
      | Parameter\ `\w+`\ is\ required | Permission\ denied | (?:error:\ )?patch\ (?:failed|does\ not\ apply)
      | apply_patch\ verification\ failed | Invalid\ patch | Multiple\ occurrences\ of\ old_str
      | Usage:\ edit | end_line\ must\ be | Error:\ (?:start_line|end_line|line) | No\ such\ file
      | Execution\ (?:denied|rejected) | Unable\ to\ (?:find|read)
    )""",
    re.X,
)
_LATER_REFUSAL = re.compile(
    r"Your proposed edit has introduced new syntax error|Your changes have NOT been applied"
    r"|No replacement was performed|The edit (?:was|has been) (?:not applied|reverted)"
)


def did_not_happen(action: Action, observation: Observation) -> bool:
    """Positive evidence that the action had no effect: refused, not run, or rolled back (FORMATS T11).

    For a shell line only evidence about the whole line counts: a failing exit code does not say which part failed.
    """
    if observation.missing in ("not_executed", "aborted"):
        return True
    is_shell = action.tool.lower() in _SHELL_LIKE
    if is_shell:
        head = observation.text[:400].lstrip()
        return (
            observation.exit_code in (126, 127) and "&&" not in action.arguments and "\n" not in action.arguments
        ) or (
            head.startswith(("bash: syntax error", "/bin/bash: -c: line", "sh: 1: Syntax error"))
            and "syntax error" in head.lower()
        )
    if observation.error is True:
        return True
    if observation.exit_code not in (None, 0):
        return True
    text = observation.text
    return _REFUSALS.match(text[:1_000]) is not None or _LATER_REFUSAL.search(text[:4_000]) is not None


_SHELL_LIKE = frozenset(
    [
        "bash",
        "shell",
        "execute_bash",
        "terminal",
        "run_terminal_cmd",
        "shell_command",
        "exec_command",
        "bash_command",
        "run_shell_command",
        "execute_command",
        "run_command",
        "run_commands",
        "run",
        "local_shell",
    ]
)


class Validation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one validation run."""

    kind: Literal["test", "build", "lint"]
    target: str
    command: str = ""
    outcome: Passing | None = None
    """``None``: the recording does not say."""
    passed: int | None = None
    failed: int | None = None
    """Failures and errors together."""
    failing: tuple[str, ...] = ()
    """Names of failing tests as the runner printed them, in its order, each once."""


_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COUNT = re.compile(
    r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?|rerun|subtests passed)\b"
)
_PYTEST_LINE = re.compile(
    r"^(?:=+ )?(?=[^\n]*\b\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed)\b|(?:=+ )?no tests ran)"
    r"((?:\d+ [a-z ]+?(?:, )?)+|no tests ran)(?: in [\d.:]+ ?s?(?:econds)?[^\n=]*)?(?: =+)?[ \t\r]*$",
    re.M,
)
_PYTEST_FAILING = re.compile(r"^(?:FAILED|ERROR) ((?:[^\s\[]|\[[^\]\n]*\])+)(?: - [^\n]*)?[ \t\r]*$", re.M)
_UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s[ \t\r]*$", re.M)
_UNITTEST_END = re.compile(r"^(OK|FAILED)(?: \(([^)\n]*)\))?[ \t\r]*$", re.M)
_UNITTEST_FAILING = re.compile(r"^(?:FAIL|ERROR): (\S+(?: \([\w.]+\))?)", re.M)
_UNITTEST_COUNT = re.compile(r"(failures|errors|unexpected successes)=(\d+)")
_OTHER_RUNNERS: tuple[tuple[re.Pattern[str], int, int], ...] = (
    (re.compile(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed;", re.M), 1, 2),  # cargo
    (re.compile(r"^Tests run: (\d+), Failures: (\d+), Errors: (\d+)", re.M), 0, 0),  # maven; counted below
)
_JEST = re.compile(r"^\s*Tests:?\s+((?:\d+ \w+[,| ]*)+)", re.M)
_NOT_A_VERDICT = frozenset((3, 4, 5, 124, 126, 127, 130, 137, 143, -1))
"""Exit codes that say that nothing was judged: usage errors, no tests found, not found, killed, timed out."""


def validation(operation: Operation, observation: Observation) -> Validation | None:
    """What a ``Validate`` found; ``None`` for other operations and for a run with no answer at all."""
    if not isinstance(operation, Validate) or observation.missing in ("not_executed", "aborted"):
        return None
    text = observation.text
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    passed, failed, failing = _summary(text, operation.runner)
    code = observation.exit_code if operation.owns_exit_code else None
    outcome: Passing | None = None
    if failed:
        outcome = "failed"
    elif code is not None:
        if code == 0:
            outcome = "passed"
        elif code not in _NOT_A_VERDICT or (code == 5 and operation.runner not in ("pytest", "unittest")):
            outcome = "failed"
    elif passed:
        outcome = "passed"
    return Validation(
        kind=operation.kind,
        target=operation.target,
        command=operation.command,
        outcome=outcome,
        passed=passed,
        failed=failed,
        failing=failing,
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007  the last one is wanted
        pass
    return found


def _summary(text: str, runner: str) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Passed, failed and failing tests by the runner's last summary; ``None`` where it gives none."""
    line = _last(_PYTEST_LINE, text)
    if line is not None and (" in " in line[0] or "=" in line[0]):
        counts = dict.fromkeys(("passed", "failed"), 0)
        for number, word in _COUNT.findall(line[0]):
            if word == "passed":
                counts["passed"] += int(number)
            elif word in ("failed", "error", "errors"):
                counts["failed"] += int(number)
        failing = tuple(dict.fromkeys(m[1] for m in _PYTEST_FAILING.finditer(text))) if counts["failed"] else ()
        return counts["passed"], counts["failed"], failing
    ran = _last(_UNITTEST_RAN, text)
    if ran is not None and (end := _UNITTEST_END.search(text, ran.end())):
        bad = sum(int(n) for _, n in _UNITTEST_COUNT.findall(end[2] or ""))
        if end[1] == "FAILED" and not bad:
            bad = 1
        failing = tuple(dict.fromkeys(m[1] for m in _UNITTEST_FAILING.finditer(text))) if bad else ()
        return max(int(ran[1]) - bad, 0), bad, failing
    cargo = _OTHER_RUNNERS[0][0].findall(text)
    if cargo:
        return sum(int(p) for p, _ in cargo), sum(int(f) for _, f in cargo), ()
    if runner in ("mvn", "mvnw") and (maven := _OTHER_RUNNERS[1][0].findall(text)):
        total, *bad_ones = (int(n) for n in maven[-1])
        return total - sum(bad_ones), sum(bad_ones), ()
    if runner in ("npm", "jest", "vitest", "yarn", "pnpm", "bun") and (jest := _JEST.findall(text)):
        counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", jest[-1])}
        if counts:
            return counts.get("passed", 0), counts.get("failed", 0), ()
    return None, None, ()
