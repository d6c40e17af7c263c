"""What one test run says of each test, from the lines that runners print for one test each.

Counts and last lines are read in ``actions/summaries.py``; names are needed here, because a task is solved when *its*
tests pass. A test that several lines name (a rerun, an error at teardown) has the worst of what they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

Result: TypeAlias = Literal["passed", "failed", "skipped"]

LONGEST_LINE = 4_000
"""Characters of a line that is looked at; a longer one names no test."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WORDS: dict[str, Result] = {
    **dict.fromkeys(("PASSED", "XFAIL", "XPASS", "ok", "PASS", "expected failure"), "passed"),
    **dict.fromkeys(("FAILED", "ERROR", "FAIL", "unexpected success"), "failed"),
    **dict.fromkeys(("SKIPPED", "SKIP", "skipped", "ignored"), "skipped"),
}
_WORST: tuple[Result, ...] = ("failed", "passed", "skipped")

# pytest -r…: "PASSED tests/test_a.py::test_b[c d]", "FAILED tests/test_a.py::test_b - assert 1 == 2"
_PYTEST = re.compile(r"(PASSED|FAILED|ERROR|XFAIL|XPASS) ([^\s\[]{1,2000}(?:\[.*|(?= - )|\Z)).*")
# pytest -v: "tests/test_a.py::test_b PASSED       [ 50%]"
_PYTEST_LINE = re.compile(
    r"(\S+\.py::.{1,2000}?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.{0,300}\))?(?:\s+\[ *\d+%\])?"
)
# unittest -v and Django: "test_b (tests.test_a.Case.test_b) ... ok", or with a first line of documentation before "..."
_UNITTEST = re.compile(r"(.{1,1000}?) \.\.\. (ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b.{0,500}")
_UNITTEST_NAME = re.compile(r"(\w+) \(([\w.]+)\)")
_CARGO = re.compile(r"test (\S{1,1000}) \.\.\. (ok|FAILED|ignored)\b.{0,200}")
_GO = re.compile(r"\s{0,40}--- (PASS|FAIL|SKIP): (\S{1,1000}) \([\d.]+s\)")
_TICKED = re.compile(r"\s{1,40}([\u2713\u2714\u221a\u2717\u2715\u00d7\u25cb]) (.{1,1000}?)(?: \(\d[\d.]* ?m?s\))?")
_TICKS: dict[str, Result] = {
    **dict.fromkeys("\u2713\u2714\u221a", "passed"),
    **dict.fromkeys("\u2717\u2715\u00d7", "failed"),
    "\u25cb": "skipped",
}


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """One run of a task's tests on one state."""

    results: dict[str, Result] = {}
    """Name as the runner printed it → result."""
    problem: str = ""
    """Why tests may be missing among them, in words: the time was over, the tests could not be laid over the state."""
    is_late: bool = False
    """It was stopped because the time was over."""
    seconds: float = 0.0
    """How long it took."""
    is_cut: bool = False
    """Part of the output was left out, and with it perhaps the lines of some tests."""

    def of(self, name: str) -> Result | None:
        """The result of a test by the name that an instance gives it; ``None``: it did not run.

        Instances cut pytest's names at the first blank, and older Pythons leave the method out of unittest's.
        """
        if (exact := self.results.get(name)) is not None:
            return exact
        return self._aliases.get(_alias(name) if "::" not in name else name)

    @cached_property
    def _aliases(self) -> dict[str, Result]:
        """Other names of tests → the worst result of those that share it."""
        found: dict[str, Result] = {}
        for printed, result in self.results.items():
            alias = _alias(printed)
            found[alias] = _worse(found.get(alias, result), result)
        return found


def results_of(output: str) -> dict[str, Result]:
    """The result of every test that the output of a test run names, sorted by name."""
    found: dict[str, Result] = {}
    for name, result in _each(_ANSI.sub("", output)):
        found[name] = _worse(found.get(name, result), result)
    return dict(sorted(found.items()))


def _each(text: str) -> Iterator[tuple[str, Result]]:
    before = ""
    for line in text.splitlines():
        line = line.rstrip()
        if not line or len(line) > LONGEST_LINE:
            before = ""
            continue
        if match := _PYTEST.fullmatch(line):
            yield _without_message(match[2]), _WORDS[match[1]]
        elif (match := _PYTEST_LINE.fullmatch(line)) or (match := _CARGO.fullmatch(line)):
            yield match[1], _WORDS[match[2]]
        elif match := _UNITTEST.fullmatch(line):
            yield match[1], _WORDS[match[2]]
            if _UNITTEST_NAME.fullmatch(before) and not _UNITTEST_NAME.fullmatch(match[1]):
                yield before, _WORDS[match[2]]
        elif match := _GO.fullmatch(line):
            yield match[2], _WORDS[match[1]]
        elif match := _TICKED.fullmatch(line):
            yield match[2], _TICKS[match[1]]
        before = line


def _without_message(text: str) -> str:
    """A test's name without what pytest says after it. A parameter may hold blanks, brackets and dashes."""
    head = text.partition(" - ")[0]
    if "[" not in head or head.endswith("]"):
        return head
    end = text.find("] - ")
    return text[: end + 1] if end >= 0 else text


def _alias(printed: str) -> str:
    """What a printed name may be called elsewhere."""
    if "::" in printed:
        return printed.partition(" ")[0]
    found = _UNITTEST_NAME.fullmatch(printed)
    return f"{found[1]} ({found[2].removesuffix(f'.{found[1]}')})" if found else printed


def _worse(one: Result, other: Result) -> Result:
    return one if _WORST.index(one) <= _WORST.index(other) else other
