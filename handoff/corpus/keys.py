"""The one place where ingestion meets action keys (``docs/science.md §4``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handoff.trajectory import Step


def keys_of(steps: Sequence[Step]) -> Sequence[Sequence[Any]]:
    """One tuple of keys per step."""
    return [()] * len(steps)
