"""Gemini CLI sessions: one object, or, in newer versions, one JSON line for each change of it.

::

    {"sessionId": "…", "projectHash": "…", "startTime": "…", "lastUpdated": "…", "messages": [
      {"id": "m1", "timestamp": "…", "type": "user", "content": "Fix the parser."},
      {"id": "m2", "timestamp": "…", "type": "gemini", "content": "", "thoughts": [{"subject": "…", …}],
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
from collections.abc import Iterable
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import arguments_of
from handoff.adapters.conversation import Conversation, Role
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, Repeated, Unhoused, Upkeep
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


class Asked(msgspec.Struct, gc=False):
    """``functionCall``: mostly a call that the message lists as well."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING


class Part(msgspec.Struct, gc=False):
    """One part of a content."""

    text: str | None = None
    thought: Any = None
    inlineData: Media | None = None
    fileData: Media | None = None
    functionResponse: Answered | None = None
    functionCall: Asked | None = None
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
    memoryScratchpad: Unhoused = NOTHING


class Line(Turn, gc=False):
    """One line: the header, a message, an update, or a step back."""

    sessionId: str | None = None
    projectHash: Any = None
    startTime: Any = None
    kind: Any = None
    directories: list[str] | None = None
    lastUpdated: Upkeep = NOTHING
    summary: Upkeep = NOTHING
    memoryScratchpad: Unhoused = NOTHING
    update: msgspec.Raw = msgspec.field(name="$set", default=NOTHING)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)


_NOTICES = ("<session_context>", "<hook_context>", "System: Please continue.", "Please continue.")
_COMMAND = re.compile(r"[/?][a-z][\w-]{0,40}(?:\s|\Z)|\?\Z")
_REFUSED = re.compile(r"did not allow|denied|not allowed|rejected", re.IGNORECASE)
_MADE = re.compile(r"[-_](\d{13})[-_]")
_CLIENT = frozenset(("info", "error", "warning"))
_UNDECIDED = frozenset(("validating", "scheduled", "executing", "awaiting_approval"))
"""States of a call that never came to an end."""
_RESPONSE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TAIL = ("Process Group PGID", "Background PIDs", "Signal", "Exit Code")
"""What the client writes after the output of a command, from the end."""
_NOTHING = ("(none)", "(empty)", "")


class GeminiCli:
    """Reads sessions of the Gemini CLI, in both forms."""

    format = "gemini_cli"

    def recognises(self, record: Record) -> bool:
        """Session and project stand together: over messages, or in the first line of many."""
        if record.form == "lines":
            opening = record.opening(1)
            return bool(opening) and {"sessionId", "projectHash"} <= opening[0].keys()
        return {"sessionId", "projectHash", "messages"} <= record.keys.keys()

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when it holds no task or no reply."""
        session = _Session(record)
        if record.form == "lines":
            for row in record.rows():
                line = record.part(row, Line)
                if line is not None:
                    session.line(line)
        else:
            header = record.decode(Header)
            session.header = header
            for turn in header.messages or ():
                session.add(turn)
        return (session.trajectory(self.format),)


class _Session:
    """The messages of a session in order, with what happened between them."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.header: Header | Line | None = None
        self.session_id: str | None = None
        self.events: list[Turn | Boundary] = []
        self.talk = Conversation()
        self._model: str | None = None
        self._summaries: set[int] = set()
        self._taken: set[int] = set()
        self._live: dict[str, int] = {}
        """Where each message stands that is still in the context."""

    # -- the file -----------------------------------------------------------------------------------

    def line(self, line: Line) -> None:
        """One line of the newer form."""
        if line.rewind is not None:
            self._rewind(line.rewind)
        elif line.update is not NOTHING:
            update = self.record.under(line.update, Header, "$.$set")
            if update is not None:
                self._update(update)
        elif line.sessionId is None:
            self.add(line)
        elif self.header is None:
            self.header = line
        else:
            self.events.append("resume")

    def add(self, turn: Turn) -> None:
        """A message; one with a known id is written again."""
        place = self._live.get(turn.id or "")
        if place is None:
            if turn.id:
                self._live[turn.id] = len(self.events)
            self.events.append(turn)
            return
        earlier = self.events[place]
        if isinstance(earlier, Turn):
            _keep_results(earlier, turn)
        self.events[place] = turn

    def _update(self, update: Header) -> None:
        if update.sessionId is not None:
            self.session_id = update.sessionId
            self.events.append("resume")
        if update.messages is not None:
            self._replace(update.messages)

    def _replace(self, messages: list[Turn]) -> None:
        """The history was replaced: what is not in it any more was compacted, what is new in it says so."""
        kept = {turn.id for turn in messages}
        is_compaction = any(id_ not in kept for id_ in self._live)
        if is_compaction:
            self._live = {id_: place for id_, place in self._live.items() if id_ in kept}
            self.events.append("compaction")
        for turn in messages:
            if turn.id in self._live:
                self.record.lost("$.$set.messages[]", reason=REPEATED)
            else:
                place = len(self.events)
                self.add(turn)
                if is_compaction and len(self.events) > place:
                    self._summaries.add(place)

    def _rewind(self, id_: str) -> None:
        """Messages from this one on were taken back; from an unknown one: all."""
        self.events.append("rollback")
        while self._live and self._live.popitem()[0] != id_:
            pass

    # -- the conversation ---------------------------------------------------------------------------

    def trajectory(self, format_: str) -> Trajectory:
        """The run as read."""
        header = self.header or Header()
        status, ending = self._converse()
        steps = self.talk.steps()
        task = next((message.text for message in self.talk.preamble if message.role == "user"), "")
        if not steps or not task:
            raise RecordError(
                "No reply of the model is in it." if task else "No human message comes before the first reply.",
                field="$.messages" if self.record.form == "json" else "$",
                remedy="The session ended before its first reply; leave the file out.",
            )
        return Trajectory(
            format=format_,
            task=task,
            agent="gemini-cli",
            model=next((step.model for step in steps if step.model), None),
            preamble=tuple(self.talk.preamble),
            steps=steps,
            session=self.session_id or header.sessionId or None,
            outcome=Outcome(exit_status=status, ended=ending),
            source=values.facts(
                projectHash=header.projectHash,
                startTime=header.startTime,
                kind=header.kind,
                directories=" ".join(header.directories or ()),
                repairs=self.record.repairs,
            ),
        )

    def _converse(self) -> tuple[str | None, Ending | None]:
        """Fill the conversation; how it ended, in the client's words and in ours."""
        status: str | None = None
        ending: Ending | None = None
        for place, event in enumerate(self.events):
            if isinstance(event, str):
                self.talk.boundary(event)
                continue
            if place in self._taken:
                continue
            if event.type == "gemini" and place not in self._summaries:
                status, ending = None, self._reply(place, event)
                continue
            text = self._text(event)
            if place in self._summaries:
                self._says("context_summary" if event.type == "user" else "harness", text)
            elif event.type == "user":
                self._says("harness" if _is_notice(text) else "user", text)
                status, ending = None, None
            elif event.type in _CLIENT:
                self._says("harness", text)
                if text.startswith("Request cancelled"):
                    status, ending = text[:200], "aborted"
                elif event.type == "error":
                    status, ending = text[:200], values.ended(text[:200]) or "error"
            else:
                self.record.lost(f"$.messages[type={event.type}]")
        return status, ending

    def _says(self, role: Role, text: str) -> None:
        if text:
            self.talk.message(role, text)

    def _text(self, turn: Turn) -> str:
        """What is said in a message. Results that stand in it are those of the calls before."""
        parts = _parts(turn.content)
        if any(part.functionResponse is not None for part in parts):
            self.record.lost("$.messages[].content[].functionResponse", reason=REPEATED)
        return _join(part for part in parts if not part.thought)

    def _reply(self, place: int, turn: Turn) -> Ending | None:
        """A message of the model: one reply, or several whose calls were hung onto the first."""
        said = [part.text for part in _parts(turn.content) if part.thought and part.text]
        noted = ["\n".join(filter(None, (thought.subject, thought.description))) for thought in turn.thoughts or ()]
        if said and noted:
            self.record.lost("$.messages[].thoughts", reason=REPEATED)
        if turn.tokens is not None and values.whole(turn.tokens.tool):
            self.record.lost("$.messages[].tokens.tool")
        if self._model not in (None, turn.model) and turn.model is not None:
            self.talk.boundary("agent_switch")
        self._model = turn.model or self._model
        calls = self._calls(place, turn)
        for number, batch in enumerate(_batches(calls) or [[]]):
            is_first = number == 0
            self.talk.reply(
                self._text(turn) if is_first else "",
                thought="\n\n".join(said or noted) if is_first else "",
                actions=tuple([_action(call) for call in batch]),
                model=turn.model,
                usage=_usage(turn.tokens) if is_first else None,
                timestamp=values.stamp(turn.timestamp if is_first else batch[0].timestamp),
            )
            for call in batch:
                self._result(call)
        return "cut_off" if calls and calls[-1].status in _UNDECIDED else None

    def _calls(self, place: int, turn: Turn) -> list[Call]:
        """The calls of a message. A notice of the client between a reply and its calls parts them in the file."""
        asked = [part.functionCall for part in _parts(turn.content) if part.functionCall is not None]
        if turn.toolCalls:
            if asked:
                self.record.lost("$.messages[].content[].functionCall", reason=REPEATED)
            return turn.toolCalls
        if asked:
            return [Call(id=call.id, name=call.name, args=call.args) for call in asked]
        for later in range(place + 1, len(self.events)):
            other = self.events[later]
            if isinstance(other, str) or other.type not in _CLIENT:
                if not isinstance(other, str) and later > place + 1 and _is_rest(other):
                    self._taken.add(later)
                    return other.toolCalls or []
                break
        return []

    def _result(self, call: Call) -> None:
        text, error = self._answer(call)
        missing: Missing | None = None
        if call.status == "cancelled":
            missing = "not_executed" if _REFUSED.search(text[:500]) else "aborted"
        elif call.status in _UNDECIDED or (call.result is None and not text):
            missing = "none"
        if missing is not None:
            self.talk.result(call.id, "", missing=missing)
            self._says("harness", text)
            return
        code: int | None = None
        failed = True if call.status == "error" or error else False if call.status == "success" else None
        if call.name == "run_shell_command":
            text, code = _command(text)
            failed = failed or None  # success means no more than that the tool ran
        self.talk.result(call.id, text, exit_code=code, error=failed)

    def _answer(self, call: Call) -> tuple[str, bool]:
        """What the model was given for a call, and whether it was told as an error."""
        found: list[str] = []
        is_error = False
        for part in _parts(call.result):
            answered = part.functionResponse
            if answered is None:
                found.append(_said(part))
                continue
            try:
                response = _RESPONSE.decode(answered.response)
            except (msgspec.DecodeError, RecursionError):
                response = {}
            key = next((key for key in ("output", "error") if key in response), None)
            is_error = is_error or key == "error"
            found.append(_plain(response[key] if key is not None else answered.response))
            found += [_said(inner) for inner in answered.parts or ()]
        if call.result is None and bytes(call.resultDisplay)[:1] == b'"':
            return _plain(call.resultDisplay), is_error
        if call.resultDisplay is not NOTHING and bytes(call.resultDisplay) not in (b"null", b'""'):
            is_text = bytes(call.resultDisplay)[:1] == b'"'
            self.record.lost("$.messages[].toolCalls[].resultDisplay", reason=REPEATED if is_text else None)
        return "\n".join(text for text in found if text), is_error


def _keep_results(earlier: Turn, turn: Turn) -> None:
    """Later copies may show a result masked to save room."""
    known = {call.id: call.result for call in earlier.toolCalls or () if call.id and call.result is not None}
    for call in turn.toolCalls or ():
        if call.id in known:
            call.result = known[call.id]


def _batches(calls: list[Call]) -> list[list[Call]]:
    """Calls by reply: one made after a result of the batch came is not of it."""
    found: list[list[Call]] = []
    first_result: float | None = None
    for call in calls:
        made, done = _made(call.id), values.moment(call.timestamp)
        if not found or (made is not None and first_result is not None and made > first_result):
            found.append([])
            first_result = None
        found[-1].append(call)
        if done is not None:
            first_result = done if first_result is None else min(first_result, done)
    return found


def _is_rest(turn: Turn) -> bool:
    """True for a message that holds nothing but calls: no text, no thought, no tokens."""
    tokens = turn.tokens or Tokens()
    counts = (tokens.input, tokens.output, tokens.cached, tokens.thoughts)
    return turn.type == "gemini" and bool(turn.toolCalls) and not (turn.content or turn.thoughts or any(counts))


def _is_notice(text: str) -> bool:
    """True for what the client says in the user's name, and for commands to the client."""
    return text.lstrip().startswith(_NOTICES) or _COMMAND.match(text.lstrip()) is not None or harness.is_notice(text)


def _action(call: Call) -> Action:
    # A session that is written over many lines breaks its arguments too; that is no part of them.
    arguments, is_text = arguments_of(msgspec.Raw(msgspec.json.format(bytes(call.args), indent=-1)))
    return Action(call_id=call.id or None, tool=call.name or "", arguments=arguments, is_text=is_text)


def _usage(tokens: Tokens | None) -> Usage | None:
    """Thoughts are counted apart from the reply here; both are tokens that the model wrote."""
    if tokens is None:
        return None
    said, thought = values.whole(tokens.output), values.whole(tokens.thoughts)
    completion = None if said is None else said + (thought or 0)
    usage = values.tokens(prompt=tokens.input, cached=tokens.cached, completion=completion)
    return usage if usage is not None and (usage.prompt or usage.completion) else None


def _parts(content: Content) -> list[Part]:
    if content is None:
        return []
    items = content if isinstance(content, list) else [content]
    return [Part(text=item) if isinstance(item, str) else item for item in items]


def _join(parts: Iterable[Part]) -> str:
    return "\n".join(text for text in map(_said, parts) if text)


def _said(part: Part) -> str:
    """The text of a part; what is no text is named."""
    if part.text is not None:
        return part.text
    media = part.inlineData or part.fileData
    if media is None:
        return ""
    kind = (media.mimeType or "file").partition("/")[0]
    return values.media(kind, media.data.encode() if media.data else media.fileUri, media.mimeType)


def _plain(raw: msgspec.Raw) -> str:
    """A JSON text as text, anything else as its JSON."""
    data = bytes(raw)
    return msgspec.json.decode(data, type=str) if data[:1] == b'"' else data.decode("utf-8", "replace")


def _command(text: str) -> tuple[str, int | None]:
    """Output and exit code of a shell command. Older clients write every label::

    Command: ls
    Directory: (root)
    Output: a.py
    Error: (none)
    Exit Code: 0
    Signal: 0
    Background PIDs: (none)
    Process Group PGID: 27178
    """
    body, found = text, dict[str, str]()
    for label in _TAIL:
        at = body.rfind(f"\n{label}: ")
        if at >= 0 and body.find("\n", at + 1) < 0:
            found[label] = body[at + len(label) + 3 :]
            body = body[:at]
    is_full = body.startswith("Command: ")
    if is_full:
        start = body.find("\n", body.find("\nDirectory: ") + 1) + 1
        body, error = _cut(body[start:], "\nError: ")
        found["Error"] = error
    named = next((label for label in ("Output: ", "Stdout: ") if body.startswith(label)), None)
    if named is None or any(found.get(label, "0") not in (*_NOTHING, "0") for label in ("Signal", "Background PIDs")):
        return text, _exit_code(found.get("Exit Code"))
    printed, complaint = _cut(body[len(named) :], "\nStderr: ") if named == "Stdout: " else (body[len(named) :], "")
    said = [part for part in (printed, complaint, found.get("Error", "")) if part not in _NOTHING]
    return "\n".join(said), _exit_code(found.get("Exit Code"))


def _cut(text: str, mark: str) -> tuple[str, str]:
    head, found, tail = text.rpartition(mark)
    return (head, tail) if found else (text, "")


def _exit_code(value: str | None) -> int | None:
    return harness.known_code(int(value)) if value is not None and re.fullmatch(r"-?\d{1,9}", value) else None


def _made(call_id: str | None) -> float | None:
    """When a call was made, in seconds since 1970: clients write the milliseconds into its id."""
    found = _MADE.search(call_id[:300]) if call_id else None
    return int(found[1]) / 1_000 if found else None
