"""The canonical sample: what a trainer may rely on."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.errors import RecordError
from handoff.lake import SCHEMAS
from handoff.samples import (
    Origin,
    Sample,
    env_prediction_samples,
    field_of,
    fields,
    json_schema,
    note_writing_sample,
    pivot_sample,
    preference_sample,
    read_sample,
    rl_prompt_sample,
    sample_row,
    sft_sample,
    state_reconstruction_sample,
    text_of,
    trainable_spans,
)
from handoff.successors import Briefing
from handoff.trajectory import Action, Message, Observation, Step

ORIGIN = Origin(trajectory_id="t_1", point_id="p_1", view_id="v_1", view="trace", h=2, split="train", takeover_id="k_1")


def briefing(view_text: str = "# Trace\n\nit edited a.py", task: str = "Fix a.py") -> Briefing:
    return Briefing(task=task, view="trace", view_text=view_text, preamble="You take over.", tools="[]")


def step(command: str, output: str = "", *, text: str = "", thought: str = "") -> Step:
    action = Action(tool="bash", arguments=json.dumps({"command": command}))
    return Step(text=text, thought=thought, actions=(action,), observations=(Observation(text=output),))


def trained(sample: Sample) -> str:
    return "".join(text_of(sample, span) for span in trainable_spans(sample))


texts = st.text(st.characters(codec="utf-8"), max_size=40)
steps = st.builds(
    Step,
    text=texts,
    thought=texts,
    actions=st.lists(
        st.builds(
            Action,
            tool=st.just("bash"),
            arguments=st.dictionaries(texts, texts, max_size=3).map(json.dumps),
        ),
        max_size=3,
    ).map(tuple),
    observations=st.lists(st.builds(Observation, text=texts), max_size=3).map(tuple),
    after=st.lists(st.builds(Message, role=st.sampled_from(["harness", "user"]), text=texts), max_size=2).map(tuple),
)


@given(st.lists(steps, min_size=1, max_size=6), texts, texts)
@settings(max_examples=60, deadline=None)
def test_roles_partition_every_stored_string_of_a_demonstration(run: list[Step], view: str, task: str) -> None:
    """Each character of each string has exactly one role; results answer calls; no two user messages are adjacent."""
    try:
        sample = sft_sample(ORIGIN, briefing(view, task), run)
    except RecordError:
        return  # nothing trainable in it
    covered: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for span in sample.spans:
        covered.setdefault((span.message, span.field), []).append((span.start, span.end))
    for number, message in enumerate(sample.messages):
        for name in fields(message):
            spans = sorted(covered.pop((number, name)))
            assert spans[0][0] == 0
            assert spans[-1][1] == len(field_of(message, name))
            assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert not covered
    assert any(trainable_spans(sample))
    assert sample.messages[-1].role == "assistant"
    for before, after in pairwise(sample.messages):
        assert before.role != after.role or after.role == "tool"
    calls = [call.id for m in sample.messages for call in m.tool_calls]
    answers = [m.tool_call_id for m in sample.messages if m.role == "tool"]
    assert len(set(calls)) == len(calls)
    closing = [call.id for call in sample.messages[-1].tool_calls]
    assert answers == calls[: len(calls) - len(closing)]
    assert read_sample(msgspec.json.encode(sample)) == sample


def test_preamble_view_and_task_are_one_user_message_and_never_trained() -> None:
    """Trainers that drop adjacent user messages keep the row, and nothing of the predecessor bears loss."""
    sample = sft_sample(ORIGIN, briefing(), [step("git diff", "+x"), step("submit")])
    first = sample.messages[0]
    assert first.content == "You take over.\n\n# Trace\n\nit edited a.py\n\nFix a.py"
    roles = [(span.role, text_of(sample, span)) for span in sample.spans if span.message == 0]
    assert roles == [("handoff_context", "You take over.\n\n# Trace\n\nit edited a.py\n\n"), ("context", "Fix a.py")]
    assert not first.train
    assert "a.py" not in trained(sample)


def test_what_the_harness_says_comes_first_and_never_twice() -> None:
    """The system message of a recorded run is kept; our own instruction takes its place."""
    told = msgspec.structs.replace(briefing(), system="You are in a shell.")
    sample = sft_sample(ORIGIN, told, [step("submit")])
    assert [m.role for m in sample.messages] == ["system", "user", "assistant"]
    assert sample.messages[0].content == "You are in a shell." and not sample.messages[0].train
    asked = state_reconstruction_sample(ORIGIN, told, {"changed": ["a.py"]})
    assert [m.role for m in asked.messages] == ["system", "user", "assistant"]
    assert "shell" not in asked.messages[0].content


def test_a_demonstration_ends_with_a_reply_and_says_what_was_cut() -> None:
    """The result of the closing call is nobody's target."""
    sample = sft_sample(ORIGIN, briefing(), [step("git diff", "+x"), step("submit", "bye")])
    assert [m.role for m in sample.messages] == ["user", "assistant", "tool", "assistant"]
    assert sample.changes == {"closing_results_cut": 1}
    assert trained(sample) == 'bash{"command": "git diff"}bash{"command": "submit"}'


def test_what_cannot_be_predicted_in_an_output_is_a_warning_without_weight() -> None:
    """Durations and truncation notices are not learned."""
    run = [step("pytest", "1 failed in 0.31s\n[output truncated: 90 lines left out]\ndone"), step("submit")]
    sample = sft_sample(ORIGIN, briefing(), run)
    found = {text_of(sample, s): s.weight for s in sample.spans if s.role == "warning"}
    assert found == {"0.31s": 0.0, "[output truncated: 90 lines left out]": 0.0}


def test_free_text_is_wrapped_and_counted_and_what_is_no_object_is_refused() -> None:
    """Arguments always decode to an object."""
    line = Step(actions=(Action(tool="bash", arguments="ls -l", is_text=True),))
    sample = sft_sample(ORIGIN, briefing(), [line])
    assert sample.messages[-1].tool_calls[0].function.arguments == '{"command":"ls -l"}'
    assert sample.changes["shell_lines_wrapped"] == 1
    patch = Step(actions=(Action(tool="patch", arguments="*** x", is_text=True),))
    sample = sft_sample(ORIGIN, briefing(), [patch])
    assert sample.messages[-1].tool_calls[0].function.arguments == '{"input":"*** x"}'
    assert sample.changes["text_arguments_wrapped"] == 1
    with pytest.raises(RecordError, match="arguments"):
        sft_sample(ORIGIN, briefing(), [Step(actions=(Action(tool="bash", arguments="[1]"),))])


def test_a_pivot_trains_one_reply_and_nothing_before_it() -> None:
    run = [step("git diff", "+x"), step("sed -i s/a/b/ a.py", "", text="Mend it."), step("submit")]
    sample = pivot_sample(ORIGIN, briefing(), run, at=2)
    assert [(m.role, m.train) for m in sample.messages] == [
        ("user", False),
        ("assistant", False),
        ("tool", False),
        ("assistant", True),
    ]
    assert trained(sample) == 'Mend it.bash{"command": "sed -i s/a/b/ a.py"}'
    assert all(span.weight == 0 for span in sample.spans if span.message < 3)
    with pytest.raises(RecordError, match="says nothing"):
        pivot_sample(ORIGIN, briefing(), [step("ls"), Step()], at=2)


def test_notes_are_learned_from_what_their_writer_had_seen() -> None:
    """The trace is context, the notes alone are trained; under a view without notes there is nothing to learn."""
    notes = msgspec.structs.replace(briefing("# Done\n\n- edited a.py [1]"), view="structured")
    sample = note_writing_sample(ORIGIN, notes, "# Trace\n\nit edited a.py")
    assert [m.role for m in sample.messages] == ["system", "user", "assistant"]
    assert trained(sample) == notes.view_text
    roles = {text_of(sample, s): s.role for s in sample.spans if s.message == 1}
    assert roles == {"Fix a.py\n\n": "context", "# Trace\n\nit edited a.py": "handoff_context"}
    with pytest.raises(RecordError, match="no notes"):
        note_writing_sample(ORIGIN, briefing(), "# Trace")


def test_the_published_schema_is_that_of_the_code() -> None:
    published = Path(__file__).parents[1] / "docs" / "handoff-sample.schema.json"
    assert published.read_bytes() == msgspec.json.format(msgspec.json.encode(json_schema()), indent=2) + b"\n"


def test_a_takeover_that_says_nothing_is_refused() -> None:
    """Every demonstration has at least one trainable character."""
    for run in ([], [Step()], [Step(after=(Message(role="harness", text="hello"),))]):
        with pytest.raises(RecordError):
            sft_sample(ORIGIN, briefing(), run)


def test_half_a_surrogate_pair_is_refused() -> None:
    """A sample always encodes as UTF-8."""
    with pytest.raises(RecordError, match="surrogate"):
        sft_sample(ORIGIN, briefing(), [Step(text="\ud800")])


def test_orphan_results_are_dropped_and_counted() -> None:
    """No result without its call."""
    run = [
        Step(
            actions=(Action(tool="bash", arguments="{}"),),
            observations=(Observation(text="mine"), Observation(text="lost", is_orphan=True)),
        ),
        Step(text="done"),
    ]
    sample = sft_sample(ORIGIN, briefing(), run)
    assert [m.content for m in sample.messages if m.role == "tool"] == ["mine"]
    assert sample.changes == {"orphan_results_dropped": 1}


def test_a_pair_shares_its_prompt_and_differs_after_it() -> None:
    """DPO compares completions of one prompt."""
    sample = preference_sample(ORIGIN, briefing(), [step("git diff")], [step("ls")])
    assert len(sample.messages) == 1
    assert sample.chosen[0].tool_calls != sample.rejected[0].tool_calls
    assert trained(sample) == 'bash{"command": "git diff"}'
    with pytest.raises(RecordError, match="same"):
        preference_sample(ORIGIN, briefing(), [step("ls")], [step("ls")])


def test_a_prompt_has_no_trained_token() -> None:
    """GRPO rolls out from it."""
    sample = rl_prompt_sample(ORIGIN, briefing())
    assert sample.token_counts.trained == 0
    assert [m.role for m in sample.messages] == ["user"]


def test_an_environment_prediction_trains_the_output_alone() -> None:
    """The reply is the observation; empty and missing answers make no sample."""
    run = [step("git diff", "+x"), step("pytest", "1 failed in 0.31s"), step("true", ""), step("submit", "0.5s")]
    samples = env_prediction_samples(ORIGIN, briefing(), run)
    assert [trained(s) for s in samples] == ["+x", "1 failed in "]
    assert all(s.messages[-1].role == "assistant" and s.messages[0].role == "system" for s in samples)
    assert "git diff" in samples[1].messages[1].content


def test_unknown_fields_of_a_state_are_masked() -> None:
    """Nobody is taught to invent them."""
    sample = state_reconstruction_sample(ORIGIN, briefing(), {"changed": ["a.py"], "failing": None, "branch": "main"})
    assert sample.messages[-1].content == '{"branch":"main","changed":["a.py"],"failing":null}'
    assert trained(sample) == '{"branch":"main","changed":["a.py"],}'
    with pytest.raises(RecordError):
        state_reconstruction_sample(ORIGIN, briefing(), {"failing": None})


def test_samples_fit_the_published_schema_and_the_table() -> None:
    """The JSON Schema accepts what is written, and the row has the table's columns."""
    made = [
        sft_sample(
            ORIGIN, briefing(), [step("git diff", "+x", thought="look"), step("submit")], diagnosis={"e_cr": None}
        ),
        preference_sample(ORIGIN, briefing(), [step("git diff")], [step("ls")]),
        rl_prompt_sample(ORIGIN, briefing()),
    ]
    for sample in made:
        jsonschema.validate(json.loads(msgspec.json.encode(sample)), json_schema())
        row = sample_row(sample, gates={"outcome": {"solved": True}}, chosen_because="x")
        assert list(row) == SCHEMAS["curated_training_set"].names
    assert (
        sft_sample(ORIGIN, briefing(), [step("a")]).sample_id == sft_sample(ORIGIN, briefing(), [step("a")]).sample_id
    )
