"""More from each run: smaller tasks that failed runs solved, and ways out of wrong turns (docs/science.md §11)."""

from __future__ import annotations

import json

import pytest

from handoff.actions.history import history
from handoff.actions.paths import context_of
from handoff.salvage.recovery import Correction, Recovery, corrections, recoveries
from handoff.salvage.relabel import Outcome, achieved, is_put_right, is_repeated, read_tests, smaller_task
from handoff.trajectory import Action, Observation, Step


def report(*failing: str, passed: int = 3) -> str:
    lines = [f"FAILED {name} - assert 1 == 2" for name in failing]
    return "\n".join([*lines, f"{len(failing)} failed, {passed} passed"])


def outcome(*failing: str, total: int = 5) -> Outcome:
    return Outcome(frozenset(failing), total)


def test_failing_tests_are_read_by_name_or_not_at_all() -> None:
    found = read_tests(report("tests/a.py::test_b", "tests/a.py::test_c[x-1]"), 5)
    assert found == outcome("tests/a.py::test_b", "tests/a.py::test_c[x-1]")
    assert read_tests("ERROR tests/a.py - SyntaxError\n1 error", 1) is None
    assert read_tests("no tests ran", 0) is None
    assert read_tests("FAILED tests/a.py::test_\x1b[2Jb - x\n1 failed", 1) == outcome(
        total=1
    )  # shown as it is, or never


@pytest.mark.parametrize(
    ("before", "after", "touched", "fixed", "reason"),
    [
        (outcome("a", "b"), outcome("b"), ("src/x.py",), ("a",), ""),
        (outcome("a"), outcome("a"), (), (), "no test that failed passes now"),
        (outcome("a"), outcome("c"), (), (), "broke 1 tests, c the first"),
        (outcome("a"), outcome(), ("tests/test_a.py",), (), "changed what judges: tests/test_a.py"),
        (outcome("a"), outcome(), ("conftest.py",), (), "changed what judges"),
        (outcome("a"), outcome(), ("src/test_a.py",), (), "changed what judges"),
        (outcome("a"), outcome(total=4), (), (), "not the same tests"),
        (None, outcome(), (), (), "one by one"),
        (outcome(*(str(n) for n in range(30)), total=40), outcome(total=40), (), (), "more than a task can name"),
    ],
)
def test_only_tests_that_pass_now_and_break_none_are_a_success(
    before: Outcome | None, after: Outcome | None, touched: tuple[str, ...], fixed: tuple[str, ...], reason: str
) -> None:
    found = achieved(before, after, touched)
    assert found.fixed == fixed
    assert reason in found.reason and bool(found.reason) == bool(reason)


def test_a_second_run_has_to_say_the_same() -> None:
    fixed = ("tests/a.py::t", "tests/b.py::u")
    before = {"tests/a.py": outcome("tests/a.py::t"), "tests/b.py": outcome("tests/b.py::u")}
    assert is_repeated(fixed, before, {file: outcome() for file in before})
    assert not is_repeated(fixed, before, {"tests/a.py": outcome(), "tests/b.py": outcome("tests/b.py::u")})
    assert not is_repeated(fixed, {"tests/a.py": before["tests/a.py"]}, {file: outcome() for file in before})
    assert not is_repeated(fixed, before, {"tests/a.py": None, "tests/b.py": outcome()})


def test_the_smaller_task_says_what_was_verified_and_keeps_the_whole_as_background() -> None:
    told = smaller_task("Fix all.", tests=["tests/b.py::u", "tests/a.py::t"])
    assert told.index("tests/a.py::t") < told.index("tests/b.py::u") < told.index("Fix all.")
    assert smaller_task("Fix all.", files=["src/a.py"]).startswith("Put these files right")


@pytest.mark.parametrize(
    ("before", "after", "is_right"),
    [
        (outcome("a"), outcome(), True),
        (outcome(), outcome(), False),  # it was right before
        (outcome("a", "b"), outcome("b"), False),  # not yet right
        (None, outcome(), False),
        (outcome("a"), None, False),
    ],
)
def test_a_file_is_put_right_only_if_the_solution_needed_it_and_is_whole_with_it(
    before: Outcome | None, after: Outcome | None, is_right: bool
) -> None:
    assert is_put_right(before, after) is is_right


# -- ways out -------------------------------------------------------------------------------------------


def check(*failing: str, target: str = "tests") -> Step:
    action = Action(tool="bash", arguments=json.dumps({"command": f"pytest {target}"}))
    text = report(*failing) if failing else "3 passed in 0.1s"
    return Step(actions=(action,), observations=(Observation(text=text, exit_code=1 if failing else 0),))


def edit(name: str = "a.py") -> Step:
    arguments = {"command": "str_replace", "path": f"/repo/{name}", "old_str": "x", "new_str": "y"}
    action = Action(tool="str_replace_editor", arguments=json.dumps(arguments))
    return Step(actions=(action,), observations=(Observation(text=f"The file /repo/{name} has been edited."),))


def found_in(*steps: Step) -> list[Recovery]:
    return list(recoveries(history(steps, context_of("chat"))))


def test_a_way_out_begins_at_the_failure_after_a_wrong_edit_and_ends_where_fewer_fail() -> None:
    (way,) = found_in(check("t::a"), edit(), check("t::a", "t::b"), edit(), edit("b.py"), check())
    assert (way.h, way.last, way.wrong, way.failed_before, way.before, way.after) == (3, 6, (2,), 1, 2, 0)
    assert way.failing == ("t::a", "t::b")


@pytest.mark.parametrize(
    "steps",
    [
        (check("t::a", "t::b"), edit(), check("t::a"), edit(), check()),  # the edit helped
        (edit(), check("t::a"), edit(), check()),  # nobody knows what it was before
        (check("t::a"), check("t::a"), edit(), check()),  # nothing was edited
        (check("t::a"), edit(), check("t::a", "t::b"), check()),  # nobody mended it
        (check("t::a"), edit(), check("t::a", "t::b"), edit(), check("t::a")),  # no better than before it
        (check("t::a"), edit(), check("t::a", "t::b"), edit(), check("t::a", "t::b", "t::c"), edit(), check("t::x")),
        (check("t::a"), edit(), check("t::a", "t::b"), edit(), check(target="other")),  # another validation
    ],
    ids=["helped", "unknown before", "no edit", "no mending", "no better", "worse in between", "another check"],
)
def test_what_is_no_way_out_of_a_wrong_turn(steps: tuple[Step, ...]) -> None:
    assert [way for way in found_in(*steps) if way.h == 3 or len(steps) < 5] == []


# -- calls put right ------------------------------------------------------------------------------------


def call(text: str, answer: str, code: int | None = None) -> Step:
    action = Action(tool="bash", arguments=json.dumps({"command": text}))
    return Step(actions=(action,), observations=(Observation(text=answer, exit_code=code),))


def refused(name: str = "a.py", old: str = "q") -> Step:
    arguments = {"command": "str_replace", "path": f"/repo/{name}", "old_str": old, "new_str": "y"}
    action = Action(tool="str_replace_editor", arguments=json.dumps(arguments))
    answer = f"No replacement was performed, old_str `{old}` did not appear verbatim in /repo/{name}."
    return Step(actions=(action,), observations=(Observation(text=answer),))


def corrected_in(*steps: Step) -> list[Correction]:
    return list(corrections(history(steps, context_of("chat"))))


LOOK = call("cat a.py", "x", 0)


@pytest.mark.parametrize(
    ("steps", "tool", "last"),
    [
        ((refused(), LOOK, edit()), "str_replace_editor", 3),
        (
            (call("pytset -q tests", "bash: pytset: command not found", 127), call("pytest -q tests", "1 passed", 0)),
            "bash",
            2,
        ),
        (
            (call("grep --colour=of x a.py", "grep: unknown option", 2), call("grep --colour=no x a.py", "x", 0)),
            "bash",
            2,
        ),
    ],
    ids=["an editor", "a program", "an option"],
)
def test_a_refused_call_is_put_right_by_the_next_one_like_it(steps: tuple[Step, ...], tool: str, last: int) -> None:
    (found,) = corrected_in(*steps)
    assert (found.h, found.last, found.tool) == (1, last, tool)


@pytest.mark.parametrize(
    "steps",
    [
        (refused(), edit("b.py")),  # another file
        (refused(), refused()),  # never carried out
        (refused(), *[LOOK] * 6, edit()),  # long after
        (call("pytest -q", "1 failed", 1), call("pytest -q a.py", "1 passed", 0)),  # a test that fails was not refused
        (call("foo", "bash: foo: command not found", 127), call("ls -la src", "a", 0)),  # another line
        (call("foo x", "bash: foo: command not found", 127), call("foo x", "ok", 0)),  # the same again
        (call("fo x y z", "bash: fo: command not found", 127), call("foo x y z", "?", None)),  # nobody says that it ran
    ],
    ids=["other file", "never", "late", "failing test", "other line", "the same", "unknown"],
)
def test_what_puts_no_call_right(steps: tuple[Step, ...]) -> None:
    assert corrected_in(*steps) == []


def test_of_several_refused_calls_only_the_last_is_put_right() -> None:
    """What is learned goes wrong nowhere."""
    (found,) = corrected_in(refused(old="p"), refused(old="q"), edit())
    assert (found.h, found.last) == (2, 3)
