"""Standardized rows of the Agent Data Protocol (ADP).

::

    {"id": "owner__name-17_0", "details": {"resolved": "True", …}, "content": [
      {"class_": "text_observation", "source": "user", "content": "Fix …"},
      {"class_": "api_action", "function": "str_replace_editor", "kwargs": {"command": "view", …}, "description": "…"},
      {"class_": "text_observation", "source": "environment", "content": "setup.py"},
      {"class_": "code_action", "language": "bash", "content": "pytest -q", "description": "…"}]}

Each item is one call or one text: replies with several calls were taken apart when the set was made, and results
follow their calls. Some sets label tool output as the user's, so a text after an open call is its result whoever its
source is, unless it is a scaffold's prompt. Values that a converter put into quotes lose them where it did so in the
whole row.

The converters end a run that has no closing message with a made-up praise and a made-up answer to it: neither is read.
Evaluation logs, reports and hidden tests in ``details`` never get in.
"""

from __future__ import annotations

from typing import Any

import msgspec

from handoff.adapters import harness, values
from handoff.adapters.calls import ending
from handoff.adapters.conversation import Conversation
from handoff.errors import RecordError
from handoff.framing import Record
from handoff.framing.losses import NOTHING, Sealed
from handoff.identity import canonical_json
from handoff.trajectory import Action, Outcome, Trajectory

INVENTED = "added by the converter that wrote the set"
_PRAISE = frozenset(
    (
        "Congratulations! You have successfully solved the task.",
        "Your solution has been verified as correct.",
        "Well done on successfully completing the task!",
        "Your implementation satisfies the task requirements.",
        "Task completed successfully.",
    )
)
_ACTIONS = frozenset(("api_action", "code_action", "message_action"))
_OBSERVATIONS = frozenset(("text_observation", "web_observation"))


class Item(msgspec.Struct, gc=False):
    """One entry of ``content``."""

    class_: str
    content: str | None = None
    source: str | None = None
    language: str | None = None
    description: str | None = None
    function: str | None = None
    kwargs: dict[str, msgspec.Raw] | None = None
    tool_call_id: str | None = None
    url: str | None = None


class Details(msgspec.Struct, gc=False):
    """``details``: what the source row kept beside the messages; most values are text."""

    run_id: str | None = None
    model_name: str | None = None
    model: str | None = None
    resolved: Any = None
    target: Any = None
    exit_status: str | None = None
    generated_patch: str | None = None
    patch: str | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")
    test_result: msgspec.Raw = msgspec.Raw(b"null")
    eval_logs: Sealed = NOTHING


class Row(msgspec.Struct, gc=False):
    """One run."""

    content: list[Item]
    id: str | None = None
    details: Details | None = None


class Adp:
    """Reads ADP standardized rows."""

    format = "adp"

    def recognises(self, record: Record) -> bool:
        """``content`` of items with a ``class_``."""
        return "content" in record.keys and "class_" in record.first("content")

    def trajectories(self, record: Record) -> tuple[Trajectory, ...]:
        """The run, alone; ``RecordError`` when a field does not fit, or no item is an action."""
        row = record.decode(Row)
        details = row.details or Details()
        items = row.content
        if _is_invented(items):
            record.lost("$.content[]", 2, reason=INVENTED)
            items = items[:-2]
        talk, states = Conversation(), harness.States()
        _read(items, talk, states, record)
        steps = talk.steps()
        task = next((m.text for m in talk.preamble if m.role == "user"), "")
        if not steps or not task:
            raise RecordError(
                "No item is an action of the agent." if task else "No text comes first, so the task is missing.",
                field="$.content",
                remedy="Standardize the row again; it needs a text_observation and an action after it.",
            )
        result = values.tested(record, details.test_result, "$.details.test_result")
        resolved = values.claim(details.resolved)
        facts: dict[str, Any] = {
            "id": row.id,
            "run_id": details.run_id,
            "cwd": states.first_folder,
            "states": states.found or None,
            "repairs": record.repairs or None,
        }
        patch = details.generated_patch or result.git_patch or details.patch
        return (
            Trajectory(
                format=self.format,
                task_id=values.task_of(row.id),
                task=task,
                repo=values.repository_of(row.id),
                model=details.model_name or details.model,
                tools=values.tool_definitions(details.tools),
                preamble=tuple(talk.preamble),
                steps=steps,
                outcome=Outcome(
                    resolved=values.claim(details.target) if resolved is None else resolved,
                    exit_status=details.exit_status,
                    ended=values.ended(details.exit_status) or ending(steps),
                    patch=patch if patch and values.is_patch_of(patch, steps) else None,
                ),
                source=canonical_json({key: value for key, value in facts.items() if value is not None}).decode(),
            ),
        )


def _is_invented(items: list[Item]) -> bool:
    """True when the last two items are a converter's praise and its answer."""
    if len(items) < 3 or items[-1].class_ != "message_action" or items[-2].class_ != "text_observation":
        return False
    return (items[-1].content or "").startswith("<finish>") and (items[-2].content or "").strip() in _PRAISE


def _read(items: list[Item], talk: Conversation, states: harness.States, record: Record) -> None:
    is_quoted = _is_quoted(items)
    number = 0
    for item in items:
        if item.class_ in _ACTIONS:
            number += 1
            said, actions = _action(item, is_quoted)
            talk.reply(said, actions=actions)
        elif item.class_ in _OBSERVATIONS:
            _heard(item, talk, states, number)
        else:
            record.lost(f"$.content[class_={item.class_[:60]}]")


def _action(item: Item, is_quoted: bool) -> tuple[str, tuple[Action, ...]]:
    said = item.description or ""
    if item.class_ == "api_action":
        kwargs = item.kwargs or {}
        if is_quoted:
            kwargs = {name: _unquoted(value) for name, value in kwargs.items()}
        arguments = values.flat(msgspec.json.encode(kwargs)).decode("utf-8", "replace")
        return said, (Action(call_id=item.tool_call_id or None, tool=item.function or "", arguments=arguments),)
    content = item.content or ""
    if item.class_ == "code_action":
        tool = item.language or "code"
        return said, (Action(call_id=item.tool_call_id or None, tool=tool, arguments=content, is_text=True),)
    if content.startswith("<finish>") and content.rstrip().endswith("</finish>"):
        message = content.rstrip()[8:-9].strip()
        return said, (Action(tool="finish", arguments=msgspec.json.encode({"message": message}).decode()),)
    return "\n".join(part for part in (said, content) if part), ()


def _heard(item: Item, talk: Conversation, states: harness.States, number: int) -> None:
    text = item.content or item.url or ""
    is_human = item.source in ("user", None)
    if not talk.steps_begun:
        states.note(0, text)
        talk.message("user" if is_human else "harness", text)
    elif harness.is_notice(text) or harness.is_review(text):
        talk.refuse()
        talk.message("harness", text)
    elif talk.awaits_result or not is_human:
        body, code, error = harness.unwrap(states.note(number, text))
        talk.result(item.tool_call_id or None, body, exit_code=code, error=error)
    else:
        talk.message("user", text)


def _is_quoted(items: list[Item]) -> bool:
    """True when every text argument of the row stands in quotes; bare numbers are no exception."""
    texts = [bytes(value) for item in items for value in (item.kwargs or {}).values() if bytes(value)[:1] == b'"']
    quoted = [text for text in texts if text.startswith(b'"\\"') and text.endswith(b'\\""') and len(text) > 5]
    return bool(quoted) and all(text in quoted or text.strip(b'"').isdigit() for text in texts)


def _unquoted(value: msgspec.Raw) -> msgspec.Raw:
    data = bytes(value)
    return msgspec.Raw(b'"' + data[3:-3] + b'"') if data.startswith(b'"\\"') else value
