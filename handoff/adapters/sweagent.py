"""SWE-agent ``.traj`` files, 0.x and 1.x, and demonstrations that hold only ``history``.

::

    {"trajectory": [{"action": "ls -F", "observation": "setup.py", "response": "…", "thought": "…",
                     "state": {"working_dir": "/testbed"}, "messages": [… all earlier turns again …]}],
     "history": [{"role": "assistant", "content": "…", "tool_calls": [{"id": "call_1", "function": {…}}]}],
     "info": {"exit_status": "submitted", "submission": "diff --git …"}, "replay_config": {…}}

Steps, observations and states come from ``trajectory``; exact arguments and call ids from ``history``, whose
assistant items are aligned with it. ``messages`` and ``query`` repeat the whole conversation at every step
and are two thirds of a large file: they stay unparsed, unless the history is lost.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import Call, ending, native
from handoff.adapters.conversation import Conversation
from handoff.adapters.rows import Part, text_of
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, UPKEEP, Repeated, Upkeep
from handoff.identity import canonical_json
from handoff.trajectory import Action, Message, Observation, Outcome, Step, Trajectory

_NULL = msgspec.Raw(b"null")

TOOLS = frozenset(
    (
        *(
            "open",
            "goto",
            "scroll_up",
            "scroll_down",
            "edit",
            "create",
            "insert",
            "append",
            "search_file",
            "search_dir",
        ),
        *("find_file", "submit", "view", "filemap", "str_replace_editor", "str_replace", "undo_edit", "replace"),
    )
)
"""First words that are tools of the agent; every other first word is a shell command."""


def tool_of(line: str) -> str | None:
    """The agent's tool that a command line calls; ``None`` when it is a shell command."""
    word = line.split(None, 1)[0] if line.strip() else ""
    return word if word in TOOLS else None


_NO_REPLY = ("exit_context", "exit_cost", "exit_error", "exit_api", "exit_environment_error", "exit_format", "skip")
"""Actions that the scaffold wrote itself when the model could not go on."""


class Item(msgspec.Struct, gc=False):
    """One entry of ``trajectory``."""

    action: str | None = None
    observation: str | None = None
    response: str | None = None
    thought: str | None = None
    state: msgspec.Raw = _NULL
    execution_time: Any = None
    messages: Repeated = NOTHING
    query: Repeated = NOTHING
    extra_info: Upkeep = NOTHING


class State(msgspec.Struct, gc=False):
    """``state``: an object, or its text."""

    working_dir: Any = None
    open_file: Any = None


class Thinking(msgspec.Struct, gc=False):
    """One block of ``thinking_blocks``."""

    thinking: str | None = None
    type: Upkeep = NOTHING
    signature: Upkeep = NOTHING


class Turn(msgspec.Struct, gc=False):
    """One entry of ``history``; contents stay unparsed until wanted."""

    role: str = ""
    content: msgspec.Raw = _NULL
    is_demo: bool | None = None
    action: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_ids: list[str] | None = None
    thinking_blocks: list[Thinking] | None = None
    thought: Repeated = NOTHING
    agent: Upkeep = NOTHING
    message_type: Upkeep = NOTHING
    cache_control: Upkeep = NOTHING


class Info(msgspec.Struct, gc=False):
    """``info``."""

    exit_status: str | None = None
    submission: str | None = None
    swe_agent_version: str | None = None
    model_stats: dict[str, Any] | None = None
    edited_files30: Repeated = NOTHING
    edited_files50: Repeated = NOTHING
    edited_files70: Repeated = NOTHING
    swe_agent_hash: Upkeep = NOTHING
    swe_rex_version: Upkeep = NOTHING
    swe_rex_hash: Upkeep = NOTHING


class Run(msgspec.Struct, gc=False):
    """A whole file."""

    trajectory: list[Item] | None = None
    history: list[Turn] | None = None
    info: Info | None = None
    replay_config: msgspec.Raw = _NULL
    environment: Upkeep = NOTHING


class SweAgent:
    """Reads ``.traj`` objects."""

    format = "sweagent"

    def recognises(self, record: Record) -> bool:
        """``trajectory`` of items with action, observation and response; or a bare ``history`` with message types."""
        if "trajectory" in record.keys:
            first = record.first("trajectory")
            if not first:  # died before its first step: still this format, and refused with the right words
                return {"history", "info"} <= record.keys.keys()
            return {"action", "observation", "response"} <= first.keys()
        return "history" in record.keys and "message_type" in record.first("history")

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit or there is no reply."""
        run = record.decode(Run)
        history = run.history or []
        info = run.info or Info()
        config = _config(run.replay_config)
        items = run.trajectory or []
        preamble = _preamble(history, record) or _repeated_preamble(items, record)
        states = harness.States()
        steps = _steps(items, history, states, record) if items else _demonstration(history, record)
        if not steps:
            raise RecordError(
                "No reply of the model is in it.",
                field="$.trajectory",
                remedy="The run ended before its first step; leave the file out.",
            )
        task = next((m.text for m in reversed(preamble) if m.role == "user"), None) or _text(
            config, "problem_statement", "text"
        )
        if not task:
            raise RecordError(
                "The task is missing.", field="$.history", remedy="Keep `history` (or `query`) when exporting the run."
            )
        task_id = _text(config, "problem_statement", "id") or _task_in_name(record.file)
        base_ref = _text(config, "env", "repo", "base_commit")
        submission = info.submission or ""
        if config:
            record.lost("$.replay_config", reason=UPKEEP)  # all but what is read here
        timed = sum(item.execution_time is not None for item in items)
        if timed:
            record.lost("$.trajectory[].execution_time", timed)
        facts: dict[str, Any] = {
            "version": info.swe_agent_version or ("1.x" if timed or not items else "0.x"),
            "base_ref": base_ref if base_ref and not values.commit(base_ref) else None,
            "image": _text(config, "env", "deployment", "image"),
            "model_stats": _totals(info.model_stats),
            "states": states.found or None,
            "repairs": record.repairs or None,
        }
        model = _text(config, "agent", "model", "name")
        return (
            Trajectory(
                format=self.format,
                task_id=values.task_of(task_id),
                task=task,
                repo=_repository(config, task_id, states.first_folder),
                base_commit=values.commit(base_ref),
                agent="SWE-agent",
                model=model if model not in ("replay", "human", "human_thought") else None,
                preamble=tuple(preamble),
                steps=steps,
                outcome=Outcome(
                    exit_status=info.exit_status,
                    ended=values.ended(info.exit_status) if info.exit_status else ending(steps),
                    patch=submission if "diff --git" in submission else None,
                ),
                source=canonical_json({k: v for k, v in facts.items() if v is not None}).decode(),
            ),
        )


def _steps(items: list[Item], history: list[Turn], states: harness.States, record: Record) -> tuple[Step, ...]:
    replies = [turn for turn in history if turn.role == "assistant" and not turn.is_demo]
    position = 0
    steps = []
    for number, item in enumerate(items, 1):
        turn = None
        for ahead in range(position, min(position + 8, len(replies))):
            if replies[ahead].action is None or replies[ahead].action == item.action:
                turn, position = replies[ahead], ahead + 1
                break
        steps.append(_step(item, turn))
        # 0.x records the state before the action (as JSON text), 1.x after it.
        state = _state(item.state, record)
        if state is not None:
            before = bytes(item.state)[:1] == b'"'
            states.add(number - before, _path(state.working_dir), _path(state.open_file))
    return tuple(steps)


def _step(item: Item, turn: Turn | None) -> Step:
    thought = (
        "\n".join(block.thinking or "" for block in turn.thinking_blocks)
        if turn is not None and turn.thinking_blocks
        else ""
    )
    action = item.action or ""
    word = action.split(None, 1)[0] if action.strip() else ""
    seen = item.observation
    if not word or word in _NO_REPLY:
        # A reply that could not be parsed, or none at all: what came back is the scaffold speaking.
        return Step(
            text=item.response or item.thought or "",
            thought=thought,
            after=(Message(role="harness", text=seen),) if seen else (),
        )
    calls = native(turn.tool_calls) if turn is not None and turn.tool_calls else ()
    if not calls:
        calls = (_typed(action),)
    refused = seen is not None and harness.is_review(seen)
    first = Observation(
        call_id=calls[0].call_id,
        text="" if refused else seen or "",
        missing="not_executed" if refused else "none" if seen is None else None,
    )
    rest = tuple([Observation(call_id=call.call_id, missing="not_executed") for call in calls[1:]])
    return Step(
        text=item.thought if item.thought is not None else item.response or "",
        thought=thought,
        actions=calls,
        observations=(first, *rest),
        after=(Message(role="harness", text=seen or ""),) if refused else (),
    )


def _typed(line: str) -> Action:
    return Action(tool=tool_of(line) or "bash", arguments=line, is_text=True)


def _demonstration(history: list[Turn], record: Record) -> tuple[Step, ...]:
    talk = Conversation()
    for turn in history:
        if turn.is_demo:
            continue
        text = _content(turn.content, record)
        if turn.role == "assistant":
            calls = native(turn.tool_calls) if turn.tool_calls else ()
            if not calls and turn.action and turn.action.strip():
                calls = (_typed(turn.action),)
            talk.reply(text, actions=calls)
        elif turn.role == "tool":
            talk.result(turn.tool_call_ids[0] if turn.tool_call_ids else None, harness.unwrap(text)[0])
        elif talk.awaits_result:
            talk.result(None, text)
        elif turn.role in ("user", "system"):
            talk.message("harness" if turn.role == "user" else "system", text)
    return talk.steps()


def _preamble(turns: list[Turn], record: Record) -> list[Message]:
    found: list[Message] = []
    for turn in turns:
        if turn.role == "assistant" and not turn.is_demo:
            break
        # A worked example of another task is the scaffold's, not a human's.
        role: Any = "harness" if turn.is_demo else turn.role if turn.role in ("system", "user") else "harness"
        found.append(Message(role=role, text=_content(turn.content, record)))
    return found


def _repeated_preamble(items: list[Item], record: Record) -> list[Message]:
    """How the conversation began, from what the first step repeats of it; for a file that lost its ``history``."""
    for item in items[:1]:
        for raw, name in ((item.query, "query"), (item.messages, "messages")):
            turns = record.under(raw, list[Turn], f"$.trajectory[].{name}") if bytes(raw)[:1] == b"[" else None
            if turns:
                return _preamble(turns, record)
    return []


def _content(raw: msgspec.Raw, record: Record) -> str:
    data = bytes(raw)
    if data[:1] == b'"':
        return values.quoted(data)
    parts = record.under(data, list[Part], "$.history[].content") if data[:1] == b"[" else None
    if parts is None and data != b"null":
        raise RecordError("No text and no list of parts.", field="$.history[…].content", remedy="Export the run again.")
    return text_of(parts)


def _config(raw: msgspec.Raw) -> dict[str, Any]:
    """``replay_config``: an object, or its text."""
    value: Any = bytes(raw)
    for _ in range(3):
        if not isinstance(value, bytes | str):
            break
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _text(config: Any, *path: str) -> str | None:
    for key in path:
        config = config.get(key) if isinstance(config, dict) else None
    return config if isinstance(config, str) and config else None


def _state(raw: msgspec.Raw, record: Record) -> State | None:
    data = values.unquoted(raw)
    return record.under(data, State, "$.trajectory[].state") if data[:1] == b"{" else None


def _path(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _repository(config: dict[str, Any], task_id: str | None, folder: str | None) -> str | None:
    url = _text(config, "env", "repo", "github_url") or ""
    parts = url.removesuffix("/").removesuffix(".git").split("/")
    if "github.com" in url and len(parts) >= 2:
        return f"{parts[-2]}/{parts[-1]}"
    named = values.repository_of(task_id)
    if named or not folder:
        return named
    # The scaffold checks a repository out as /owner__name.
    owner, _, name = folder.removeprefix("/").split("/")[0].partition("__")
    return f"{owner}/{name}" if owner and name and not config else None


def _task_in_name(file: str) -> str | None:
    """0.x keeps the instance id only in the file's name."""
    stem = file.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".traj")
    return stem if values.repository_of(stem) else None


def _totals(stats: dict[str, Any] | None) -> dict[str, float] | None:
    """Cost and token totals; a replay writes zeros, which mean unknown."""
    found = {key: number for key, value in sorted((stats or {}).items()) if (number := values.real(value)) is not None}
    return found if found.get("tokens_sent") or found.get("instance_cost") else None
