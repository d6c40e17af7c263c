"""From a chosen takeover to its samples: secrets out first, then one sample per kind.

Here a sample that cannot be built (``RecordError``) becomes a row of the funnel that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from handoff.actions import CHANGING_KINDS
from handoff.curation.groundedness import KeyLike
from handoff.curation.secrets import Redactor, redact_briefing, redact_steps
from handoff.curation.select import Choice, Pair
from handoff.errors import RecordError
from handoff.identity import canonical_json, identify
from handoff.samples import (
    Kind,
    Origin,
    Reward,
    Sample,
    env_prediction_samples,
    note_writing_sample,
    pivot_sample,
    preference_sample,
    rl_prompt_sample,
    sample_row,
    sft_sample,
    state_reconstruction_sample,
)
from handoff.successors import Briefing
from handoff.trajectory import Step

KINDS: tuple[Kind, ...] = ("sft", "rl_prompt", "pivot", "env_prediction", "state_reconstruction", "note_writing")
"""What one takeover can give; ``preference`` needs two."""


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One takeover with its texts."""

    origin: Origin
    briefing: Briefing
    steps: tuple[Step, ...]
    """The successor's own."""
    solved: bool | None
    diagnosis: dict[str, float | None] = {}
    state: dict[str, object] | None = None
    """Fields of the state at h for the reconstruction target; ``None`` values are unknown. ``None``: no such sample."""
    pivot: int | None = None
    """The step on which it turns, 1-based (:func:`turning_step`). ``None``: no such sample."""
    trace: str | None = None
    """What the writer of the notes had seen, where the notes are worth learning. ``None``: no such sample."""


def turning_step(keys: Sequence[Sequence[KeyLike]]) -> int | None:
    """The first step that changes a file: where looking ends. ``None``: none does. ``keys``: one sequence a step."""
    changing = (number for number, own in enumerate(keys, 1) if any(key.kind in CHANGING_KINDS for key in own))
    return next(changing, None)


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of ``curated_training_set`` and, for what could not be built, of ``curation_funnel``."""

    rows: tuple[dict[str, Any], ...]
    funnel: tuple[dict[str, Any], ...]


def build_samples(
    episode: Episode, choice: Choice, *, kinds: Sequence[Kind] = KINDS, seen: set[str] | None = None, env_steps: int = 2
) -> Built:
    """The samples of one chosen takeover.

    ``seen``: ids and contents already in the set; prompts and states repeat over the takeovers of a point, and a
    repeated one is left out; one that only says the same as another is dropped. ``env_steps``: at most so many
    environment predictions, from the last steps.
    """
    redactor = Redactor()
    briefing = redact_briefing(episode.briefing, redactor)
    start_origin = _without_run(episode.origin, redactor.count)
    trace = None if episode.trace is None else redactor.text(episode.trace)
    note_origin = _without_run(episode.origin, redactor.count)
    steps = redact_steps(episode.steps, redactor)
    origin = msgspec.structs.replace(episode.origin, redactions=redactor.count)
    reward = _reward(episode.solved)
    makers: dict[str, Callable[[], tuple[Sample, ...]]] = {
        "sft": lambda: (sft_sample(origin, briefing, steps, reward=reward, diagnosis=episode.diagnosis),),
        "rl_prompt": lambda: (rl_prompt_sample(start_origin, briefing),),
        "pivot": lambda: (
            (pivot_sample(origin, briefing, steps, at=episode.pivot, reward=reward, diagnosis=episode.diagnosis),)
            if episode.pivot is not None and len(steps) > 1  # of a single reply it would be the demonstration again
            else ()
        ),
        "env_prediction": lambda: env_prediction_samples(origin, briefing, steps)[-env_steps:] if env_steps else (),
        "state_reconstruction": lambda: (
            (state_reconstruction_sample(start_origin, briefing, episode.state),) if episode.state is not None else ()
        ),
        "note_writing": lambda: (
            (note_writing_sample(note_origin, briefing, trace, reward=reward),) if trace is not None else ()
        ),
    }
    gates = {**choice.gates, "secrets": dict(sorted(redactor.found.items()))}
    return _build(episode, {kind: makers[kind] for kind in kinds}, gates, choice.because, seen)


def build_pair(chosen: Episode, rejected: Episode, pair: Pair, *, seen: set[str] | None = None) -> Built:
    """The preference sample of two takeovers. The prompt's placeholders are shared by both sides."""
    redactor = Redactor()
    briefing = redact_briefing(chosen.briefing, redactor)
    better, worse = redact_steps(chosen.steps, redactor), redact_steps(rejected.steps, redactor)
    origin = msgspec.structs.replace(
        chosen.origin, redactions=redactor.count, rejected_takeover_id=rejected.origin.takeover_id
    )
    reward = msgspec.structs.replace(_reward(chosen.solved), rejected_value=_reward(rejected.solved).value)

    def make() -> tuple[Sample, ...]:
        return (preference_sample(origin, briefing, better, worse, reward=reward, diagnosis=chosen.diagnosis),)

    gates: dict[str, object] = {"pair": {"rejected": pair.rejected}, "secrets": dict(sorted(redactor.found.items()))}
    return _build(chosen, {"preference": make}, gates, pair.because, seen)


def _build(
    episode: Episode,
    makers: Mapping[str, Callable[[], tuple[Sample, ...]]],
    gates: Mapping[str, object],
    because: str,
    seen: set[str] | None,
) -> Built:
    rows, funnel = [], []
    for kind, make in makers.items():
        try:
            samples = make()
        except RecordError as error:
            evidence = {"kind": kind, "field": error.field, "problem": error.problem, "remedy": error.remedy}
            funnel.append(_dropped(episode, "sample", evidence))
            continue
        for sample in samples:
            if seen is not None:
                said = _said(sample)
                if sample.sample_id in seen:
                    continue
                if said in seen:
                    funnel.append(_dropped(episode, "duplicate", {"kind": kind, "sample_id": sample.sample_id}))
                    continue
                seen.update((sample.sample_id, said))
            rows.append(sample_row(sample, gates=gates, chosen_because=because))
    return Built(rows=tuple(rows), funnel=tuple(funnel))


def _said(sample: Sample) -> str:
    """A hash of what the sample says and trains, however its arguments are laid out."""
    told = [
        (
            message.role,
            message.content,
            message.reasoning_content,
            message.train,
            [
                (c.function.name, msgspec.json.format(c.function.arguments.encode(), indent=-1))
                for c in message.tool_calls
            ],
        )
        for part in (sample.messages, sample.chosen, sample.rejected)
        for message in part
    ]
    return identify("i", sample.kind, repr(told))


def _dropped(episode: Episode, gate: str, evidence: Mapping[str, object]) -> dict[str, Any]:
    return {
        "takeover_id": episode.origin.takeover_id,
        "point_id": episode.origin.point_id,
        "gate": gate,
        "verdict": "dropped",
        "evidence": canonical_json(dict(evidence)).decode(),
    }


def _reward(solved: bool | None) -> Reward:
    return Reward() if solved is None else Reward(value=float(solved), source="tests")


def _without_run(origin: Origin, redactions: int) -> Origin:
    """The same start, whoever ran from it: so that prompts of several takeovers are one sample."""
    return msgspec.structs.replace(
        origin,
        takeover_id=None,
        provenance=None,
        successor=None,
        successor_digest=None,
        seed=None,
        redactions=redactions,
    )
