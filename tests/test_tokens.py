"""Token counts are by one named tokenizer, and the prompt of a call is all that came before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.tokens import TOKENIZER, count_tokens, prompt_lengths
from handoff.trajectory import Action, Message, Observation, Step, Trajectory


def test_the_tokenizer_says_its_version() -> None:
    assert TOKENIZER.startswith("o200k_base@bpe-openai-")


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_any_text_can_be_counted(text: str) -> None:
    assert (count_tokens(text) > 0) == (text != "")


def test_a_prompt_grows_by_the_reply_and_what_came_back() -> None:
    step = Step(
        text="I look.", actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(text="a b c"),)
    )
    run = Trajectory(format="x", task="t", preamble=(Message(role="user", text="fix it"),), steps=(step, step, step))
    first, second, third = prompt_lengths(run)
    assert first < second < third
    assert third - second == second - first
