"""Input formats: one file per format, each turning a record into a canonical trajectory.

Finding the records in a file (JSON, lines, arrays, Parquet) is apart, in ``framing.py``: a generator that
raised cannot be resumed, so a record that fails to convert never stops the file. What the adapters share is
in ``record.py``, ``conversation.py``, ``calls.py``, ``harness.py`` and ``values.py``.

A new format is one file, one fixture folder and one line in ``ADAPTERS``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from handoff.adapters.chat import ChatRows
from handoff.adapters.framing import Damaged, SourceFile, label
from handoff.adapters.mini_swe_agent import MiniSweAgent
from handoff.adapters.nearest import nearest
from handoff.adapters.record import Record, malformed
from handoff.adapters.sweagent import SweAgent
from handoff.errors import InputError, RecordError
from handoff.trajectory import Trajectory

__all__ = ["ADAPTERS", "Adapter", "Record", "convert", "nearest", "read_one", "recognise"]


class Adapter(Protocol):
    """Turns one source format into canonical trajectories."""

    @property
    def format(self) -> str:
        """The name written into ``Trajectory.format``."""

    def recognises(self, record: Record) -> bool:
        """A cheap look: keys and a first item, never the whole record."""

    def trajectory(self, record: Record) -> Trajectory:
        """Pure; raises ``RecordError`` with field and remedy."""


ADAPTERS: tuple[Adapter, ...] = (SweAgent(), MiniSweAgent(), ChatRows())
"""Every format that can be read."""


def convert(record: Record) -> Trajectory:
    """A record as a canonical trajectory, by the adapter that claims it; nothing but ``RecordError`` is raised."""
    try:
        return recognise(record).trajectory(record)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(error) from error


def recognise(record: Record) -> Adapter:
    """The one adapter that claims ``record``; ``RecordError`` when none does, or more than one."""
    claims = [adapter for adapter in ADAPTERS if adapter.recognises(record)]
    if len(claims) == 1:
        return claims[0]
    known = ", ".join(adapter.format for adapter in ADAPTERS)
    if claims:
        names = " and ".join(adapter.format for adapter in claims)
        raise RecordError(
            f"Both {names} claim this record.",
            remedy="Please report it with the record: the two tests must be made disjoint.",
        )
    guess = nearest(record)
    if guess is None:
        raise RecordError("No known format.", remedy=f"Formats that can be read: {known}.")
    raise RecordError(
        f"It looks most like {guess}, but no adapter reads it as that.",
        remedy=f"Formats that can be read: {known}. "
        + (
            "The record lacks something its format needs."
            if guess in known.split(", ")
            else f"Convert {guess} to chat rows with tool_calls."
        ),
    )


def read_one(path: Path, position: int) -> Trajectory:
    """One record of a file as a trajectory; ``RecordError`` or ``InputError`` says why it cannot be had."""
    if not path.is_file():
        what = "a folder; name one file of it" if path.is_dir() else "no such file; check the path"
        raise InputError(f"{label(path)}: {what}")
    count = 0
    for count, item in enumerate(SourceFile(path), 1):
        if count == position:
            if isinstance(item, Damaged):
                raise item.error
            try:
                return convert(item)
            except RecordError as error:
                raise error.at(item.file, item.position) from error
    raise InputError(f"{label(path)} holds {count} records; there is no record {position}")
