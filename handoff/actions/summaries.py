"""The summaries that test runners, builds and linters print, each by its own form.

A form is a whole line at a fixed place; a word in running text is none. Output that was clipped before the summary has
none, and then nothing is said. Where one run prints several (Maven's modules, Cargo's crates, tox's environments) they
add up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple


class Summary(NamedTuple):
    """What the summary says. ``None``: it does not say."""

    passed: int | None = None
    failed: int | None = None
    """Failures and errors together."""
    failing: tuple[str, ...] = ()
    """Names of failing tests, in order, each once."""
    verdict: Literal["passed", "failed"] | None = None
    """For a runner that gives one without counts."""

    @property
    def is_bad(self) -> bool:
        """Whether it says that something failed."""
        return bool(self.failed) or self.verdict == "failed"

    @property
    def is_good(self) -> bool:
        """Whether it says that something passed and nothing failed."""
        return not self.is_bad and (bool(self.passed) or self.verdict == "passed")


_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LAST = 20_000
"""Characters at the end of an output that a summary is looked for in; names of failing tests may stand before."""


def summary_of(text: str, kind: str, runner: str) -> Summary:
    """The summary in an output of ``runner`` (a name of ``Validate.runner``), whatever runner it started in turn."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    end = text[-_LAST:]
    if kind == "lint":
        return _lint(end)
    own = _OWN.get(runner)
    for form in (own, *_FORMS) if own is not None else _FORMS:
        found = form(end)
        if found is not None:
            return found._replace(failing=_failing(text, found, form)) if found.is_bad else found
    return Summary()


def _failing(text: str, summary: Summary, form: Callable[[str], Summary | None]) -> tuple[str, ...]:
    pattern = _FAILING.get(form)
    return summary.failing if pattern is None else tuple(dict.fromkeys(m[1].rstrip() for m in pattern.finditer(text)))


def _sum(numbers: Iterable[str]) -> int:
    return sum(int(number[:9]) for number in numbers if number)


# -- Python -------------------------------------------------------------------------------------

_PYTEST = re.compile(
    r"^(?:=+ )?((?:\d{1,9} (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed)"
    r"(?:, )?){1,12}|no tests ran)(?P<time> in [\d.:]+ ?s?[^\n=]{0,40})?(?P<end> =+)?[ \t\r]*$",
    re.M,
)
_PYTEST_COUNT = re.compile(r"(\d{1,9}) (passed|failed|errors?)\b")
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in [\d.]+s[ \t\r]*$", re.M)
_UNITTEST_END = re.compile(r"^(OK|FAILED|NO TESTS RAN)(?: \(([^)\n]{1,200})\))?[ \t\r]*$", re.M)
_UNITTEST_COUNT = re.compile(r"(failures|errors|unexpected successes)=(\d{1,9})")
_TOX = re.compile(r"^ {0,2}(?:congratulations :\)|evaluation failed :\()", re.M)
_NOX = re.compile(r"^nox > (?:\* \S{1,100}: (success|failed)|Session \S{1,100} (was successful|failed))", re.M)


def _pytest(text: str) -> Summary | None:
    lines = [match for match in _PYTEST.finditer(text) if match["time"] or match["end"]]
    if not lines:
        return None
    counts = _PYTEST_COUNT.findall(lines[-1][0])
    return Summary(
        passed=_sum(number for number, word in counts if word == "passed"),
        failed=_sum(number for number, word in counts if word != "passed"),
    )


def _unittest(text: str) -> Summary | None:
    ran = bad = 0
    ends = None
    for match in _UNITTEST.finditer(text):
        end = _UNITTEST_END.search(text, match.end())
        if end is None:
            return None
        ends = end
        count = _sum(number for _, number in _UNITTEST_COUNT.findall(end[2] or ""))
        ran += int(match[1])
        bad += max(count, 1) if end[1] == "FAILED" else 0
    return None if ends is None else Summary(passed=max(ran - bad, 0), failed=bad)


def _tox(text: str) -> Summary | None:
    found = _TOX.findall(text)
    sessions = [good or bad for good, bad in _NOX.findall(text)]
    if not found and not sessions:
        return None
    is_bad = any("failed" in line for line in [*found, *sessions])
    return Summary(verdict="failed" if is_bad else "passed")


# -- JavaScript ---------------------------------------------------------------------------------

_JEST = re.compile(r"^[ \t]{0,12}Tests:?[ \t]{1,12}((?:\d{1,9} \w{1,12}[,| ]{0,3}){1,6})", re.M)
_JEST_SUITES = re.compile(r"^[ \t]{0,12}Test (?:Suites|Files):?[ \t]{1,12}(\d{1,9}) failed", re.M)
_JEST_COUNT = re.compile(r"(\d{1,9}) (passed|failed)")
_MOCHA = re.compile(r"^[ \t]{1,6}(\d{1,9}) (passing|failing)\b(?: \([\dms. h]{1,12}\))?[ \t\r]*$", re.M)
_BUN = re.compile(r"^[ \t]{0,3}(\d{1,9}) (pass|fail)[ \t\r]*$", re.M)
_DENO = re.compile(r"^(?:ok|FAILED) \| (\d{1,9}) passed(?: \(\d{1,9} steps?\))? \| (\d{1,9}) failed", re.M)
_TAP = re.compile(r"^(?:#|\u2139) (pass|fail) (\d{1,9})[ \t\r]*$", re.M)
_AVA = re.compile(r"^[ \t]{1,4}(\d{1,9}) tests? (passed|failed)[ \t\r]*$", re.M)


def _jest(text: str) -> Summary | None:
    lines = _JEST.findall(text)
    counts = _JEST_COUNT.findall(lines[-1]) if lines else []
    suites = _JEST_SUITES.findall(text)
    if not counts:
        return Summary(verdict="failed") if suites else None
    failed = _sum(number for number, word in counts if word == "failed")
    return Summary(
        passed=_sum(number for number, word in counts if word == "passed"),
        failed=failed,
        verdict="failed" if suites and not failed else None,
    )


def _by_word(pattern: re.Pattern[str], text: str, good: str, number: int = 0) -> Summary | None:
    """Lines that give one number and one word each."""
    found = [match.groups() for match in pattern.finditer(text)]
    if not found:
        return None
    return Summary(
        passed=_sum(match[number] for match in found if match[1 - number].startswith(good)),
        failed=_sum(match[number] for match in found if not match[1 - number].startswith(good)),
    )


def _mocha(text: str) -> Summary | None:
    return _by_word(_MOCHA, text, "passing")


def _bun(text: str) -> Summary | None:
    return _by_word(_BUN, text, "pass")


def _tap(text: str) -> Summary | None:
    return _by_word(_TAP, text, "pass", 1)


def _ava(text: str) -> Summary | None:
    return _by_word(_AVA, text, "passed")


# -- compiled languages -------------------------------------------------------------------------

_CARGO = re.compile(r"^test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed;", re.M)
_NEXTEST = re.compile(
    r"^[ \t]*Summary \[[^\]\n]{1,30}\] {1,4}\d{1,9}(?:/\d{1,9})? tests? run: (\d{1,9}) passed[^,\n]{0,60}"
    r"(?:, (\d{1,9}) failed)?",
    re.M,
)
_GO = re.compile(r"^(ok|FAIL|\?|---)[ \t:]+(?:(PASS|FAIL): )?(\S{1,300})(.{0,80})", re.M)
_GO_END = re.compile(r"^(?:FAIL|PASS)[ \t\r]*$", re.M)
_GOTESTSUM = re.compile(r"^DONE (\d{1,9}) tests?(?:, \d{1,9} skipped)?(?:, (\d{1,9}) failures?)?", re.M)
_MAVEN = re.compile(
    r"^(?:\[\w{1,8}\] {1,3})?Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9})"
    r"(?:, Skipped: (\d{1,9}))?[ \t\r]*$",
    re.M,
)
_BUILD = re.compile(r"^(?:\[\w{1,8}\] {1,3})?BUILD (SUCCESS|SUCCESSFUL|FAILURE|FAILED)\b", re.M)
_GRADLE = re.compile(r"^(\d{1,9}) tests? completed(?:, (\d{1,9}) failed)?(?:, (\d{1,9}) skipped)?[ \t\r]*$", re.M)
_CTEST = re.compile(r"^\d{1,3}% tests passed, (\d{1,9}) tests? failed out of (\d{1,9})", re.M)
_DOTNET = re.compile(r"^(?:Passed|Failed)! +- +Failed: +(\d{1,9}), +Passed: +(\d{1,9}),", re.M)


def _cargo(text: str) -> Summary | None:
    found = _CARGO.findall(text) or _NEXTEST.findall(text)
    return Summary(passed=_sum(p for p, _ in found), failed=_sum(f for _, f in found)) if found else None


def _go(text: str) -> Summary | None:
    total = _GOTESTSUM.search(text)
    if total is not None:
        bad = int(total[2] or 0)
        return Summary(passed=int(total[1]) - bad, failed=bad)
    packages = passed = failed = 0
    is_bad = _GO_END.search(text) is not None and any(line == "FAIL" for line in map(str.strip, _GO_END.findall(text)))
    for word, verdict, _, rest in _GO.findall(text):
        if word == "---" and verdict:
            passed += verdict == "PASS"
            failed += verdict == "FAIL"
        elif word == "ok" and "\t" in rest:
            packages += "[no tests to run]" not in rest
        elif word == "FAIL" and not verdict and ("\t" in rest or "[" in rest):
            is_bad = True
    if not packages and not is_bad and not failed:
        return None
    if is_bad or failed:
        return Summary(passed=passed if passed or failed else None, failed=failed or None, verdict="failed")
    return Summary(passed=passed or None, failed=0 if passed else None, verdict="passed")


def _maven(text: str) -> Summary | None:
    found = _MAVEN.findall(text)
    if not found:
        return None
    bad = _sum(n for match in found for n in match[1:3])
    skipped = _sum(match[3] for match in found)
    return Summary(passed=max(_sum(match[0] for match in found) - bad - skipped, 0), failed=bad)


def _gradle(text: str) -> Summary | None:
    found = _GRADLE.findall(text)
    if not found:
        return None
    bad, skipped = _sum(match[1] for match in found), _sum(match[2] for match in found)
    return Summary(passed=max(_sum(match[0] for match in found) - bad - skipped, 0), failed=bad)


def _built(text: str) -> Summary | None:
    found = _BUILD.findall(text)
    return Summary(verdict="passed" if found[-1].startswith("SUCCESS") else "failed") if found else None


def _ctest(text: str) -> Summary | None:
    found = _CTEST.findall(text)
    if not found:
        return None
    bad = _sum(match[0] for match in found)
    return Summary(passed=_sum(match[1] for match in found) - bad, failed=bad)


def _dotnet(text: str) -> Summary | None:
    found = _DOTNET.findall(text)
    return Summary(passed=_sum(p for _, p in found), failed=_sum(f for f, _ in found)) if found else None


def _deno(text: str) -> Summary | None:
    found = _DENO.findall(text)
    return Summary(passed=_sum(p for p, _ in found), failed=_sum(f for _, f in found)) if found else None


# -- others -------------------------------------------------------------------------------------

_RSPEC = re.compile(
    r"^(?:\d{1,9} (?:doctests?|propert(?:y|ies)), )*(\d{1,9}) (?:examples?|tests?), (\d{1,9}) failures?"
    r"(?:, (\d{1,9}) (?:pending|excluded|skipped|errors? occurred outside of examples))*[ \t\r]*$",
    re.M,
)
_PHPUNIT = re.compile(r"^OK \((\d{1,9}) tests?, \d{1,9} assertions?\)", re.M)
_PHPUNIT_COUNTS = re.compile(
    r"^Tests: (\d{1,9}), Assertions: \d{1,9}((?:, [A-Z][\w ]{1,30}: \d{1,9}){0,9})\.?[ \t\r]*$", re.M
)
_PHPUNIT_BAD = re.compile(r"(?:Failures|Errors): (\d{1,9})")


def _rspec(text: str) -> Summary | None:
    found = _RSPEC.findall(text)
    if not found:
        return None
    ran, bad, skipped = (_sum(match[n] for match in found) for n in range(3))
    return Summary(passed=max(ran - bad - skipped, 0), failed=bad)


def _phpunit(text: str) -> Summary | None:
    good = _PHPUNIT.findall(text)
    if good:
        return Summary(passed=_sum(good), failed=0)
    found = _PHPUNIT_COUNTS.findall(text)
    if not found:
        return None
    bad = _sum(_PHPUNIT_BAD.findall(found[-1][1]))
    return Summary(passed=max(int(found[-1][0]) - bad, 0), failed=bad)


_FORMS: tuple[Callable[[str], Summary | None], ...] = (
    *(_pytest, _unittest, _jest, _mocha, _cargo, _maven, _gradle, _ctest, _dotnet, _deno, _phpunit, _rspec),
    *(_go, _tap, _bun, _ava, _tox, _built),
)
_OWN: dict[str, Callable[[str], Summary | None]] = {
    "pytest": _pytest,
    "unittest": _unittest,
    "django": _unittest,
    "nose": _unittest,
    "jest": _jest,
    "vitest": _jest,
    "mocha": _mocha,
    "cargo": _cargo,
    "go": _go,
    "mvn": _maven,
    "gradle": _gradle,
    "ctest": _ctest,
    "bun": _bun,
    "dotnet": _dotnet,
    "deno": _deno,
    "phpunit": _phpunit,
    "rspec": _rspec,
    "mix": _rspec,
    "ava": _ava,
}
"""The form of a runner, looked for first."""
_FAILING: dict[Callable[[str], Summary | None], re.Pattern[str]] = {
    _pytest: re.compile(r"^(?:FAILED|ERROR) ((?:[^\s\[]|\[[^\]\n]{0,500}\]){1,1000})(?: - [^\n]*)?[ \t\r]*$", re.M),
    _unittest: re.compile(r"^(?:FAIL|ERROR): (\S{1,500}(?: \([\w.]{1,500}\))?)", re.M),
    _jest: re.compile(r"^[ \t]{0,4}\u25cf (\S[^\n]{0,300}\u203a[^\n]{1,300})$", re.M),
    _cargo: re.compile(r"^test (\S{1,500}) \.\.\. FAILED[ \t\r]*$", re.M),
    _go: re.compile(r"^--- FAIL: (\S{1,500})", re.M),
    _rspec: re.compile(r"^rspec (\S{1,500}) #", re.M),
}
"""How a form names its failing tests."""

# -- linters ------------------------------------------------------------------------------------

_LINT_GOOD = re.compile(r"^(?:Success: no issues found|All checks passed!|0 errors, |\u2714 No )", re.M)
_LINT_BAD = re.compile(
    r"^(?:Found [1-9]\d{0,8} errors?\b|\u2716 \d{1,9} problems? \([1-9]\d{0,8} errors?|[1-9]\d{0,8} errors?, )",
    re.M,
)


def _lint(text: str) -> Summary:
    if _LINT_BAD.search(text) is not None:
        return Summary(verdict="failed")
    return Summary(verdict="passed") if _LINT_GOOD.search(text) is not None else Summary()
