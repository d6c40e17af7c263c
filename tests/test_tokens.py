"""Token counts are by one named tokenizer, and the prompt of a call is all that came before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.tokens import TOKENIZER, count_tokens, prompt_lengths
from handoff.trajectory import Action, Message, Observation, Step, Trajectory


def test_the_tokenizer_says_its_version() -> None:
    assert TOKENIZER.startswith("o200k_base@bpe-openai-")


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_any_text_can_be_counted(text: str) -> None:
    assert (count_tokens(text) > 0) == (text != "")


@pytest.mark.parametrize("mark", ["<|endoftext|>", "<|endofprompt|>"])
def test_marks_of_the_vocabulary_are_counted_as_text(mark: str) -> None:
    assert count_tokens(f"see {mark} here") > count_tokens("see here") + 1


@pytest.mark.parametrize("text", ["a b " * 300_000, "x" * 1_200_000, "\U0001f984" * 150_000, "line\n" * 300_000])
def test_a_text_of_any_length_is_counted(text: str) -> None:
    tenth = text[: len(text) // 10]
    assert count_tokens(text) == pytest.approx(10 * count_tokens(tenth), rel=1e-3)


def test_a_prompt_grows_by_the_reply_and_what_came_back() -> None:
    step = Step(
        text="I look.", actions=(Action(tool="bash", arguments="{}"),), observations=(Observation(text="a b c"),)
    )
    run = Trajectory(format="x", task="t", preamble=(Message(role="user", text="fix it"),), steps=(step, step, step))
    first, second, third = prompt_lengths(run)
    assert first < second < third
    assert third - second == second - first
