"""Token counts. One named tokenizer, offline; counts of different tokenizers are never compared."""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from typing import Any

from handoff.trajectory import Trajectory

TOKENIZER = f"o200k_base@bpe-openai-{importlib.metadata.version('bpe-openai')}"
"""Name and version, written beside every count."""

MESSAGE_OVERHEAD = 4
"""Tokens charged per message for role and delimiters, as the o200k chat format uses."""

_PIECE = 50_000
"""Characters counted at once: never more than the 200,000 tokens that the tokenizer gives at a time."""


@lru_cache(maxsize=1)
def _encoder() -> Any:
    import bpe_openai  # it loads its vocabularies on import, which takes a second: only when counting

    return bpe_openai.get_encoding("o200k_base")


@lru_cache(maxsize=65_536)
def count_tokens(text: str) -> int:
    """Tokens of one text, without message overhead; marks such as ``<|endoftext|>`` are text like any other.

    A long text is counted in pieces, which end with a line where there is one.
    """
    count = start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        count += len(_encoder().encode_ordinary(text[start:end]))
        start = end
    return count


def prompt_lengths(trajectory: Trajectory) -> list[int]:
    """Tokens of the prompt of each recorded model call, by this tokenizer and not by the source's.

    The conversation is taken to grow without trimming, as it is counted for takeovers (``docs/science.md §9``), so
    that the two can be compared.
    """
    length = count_tokens(trajectory.tools or "[]") + sum(_message(message.text) for message in trajectory.preamble)
    lengths = []
    for step in trajectory.steps:
        lengths.append(length)
        length += count_tokens(step.text) + count_tokens(step.thought) + MESSAGE_OVERHEAD
        length += sum(count_tokens(action.tool) + count_tokens(action.arguments) for action in step.actions)
        length += sum(_message(observation.text) for observation in step.observations)
        length += sum(_message(message.text) for message in step.after)
    return lengths


def _message(text: str) -> int:
    return count_tokens(text) + MESSAGE_OVERHEAD
