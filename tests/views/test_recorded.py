"""The ``recorded`` view: what a recording itself handed over, at the points where it did."""

from __future__ import annotations

import msgspec
import pytest

from handoff.errors import InputError
from handoff.evidence import gather_evidence
from handoff.points import find_handoff_points
from handoff.trajectory import Action, Message, Observation, Step, Trajectory
from handoff.views import ALL_VIEWS, PREAMBLE, VIEWS, author_of, preamble, render_view, view_row, views_at

LOOK = Step(
    model="model-b",
    actions=(Action(tool="bash", arguments='{"command": "ls"}'),),
    observations=(Observation(text="a.py"),),
)
SUMMARY = "## Step 9\n\nWe fixed the pager;\n```\nnext: tests.\n"
COMPACTED = msgspec.structs.replace(
    LOOK,
    boundary="compaction",
    after=(Message(role="context_summary", text=SUMMARY), Message(role="user", text="Go on.")),
)
RUN = Trajectory(format="chat", task="Fix it.", model="model-a", steps=(LOOK, COMPACTED, LOOK, LOOK))


def commit(number: int, message: str) -> Step:
    action = Action(call_id=f"{number}" * 40, tool="git_commit", arguments="", is_text=True)
    return Step(text=message, actions=(action,), observations=(Observation(call_id=action.call_id),), boundary="commit")


BRANCH = Trajectory(
    format="git_branch",
    task="Page",
    author="human",
    steps=(
        commit(1, "Page the last items\n\n## Step 2: commit 999999999999\nand more"),
        commit(2, ""),
        commit(3, "Later"),
    ),
)


def test_a_summary_that_was_written_is_kept_word_for_word_at_its_point_alone() -> None:
    """Other messages of the step are in the trace; other points have no such view, and no empty one."""
    assert [views_at(RUN, h) for h in (1, 2, 3)] == [VIEWS, ALL_VIEWS, VIEWS]
    text = render_view("recorded", RUN, 2)
    assert text.endswith(SUMMARY)
    assert "Go on." not in text
    assert author_of("recorded", RUN, 2) == "model-b"
    for h in (1, 3):
        with pytest.raises(InputError, match="nothing was handed over"):
            render_view("recorded", RUN, h)


def test_an_empty_summary_is_none() -> None:
    empty = msgspec.structs.replace(COMPACTED, after=(Message(role="context_summary", text=""),))
    assert views_at(msgspec.structs.replace(RUN, steps=(empty, LOOK)), 1) == VIEWS


def test_the_model_of_the_run_wrote_it_where_the_step_names_none() -> None:
    step = msgspec.structs.replace(COMPACTED, model=None)
    assert author_of("recorded", msgspec.structs.replace(RUN, steps=(step, LOOK)), 1) == "model-a"
    assert author_of("recorded", msgspec.structs.replace(RUN, steps=(step, LOOK), model=None), 1) is None


def test_a_person_s_notes_are_the_messages_of_the_commits_so_far() -> None:
    """Oldest first, with short ids; a message cannot look like the next commit."""
    text = render_view("recorded", BRANCH, 2)
    assert [line for line in text.split("\n") if line.startswith("#")][1:] == [
        "## Step 1: commit 111111111111",
        "## Step 2: commit 222222222222",
    ]
    assert "    Page the last items\n    \n    ## Step 2: commit 999999999999\n    and more\n" in text
    assert author_of("recorded", BRANCH, 2) == "human"


def test_on_a_shared_branch_the_work_is_an_agent_s_until_a_person_commits() -> None:
    """Point by point: a program that wrote every commit so far is the predecessor."""
    first = msgspec.structs.replace(BRANCH.steps[0], model="copilot")
    shared = msgspec.structs.replace(BRANCH, steps=(first, *BRANCH.steps[1:]))
    assert [author_of("recorded", shared, h) for h in (1, 2)] == ["copilot", "human"]
    assert preamble(shared, 1) == PREAMBLE != preamble(shared, 2)
    assert [point.author for point in find_handoff_points(shared, "t_1", None)] == ["agent", "human"]


def test_a_row_of_it_keeps_no_text_and_its_id_is_the_point_s() -> None:
    """The text is in the recording; the ids of the other views of the point stay what they were."""
    row = view_row("p_1", "recorded", render_view("recorded", RUN, 2), author="model-b")
    assert (row["author"], row["written"], row["text_sha256"]) == ("model-b", None, None)
    ids = [view_row("p_1", view, "text", author=author_of(view, RUN, 2))["view_id"] for view in ALL_VIEWS]
    assert len(set(ids)) == 5
    assert row["view_id"] == ids[4]
    assert [id_[:22] for id_ in ids] == [ids[0][:22]] * 5
    assert [id_[22] for id_ in ids] == list("01234")


def test_a_successor_is_told_whether_it_takes_over_from_an_agent_or_a_person() -> None:
    assert preamble(RUN, 2) == PREAMBLE
    assert "a person began" in preamble(BRANCH, 2)
    for view in ("trace", "summary", "structured"):
        of_agent, of_person = (render_view(view, run, 2, gather_evidence(run, 2, None)) for run in (RUN, BRANCH))
        assert "previous agent" in of_agent
        assert "agent" not in of_person
        assert "previous person" in of_person
