"""Chat rows: one run per row, as messages of role and content.

::

    {"instance_id": "owner__name-17", "resolved": true, "messages": [
      {"role": "system", "content": "…"}, {"role": "user", "content": "Fix …"},
      {"role": "assistant", "content": "Look first.",
       "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": "{…}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "setup.py", "exit_code": 0}]}

The shapes of such rows are in ``rows.py``. Calls are native (``tool_calls``, or Anthropic parts), or text in one of the
syntaxes of ``calls.py``; then the next user turn is the result. Only the fields named here are read: evaluation logs,
hidden tests and reference patches that some data sets keep beside the messages never get in. A row's own final patch
goes to the outcome, unless it touches none of the files that the run worked on: one public set carries patches of other
tasks.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import TEXT_SYNTAXES, Call, Reading, arguments_of, ending, native
from handoff.adapters.conversation import Conversation
from handoff.adapters.rows import (
    ASSISTANT,
    ROLES,
    SYSTEM,
    TOOL,
    USER,
    Part,
    Turn,
    column,
    is_conversation,
    is_nebius,
    shown_of,
    text_of,
    turns_of,
)
from handoff.adapters.sweagent import tool_of
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import SEALED
from handoff.identity import canonical_json
from handoff.trajectory import Action, Ending, Outcome, Step, Trajectory

_FACTS = (
    *("traj_id", "trajectory_id", "id", "run_id", "agent_version", "dataset", "finish_reason"),
    *("trial_name", "episode", "date", "model_provider", "context_window"),
)
"""Fields of a row that are kept as facts of the source when they are short text or a number."""

_SEALED = (
    *("eval_logs", "test_patch", "gold_patch", "hints_text", "verifier_output"),
    *("FAIL_TO_PASS", "PASS_TO_PASS", "fail_to_pass", "pass_to_pass"),
)
_REFERENCES = frozenset(("test_patch", "FAIL_TO_PASS", "model_patch", "generated_patch"))
"""Beside these, ``patch`` is the task's own solution."""
_OTHERS_PATCH = "the patch of another task"

_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


class ChatRows:
    """Reads rows (or one bare list) of chat messages."""

    format = "chat"

    def recognises(self, record: Record) -> bool:
        """A list of turns that no other format claims by its keys."""
        return is_conversation(record) and not _is_other(record)

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit, or no reply holds a call."""
        key = column(record)
        where = f"$.{key}" if key else "$"
        talk = _Talk(turns_of(record), where)
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
        if not any(step.actions for step in steps):
            raise RecordError(
                "No reply holds an action (tool_calls, <function=…>, <tool_call>, keystrokes or a fenced command).",
                field=where,
                remedy="A conversation without actions has nothing to hand off; convert other syntaxes to tool_calls.",
            )
        record.leave(*_SEALED, reason=SEALED)
        instance = record.text("instance_id", "task_id", *(("task",) if "trial_name" in record.keys else ()))
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
                tools=values.tool_definitions(record.raw("tools") or record.raw("tool_definitions")),
                preamble=tuple(talk.preamble),
                steps=steps,
                outcome=_outcome(record, steps),
                source=canonical_json(_facts(record, talk, instance)).decode(),
            ),
        )


def _is_other(record: Record) -> bool:
    """True for what has messages as well, and marks of its own."""
    from handoff.adapters.cline import Cline  # they know their marks
    from handoff.adapters.cline_classic import ClineClassic
    from handoff.adapters.inspect_log import Inspect
    from handoff.adapters.mini_swe_agent import MiniSweAgent

    others = (MiniSweAgent(), ClineClassic()) if record.is_array else (Cline(), Inspect())
    return any(other.recognises(record) for other in others)


class _Talk(Conversation):
    """The turns of a row as a conversation."""

    def __init__(self, turns: list[Turn], where: str) -> None:
        super().__init__()
        self.states = harness.States()
        self.syntax, self._reader = _syntax(turns)
        self._is_text = self.syntax not in ("native", "parts")
        self._replies = 0
        for number, turn in enumerate(turns):
            role = turn.role
            if role in ASSISTANT:
                self._reply(turn)
            elif role in TOOL:
                self._came_back(turn)
            elif role in USER:
                self._heard(turn)
            elif role in SYSTEM:
                self.message("system", text_of(turn.content))
            else:
                raise RecordError(
                    f"Unknown role {role[:40]!r}.",
                    field=f"{where}[{number}].role",
                    remedy=f"Known roles are {', '.join(sorted(ROLES))}.",
                )

    def _reply(self, turn: Turn) -> None:
        self._replies += 1
        text, thought, actions = _reply(turn, self._reader if self._is_text else None)
        if self.states.found and self.syntax == "fenced":
            actions = tuple([msgspec.structs.replace(a, tool=tool_of(a.arguments) or a.tool) for a in actions])
        self.reply(
            text,
            thought=thought,
            actions=actions,
            model=turn.model,
            usage=values.usage(turn.usage) if turn.usage is not None else None,
            cost=values.real(turn.cost) if turn.cost is not None else None,
            timestamp=values.stamp(turn.timestamp) if turn.timestamp is not None else None,
        )

    def _came_back(self, turn: Turn) -> None:
        """A turn of a tool."""
        text = text_of(turn.content)
        if self.steps_begun and harness.is_review(text):
            self._refused(text)
            return
        body, code, error = harness.unwrap(text)
        if turn.exit_code is not None:
            code = harness.known_code(values.whole(turn.exit_code, 31))
        if turn.is_error is not None:
            error = values.flag(turn.is_error)
        self.result(turn.tool_call_id or None, body, exit_code=code, error=error)

    def _heard(self, turn: Turn) -> None:
        """A user turn: a result where calls are text, a human, or the scaffold."""
        text = turn.content or ""
        if isinstance(text, list):
            text = self._parts(text)
            if not text:
                return
        if not self.steps_begun:
            self.states.note(0, text)
            self.message("context_summary" if self.preamble and harness.is_summary(text) else "user", text)
        elif harness.is_notice(text) or harness.is_review(text):
            self._refused(text)
        elif harness.is_summary(text):
            self.message("context_summary", text)
        elif self._is_text and self.awaits_result:
            self._answered(text)
        else:
            # Terminus shows its screen after a reply that typed nothing, too.
            self.message("harness" if self.syntax.startswith("terminus") else "user", text)

    def _parts(self, parts: list[Part]) -> str:
        """What a user turn says beside the results in it."""
        rest = []
        for part in parts:
            if part.type == "tool_result":
                self.result(part.tool_use_id, text_of(part.content), error=values.flag(part.is_error))
            elif shown := shown_of(part):
                rest.append(shown)
        return "\n".join(rest)

    def _refused(self, text: str) -> None:
        if self._is_text or harness.is_review(text):
            self.refuse()
        self.message("harness", text.removeprefix("OBSERVATION:\n"))

    def _answered(self, text: str) -> None:
        tagged = _tagged(text)
        for answer in tagged:
            self.result(None, answer)
        if tagged:
            return
        body, code, error = harness.unwrap(self.states.note(self._replies, text))
        if self.syntax.startswith("terminus"):
            self.screen(body, exit_code=code, error=error)
        else:
            self.result(None, body, exit_code=code, error=error)


def _reply(turn: Turn, reader: Any) -> tuple[str, str, tuple[Action, ...]]:
    thought = turn.reasoning_content or (turn.reasoning if isinstance(turn.reasoning, str) else "")
    content = turn.content
    if isinstance(content, list):
        said, thought, actions = _parts(content, thought, turn)
        if actions or reader is None:
            return said, thought, actions
        reading: Reading = reader(said)
        return reading[0], thought, reading[1]
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
        elif shown := shown_of(part):
            said.append(shown)
    if turn.tool_calls and not actions:
        return "\n".join(said), "\n".join(thoughts), native(turn.tool_calls)
    return "\n".join(said), "\n".join(thoughts), tuple(actions)


def _syntax(turns: list[Turn]) -> tuple[str, Any]:
    """The syntax of a whole run: native wherever one reply has a native call, else the first text syntax
    whose reader finds a call."""
    replies = [turn for turn in turns if turn.role in ASSISTANT]
    for turn in replies:
        if turn.tool_calls or (turn.function_call is not None and turn.function_call.name):
            return "native", None
        if isinstance(turn.content, list) and any(part.type == "tool_use" for part in turn.content):
            return "parts", None
    texts = [text_of(turn.content) for turn in replies]
    for name, mark, reader in TEXT_SYNTAXES:
        for text in texts:
            if mark in text and reader(text)[1]:
                return name, reader
    return "none", None


def _tagged(text: str) -> list[str]:
    """The insides of ``<tool_response>`` blocks; empty when the text is something else."""
    found = []
    at = len(text) - len(text.lstrip())
    while text.startswith("<tool_response>", at):
        closed = text.find("</tool_response>", at)
        if closed < 0:
            return []
        found.append(text[at + 15 : closed].strip("\n"))
        at = closed + 16
        at += len(text[at : at + 8]) - len(text[at : at + 8].lstrip())
    return found


def _outcome(record: Record, steps: tuple[Step, ...]) -> Outcome:
    status = record.text("exit_status")
    resolved = values.claim(_scalar(record, "resolved"))
    if resolved is None and is_nebius(record):
        resolved = values.claim(_scalar(record, "target"))
    ended: Ending | None = values.ended(status)
    if "trial_name" in record.keys:
        # Harbor writes the verifier's reward, or the name of what stopped the trial.
        result = record.text("result")
        reward = {"1.0": True, "0.0": False}.get(result or "")
        resolved = reward if resolved is None else resolved
        status = status or (result if reward is None else None)
        ended = ended or values.ended(status)
    return Outcome(resolved=resolved, exit_status=status, ended=ended or ending(steps), patch=_own_patch(record, steps))


def _scalar(record: Record, name: str) -> Any:
    return record.field(name, bool | int | float | str) if name in record.keys else None  # type: ignore[arg-type]


def _own_patch(record: Record, steps: tuple[Step, ...]) -> str | None:
    """The run's final patch, when it fits the run."""
    names = ("model_patch", "generated_patch", *(() if _REFERENCES & record.keys.keys() else ("patch",)))
    if "patch" not in names:
        record.leave("patch", reason=SEALED)
    patch = record.text(*names)
    tested = values.tested(record, record.raw("test_result"), "$.test_result")
    patch = patch or tested.git_patch
    if not patch or values.is_patch_of(patch, steps):
        return patch or None
    record.lost("$.patch", reason=_OTHERS_PATCH)
    return None


def _facts(record: Record, talk: _Talk, instance: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"action_syntax": talk.syntax}
    for name in _FACTS:
        value = _scalar(record, name)
        if value is not None and not isinstance(value, bool) and value != "" and len(str(value)) <= 500:
            facts[name] = value
    if instance is not None and values.task_of(instance) != instance:
        facts["instance_id"] = instance
    base_ref = record.text("base_commit")
    if base_ref and not values.commit(base_ref):
        facts["base_ref"] = base_ref[:500]
    metadata = _short_facts(record)
    if metadata:
        facts["metadata"] = metadata
    if talk.states.found:
        facts["cwd"], facts["states"] = talk.states.first_folder, talk.states.found
    if record.repairs:
        facts["repairs"] = record.repairs
    return facts


def _short_facts(record: Record) -> dict[str, Any]:
    """Plain short values only: some sets keep hidden tests and reference patches in their metadata."""
    facts = {}
    for key, value in sorted((record.field("metadata", dict[str, Any]) or {}).items()):
        if (
            isinstance(value, bool)
            or values.real(value) is not None
            or (isinstance(value, str) and len(value) <= 500 and value.lstrip()[:1] not in ("[", "{"))
        ):
            facts[key] = value
        elif value not in (None, "", [], {}):
            record.lost(f"$.metadata.{key}", reason=SEALED if key in _SEALED else None)
    return facts
