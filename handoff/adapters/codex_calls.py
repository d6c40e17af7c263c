"""Calls of a Codex rollout and what became of them: answered at once, later through polls, by an event, or never."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import arguments_of
from handoff.adapters.codex_lines import Ended
from handoff.adapters.conversation import Conversation
from handoff.trajectory import Action, Missing


class Answer(NamedTuple):
    """What a call returned, without what Codex wrote around it."""

    text: str
    exit_code: int | None = None
    error: bool | None = None
    session: str | None = None
    """Of a command that still runs: what polls call it. ``text`` is what it had printed by then."""
    is_bare: bool = False
    """True when a frame was taken off, and with it how long the call took."""


class _Metadata(msgspec.Struct, gc=False):
    exit_code: Any = None


class _Wrapped(msgspec.Struct, gc=False):
    output: str
    metadata: _Metadata


class _Poll(msgspec.Struct, gc=False):
    session_id: Any = None
    cell_id: Any = None


_WRAPPED = msgspec.json.Decoder(_Wrapped)
_POLL = msgspec.json.Decoder(_Poll)
_HEAD = re.compile(
    r"(Chunk ID: |Wall time:? |Original token count: |Total output lines: |Process exited with code |Exit code: "
    r"|Process running with session ID |Script running with cell ID |Script completed|Script failed)"
    r"([^\n]{0,80})(?:\n|\Z)"
)
_COMMAND = re.compile(r"Command: [^\n]{0,20000}\n(?=Chunk ID: )")
"""What some releases write before the frame."""
_HEAD_END = re.compile(r"(?:Final o|O)utput:[ \t]{0,9}(?:\n|\Z)")
_INTEGER = re.compile(r"-?\d{1,10}")
_REFUSED = ("exec command rejected", "patch rejected", "command rejected", "rejected by user")


def answer_in(text: str) -> Answer:
    """The answer in what the model was given. Both frames in use, and a script's, which has no exit code::

    {"output": "…", "metadata": {"exit_code": 1, "duration_seconds": 0.3}}

    Chunk ID: a21e41
    Wall time: 1.0037 seconds
    Process running with session ID 48230
    Output:
    …
    """
    if text.startswith("{") and '"metadata"' in text:
        try:
            wrapped = _WRAPPED.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return Answer(text)
        return Answer(wrapped.output, exit_code=_code(wrapped.metadata.exit_code), is_bare=True)
    opening = _COMMAND.match(text)
    at = opening.end() if opening is not None else 0
    code: int | None = None
    error: bool | None = None
    session: str | None = None
    while head := _HEAD.match(text, at):
        at = head.end()
        mark, value = head[1], head[2].strip()
        if mark in ("Process exited with code ", "Exit code: "):
            code = _code(int(value)) if _INTEGER.fullmatch(value) else None
        elif "running" in mark:
            session = f"{mark.partition(' ')[0]} {value}"
        elif mark == "Script failed":
            error = True
    end = _HEAD_END.match(text, at)
    if at == 0 or (end is None and at < len(text)):
        return Answer(text)
    return Answer(text[end.end() :] if end else "", exit_code=code, error=error, session=session, is_bare=True)


def why_unanswered(text: str) -> Missing | None:
    """Why there is no result, when all that came back is the client's note that the call did not run or was stopped."""
    if len(text) > 2_000:
        return None
    if text.startswith(_REFUSED) or (text.startswith("exec_command failed") and "Rejected(" in text):
        return "not_executed"
    if text.startswith("aborted by user") or text.strip() == "aborted" or text.rstrip().endswith("\naborted by user"):
        return "aborted"
    return None


class _Call:
    """One call and all that was heard of it."""

    __slots__ = ("answer", "arrived", "ended", "error", "is_over", "missing", "pieces", "poll", "text")

    def __init__(self, poll: str | None) -> None:
        self.poll = poll
        """The process that the call asks for, when it is a poll."""
        self.text: str | None = None
        self.answer: Answer | None = None
        self.missing: Missing | None = None
        self.error: bool | None = None
        self.ended: Ended | None = None
        self.pieces: list[str] = []
        """What a process printed, as its call and then the polls returned it."""
        self.is_over = False
        self.arrived: int | None = None
        """How many replies there were when the last of it had come."""


class Calls:
    """Collects calls, results and events; ``finish`` gives each call what belongs to it."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._calls: dict[str, _Call] = {}
        self._open: dict[str, None] = {}
        self._running: dict[str, _Call] = {}

    @property
    def are_open(self) -> bool:
        """True when a call got no answer and nobody stopped it."""
        return bool(self._open)

    def made(self, call_id: str | None, tool: str, arguments: msgspec.Raw) -> Action:
        """A call of the model."""
        text, is_text = arguments_of(arguments)
        if call_id:
            self._deliver(call_id)  # an id used twice: what came before belongs to the first
            self._calls[call_id] = _Call(None if is_text else _poll_in(text))
            self._open[call_id] = None
        return Action(call_id=call_id or None, tool=tool, arguments=text, is_text=is_text)

    def returned(self, call_id: str | None, text: str, *, error: bool | None = None) -> Answer:
        """What the model was given for a call. The client's note that it did not run becomes a message of its own."""
        answer = answer_in(text)
        call = self._calls.get(call_id or "")
        if call is None:
            self._talk.orphan(call_id, answer.text, exit_code=answer.exit_code, error=error)
            return answer
        self._open.pop(call_id or "", None)
        call.text, call.answer, call.arrived = text, answer, self._talk.replies
        call.error = next((flag for flag in (error, answer.error, call.error) if flag is not None), None)
        call.missing = why_unanswered(text)
        if call.missing is not None:
            self._talk.message("harness", text)
            return answer
        process = self._running.get(call.poll) if call.poll is not None else None
        if process is not None and answer.is_bare:
            process.pieces.append(answer.text)
            process.arrived = self._talk.replies
            if answer.session is None:
                process.is_over = True
                process.answer = process.answer and process.answer._replace(exit_code=answer.exit_code)
                del self._running[call.poll or ""]
        elif answer.session is not None:
            call.pieces.append(answer.text)
            self._running[answer.session] = call
        return answer

    def ended(self, call_id: str | None, event: Ended) -> bool:
        """The client saw a call end; false when nobody made that call."""
        call = self._calls.get(call_id or "")
        if call is not None:
            call.ended, call.arrived = event, self._talk.replies
        return call is not None

    def failed(self, call_id: str | None, error: bool | None) -> None:
        """The client says whether a call failed."""
        call = self._calls.get(call_id or "")
        if call is not None and error is not None:
            call.error = error

    def found(self, call_id: str, text: str) -> None:
        """What a call of the provider's own tools gave, in the words of the client."""
        call = self._calls.get(call_id)
        if call is not None:
            self._open.pop(call_id, None)
            call.answer, call.arrived = Answer(text), self._talk.replies

    def ran(self, call_id: str) -> None:
        """The provider carried a call of its own tools out. What it gave may never be told."""
        self._open.pop(call_id, None)

    def abort(self) -> None:
        """The turn was stopped: calls without an answer are not waited for."""
        for call_id in self._open:
            self._calls[call_id].missing = "aborted"
        self._open.clear()

    def finish(self) -> None:
        """All lines are read: give the conversation every result."""
        for call_id in self._calls:
            self._deliver(call_id)

    def _deliver(self, call_id: str) -> None:
        call = self._calls.get(call_id)
        if call is None or (call.answer is None and call.missing is None):
            return
        ended = call.ended
        if ended is not None and ended.status == "declined":
            call.missing = "not_executed"
        if call.missing is not None or call.answer is None:
            self._talk.result(call_id, "", missing=call.missing)
            return
        text, code, error = call.answer.text, call.answer.exit_code, call.error
        if call.answer.session is not None:
            # Until it is over nobody knows the whole output: what was returned stays as it was read.
            text = "".join(call.pieces) if call.is_over or (call.pieces and ended is not None) else call.text or ""
        if ended is not None:
            printed = ended.aggregated_output or ""
            text = printed if len(printed) > len(text) else text  # either of them may be clipped
            known = _code(ended.exit_code)
            code = code if known is None else known
            if error is None and isinstance(ended.success, bool):
                error = not ended.success
        self._talk.result(call_id, text, exit_code=code, error=error, arrived=call.arrived)


def _poll_in(arguments: str) -> str | None:
    if "session_id" not in arguments and "cell_id" not in arguments:
        return None
    try:
        poll = _POLL.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(poll.session_id, int | str):
        return f"Process {poll.session_id}"
    return f"Script {poll.cell_id}" if isinstance(poll.cell_id, int | str) else None


def _code(value: Any) -> int | None:
    return harness.known_code(values.whole(value))
