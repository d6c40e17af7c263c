"""Calls as sources write them: native tool calls, and calls inside the text of a reply.

::

    native   {"id": "call_1", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}
    xml      <function=bash>\\n<parameter=command>ls</parameter>\\n</function>
    tagged   <tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>
    terminus {"analysis": "…", "plan": "…", "commands": [{"keystrokes": "ls\\n", "duration": 0.1}]}, or the same as XML
    execute  <execute_bash>\\nls\\n</execute_bash>
    fenced   ```bash\\nls\\n```

A text syntax is chosen once for a whole run. What a call means is in ``actions.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from handoff.adapters import values
from handoff.framing.losses import NOTHING, Upkeep
from handoff.trajectory import Action, Ending, Step

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FENCE = re.compile(r"```([^`\r\n]*)\r?$\n?", re.MULTILINE)
_SHELLS = ("mswea_bash_command", "bash", "sh", "shell", "console")
_EXECUTE = {"execute": "python", "execute_bash": "bash", "execute_ipython": "python", "execute_browse": "browse"}
_FINISHING = frozenset(("submit", "finish", "mark_task_complete", "attempt_completion", "task_complete"))
_ASKS_AGAIN = "Are you sure you want to mark the task as complete?"
_FIRST = json.JSONDecoder()


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a native call; arguments may be an object, or its text."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class Call(msgspec.Struct, gc=False):
    """One native call."""

    id: str | None = None
    function: Function | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")
    type: Upkeep = NOTHING
    index: Upkeep = NOTHING


def is_object(text: str) -> bool:
    """True when ``text`` is a JSON object."""
    if text.lstrip()[:1] != "{":
        return False
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def arguments_of(raw: msgspec.Raw) -> tuple[str, bool]:
    """Arguments as text, and whether they are only text. ``null`` and nothing are the empty object."""
    data = bytes(raw)
    if data[:1] == b'"':
        text = values.quoted(data)
        if not text:
            return "{}", False
        return text, not is_object(text)
    if data in (b"null", b""):
        return "{}", False
    return values.flat(data).decode("utf-8", "replace"), data[:1] != b"{"


def native(calls: list[Call]) -> tuple[Action, ...]:
    """The actions of native calls; a call without a name is kept under an empty one."""
    actions = []
    for call in calls:
        function = call.function if call.function is not None else call
        arguments, is_text = arguments_of(function.arguments)
        actions.append(Action(call_id=call.id or None, tool=function.name or "", arguments=arguments, is_text=is_text))
    return tuple(actions)


Reading = tuple[str, tuple[Action, ...]]
"""What a reply says outside its calls, and its calls."""


def xml(content: str) -> Reading:
    """``<function=…>`` blocks. Values lose one newline at each end; a missing end tag ends with the text."""
    said = []
    actions = []
    end = 0
    # str.find, not a regular expression: a lazy ".*?" over long values cost a quarter of the whole ingestion.
    while (opened := content.find("<function=", end)) >= 0:
        name, start = _tag(content, opened + 10)
        if name is None:
            break
        said.append(content[end:opened])
        closed = content.find("</function>", start)
        inside = content[start:] if closed < 0 else content[start:closed]
        end = len(content) if closed < 0 else closed + 11
        actions.append(Action(tool=name, arguments=msgspec.json.encode(_parameters(inside)).decode()))
    said.append(content[end:])
    return "".join(said).strip() if actions else content, tuple(actions)


def _parameters(inside: str) -> dict[str, str]:
    found = {}
    end = 0
    while (opened := inside.find("<parameter=", end)) >= 0:
        name, start = _tag(inside, opened + 11)
        if name is None:
            break
        closed = inside.find("</parameter>", start)
        found[name] = _trim(inside[start:] if closed < 0 else inside[start:closed])
        end = len(inside) if closed < 0 else closed + 12
    return found


def _tag(text: str, start: int) -> tuple[str | None, int]:
    """The name up to ``>`` and where what follows begins; no name when the tag is none."""
    end = text.find(">", start, start + 200)
    name = text[start:end] if end > start else ""
    return (None, start) if not name or "\n" in name else (name, end + 1)


def tagged(content: str) -> Reading:
    """``<tool_call>{json}</tool_call>`` blocks; broken JSON is kept as text under the tool ``unparsed``."""
    said = []
    actions = []
    end = 0
    while (opened := content.find("<tool_call>", end)) >= 0:
        said.append(content[end:opened])
        closed = content.find("</tool_call>", opened)
        inside = (content[opened + 11 :] if closed < 0 else content[opened + 11 : closed]).strip()
        end = len(content) if closed < 0 else closed + 12
        try:
            function = msgspec.json.decode(inside, type=Function)
        except (msgspec.DecodeError, RecursionError):
            actions.append(Action(tool="unparsed", arguments=inside, is_text=True))
            continue
        arguments, is_text = arguments_of(function.arguments)
        actions.append(Action(tool=function.name or "", arguments=arguments, is_text=is_text))
    said.append(content[end:])
    return "".join(said).strip() if actions else content, tuple(actions)


class _Reply(msgspec.Struct, gc=False):
    """A Terminus reply."""

    analysis: Any = None
    plan: Any = None
    commands: list[msgspec.Raw] | None = None
    task_complete: Any = None


class _Keystrokes(msgspec.Struct, gc=False):
    keystrokes: str


_REPLY = msgspec.json.Decoder(_Reply)
_KEYSTROKES = msgspec.json.Decoder(_Keystrokes)


def terminus_json(content: str) -> Reading:
    """Keystrokes of a Terminus reply; like its own parser, only the first object of the text is read.

    What it says is rendered as Harbor renders it, so that a run reads alike whether its calls were kept apart or not.
    """
    start = content.find("{")
    if start < 0:
        return content, ()
    try:
        _, end = _FIRST.raw_decode(content, start)
        reply = _REPLY.decode(content[start:end])
        commands = reply.commands or []
        for command in commands:
            _KEYSTROKES.decode(command)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors too
        return content, ()
    actions = [Action(tool="bash_command", arguments=bytes(command).decode()) for command in commands]
    return _terminus(content[:start], content[end:], reply.analysis, reply.plan, actions, reply.task_complete)


def terminus_xml(content: str) -> Reading:
    """The same in the tags of Terminus' other parser, which reads no entities."""
    start = content.find("<response>")
    if start < 0:
        return content, ()
    inside, end = _between(content, "<response>", "</response>", start)
    actions = []
    commands, at = _between(inside, "<commands>", "</commands>")[0], 0
    while (opened := commands.find("<keystrokes", at)) >= 0:
        head = commands.find(">", opened, opened + 200)
        if head < 0:
            break
        keys, at = _between(commands, ">", "</keystrokes>", head)
        seconds = _DURATION.search(commands, opened, head)
        call: dict[str, Any] = {"keystrokes": keys} | ({"duration": float(seconds[1])} if seconds else {})
        actions.append(Action(tool="bash_command", arguments=msgspec.json.encode(call).decode()))
    parts = [_between(inside, f"<{name}>", f"</{name}>")[0].strip() for name in ("analysis", "plan", "task_complete")]
    return _terminus(content[:start], content[end:], parts[0], parts[1], actions, parts[2])


_DURATION = re.compile(r"duration\s?=\s?[\"'](\d{1,9}(?:\.\d{1,9})?)[\"']")


def _terminus(before: str, behind: str, analysis: Any, plan: Any, actions: list[Action], complete: Any) -> Reading:
    if complete is True or str(complete).lower() in ("true", "1", "yes"):
        actions.append(Action(tool="mark_task_complete", arguments="{}"))
    said = [f"{name}: {text}" for name, text in (("Analysis", analysis), ("Plan", plan)) if text]
    return "\n".join(part for part in (before.strip(), *said, behind.strip()) if part), tuple(actions)


def _between(text: str, mark: str, close: str, start: int = 0) -> tuple[str, int]:
    """What stands between two marks, and where the second ends; a missing end mark ends with the text."""
    opened = text.find(mark, start)
    if opened < 0:
        return "", len(text)
    opened += len(mark)
    closed = text.find(close, opened)
    return (text[opened:], len(text)) if closed < 0 else (text[opened:closed], closed + len(close))


def execute(content: str) -> Reading:
    """``<execute…>`` blocks of CodeAct agents: Python, or a shell line."""
    said = []
    actions = []
    end = at = 0
    while (opened := content.find("<execute", at)) >= 0:
        name, start = _tag(content, opened + 1)
        if name not in _EXECUTE:
            at = opened + 1
            continue
        said.append(content[end:opened])
        inside, end = _between(content, ">", f"</{name}>", start - 1)
        actions.append(Action(tool=_EXECUTE[name], arguments=_trim(inside), is_text=True))
        at = end
    said.append(content[end:])
    return "".join(said).strip() if actions else content, tuple(actions)


def fenced(content: str) -> Reading:
    """A fenced command: the last shell block, else the last block without a language."""
    if "```" not in content:
        return content, ()
    blocks = list(_blocks(content))
    chosen = [b for b in blocks if b[0] in _SHELLS] or [b for b in blocks if not b[0]]
    if not chosen:
        return content, ()
    _, start, inner, outer, end = chosen[-1]
    said = (content[:start].rstrip() + "\n" + content[end:].lstrip()).strip()
    return said, (Action(tool="bash", arguments=_trim(content[inner:outer]), is_text=True),)


def _blocks(content: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Language, start, start of the inside, end of the inside, end; a block ends at the next bare fence."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(content):
        # Not "^" in the pattern: that would look at every character, where a search for the marks passes over most.
        if fence.start() and content[fence.start() - 1] != "\n":
            continue
        language = fence[1].strip()
        if opened is None:
            opened = fence
        elif not language:
            yield opened[1].strip(), opened.start(), opened.end(), fence.start(), fence.end()
            opened = None


TEXT_SYNTAXES: tuple[tuple[str, str, Callable[[str], Reading]], ...] = (
    ("xml", "<function=", xml),
    ("tagged", "<tool_call>", tagged),
    ("terminus", '"commands"', terminus_json),
    ("terminus_xml", "<commands>", terminus_xml),
    ("execute", "<execute", execute),
    ("fenced", "```", fenced),
)
"""Name, the mark that a reply in this syntax holds, and its reader; the first that fits a run is used."""


def ending(steps: Sequence[Step]) -> Ending | None:
    """How a run ended by its last step alone: with a call that says so, or in the middle of a call."""
    last = steps[-1]
    if not last.actions:
        return None
    action, seen = last.actions[-1], last.observations[len(last.actions) - 1]
    if any(shown.missing == "not_executed" or _ASKS_AGAIN in shown.text[-2_000:] for shown in last.observations):
        return None
    word = action.arguments.split(None, 1)[0] if action.is_text and action.arguments.strip() else ""
    if action.tool in _FINISHING or word in _FINISHING:
        return "submitted"
    return "cut_off" if seen.missing == "none" else None


def _trim(value: str) -> str:
    return value.removeprefix("\n").removesuffix("\n")
