"""Tasks of the Cline extension before its SDK: ``api_conversation_history.json``, a bare list of messages.

::

    [{"role": "user", "content": [{"type": "text", "text": "<task>\\nFix it.\\n</task>"},
      {"type": "text", "text": "<environment_details>\\n# Current Mode\\nACT MODE\\n</environment_details>"}]},
     {"role": "assistant", "content": [{"type": "text", "text": "<read_file>\\n<path>core.py</path>\\n</read_file>"}]},
     {"role": "user", "content": [{"type": "text", "text": "[read_file for 'core.py'] Result:\\ndef pages(): …"}]}]

Calls are tags in the text, or ``tool_use`` parts in later versions. Results are text under a label either way, in the
order of the calls, and the client speaks in the same user turns. What lies beside the file adds the client's version.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import Reading, arguments_of
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, Repeated, Unhoused, Upkeep
from handoff.trajectory import Action, Outcome, Trajectory, Usage

_TOOL = re.compile(
    "<(access_mcp_resource|ask_followup_question|attempt_completion|browser_action|condense|execute_command"
    "|list_code_definition_names|list_files|load_mcp_documentation|new_rule|new_task|plan_mode_respond|read_file"
    "|replace_in_file|report_bug|search_files|summarize_task|use_mcp_tool|web_fetch|write_to_file)>"
)
_PARAMETER = re.compile(r"<([a-z_]{1,40})>")
_LONG = ("content", "diff", "arguments")
"""Parameters whose value may hold tags of its own name: the last end tag counts."""
_LABEL_LIMIT = 20_000
_NOTICES = (
    "<environment_details>",
    "# task_progress",
    "# TODO LIST",
    "# Todo List",
    "[ERROR]",
    "[NOTE]",
    "<explicit_instructions",
    "<hook_context",
)
_SUMMARY = "This session is being continued from a previous conversation that ran out of context"
_RESUMED = "[TASK RESUMPTION]"
_DENIED = "The user denied this operation"
_FAILED = "The tool execution failed with the following error:"
_CODE = re.compile(r"[Ee]xit code:? (-?\d{1,10})\b")
_COMMIT = re.compile(r'"latestGitCommitHash": "([0-9a-f]{40})"')
_ORIGIN = re.compile(r'"origin: ([^"\s]{1,300})"')
_FOLDER = re.compile(r"# Current Working Directory \(([^\n]{1,300})\) Files")
_FACTS_LIMIT = 200_000


class Part(msgspec.Struct, gc=False):
    """One part of a content list."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: "str | list[Part] | None" = None  # noqa: UP037 (the struct holds itself)
    is_error: Any = None
    source: Any = None
    signature: Upkeep = NOTHING
    call_id: Repeated = NOTHING
    summary: Unhoused = NOTHING
    reasoning: Unhoused = msgspec.field(default=NOTHING, name="reasoning_details")


class Model(msgspec.Struct, gc=False):
    """Who replied."""

    id: str | None = msgspec.field(default=None, name="modelId")
    provider: Upkeep = msgspec.field(default=NOTHING, name="providerId")
    mode: Any = None


class Tokens(msgspec.Struct, gc=False):
    """``cached`` is what was read from the cache and what was written to it, none of it in ``prompt``."""

    prompt: Any = None
    completion: Any = None
    cached: Any = None


class Metrics(msgspec.Struct, gc=False):
    """Tokens and dollars of a reply."""

    tokens: Tokens | None = None
    cost: Any = None


class Turn(msgspec.Struct, gc=False):
    """One message."""

    role: str
    content: str | list[Part] | None = None
    ts: Any = None
    model: Model | None = msgspec.field(default=None, name="modelInfo")
    metrics: Metrics | None = None


class Client(msgspec.Struct, gc=False):
    """The client as ``task_metadata.json`` names it."""

    cline_version: str | None = None


class Metadata(msgspec.Struct, gc=False):
    """``task_metadata.json``."""

    environment_history: list[Client] = []


class ClineClassic:
    """Reads tasks of the Cline extension."""

    format = "cline_classic"

    def recognises(self, record: Record) -> bool:
        """By the task's tag in the first message, and the client's notes on the environment."""
        if not record.is_array:
            return False
        first = record.first()
        parts = first.get("content")
        if first.get("role") != "user" or not isinstance(parts, list):
            return False
        texts = [part.get("text") for part in parts if isinstance(part, dict)]
        return any(isinstance(text, str) and text.startswith(("<task>", _RESUMED)) for text in texts) and (
            b"<environment_details>" in record.data
        )

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The task, alone; ``RecordError`` when a field does not fit or there is no reply."""
        task = _Task()
        for turn in record.decode(list[Turn]):
            if turn.role == "assistant":
                task.reply(turn)
            elif turn.role == "user":
                task.heard(turn)
            else:
                record.lost(f"$[role={turn.role}]")
        talk = task.talk
        steps = talk.steps()
        asked = next((m.text for m in talk.preamble if m.role == "user"), "")
        if not steps or not asked:
            raise RecordError(
                "No reply of the model is in it." if asked else "No human message comes before the first reply.",
                remedy="The task ended before anything happened; leave the file out.",
            )
        known = "\n".join(m.text[:_FACTS_LIMIT] for m in talk.preamble if m.role == "harness")
        commits, folder = set(_COMMIT.findall(known)), _FOLDER.search(known)
        origins = {repo for address in _ORIGIN.findall(known) if (repo := _repository(address))}
        is_done = any(action.tool == "attempt_completion" for action in steps[-1].actions)
        return (
            Trajectory(
                format=self.format,
                task=asked,
                repo=origins.pop() if len(origins) == 1 else None,
                base_commit=commits.pop() if len(commits) == 1 else None,
                agent="cline",
                model=next((step.model for step in steps if step.model), None),
                preamble=tuple(talk.preamble),
                steps=steps,
                outcome=Outcome(ended="submitted" if is_done else "cut_off" if talk.awaits_result else None),
                source=values.facts(
                    cwd=folder[1] if folder else None, version=_version(record), mode=task.mode, repairs=record.repairs
                ),
            ),
        )


class _Task:
    """A task while its messages are read."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self.open: deque[str] = deque()
        """Tools of the calls that wait for a result, in order."""
        self.model: str | None = None
        self.mode: str | None = None

    def reply(self, turn: Turn) -> None:
        """The agent spoke."""
        parts = turn.content if isinstance(turn.content, list) else [Part(text=turn.content)]
        said = "\n".join(part.text for part in parts if part.text)
        thought = "\n".join(part.thinking for part in parts if part.thinking)
        actions = tuple([_call(part) for part in parts if part.type == "tool_use"])
        if not actions:
            said, actions = _tagged(said)
        if not thought and said.startswith("<thinking>"):
            thought, _, said = said.removeprefix("<thinking>").partition("</thinking>")
            thought, said = thought.strip("\n"), said.lstrip("\n")
        name = turn.model.id if turn.model is not None else None
        if turn.model is not None and isinstance(turn.model.mode, str):
            self.mode = self.mode or turn.model.mode
        if name and self.model and name != self.model:
            self.talk.boundary("agent_switch")
        self.model = name or self.model
        metrics = turn.metrics or Metrics()
        self.talk.reply(
            said,
            thought=thought,
            actions=actions,
            model=name,
            usage=_usage(metrics.tokens),
            cost=values.real(metrics.cost) or None,
            timestamp=values.stamp(turn.ts),
        )
        self.open = deque(action.tool for action in actions)

    def heard(self, turn: Turn) -> None:
        """Results under their labels, the human, and the client, in one message."""
        body: str | None = None
        for part in turn.content if isinstance(turn.content, list) else [Part(text=turn.content)]:
            if part.type == "tool_result":
                text = part.content if isinstance(part.content, str) else "\n".join(map(_shown, part.content or ()))
                self._result(part.tool_use_id, _unlabelled(text) or text, values.flag(part.is_error))
                continue
            text = _shown(part)
            labelled = _unlabelled(text) if self.open else None
            if body == "" and labelled is None and not text.lstrip().startswith(_NOTICES):
                # Early versions put label and result into two parts.
                self._result(None, text, None)
                body = None
                continue
            if body is not None:
                self._result(None, body, None)
            body = labelled
            if labelled is None and text:
                self._said(text)
        if body is not None:
            self._result(None, body, None)

    def _said(self, text: str) -> None:
        bare = text.lstrip()
        if bare.startswith(_SUMMARY):
            self.talk.boundary("compaction")
            self.talk.message("context_summary", text)
        elif bare.startswith(_RESUMED):
            self.talk.boundary("resume")
            self.talk.message("user" if "<user_message>" in text else "harness", text)
        else:
            self.talk.message("harness" if bare.startswith(_NOTICES) else "user", text)

    def _result(self, call_id: str | None, text: str, error: bool | None) -> None:
        tool = self.open.popleft() if self.open else ""
        if text.startswith(_DENIED):
            self.talk.result(call_id, "", missing="not_executed")
            self.talk.message("user" if "<feedback>" in text else "harness", text)
            return
        code = _CODE.search(text[:300]) if tool == "execute_command" else None
        self.talk.result(
            call_id,
            text,
            exit_code=harness.known_code(int(code[1])) if code else None,
            error=True if text.startswith(_FAILED) else error,
        )


def _repository(address: str) -> str | None:
    """``owner/name`` at the end of ``https://host/owner/name.git`` or ``git@host:owner/name``."""
    parts = address.removesuffix("/").removesuffix(".git").replace(":", "/").rsplit("/", 2)
    return f"{parts[1]}/{parts[2]}" if len(parts) == 3 and parts[1] and parts[2] else None


def _call(part: Part) -> Action:
    arguments, is_text = arguments_of(part.input)
    return Action(call_id=part.id or None, tool=part.name or "", arguments=arguments, is_text=is_text)


def _tagged(content: str) -> Reading:
    """Calls written as tags: ``<tool><name>value</name></tool>``; a missing end tag ends with the text."""
    said, actions, end = [], [], 0
    while (opened := _TOOL.search(content, end)) is not None:
        said.append(content[end : opened.start()])
        closed = content.find(f"</{opened[1]}>", opened.end())
        inside = content[opened.end() : closed if closed >= 0 else len(content)]
        end = closed + len(opened[1]) + 3 if closed >= 0 else len(content)
        actions.append(Action(tool=opened[1], arguments=msgspec.json.encode(_parameters(inside)).decode()))
    said.append(content[end:])
    return "".join(said).strip() if actions else content, tuple(actions)


def _parameters(inside: str) -> dict[str, str]:
    found, end = {}, 0
    while (opened := _PARAMETER.search(inside, end)) is not None:
        name, close = opened[1], f"</{opened[1]}>"
        closed = inside.rfind(close, opened.end()) if name in _LONG else inside.find(close, opened.end())
        value = inside[opened.end() : closed if closed >= 0 else len(inside)]
        end = closed + len(close) if closed >= 0 else len(inside)
        found[name] = value.removeprefix("\n").removesuffix("\n")
    return found


def _unlabelled(text: str) -> str | None:
    """What stands under the label ``[tool for '…'] Result:``; ``None`` without one."""
    end = text.find("] Result:", 0, _LABEL_LIMIT) if text.startswith("[") else -1
    return text[end + 9 :].removeprefix("\n") if end > 0 else None


def _shown(part: Part) -> str:
    if part.type == "image":
        source = part.source if isinstance(part.source, dict) else {}
        data, mime = source.get("data"), source.get("media_type")
        return values.media(
            "image", data.encode() if isinstance(data, str) else None, mime if isinstance(mime, str) else None
        )
    return part.text or ""


def _usage(tokens: Tokens | None) -> Usage | None:
    if tokens is None:
        return None
    prompt, completion = values.whole(tokens.prompt), values.whole(tokens.completion)
    cached = values.whole(tokens.cached) or 0
    if not (prompt or cached or completion):
        return None
    return Usage(prompt=None if prompt is None else prompt + cached, completion=completion)


def _version(record: Record) -> str | None:
    data = record.beside("task_metadata.json")
    try:
        history = msgspec.json.decode(data, type=Metadata).environment_history if data is not None else []
    except (msgspec.DecodeError, RecursionError):
        return None
    return next((client.cline_version for client in history if client.cline_version), None)
