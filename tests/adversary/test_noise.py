"""Noisy surroundings (docs/science.md §10): decided by seed and number of the call, and never unfair."""

from __future__ import annotations

import itertools

import msgspec
from fault_server import message
from hypothesis import given
from hypothesis import strategies as st
from scripted_endpoint import Scripted, client
from whole_scene import everything

from handoff.adversary import Noise, disturb, noise_of, with_noise
from handoff.adversary.noise import TEMPORARY
from handoff.journal import Journal
from handoff.successors import Briefing, calls
from handoff.successors.distractors import DISTRACTORS, distractors
from handoff.successors.openai import OpenAISuccessor
from handoff.takeover import Budget, Verdict, run_takeover
from handoff.trajectory import Action, Observation


class Place:
    """An environment that says how often it was acted in."""

    is_over = False

    def __init__(self) -> None:
        self.done: list[str] = []

    def act(self, action):
        self.done.append(action.tool)
        return Observation(call_id=action.call_id, text=f"answer {len(self.done)}", exit_code=3)

    def tree(self):
        return "t"

    def verdict(self):
        return Verdict(solved=True)

    def close(self):
        self.done.append("closed")


def acted(noise, tools):
    place = Place()
    noisy = with_noise(place, noise)
    return [noisy.act(Action(call_id=f"c{n}", tool=tool, arguments="{}")) for n, tool in enumerate(tools)], place


noises = st.builds(Noise, severity=st.floats(0.01, 1), seed=st.integers(0, 99))


@given(st.lists(noises, max_size=2).map(tuple), st.lists(st.sampled_from(["bash", "submit"]), max_size=12))
def test_the_right_answer_can_still_be_had(noise, tools):
    """Each answer holds the real one whole, or says that nothing was done; never is one refused twice in a row."""
    answers, place = acted(noise, tools)
    refused = [answer.exit_code == TEMPORARY for answer in answers]
    assert not any(one and other for one, other in itertools.pairwise(refused))
    assert len(place.done) == refused.count(False)
    number = 0
    for tool, answer, is_refused in zip(tools, answers, refused, strict=True):
        number += not is_refused
        if tool == "submit":
            assert answer.text == f"answer {number}", "submitting is never disturbed"
        elif is_refused:
            assert "nothing was done" in answer.text and answer.error
        else:
            assert f"answer {number}" in answer.text and answer.exit_code == 3
    assert acted(noise, tools)[0] == answers, "the same seed and call, the same noise"


def test_noise_depends_on_the_number_of_the_call_alone():
    """An interrupted run that carries its actions out again meets the noise it met."""
    noise = (Noise(severity=0.8, seed=4),)
    whole, _ = acted(noise, ["bash"] * 10)
    begun, _ = acted(noise, ["bash"] * 6)
    assert whole[:6] == begun
    assert len({answer.text.replace(str(n), "") for n, answer in enumerate(whole, 1)}) > 2, "it is noisy at all"


def test_where_there_is_no_noise_the_environment_is_itself():
    place = Place()
    assert with_noise(place, ()) is place


def test_all_else_goes_through():
    place = Place()
    noisy = with_noise(place, (Noise(severity=1.0, seed=0),))
    assert (noisy.tree(), noisy.verdict().solved, noisy.is_over) == ("t", True, False)
    noisy.close()
    assert place.done == ["closed"]


def test_tools_that_lead_nowhere_are_offered_and_answered():
    """An agent on an endpoint is shown them, may call them, and finds nothing; nothing is carried out."""
    recipes, after = disturb(everything(), [("distractor_tools", 0.5)], seed=2)
    offered = [tool["function"]["name"] for tool in distractors(after.tools)]
    assert len(offered) == 4 and set(offered) <= set(DISTRACTORS)
    assert noise_of(recipes) == after.noise
    answers, place = acted(after.noise, [offered[0], "bash"])
    assert answers[0].text == "Nothing was found." and place.done == ["bash"]
    assert calls.refuse(Action(tool=offered[0], arguments="{}")) is not None, "undisturbed, there is no such tool"


def test_tools_of_a_recording_are_no_distractors():
    tools = '[{"type":"function","function":{"name":"read_notes","description":"own","parameters":{}}}]'
    assert distractors(tools) == [] == distractors("no JSON") == distractors('{"a": 1}')
    recipes, _ = disturb(msgspec.structs.replace(everything(), tools=tools), [("distractor_tools", 1.0)], seed=2)
    assert "read_notes" not in noise_of(recipes)[0].tools


def test_noise_twice_is_noise_once():
    assert disturb(everything(), [("noisy_output", 0.5), ("noisy_output", 0.5)], seed=2) is None


def test_a_model_is_shown_them_and_its_call_is_answered(tmp_path):
    """Through the whole loop: offered beside the agent's own tools, called, answered, and nothing carried out."""
    _, after = disturb(everything(), [("distractor_tools", 0.2)], seed=2)
    offered = [tool["function"]["name"] for tool in distractors(after.tools)]
    script = Scripted([message("", (offered[0], {"query": "x"})), message("", ("submit", {}))])
    briefing = Briefing(task="t", view="repo", view_text="", preamble="p", tools=after.tools)
    place = Place()
    with client(script) as endpoint:
        takeover = run_takeover(
            takeover_id="k_1",
            briefing=briefing,
            successor=OpenAISuccessor(endpoint, name="stub"),
            environment=lambda: with_noise(place, after.noise),
            budget=Budget(steps=2, prompt_tokens=100_000),
            seed=0,
            question=None,
            journal=Journal(tmp_path),
        )
    shown = [tool["function"]["name"] for tool in script.requests[0]["tools"]]
    assert shown == [calls.SHELL, calls.EDITOR, calls.SUBMIT, *offered]
    assert takeover.transcript[0].observations[0].text == "Nothing was found."
    assert place.done == ["submit", "closed"]
