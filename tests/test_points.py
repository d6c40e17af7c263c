"""Handoff points: labels, sealed targets and what they may depend on (``docs/science.md §1, §5–§7``)."""

from __future__ import annotations

import json

import msgspec
import pytest

from handoff.editors.hunks import has_all_hunks
from handoff.lake import SCHEMAS
from handoff.points import (
    ALL,
    Edge,
    Node,
    Point,
    StateReader,
    find_handoff_points,
    is_source,
    omitted,
    state_class,
)
from handoff.trajectory import Action, Observation, Outcome, Step, Trajectory

PASSED = "3 passed in 0.1s"
FAILED = "FAILED tests/t.py::a\n1 failed, 2 passed in 0.1s"


def bash(line: str, text: str = "", code: int | None = None) -> Step:
    action = Action(tool="bash", arguments=json.dumps({"command": line}))
    return Step(actions=(action,), observations=(Observation(text=text, exit_code=code),))


def replace(path: str, old: str, new: str) -> Step:
    values = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
    return Step(
        actions=(Action(tool="str_replace_editor", arguments=json.dumps(values)),),
        observations=(Observation(text="The file has been edited."),),
    )


def trajectory(*steps: Step, resolved: bool | None = True, patch: str | None = None) -> Trajectory:
    return Trajectory(format="chat", task="Fix it.", steps=steps, outcome=Outcome(resolved=resolved, patch=patch))


PATCH = "--- a/src/m.py\n+++ b/src/m.py\n@@ -1 +1 @@\n-a\n+c\n"
RUN = (
    bash("cat src/m.py", "a"),  # 1
    bash("pytest -q", FAILED, 1),  # 2 reproduction
    replace("src/m.py", "a", "b"),  # 3 wrong
    bash("pytest -q", FAILED, 1),  # 4
    replace("src/m.py", "b", "a"),  # 5 taken back
    replace("src/m.py", "a", "c"),  # 6 right
    bash("pytest -q", PASSED, 0),  # 7
    Step(actions=(Action(tool="submit", arguments="{}"),), observations=(Observation(),)),  # 8
)


class States:
    """The states of RUN, written down."""

    texts = (b"a\n", b"a\n", b"a\n", b"b\n", b"b\n", b"a\n", b"c\n", b"c\n", b"c\n")

    def tree(self, step: int) -> str | None:
        return f"tree of {self.texts[step]!r}"

    def status(self, step: int) -> str:
        return "verified"

    def is_derived(self, step: int) -> bool:
        return True

    def read(self, step: int, path: str) -> bytes | None:
        return self.texts[step] if path == "src/m.py" else None

    def changed(self, step: int) -> tuple[str, ...]:
        return ("src/m.py",) if self.texts[step] != self.texts[0] else ()

    def final(self) -> int:
        return len(self.texts) - 1


def points(run: Trajectory, states: StateReader | None = None) -> dict[int, Point]:
    return {p.h: p for p in find_handoff_points(run, "t_1", states)}


@pytest.mark.parametrize("states", [None, States()])
def test_every_label_is_at_its_step(states: StateReader | None) -> None:
    """The rules of §1 on one small run, with and without states."""
    found = {h: p.labels for h, p in points(trajectory(*RUN, patch=PATCH), states).items()}
    assert found == {
        2: ("milestone",),
        3: ("intermediate", "error", "first_meaningful_modification", "post_failed_repair_edit"),
        4: ("intermediate", "error", "post_first_validation_result"),  # the middle of the longest stretch
        5: ("intermediate",),
        6: ("milestone",),
        7: ("milestone",),
    }


def test_a_compaction_is_a_natural_point() -> None:
    """A boundary of the recording is a point whatever happened around it."""
    steps = [bash("ls"), msgspec.structs.replace(bash("ls"), boundary="compaction"), bash("ls"), bash("ls")]
    assert "natural" in points(trajectory(*steps))[2].labels


def test_where_the_steps_of_an_earlier_run_end_somebody_took_over() -> None:
    """Also when the source marks nothing but the copies."""
    run = msgspec.structs.replace(trajectory(*[bash("ls")] * 5), copied_steps=2)
    assert [p.h for p in find_handoff_points(run, "t_1", None) if "natural" in p.labels] == [2]


def test_turns_that_were_taken_back_are_no_handoff() -> None:
    """Nobody took over: the same agent went on without them."""
    steps = [bash("ls"), msgspec.structs.replace(bash("ls"), boundary="rollback"), bash("ls"), bash("ls")]
    assert not [p for p in find_handoff_points(trajectory(*steps), "t_1", None) if "natural" in p.labels]


@pytest.mark.parametrize(("resolved", "is_reference"), [(None, True), (True, True), (False, False)])
def test_what_a_person_left_is_the_reference_unless_it_is_known_to_be_wrong(
    resolved: bool | None, is_reference: bool
) -> None:
    """Every commit is a point; the remaining ones are its continuation; a person makes no model calls."""
    diff = "diff --git a/src/{0} b/src/{0}\nnew file mode 100644\nindex 00000..11111\n"
    commits = [
        Step(actions=(Action(tool="git_commit", arguments=diff.format(f"{n}.py"), is_text=True),), boundary="commit")
        for n in "abc"
    ]
    run = msgspec.structs.replace(
        trajectory(*commits, resolved=resolved, patch="".join(diff.format(f"{n}.py") for n in "abc")),
        format="git_branch",
        author="human",
    )
    found = points(run)
    assert sorted(found) == [1, 2]
    for point in found.values():
        assert "natural" in point.labels
        assert (point.author, point.remaining_steps, point.remaining_prompt_tokens) == ("human", None, None)
        assert (point.gold is not None) == (point.plan is not None) == is_reference
    if is_reference:
        assert found[1].plan == ("create src/b.py", "create src/c.py")


def test_what_does_not_occur_is_omitted_and_can_be_counted() -> None:
    """No label is imputed."""
    found = find_handoff_points(trajectory(bash("ls"), bash("ls")), "t_1", None)
    assert set(omitted(found)) == set(ALL) - {label for p in found for label in p.labels}
    assert "error" in omitted(found)
    assert find_handoff_points(trajectory(bash("ls")), "t_1", None) == ()


def test_grid_points_come_only_when_asked_for() -> None:
    """``every_k`` and ``fraction``."""
    run = trajectory(*[bash("ls")] * 9)
    found = find_handoff_points(run, "t_1", None, labels=("fraction",), every_k=4)
    assert {p.h: p.labels for p in found} == {
        2: ("fraction",), 4: ("every_k", "fraction"), 7: ("fraction",), 8: ("every_k",)
    }  # fmt: skip


def test_a_point_is_inside_the_run() -> None:
    """1 ≤ h < n."""
    found = points(trajectory(*RUN, patch=PATCH))
    assert all(1 <= h < len(RUN) for h in found)


def test_done_is_judged_on_the_state() -> None:
    """Partial is not done, reverted is not done; a passing validation is done until something changes."""
    found = points(trajectory(*RUN), States())
    nodes = {h: {n.node for n in p.nodes if n.done} for h, p in found.items()}
    assert found[3].nodes[0] == Node("reproduce", True)
    assert Edge("locate:src/m.py", "edit:src/m.py") in found[3].edges
    assert Edge("edit:src/m.py", "validate:.") in found[3].edges
    assert nodes[3] == nodes[5] == {"reproduce", "locate:src/m.py"}
    assert nodes[6] == {"reproduce", "locate:src/m.py", "edit:src/m.py"}
    assert nodes[7] == nodes[6] | {"validate:."}


def test_all_hunks_have_to_be_there() -> None:
    """One of two hunks is partial."""
    base, final = b"1\n2\n3\n4\n5\n", b"one\n2\n3\n4\nfive\n"
    assert has_all_hunks(base, final, final)
    assert has_all_hunks(base, final, b"one\n2\n3\nmore\n4\nfive\n")
    assert not has_all_hunks(base, final, b"one\n2\n3\n4\n5\n")
    assert not has_all_hunks(base, final, base)
    assert not has_all_hunks(None, final, None)
    assert has_all_hunks(base, None, None)


def test_gold_is_the_recorded_continuation_with_what_was_needed() -> None:
    """Necessary: the edit that survives, reads of its file, the validation that decided (§5)."""
    point = points(trajectory(*RUN), States())[2]
    assert point.gold is not None
    assert [tuple(k) for k in point.gold] == [
        (3, "edit", "src/m.py", False),
        (4, "test", ".", False),
        (5, "edit", "src/m.py", False),
        (6, "edit", "src/m.py", True),
        (7, "test", ".", True),
    ]
    assert point.plan == ("edit src/m.py", "test .", "edit src/m.py", "test .")


@pytest.mark.parametrize("resolved", [False, None])
def test_a_run_that_is_not_known_to_be_resolved_has_no_gold(resolved: bool | None) -> None:
    """Unknown is not resolved."""
    for point in points(trajectory(*RUN, resolved=resolved, patch=PATCH), States()).values():
        assert point.gold is None
        assert point.plan is None
        assert point.nodes == ()


def test_prefix_keys_lose_what_changed_since() -> None:
    """A read of a file edited later may be repeated; so may a test after any edit."""
    found = points(trajectory(*RUN), States())
    assert found[2].prefix_keys == (("read", "src/m.py"), ("test", "."))
    assert found[3].prefix_keys == ()
    assert found[7].prefix_keys == (("test", "."),)


def test_what_a_successor_may_depend_on_ignores_the_future() -> None:
    """Prefix keys and tree at h stay the same whatever came after."""
    whole = points(trajectory(*RUN), States())
    for h, point in whole.items():
        other = trajectory(*RUN[:h], bash("rm -rf src"), bash("pytest", FAILED, 1), resolved=False)
        for again in find_handoff_points(other, "t_1", States(), every_k=1):
            if again.h == h:
                assert (again.prefix_keys, again.tree) == (point.prefix_keys, point.tree)


def test_a_point_fits_its_table_and_is_deterministic() -> None:
    """Same run, same bytes; the columns are those of the lake."""
    first, second = (find_handoff_points(trajectory(*RUN), "t_1", States()) for _ in range(2))
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    assert sorted(first[0].row()) == sorted(SCHEMAS["injected_handoffs"].names)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/a.py", True), ("lib/a.rs", True), ("tests/a.py", False), ("src/test_a.py", False), ("a_test.go", False),
        ("reproduce_bug.py", False), ("src/debug.py", True), ("README.md", False), ("/tmp/a.py", False), (".", False),
        ("app.spec.ts", False),
    ],
)  # fmt: skip
def test_a_source_file_is_code_and_no_test_and_no_scratch(path: str, expected: bool) -> None:
    """The third rule of §1."""
    assert is_source(path) is expected


def test_the_state_class_follows_from_test_results() -> None:
    """§1, last paragraph."""
    assert state_class(base=(3, 5), now=(5, 5)) == "already_solved"
    assert state_class(base=(3, 5), now=(4, 5)) == "needs_completion"
    assert state_class(base=(3, 5), now=(2, 5)) == "regressed"
    assert state_class(base=(3, 5), now=(0, 0)) == "invalid"
    assert state_class(base=(3, 5), now=None) is None
    assert state_class(base=None, now=(5, 5)) is None
