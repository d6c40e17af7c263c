"""Chat rows: one run per row, as ``messages`` of role and content.

::

    {"instance_id": "owner__name-17", "resolved": true, "messages": [
      {"role": "system", "content": "…"}, {"role": "user", "content": "Fix …"},
      {"role": "assistant", "content": "Look first.",
       "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": "{…}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "setup.py", "exit_code": 0}]}

Calls are native (``tool_calls``, or Anthropic parts), or text in one of the syntaxes of ``calls.py``; then the
next user turn is the result. Only the fields named in this file are read: evaluation logs, hidden tests and
reference patches that some data sets keep beside the messages never get in. A row's own final ``patch`` goes to
the outcome, unless it touches none of the files that the run worked on: one public set carries patches of
other tasks.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import TEXT_SYNTAXES, Call, Function, arguments_of, native, xml
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.record import first_item
from handoff.identity import canonical_json
from handoff.trajectory import Action, Outcome, Step, Trajectory

_FOREIGN = frozenset(
    (
        *("schema_version", "trajectory_format", "sessionId", "projectHash", "eval", "loglines", "history"),
        *("raw_response", "response", "kwargs"),
    )
)
"""Keys that mark other formats which also have ``messages``."""

_SYSTEM = frozenset(("system", "developer"))
_USER = frozenset(("user", "human"))
_ASSISTANT = frozenset(("assistant", "ai", "model"))
_TOOL = frozenset(("tool", "function", "ipython", "environment", "tool_response"))
_ROLES = _SYSTEM | _USER | _ASSISTANT | _TOOL

_FACTS = ("traj_id", "trajectory_id", "id", "run_id", "agent_version", "dataset", "finish_reason")
"""Fields of a row that are kept as facts of the source when they are short text or a number."""

_PATCHED = re.compile(r"^(?:\+\+\+ b/|--- a/)([^\r\n\t]+)", re.MULTILINE)
_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


class Part(msgspec.Struct, gc=False):
    """One part of a content list, in OpenAI or Anthropic form."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    tool_use_id: str | None = None
    content: str | list[Part] | None = None
    is_error: Any = None


class Turn(msgspec.Struct, gc=False):
    """One message."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    exit_code: Any = None
    is_error: Any = None
    usage: values.UsageRow | None = None
    model: str | None = None
    cost: Any = None
    timestamp: Any = None


class ChatRows:
    """Reads rows (or one bare list) of chat messages."""

    format = "chat"

    def recognises(self, record: Record) -> bool:
        """A list of role and content that no other format claims by its keys."""
        if record.is_array:
            return _is_message(record.first()) and not _is_mini(record)
        if _FOREIGN & record.keys.keys():
            return False
        key = _key(record)
        return key is not None and _is_message(_first(record, key))

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit, or no reply holds a call."""
        key = None if record.is_array else _key(record)
        turns = record.decode(list[Turn]) if key is None else record.decode_under(key, list[Turn])
        where = f"$.{key}" if key else "$"
        talk = Conversation()
        syntax = _read(turns, talk, where)
        steps = talk.steps()
        task = next((m.text for m in talk.preamble if m.role == "user"), "")
        if not steps or not task:
            raise RecordError(
                "No reply of the model is in it."
                if task
                else "No human message comes before the first reply, so the task is missing.",
                field=where,
                remedy="Rows need a user message and at least one assistant message.",
            )
        if syntax is None:
            raise RecordError(
                "No reply holds an action (tool_calls, <function=…>, <tool_call> or a fenced command).",
                field=where,
                remedy="A conversation without actions has nothing to hand off; convert other syntaxes to tool_calls.",
            )
        instance = record.text("instance_id", "task_id")
        return (
            Trajectory(
                format=self.format,
                task_id=values.task_of(instance),
                task=task,
                repo=record.text("repo") or values.repository_of(instance),
                base_commit=values.commit(record.text("base_commit")),
                agent=record.text("agent"),
                model=record.text("model", "model_name"),
                licence=record.text("licence", "license"),
                split=values.split(record.text("split")),
                tools=_tools(record),
                preamble=tuple(talk.preamble),
                steps=steps,
                outcome=Outcome(
                    resolved=record.field("resolved", bool),
                    exit_status=record.text("exit_status"),
                    patch=_own_patch(record, steps),
                ),
                source=canonical_json(_facts(record, syntax, instance)).decode(),
            ),
        )


def _key(record: Record) -> str | None:
    return next((key for key in ("messages", "trajectory") if key in record.keys), None)


def _first(record: Record, key: str) -> dict[str, Any]:
    raw = bytes(record.keys[key])
    if raw[:1] != b'"':
        return record.first(key)
    # The column may hold the list as text.
    return first_item((record.peek(key) or "").encode("utf-8", "replace"))


def _is_message(first: dict[str, Any]) -> bool:
    return (
        isinstance(first.get("role"), str) and first["role"] in _ROLES and ("content" in first or "tool_calls" in first)
    )


def _is_mini(record: Record) -> bool:
    from handoff.adapters.mini_swe_agent import MiniSweAgent  # two formats share the bare list; its marks decide

    return MiniSweAgent().recognises(record)


def _read(turns: list[Turn], talk: Conversation, where: str) -> str | None:
    """Fill ``talk``; the action syntax that was found, ``None`` when there is no action at all."""
    name, reader = _syntax(turns)
    is_text = name not in ("native", "parts")
    has_calls = False
    for number, turn in enumerate(turns):
        role = turn.role
        if role in _ASSISTANT:
            text, thought, actions = _reply(turn, None if not is_text else reader)
            has_calls = has_calls or bool(actions)
            talk.reply(
                text,
                thought=thought,
                actions=actions,
                model=turn.model,
                usage=values.usage(turn.usage) if turn.usage is not None else None,
                cost=values.real(turn.cost) if turn.cost is not None else None,
                timestamp=values.stamp(turn.timestamp) if turn.timestamp is not None else None,
            )
        elif role in _TOOL:
            text = _text(turn.content)
            body, code, error = harness.unwrap(text)
            if turn.exit_code is not None:
                code = harness.known_code(values.whole(turn.exit_code, 31))
            if turn.is_error is not None:
                error = values.flag(turn.is_error)
            talk.result(turn.tool_call_id or None, body, exit_code=code, error=error)
        elif role in _USER:
            _heard(turn, talk, is_text)
        elif role in _SYSTEM:
            talk.message("system", _text(turn.content))
        else:
            raise RecordError(
                f"Unknown role {role[:40]!r}.",
                field=f"{where}[{number}].role",
                remedy=f"Known roles are {', '.join(sorted(_ROLES))}.",
            )
    return name if has_calls else None


def _heard(turn: Turn, talk: Conversation, is_text: bool) -> None:
    """A user turn: a result where calls are text, a human, or the scaffold."""
    if isinstance(turn.content, list):
        rest = []
        for part in turn.content:
            if part.type == "tool_result":
                talk.result(part.tool_use_id, _text(part.content), error=values.flag(part.is_error))
            elif part.text:
                rest.append(part.text)
        text = "\n".join(rest)
        if not text:
            return
    else:
        text = turn.content or ""
    if talk.steps_begun and harness.is_notice(text):
        if is_text:
            talk.refuse()
        talk.message("harness", text)
    elif is_text and talk.awaits_result:
        body, code, error = harness.unwrap(_untag(text))
        talk.result(None, body, exit_code=code, error=error)
    else:
        talk.message("user", text)


def _reply(turn: Turn, reader: Any) -> tuple[str, str, tuple[Action, ...]]:
    thought = turn.reasoning_content or (turn.reasoning if isinstance(turn.reasoning, str) else "")
    content = turn.content
    if isinstance(content, list):
        return _parts(content, thought, turn)
    text = content or ""
    if not thought and text.lstrip().startswith("<think>"):
        found = _THINK.match(text)
        if found:
            thought, text = found[1], text[found.end() :]
    if turn.tool_calls:
        return text, thought, native(turn.tool_calls)
    if turn.function_call is not None and turn.function_call.name:
        return text, thought, native([Call(function=turn.function_call)])
    if reader is None:
        return text, thought, ()
    said, actions = reader(text)
    return said, thought, actions


def _parts(parts: list[Part], thought: str, turn: Turn) -> tuple[str, str, tuple[Action, ...]]:
    said, thoughts, actions = [], [thought] if thought else [], []
    for part in parts:
        if part.type == "tool_use":
            arguments, is_text = arguments_of(part.input)
            actions.append(Action(call_id=part.id, tool=part.name or "", arguments=arguments, is_text=is_text))
        elif part.thinking:
            if part.thinking not in thoughts:
                thoughts.append(part.thinking)
        elif part.text:
            said.append(part.text)
    if turn.tool_calls and not actions:
        return "\n".join(said), "\n".join(thoughts), native(turn.tool_calls)
    return "\n".join(said), "\n".join(thoughts), tuple(actions)


def _syntax(turns: list[Turn]) -> tuple[str, Any]:
    """The syntax of a whole run: native wherever one reply has a native call, else the first text syntax
    whose reader finds a call."""
    replies = [turn for turn in turns if turn.role in _ASSISTANT]
    for turn in replies:
        if turn.tool_calls or (turn.function_call is not None and turn.function_call.name):
            return "native", None
        if isinstance(turn.content, list) and any(part.type == "tool_use" for part in turn.content):
            return "parts", None
    for name, mark, reader in TEXT_SYNTAXES:
        for turn in replies:
            text = _text(turn.content)
            if mark in text and reader(text)[1]:
                return name, reader
    return "none", xml


def _text(content: str | list[Part] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part.text for part in content if part.text)
    return content or ""


def _untag(text: str) -> str:
    """The inside of ``<tool_response>``."""
    inner = text.strip()
    if inner.startswith("<tool_response>") and inner.endswith("</tool_response>"):
        return inner[15:-16].strip("\n")
    return text


def _tools(record: Record) -> str | None:
    raw = record.keys.get("tools")
    if raw is None:
        return None
    data = bytes(raw)
    if data[:1] == b'"':
        data = msgspec.json.decode(data, type=str).encode()
    return data.decode("utf-8", "replace") if data.lstrip()[:1] == b"[" and data.strip() != b"[]" else None


def _own_patch(record: Record, steps: tuple[Step, ...]) -> str | None:
    """The run's final patch, when it fits the run."""
    patch = record.text("patch", "model_patch", "generated_patch")
    if not patch:
        result = record.field("test_result", dict[str, msgspec.Raw]) or {}
        try:
            patch = msgspec.json.decode(result["git_patch"], type=str) if "git_patch" in result else None
        except msgspec.DecodeError:
            patch = None
    if not patch:
        return None
    said = "\n".join([action.arguments for step in steps for action in step.actions])
    for path in _PATCHED.findall(patch):
        folder, _, name = path.rpartition("/")
        if name in said and folder.rpartition("/")[2] in said:
            return patch
    return None


def _facts(record: Record, syntax: str, instance: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"action_syntax": syntax}
    for name in _FACTS:
        value = record.field(name, str | int) if name in record.keys else None  # type: ignore[arg-type]
        if isinstance(value, int) or (isinstance(value, str) and 0 < len(value) <= 500):
            facts[name] = value
    if instance is not None and values.task_of(instance) != instance:
        facts["instance_id"] = instance
    base_ref = record.text("base_commit")
    if base_ref and not values.commit(base_ref):
        facts["base_ref"] = base_ref[:500]
    metadata = _short_facts(record.field("metadata", dict[str, Any]) or {})
    if metadata:
        facts["metadata"] = metadata
    if record.repairs:
        facts["repairs"] = record.repairs
    return facts


def _short_facts(metadata: dict[str, Any]) -> dict[str, Any]:
    """Plain short values only: some sets keep hidden tests and reference patches in their metadata."""
    return {
        key: value
        for key, value in sorted(metadata.items())
        if isinstance(value, bool)
        or values.real(value) is not None
        or (isinstance(value, str) and len(value) <= 500 and value.lstrip()[:1] not in ("[", "{"))
    }
