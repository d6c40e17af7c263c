"""From a chosen takeover to rows: secrets out, every kind, and a reason for what could not be built."""

from __future__ import annotations

import json

from handoff.curation import Choice, Episode, Pair, build_pair, build_samples
from handoff.samples import Origin
from handoff.successors import Briefing
from handoff.trajectory import Action, Observation, Step

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
CHOICE = Choice(takeover_id="k_1", because="best", gates={"outcome": {"solved": True}})


def episode(takeover_id: str, *commands: str, tool: str = "bash") -> Episode:
    return Episode(
        origin=Origin(
            trajectory_id="t",
            point_id="p",
            view_id="v",
            view="repo",
            h=1,
            split="train",
            takeover_id=takeover_id,
            seed=len(commands),
        ),
        briefing=Briefing(task="Fix", view="repo", view_text="", preamble="You take over."),
        steps=tuple(
            Step(
                actions=(Action(tool=tool, arguments=json.dumps({"command": c})),),
                observations=(Observation(text=f"ran {c} with {TOKEN}"),),
            )
            for c in commands
        ),
        solved=True,
        state={"changed": ["a.py"], "failing": None},
    )


def test_one_takeover_gives_a_demonstration_a_prompt_predictions_and_a_reconstruction() -> None:
    """No secret is in any row, and prompts of several takeovers of a point are one."""
    seen: set[str] = set()
    first = build_samples(episode("k_1", "ls", "git diff", "submit"), CHOICE, seen=seen)
    assert [row["kind"] for row in first.rows] == [
        "sft",
        "rl_prompt",
        "env_prediction",
        "env_prediction",
        "state_reconstruction",
    ]
    assert all(TOKEN not in row["sample"] for row in first.rows)
    assert json.loads(first.rows[0]["gates"])["secrets"] == {"GITHUB_TOKEN": 3}
    second = build_samples(episode("k_2", "ls", "submit"), CHOICE, seen=seen)
    assert [row["kind"] for row in second.rows] == ["sft", "env_prediction", "env_prediction"]


def test_what_cannot_be_a_sample_is_a_row_of_the_funnel() -> None:
    """A bad takeover does not stop the set."""
    built = build_samples(episode("k_1", "ls", tool="a tool"), CHOICE, kinds=("sft",))
    assert built.rows == ()
    assert built.funnel[0]["gate"] == "sample"
    assert "cannot name a tool" in json.loads(built.funnel[0]["evidence"])["problem"]


def test_a_pair_names_both_takeovers() -> None:
    """Chosen and rejected share the prompt."""
    pair = Pair(chosen="k_1", rejected="k_2", because="the rejected one fails")
    built = build_pair(episode("k_1", "git diff"), episode("k_2", "ls"), pair)
    sample = json.loads(built.rows[0]["sample"])
    assert sample["origin"]["takeover_id"] == "k_1"
    assert sample["origin"]["rejected_takeover_id"] == "k_2"


def test_samples_that_say_the_same_are_one_however_arguments_are_laid_out() -> None:
    seen: set[str] = set()
    first = build_samples(episode("k_1", "ls", "submit"), CHOICE, kinds=("sft",), seen=seen)
    other = episode("k_2", "ls", "submit")
    loose = tuple(
        Step(
            actions=tuple(
                Action(tool=a.tool, arguments=json.dumps(json.loads(a.arguments), indent=2)) for a in s.actions
            ),
            observations=s.observations,
        )
        for s in other.steps
    )
    again = Episode(origin=other.origin, briefing=other.briefing, steps=loose, solved=True)
    built = build_samples(again, CHOICE, kinds=("sft",), seen=seen)
    assert len(first.rows) == 1 and built.rows == ()
    assert [(row["gate"], row["verdict"]) for row in built.funnel] == [("duplicate", "dropped")]
