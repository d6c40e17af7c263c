"""One function per kind of sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from handoff.errors import RecordError
from handoff.identity import canonical_json, identify
from handoff.samples.conversation import VOLATILE, Conversation, opening, roles_of_output
from handoff.samples.sample import (
    Kind,
    Origin,
    Reward,
    Role,
    Sample,
    TokenCounts,
    field_of,
    fields,
    text_of,
    trainable_spans,
)
from handoff.successors import Briefing
from handoff.tokens import MESSAGE_OVERHEAD, TOKENIZER, count_tokens
from handoff.trajectory import Step
from handoff.views.trace import render_steps

PREDICT = (
    "You are given a software task, what is known about the work so far, the latest steps and the next action. "
    "Predict the output that the action brings back, exactly as the tool would print it."
)
RECONSTRUCT = (
    "You are given a software task and what is known about the work so far. "
    "State what is true of the repository now, as one JSON object with sorted keys. Use null for what cannot be known."
)

HAND_OVER = (
    "You are given a software task and the complete record of the work on it so far. Somebody else will take over from "
    "here, with the repository as it is and what you write now. Write what they need to know."
)
_FORMS = {
    "summary": "Write prose of 200 to 500 words.",
    "structured": "Write notes in the sections done, in progress, to do, key decisions and risks; each claim cites its "
    "steps.",
}


def sft_sample(
    origin: Origin,
    briefing: Briefing,
    steps: Sequence[Step],
    *,
    reward: Reward | None = None,
    diagnosis: Mapping[str, float | None] | None = None,
) -> Sample:
    """Imitate this takeover: every reply of the successor is trained, everything else is context.

    ``RecordError`` when nothing is trainable or an action's arguments cannot be stored as an object.
    """
    talk = Conversation()
    talk.open(briefing)
    talk.play(steps)
    return _finish("sft", origin, briefing, [talk], reward, diagnosis)


def preference_sample(
    origin: Origin,
    briefing: Briefing,
    chosen: Sequence[Step],
    rejected: Sequence[Step],
    *,
    reward: Reward | None = None,
    diagnosis: Mapping[str, float | None] | None = None,
) -> Sample:
    """Two takeovers of one point under one view: same prompt to the character.

    ``RecordError`` when they do not differ.
    """
    opening, better, worse = Conversation(), Conversation("chosen"), Conversation("rejected")
    opening.open(briefing)
    better.play(chosen)
    worse.play(rejected)
    if better.messages == worse.messages:
        raise RecordError("both takeovers say the same", field="$.rejected", remedy="Pair takeovers that differ.")
    return _finish("preference", origin, briefing, [opening, better, worse], reward, diagnosis)


def rl_prompt_sample(origin: Origin, briefing: Briefing) -> Sample:
    """A start to roll out from. A group of GRPO shares task, h and view, so it is named by ``origin.view_id``."""
    opening = Conversation()
    opening.open(briefing)
    return _finish("rl_prompt", origin, briefing, [opening], Reward(source="tests"), None)


def pivot_sample(
    origin: Origin,
    briefing: Briefing,
    steps: Sequence[Step],
    *,
    at: int,
    reward: Reward | None = None,
    diagnosis: Mapping[str, float | None] | None = None,
) -> Sample:
    """The one reply of step ``at`` (1-based), with all before it as context: a single decision, for training by steps.

    ``RecordError`` when that step says nothing, or an action's arguments cannot be stored as an object.
    """
    talk = Conversation()
    talk.open(briefing)
    talk.play(steps[:at])
    if not talk.messages or talk.messages[-1].source_step != at:
        raise RecordError(f"step {at} says nothing", field="$.messages", remedy="Choose another step.")
    talk.train_last_alone()
    return _finish("pivot", origin, briefing, [talk], reward, diagnosis)


def note_writing_sample(origin: Origin, briefing: Briefing, trace: str, *, reward: Reward | None = None) -> Sample:
    """Write the notes that the successor was given. ``briefing``: the successor's; ``trace``: the predecessor's steps
    up to h as the view of that name has them.

    ``RecordError`` when the successor was given no notes.
    """
    form = _FORMS.get(briefing.view)
    if form is None or not briefing.view_text.strip():
        raise RecordError("no notes were handed over", field="$.view", remedy="Use a point with notes.")
    talk = Conversation()
    talk.add("system", [(f"{HAND_OVER} {form}", "context")], segment="instruction")
    talk.add(
        "user",
        [(briefing.task, "context"), ("\n\n", "context"), (trace, "handoff_context")],
        segment="task",
    )
    talk.add("assistant", [(briefing.view_text, "action")], segment="target", train=True)
    return _finish("note_writing", origin, briefing, [talk], reward, None)


def env_prediction_samples(
    origin: Origin, briefing: Briefing, steps: Sequence[Step], *, history: int = 3, at: Sequence[int] | None = None
) -> tuple[Sample, ...]:
    """For each action with an answer: given the last ``history`` steps and the action, predict the answer.

    ``at`` limits to some steps (1-based). Steps with other than one action are skipped: what came first is not known.
    """
    samples = []
    for number, step in enumerate(steps, 1):
        if (at is not None and number not in at) or len(step.actions) != 1:
            continue
        answer = next((o for o in step.observations if not o.is_orphan), None)
        if answer is None or answer.missing is not None or not VOLATILE.sub("", answer.text).strip():
            continue
        talk = Conversation()
        talk.add("system", [(PREDICT, "context")], segment="instruction")
        asked = Step(thought="", text="", actions=step.actions)
        since = max(number - 1 - history, 0)
        told = render_steps(steps[since : number - 1], since + 1)
        talk.add(
            "user",
            [
                *opening(briefing),
                ("\n\n# Latest steps\n\n" + told if told else "", "context"),
                ("\n\n# Next action\n\n" + render_steps([asked], number), "context"),
            ],
            segment="task",
            source_step=number,
        )
        talk.add(
            "assistant", roles_of_output(answer.text), segment="target", source_step=number, train=True, env_weight=1.0
        )
        samples.append(_finish("env_prediction", origin, briefing, [talk], None, None))
    return tuple(samples)


def state_reconstruction_sample(origin: Origin, briefing: Briefing, state: Mapping[str, object]) -> Sample:
    """Say what the state at h is. Fields of ``state`` that are ``None`` are unknown: written as null and masked.

    ``RecordError`` when nothing is known.
    """
    if all(value is None for value in state.values()):
        raise RecordError(
            "no field of the state is known", field="$.state", remedy="Use a point with a verified state."
        )
    answer: list[tuple[str, Role]] = []
    for position, name in enumerate(sorted(state)):
        text = f"{canonical_json(name).decode()}:{canonical_json(state[name]).decode()}"
        answer.append(("{" if position == 0 else ",", "handoff_state"))
        answer.append((text, "context" if state[name] is None else "handoff_state"))
    answer.append(("}", "handoff_state"))
    talk = Conversation()
    talk.add("system", [(RECONSTRUCT, "context")], segment="instruction")
    talk.open(briefing)
    talk.add("assistant", answer, segment="target", train=True)
    return _finish("state_reconstruction", origin, briefing, [talk], None, None)


# -- finishing ----------------------------------------------------------------------------------


def _finish(
    kind: Kind,
    origin: Origin,
    briefing: Briefing,
    talks: Sequence[Conversation],
    reward: Reward | None,
    diagnosis: Mapping[str, float | None] | None,
) -> Sample:
    by_part = {talk.part: tuple(talk.messages) for talk in talks}
    changes: dict[str, int] = {}
    for talk in talks:
        for change in sorted(talk.changes):
            changes[change] = changes.get(change, 0) + talk.changes[change]
    unnamed = Sample(
        kind=kind,
        tools=briefing.tools,
        messages=by_part["messages"],
        chosen=by_part.get("chosen", ()),
        rejected=by_part.get("rejected", ()),
        spans=tuple(span for talk in talks for span in talk.spans),
        reward=reward or Reward(),
        diagnosis=dict(sorted((diagnosis or {}).items())),
        token_counts=TokenCounts(tokenizer=TOKENIZER, prompt=0, trained=0, env_output=0),
        origin=origin,
        changes=changes,
    )
    if kind != "rl_prompt" and not any(trainable_spans(unnamed)):
        raise RecordError("no character of the sample would be trained", field="$.spans", remedy="Drop it.")
    try:
        counted = msgspec.structs.replace(unnamed, token_counts=_count(unnamed))
        return msgspec.structs.replace(counted, sample_id=identify("s", canonical_json(counted)))
    except UnicodeEncodeError as error:
        raise RecordError(
            f"the text holds half of a surrogate pair ({error.reason})", field="$.messages", remedy="Drop the takeover."
        ) from error


def _count(sample: Sample) -> TokenCounts:
    prompt = 0
    for message in sample.messages:
        if message.train:
            break
        prompt += MESSAGE_OVERHEAD + sum(count_tokens(field_of(message, name)) for name in fields(message))
    return TokenCounts(
        tokenizer=TOKENIZER,
        prompt=prompt,
        trained=_tokens(text_of(sample, span) for span in trainable_spans(sample)),
        env_output=_tokens(text_of(sample, s) for s in sample.spans if s.role == "env_output"),
    )


def _tokens(texts: Iterable[str]) -> int:
    return sum(count_tokens(text) for text in texts)
