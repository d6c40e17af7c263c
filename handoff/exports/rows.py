"""Parts of rows that several formats share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from handoff.masks.chat import chat_messages
from handoff.samples import Sample, SampleMessage

RL_COLUMNS = ("task_id", "repo", "base_commit", "tree", "point_id", "view_id", "view")
"""What a start to roll out from tells a reward function and an environment."""


def compact(text: str) -> msgspec.Raw:
    """JSON text as it is, on one line, for embedding in a row: no number or key is rewritten."""
    return msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))


def messages_of(messages: Sequence[SampleMessage]) -> list[dict[str, Any]]:
    """Messages whose calls have objects for arguments."""
    return chat_messages(messages, arguments=compact)


def text_messages_of(messages: Sequence[SampleMessage]) -> list[dict[str, Any]]:
    """Messages whose calls have JSON text for arguments, as OpenAI's interface has them: one schema for all rows."""
    return chat_messages(messages, arguments=str)


def rl_columns(sample: Sample) -> dict[str, str]:
    """The columns of :data:`RL_COLUMNS`; what is not known is empty."""
    return {name: getattr(sample.origin, name) or "" for name in RL_COLUMNS}


def columns(**types: pa.DataType) -> pa.Schema:
    """A schema by names."""
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


def line(value: object) -> str:
    """A value as JSON on one line."""
    return msgspec.json.encode(value).decode()
