"""Input formats: one file per format, each turning a record into canonical trajectories.

Finding the records in a file (JSON, lines, arrays, Parquet, archives) is apart, in ``handoff/framing/``: a generator
that raised cannot be resumed, so a record that fails to convert never stops the file. What the adapters share is
in ``conversation.py``, ``calls.py``, ``harness.py`` and ``values.py``.

A new format is one file, one fixture folder and one line in ``ADAPTERS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from handoff.adapters.adp import Adp
from handoff.adapters.aider import Aider
from handoff.adapters.atif import Atif
from handoff.adapters.chat import ChatRows
from handoff.adapters.claude_code import ClaudeCode
from handoff.adapters.claude_code_stream import ClaudeCodeStream
from handoff.adapters.claude_code_web import ClaudeCodeWeb
from handoff.adapters.cline import Cline
from handoff.adapters.cline_classic import ClineClassic
from handoff.adapters.codex import Codex
from handoff.adapters.gemini_cli import GeminiCli
from handoff.adapters.git_branch import GitBranch
from handoff.adapters.inspect_log import Inspect
from handoff.adapters.mini_swe_agent import MiniSweAgent
from handoff.adapters.nearest import nearest
from handoff.adapters.openhands_events import OpenHandsEvents
from handoff.adapters.openhands_output import OpenHandsOutput
from handoff.adapters.openhands_sdk import OpenHandsSdk
from handoff.adapters.pi import Pi
from handoff.adapters.roots import rooted
from handoff.adapters.sweagent import SweAgent
from handoff.errors import InputError, RecordError
from handoff.framing import Damaged, Record, SourceFile, label
from handoff.framing.containers import event_files
from handoff.framing.record import malformed
from handoff.trajectory import Trajectory

__all__ = ["ADAPTERS", "Adapter", "Found", "Record", "convert", "nearest", "read_one", "read_record", "recognise"]


class Adapter(Protocol):
    """Turns one source format into canonical trajectories."""

    @property
    def format(self) -> str:
        """The name written into ``Trajectory.format``."""

    def recognises(self, record: Record) -> bool:
        """A cheap look: keys and a first item, never the whole record."""

    def trajectories(self, record: Record) -> Sequence[Trajectory]:
        """The runs in a record: one, or several where subagents or tries share it. At least one.

        Raises ``RecordError`` with field and remedy when there is none; a part that cannot be read while the rest
        can goes to ``record.problem``, and what has no home to ``record.lost``.
        """


ADAPTERS: tuple[Adapter, ...] = (
    Atif(),
    MiniSweAgent(),
    SweAgent(),
    GeminiCli(),
    Inspect(),
    ClaudeCodeWeb(),
    Cline(),
    ClineClassic(),
    Codex(),
    ClaudeCode(),
    ClaudeCodeStream(),
    Pi(),
    OpenHandsSdk(),
    OpenHandsOutput(),
    OpenHandsEvents(),
    Adp(),
    ChatRows(),
    Aider(),
    GitBranch(),
)
"""Every format that can be read, in the order in which they are tried."""


def convert(record: Record) -> Sequence[Trajectory]:
    """A record as canonical trajectories, by the adapter that claims it; nothing but ``RecordError`` is raised."""
    try:
        adapter = recognise(record)
        record.forget()
        return [rooted(run) for run in adapter.trajectories(record)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(error) from error


def recognise(record: Record) -> Adapter:
    """The first adapter that claims ``record``; ``RecordError`` when none does."""
    for adapter in ADAPTERS:
        if adapter.recognises(record):
            return adapter
    known = ", ".join(adapter.format for adapter in ADAPTERS)
    guess = nearest(record)
    if guess is None:
        raise RecordError("No known format.", remedy=f"Formats that can be read: {known}.")
    raise RecordError(
        f"It looks most like {guess}, but lacks something that format needs.",
        remedy=f"Export it again. Formats that can be read: {known}.",
    )


class Found(NamedTuple):
    """One record of a file: itself, which knows what of it was not read, and its runs."""

    record: Record
    runs: Sequence[Trajectory]

    def run(self, part: int) -> Trajectory:
        """The ``part``-th run, from 1; ``InputError`` when there are not so many."""
        if not 1 <= part <= len(self.runs):
            place = f"record {self.record.position} of {self.record.file}"
            raise InputError(f"{place} holds {len(self.runs)} run{'s' * (len(self.runs) != 1)}; there is no run {part}")
        return self.runs[part - 1]


def read_one(path: Path, position: int, part: int = 1) -> Trajectory:
    """One run of a file: the ``part``-th of the record at ``position``, both from 1. Errors: see ``read_record``."""
    return read_record(path, position).run(part)


def read_record(path: Path, position: int) -> Found:
    """The record at ``position``, counted as in the tables: the line of a line-wise file, else the item, from 1.

    ``RecordError`` or ``InputError`` says why it cannot be had.
    """
    if not path.exists():
        raise InputError(f"{label(path)}: no such file; check the path")
    if path.is_dir() and not event_files(path):
        raise InputError(f"{label(path)}: a folder; name a file or a folder of events in it, or a branch with --branch")
    count = last = 0
    source = SourceFile(path)
    for item in source:
        count += 1
        last = item.error.record if isinstance(item, Damaged) else item.position
        if last == position:
            if isinstance(item, Damaged):
                raise item.error
            try:
                return Found(item, convert(item))
            except RecordError as error:
                raise error.at(item.file, item.position) from error
    if source.framing == "side file":
        raise InputError(f"{label(path)} only describes the run in the file beside it; name that file")
    lines = f", the last in line {last}" if last > count else ""
    raise InputError(f"{label(path)} holds {count} record{'s' * (count != 1)}{lines}; there is no record {position}")
