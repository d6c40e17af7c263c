"""The canonical training sample: one structure from which every training format is derived (``exports/``).

Kinds: ``sft`` (imitate the successor), ``preference`` (two takeovers of one point), ``rl_prompt`` (a start and
its reward), ``pivot`` (the one reply on which a takeover turns), ``env_prediction`` (predict what an action brings
back), ``state_reconstruction`` (say what the state at h is), ``note_writing`` (hand over as somebody did whose
successor solved the task). Which takeovers become samples is decided in ``curation/``; secrets are replaced there too,
before anything here sees the text.

What holds for every sample, and is checked when one is built:

- ``content`` is ``""`` and never null; a call's ``arguments`` are a JSON string that decodes to an object;
- preamble, view and task are one user message, since some trainers drop rows with two in a row;
- every result answers a call of the message before it, and every call is answered, except the calls of the
  closing message of a demonstration, whose results nobody trains on;
- roles (``docs/science.md §11``) partition the characters of every stored string; a span is
  ``[start, end)`` in characters (code points) of that string, so it survives re-tokenising for any model;
- what the predecessor did is only ever ``handoff_context``: it is never trained;
- every sample that is trained by imitation has at least one trainable character.

::

    sample.py        the structure, and how it is read
    conversation.py  messages and their spans, grown together from a successor's steps
    kinds.py         one function per kind
"""

from __future__ import annotations

from handoff.samples.conversation import TEXT_ARGUMENT
from handoff.samples.kinds import (
    env_prediction_samples,
    note_writing_sample,
    pivot_sample,
    preference_sample,
    rl_prompt_sample,
    sft_sample,
    state_reconstruction_sample,
)
from handoff.samples.sample import (
    ENV_WEIGHT,
    SCHEMA_VERSION,
    Basis,
    Function,
    Kind,
    Origin,
    Part,
    Reward,
    Role,
    Sample,
    SampleMessage,
    Span,
    TokenCounts,
    ToolCall,
    field_of,
    fields,
    json_schema,
    read_sample,
    sample_row,
    text_of,
    trainable_spans,
)

__all__ = [
    "ENV_WEIGHT",
    "SCHEMA_VERSION",
    "TEXT_ARGUMENT",
    "Basis",
    "Function",
    "Kind",
    "Origin",
    "Part",
    "Reward",
    "Role",
    "Sample",
    "SampleMessage",
    "Span",
    "TokenCounts",
    "ToolCall",
    "env_prediction_samples",
    "field_of",
    "fields",
    "json_schema",
    "note_writing_sample",
    "pivot_sample",
    "preference_sample",
    "read_sample",
    "rl_prompt_sample",
    "sample_row",
    "sft_sample",
    "state_reconstruction_sample",
    "text_of",
    "trainable_spans",
]
