"""Claude Code on the web: one exported object with the same messages under ``loglines``, and fewer keys.

::

    {"loglines": [
      {"type": "user", "timestamp": "…", "message": {"role": "user", "content": "Fix the pager."}},
      {"type": "assistant", "timestamp": "…", "message": {"role": "assistant", "content": [{"type": "text", …}]}}]}
"""

from __future__ import annotations

import msgspec

from handoff.adapters.claude import Line
from handoff.adapters.claude_code import Session
from handoff.framing import Record
from handoff.framing.record import Row
from handoff.trajectory import Trajectory


class ClaudeCodeWeb:
    """Reads exports of web sessions."""

    format = "claude_code_web"

    def recognises(self, record: Record) -> bool:
        """An object with ``loglines``."""
        return "loglines" in record.keys

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The runs of the session; a line that does not fit is left out and noted. ``RecordError``: there is none."""
        session = Session(record)
        for number, raw in enumerate(record.decode_under("loglines", list[msgspec.Raw]), 1):
            line = record.part(Row(number, bytes(raw)), Line, "$.loglines[]")
            if line is not None:
                session.talk(line)
        return session.runs(self.format)
