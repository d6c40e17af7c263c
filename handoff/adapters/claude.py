"""What Claude Code writes, whatever the file around it: messages in Anthropic form, and a thread of them as steps.

A reply is spread over lines, one content block each, that share its message id; its usage is repeated or still
growing on every line, so the last one counts. Results of parallel calls come between those lines. A thread is one
conversation: the main one of a session, what follows ``/clear``, or a subagent's.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import arguments_of
from handoff.adapters.claude_files import blob_id, regions, texts
from handoff.adapters.conversation import Conversation, Role
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, REPEATED, Repeated, Unhoused, Upkeep
from handoff.identity import canonical_json
from handoff.trajectory import Action, Boundary, Ending, Missing, Outcome, Trajectory, Usage

SYNTHETIC = "<synthetic>"
"""The model of replies that the client made up: interruptions, errors, fillers."""

_FILLER = "No response requested."
"""What the client puts after a human's last words when it takes a session up again."""

_HARNESS = (
    *("<command-name>", "<command-message>", "<command-args>", "<local-command-", "<user-prompt-submit-hook>"),
    *("<bash-input>", "<bash-stdout>", "<bash-stderr>", "<system-reminder>", "<task-notification>"),
    *("<ide_opened_file>", "<ide_selection>", "<teammate-message", "<new-diagnostics>", "<session-start-hook>"),
    *("[Request interrupted by user", "Caveat: The messages below were generated", "Stop hook feedback:"),
)
_LOCAL = ("<local-command-", "Caveat: The messages below were generated")
_LEAVING = ("exit", "quit")

_NOT_RUN = (
    *("The user doesn't want to proceed with this tool use", "The user doesn't want to take this action right now"),
    *("User rejected tool use", "Permission to use ", "Permission for this action has been denied"),
    *("Claude requested permissions to ", "<tool_use_error>Sibling tool call errored"),
    *("<tool_use_error>InputValidationError", "<tool_use_error>Error: No such tool available"),
    *("Sibling tool call errored", "<tool_use_error>Cancelled: parallel tool call"),
)
_HOOK_DENIAL = re.compile(
    r"(?:Hook )?PreToolUse:[^\n]{0,200}?(?:hook error|hook blocking error|denied)|\w{1,60} operation blocked by hook"
)
_STOPPED = "[Request interrupted by user"
_SAID_WHY = re.compile(r"the user said:\s*\n|The user provided the following reason for the rejection:\s*")
_EXIT_CODE = re.compile(r"Exit code (\d{1,10})(?!\d)")
_STOPS = ("end_turn", "tool_use", "stop_sequence")
"""Why replies end when nothing is wrong: it shows in what they hold."""
_TOO_LONG = re.compile(r"prompt is too long|context (?:window|limit)", re.IGNORECASE)

_MOST_FACTS = 200
_MOST_TEXTS = 5_000
"""Texts of files that are named, of one kind and run."""

_WORKERS = ("acompact-", "aprompt_suggestion-")
"""Beginnings of the ids of the client's own side conversations."""


# -- what the lines hold -------------------------------------------------------------------------------


class Source(msgspec.Struct, gc=False):
    """Where an image or a document is: its bytes, or an address."""

    type: str | None = None
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None


class Block(msgspec.Struct, gc=False):
    """One content block, of a message or inside a result."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: str | list[Block] | Block | None = None
    is_error: Any = None
    source: Source | None = None
    tool_name: str | None = None
    signature: Upkeep = NOTHING
    data: Upkeep = NOTHING
    caller: Upkeep = NOTHING
    cache_control: Upkeep = NOTHING


class Counts(msgspec.Struct, gc=False):
    """Tokens of a reply; what was written to the cache and read from it comes on top of the input."""

    input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    cache_read_input_tokens: Any = None
    output_tokens: Any = None
    cache_creation: Unhoused = NOTHING
    iterations: Repeated = NOTHING
    server_tool_use: Repeated = NOTHING
    service_tier: Upkeep = NOTHING
    inference_geo: Upkeep = NOTHING
    speed: Upkeep = NOTHING


class Said(msgspec.Struct, gc=False):
    """A message."""

    content: str | list[Block] | None = None
    role: str | None = None
    type: str | None = None
    id: str | None = None
    model: str | None = None
    usage: Counts | None = None
    stop_reason: str | None = None
    stop_sequence: Upkeep = NOTHING
    stop_details: Upkeep = NOTHING
    container: Upkeep = NOTHING
    context_management: Upkeep = NOTHING
    diagnostics: Upkeep = NOTHING


class Origin(msgspec.Struct, gc=False):
    """Who wrote a user turn: ``human``, a background task, another agent."""

    kind: str | None = None
    server: Upkeep = NOTHING
    name: Upkeep = NOTHING


class Fork(msgspec.Struct, gc=False, rename="camel"):
    """Where a copied line comes from."""

    session_id: str | None = None
    message_uuid: Upkeep = NOTHING


class Place(msgspec.Struct, gc=False, rename="camel"):
    """What all lines of a session file may have."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: Any = None
    is_sidechain: Any = None
    is_meta: Any = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    forked_from: Fork | None = None
    user_type: Upkeep = NOTHING
    slug: Upkeep = NOTHING
    entrypoint: Upkeep = NOTHING
    level: Upkeep = NOTHING
    logical_parent_uuid: Upkeep = NOTHING
    session_kind: Upkeep = NOTHING
    team_name: Unhoused = NOTHING
    agent_name: Unhoused = NOTHING


class Line(Place, gc=False, rename="camel"):
    """A line of the conversation: the model's, or a user's, which may be results or text of the client."""

    message: Said | None = None
    is_compact_summary: Any = None
    is_api_error_message: Any = None
    origin: Origin | None = None
    tool_use_result: msgspec.Raw = NOTHING
    todos: Repeated = NOTHING
    request_id: Upkeep = NOTHING
    prompt_id: Upkeep = NOTHING
    prompt_source: Upkeep = NOTHING
    permission_mode: Unhoused = NOTHING
    thinking_metadata: Upkeep = NOTHING
    image_paste_ids: Upkeep = NOTHING
    error: Unhoused = NOTHING
    is_visible_in_transcript_only: Upkeep = NOTHING
    source_tool_assistant_uuid: Upkeep = msgspec.field(default=NOTHING, name="sourceToolAssistantUUID")
    source_tool_use_id: Upkeep = msgspec.field(default=NOTHING, name="sourceToolUseID")


class Copy(msgspec.Struct, gc=False, rename="camel"):
    """What the structured copy of a result says beyond its text."""

    agent_id: Any = None
    file_path: Any = None
    original_file: Any = None
    user_modified: Any = None
    return_code_interpretation: Any = None
    duration_ms: Any = None
    total_duration_ms: Any = None
    total_tokens: Any = None
    total_tool_use_count: Any = None


class Prompt(msgspec.Struct, gc=False):
    """What a call that starts a subagent tells it."""

    prompt: Any = None


_COPY = msgspec.json.Decoder(Copy)
_PROMPT = msgspec.json.Decoder(Prompt)


# -- one thread --------------------------------------------------------------------------------------


class _Result(NamedTuple):
    """One answer to a call."""

    call_id: str | None
    text: str
    error: bool | None = None
    exit_code: int | None = None
    missing: Missing | None = None

    def into(self, talk: Conversation) -> None:
        """The answer to its call, or an orphan."""
        talk.result(self.call_id, self.text, error=self.error, exit_code=self.exit_code, missing=self.missing)


class _Reply:
    """The lines of one message id."""

    def __init__(self, line: Line, model: str | None) -> None:
        self.model = model
        self.timestamp = values.stamp(line.timestamp)
        self.session = line.session_id
        self.copied_from = line.forked_from.session_id if line.forked_from is not None else None
        self.text: list[str] = []
        self.thought: list[str] = []
        self.actions: list[Action] = []
        self.results: list[_Result] = []
        self.usage: Usage | None = None
        self.seen: set[tuple[str, str]] = set()

    def into(self, talk: Conversation) -> None:
        """A step of the conversation."""
        talk.reply(
            "\n".join(self.text),
            thought="\n".join(self.thought),
            actions=tuple(self.actions),
            model=self.model,
            usage=self.usage,
            timestamp=self.timestamp,
        )
        for result in self.results:
            result.into(talk)


class _Heard(msgspec.Struct):
    """A message that is no reply; the role may still change when the next line explains it."""

    role: Role
    text: str


class Thread:
    """Lines of one conversation in file order; ``trajectory`` closes it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.session: str | None = None
        """Of the latest line: lines with another id before it were copied from that session."""
        self.agent_id: str | None = None
        self.root: str | None = None
        """The id of the first line."""
        self.facts: dict[str, Any] = {}
        self.prompts: dict[str, str] = {}
        """What the calls told subagents → call id."""
        self.has_human = False
        """True once a human spoke."""
        self._events: list[_Reply | _Result | _Heard | Boundary] = []
        self._replies: dict[str, _Reply] = {}
        self._command: _Heard | None = None
        self._anchors: dict[str, str | None] = {}
        self._prompted: dict[str | None, int] = {}
        self._n_replies = 0
        self._version: str | None = None
        self._stopped: str | None = None
        self._failure: str | None = None

    @property
    def is_blank(self) -> bool:
        """True while nobody has said anything."""
        return not self._n_replies and not self.has_human

    # -- lines in

    def add(self, line: Line) -> None:
        """The next line of the conversation."""
        self._place(line)
        if line.message is None:
            self.record.lost(f"$[type={line.type}, without a message]")
        elif line.type == "assistant":
            self._answer(line, line.message)
        else:
            self._hear(line, line.message)

    def passed(self, uuid: Any, parent: Any) -> None:
        """A line that is no part of the conversation hangs in the tree between two that are."""
        if isinstance(uuid, str) and isinstance(parent, str | None):
            self._anchors[uuid] = self._anchor(parent)

    def say(self, role: Role, text: str) -> None:
        """Somebody who is not the model said something."""
        if not text:
            return
        if role == "user":
            self.has_human = True
            self._stopped = None
        self._events.append(_Heard(role, text))

    def happened(self, kind: Boundary) -> None:
        """Something happened between two replies. ``resume`` counts only once the conversation goes on."""
        self._events.append(kind)

    def command(self, text: str) -> None:
        """A slash command, as the client wraps it."""
        self._command = _Heard("harness", text)
        self._events.append(self._command)
        if command_in(text) in _LEAVING:
            self.happened("resume")

    def begin(self, prompt: str) -> None:
        """What a subagent was told, where only the call that started it says so."""
        self._events.insert(0, _Heard("user", prompt))
        self.has_human = True

    def _place(self, line: Line) -> None:
        self.root = self.root or line.uuid
        self.agent_id = self.agent_id or line.agent_id
        for name, value in (("cwd", line.cwd), ("branch", line.git_branch)):
            if value:
                self.facts.setdefault(name, value[:300])
        if line.version and line.version != self._version:
            if self._version is not None:
                self.happened("resume")  # a running client keeps its version
            self._version = line.version
            self._note_fact("versions", line.version[:60], True)
        self.session = line.session_id or self.session

    def _note_fact(self, name: str, key: str, value: str | bool | list[Any], most: int = _MOST_FACTS) -> None:
        """One more of a kind of facts; the first of a key stands."""
        known = self.facts.setdefault(name, {})
        if len(known) < most:
            known.setdefault(key, value)

    # -- the model

    def _answer(self, line: Line, message: Said) -> None:
        blocks = _blocks(message.content)
        if line.uuid:
            self._anchors[line.uuid] = line.uuid
        if message.model == SYNTHETIC or line.is_api_error_message is True:
            text = "\n".join(block.text or "" for block in blocks)
            if text.strip() == _FILLER:
                self.happened("resume")
            elif line.is_api_error_message is True:
                self._failure = text
            self.say("harness", text)
            return
        reply = self._replies.get(message.id) if message.id else None
        if reply is None:
            reply = _Reply(line, message.model)
            if message.id:
                self._replies[message.id] = reply
            self._events.append(reply)
            self._n_replies += 1
            self._stopped = self._failure = self._command = None
        reply.usage = usage_of(message.usage) or reply.usage
        if message.stop_reason and message.stop_reason not in _STOPS:
            self.record.lost(f"$.message.stop_reason[{message.stop_reason[:60]}]")
        for block in blocks:
            self._put(block, reply)

    def _put(self, block: Block, reply: _Reply) -> None:
        """A block into its reply, unless a copied line brings it once more."""
        key = (block.type, block.id or block.tool_use_id or block.text or block.thinking or "")
        if key[1] and key in reply.seen:
            return
        reply.seen.add(key)
        if block.type == "text":
            reply.text.append(block.text or "")
        elif block.type == "thinking":
            reply.thought.append(block.thinking or "")
        elif block.type in ("tool_use", "server_tool_use", "mcp_tool_use"):
            reply.actions.append(self._call(block))
        elif block.type.endswith("_tool_result"):
            reply.results.append(_Result(block.tool_use_id, self.text_of(block.content)))
        else:
            self.record.lost(f"$.message.content[type={block.type[:60]}]")

    def _call(self, block: Block) -> Action:
        arguments, is_text = arguments_of(block.input)
        if block.name in ("Task", "Agent") and block.id and not is_text:
            told = _PROMPT.decode(arguments).prompt
            if isinstance(told, str):
                self.prompts.setdefault(told, block.id)
        return Action(call_id=block.id or None, tool=block.name or "", arguments=arguments, is_text=is_text)

    # -- everybody else

    def _hear(self, line: Line, message: Said) -> None:
        said: list[str] = []
        for block in _blocks(message.content):
            if block.type == "tool_result":
                self._result(block, line)
                continue
            text = self._part(block)
            role = _role(text, line)
            if role == "harness" or (role == "context_summary" and text):
                self._note(role, text, line)
            elif text:
                said.append(text)
        if said:
            self._human("\n".join(said), line)
        elif line.uuid and line.uuid not in self._anchors:
            self.passed(line.uuid, line.parent_uuid)

    def _note(self, role: Role, text: str, line: Line) -> None:
        if role == "context_summary":
            self.happened("compaction")
        elif command_in(text):
            self.command(text)
            return
        elif self._command is not None and line.is_meta is True and not text.startswith(_LOCAL):
            # The command stands for the prompt that follows, so a human gave it to the model.
            self._command.role = "user"
            self.has_human = True
        if text.startswith(_STOPPED):
            self._stopped = text
        self._command = None
        self.say(role, text)

    def _human(self, text: str, line: Line) -> None:
        if line.uuid:
            anchor = self._anchor(line.parent_uuid)
            if self._prompted.get(anchor, self._n_replies) < self._n_replies:
                self.happened("rollback")  # another prompt at the same place: the turns since then were taken back
            self._prompted[anchor] = self._n_replies
            self._anchors[line.uuid] = line.uuid
        self._command = None
        self.say("user", text)

    def _anchor(self, uuid: str | None) -> str | None:
        return None if uuid is None else self._anchors.get(uuid, uuid)

    def _result(self, block: Block, line: Line) -> None:
        if line.uuid:
            self._anchors[line.uuid] = line.uuid
        text = self.text_of(block.content)
        error = values.flag(block.is_error)
        self._copy(line, block.tool_use_id)
        if text.startswith(_STOPPED):
            self._events.append(_Result(block.tool_use_id, "", error, missing="aborted"))
            self.say("harness", text)
        elif error is True and (text.startswith(_NOT_RUN) or _HOOK_DENIAL.match(text)):
            self._events.append(_Result(block.tool_use_id, "", error, missing="not_executed"))
            found = _SAID_WHY.search(text[:2_000])
            self.say("harness", text[: found.end()] if found else text)
            if found:
                self.say("user", text[found.end() :])
        else:
            found = _EXIT_CODE.match(text) if error is not False else None
            code = harness.known_code(int(found[1])) if found else None
            self._events.append(_Result(block.tool_use_id, text, error, code))

    def _copy(self, line: Line, call_id: str | None) -> None:
        """The structured copy of a result: what it says beyond the text."""
        raw = bytes(line.tool_use_result)
        if raw in (b"null", b""):
            return
        self.record.lost("$.toolUseResult", reason=REPEATED)
        if not raw.startswith(b"{"):
            return
        try:
            copy = _COPY.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        if isinstance(copy.agent_id, str) and call_id:
            self._note_fact("subagents", call_id[:100], copy.agent_id[:100])
        if isinstance(copy.original_file, str):
            self.record.lost("$.toolUseResult.originalFile")
            if isinstance(copy.file_path, str):
                self._note_fact("originals", copy.file_path[:300], blob_id(copy.original_file))
        if call_id:
            for text in texts(raw):
                self._note_fact(text.kind, call_id[:100], text.blob, _MOST_TEXTS)
            if hunks := regions(raw):
                self._note_fact("hunks", call_id[:100], hunks, _MOST_TEXTS)
        for name, value in (
            ("userModified", copy.user_modified),
            ("returnCodeInterpretation", copy.return_code_interpretation),
            ("durationMs", copy.duration_ms),
            ("totalDurationMs", copy.total_duration_ms),  # of a subagent, as the following
            ("totalTokens", copy.total_tokens),
            ("totalToolUseCount", copy.total_tool_use_count),
        ):
            if value:
                self.record.lost(f"$.toolUseResult.{name}")

    def text_of(self, content: str | list[Block] | Block | None) -> str:
        """A content as text."""
        return content if isinstance(content, str) else "\n".join(self._part(block) for block in _blocks(content))

    def _part(self, block: Block) -> str:
        """A block as text; what is no text is named by type and hash."""
        if block.type == "text":
            return block.text or ""
        if block.type in ("image", "document") and block.source is not None:
            source = block.source
            if source.type == "text":
                return source.data or ""
            data = source.data.encode("utf-8", "replace") if source.data else source.url or source.file_id
            return values.media(block.type, data, source.media_type)
        if block.type == "tool_reference":
            return f"[tool: {block.tool_name or ''}]"
        self.record.lost(f"$.message.content[type={block.type[:60]}]")
        return ""

    # -- the run

    def trajectory(
        self,
        format_: str,
        *,
        parent: str | None = None,
        calls: dict[str, str] | None = None,
        outcome: Outcome | None = None,
    ) -> Trajectory:
        """The run. ``parent``: the session that started it; ``calls``: what its calls told subagents → call id.

        ``RecordError`` when it is no run.
        """
        if self.agent_id is not None and self.agent_id.startswith(_WORKERS):
            raise RecordError(
                "A side conversation in which the client compacted or suggested, and no work on the task.",
                field="$.agentId",
                remedy="Leave the file out: a summary that was used stands in the session's own file.",
            )
        talk = Conversation()
        self._replay(talk)
        copied, continues = self._copied()
        steps = talk.steps()
        task = next((m.text for m in talk.preamble if m.role == "user"), None)
        if not steps or task is None:
            raise RecordError(
                "No human message comes before the first reply, so the task is missing."
                if steps
                else "No reply of the model is in it.",
                remedy="Give the session's whole file; a part of it, or one that only runs commands, is no run.",
            )
        call = (calls or {}).get(task) if parent else None
        facts = {"call": call, "repairs": self.record.repairs} | self.facts
        versions = list(facts.pop("versions", {}))
        facts["version"] = versions[0] if len(versions) == 1 else versions
        return Trajectory(
            format=format_,
            task=task,
            agent="claude-code",
            model=next((step.model for step in steps if step.model), None),
            preamble=tuple(talk.preamble),
            steps=steps,
            session=(self.agent_id or self.root) if parent else self.session,
            parent=parent,
            continues=continues,
            copied_steps=copied,
            outcome=outcome or self._outcome(talk.awaits_result),
            source=canonical_json({k: v for k, v in facts.items() if v}).decode(),
        )

    def _replay(self, talk: Conversation) -> None:
        """Everything into ``talk``, in order."""
        model: str | None = None
        is_left = False
        for event in self._events:
            if isinstance(event, str):
                if event == "resume":
                    is_left = True
                else:
                    talk.boundary(event)
                continue
            if is_left and (isinstance(event, _Reply) or (isinstance(event, _Heard) and event.role == "user")):
                talk.boundary("resume")
                is_left = False
            if isinstance(event, _Reply):
                if model and event.model and event.model != model:
                    talk.boundary("agent_switch")
                model = event.model or model
                event.into(talk)
            elif isinstance(event, _Result):
                event.into(talk)
            else:
                talk.message(event.role, event.text)

    def _copied(self) -> tuple[int, str | None]:
        """The number of leading replies that were copied from another session, and that session."""
        origin: str | None = None
        count = 0
        for event in self._events:
            if isinstance(event, _Reply):
                found = event.copied_from or (event.session if event.session != self.session else None)
                if found is None:
                    break
                origin = found
                count += 1
        return count, origin

    def _outcome(self, awaits_result: bool) -> Outcome:
        status, ended = ending(self._stopped, self._failure)
        return Outcome(exit_status=status, ended="cut_off" if ended is None and awaits_result else ended)


def ending(stopped: str | None, failure: str | None) -> tuple[str | None, Ending | None]:
    """How a run ended whose last line is an interruption or an error of the API; else nothing is known."""
    if stopped is not None:
        return stopped[:200], "aborted"
    if failure is not None:
        return failure[:200], "context_limit" if _TOO_LONG.search(failure[:500]) else "error"
    return None, None


def command_in(text: str) -> str | None:
    """The slash command that the client wrapped in this text: ``clear`` for ``/clear``."""
    if not text.lstrip().startswith(("<command-name>", "<command-message>")):
        return None
    _, opened, rest = text.partition("<command-name>")
    name, closed, _ = rest.partition("</command-name>")
    return name.strip().lstrip("/") if opened and closed else None


def texts_of(content: str | list[Block] | Block | None) -> list[str]:
    """The texts of a message, results apart."""
    return [block.text for block in _blocks(content) if block.type == "text" and block.text]


def usage_of(counts: Counts | None) -> Usage | None:
    """Tokens of a reply, when at least one number is known."""
    if counts is None:
        return None
    fresh, written, cached, completion = (
        number if (number := values.whole(value)) is not None and number >= 0 else None
        for value in (
            counts.input_tokens,
            counts.cache_creation_input_tokens,
            counts.cache_read_input_tokens,
            counts.output_tokens,
        )
    )
    if fresh is None and completion is None:
        return None
    prompt = None if fresh is None else values.whole(fresh + (written or 0) + (cached or 0))
    return Usage(prompt=prompt, cached=cached, completion=completion)


def _blocks(content: str | list[Block] | Block | None) -> list[Block]:
    if isinstance(content, str):
        return [Block(type="text", text=content)]
    return [content] if isinstance(content, Block) else content or []


def _role(text: str, line: Line) -> Role:
    if line.is_compact_summary is True:
        return "context_summary"
    if line.is_meta is True or (line.origin is not None and line.origin.kind not in (None, "human")):
        return "harness"
    return "harness" if text.lstrip()[:60].startswith(_HARNESS) else "user"
