"""The oracle check (docs/science.md §10): executed, recorded, never assumed."""

from __future__ import annotations

import msgspec
import pytest
from whole_scene import REFERENCE as REFERENCE_PROGRAM
from whole_scene import VIEW_OF, everything

from handoff.adversary import DISTURBANCES, Scene, disturb, keeps_behaviour, oracle_check
from handoff.adversary.scene import tree_changes

SCENE = Scene(
    task="Repair both functions. Both are wrong.",
    view="summary",
    view_text="First repaired. Second not.",
    base={"m.py": b"a = 0\nkeep\nb = 0\n"},
    files={"m.py": b"a = 1\nkeep\nb = 0\n"},
)
REFERENCE = {"m.py": b"a = 1\nkeep\nb = 1\n"}


class Suite:
    """Two tests, really run on the files: ``a = 1`` and ``b = 1``."""

    def __init__(self, files: dict[str, bytes | None]) -> None:
        self.files = files
        self.runs = 0

    def __call__(self, changes):
        self.runs += 1
        text = ({**self.files, **changes}).get("m.py") or b""
        return (b"a = 1" in text) + (b"b = 1" in text), 2


def changed(**files: bytes | None) -> Scene:
    return Scene(
        task=SCENE.task,
        view=SCENE.view,
        view_text=SCENE.view_text,
        base=SCENE.base,
        files={**SCENE.files, **{k.replace("_py", ".py"): v for k, v in files.items()}},
    )


class Program:
    """Two tests, really run on ``pkg/m.py``."""

    def __init__(self, files: dict[str, bytes | None]) -> None:
        self.files = files
        self.runs = 0

    def __call__(self, changes):
        self.runs += 1
        space: dict[str, object] = {}
        try:
            exec(compile({**self.files, **changes}["pkg/m.py"] or b"", "m", "exec"), space)
            first, last = space["first"], space["last"]
        except (SyntaxError, KeyError):
            return 0, 2
        return (first([1, 2, 3]) == 1) + (last([1, 2, 3]) == (3, 3)), 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [each.kind for each in DISTURBANCES])
def test_every_disturbance_keeps_the_oracle(kind, seed):
    """The reference solution still passes, and somebody ran it."""
    before = everything(VIEW_OF.get(kind, "structured"))
    recipes, after = disturb(before, [(kind, 0.7)], seed)
    program = Program(dict(before.files))
    reference = {**before.base, "pkg/m.py": REFERENCE_PROGRAM}
    check = oracle_check(before, after, reference, program, keeps_behaviour=keeps_behaviour(recipes))
    assert check.outcome == "preserved" and "2 of 2" in check.detail
    assert program.runs >= 1


def test_one_that_promises_to_keep_behaviour_is_held_to_it():
    before = everything()
    after = msgspec.structs.replace(before, files={**before.files, "pkg/m.py": before.base["pkg/m.py"]})
    reference = {"pkg/m.py": REFERENCE_PROGRAM}
    program = Program(dict(before.files))
    assert oracle_check(before, after, reference, program).outcome == "preserved"
    check = oracle_check(before, after, reference, program, keeps_behaviour=True)
    assert check.outcome == "broken" and "should not" in check.detail


def test_what_was_not_run_is_not_called_preserved():
    assert oracle_check(SCENE, SCENE, REFERENCE, None).outcome == "not_run"
    assert oracle_check(SCENE, SCENE, None, Suite({})).outcome == "not_run"
    assert oracle_check(SCENE, SCENE, REFERENCE, lambda changes: None).outcome == "not_run"


def test_touching_a_judging_file_breaks_the_oracle_without_any_run():
    suite = Suite(dict(SCENE.files))
    after = Scene(task="", view="repo", view_text="", base={}, files={**SCENE.files, "tests/test_m.py": b""})
    assert oracle_check(SCENE, after, REFERENCE, suite).outcome == "broken"
    assert suite.runs == 0


def test_a_reference_that_fails_on_the_disturbed_state_breaks_it():
    def one_file_too_many(changes):
        return (1, 2) if "extra.py" in changes else (2, 2)

    check = oracle_check(SCENE, changed(extra_py=b"x"), REFERENCE, one_file_too_many)
    assert check.outcome == "broken" and "1 of 2" in check.detail and "without" not in check.detail


def test_a_reference_that_fails_anyway_is_said_to():
    check = oracle_check(SCENE, changed(extra_py=b"x"), REFERENCE, lambda changes: (0, 2))
    assert check.outcome == "broken" and "without the disturbance" in check.detail


def test_no_tests_at_all_decide_nothing():
    assert oracle_check(SCENE, SCENE, REFERENCE, lambda changes: (0, 0)).outcome == "broken"


def test_a_disturbance_that_solves_the_task_is_refused():
    after = changed(m_py=REFERENCE["m.py"])
    assert tree_changes(SCENE, after)
    assert (
        oracle_check(SCENE, after, REFERENCE, Suite(dict(SCENE.files))).detail
        == "the disturbance alone solves the task"
    )
