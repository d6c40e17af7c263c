"""Codex CLI rollouts: one session, one JSON line for each thing that happened.

::

    {"timestamp": "…", "type": "session_meta", "payload": {"id": "…", "cwd": "/src/app", "git": {…}, …}}
    {"timestamp": "…", "type": "turn_context", "payload": {"model": "gpt-5.1-codex", …}}
    {"timestamp": "…", "type": "response_item", "payload": {"type": "function_call", "name": "exec_command",
     "arguments": "{\\"cmd\\": \\"ls\\"}", "call_id": "call_1"}}
    {"timestamp": "…", "type": "response_item", "payload": {"type": "function_call_output", "call_id": "call_1",
     "output": "…"}}
    {"timestamp": "…", "type": "event_msg", "payload": {"type": "token_count", "info": {…}}}

Items are what the model was told and said, events what the client saw: content comes from items; tokens, exit codes and
the end of a turn from events. A reply is what stands between two results or counts of tokens. A command that still runs
when its call returns is answered by later polls: its whole output and its exit code belong to the call that started
it, and each poll keeps its own answer. Turns that were taken back stay, as their edits did. Rollouts of early 2025 hold
the bare items.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from handoff.adapters import codex_files, values
from handoff.adapters import codex_lines as lines
from handoff.adapters.codex_calls import Calls
from handoff.adapters.conversation import Conversation, Role
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import REPEATED, UPKEEP
from handoff.framing.record import Row
from handoff.trajectory import Action, Boundary, Ending, Message, Outcome, Trajectory, Usage

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_AGENTS_MD = "# AGENTS.md instructions"
_CONTEXT = frozenset(
    (
        *("environment_context", "user_instructions", "skill", "user_shell_command", "turn_aborted", "user_action"),
        *("subagent_notification", "additional_context", "permissions", "collaboration_mode", "hook_prompt"),
        *("goal_context", "skills_instructions", "plugins_instructions", "apps_instructions", "model_switch"),
    )
)
"""Tags of what the client says in the user's name."""
_TAG = re.compile(r"\s{0,99}<([a-z_]{1,40})[\s>]")
_MOST_CHANGES = 5_000
"""Calls whose notes of files are kept."""
_UNCLAIMED = "$.payload[type=token_count].info (of no reply)"
_SUMMARY = "Another language model started to solve this problem and produced a summary"
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://[^/]+/|[^/@:]+@[^/:]+:)(?:[^/]+/)*([^/]+)/([^/]+?)(?:\.git)?/?", re.IGNORECASE
)
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

_LEFT: dict[str, dict[str, str]] = {
    "response_item": {"compaction_trigger": UPKEEP},
    "event_msg": {
        **dict.fromkeys(
            ("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "exited_review_mode"), REPEATED
        ),
        **dict.fromkeys(("view_image_tool_call", "image_generation_end", "plan_update"), REPEATED),
        **dict.fromkeys(("dynamic_tool_call_request", "dynamic_tool_call_response"), REPEATED),
        **dict.fromkeys(("task_started", "turn_started", "thread_settings_applied", "thread_name_updated"), UPKEEP),
    },
}
"""Payloads that are known and left, by the type of their line."""
_ITEMS_LEFT = frozenset(("AgentMessage", "Reasoning", "McpToolCall", "WebSearch"))
"""The same of completed items: all of them repeat an item of the model's API."""


class Codex:
    """Reads rollouts of the Codex CLI."""

    format = "codex"

    def recognises(self, record: Record) -> bool:
        """Lines with a payload of a known type, or the header of a rollout of 2025, or what ``codex exec`` prints."""
        opening = record.opening()
        return any(line.get("type") in _TYPES and "payload" in line for line in opening) or (
            bool(opening) and (_is_old(opening[0]) or _is_exec(opening[0]))
        )

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when no reply or no task is in it."""
        opening = record.opening()
        if opening and _is_exec(opening[0]):
            raise RecordError(
                "What `codex exec --json` prints does not hold the task.",
                remedy="Give the rollout of the same session: a file rollout-….jsonl in Codex's sessions folder.",
            )
        rollout = _Rollout(record, is_bare=bool(opening) and _is_old(opening[0]))
        return (rollout.read(self.format),)


def _is_old(line: dict[str, Any]) -> bool:
    return {"id", "timestamp", "instructions"} <= line.keys() and "type" not in line


def _is_exec(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    return isinstance(kind, str) and kind.startswith(("thread.", "turn.", "item."))


class _Said:
    """A message that waits for the next reply. ``role`` is ``None`` while it is open whether a human wrote it."""

    __slots__ = ("role", "text")

    def __init__(self, role: Role | None, text: str) -> None:
        self.role = role
        self.text = text


class _Reply:
    """A reply still being written."""

    __slots__ = ("actions", "said", "thought", "timestamp", "usage")

    def __init__(self, timestamp: str | None, usage: Usage | None) -> None:
        self.said: list[str] = []
        self.thought: list[str] = []
        self.actions: list[Action] = []
        self.timestamp = timestamp
        self.usage = usage


class _Dialogue:
    """Replies, the messages between them, and what happened there."""

    def __init__(self, record: Record) -> None:
        self.talk = Conversation()
        self.model: str | None = None
        """Of the turn that is under way."""
        self.first_model: str | None = None
        self.steps = 0
        self._record = record
        self._reply: _Reply | None = None
        self._waiting: list[_Said] = []
        self._undecided: list[_Said] = []
        self._copy: _Said | None = None
        self._is_confirmed = False
        self._last_model: str | None = None
        self._total = b""
        self._early: Usage | None = None

    def reply(self, timestamp: str | None) -> _Reply:
        """The reply under way, or a new one."""
        if self._reply is None:
            self._let_in()
            self._reply = _Reply(timestamp, self._early)
            self._early = None
        return self._reply

    def close(self) -> None:
        """The reply under way is whole."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if self.model is not None:
            if self._last_model not in (None, self.model):
                self.talk.boundary("agent_switch")
            self._last_model = self.model
            self.first_model = self.first_model or self.model
        self.steps += 1
        self.talk.reply(
            "\n\n".join(reply.said),
            thought="\n\n".join(reply.thought),
            actions=tuple(reply.actions),
            model=self.model,
            usage=reply.usage,
            timestamp=reply.timestamp,
        )

    def boundary(self, kind: Boundary) -> None:
        """Something happened here that could have been a handoff."""
        self.close()
        self._let_in()
        self.talk.boundary(kind)
        if kind == "compaction" and self._early is not None:
            self._early = None
            self._record.lost(_UNCLAIMED)

    def tokens(self, info: lines.TokenInfo) -> None:
        """Tokens were counted: once for each reply, but the same count is told again and again."""
        last, total = info.last_token_usage, bytes(info.total_token_usage)
        if last is None or total == self._total != b"null":
            return
        usage = values.tokens(prompt=last.input_tokens, cached=last.cached_input_tokens, completion=last.output_tokens)
        if usage is None or not (usage.prompt or usage.completion):
            return
        self._total = total
        if self._reply is not None:
            if self._reply.usage is not None:
                self._record.lost(_UNCLAIMED)
            self._reply.usage = usage
            self.close()
        elif not self.talk.count(usage):
            self._early = usage  # older clients count before they write the items down

    def says(self, role: Role, text: str) -> None:
        """A message that is not the model's, and not a human's."""
        self.close()
        if text:
            self._waiting.append(_Said(role, text))

    def hears(self, text: str) -> None:
        """An item in the user's name: a human's, unless the client's copies of what a human wrote say otherwise."""
        self.close()
        if self._copy is not None and self._copy.text in text:
            self._copy.text, self._copy = text, None
        else:
            self._undecided.append(_Said(None, text))
            self._waiting.append(self._undecided[-1])

    def confirms(self, text: str) -> None:
        """The client's copy of what a human wrote. It stands after its item, or before it, or alone."""
        self.close()
        self._is_confirmed = True
        if self._undecided:
            self._undecided.pop().role = "user"
        elif text:
            self._copy = _Said("user", text)
            self._waiting.append(self._copy)

    def end(self) -> None:
        """All lines are read."""
        self.close()
        self._let_in()

    def _let_in(self) -> None:
        for said in self._waiting:
            self.talk.message(said.role or ("harness" if self._is_confirmed else "user"), said.text)
        self._waiting.clear()
        self._undecided.clear()
        self._copy = None


class _Rollout:
    """The lines of a rollout, read once in order."""

    def __init__(self, record: Record, *, is_bare: bool) -> None:
        self.record = record
        self.is_bare = is_bare
        self.dialogue = _Dialogue(record)
        self.calls = Calls(self.dialogue.talk)
        self.session: lines.Session | None = None
        self.path = "$"
        """Of the payload that is being read."""
        self.timestamp: str | None = None
        self.base: str | None = None
        """Instructions that the header holds; shown first unless a message repeats them."""
        self.effort: Any = None
        self.status: str | None = None
        self.ending: Ending | None = None
        self.copied = 0
        self.is_copy = False
        """True in the lines that a fork repeats from the session it forked from."""
        self.rolled_back: list[str] = []
        """``step:turns``, the last step before turns were taken back and how many."""
        self.changes: dict[str, dict[str, codex_files.Noted]] = {}
        """Call → path → what the client noted of a file that the call changed."""

    def read(self, format_: str) -> Trajectory:
        """The run; ``RecordError`` when it holds no reply, or no task."""
        for row in self.record.rows():
            if self.is_bare:
                self._bare(row)
            else:
                self._line(row)
        self.dialogue.end()
        self.calls.finish()
        if self.is_copy:
            self.copied = self.dialogue.steps
        return self._trajectory(format_)

    # -- lines --------------------------------------------------------------------------------------

    def _line(self, row: Row) -> None:
        line = self.record.part(row, lines.Line)
        if line is None:
            return
        kind = line.type if isinstance(line.type, str) else ""
        payload = Row(row.line, bytes(line.payload))
        look = _look(payload.data)
        self._leave_copy(line, look)
        self.timestamp = values.stamp(line.timestamp)
        if kind == "session_meta":
            self._session(payload)
        elif kind == "turn_context":
            self._context(payload)
        elif kind == "compacted":
            self._compacted(payload)
        elif kind == "world_state":
            self.record.lost("$[type=world_state]", reason=REPEATED)
        elif kind in _LEFT:
            self._payload(kind, look.type or "", payload)
        else:
            self.record.lost(f"$[type={kind}]")

    def _bare(self, row: Row) -> None:
        """A line of early 2025: the header, an item, or the state of the client."""
        look = _look(row.data)
        if look.type is not None:
            self._payload("response_item", look.type, row)
        elif self.session is None:
            self._session(row)
        elif self.record.part(row, lines.State) is not None:
            self.record.lost("$[record_type=state]", reason=UPKEEP)

    def _payload(self, line: str, kind: str, row: Row) -> None:
        readers = _ITEMS if line == "response_item" else _EVENTS
        self.path = f"$.payload[type={kind}]"
        if kind in readers:
            form, read = readers[kind]
            payload = self.record.part(row, form, self.path)
            if payload is not None:
                read(self, payload)
        elif kind:
            self.record.lost(self.path, reason=_LEFT[line].get(kind))
        else:
            problem = RecordError(
                "The payload does not say what it is.",
                field="$.payload.type",
                remedy="The line is left out; copy the rollout again if it was edited.",
            )
            self.record.problem(problem, row.line)

    def _session(self, row: Row) -> None:
        session = self.record.part(row, lines.Session, "$[type=session_meta].payload")
        if session is None:
            return
        if self.session is None:
            self.session = session
            self.base = (session.base_instructions.text if session.base_instructions else None) or session.instructions
        elif session.id == self.session.id:
            self.dialogue.boundary("resume")
        elif self.session.forked_from_id is not None or _is_before(session.timestamp, self.session.timestamp):
            self.is_copy = True
            self.session.forked_from_id = self.session.forked_from_id or session.id
        else:
            self.dialogue.boundary("resume")

    def _leave_copy(self, line: lines.Line, look: lines.Look) -> None:
        """A fork's own part begins with the first turn that is younger than the fork."""
        if not self.is_copy or line.type not in ("turn_context", "event_msg") or self.session is None:
            return
        turn, own = _made(look.turn_id), _made(self.session.id)
        if turn is not None and own is not None:
            is_over = turn >= own
        else:
            is_over = line.type == "turn_context" and not _is_before(line.timestamp, self.session.timestamp)
        if is_over:
            self.is_copy = False
            self.dialogue.boundary("resume")
            self.copied = self.dialogue.steps

    def _context(self, row: Row) -> None:
        context = self.record.part(row, lines.Context, "$[type=turn_context].payload")
        if context is not None:
            self.dialogue.close()
            self.dialogue.model = context.model or self.dialogue.model
            self.effort = self.effort or context.effort
            self.status = self.ending = None

    def _compacted(self, row: Row) -> None:
        path = "$[type=compacted].payload"
        compacted = self.record.part(row, lines.Compacted, path)
        if compacted is None:
            return
        self.dialogue.boundary("compaction")
        summary = compacted.message or ""
        history = bytes(compacted.replacement_history)
        if history != b"null":
            self.record.lost(f"{path}.replacement_history", reason=REPEATED)
            summary = summary or _summary_in(history)
            if not summary and b'"encrypted_content"' in history:
                self.record.lost(f"{path}.replacement_history[].encrypted_content", reason=lines.ENCRYPTED)
        self.dialogue.says("context_summary", summary)

    # -- items --------------------------------------------------------------------------------------

    def _message(self, item: lines.Message) -> None:
        if item.role == "assistant":
            text = lines.join(item.content)
            reply = self.dialogue.reply(self.timestamp)
            if text:
                reply.said.append(text)
            self.ending = "submitted" if item.phase == "final_answer" else None
        elif item.role == "user":
            self._from_user(item.content)
        else:
            self.dialogue.says(
                "system" if item.role in ("developer", "system") else "harness", lines.join(item.content)
            )

    def _from_user(self, content: lines.Content) -> None:
        """Parts that the client put there are the harness's; what is left may be a human's."""
        heard: list[lines.Part] = []
        for part in lines.parts(content):
            text = part.text or ""
            if text.startswith(_SUMMARY):
                self.dialogue.says("context_summary", text)
            elif _is_context(text):
                self.dialogue.says("harness", text)
            else:
                heard.append(part)
        text = lines.join(heard)
        if text:
            self.dialogue.hears(text)

    def _agent_message(self, item: lines.AgentMessage) -> None:
        """Another agent's words: a subagent's task when they come first, else news."""
        is_task = self.dialogue.steps == self.copied and self._parent() is not None
        self.dialogue.says("user" if is_task else "harness", lines.join(item.content))

    def _reasoning(self, item: lines.Reasoning) -> None:
        text, summary = lines.join(item.content), "\n\n".join(lines.texts(item.summary))
        if text and summary:
            self.record.lost(f"{self.path}.summary", reason=REPEATED)
        reply = self.dialogue.reply(self.timestamp)
        if text or summary:
            reply.thought.append(text or summary)

    def _function_call(self, item: lines.FunctionCall) -> None:
        tool = item.name or str(item.type).removesuffix("_call")
        if item.namespace:
            if item.namespace.startswith("mcp__"):
                tool = f"{item.namespace.removesuffix('__')}__{tool}"
            else:
                self.record.lost(f"{self.path}.namespace")
        self._call(item.call_id, tool, item.arguments)

    def _custom_call(self, item: lines.CustomCall) -> None:
        self._call(item.call_id, item.name or "", msgspec.Raw(msgspec.json.encode(item.input or "")))

    def _shell_call(self, item: lines.ShellCall) -> None:
        action = item.action or lines.ShellAction()
        run = {"command": action.command, "workdir": action.working_directory, "timeout_ms": action.timeout_ms}
        arguments = msgspec.json.encode({key: value for key, value in run.items() if value is not None})
        self._call(item.call_id, "local_shell", msgspec.Raw(arguments))

    def _search_call(self, item: lines.SearchCall) -> None:
        self._call(item.id, "web_search", item.action)
        if item.id and item.status == "completed":
            self.calls.ran(item.id)

    def _image_call(self, item: lines.ImageCall) -> None:
        arguments = msgspec.json.encode({"prompt": item.revised_prompt} if item.revised_prompt else {})
        self._call(item.id, "image_generation", msgspec.Raw(arguments))
        if item.id and item.result:
            self.calls.found(item.id, values.media("image", item.result.encode()))

    def _call(self, call_id: str | None, tool: str, arguments: msgspec.Raw) -> None:
        self.dialogue.reply(self.timestamp).actions.append(self.calls.made(call_id, tool, arguments))
        self.ending = None

    def _output(self, item: lines.Output) -> None:
        error = not item.success if isinstance(item.success, bool) else None
        raw, path = bytes(item.output), f"{self.path}.output"
        if raw[:1] == b"{":
            payload = self.record.under(raw, lines.Payload, path) or lines.Payload()
            text = lines.said_in(payload) or lines.join(payload.content)
            error = not payload.success if isinstance(payload.success, bool) else error
        elif raw[:1] == b"[":
            text = lines.join(self.record.under(raw, list[lines.Part], path))
        else:
            text = "" if raw == b"null" else self.record.under(raw, str, path) or ""
        self.dialogue.close()
        if self.calls.returned(item.call_id, text, error=error).is_bare:
            self.record.lost(f"{path} (time it took)")

    def _search_output(self, item: lines.SearchOutput) -> None:
        self.dialogue.close()
        self.calls.returned(item.call_id, bytes(item.tools).decode("utf-8", "replace"))

    def _sealed(self, item: lines.Sealed) -> None:
        self.dialogue.boundary("compaction")

    # -- events -------------------------------------------------------------------------------------

    def _heard(self, event: lines.Heard) -> None:
        pictures = [values.media("image", name) for name in [*(event.images or ()), *(event.local_images or ())]]
        self.dialogue.confirms(event.message or "\n".join(pictures))

    def _tokens(self, event: lines.TokenCount) -> None:
        if event.info is not None:
            self.dialogue.tokens(event.info)

    def _call_ended(self, event: lines.Ended) -> None:
        if not self.calls.ended(event.call_id, event):
            self.record.lost(self.path)
        else:
            self._note_changes(event.call_id, event)

    def _note_changes(self, call_id: str | None, event: lines.Ended) -> None:
        """What a patch left of its files. One that failed tells only what it was to do."""
        if call_id and event.success is not False and event.status in (None, "completed"):
            noted = codex_files.changes(event.changes)
            if noted and (call_id in self.changes or len(self.changes) < _MOST_CHANGES):
                self.changes[call_id] = codex_files.merged(self.changes.get(call_id), noted)

    def _tool_ended(self, event: lines.ToolEnded) -> None:
        self.calls.failed(event.call_id, _failure_in(event.result))

    def _searched(self, event: lines.Searched) -> None:
        results = bytes(event.results)
        if results != b"null" and event.call_id:
            self.calls.found(event.call_id, results.decode("utf-8", "replace"))

    def _stopped(self, event: lines.Stopped) -> None:
        self.dialogue.close()
        self.calls.abort()
        self.status = event.reason or "aborted"
        self.ending = values.ended(self.status) or "aborted"

    def _completed(self, event: lines.Completed) -> None:
        self.dialogue.close()
        self.status, self.ending = "task_complete", "submitted"
        if event.error is not None:
            self._failed(event.error.codex_error_info, event.error.message)

    def _notice(self, event: lines.Notice) -> None:
        self.dialogue.says("harness", event.message or "")
        if event.type == "error":
            self._failed(event.codex_error_info, event.message)

    def _failed(self, info: Any, message: str | None) -> None:
        name = next(iter(info), None) if isinstance(info, dict) else info
        self.status = name if isinstance(name, str) and name else (message or "error")[:200]
        self.ending = values.ended(self.status) or "error"

    def _rolled_back(self, event: lines.RolledBack) -> None:
        self.dialogue.boundary("rollback")
        self.rolled_back.append(f"{self.dialogue.steps}:{values.whole(event.num_turns) or '?'}")

    def _context_compacted(self, event: lines.Event) -> None:
        self.dialogue.boundary("compaction")

    def _item_completed(self, event: lines.ItemCompleted) -> None:
        kind = _look(bytes(event.item)).type or ""
        path = f"{self.path}.item[type={kind}]"
        if kind in ("CommandExecution", "FileChange"):
            item = self.record.under(event.item, lines.Finished, path)
            if item is not None and not self.calls.ended(item.id, item):
                self.record.lost(path)
            elif item is not None:
                self._note_changes(item.id, item)
        elif kind == "UserMessage":
            said = self.record.under(event.item, lines.Typed, path)
            self.dialogue.confirms(lines.join(said.content) if said is not None else "")
        elif kind == "ContextCompaction":
            self.dialogue.boundary("compaction")
        else:
            self.record.lost(path, reason=REPEATED if kind in _ITEMS_LEFT else None)

    # -- the whole ----------------------------------------------------------------------------------

    def _parent(self) -> str | None:
        session = self.session or lines.Session()
        origin = session.source.subagent if isinstance(session.source, lines.Origin) else None
        spawn = origin.thread_spawn if isinstance(origin, lines.Subagent) else None
        return session.parent_thread_id or (spawn.parent_thread_id if spawn is not None else None)

    def _trajectory(self, format_: str) -> Trajectory:
        talk, session = self.dialogue.talk, self.session or lines.Session()
        steps = talk.steps()
        task = next((message.text for message in talk.preamble if message.role == "user"), "")
        if self.copied and self._parent() is not None:  # a subagent that was given its parent's history with its task
            task = next((message.text for message in steps[self.copied - 1].after if message.role == "user"), task)
        if not steps or not task:
            raise RecordError(
                "No reply of the model is in it." if task else "No human message comes before the first reply.",
                remedy="The session ended before its first reply, or its start is missing: give the whole rollout.",
            )
        preamble = tuple(talk.preamble)
        if self.base:
            if any(self.base in message.text for message in preamble):
                self.record.lost("$[type=session_meta].payload.instructions", reason=REPEATED)
            else:
                preamble = (Message(role="system", text=self.base), *preamble)
        git = session.git or lines.Git()
        ended = "cut_off" if self.ending is None and self.calls.are_open else self.ending
        return Trajectory(
            format=format_,
            task=task,
            repo=_repository(git.repository_url),
            base_commit=values.commit(git.commit_hash),
            agent="codex",
            model=self.dialogue.first_model,
            preamble=preamble,
            steps=steps,
            session=session.id or None,
            parent=self._parent(),
            continues=session.forked_from_id or (session.history_base or lines.Base()).thread_id or None,
            copied_steps=self.copied,
            outcome=Outcome(exit_status=self.status, ended=ended),
            source=self._facts(session, git),
        )

    def _facts(self, session: lines.Session, git: lines.Git) -> str:
        """What has no field of its own."""
        whole = session.source
        origin = whole.subagent or whole.custom or whole.internal if isinstance(whole, lines.Origin) else whole
        base = session.history_base or lines.Base()
        plain = values.facts(
            cli_version=session.cli_version,
            originator=session.originator,
            source=(origin.other or "subagent") if isinstance(origin, lines.Subagent) else origin,
            cwd=session.cwd,
            branch=git.branch,
            model_provider=session.model_provider,
            effort=self.effort,
            nickname=session.agent_nickname,
            role=session.agent_role,
            history_end=values.whole(base.end_ordinal_exclusive),
            rolled_back=" ".join(self.rolled_back),
            repairs=self.record.repairs,
        )
        noted = {call_id: changes for call_id, changes in self.changes.items() if changes}
        return values.with_facts(plain, changes=noted) if noted else plain


_Reader = tuple[Any, Callable[[_Rollout, Any], None]]

_ITEMS: dict[str, _Reader] = {
    "message": (lines.Message, _Rollout._message),
    "agent_message": (lines.AgentMessage, _Rollout._agent_message),
    "reasoning": (lines.Reasoning, _Rollout._reasoning),
    "function_call": (lines.FunctionCall, _Rollout._function_call),
    "tool_search_call": (lines.FunctionCall, _Rollout._function_call),
    "custom_tool_call": (lines.CustomCall, _Rollout._custom_call),
    "local_shell_call": (lines.ShellCall, _Rollout._shell_call),
    "web_search_call": (lines.SearchCall, _Rollout._search_call),
    "image_generation_call": (lines.ImageCall, _Rollout._image_call),
    "function_call_output": (lines.Output, _Rollout._output),
    "custom_tool_call_output": (lines.Output, _Rollout._output),
    "tool_search_output": (lines.SearchOutput, _Rollout._search_output),
    "compaction": (lines.Sealed, _Rollout._sealed),
    "compaction_summary": (lines.Sealed, _Rollout._sealed),
    "context_compaction": (lines.Sealed, _Rollout._sealed),
}
_EVENTS: dict[str, _Reader] = {
    "user_message": (lines.Heard, _Rollout._heard),
    "token_count": (lines.TokenCount, _Rollout._tokens),
    "exec_command_end": (lines.Ended, _Rollout._call_ended),
    "patch_apply_end": (lines.Ended, _Rollout._call_ended),
    "mcp_tool_call_end": (lines.ToolEnded, _Rollout._tool_ended),
    "web_search_end": (lines.Searched, _Rollout._searched),
    "turn_aborted": (lines.Stopped, _Rollout._stopped),
    "task_complete": (lines.Completed, _Rollout._completed),
    "turn_complete": (lines.Completed, _Rollout._completed),
    **dict.fromkeys(("error", "warning", "stream_error", "undo_completed"), (lines.Notice, _Rollout._notice)),
    "thread_rolled_back": (lines.RolledBack, _Rollout._rolled_back),
    "context_compacted": (lines.Event, _Rollout._context_compacted),
    "item_completed": (lines.ItemCompleted, _Rollout._item_completed),
}
"""How each payload is read, by its type."""

_LOOK = msgspec.json.Decoder(lines.Look)


def _look(data: bytes) -> lines.Look:
    try:
        return _LOOK.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return lines.Look()


def _is_context(text: str) -> bool:
    """True for what the client says in the user's name: ``<environment_context>…</environment_context>``."""
    if text.startswith(_AGENTS_MD):
        return True
    tag = _TAG.match(text)
    return tag is not None and tag[1] in _CONTEXT and text.rstrip().endswith(f"</{tag[1]}>")


def _summary_in(history: bytes) -> str:
    """The summary among the messages that replaced the context, where it is no more than sealed."""
    try:
        messages = msgspec.json.decode(history, type=list[lines.Message])
    except (msgspec.DecodeError, RecursionError):
        return ""
    said = [text for message in messages for text in lines.texts(message.content)]
    return next((text for text in reversed(said) if text.startswith(_SUMMARY)), "")


def _failure_in(result: msgspec.Raw) -> bool | None:
    """The error flag of an MCP result: ``{"Ok": {"isError": false, …}}`` or ``{"Err": "…"}``."""
    try:
        found = msgspec.json.decode(result, type=lines.ToolResult)
    except (msgspec.DecodeError, RecursionError):
        return None
    if found.Err is not None:
        return True
    return values.flag(found.Ok.isError) if found.Ok is not None else None


def _repository(url: str | None) -> str | None:
    """``owner/name`` in a repository's address, ``https://host/owner/name.git`` or ``git@host:owner/name.git``."""
    found = _REMOTE.fullmatch(url[:500]) if url else None
    return f"{found[1]}/{found[2]}" if found else None


def _made(id_: Any) -> float | None:
    """Seconds at which an id was made, where the id tells: a UUID of version 7."""
    return int(id_[:8] + id_[9:13], 16) / 1_000 if isinstance(id_, str) and _UUID7.fullmatch(id_) else None


def _is_before(stamp: Any, other: Any) -> bool:
    """False where either is no time."""
    first, second = values.moment(stamp), values.moment(other)
    return first is not None and second is not None and first < second
