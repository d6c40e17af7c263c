"""Gemini CLI sessions: one object, or, in newer versions, one JSON line for each change of it.

::

    {"sessionId": "…", "projectHash": "…", "startTime": "…", "lastUpdated": "…", "messages": [
      {"id": "m1", "timestamp": "…", "type": "user", "content": "Fix the parser."},
      {"id": "m2", "timestamp": "…", "type": "gemini", "content": "", "thoughts": [{"subject": "…", "description": "…"}],
       "tokens": {"input": 90, "output": 12, "cached": 60, "thoughts": 5, …}, "model": "gemini-3-flash", "toolCalls": [
         {"id": "run_shell_command-1765309910095-ad84", "name": "run_shell_command", "args": {"command": "ls"},
          "result": [{"functionResponse": {"response": {"output": "Output: a.py\\nExit Code: 0"}}}],
          "status": "success", "timestamp": "…"}]}]}

    {"sessionId": "…", "projectHash": "…", "startTime": "…", "kind": "main"}
    {"id": "m1", "timestamp": "…", "type": "user", "content": [{"text": "Fix the parser."}]}
    {"$set": {"lastUpdated": "…"}}
    {"$rewindTo": "m1"}

Calls and results stand in one message, and a message written again under its id replaces the earlier one. The client
hangs calls onto the latest message even when they come from later replies: a call that was made after the result of
another cannot be of the same reply, which the times in call ids and results show. Then the later replies have no
counts of their own. Where the history is replaced, what was there stays, as do messages that were taken back.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import arguments_of
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, Repeated, Upkeep
from handoff.identity import canonical_json
from handoff.trajectory import Action, Boundary, Ending, Missing, Outcome, Trajectory, Usage


class Media(msgspec.Struct, gc=False):
    """``inlineData`` or ``fileData`` of a part."""

    mimeType: str | None = None
    data: str | None = None
    fileUri: str | None = None
    displayName: Upkeep = NOTHING


class Answered(msgspec.Struct, gc=False):
    """``functionResponse``: what the model was given for a call."""

    response: msgspec.Raw = NOTHING
    parts: list[Part] | None = None
    id: Repeated = NOTHING
    name: Repeated = NOTHING


class Part(msgspec.Struct, gc=False):
    """One part of a content."""

    text: str | None = None
    thought: Any = None
    inlineData: Media | None = None
    fileData: Media | None = None
    functionResponse: Answered | None = None
    functionCall: Repeated = NOTHING
    thoughtSignature: Upkeep = NOTHING


Content = str | list[str | Part] | Part | None


class Thought(msgspec.Struct, gc=False):
    """One thought, as the provider sums it up."""

    subject: str | None = None
    description: str | None = None
    timestamp: Upkeep = NOTHING


class Tokens(msgspec.Struct, gc=False):
    """Tokens of one reply."""

    input: Any = None
    output: Any = None
    cached: Any = None
    thoughts: Any = None
    tool: Any = None
    total: Repeated = NOTHING


class Call(msgspec.Struct, gc=False):
    """One call with its result."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING
    result: Content = None
    status: str | None = None
    timestamp: Any = None
    resultDisplay: msgspec.Raw = NOTHING
    agentId: Any = None
    displayName: Upkeep = NOTHING
    description: Repeated = NOTHING
    renderOutputAsMarkdown: Upkeep = NOTHING


class Turn(msgspec.Struct, gc=False):
    """One message."""

    id: str | None = None
    type: str | None = None
    timestamp: Any = None
    content: Content = None
    thoughts: list[Thought] | None = None
    tokens: Tokens | None = None
    model: str | None = None
    toolCalls: list[Call] | None = None
    displayContent: Repeated = NOTHING


class Header(msgspec.Struct, gc=False):
    """The session's own fields: of the object, the first line, or an update."""

    sessionId: str | None = None
    projectHash: Any = None
    startTime: Any = None
    kind: Any = None
    messages: list[Turn] | None = None
    directories: list[str] | None = None
    lastUpdated: Upkeep = NOTHING
    summary: Upkeep = NOTHING
    memoryScratchpad: Upkeep = NOTHING
