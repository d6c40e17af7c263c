"""More from each run: smaller tasks that failed runs solved, and ways out of wrong turns (docs/science.md §11)."""

from __future__ import annotations

import json

import pytest

from handoff.actions.history import history
from handoff.actions.paths import context_of
from handoff.salvage.recovery import Recovery, recoveries
from handoff.salvage.relabel import Outcome, achieved, is_repeated, read_tests, smaller_task
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
    told = smaller_task("Fix all.", ["tests/b.py::u", "tests/a.py::t"])
    assert told.index("tests/a.py::t") < told.index("tests/b.py::u") < told.index("Fix all.")


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
