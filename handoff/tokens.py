"""Token counts. One named tokenizer, offline; counts of different tokenizers are never compared."""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from typing import Any

TOKENIZER = f"o200k_base@bpe-openai-{importlib.metadata.version('bpe-openai')}"
"""Name and version, written beside every count."""

MESSAGE_OVERHEAD = 4
"""Tokens charged per message for role and delimiters, as the o200k chat format uses."""


@lru_cache(maxsize=1)
def _encoder() -> Any:
    import bpe_openai  # it loads its vocabularies on import, which takes a second: only when counting

    return bpe_openai.get_encoding("o200k_base")


@lru_cache(maxsize=65_536)
def count_tokens(text: str) -> int:
    """Tokens of one text, without message overhead."""
    if not text:
        return 0
    return len(_encoder().encode(text))
