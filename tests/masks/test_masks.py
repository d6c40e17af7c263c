"""Every character of a rendered conversation has the role it should have, whatever the template does with the texts."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import chat_templates as written
import msgspec
import numpy as np
import pytest
from conversations import BRIEFING, ORIGIN, TALKS, encode, last, sample, step
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.errors import InputError, RecordError
from handoff.masks.roles import Masked, mask
from handoff.masks.template import ChatTemplate, load_template
from handoff.masks.tokens import mask_tokens
from handoff.masks.windows import windows
from handoff.samples import (
    Sample,
    env_prediction_samples,
    field_of,
    fields,
    preference_sample,
    state_reconstruction_sample,
    text_of,
)

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
FAMILIES = {"plain": written.PLAIN, "trimmed": written.TRIMMED, "joined": written.JOINED}
family = pytest.mark.parametrize("family", FAMILIES)
talk = pytest.mark.parametrize("talk", TALKS)


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, TOKENS)


def trained(masked: Masked, role: str = "action") -> list[str]:
    """Stretches of the text that bear loss in this role."""
    found: list[str] = []
    end = -1
    for piece in masked.pieces:
        if piece.weight > 0 and piece.role == role:
            text = masked.text[piece.start : piece.end]
            found = [*found[:-1], found[-1] + text] if piece.start == end else [*found, text]
            end = piece.end
    return found


@talk
@family
def test_what_the_model_writes_is_found_without_being_told(family: str, talk: str) -> None:
    """The same stretches as where the template says itself what is generated."""
    told = mask(TALKS[talk], template(written.marked(FAMILIES[family])))
    found = mask(TALKS[talk], template(written.plain(FAMILIES[family])))
    assert found.text == told.text
    assert trained(found) == trained(told)
    shown = [message for message in TALKS[talk].messages if message.train and (message.content or message.tool_calls)]
    assert len(trained(found)) == len(shown)


def test_a_reply_is_trained_to_the_end_of_its_turn_and_nothing_else() -> None:
    masked = mask(TALKS["a story"], template(written.plain(written.PLAIN)))
    assert trained(masked) == [
        "<think>\nhm\n</think>\n\nLet me look.\n<tool_call>\n"
        '{"name": "bash", "arguments": {"command": "git diff\\n"}}\n</tool_call><|im_end|>\n',
        '\n<tool_call>\n{"name": "bash", "arguments": {"command": "pytest"}}\n</tool_call><|im_end|>\n',
        "Done.\n<|im_end|>\n",
    ]
    assert trained(masked, "env_output") == ["+x", "1 failed in "]
    assert "0.12s" in masked.text  # a clock is not learned


def test_a_field_that_the_template_does_not_show_is_named() -> None:
    masked = mask(TALKS["a story"], template(written.plain(written.TRIMMED)))
    assert masked.left_out == ("1.reasoning_content",)
    assert not mask(TALKS["a story"], template(written.plain(written.PLAIN))).left_out


_text = st.text(st.sampled_from("ab <>|\n\t\"'\\{}é☃\u00a0"), max_size=12)
_step = st.builds(
    lambda command, output, text, thought: step(command, output, text=text, thought=thought), _text, _text, _text, _text
)


@settings(max_examples=120, deadline=None)
@given(st.lists(_step, min_size=1, max_size=4), st.sampled_from(sorted(FAMILIES)))
def test_any_conversation_is_covered_once_and_only_replies_and_results_bear_loss(steps: list, family: str) -> None:  # type: ignore[type-arg]
    """Pieces cover the text; each piece of a field holds the characters of its span, escapes aside."""
    talk = sample(*steps, last("the end"))
    for source in (written.plain(FAMILIES[family]), written.marked(FAMILIES[family])):
        masked = mask(talk, template(source))
        assert masked.pieces[0].start == 0 and masked.pieces[-1].end == len(masked.text)
        assert all(one.end == other.start for one, other in pairwise(masked.pieces))
        for piece in masked.pieces:
            if piece.weight > 0:
                message = talk.messages[piece.message]
                assert piece.role == {"assistant": "action", "tool": "env_output"}[message.role]
        shown = "".join(trained(masked))
        for number, message in enumerate(talk.messages):
            for field in fields(message):
                if message.role == "assistant" and field == "content" and f"{number}.{field}" not in masked.left_out:
                    assert field_of(message, field).strip() in shown
        opening = masked.text.index("Fix <a.py>.")
        assert not any(p.weight and p.start < opening for p in masked.pieces)


def test_targets_of_predictions_and_states_keep_the_weights_of_their_characters() -> None:
    (asked,) = env_prediction_samples(ORIGIN, BRIEFING, [step("pytest", "3 passed in 0.31s\n")])
    masked = mask(asked, template(written.plain(written.PLAIN)))
    assert trained(masked, "env_output") == ["3 passed in ", "\n<|im_end|>\n"]
    told = state_reconstruction_sample(ORIGIN, BRIEFING, {"changed": ["a.py"], "failing": None})
    masked = mask(told, template(written.plain(written.PLAIN)))
    assert trained(masked, "handoff_state") == ['{"changed":["a.py"],', "}<|im_end|>\n"]


def test_both_sides_of_a_preference_are_masked_with_the_same_prompt() -> None:
    pair = preference_sample(ORIGIN, BRIEFING, [step("ls"), last("good")], [last("bad")])
    sides = [mask(pair, template(written.plain(written.PLAIN)), side=side) for side in ("chosen", "rejected")]  # type: ignore[arg-type]
    assert [trained(side)[-1] for side in sides] == ["good<|im_end|>\n", "bad<|im_end|>\n"]
    starts = [next(piece.start for piece in side.pieces if piece.weight) for side in sides]
    assert starts[0] == starts[1] and sides[0].text[: starts[0]] == sides[1].text[: starts[0]]


@pytest.mark.parametrize(
    ("source", "talk", "problem"),
    [
        (written.ALTERNATING, TALKS["a story"], "roles must alternate"),
        (written.AMID, TALKS["a story"], "amid the reply of message 1"),
        (written.CHOOSY, TALKS["one word"], "writes something else when marks are in the texts"),
        (written.plain(written.PLAIN), sample(last("a \U00100001 b")), "plane 16"),
        ("{{ messages[0].__class__.__mro__ }}", TALKS["one word"], "refuses the conversation"),
        ("{{ messages.append(1) }}", TALKS["one word"], "refuses the conversation"),
        ("{{ 9 / 0 }}", TALKS["one word"], "refuses the conversation"),
    ],
)
def test_a_template_that_cannot_be_followed_is_refused(source: str, talk: Sample, problem: str) -> None:
    with pytest.raises(RecordError, match=problem):
        mask(talk, template(source))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "holds no chat template"),
        ({"tokenizer_config.json": "[1]"}, "is not a tokenizer's folder"),
        ({"chat_template.jinja": "{% for x in %}"}, "is not one"),
    ],
)
def test_a_folder_without_a_template_is_refused(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=problem):
        load_template(tmp_path)


def test_a_template_is_found_as_publishers_ship_it(tmp_path: Path) -> None:
    """In the settings, by name among several, or in a file of its own, which comes first."""
    several = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T{{ eos_token }}"}]
    settings = {"chat_template": several, "eos_token": {"content": "<end>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert load_template(tmp_path).render([]).text == "T<end>"
    (tmp_path / "chat_template.jinja").write_text("{{ strftime_now('%Y') }}")
    assert load_template(tmp_path).render([]).text == "2025"  # never the clock


# -- tokens ---------------------------------------------------------------------------------------------


@talk
@family
def test_tokens_bear_the_weight_of_their_characters(family: str, talk: str) -> None:
    """One that covers two pieces gets the smaller weight: nothing is trained that should not be."""
    masked = mask(TALKS[talk], template(written.plain(FAMILIES[family])))
    weights = np.zeros(len(masked.text))
    for piece in masked.pieces:
        weights[piece.start : piece.end] = piece.weight if piece.role == "action" else 0
    tokens = mask_tokens(masked, encode)
    ids, places = encode(masked.text)
    assert tokens.ids.tolist() == ids
    assert tokens.weights.tolist() == [weights[start:end].min() for start, end in places]
    assert ((tokens.labels == -100) == (tokens.weights == 0)).all()
    assert tokens.count("action") == int((tokens.weights > 0).sum()) > 0


def test_loss_modes_differ_in_the_results_of_tools_alone() -> None:
    masked = mask(TALKS["a story"], template(written.plain(written.PLAIN)))
    only, both, echo = (mask_tokens(masked, encode, mode=mode) for mode in ("action_only", "actobs", "echo"))  # type: ignore[arg-type]
    own = only.weights > 0
    assert only.count("env_output") == 0 < both.count("env_output") == echo.count("env_output")
    assert (both.weights[own] == 1).all() and (echo.weights[own] == 1).all()
    assert set(both.weights[~own]) == {0.0, 1.0}
    assert set(mask_tokens(masked, encode, mode="echo", env_weight=0.02).weights[~own]) == {
        np.float32(0.0),
        np.float32(0.02),
    }


# -- windows --------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(60, 400), st.integers(0, 4))
def test_windows_fit_hold_the_task_and_train_each_character_once(sizes: list[int], budget: int, overlap: int) -> None:
    whole = sample(*(step(f"echo {n}", "y" * size, text="x" * size) for n, size in enumerate(sizes)), last("end"))

    def lengths(one: Sample) -> list[int]:
        return [sum(len(field_of(message, field)) for field in fields(message)) for message in one.messages]

    found = windows(whole, lengths(whole), budget=budget, overlap=overlap)
    trained: list[str] = []
    for window in found.samples:
        assert sum(lengths(window)) <= budget
        assert window.messages[0] == whole.messages[0] and window.messages[-1].role == "assistant"
        calls = {call.id for message in window.messages for call in message.tool_calls}
        assert {message.tool_call_id for message in window.messages if message.role == "tool"} <= calls
        for span in window.spans:
            message = window.messages[span.message]
            if span.weight and (message.train or message.role == "tool"):
                trained.append(f"{message.source_step} {message.role} {span.field} {text_of(window, span)}")
    assert len(set(trained)) == len(trained)
    replies = sum(message.role == "assistant" for message in whole.messages)
    shown = sum(message.train for window in found.samples for message in window.messages)
    assert shown == replies - found.left_out
    if not found.left_out:
        all_of_it = [
            f"{whole.messages[s.message].source_step} {whole.messages[s.message].role} {s.field} {text_of(whole, s)}"
            for s in whole.spans
            if s.weight
        ]
        assert sorted(trained) == sorted(all_of_it)
    assert len({window.sample_id for window in found.samples}) == len(found.samples)


def test_a_sample_that_fits_is_kept_as_it_is_and_a_long_prediction_is_left_out() -> None:
    whole = TALKS["a story"]
    assert windows(whole, [10], budget=10) == ((whole,), 0)
    (asked,) = env_prediction_samples(ORIGIN, BRIEFING, [step()])
    assert windows(asked, [11], budget=10) == ((), 1)
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Sample) == whole
