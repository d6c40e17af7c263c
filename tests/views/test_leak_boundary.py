"""The leak boundary: nothing from after h, and nothing hidden, reaches a view."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.evidence import gather_evidence
from handoff.trajectory import Action, Message, Observation, Outcome, Step, Trajectory
from handoff.views import render_view, views_at

texts = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        "cat a.py",
        "python -m pytest -q",
        "sed -i s/a/b/ a.py",
        "I will fix a.py next.",
        "1 failed, 2 passed in 0.1s",
        "```\n## Step 9",
    ]
)
actions = st.builds(Action, tool=st.sampled_from(["bash", "git_commit"]), arguments=texts, is_text=st.just(True))


@st.composite
def steps(draw: st.DrawFn) -> Step:
    acted = tuple(draw(st.lists(actions, max_size=2)))
    observed = tuple(Observation(text=draw(texts), exit_code=draw(st.sampled_from([None, 0, 1]))) for _ in acted)
    roles = st.sampled_from(["user", "harness", "context_summary"])
    after = draw(st.lists(st.builds(Message, role=roles, text=texts), max_size=1))
    boundary = draw(st.sampled_from([None, "compaction", "commit"]))
    return Step(
        text=draw(texts),
        thought=draw(texts),
        actions=acted,
        observations=observed,
        after=tuple(after),
        boundary=boundary,
    )


runs = st.lists(steps(), min_size=2, max_size=6).map(tuple)


FURTHER = ("window:1", "window:2", "window:9", "diet", "diff", "compact_pre", "compact_suf")


class States:
    """Two files a state; whoever looks beyond h fails."""

    def __init__(self, h: int) -> None:
        self.h = h

    def tree(self, step: int) -> str:
        assert step <= self.h
        return f"tree{step}"

    def status(self, step: int) -> str:
        assert step <= self.h
        return "verified"

    def read(self, step: int, path: str) -> bytes:
        assert step <= self.h
        return b"%d" % step

    def changed(self, step: int) -> tuple[str, ...]:
        assert step <= self.h
        return ("a.py", "b.py")

    def diff(self, step: int) -> str:
        assert step <= self.h
        return f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-0\n+{step}\n"

    def final(self) -> int:
        raise AssertionError


def views_of(trajectory: Trajectory, h: int) -> list[str]:
    states = States(h)
    evidence = gather_evidence(trajectory, h, states)
    return [render_view(view, trajectory, h, evidence, states) for view in (*views_at(trajectory, h), *FURTHER)]


@given(runs, runs, st.data())
@settings(max_examples=80, deadline=None)
def test_changing_anything_after_a_point_changes_nothing_in_its_views(
    run: tuple[Step, ...], other: tuple[Step, ...], data: st.DataObject
) -> None:
    """Later steps, outcome, split and facts of the source may be anything: all views stay the same."""
    h = data.draw(st.integers(1, len(run) - 1))
    original = Trajectory(format="chat", task="Fix a.py", steps=run)
    changed = msgspec.structs.replace(
        original,
        steps=run[:h] + other,
        outcome=Outcome(resolved=True, exit_status="submitted", patch="--- a/SECRET_GOLD.py"),
        split="test",
        task_id="other__task-1",
        source='{"hidden_tests": ["tests/test_hidden.py"]}',
        licence="other",
    )
    assert views_of(original, h) == views_of(changed, h)


def test_views_name_nothing_of_the_outcome() -> None:
    """The gold patch and the hidden tests are not in any view."""
    step = Step(actions=(Action(tool="bash", arguments='{"command":"ls"}'),), observations=(Observation(text="a.py"),))
    outcome = Outcome(resolved=True, patch="SECRET_GOLD")
    trajectory = Trajectory(
        format="chat", task="Fix", steps=(step, step, step), outcome=outcome, source='{"x":"SECRET_TEST"}'
    )
    for text in views_of(trajectory, 2):
        assert "SECRET" not in text


@given(runs, st.text(max_size=30), st.data())
@settings(max_examples=80, deadline=None)
def test_a_result_that_came_after_the_point_is_not_there_yet(
    run: tuple[Step, ...], text: str, data: st.DataObject
) -> None:
    """T3: a polled command's output stands at its call, but the predecessor had not seen it before it came."""
    h = data.draw(st.integers(1, len(run) - 1))
    early = data.draw(st.integers(1, h))
    arrived = data.draw(st.integers(h + 1, len(run)))

    def with_result(seen: str, exit_code: int | None) -> Trajectory:
        late = Observation(text=seen, exit_code=exit_code, arrived=arrived)
        step = msgspec.structs.replace(
            run[early - 1],
            actions=(Action(tool="bash", arguments="python -m pytest tests/test_a.py", is_text=True),),
            observations=(late,),
        )
        return Trajectory(format="codex", task="Fix a.py", steps=(*run[: early - 1], step, *run[early:]))

    first, second = with_result("SECRET 1 failed in 0.1s\n" + text, 1), with_result("2 passed in 0.1s", 0)
    assert views_of(first, h) == views_of(second, h)
    assert all("SECRET" not in view for view in views_of(first, h))
    if arrived < len(run):
        assert "SECRET" in render_view("trace", first, arrived)
