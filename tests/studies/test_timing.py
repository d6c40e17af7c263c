"""Where a source run is cut (docs/science.md §9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.errors import InputError
from handoff.studies.timing import cut_at, cuts, progress, read_timing
from handoff.trajectory import Action, Observation, Step, Trajectory


def step(command: str, output: str = "", code: int = 0) -> Step:
    action = Action(call_id="c", tool="bash", arguments=json.dumps({"command": command}))
    return Step(actions=(action,), observations=(Observation(call_id="c", text=output, exit_code=code),))


def edit(path: str, old: str, new: str) -> Step:
    arguments = {"command": "str_replace", "path": f"/repo/{path}", "old_str": old, "new_str": new}
    action = Action(call_id="c", tool="str_replace_editor", arguments=json.dumps(arguments))
    answer = Observation(call_id="c", text=f"The file {path} has been edited.", exit_code=0)
    return Step(actions=(action,), observations=(answer,))


def run(*steps: Step) -> Trajectory:
    return Trajectory(format="chat", task="t", steps=steps)


def judged(failed: int) -> Step:
    summary = f"{failed} failed, 3 passed in 0.1s" if failed else "4 passed in 0.1s"
    return step("python -m pytest -q", summary, 1 if failed else 0)


def test_percentiles_round_up_and_stay_inside() -> None:
    """Of 30 steps, 5 % are 1.5: the second step is the first that has them."""
    thirty = run(*[step(f"cat f{n}.py") for n in range(30)])
    assert [cut_at(read_timing(name), thirty) for name in ("p1", "p5", "p10", "p20", "p30", "p50", "p99")] == [
        1, 2, 3, 6, 9, 15, None,
    ]  # fmt: skip
    assert cut_at(read_timing("p5"), run(step("ls"))) is None, "one step leaves nothing to hand over"


def test_the_tail_begins_where_less_than_the_share_is_left() -> None:
    thirty = run(*[step(f"cat f{n}.py") for n in range(30)])
    assert cut_at(read_timing("tail:20"), thirty) == 25, "at 24 a fifth is left, which is not less"
    assert cut_at(read_timing("tail:20"), run(*[step("ls")] * 5)) is None


def test_repeating_oneself_is_no_progress() -> None:
    made = progress(
        run(
            step("cat a.py"),  # new
            step("cat a.py"),  # again
            edit("a.py", "1", "2"),  # new file
            judged(3),  # first run
            edit("a.py", "2", "3"),  # the same file once more
            judged(3),  # no better
            judged(2),  # better
            judged(3),  # worse
            judged(2),  # as good as the best
            Step(text="Let me think."),
            judged(0),  # passes
            judged(0),  # passes again
        )
    )
    assert made == [True, False, True, True, False, False, True, False, False, False, True, False]


def test_stuck_is_the_first_place_with_so_many_steps_without_progress() -> None:
    stalled = run(step("cat a.py"), *[step("cat a.py")] * 4, step("cat b.py"), *[step("cat b.py")] * 6)
    assert cut_at(read_timing("stuck:4"), stalled) == 5
    assert cut_at(read_timing("stuck:5"), stalled) == 11
    assert cut_at(read_timing("stuck:7"), stalled) is None
    assert cut_at(read_timing("stuck:4"), run(*[step("ls")] * 5)) is None, "h = n is no handoff"


def test_timings_that_meet_share_a_cut() -> None:
    short = run(*[step(f"cat f{n}.py") for n in range(4)])
    assert cuts(("p5", "p10", "p50", "stuck:2"), short) == {1: ("p5", "p10"), 2: ("p50",)}


@pytest.mark.parametrize("name", ["p0", "p100", "p", "stuck", "stuck:0", "tail:100", "tail", "P5", "p5 ", "p٥", "<b>"])
def test_what_is_no_timing_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no timing"):
        read_timing(name)


@given(st.lists(st.sampled_from(["ls", "cat a.py", "cat b.py", "grep x ."]), max_size=30), st.integers(1, 99))
def test_a_cut_is_a_handoff_index_and_hangs_on_no_later_step(commands: list[str], number: int) -> None:
    whole = run(*[step(command) for command in commands])
    for name in (f"p{number}", f"stuck:{number}", f"tail:{number}"):
        h = cut_at(read_timing(name), whole)
        assert h is None or 1 <= h < len(commands)
        if h is not None and name.startswith("stuck"):
            longer = run(*whole.steps, step("cat c.py"))
            assert cut_at(read_timing(name), longer) == h
            assert not any(progress(whole)[h - number : h])
